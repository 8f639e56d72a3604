//! What a holder asks for, and what it gets: places, tasks, permits.

use std::time::Duration;

use jiff::Timestamp;

use super::Gate;
use crate::task::{RunId, Task, TaskId};

/// Asks for a token's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinRequest {
    /// The run.
    pub run: RunId,
    /// The token's number.
    pub token: u32,
    /// Who asks: a Job's UID, or a random id locally.
    pub uid: String,
    /// The crawler's group.
    pub group: String,
}

/// Proof of having joined. Fenced by a later join with the same token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The run.
    pub run: RunId,
    /// The token's number.
    pub token: u32,
    /// Who joined.
    pub uid: String,
    /// The crawler's group.
    pub group: String,
    /// Raised by every join.
    pub fence: u64,
    /// How long its leases last without renewal.
    pub lease: Duration,
}

/// A holder's lease on a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseRef {
    /// The task.
    pub task: TaskId,
    /// The lease.
    pub lease: u64,
}

/// A task, leased, with a permit for its first request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leased {
    /// The task.
    pub task: Task,
    /// The lease.
    pub lease: LeaseRef,
    /// How often it was handed out before, without the times it was released untried or its holder was disrupted.
    pub attempt: u32,
}

/// What a claim found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// Tasks, at least one.
    Tasks(Vec<Leased>),
    /// Nothing is eligible now.
    Wait {
        /// Come back then, or when [`Queue::wait`](super::Queue::wait) returns.
        until: Timestamp,
        /// To be given to [`Queue::wait`](super::Queue::wait).
        sequence: u64,
    },
    /// Nothing is left: no task queued, delayed or leased.
    Drained,
    /// The run is frozen.
    Frozen,
}

/// An answer to a request for a permit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permit {
    /// Send now.
    Granted,
    /// Not before this moment.
    Wait {
        /// Ask again then.
        until: Timestamp,
        /// The gate that is closed.
        gate: Gate,
    },
    /// The run is frozen: release the task uncharged.
    Frozen,
}
