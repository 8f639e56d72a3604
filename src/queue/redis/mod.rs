//! The queue in Redis: durable, shared by crawlers on many machines.

pub mod acl;
#[allow(dead_code, reason = "until the queue calls it")]
mod connection;
pub mod doctor;
mod settings;

pub use self::settings::RedisSettings;
use super::{QueueError, SharedQueue};
use crate::clock::SharedClock;

/// A queue in Redis. Connects with the first call.
pub fn open(_settings: &RedisSettings, _clock: SharedClock) -> Result<SharedQueue, QueueError> {
    Err(QueueError::Refused { why: "the queue in Redis is not built yet".to_owned() })
}
