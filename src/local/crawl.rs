//! A crawler as a process of its own: everything it needs comes by its arguments, its environment and the queue.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::nodes::{FromBriefs, retry_policy};
use super::secrets::SecretSources;
use crate::api::RunMode;
use crate::clock::{Clock, SharedClock};
use crate::crawler::http::{HttpClient, HttpConfig};
use crate::crawler::{CrawlContext, CrawlEnd, Crawler, CrawlerError, Nodes, Progress};
use crate::planner::RunBrief;
use crate::protocol::registry::Readers;
use crate::queue::{Patience, QueueError, SharedQueue};
use crate::store::landing::SharedLanding;
use crate::store::{DeletionGuard, StoreError};
use crate::task::RunId;

/// A queue that is away for longer is lost.
const PATIENCE: Duration = Duration::from_mins(1);

/// What is under way when a crawler is told to end has so long to finish: less than the 30 s after which Kubernetes kills.
const GRACE: Duration = Duration::from_secs(20);

/// The clock is looked at so often: it may be set.
const CLOCK_LOOK: Duration = Duration::from_secs(30);

/// What a crawler's process is told when it is started.
#[derive(Debug)]
pub struct CrawlOptions {
    /// The run.
    pub run: RunId,
    /// Its token.
    pub token: u32,
    /// Who it is, unlike any other crawler.
    pub uid: String,
    /// The group of nodes that it serves.
    pub group: String,
    /// The client's settings: what it may ask is decided by whoever starts it, never by the queue.
    pub http: HttpConfig,
    /// Where Secrets come from.
    pub secrets: SecretSources,
    /// Cancelled to ask for an orderly end.
    pub stop: CancellationToken,
    /// With nothing to do it stays for so long; `None`: until nothing is left.
    pub linger: Option<Duration>,
    /// Time.
    pub clock: SharedClock,
}

/// How a crawler's process ends: its exit code, which the process that started it understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrawlExit {
    /// Nothing is left to do.
    Drained,
    /// Something else went wrong.
    Failed,
    /// What it was started with can't be used.
    Configuration,
    /// The run is frozen.
    Frozen,
    /// The run's deadline passed.
    Deadline,
    /// The queue has lost the run, or is away for too long.
    QueueLost,
    /// Another crawler has its place.
    Fenced,
    /// The store is gone: with the process that held it, if that is another one.
    StoreLost,
    /// What is left waits for longer than it lingers.
    Idle,
    /// It was told to end, and did so in order.
    Terminated,
}

impl CrawlExit {
    const ALL: [Self; 10] = [
        Self::Drained,
        Self::Failed,
        Self::Configuration,
        Self::Frozen,
        Self::Deadline,
        Self::QueueLost,
        Self::Fenced,
        Self::StoreLost,
        Self::Idle,
        Self::Terminated,
    ];

    /// The exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Drained => 0,
            Self::Failed => 1,
            Self::Configuration => 2,
            Self::Frozen => 20,
            Self::Deadline => 21,
            Self::QueueLost => 22,
            Self::Fenced => 23,
            Self::StoreLost => 24,
            Self::Idle => 25,
            Self::Terminated => 143,
        }
    }

    /// What an exit code says.
    pub fn from_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|exit| i32::from(exit.code()) == code)
    }
}

/// How a crawler ended, and why if it ended badly: a sentence.
#[derive(Debug, PartialEq, Eq)]
pub struct CrawlOutcome {
    /// The exit code.
    pub exit: CrawlExit,
    /// Why.
    pub why: Option<String>,
}

impl CrawlOutcome {
    fn new(exit: CrawlExit) -> Self {
        Self { exit, why: None }
    }

    /// It ended badly, for this reason.
    pub fn because(exit: CrawlExit, why: impl Into<String>) -> Self {
        Self { exit, why: Some(why.into()) }
    }
}

impl From<&QueueError> for CrawlExit {
    fn from(error: &QueueError) -> Self {
        match error {
            QueueError::NoSuchRun { .. } | QueueError::Lost { .. } | QueueError::Unreachable { .. } => Self::QueueLost,
            QueueError::Fenced { .. } | QueueError::NoPlaceFree { .. } => Self::Fenced,
            QueueError::Refused { .. } | QueueError::BadConfig { .. } => Self::Configuration,
            QueueError::Frozen { .. } => Self::Frozen,
            QueueError::RunExists { .. } | QueueError::LeaseLost { .. } | QueueError::NoSuchNode { .. } => Self::Failed,
        }
    }
}

