//! The command line of a crawler process.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::process::Command;

use super::processes::connect;
use crate::config;
use crate::crawler::credential::Secret;
use crate::crawler::http::ProxyUrl;
use crate::queue::redis::RedisSettings;
use crate::task::RunId;

/// How a crawler of a run is started.
#[derive(Debug)]
pub(in crate::local) struct ChildCommand {
    pub(in crate::local) program: PathBuf,
    pub(in crate::local) run: RunId,
    /// Tells this process's crawlers from those of others.
    pub(in crate::local) parent: String,
    pub(in crate::local) redis: RedisSettings,
    pub(in crate::local) store: String,
    pub(in crate::local) secrets_dir: Option<PathBuf>,
    /// JSON, told through standard input.
    pub(in crate::local) secrets: Arc<Secret>,
    pub(in crate::local) proxy: Option<ProxyUrl>,
    /// Further arguments.
    pub(in crate::local) more: Vec<OsString>,
}

impl ChildCommand {
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    pub(super) fn secrets(&self) -> Arc<Secret> {
        self.secrets.clone()
    }

    /// The id of the crawler that is started as the `number`th.
    pub(super) fn uid(&self, number: u64) -> String {
        format!("{}-{number}", self.parent)
    }

    pub(super) fn for_crawler(&self, token: u32, group: &str, uid: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(self.arguments(token, group, uid));
        // What may hold a password is not for those who can list processes.
        command.env(config::REDIS, &self.redis.url);
        if let Some(proxy) = &self.proxy {
            command.env(config::PROXY, proxy.0.as_str());
        }
        connect(&mut command);
        command
    }

    fn arguments(&self, token: u32, group: &str, uid: &str) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["crawl".into(), "--secrets-stdin".into()];
        let mut add = |name: &str, value: OsString| arguments.extend([format!("--{name}").into(), value]);
        add("run", self.run.as_str().into());
        add("token", token.to_string().into());
        add("uid", uid.into());
        add("group", group.into());
        add("instance", self.redis.instance.as_str().into());
        add("store", self.store.as_str().into());
        for (name, path) in [
            ("redis-password-file", &self.redis.password_file),
            ("redis-ca", &self.redis.ca_file),
            ("secrets-dir", &self.secrets_dir),
        ] {
            if let Some(path) = path {
                add(name, path.into());
            }
        }
        arguments.extend(self.more.iter().cloned());
        arguments
    }
}
