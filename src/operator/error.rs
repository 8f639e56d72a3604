//! Why a reconcile failed, and when it is tried again.

use std::time::Duration;

use thiserror::Error;

use crate::queue::QueueError;
use crate::run::RunError;
use crate::store::StoreError;

/// Why a reconcile failed.
#[derive(Debug, Error)]
pub(crate) enum OperatorError {
    /// The API server did not do what was asked.
    #[error("the API server: {0}")]
    Kube(#[from] kube::Error),
    /// The store failed.
    #[error("the store: {0}")]
    Store(#[from] StoreError),
    /// The queue failed.
    #[error("the queue: {0}")]
    Queue(#[from] QueueError),
    /// What a run was begun with can't be read.
    #[error("what run {run} was begun with can't be read ({why}); it was begun by another version of trawler")]
    UnreadableRun {
        /// The run.
        run: String,
        /// Why.
        why: String,
    },
    /// Somebody else leads by now.
    #[error("this operator does not lead any more")]
    NotLeading,
}

impl From<RunError> for OperatorError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Store(error) => Self::Store(error),
            RunError::Queue(error) => Self::Queue(error),
        }
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

impl OperatorError {
    /// What it is counted as.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Kube(kube::Error::Api(status)) if status.is_conflict() => "conflict",
            Self::Kube(_) => "api",
            Self::Store(_) => "store",
            Self::Queue(_) => "queue",
            Self::UnreadableRun { .. } => "unreadable_run",
            Self::NotLeading => "not_leading",
        }
    }

    /// The pause before it is tried again, after so many failures in a row.
    pub(crate) fn pause(failures: u32) -> Duration {
        FIRST_PAUSE.saturating_mul(1 << failures.min(10)).min(LONGEST_PAUSE)
    }
}
