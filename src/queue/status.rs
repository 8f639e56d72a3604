//! What a queue says about itself: which gates are closed, what lanes hold, what has died.

use jiff::Timestamp;
use serde::Serialize;

use super::{BudgetId, Ledger, TaskFailure, Unit};
use crate::task::{NodeName, OriginKey, RunId, Task};

/// What must be open for a request to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "gate")]
pub enum Gate {
    /// The origin asked to be left alone, or failed.
    OriginBackOff {
        /// The origin.
        origin: OriginKey,
    },
    /// The origin's cap on requests under way.
    OriginConcurrency {
        /// The origin.
        origin: OriginKey,
    },
    /// A budget's limit.
    Budget {
        /// The budget.
        budget: BudgetId,
        /// What is used up.
        unit: Unit,
    },
    /// A budget's cap on requests under way.
    BudgetConcurrency {
        /// The budget.
        budget: BudgetId,
    },
    /// The node is suspended.
    NodeSuspended {
        /// The node.
        node: NodeName,
    },
    /// Outside of the hours in which a budget is open.
    Hours {
        /// The budget.
        budget: BudgetId,
    },
    /// A crawler crashed while it worked on what is next: it waits for one that has nothing else under way.
    CrashSuspect {
        /// The node.
        node: NodeName,
    },
    /// A retry's delay.
    Delay,
}

/// A task that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadTask {
    /// The task.
    pub task: Task,
    /// How often it was handed out, without the times it was released untried or its holder was disrupted.
    pub attempts: u32,
    /// How often a crawler crashed while it worked on it.
    pub charges: u32,
    /// Why it failed: its latest failures, the last being the one that ended it.
    pub history: Vec<TaskFailure>,
}

/// What a lane holds and waits for.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LaneStatus {
    /// The origin asked.
    pub origin: OriginKey,
    /// The budget counted against.
    pub budget: BudgetId,
    /// Nodes with work in it, at most twenty named: those with tasks that are ready, then the one whose failed task is
    /// tried again first, then others whose failed tasks are tried again.
    pub nodes: Vec<NodeName>,
    /// Tasks waiting.
    pub queued: u64,
    /// Tasks under way.
    pub leased: u64,
    /// The calls in a second that its budget allows at present; `None`: any number.
    pub calls_per_s: Option<f64>,
    /// The closed gate, and until when, if it waits.
    pub waiting: Option<Waiting>,
}

/// Why something waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// The closed gate.
    #[serde(flatten)]
    pub gate: Gate,
    /// When it opens.
    pub until: Timestamp,
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// Something changed since.
    Changed,
    /// Its moment came.
    Moment,
}

/// A run of the instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunStatus {
    /// The run.
    pub run: RunId,
    /// Hands out nothing.
    pub frozen: bool,
    /// Its share of what it has in common with other runs.
    pub weight: u32,
    /// Who has joined.
    pub holders: u32,
    /// How many may.
    pub max_holders: u32,
    /// Its account.
    pub ledger: Ledger,
}

/// A holder of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HolderStatus {
    /// Its token.
    pub token: u32,
    /// Who it is.
    pub uid: String,
    /// Its group.
    pub group: String,
    /// Tasks that it works on.
    pub leased: u64,
    /// Works on a task that was in a crash, and on nothing else.
    pub is_alone: bool,
    /// When the first of its leases lapses, unless it is renewed.
    pub next_lapse: Option<Timestamp>,
}

/// A task that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedTask {
    /// The task.
    pub task: Task,
    /// Where it stands.
    pub state: TaskState,
    /// How often it was handed out, without the times it was released untried or its holder was disrupted.
    pub attempts: u32,
    /// How often a crawler crashed while it worked on it.
    pub charges: u32,
}

/// Where a task stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum TaskState {
    /// Ready, though perhaps behind a closed gate.
    Queued,
    /// Waits out a retry's delay.
    Delayed {
        /// Until then.
        until: Timestamp,
    },
    /// Is worked on.
    Leased {
        /// By whom.
        token: u32,
        /// When its lease lapses, unless it is renewed.
        lapses: Timestamp,
    },
}
