//! Where crawlers run: as tasks of this process, or as processes of their own. Which it is, only this module knows.

#[cfg(unix)]
mod command;
#[cfg(unix)]
mod counted;
mod in_process;
#[cfg(unix)]
mod log_lines;
#[cfg(unix)]
mod processes;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

pub(super) use self::in_process::InProcess;
use super::LocalError;
use super::run::RunOptions;
#[cfg(unix)]
use super::secrets;
use crate::crawler::CrawlContext;
use crate::queue::ReleaseCause;
use crate::queue::redis::RedisSettings;
use crate::run::observe::RunInput;

/// Crawlers as processes of their own.
#[derive(Debug, Clone)]
pub struct CrawlerProcesses {
    /// At most so many; `None`: as many as the run has tokens.
    pub count: Option<u32>,
    /// The queue that they share.
    pub redis: RedisSettings,
    /// This program.
    pub program: PathBuf,
    /// What they are told about the client (but for its proxy) and about logging, as this program's command line has it.
    pub arguments: Vec<OsString>,
}

/// Starts crawlers, and sees them end.
#[async_trait]
pub(super) trait Launcher: Send + std::fmt::Debug {
    /// Starts a crawler. It may be too early for that: whoever looks again asks again.
    fn start(&mut self, token: u32, group: &str);

    /// Lets all of them finish what they have, and end.
    fn stop(&mut self);

    /// The tokens that are held.
    fn running(&self) -> BTreeSet<u32>;

    /// Waits until a crawler ends. Pends while none runs.
    async fn ended(&mut self) -> Ended;

    /// Ends all of them at once, and waits for that.
    async fn end_all(&mut self);
}

/// How a crawler ended, or several of which nobody can tell which it was.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) tokens: Vec<u32>,
    pub(super) cause: ReleaseCause,
    /// It ended badly before it had begun to work.
    pub(super) early_death: Option<EarlyDeath>,
    /// Set if the run can't go on.
    pub(super) failure: Option<LocalError>,
}

/// A crawler that came to nothing.
#[derive(Debug)]
pub(super) struct EarlyDeath {
    /// What it said last, or how it ended.
    pub(super) why: String,
    /// Somebody else killed it: that says little of the next one.
    pub(super) was_killed: bool,
}

/// Crawlers as processes that land in this process's store.
#[cfg(unix)]
pub(super) fn processes(
    context: &Arc<CrawlContext>,
    input: &RunInput,
    processes: &CrawlerProcesses,
    options: &RunOptions,
) -> Result<Box<dyn Launcher>, LocalError> {
    use self::counted::CountedLanding;
    use crate::store::landing::served::LandingServer;

    let landing = CountedLanding::new(context.landing.clone(), context.progress.clone());
    let store = LandingServer::start(Arc::new(landing))?;
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| LocalError::Crawler(error.to_string()))?;
    let names = input.nodes.iter().filter_map(|node| Some(node.spec.credential_ref.as_ref()?.name.as_str()));
    let command = command::ChildCommand {
        program: processes.program.clone(),
        run: context.run.clone(),
        parent: data_encoding::HEXLOWER.encode(&random),
        redis: processes.redis.clone(),
        store: store.address().to_owned(),
        secrets_dir: options.secrets.directory().map(PathBuf::from),
        secrets: Arc::new(secrets::tell(&options.manifests, names)),
        proxy: options.http.proxy.clone(),
        more: processes.arguments.clone(),
    };
    Ok(Box::new(processes::Processes::new(command, options.display.log_writer(), store)))
}

/// Crawlers as processes need sockets that only their user may use.
#[cfg(not(unix))]
pub(super) fn processes(
    _context: &Arc<CrawlContext>,
    _input: &RunInput,
    _processes: &CrawlerProcesses,
    _options: &RunOptions,
) -> Result<Box<dyn Launcher>, LocalError> {
    Err(LocalError::Crawler("crawlers as processes (--redis) need a system with Unix sockets".to_owned()))
}
