//! How long a run will still take, as far as that can be told. Pure.
//!
//! What is left is known where servers name their number of records: the requests for the rest follow from how many
//! records a request has brought so far. It takes as long as the slowest budget needs for its share and as it takes at
//! the speed that was seen lately, and begins when what waits has waited.
//!
//! Elsewhere only a lower bound can be told, and it follows from nothing but what is certain: what waits, waits; and a
//! budget lets through no more than its limits. The speed of late is no part of it: it may change.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;

use super::text::about;
use super::waiting::timed_wait;
use crate::crawler::NodeCounts;
use crate::queue::{BudgetId, BudgetLimit, Gate, LaneStatus, RunConfig, Unit};
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
    limits: BTreeMap<BudgetId, Vec<BudgetLimit>>,
    /// When, and the requests answered by then.
    seen: VecDeque<(Duration, u64)>,
}

/// An estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Estimate {
    /// About so long.
    About(Duration),
    /// At least so long: some server has not said how much it has, or a budget is used up that counts no requests.
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

/// What one budget has to let through.
#[derive(Debug, Default)]
struct Share {
    /// Requests for the rest of the records that servers say they have.
    requests: f64,
    /// Those records.
    records: f64,
    /// Tasks that wait.
    queued: f64,
    /// Tasks that wait or are under way.
    unsettled: f64,
    calls_per_s: Option<f64>,
    /// How long not one of its lanes can send a request.
    idle_s: Option<f64>,
}

impl TimeLeft {
    /// For what runs in a queue of this configuration.
    pub(super) fn new(config: &RunConfig) -> Self {
        Self {
            budgets: config.nodes.iter().map(|node| (node.name.clone(), node.budget.clone())).collect(),
            limits: config.budgets.iter().map(|budget| (budget.id.clone(), budget.limits.clone())).collect(),
            seen: VecDeque::new(),
        }
    }

