//! What every run goes through, wherever its crawlers are: what it was asked, what is known of it, what its crawlers are
//! told, its first tasks, the closing of its books and its report. [`local`](crate::local) and
//! [`operator`](crate::operator) make it so around this.

pub(crate) mod approvals;
pub(crate) mod books;
pub(crate) mod briefs;
mod conclusion;
pub(crate) mod health;
pub(crate) mod observe;
mod report;
pub(crate) mod seeds;

use thiserror::Error;

pub(crate) use conclusion::{Concluded, removed_nodes};
pub use observe::{RunInput, plan_from};
pub use report::{NodeHealth, NodeReport, NodeResult, Report, RunOutcome, Totals};

pub(crate) use crate::crawler::StageSeconds;
use crate::queue::QueueError;
use crate::store::StoreError;

/// Why a step of a run failed: one of its two ports did.
#[derive(Debug, Error)]
pub enum RunError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The queue failed.
    #[error(transparent)]
    Queue(#[from] QueueError),
}
