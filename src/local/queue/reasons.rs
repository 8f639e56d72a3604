//! What lanes wait for, summed up by the kind of gate.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use crate::local::waiting::timed_wait;
use crate::queue::{Gate, LaneStatus, Unit};

/// What keeps a lane's next task: the kinds of gates, in the order in which they are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Reason {
    /// Nothing: a crawler may take it.
    Ready,
    /// All that it has is being worked on.
    UnderWay,
    /// Its origin asked to be left alone.
    OriginBackOff,
    /// Its origin has as many requests under way as it may have.
    OriginConcurrency,
    /// Its budget's calls are used up.
    ApiCalls,
    /// Its budget's documents are used up.
    Documents,
    /// Its budget's bytes are used up.
    Bytes,
    /// Its budget has as many requests under way as it may have.
    BudgetConcurrency,
    /// Its budget is outside of its hours.
    Hours,
    /// Its nodes are suspended.
    NodeSuspended,
    /// Its next task was in a crash and waits for a crawler of its own.
    CrashSuspect,
    /// Its failed tasks wait for their next try.
    Delay,
}

impl Reason {
    /// What keeps this lane.
    pub fn of(lane: &LaneStatus) -> Self {
        let Some(waiting) = &lane.waiting else {
            return if lane.queued > 0 { Self::Ready } else { Self::UnderWay };
        };
        match waiting.gate {
            Gate::OriginBackOff { .. } => Self::OriginBackOff,
            Gate::OriginConcurrency { .. } => Self::OriginConcurrency,
            Gate::Budget { unit: Unit::ApiCalls, .. } => Self::ApiCalls,
            Gate::Budget { unit: Unit::Documents, .. } => Self::Documents,
            Gate::Budget { unit: Unit::Bytes, .. } => Self::Bytes,
            Gate::BudgetConcurrency { .. } => Self::BudgetConcurrency,
            Gate::Hours { .. } => Self::Hours,
            Gate::NodeSuspended { .. } => Self::NodeSuspended,
            Gate::CrashSuspect { .. } => Self::CrashSuspect,
            Gate::Delay => Self::Delay,
        }
    }

    /// As people read it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Ready => "nothing: a crawler may take it",
            Self::UnderWay => "nothing: all is being worked on",
            Self::OriginBackOff => "origins that asked to slow down",
            Self::OriginConcurrency => "requests under way to origins",
            Self::ApiCalls => "API calls of budgets",
            Self::Documents => "documents of budgets",
            Self::Bytes => "bytes of budgets",
            Self::BudgetConcurrency => "requests under way of budgets",
            Self::Hours => "allowed hours of budgets",
            Self::NodeSuspended => "suspended nodes",
            Self::CrashSuspect => "a crawler of their own, after a crash",
            Self::Delay => "the next try of failed tasks",
        }
    }

    /// In a word or two.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ready => "a crawler",
            Self::UnderWay => "-",
            Self::OriginBackOff => "back-off",
            Self::OriginConcurrency | Self::BudgetConcurrency => "places",
            Self::ApiCalls => "API calls",
            Self::Documents => "documents",
            Self::Bytes => "bytes",
            Self::Hours => "hours",
            Self::NodeSuspended => "suspended",
            Self::CrashSuspect => "crash",
            Self::Delay => "retry",
        }
    }

    /// Whether a gate is closed.
    pub fn is_closed(self) -> bool {
        !matches!(self, Self::Ready | Self::UnderWay)
    }
}

/// The lanes that wait for the same kind of gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// What they wait for.
    pub reason: Reason,
    /// How many lanes.
    pub lanes: u64,
    /// Their tasks that wait.
    pub queued: u64,
    /// Their tasks under way.
    pub leased: u64,
    /// When the first of the gates opens; `None`: no moment opens it, but the end of a request, or a person.
    pub first_opens: Option<Timestamp>,
}

/// Sums lanes up by what they wait for.
pub fn waits_of(lanes: &[LaneStatus], now: Timestamp) -> Vec<Wait> {
    let mut waits: BTreeMap<Reason, Wait> = BTreeMap::new();
    for lane in lanes {
        let reason = Reason::of(lane);
        let wait = waits.entry(reason).or_insert(Wait { reason, lanes: 0, queued: 0, leased: 0, first_opens: None });
        wait.lanes += 1;
        wait.queued += lane.queued;
        wait.leased += lane.leased;
        let opens = lane.waiting.as_ref().filter(|waiting| timed_wait(waiting, now).is_some());
        wait.first_opens = [wait.first_opens, opens.map(|waiting| waiting.until)].into_iter().flatten().min();
    }
    waits.into_values().collect()
}
