//! The server that the queue and the store share, if they are in Redis: where it is, how to get in, the connection, and which
//! users it needs. What is said over it is each port's own affair.

pub mod acl;
mod address;
mod connection;
mod fault;
mod settings;

pub(crate) use self::connection::Connection;
pub use self::connection::Timing;
pub(crate) use self::fault::CallError;
pub use self::settings::RedisSettings;
pub(crate) use self::settings::check_instance;
