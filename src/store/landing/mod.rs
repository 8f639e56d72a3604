//! What a crawler needs of a store, and no more: where its records land.
//!
//! [`StoreLanding`] stands before the store, in the one process that has it open, and knows what all crawlers of a run
//! share. Crawlers of that process are given it as it is; crawlers of other processes reach it through a socket
//! ([`served`]). So each section is opened once, whoever works on it, and limits and counts hold over all of them.
//!
//! A store that crawlers reach themselves has a landing of its own ([`RedisLanding`](super::redis::RedisLanding)): what all share
//! lies in it.

mod followed;
mod sections;
#[cfg(unix)]
pub mod served;
mod tries;

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use self::sections::StoreLanding;
pub(in crate::store) use self::tries::Earlier;
use super::{ClosedOrigin, Committed, Opened, Spending, StoreError, TaskEffects, Traversal};
use crate::finding::TaskFailure;
use crate::task::{RunId, SectionKey, TaskId};

/// What a crawler needs of a store.
#[async_trait]
pub trait Landing: Send + Sync + std::fmt::Debug {
    /// The traversal of a section, as it stands: [`Opened::Open`] has what all crawlers of the run have brought so far.
    /// Cheap, once one of them has opened it.
    async fn open_traversal(&self, run: &RunId, section: &SectionKey) -> Result<Opened, StoreError>;

    /// [`Store::commit`](super::Store::commit), with what the task's earlier tries came to ([`Landing::note_try`]) added.
    async fn commit(&self, traversal: &Traversal, effects: TaskEffects) -> Result<Committed, StoreError>;

    /// A try of a task came to nothing, and another one will follow, perhaps by another crawler.
    async fn note_try(&self, failed: FailedTry) -> Result<(), StoreError>;

    /// [`Store::close_origins`](super::Store::close_origins).
    async fn close_origins(&self, closed: Vec<ClosedOrigin>) -> Result<(), StoreError>;
}

/// A shared landing.
pub type SharedLanding = Arc<dyn Landing>;

/// A try that came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedTry {
    /// The task.
    pub task: TaskId,
    /// Requests sent: they count as the task's when it is settled.
    pub requests: u64,
    /// What they cost, counted at once.
    pub spending: Spending,
    /// Why it failed; `None`: it was put back untried.
    pub failure: Option<TaskFailure>,
}
