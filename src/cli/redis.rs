//! The options of commands that ask a queue in Redis.

use std::path::PathBuf;

use clap::Args;

use super::common::fail;
use super::exit;
use crate::clock::SharedClock;
use crate::config;
use crate::queue::SharedQueue;
use crate::queue::redis::{RedisSettings, open};

/// Where the queue is.
#[derive(Clone, Args)]
#[command(next_help_heading = "Redis")]
pub(super) struct RedisOptions {
    /// Where the queue's Redis is: `redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]`, `rediss://…` for TLS, `unix:///PATH`,
    /// or `redis+sentinel://HOST:PORT[,HOST:PORT…]/SERVICE[/DATABASE]`
    #[arg(long, global = true, value_name = "URL", env = config::REDIS, hide_env_values = true)]
    redis: Option<String>,
    /// A file with the password, read again with each connection
    #[arg(long, global = true, value_name = "FILE", env = config::REDIS_PASSWORD_FILE)]
    redis_password_file: Option<PathBuf>,
    /// A file with the certificates (PEM) that a `rediss://` server may be signed by, instead of the system's
    #[arg(long, global = true, value_name = "FILE", env = config::REDIS_CA)]
    redis_ca: Option<PathBuf>,
    /// The instance: its keys in Redis are `trawler:{NAME}:…`
    #[arg(long, global = true, value_name = "NAME", env = config::INSTANCE, default_value = "default")]
    pub(super) instance: String,
}

/// Never the URL: it may hold a password.
impl std::fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisOptions").field("instance", &self.instance).finish_non_exhaustive()
    }
}

impl RedisOptions {
    /// Whether a queue in Redis is asked for.
    pub(super) fn are_given(&self) -> bool {
        self.redis.is_some()
    }

    /// The settings; `Err` is the exit code.
    pub(super) fn settings(&self) -> Result<RedisSettings, u8> {
        let Some(url) = self.redis.clone() else {
            let why = format_args!("say where the queue is: --redis redis://HOST, or the variable {}", config::REDIS);
            return Err(fail(why, exit::USAGE));
        };
        Ok(RedisSettings {
            url,
            password_file: self.redis_password_file.clone(),
            ca_file: self.redis_ca.clone(),
            instance: self.instance.clone(),
        })
    }

    /// The server, as it may be shown: without user, password and parameters.
    pub(super) fn server(&self) -> &str {
        let url = self.redis.as_deref().unwrap_or_default();
        let address = url.rsplit_once('@').map_or(url, |(_, address)| address);
        address.split(['?', '#']).next().unwrap_or_default()
    }

    /// The queue; `Err` is the exit code.
    pub(super) fn open(&self, clock: SharedClock) -> Result<SharedQueue, u8> {
        // What the settings are refused for is in the arguments.
        open(&self.settings()?, clock).map_err(|error| fail(error, exit::USAGE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_shown_without_its_password() {
        let shown = |url: &str| {
            let options = RedisOptions {
                redis: Some(url.to_owned()),
                redis_password_file: None,
                redis_ca: None,
                instance: "default".to_owned(),
            };
            (options.server().to_owned(), format!("{options:?}"))
        };
        let debug = "RedisOptions { instance: \"default\", .. }".to_owned();
        for (url, server) in [
            ("redis://host:6379/2", "redis://host:6379/2"),
            ("rediss://user:se@cr/et@host:6379", "host:6379"),
            ("redis+sentinel://:secret@a:1,b:2/main", "a:1,b:2/main"),
            ("unix:///run/redis.sock?pass=secret", "unix:///run/redis.sock"),
            ("redis://host#secret", "redis://host"),
        ] {
            assert_eq!(shown(url), (server.to_owned(), debug.clone()));
        }
    }
}
