//! Why a call was refused.

use thiserror::Error;

use crate::outcome::Outcome;
use crate::task::{NodeName, RunId, TaskId};

/// Why a call was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QueueError {
    /// The run has no queue here: it was closed, or the queue was lost.
    #[error("run {run} has no queue; it was closed or its queue was lost")]
    NoSuchRun {
        /// The run.
        run: RunId,
    },
    /// The run's queue exists already.
    #[error("run {run} has a queue already")]
    RunExists {
        /// The run.
        run: RunId,
    },
    /// All places are taken.
    #[error("run {run} has its {max} crawlers; a token must be released before another can join")]
    NoPlaceFree {
        /// The run.
        run: RunId,
        /// `spec.tokens`.
        max: u32,
    },
    /// A later join took the token.
    #[error("the token {token} of run {run} was taken over by another crawler")]
    Fenced {
        /// The run.
        run: RunId,
        /// The token.
        token: u32,
    },
    /// The lease ended or expired, or belongs to another holder.
    #[error("the lease on the task {task} of run {run} is no longer the caller's")]
    LeaseLost {
        /// The run.
        run: RunId,
        /// The task.
        task: TaskId,
    },
    /// The run is frozen.
    #[error("run {run} is frozen")]
    Frozen {
        /// The run.
        run: RunId,
    },
    /// A node that the run doesn't have.
    #[error("run {run} has no node {node}")]
    NoSuchNode {
        /// The run.
        run: RunId,
        /// The node.
        node: NodeName,
    },
    /// The configuration contradicts itself.
    #[error("run {run} can't be configured so: {why}")]
    BadConfig {
        /// The run.
        run: RunId,
        /// What is wrong.
        why: String,
    },
    /// The queue is not the one that the caller knew: it was emptied, swapped or rolled back.
    #[error("the queue of run {run} was lost: {why}")]
    Lost {
        /// The run.
        run: RunId,
        /// How that is known.
        why: String,
    },
    /// The queue's server could not be reached, or could not do it at present; whether the call took effect is not known.
    #[error("{why}")]
    Unreachable {
        /// A sentence: what happened, where.
        why: String,
    },
    /// The queue's server will not do it before a person acts.
    #[error("{why}")]
    Refused {
        /// A sentence: what was refused, why, and what to do.
        why: String,
    },
}

impl QueueError {
    /// What follows for the crawler that was refused.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Unreachable { .. } => Outcome::RETRY,
            _ => Outcome::Terminal,
        }
    }
}
