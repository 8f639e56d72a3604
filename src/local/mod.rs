//! Making it so, on one machine: the same verbs as on a cluster (observe, plan, apply, report), over files, with the
//! crawlers as tasks of this process, or as processes of their own over a queue in Redis.

mod apply;
mod choose;
mod conclude;
pub mod crawl;
pub mod discover;
mod display;
pub mod export;
pub mod finding;
pub mod grid;
mod launch;
pub mod manifests;
mod nodes;
pub mod queue;
pub mod records;
mod result_files;
mod run;
pub mod secrets;
pub(crate) mod suggest;
mod summary;
mod supervise;
pub mod text;
mod time_left;
pub mod top;
pub mod validate;
mod waiting;

use thiserror::Error;

pub use crate::run::{NodeHealth, NodeReport, NodeResult, Report, RunInput, RunOutcome, Totals, plan_from};
pub use choose::choose_run;
pub use conclude::read_report;
pub use display::{Display, DisplayMode, LogWriter};
pub use launch::CrawlerProcesses;
pub use run::{Adapters, REPORT_FILE, RunEnd, RunOptions, run, run_with};

use crate::crawler::CrawlerError;
use crate::queue::QueueError;
use crate::run::RunError;
use crate::store::StoreError;

/// Why a run could not be carried through.
#[derive(Debug, Error)]
pub enum LocalError {
    /// The output directory can't be used.
    #[error(transparent)]
    Output(StoreError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The queue failed.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// Where the queue is said to be can't be.
    #[error(transparent)]
    Settings(QueueError),
    /// A run of this name is in the queue, and somebody else's.
    #[error(
        "run {run} is in the queue already, and was not begun with the state in this directory; choose another name for \
         this one's with --instance (now {instance:?}), or close that run"
    )]
    ForeignRun {
        /// The run.
        run: crate::task::RunId,
        /// The instance.
        instance: String,
    },
    /// Crawlers die as soon as they are started.
    #[error("{deaths} crawlers in a row ended as soon as they were started: {why}")]
    Crawlers {
        /// How many.
        deaths: u32,
        /// What the last one said.
        why: String,
    },
    /// A crawler can't be started, or says that it can't work as it was asked to.
    #[error("a crawler can't be started: {0}")]
    Crawler(String),
    /// The client could not be set up.
    #[error("the HTTP client can't be set up: {0}")]
    Http(String),
    /// What an unfinished run was started with can't be read.
    #[error("run {run} can't be resumed: what it was started with can't be read ({why}); abandon it with --restart")]
    UnreadableInput {
        /// The run.
        run: crate::task::RunId,
        /// Why.
        why: String,
    },
    /// The result could not be written.
    #[error(transparent)]
    Export(#[from] export::ExportError),
    /// The output directory holds a file that no run wrote.
    #[error("{path} is there and no run of trawler wrote it; move it away, or choose another directory with -d")]
    ForeignFile {
        /// The file.
        path: String,
    },
    /// The report of an earlier run can't be read.
    #[error("can't read {path}: {source}; choose another directory with -d, or remove the file")]
    ReadReport {
        /// Where.
        path: String,
        /// Why.
        source: std::io::Error,
    },
}

impl LocalError {
    /// Whether the person who runs the command must change something before it can work: exit code 2.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Output(_)
            | Self::Settings(_)
            | Self::ForeignRun { .. }
            | Self::ForeignFile { .. }
            | Self::UnreadableInput { .. }
            | Self::ReadReport { .. } => true,
            Self::Store(_)
            | Self::Queue(_)
            | Self::Crawlers { .. }
            | Self::Crawler(_)
            | Self::Http(_)
            | Self::Export(_) => false,
        }
    }
}

impl From<RunError> for LocalError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Queue(error) => Self::Queue(error),
            RunError::Store(error) => Self::Store(error),
        }
    }
}

impl From<CrawlerError> for LocalError {
    fn from(error: CrawlerError) -> Self {
        match error {
            CrawlerError::Queue(error) => Self::Queue(error),
            CrawlerError::Store(error) => Self::Store(error),
        }
    }
}
