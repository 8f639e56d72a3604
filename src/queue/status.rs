//! What a queue says about itself: which gates are closed, what lanes hold, what has died.

use jiff::Timestamp;
use serde::Serialize;

use super::{BudgetId, TaskFailure, Unit};
use crate::task::{NodeName, OriginKey, Task};

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