impl From<&StoreError> for CrawlExit {
    fn from(error: &StoreError) -> Self {
        match error {
            StoreError::Gone { .. } | StoreError::Lost { .. } => Self::StoreLost,
            StoreError::Superseded { .. } | StoreError::SessionOver { .. } | StoreError::NoSuchRun { .. } => {
                Self::Fenced
            }
            _ => Self::Failed,
        }
    }
}

impl From<CrawlerError> for CrawlOutcome {
    fn from(error: CrawlerError) -> Self {
        let exit = match &error {
            CrawlerError::Queue(error) => error.into(),
            CrawlerError::Store(error) => error.into(),
        };
        Self::because(exit, error.to_string())
    }
}

/// Works for a run until nothing is left to do, or something ends that.
pub async fn crawl(queue: SharedQueue, landing: SharedLanding, options: CrawlOptions) -> CrawlOutcome {
    let given_up = CancellationToken::new();
    let patience = Patience::default().at_most(PATIENCE).until(given_up.clone());
    let brief = match patience.with(|| queue.brief(&options.run)).await {
        Ok(brief) => brief,
        Err(error) => return CrawlOutcome::because((&error).into(), error.to_string()),
    };
    let brief = match RunBrief::read(&brief) {
        Ok(brief) => brief,
        Err(why) => return CrawlOutcome::because(CrawlExit::Configuration, why),
    };
    let http = match HttpClient::new(options.http.clone(), options.clock.clone()) {
        Ok(http) => http,
        Err(error) => return CrawlOutcome::because(CrawlExit::Configuration, error.to_string()),
    };
    let nodes = FromBriefs {
        secrets: options.secrets,
        readers: Readers::new(),
        max_answer_bytes: options.http.max_decoded_bytes,
    };
    let context = CrawlContext {
        run: options.run,
        queue,
        landing,
        http: Arc::new(http),
        nodes: Nodes::from_briefs(nodes),
        retries: retry_policy(&brief.retries),
        guard: DeletionGuard { max_percent: brief.deletion_max_percent, min_records: brief.deletion_min_records },
        approved_deletions: brief.approved_deletions,
        incremental: brief.mode == RunMode::Incremental,
        concurrency: brief.concurrency as usize,
        clock: options.clock.clone(),
        // Watched by whoever holds the store.
        progress: Arc::new(Progress::default()),
        patience,
    };
    let stop = options.stop.child_token();
    let crawler = Crawler::new(Arc::new(context), stop.clone()).with_grace(GRACE).with_linger(options.linger);
    let end_in_time = async {
        tokio::select! {
            () = reached(brief.deadline, options.clock.as_ref()) => stop.cancel(),
            () = stop.cancelled() => {}
        }
        // Whoever waits for a queue that is away has no longer for it than for what is under way.
        tokio::time::sleep(GRACE).await;
        given_up.cancel();
        std::future::pending::<CrawlOutcome>().await
    };
    let end = tokio::select! {
        end = crawler.run(options.token, options.uid, options.group) => end,
        outcome = end_in_time => return outcome,
    };
    match end {
        Ok(CrawlEnd::Drained) => CrawlOutcome::new(CrawlExit::Drained),
        Ok(CrawlEnd::Frozen) => CrawlOutcome::new(CrawlExit::Frozen),
        Ok(CrawlEnd::Idle) => CrawlOutcome::new(CrawlExit::Idle),
        Ok(CrawlEnd::Stopped) if options.stop.is_cancelled() => CrawlOutcome::new(CrawlExit::Terminated),
        Ok(CrawlEnd::Stopped) => CrawlOutcome::new(CrawlExit::Deadline),
        Err(error) => error.into(),
    }
}

/// Returns when a moment has come; never, if there is none.
async fn reached(moment: Option<Timestamp>, clock: &dyn Clock) {
    let Some(moment) = moment else { return std::future::pending().await };
    loop {
        match Duration::try_from(moment.duration_since(clock.now())) {
            Ok(left) if !left.is_zero() => tokio::time::sleep(left.min(CLOCK_LOOK)).await,
            _ => return,
        }
    }
}
