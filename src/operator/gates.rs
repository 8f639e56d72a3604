//! Closed gates, as people are told of them. Pure.

use std::collections::BTreeSet;

use crate::queue::{Gate, LaneStatus};
use crate::task::NodeName;

/// What a lane waits for: one word, and a sentence.
pub(crate) fn gate_sentence(gate: &Gate, lane: &LaneStatus) -> (&'static str, String) {
    let nodes: BTreeSet<&str> = lane.nodes.iter().map(NodeName::as_str).collect();
    let of = nodes.into_iter().take(3).collect::<Vec<_>>().join(", ");
    match gate {
        Gate::OriginBackOff { origin } => {
            ("BackOff", format!("{origin} asked to be left alone, or failed (nodes {of})"))
        }
        Gate::OriginConcurrency { origin } => {
            ("OriginFull", format!("as many requests as allowed are under way to {origin}"))
        }
        Gate::Budget { budget, unit } => ("Budget", format!("budget {} has no {unit:?} left (nodes {of})", budget.0)),
        Gate::BudgetConcurrency { budget } => {
            ("BudgetFull", format!("as many requests as budget {} allows are under way", budget.0))
        }
        Gate::NodeSuspended { node } => ("NodeSuspended", format!("node {node} is suspended (spec.suspend)")),
        Gate::Hours { budget } => {
            ("AllowedHours", format!("outside of the hours in which budget {} is open", budget.0))
        }
        Gate::CrashSuspect { node } => (
            "CrashSuspect",
            format!("a task of node {node} that was under way in a crash waits for a crawler of its own"),
        ),
        Gate::Delay => ("Retry", format!("failed tasks are tried again (nodes {of})")),
    }
}
