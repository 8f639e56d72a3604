//! Where the queue's Redis is, as the command line says it.

use std::path::PathBuf;

use clap::Args;

use crate::config;
use crate::queue::redis::RedisSettings;

/// How to get into the queue's Redis; where it is, each subcommand asks for itself.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Queue")]
pub(super) struct RedisOptions {
    /// A file with Redis's password, read again with each connection
    #[arg(long, value_name = "FILE", env = config::REDIS_PASSWORD_FILE)]
    redis_password_file: Option<PathBuf>,
    /// A file with the certificates (PEM) that a rediss:// server may be signed by, instead of the system's
    #[arg(long, value_name = "FILE", env = config::REDIS_CA)]
    redis_ca: Option<PathBuf>,
    /// The name by which this queue is told from others in the same Redis
    #[arg(long, value_name = "NAME", default_value = "local", env = config::INSTANCE)]
    instance: String,
}

impl RedisOptions {
    pub(super) fn settings(&self, url: &str) -> RedisSettings {
        RedisSettings {
            url: url.to_owned(),
            password_file: self.redis_password_file.clone(),
            ca_file: self.redis_ca.clone(),
            instance: self.instance.clone(),
        }
    }
}
