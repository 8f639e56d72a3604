//! Where the Redis is, and how to get in.

use std::path::PathBuf;

use super::fault::CallError;

/// The longest name of an instance: as a namespace.
const MAX_INSTANCE: usize = 63;

/// Refuses what can't name an instance: the name is part of every key, and of the users' rights.
pub(crate) fn check_instance(instance: &str) -> Result<(), CallError> {
    let is_sound = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    if instance.is_empty() || instance.len() > MAX_INSTANCE || !instance.chars().all(is_sound) {
        let why = format!("the instance {instance:?} can't be one: it must have 1 to 63 of a-z, 0-9, '-' and '.'");
        return Err(CallError::Refused(why));
    }
    Ok(())
}

/// Where the Redis is, and how to get in. Never holds a password in its `Debug` text.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisSettings {
    /// `redis://[user[:password]@]host[:port][/database]`, `rediss://…` for TLS, `unix:///path`, or
    /// `redis+sentinel://host:port[,host:port…]/service[/database]`.
    pub url: String,
    /// A file with the password: read again with each connection, so that it can be changed.
    pub password_file: Option<PathBuf>,
    /// A file with the certificates (PEM) that a `rediss://` server may be signed by, instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// The instance: all keys are `trawler:{instance}:…`. 1 to 63 of `a-z`, `0-9`, `-` and `.`.
    pub instance: String,
}

impl std::fmt::Debug for RedisSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisSettings").field("instance", &self.instance).finish_non_exhaustive()
    }
}
