//! How long a run will still take, as far as that can be told. Pure.
//!
//! What is left is known where servers name their number of records: the requests for the rest follow from how many
//! records a request has brought so far. Elsewhere it is at least what is queued. It takes as long as the slowest budget
//! needs for its share, and never less than at the speed that was seen lately.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::text::about;
use crate::crawler::NodeCounts;
use crate::queue::{BudgetId, LaneStatus};
use crate::task::NodeName;

/// The speed is that of the last so long.
const MEMORY: Duration = Duration::from_secs(30);

/// Nothing is said before a run has gone on for so long: first impressions are wrong.
const MIN_ELAPSED: Duration = Duration::from_secs(3);

/// A lower bound below this is not worth saying.
const MIN_BOUND: Duration = Duration::from_secs(10);

/// Watches a run and tells how long it will still take.
#[derive(Debug, Default)]
pub(super) struct TimeLeft {
    budgets: BTreeMap<NodeName, BudgetId>,
    /// When, and the requests answered by then.
    seen: VecDeque<(Duration, u64)>,
}

/// An estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Estimate {
    /// About so long.
    About(Duration),
    /// At least so long: some server has not said how much it has.
    AtLeast(Duration),
}

impl Estimate {
    /// "about 3 min left".
    pub(super) fn text(self) -> String {
        match self {
            Self::About(left) => format!("about {} left", about(left)),
            Self::AtLeast(left) => format!("at least {} left", about(left)),
        }
    }
}

impl TimeLeft {
    /// For nodes that count against these budgets.
    pub(super) fn new(budgets: BTreeMap<NodeName, BudgetId>) -> Self {
        Self { budgets, seen: VecDeque::new() }
    }

    /// Takes a look; `elapsed` since the run (or its resumption) began.
    pub(super) fn look<'a>(
        &mut self,
        elapsed: Duration,
        nodes: impl Iterator<Item = (&'a NodeName, &'a NodeCounts)>,
        lanes: &[LaneStatus],
    ) -> Option<Estimate> {
        let nodes: Vec<_> = nodes.collect();
        let speed = self.speed(elapsed, nodes.iter().map(|(_, counts)| counts.requests).sum());
        if elapsed < MIN_ELAPSED {
            return None;
        }
        let mut is_bounded = true;
        let mut left_by_total: BTreeMap<&BudgetId, f64> = BTreeMap::new();
        for (name, counts) in nodes {
            let Some(budget) = self.budgets.get(name).filter(|_| !counts.is_finished()) else { continue };
            match requests_left(counts) {
                Some(left) => *left_by_total.entry(budget).or_default() += left,
                None => is_bounded = false,
            }
        }
        let mut queued: BTreeMap<&BudgetId, (f64, Option<f64>)> = BTreeMap::new();
        for lane in lanes {
            let (left, rate) = queued.entry(&lane.budget).or_default();
            *left += (lane.queued + lane.leased) as f64;
            *rate = lane.calls_per_s;
        }
        let (mut all, mut slowest_s) = (0.0, 0.0_f64);
        for (budget, (queued, rate)) in queued {
            let left = queued.max(left_by_total.get(budget).copied().unwrap_or(0.0));
            all += left;
            if let Some(rate) = rate.filter(|rate| *rate > 0.0) {
                slowest_s = slowest_s.max(left / rate);
            }
        }
        let at_this_speed_s = if speed > 0.0 { all / speed } else { 0.0 };
        let left = Duration::try_from_secs_f64(slowest_s.max(at_this_speed_s)).ok().filter(|left| !left.is_zero())?;
        if is_bounded {
            return Some(Estimate::About(left));
        }
        // "At least a second" helps nobody.
        (left >= MIN_BOUND).then_some(Estimate::AtLeast(left))
    }

    /// Requests a second of late.
    fn speed(&mut self, elapsed: Duration, requests: u64) -> f64 {
        self.seen.push_back((elapsed, requests));
        while self.seen.len() > 2 && self.seen.get(1).is_some_and(|(at, _)| *at + MEMORY <= elapsed) {
            self.seen.pop_front();
        }
        let Some(&(since, before)) = self.seen.front() else { return 0.0 };
        let seconds = elapsed.saturating_sub(since).as_secs_f64();
        if seconds > 0.0 { requests.saturating_sub(before) as f64 / seconds } else { 0.0 }
    }
}

