//! A landing for crawlers of other processes of this machine: served over a Unix socket, one frame for each request and
//! answer, many of them under way at a time.
//!
//! The socket lies in a directory that only its user may enter; whoever can connect may write, so nobody else can. A client
//! never connects again: a process that held the store and is gone has lost its session, and whoever takes over starts
//! crawlers of its own.

mod client;
mod server;
mod wire;

pub use self::client::LandingClient;
pub use self::server::LandingServer;

/// What addresses of such landings begin with.
pub const SCHEME: &str = "unix://";
