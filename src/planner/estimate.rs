//! When a run may end. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::flow::Ledger;

/// Less says nothing of a run's speed.
const LEAST_TASKS: u64 = 10;
const LEAST_TIME: Duration = Duration::from_secs(10);

/// What a lane still has to do, and how fast it may.
#[derive(Debug, Clone, PartialEq)]
pub struct LaneLoad {
    /// The budget that it counts against.
    pub budget: String,
    /// Tasks that wait.
    pub queued: u64,
    /// Calls in a second that its budget allows; `None`: any number.
    pub calls_per_s: Option<f64>,
    /// When its closed gate opens, if it waits at one.
    pub opens_at: Option<Timestamp>,
}

/// When a run may end, if it goes on as until now: by its own speed, and not before its slowest budget allows. What will be
/// discovered on the way is not known: it may be later. `None`: nothing can be said yet.
pub fn estimate_end(now: Timestamp, started_at: Timestamp, ledger: &Ledger, lanes: &[LaneLoad]) -> Option<Timestamp> {
    let left = ledger.queued + ledger.delayed + ledger.leased;
    if left == 0 {
        return None;
    }
    let elapsed = Duration::try_from(now.duration_since(started_at)).ok()?;
    let mut by_budget: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for lane in lanes {
        let opens_in = lane.opens_at.and_then(|at| Duration::try_from(at.duration_since(now)).ok()).unwrap_or_default();
        let (calls_s, opens_s) = by_budget.entry(&lane.budget).or_default();
        *calls_s += lane.calls_per_s.filter(|rate| *rate > 0.0).map_or(0.0, |rate| as_f64(lane.queued) / rate);
        *opens_s = opens_s.max(opens_in.as_secs_f64());
    }
    let slowest = by_budget.values().map(|(calls_s, opens_s)| calls_s.max(*opens_s)).fold(0.0, f64::max);
    let by_speed = (ledger.done >= LEAST_TASKS && elapsed >= LEAST_TIME)
        .then(|| elapsed.as_secs_f64() * as_f64(left) / as_f64(ledger.done));
    let seconds = match by_speed {
        None if slowest == 0.0 => return None,
        by_speed => by_speed.unwrap_or(0.0).max(slowest),
    };
    now.checked_add(Duration::try_from_secs_f64(seconds).ok()?).ok()
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn ledger(queued: u64, done: u64) -> Ledger {
        Ledger { discovered: queued + done, queued, done, ..Ledger::default() }
    }

    fn lane(queued: u64, calls_per_s: Option<f64>, opens_at: Option<Timestamp>) -> LaneLoad {
        LaneLoad { budget: "b".into(), queued, calls_per_s, opens_at }
    }

    #[test]
    fn what_was_done_in_a_time_tells_what_the_rest_takes() {
        assert_eq!(estimate_end(at(100), at(0), &ledger(50, 100), &[]), Some(at(150)));
        assert_eq!(estimate_end(at(100), at(0), &ledger(50, 9), &[]), None, "too little was done");
        assert_eq!(estimate_end(at(5), at(0), &ledger(50, 100), &[]), None, "too little time has passed");
        assert_eq!(estimate_end(at(100), at(0), &ledger(0, 100), &[]), None, "nothing is left");
    }

    #[test]
    fn no_run_ends_before_its_slowest_budget_allows() {
        let lanes = [lane(30, Some(0.5), None), lane(30, Some(0.5), None)];
        assert_eq!(estimate_end(at(100), at(0), &ledger(60, 100), &lanes), Some(at(220)));
        let closed = [lane(1, None, Some(at(4_000)))];
        assert_eq!(estimate_end(at(100), at(0), &ledger(1, 0), &closed), Some(at(4_000)));
    }
}
