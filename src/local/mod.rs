//! Making it so, on one machine: the same verbs as on a cluster (observe, plan, apply, report), over files, with the
//! crawlers as tasks of this process.

mod apply;
mod display;
pub mod export;
mod nodes;
mod observe;
mod report;
mod run;
pub mod secrets;
mod text;
mod waiting;

use thiserror::Error;

pub use display::{Display, DisplayMode};
pub use observe::RunInput;
pub use report::{NodeReport, NodeResult, Report, RunOutcome, Totals};
pub use run::{RunEnd, RunOptions, run};

use crate::crawler::CrawlerError;
use crate::queue::QueueError;
use crate::store::StoreError;

/// Why a run could not be carried through.
#[derive(Debug, Error)]
pub enum LocalError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The queue failed.
    #[error(transparent)]
    Queue(#[from] QueueError),
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
    /// The report could not be written.
    #[error("can't write {path}: {source}")]
    Report {
        /// Where.
        path: String,
        /// Why.
        source: std::io::Error,
    },
}

impl From<CrawlerError> for LocalError {
    fn from(error: CrawlerError) -> Self {
        match error {
            CrawlerError::Queue(error) => Self::Queue(error),
            CrawlerError::Store(error) => Self::Store(error),
        }
    }
}