    /// Takes a look; `elapsed` since the run (or its resumption) began.
    pub(super) fn look<'a>(
        &mut self,
        elapsed: Duration,
        nodes: impl Iterator<Item = (&'a NodeName, &'a NodeCounts)>,
        lanes: &[LaneStatus],
        now: Timestamp,
    ) -> Option<Estimate> {
        let nodes: Vec<_> = nodes.collect();
        let speed = self.speed(elapsed, nodes.iter().map(|(_, counts)| counts.new_requests()).sum());
        if elapsed < MIN_ELAPSED {
            return None;
        }
        let mut is_bounded = true;
        let mut shares: BTreeMap<&BudgetId, Share> = BTreeMap::new();
        for (name, counts) in nodes {
            let Some(budget) = self.budgets.get(name).filter(|_| !counts.is_finished()) else { continue };
            let share = shares.entry(budget).or_default();
            match requests_left(counts) {
                Some(left) => share.requests += left,
                None => is_bounded = false,
            }
            share.records += counts.total.saturating_sub(counts.records) as f64;
        }
        let mut longest_wait_s = 0.0_f64;
        for lane in lanes {
            let wait_s = wait_s(lane, now);
            longest_wait_s = longest_wait_s.max(wait_s);
            is_bounded &= !counts_no_calls(lane);
            let share = shares.entry(&lane.budget).or_default();
            share.queued += lane.queued as f64;
            share.unsettled += (lane.queued + lane.leased) as f64;
            share.calls_per_s = lane.calls_per_s;
            let idle_s = if lane.leased > 0 || is_spent_in_calls(lane) { 0.0 } else { wait_s };
            share.idle_s = Some(share.idle_s.map_or(idle_s, |least| least.min(idle_s)));
        }
        let least_s = shares.iter().map(|(budget, share)| self.least_s(budget, share)).fold(longest_wait_s, f64::max);
        let about_s = shares.values().map(Share::by_budget_s).fold(least_s, f64::max).max(by_speed_s(&shares, speed));
        // Without any speed what has no budget could take any time.
        let is_moving = speed > 0.0 || shares.values().all(|share| share.left() <= 0.0 || share.calls_per_s.is_some());
        let duration = |seconds| Duration::try_from_secs_f64(seconds).ok().filter(|left| !left.is_zero());
        if is_bounded && is_moving {
            return duration(about_s).map(Estimate::About);
        }
        // "At least a second" helps nobody.
        duration(least_s).filter(|left| *left >= MIN_BOUND).map(Estimate::AtLeast)
    }

    /// What a budget's limits allow at best, whatever was spent lately.
    fn least_s(&self, budget: &BudgetId, share: &Share) -> f64 {
        let limits = self.limits.get(budget).map_or(&[][..], Vec::as_slice);
        let by_limit = limits.iter().map(|limit| {
            let left = match limit.unit {
                Unit::ApiCalls => share.requests.max(share.queued),
                Unit::Documents => share.records,
                Unit::Bytes => 0.0,
            };
            // The last ones of a window may all come at its beginning.
            let at_once = if limit.even { 1.0 } else { limit.amount as f64 };
            (left - at_once) * limit.period.as_secs_f64() / limit.amount as f64
        });
        by_limit.filter(|seconds| seconds.is_finite()).fold(0.0, f64::max)
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

impl Share {
    /// Requests left.
    fn left(&self) -> f64 {
        self.unsettled.max(self.requests)
    }

    /// How long its rate makes it take.
    fn by_budget_s(&self) -> f64 {
        let rate = self.calls_per_s.filter(|rate| *rate > 0.0);
        rate.map_or(0.0, |rate| self.idle_s.unwrap_or(0.0) + self.left() / rate)
    }
}

/// How long all of it takes at this speed, once anything can be sent.
fn by_speed_s(shares: &BTreeMap<&BudgetId, Share>, speed: f64) -> f64 {
    if speed <= 0.0 {
        return 0.0;
    }
    let idle_s = shares.values().filter_map(|share| share.idle_s).reduce(f64::min).unwrap_or(0.0);
    idle_s + shares.values().map(Share::left).sum::<f64>() / speed
}

/// How long a lane waits for sure.
fn wait_s(lane: &LaneStatus, now: Timestamp) -> f64 {
    lane.waiting.as_ref().and_then(|waiting| timed_wait(waiting, now)).unwrap_or_default().as_secs_f64()
}

/// Its rate in calls, which is what its wait comes from, tells how long it takes: the wait must not be counted twice.
fn is_spent_in_calls(lane: &LaneStatus) -> bool {
    matches!(&lane.waiting, Some(waiting) if matches!(waiting.gate, Gate::Budget { unit: Unit::ApiCalls, .. }))
}

/// It waits for a budget of which nobody knows how much the next requests will take.
fn counts_no_calls(lane: &LaneStatus) -> bool {
    let Some(waiting) = &lane.waiting else { return false };
    matches!(waiting.gate, Gate::Budget { unit: Unit::Documents | Unit::Bytes, .. })
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
    use crate::queue::Waiting;
    use crate::task::OriginKey;

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

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

    fn waits_s(lane: LaneStatus, seconds: u64, gate: Gate) -> LaneStatus {
        LaneStatus { waiting: Some(Waiting { gate, until: now() + Duration::from_secs(seconds) }), ..lane }
    }

    fn used_up(budget: &str, unit: Unit) -> Gate {
        Gate::Budget { budget: BudgetId(budget.into()), unit }
    }

    fn backs_off() -> Gate {
        Gate::OriginBackOff { origin: OriginKey::from("https://acme.example:443") }
    }

    fn limit(unit: Unit, amount: u64, period_s: u64) -> BudgetLimit {
        BudgetLimit { unit, amount, period: Duration::from_secs(period_s), even: false }
    }

    #[expect(clippy::unnecessary_wraps, reason = "it is compared with what a look says")]
    fn about_s(seconds: u64) -> Option<Estimate> {
        Some(Estimate::About(Duration::from_secs(seconds)))
    }

    #[expect(clippy::unnecessary_wraps, reason = "it is compared with what a look says")]
    fn at_least_s(seconds: u64) -> Option<Estimate> {
        Some(Estimate::AtLeast(Duration::from_secs(seconds)))
    }

    fn look_after_10_s(nodes: &[(&str, &str, NodeCounts)], lanes: &[LaneStatus]) -> Option<Estimate> {
        look_after_10_s_within(nodes, lanes, &[])
    }

    fn look_after_10_s_within(
        nodes: &[(&str, &str, NodeCounts)],
        lanes: &[LaneStatus],
        limits: &[BudgetLimit],
    ) -> Option<Estimate> {
        let budgets = nodes.iter().map(|(name, budget, _)| (NodeName::from(*name), BudgetId((*budget).into())));
        let limits = nodes.iter().map(|(_, budget, _)| (BudgetId((*budget).into()), limits.to_vec()));
        let mut time_left = TimeLeft { budgets: budgets.collect(), limits: limits.collect(), ..TimeLeft::default() };
        let names: Vec<NodeName> = nodes.iter().map(|(name, ..)| NodeName::from(*name)).collect();
        let none = NodeCounts::default();
        time_left.look(Duration::ZERO, names.iter().map(|name| (name, &none)), &[], now());
        let counts = nodes.iter().map(|(.., counts)| counts);
        time_left.look(Duration::from_secs(10), names.iter().zip(counts), lanes, now())
    }

    #[test]
    fn a_servers_total_and_its_budget_tell_how_long_it_takes() {
        // 100 of 1,000 records in 10 requests: 90 more, at 1 a second that the budget allows and 1 a second that was seen.
        let left = look_after_10_s(&[("acme", "gentle", counts(10, 100, 1000))], &[lane("gentle", 1, Some(1.0))]);
        assert_eq!(left, about_s(90));
    }

    #[test]
    fn the_slowest_budget_decides() {
        let nodes = [("acme", "fast", counts(100, 1000, 2000)), ("port", "slow", counts(10, 10, 20))];
        let lanes = [lane("fast", 1, Some(1000.0)), lane("slow", 1, Some(0.5))];
        assert_eq!(look_after_10_s(&nodes, &lanes), about_s(20));
    }

    #[test]
    fn without_a_budget_the_speed_of_late_decides() {
        let left = look_after_10_s(&[("acme", "open", counts(100, 1000, 3000))], &[lane("open", 1, None)]);
        assert_eq!(left, about_s(20));
    }

    #[test]
    fn what_was_answered_before_the_run_was_resumed_is_no_speed() {
        // 10 requests in these 10 s, and 200 more to go; the first look came before the earlier ones were counted.
        let resumed = NodeCounts { earlier_requests: 90, earlier_records: 900, ..counts(100, 1000, 3000) };
        assert_eq!(look_after_10_s(&[("acme", "open", resumed)], &[lane("open", 1, None)]), about_s(200));
    }

    #[test]
    fn what_waits_begins_later() {
        let nodes = [("acme", "open", counts(10, 100, 1000))];
        let by_speed = [waits_s(lane("open", 1, None), 60, backs_off())];
        assert_eq!(look_after_10_s(&nodes, &by_speed), about_s(60 + 90));
        let by_budget = [waits_s(lane("open", 1, Some(0.5)), 60, backs_off())];
        assert_eq!(look_after_10_s(&nodes, &by_budget), about_s(60 + 180));
        let beside_another = [lane("open", 1, None), waits_s(lane("open", 1, None), 60, backs_off())];
        assert_eq!(look_after_10_s(&nodes, &beside_another), about_s(90), "the other goes on meanwhile");
        let long = [lane("open", 1, None), waits_s(lane("open", 1, None), 600, Gate::Delay)];
        assert_eq!(look_after_10_s(&nodes, &long), about_s(600), "it takes no less than the longest wait");
    }

    #[test]
    fn a_wait_that_comes_from_the_rate_in_calls_is_not_counted_twice() {
        let nodes = [("acme", "gentle", counts(10, 100, 1000))];
        let lanes = [waits_s(lane("gentle", 1, Some(1.0)), 60, used_up("gentle", Unit::ApiCalls))];
        assert_eq!(look_after_10_s(&nodes, &lanes), about_s(90));
    }

    #[test]
    fn a_used_up_budget_of_documents_or_bytes_makes_it_a_lower_bound() {
        // 3 requests are left, at 1 a second; but the day's documents are used up.
        let nodes = [("acme", "daily", counts(10, 200, 260))];
        for unit in [Unit::Documents, Unit::Bytes] {
            let lanes = [waits_s(lane("daily", 1, None), 86_395, used_up("daily", unit))];
            assert_eq!(look_after_10_s(&nodes, &lanes), at_least_s(86_395));
        }
    }

    #[test]
    fn a_server_that_does_not_say_how_much_it_has_gives_no_bound_by_the_speed_of_late() {
        assert_eq!(look_after_10_s(&[("acme", "open", counts(10, 100, 0))], &[lane("open", 5000, None)]), None);
    }

    #[test]
    fn a_server_that_is_down_gives_no_bound_but_the_wait() {
        let down = [("acme", "open", counts(3, 0, 0))];
        assert_eq!(look_after_10_s(&down, &[lane("open", 9, None)]), None);
        assert_eq!(look_after_10_s(&down, &[waits_s(lane("open", 9, None), 5, Gate::Delay)]), None, "too short to say");
        assert_eq!(look_after_10_s(&down, &[waits_s(lane("open", 9, None), 40, Gate::Delay)]), at_least_s(40));
    }

    #[test]
    fn what_limits_let_through_at_best_is_a_lower_bound() {
        let unknown = [("acme", "gentle", counts(10, 100, 0))];
        let lanes = [lane("gentle", 150, Some(1.0))];
        let limits = [limit(Unit::ApiCalls, 60, 60)];
        assert_eq!(look_after_10_s_within(&unknown, &lanes, &limits), at_least_s(90), "60 of them may come at once");
        let even = [BudgetLimit { even: true, ..limits[0] }];
        assert_eq!(look_after_10_s_within(&unknown, &lanes, &even), at_least_s(149));
        let known = [("acme", "daily", counts(10, 100, 1000))];
        let documents = [limit(Unit::Documents, 300, 3600)];
        assert_eq!(look_after_10_s_within(&known, &[lane("daily", 1, None)], &documents), about_s(7200));
    }

    #[test]
    fn without_any_speed_or_budget_there_is_no_estimate_but_the_wait() {
        let mut time_left = TimeLeft::default();
        let stuck = counts(10, 100, 1000);
        let name = NodeName::from("acme");
        time_left.budgets.insert(name.clone(), BudgetId("open".into()));
        let mut look =
            |second, lane| time_left.look(Duration::from_secs(second), [(&name, &stuck)].into_iter(), &[lane], now());
        assert_eq!(look(100, lane("open", 1, None)), None);
        assert_eq!(look(200, lane("open", 1, None)), None);
        assert_eq!(look(201, waits_s(lane("open", 1, None), 60, backs_off())), at_least_s(60));
    }

    #[test]
    fn nothing_is_said_at_the_very_beginning_or_when_nothing_is_left() {
        let mut time_left = TimeLeft::default();
        let lanes = [lane("open", 9, Some(1.0))];
        assert_eq!(time_left.look(Duration::from_secs(2), std::iter::empty(), &lanes, now()), None);
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