/// Requests that a node's remaining records will take, if its server says how many it has.
fn requests_left(counts: &NodeCounts) -> Option<f64> {
    if counts.total == 0 || counts.records == 0 {
        return None;
    }
    let left = counts.total.saturating_sub(counts.records) as f64;
    Some((left * counts.requests as f64 / counts.records as f64).ceil())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::OriginKey;

    fn counts(requests: u64, records: u64, total: u64) -> NodeCounts {
        NodeCounts { requests, records, total, open_sections: 1, ..NodeCounts::default() }
    }

    fn lane(budget: &str, queued: u64, calls_per_s: Option<f64>) -> LaneStatus {
        LaneStatus {
            origin: OriginKey::from("https://acme.example:443"),
            budget: BudgetId(budget.into()),
            nodes: Vec::new(),
            queued,
            leased: 0,
            calls_per_s,
            waiting: None,
        }
    }

    fn look_after_10_s(nodes: &[(&str, &str, NodeCounts)], lanes: &[LaneStatus]) -> Option<Estimate> {
        let budgets = nodes.iter().map(|(name, budget, _)| (NodeName::from(*name), BudgetId((*budget).into())));
        let mut time_left = TimeLeft::new(budgets.collect());
        let names: Vec<NodeName> = nodes.iter().map(|(name, ..)| NodeName::from(*name)).collect();
        let none = NodeCounts::default();
        time_left.look(Duration::ZERO, names.iter().map(|name| (name, &none)), &[]);
        time_left.look(Duration::from_secs(10), names.iter().zip(nodes.iter().map(|(.., counts)| counts)), lanes)
    }

    #[test]
    fn a_servers_total_and_its_budget_tell_how_long_it_takes() {
        // 100 of 1,000 records in 10 requests: 90 more, at 1 a second that the budget allows and 1 a second that was seen.
        let left = look_after_10_s(&[("acme", "gentle", counts(10, 100, 1000))], &[lane("gentle", 1, Some(1.0))]);
        assert_eq!(left, Some(Estimate::About(Duration::from_secs(90))));
    }

    #[test]
    fn the_slowest_budget_decides() {
        let nodes = [("acme", "fast", counts(100, 1000, 2000)), ("port", "slow", counts(10, 10, 20))];
        let lanes = [lane("fast", 1, Some(1000.0)), lane("slow", 1, Some(0.5))];
        assert_eq!(look_after_10_s(&nodes, &lanes), Some(Estimate::About(Duration::from_secs(20))));
    }

    #[test]
    fn without_a_budget_the_speed_of_late_decides() {
        let left = look_after_10_s(&[("acme", "open", counts(100, 1000, 3000))], &[lane("open", 1, None)]);
        assert_eq!(left, Some(Estimate::About(Duration::from_secs(20))));
    }

    #[test]
    fn a_server_that_does_not_say_how_much_it_has_makes_it_a_lower_bound() {
        let left = look_after_10_s(&[("acme", "open", counts(10, 100, 0))], &[lane("open", 50, None)]);
        assert_eq!(left, Some(Estimate::AtLeast(Duration::from_secs(50))));
    }

    #[test]
    fn nothing_is_said_at_the_very_beginning_or_when_nothing_is_left() {
        let mut time_left = TimeLeft::default();
        assert_eq!(time_left.look(Duration::from_secs(2), std::iter::empty(), &[lane("open", 9, Some(1.0))]), None);
        assert_eq!(look_after_10_s(&[("acme", "open", counts(10, 100, 100))], &[]), None);
    }

    #[test]
    fn the_speed_is_that_of_late() {
        let mut time_left = TimeLeft::default();
        let speeds: Vec<f64> = [(0, 0), (100, 100_000), (130, 100_030), (160, 100_060)]
            .map(|(second, requests)| time_left.speed(Duration::from_secs(second), requests))
            .to_vec();
        assert!(speeds[1] > 900.0, "{speeds:?}");
        assert!((speeds[3] - 1.0).abs() < 1e-9, "{speeds:?}");
    }
}
