//! Why something waits, as a person reads it: the gate, whom it protects, and until when.

use std::time::Duration;

use jiff::{Timestamp, Unit as TimeUnit};

use super::text::{about, shown};
use crate::queue::{Gate, Unit, Waiting};

/// Up to this long people wait before the screen; beyond it they want to know when to come back.
const SHORT_WAIT: Duration = Duration::from_mins(1);

/// The widest account of a failure.
pub(super) const PROBLEM_WIDTH: usize = 60;

/// "waits 3.0 s: the API calls of budget … are used up". `problem` is the node's latest: why a failed task failed.
pub(super) fn why_it_waits(waiting: &Waiting, problem: Option<&str>, now: Timestamp) -> String {
    format!("waits{}: {}", how_long(waiting, now), why_closed(&waiting.gate, problem))
}

/// "the API calls of budget … are used up": why a gate is closed, without until when.
pub(super) fn why_closed(gate: &Gate, problem: Option<&str>) -> String {
    match gate {
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
        Gate::Delay => match problem {
            Some(problem) => format!("a failed task waits for its next try: {}", shown(problem, PROBLEM_WIDTH)),
            None => "a failed task waits for its next try".to_owned(),
        },
    }
}

/// How long it waits; `None` where it is a call that opens the gate, not time.
pub(super) fn timed_wait(waiting: &Waiting, now: Timestamp) -> Option<Duration> {
    match waiting.gate {
        Gate::OriginConcurrency { .. }
        | Gate::BudgetConcurrency { .. }
        | Gate::NodeSuspended { .. }
        | Gate::CrashSuspect { .. } => None,
        Gate::OriginBackOff { .. } | Gate::Budget { .. } | Gate::Hours { .. } | Gate::Delay => {
            Some(Duration::try_from(waiting.until.duration_since(now)).unwrap_or_default())
        }
    }
}

fn how_long(waiting: &Waiting, now: Timestamp) -> String {
    match timed_wait(waiting, now) {
        None => String::new(),
        Some(left) if left < SHORT_WAIT => format!(" {:.1} s", left.as_secs_f64()),
        Some(left) => {
            let until = waiting.until.round(TimeUnit::Second).unwrap_or(waiting.until);
            format!(" {} (until {until})", about(left))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::BudgetId;

    #[test]
    fn it_says_how_long_and_for_long_waits_until_when() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let budget = BudgetId("gentle".into());
        let says = |gate: Gate, seconds: u64| {
            why_it_waits(&Waiting { gate, until: now + Duration::from_secs(seconds) }, None, now)
        };
        let calls = Gate::Budget { budget: budget.clone(), unit: Unit::ApiCalls };
        assert_eq!(says(calls, 3), "waits 3.0 s: the API calls of budget \"gentle\" are used up");
        assert_eq!(
            says(Gate::Hours { budget: budget.clone() }, 7_800),
            "waits 2 h 10 min (until 2027-01-15T10:10:00Z): budget \"gentle\" is outside of its allowed hours"
        );
        assert_eq!(
            says(Gate::BudgetConcurrency { budget }, 60),
            "waits: budget \"gentle\" has as many requests under way as it may have"
        );
    }

    #[test]
    fn a_failed_task_says_why_it_failed_as_far_as_that_fits() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let waiting = Waiting { gate: Gate::Delay, until: now + Duration::from_millis(6_600) };
        let says = |problem| why_it_waits(&waiting, problem, now);
        assert_eq!(says(None), "waits 6.6 s: a failed task waits for its next try");
        assert_eq!(
            says(Some("the server answered\n500")),
            "waits 6.6 s: a failed task waits for its next try: the server answered 500"
        );
        let cut = format!("waits 6.6 s: a failed task waits for its next try: {}…", "x".repeat(59));
        assert_eq!(says(Some(&"x".repeat(500))), cut);
    }
}
