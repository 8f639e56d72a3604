//! Crawlers as processes of this machine.
//!
//! A child is given what it needs by its arguments, its environment, and its standard input: there the Secrets of the
//! manifests are told, because neither other users (arguments) nor whoever looks at the disk after a crash (a directory) may
//! read them, an environment is too small for the keys of a thousand nodes, and a pipe is gone with its process.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Child;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::super::LocalError;
use super::super::crawl::CrawlExit;
use super::super::display::LogWriter;
use super::command::ChildCommand;
use super::log_lines::forward;
use super::{EarlyDeath, Ended, Launcher};
use crate::queue::ReleaseCause;
use crate::store::landing::served::LandingServer;

/// A crawler that lives for less is followed by another one after a pause only.
const SHORT_LIFE: Duration = Duration::from_secs(1);

/// The pause after a short life; doubles with each further one …
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// … up to this, if it had begun to work,
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// … and to this, if it came to nothing at all.
const LONGEST_PAUSE_AT_START: Duration = Duration::from_secs(10);

/// A child that was told to end and has not is killed: its own grace, and what it takes to tell the queue.
const KILL_AFTER: Duration = Duration::from_secs(40);

/// Crawlers as processes.
#[derive(Debug)]
pub(in crate::local) struct Processes {
    command: ChildCommand,
    screen: LogWriter,
    store: LandingServer,
    stop: CancellationToken,
    kill: CancellationToken,
    children: JoinSet<Death>,
    running: BTreeMap<u32, Arc<str>>,
    started: u64,
    pause: Duration,
    not_before: Option<Instant>,
}

/// How a child ended.
#[derive(Debug)]
struct Death {
    token: u32,
    status: Result<ExitStatus, String>,
    lived: Duration,
    /// Whether it was asked to end.
    was_told: bool,
    /// What it said last.
    last_words: Option<String>,
}

impl Processes {
    pub(in crate::local) fn new(command: ChildCommand, screen: LogWriter, store: LandingServer) -> Self {
        Self {
            command,
            screen,
            store,
            stop: CancellationToken::new(),
            kill: CancellationToken::new(),
            children: JoinSet::new(),
            running: BTreeMap::new(),
            started: 0,
            pause: Duration::ZERO,
            not_before: None,
        }
    }

    /// Frees the token, and says what the death of its holder means.
    fn bury(&mut self, death: Death) -> Ended {
        let Death { token, status, lived, was_told, last_words } = death;
        let uid = self.running.remove(&token);
        let exit = status.as_ref().ok().and_then(ExitStatus::code).and_then(CrawlExit::from_code);
        let cause = match exit {
            Some(
                CrawlExit::Drained | CrawlExit::Idle | CrawlExit::Frozen | CrawlExit::Deadline | CrawlExit::Terminated,
            ) => ReleaseCause::Finished,
            // What it worked on is not to blame.
            Some(CrawlExit::QueueLost | CrawlExit::Fenced | CrawlExit::StoreLost | CrawlExit::Configuration) => {
                ReleaseCause::Disrupted
            }
            _ if was_told => ReleaseCause::Finished,
            Some(CrawlExit::Failed) | None => ReleaseCause::Crashed,
        };
        let how = match &status {
            Ok(status) => status.to_string(),
            Err(why) => why.clone(),
        };
        let words = last_words.unwrap_or_else(|| how.clone());
        // Who came as far as the store was started as it should be; what ends it later is another matter.
        let has_begun = uid.as_ref().is_some_and(|uid| self.store.has_met(uid));
        let is_early = !has_begun && cause != ReleaseCause::Finished;
        let is_orderly = cause == ReleaseCause::Finished;
        if is_orderly {
            info!(token, ?uid, "crawler process ended: {how}");
        } else {
            warn!(token, ?uid, "crawler process ended: {how}; another one takes its place");
        }
        if is_early || (lived < SHORT_LIFE && exit != Some(CrawlExit::Drained)) {
            let longest = if has_begun { LONGEST_PAUSE } else { LONGEST_PAUSE_AT_START };
            self.pause = (self.pause * 2).clamp(FIRST_PAUSE, longest);
            self.not_before = Some(Instant::now() + self.pause);
        } else {
            self.pause = Duration::ZERO;
        }
        let was_killed = status.is_ok_and(|status| status.signal() == Some(Signal::KILL.as_raw()));
        let early_death = is_early.then(|| EarlyDeath { why: words.clone(), was_killed });
        let failure = (exit == Some(CrawlExit::Configuration)).then_some(LocalError::Crawler(words));
        Ended { tokens: vec![token], cause, early_death, failure }
    }
}

