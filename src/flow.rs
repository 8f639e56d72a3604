//! Work in flight as data: what the planner tells a queue, and the account that the queue gives back.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::task::{NodeName, OriginKey, RunId};

/// What a run's queue is told at the start, and again when something changes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunConfig {
    /// The run.
    pub run: RunId,
    /// Its share, at least 1, of budgets that it shares with other runs of the instance (`spec.weight`).
    pub weight: u32,
    /// At most this many holders at a time (`spec.tokens`).
    pub max_holders: u32,
    /// How long a lease lasts without renewal.
    #[serde(rename = "leaseMs", serialize_with = "as_ms")]
    pub lease: Duration,
    /// A task that was being worked on in so many crashes is dead.
    pub max_charges: u32,
    /// The nodes.
    pub nodes: Vec<NodeConfig>,
    /// The budgets that nodes refer to.
    pub budgets: Vec<BudgetConfig>,
    /// What protects every origin, whatever the policy.
    pub origin_protection: OriginProtection,
    /// Origins that are to be left alone from the start. Taken when the run is opened, never again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub closed_origins: Vec<ClosedOrigin>,
    /// What crawlers of other processes are to know of the run: text that only they understand. Never holds a secret.
    #[serde(skip)]
    pub brief: Arc<str>,
}

/// An origin whose server asked to be left alone, or failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClosedOrigin {
    /// The origin.
    pub origin: OriginKey,
    /// When its back-off ends.
    pub until: Timestamp,
}

/// One node as the queue sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeConfig {
    /// Its name.
    pub name: NodeName,
    /// The budget its requests count against, by precedence (§4): node, then connection, then credential, then default.
    pub budget: BudgetId,
    /// Which crawlers may take its tasks.
    pub group: String,
    /// Higher goes more often.
    pub priority: i32,
    /// Handed out or not.
    pub suspended: bool,
    /// What one [`TaskKind::Dataset`](crate::task::TaskKind::Dataset) request costs in calls.
    pub api_calls_per_document: u32,
    /// What crawlers of other processes are to know of the node: text that only they understand. Never holds a secret.
    #[serde(skip)]
    pub brief: Arc<str>,
}

/// Names a budget: a policy, and what it is divided by (`budgetPer`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct BudgetId(pub Arc<str>);

/// A budget: all limits bind. It belongs to the instance: runs that name the same one share it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetConfig {
    /// Its name.
    pub id: BudgetId,
    /// The limits.
    pub limits: Vec<BudgetLimit>,
    /// Requests under way at a time; `None`: only the origin's own cap.
    pub max_concurrent: Option<u32>,
    /// Slows down to this share of the rate, in percent, when a server pushes back; `None`: never.
    pub adaptive_floor_percent: Option<u32>,
    /// When requests may be sent, sorted and disjoint; closed outside and after the last. `None`: always.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_hours: Option<Arc<[OpenInterval]>>,
    /// What was spent before the queue knew the budget, by earlier processes. Counted when it becomes known, never again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spent: Vec<Spent>,
    /// What was spent lately is not known (a crash): limits over [`SHORT_WINDOW`] or less start as if fully spent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub short_windows_start_spent: bool,
}

/// The longest window that starts spent if what was spent lately is not known; longer ones are rebuilt from
/// [`BudgetConfig::spent`].
pub const SHORT_WINDOW: Duration = Duration::from_hours(1);

/// A span of time in which a budget is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct OpenInterval {
    /// Its first moment.
    pub from: Timestamp,
    /// The first moment after it.
    pub until: Timestamp,
}

/// [`BudgetConfig::spent`] is told in sums, of what was spent lately over at most so long. What a sum has beyond the amount of
/// a limit with a shorter period was spent in several of its windows, and is no debt.
pub const SPENT_STRETCH: Duration = Duration::from_mins(1);

/// What a budget had spent by a moment, since the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Spent {
    /// When; the latest moment that it may have been.
    pub at: Timestamp,
    /// Calls.
    pub calls: u64,
    /// Documents.
    pub documents: u64,
    /// Decoded bytes.
    pub bytes: u64,
}

/// One limit of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetLimit {
    /// What is counted.
    pub unit: Unit,
    /// How many, in any window of `period`.
    pub amount: u64,
    /// The window.
    #[serde(rename = "periodMs", serialize_with = "as_ms")]
    pub period: Duration,
    /// Spread over the period, or as they come.
    pub even: bool,
}

/// What a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Unit {
    /// Requests, taken before they are sent.
    ApiCalls,
    /// Records, known only afterwards.
    Documents,
    /// Decoded bytes, known only afterwards.
    Bytes,
}

/// What protects every origin, whatever the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OriginProtection {
    /// Requests under way at a time to one origin.
    pub max_concurrent: u32,
    /// The first back-off after a pushback without `Retry-After`; doubles with each event.
    #[serde(rename = "initialBackoffMs", serialize_with = "as_ms")]
    pub initial_backoff: Duration,
    /// The longest back-off, and the longest `Retry-After` that is believed.
    #[serde(rename = "maxBackoffMs", serialize_with = "as_ms")]
    pub max_backoff: Duration,
}

/// The run's account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct Ledger {
    /// Tasks ever accepted.
    pub discovered: u64,
    /// Ready, though perhaps behind a closed gate.
    pub queued: u64,
    /// Waiting out a retry's delay.
    pub delayed: u64,
    /// Being worked on.
    pub leased: u64,
    /// Done.
    pub done: u64,
    /// Given up.
    pub dead: u64,
    /// No longer wanted.
    pub dropped: u64,
}

impl Ledger {
    /// discovered = queued + delayed + leased + done + dead + dropped.
    pub fn is_balanced(&self) -> bool {
        self.discovered == self.queued + self.delayed + self.leased + self.done + self.dead + self.dropped
    }

    /// Nothing is left to do.
    pub fn is_drained(&self) -> bool {
        self.queued + self.delayed + self.leased == 0
    }
}

fn as_ms<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}
