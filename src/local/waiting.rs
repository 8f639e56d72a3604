//! Why something waits, as a person reads it: the gate, whom it protects, and until when.

use jiff::Timestamp;

use crate::queue::{Gate, Unit, Waiting};

/// "waits 3 s: budget default for https://…: ApiCalls used up".
pub(super) fn why_it_waits(waiting: &Waiting, now: Timestamp) -> String {
    let seconds = waiting.until.duration_since(now).as_secs_f64().max(0.0);
    let why = match &waiting.gate {
        Gate::OriginBackOff { origin } => format!("{origin} asked to slow down"),
        Gate::OriginConcurrency { origin } => format!("{origin} has as many requests under way as it may have"),
        Gate::Budget { budget, unit } => {
            let unit = match unit {
                Unit::ApiCalls => "API calls",
                Unit::Documents => "documents",
                Unit::Bytes => "bytes",
            };
            format!("the {unit} of budget {:?} are used up", &*budget.0)
        }
        Gate::BudgetConcurrency { budget } => {
            format!("budget {:?} has as many requests under way as it may have", &*budget.0)
        }
        Gate::NodeSuspended { .. } => "the node is suspended".to_owned(),
        Gate::Hours { budget } => format!("budget {:?} is outside of its allowed hours", &*budget.0),
        Gate::CrashSuspect { .. } => "its next task was in a crash and is tried alone".to_owned(),
        Gate::Delay => "a failed task waits for its next try".to_owned(),
    };
    format!("waits {seconds:.1} s: {why}")
}