#[async_trait]
impl Launcher for Processes {
    fn start(&mut self, token: u32, group: &str) {
        if self.not_before.is_some_and(|moment| Instant::now() < moment) {
            return;
        }
        self.started += 1;
        let uid: Arc<str> = self.command.uid(self.started).into();
        let began = Instant::now();
        let spawned = self.command.for_crawler(token, group, &uid).spawn();
        self.running.insert(token, uid.clone());
        let mut child = match spawned {
            Ok(child) => child,
            Err(error) => {
                let why = format!("{} can't be started: {error}", self.command.program().display());
                let last_words = Some(why.clone());
                let death = Death { token, status: Err(why), lived: Duration::ZERO, was_told: false, last_words };
                self.children.spawn(std::future::ready(death));
                return;
            }
        };
        debug!(token, %uid, pid = child.id(), "crawler process started");
        let secrets = self.command.secrets();
        let (stop, kill, screen) = (self.stop.clone(), self.kill.clone(), self.screen.clone());
        self.children.spawn(async move {
            let (input, errors) = (child.stdin.take(), child.stderr.take());
            let tell = async {
                if let Some(mut input) = input {
                    // A child that died before it read them is seen by its end.
                    drop(input.write_all(secrets.expose().as_bytes()).await);
                }
            };
            let (status, (), last_words) =
                tokio::join!(attend(&mut child, &stop, &kill), tell, forward(errors, token, screen));
            let (status, was_told) = status;
            Death {
                token,
                status: status.map_err(|error| error.to_string()),
                lived: began.elapsed(),
                was_told,
                last_words,
            }
        });
    }

    fn stop(&mut self) {
        self.stop.cancel();
    }

    fn running(&self) -> BTreeSet<u32> {
        self.running.keys().copied().collect()
    }

    async fn ended(&mut self) -> Ended {
        match self.children.join_next().await {
            None => std::future::pending().await,
            Some(Ok(death)) => self.bury(death),
            Some(Err(error)) => {
                // Which one it was is not known: all of them are taken as crashed.
                warn!("a crawler process could not be watched any more: {error}");
                let tokens = self.running().into_iter().collect();
                self.end_all().await;
                Ended { tokens, cause: ReleaseCause::Crashed, early_death: None, failure: None }
            }
        }
    }

    async fn end_all(&mut self) {
        self.kill.cancel();
        while self.children.join_next().await.is_some() {}
        self.running.clear();
        self.kill = CancellationToken::new();
    }
}

/// Waits for a child's end; tells it to end, or ends it, when that is wanted. Returns whether it was told.
async fn attend(
    child: &mut Child,
    stop: &CancellationToken,
    kill: &CancellationToken,
) -> (std::io::Result<ExitStatus>, bool) {
    tokio::select! {
        status = child.wait() => return (status, false),
        () = stop.cancelled() => {}
        () = kill.cancelled() => {}
    }
    if !kill.is_cancelled() {
        terminate(child);
        tokio::select! {
            status = child.wait() => return (status, true),
            () = kill.cancelled() => {}
            () = tokio::time::sleep(KILL_AFTER) => warn!("a crawler process did not end when it was told to, and is killed"),
        }
    }
    if let Err(error) = child.start_kill() {
        warn!("a crawler process could not be killed: {error}");
    }
    (child.wait().await, true)
}

/// A child that has not been waited for keeps its id, so nobody else is told.
fn terminate(child: &Child) {
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(Err(error)) = pid.map(|pid| kill_process(pid, Signal::TERM)) {
        warn!("a crawler process could not be told to end: {error}");
    }
}

/// How a child's streams are connected.
pub(super) fn connect(command: &mut tokio::process::Command) {
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    // Ctrl-C at a terminal is for the process that started it, which tells its children when it has understood.
    command.process_group(0);
    command.kill_on_drop(true);
}
