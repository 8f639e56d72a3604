//! A budget: its hours and all of its limits bind.

use std::sync::Arc;
use std::time::Duration;

use super::Moment;
use super::pacing::{Pacing, Rate};
use super::slowdown::Slowdown;
use super::window::Window;
use crate::queue::{BudgetConfig, BudgetLimit, OpenInterval, SHORT_WINDOW, SPENT_STRETCH, Unit};

/// After the last of its hours a budget is closed until it is configured anew: so long at a time.
const NO_MORE_HOURS: Duration = Duration::from_hours(24);

/// Why a budget lets nothing through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shut {
    /// It is outside of its hours.
    Hours,
    /// A limit is used up.
    Limit(Unit),
}

/// Calls that must be left for others, who asked before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ahead {
    /// So many.
    pub calls: u64,
    /// Until then at the latest.
    pub lapses: Moment,
}

/// What a budget has spent, and what is under way.
#[derive(Debug, Clone)]
pub struct BudgetGate {
    limits: Vec<Limit>,
    max_concurrent: Option<u32>,
    floor_percent: Option<u32>,
    open_hours: Option<Arc<[OpenInterval]>>,
    slowdown: Slowdown,
    under_way: u32,
}

#[derive(Debug, Clone)]
struct Limit {
    config: BudgetLimit,
    window: Window,
    pacing: Pacing,
}

impl Limit {
    fn new(config: BudgetLimit) -> Self {
        Self { config, window: Window::new(config.amount, config.period), pacing: Pacing::default() }
    }

    /// Calls are spread if the policy says so, and while slowed down: a burst is what hurts a struggling server.
    fn rate(&self, slowdown: &Slowdown) -> Option<Rate> {
        let paced = self.config.unit == Unit::ApiCalls && (self.config.even || slowdown.is_slow());
        paced.then_some(Rate { amount: self.config.amount, period: self.config.period, permille: slowdown.permille() })
    }

    fn opens_at(&mut self, now: Moment, calls: u64, ahead: u64, slowdown: &Slowdown) -> Option<Moment> {
        if self.config.unit != Unit::ApiCalls {
            return self.window.opens_at(now, 1, 0);
        }
        let slot = self.rate(slowdown).and_then(|rate| self.pacing.opens_at(now, ahead, rate));
        self.window.opens_at(now, calls, ahead).max(slot)
    }
}

impl BudgetGate {
    /// A budget that becomes known now.
    pub fn new(config: &BudgetConfig, now: Moment) -> Self {
        let mut gate = Self {
            limits: config.limits.iter().copied().map(Limit::new).collect(),
            max_concurrent: config.max_concurrent,
            floor_percent: config.adaptive_floor_percent,
            open_hours: config.open_hours.clone(),
            slowdown: Slowdown::default(),
            under_way: 0,
        };
        let mut spent = config.spent.clone();
        spent.sort_by_key(|spent| spent.at);
        for limit in &mut gate.limits {
            if config.short_windows_start_spent && limit.config.period <= SHORT_WINDOW {
                limit.window.charge(now, limit.config.amount);
                continue;
            }
            for spent in &spent {
                let count = match limit.config.unit {
                    Unit::ApiCalls => spent.calls,
                    Unit::Documents => spent.documents,
                    Unit::Bytes => spent.bytes,
                };
                let is_shorter = limit.config.period < SPENT_STRETCH;
                let count = if is_shorter { count.min(limit.config.amount) } else { count };
                limit.window.charge(now.min(spent.at.into()), count);
            }
        }
        gate
    }

    /// When nothing will be left to remember, if nobody asks any more; `None`: now.
    pub fn remembers_until(&mut self, now: Moment) -> Option<Moment> {
        let spent = self.limits.iter_mut().filter_map(|limit| limit.window.remembers_until(now)).max();
        spent.max(self.slowdown.remembers_until(now))
    }

    /// Changes the limits; what was spent stays spent.
    pub fn configure(&mut self, now: Moment, config: &BudgetConfig) {
        let known = std::mem::take(&mut self.limits);
        self.limits = config.limits.iter().map(|&limit| inherit(&known, now, limit)).collect();
        self.max_concurrent = config.max_concurrent;
        self.floor_percent = config.adaptive_floor_percent;
        self.open_hours.clone_from(&config.open_hours);
        if self.floor_percent.is_none() {
            self.slowdown.reset();
        }
    }

    /// The calls in a second that the limits allow at present; `None`: any number.
    pub fn calls_per_s(&self) -> Option<f64> {
        let share = f64::from(self.slowdown.permille()) / 1000.0;
        let calls = self.limits.iter().filter(|limit| limit.config.unit == Unit::ApiCalls);
        calls.map(|limit| limit.config.amount as f64 / limit.config.period.as_secs_f64() * share).min_by(f64::total_cmp)
    }

    /// Whether as many requests as allowed are under way.
    pub fn is_full(&self) -> bool {
        self.max_concurrent.is_some_and(|max| self.under_way >= max)
    }

    /// What opens last and when, for a request that costs so many calls; `None`: all is open.
    pub fn closed(&mut self, now: Moment, calls: u64, ahead: Option<Ahead>) -> Option<(Shut, Moment)> {
        let Some(ahead) = ahead else { return self.closed_behind(now, calls, 0) };
        let (shut, until) = self.closed_behind(now, calls, ahead.calls)?;
        let without = self.closed_behind(now, calls, 0).map_or(now, |(_, until)| until);
        Some((shut, until.min(without.max(ahead.lapses))))
    }

    fn closed_behind(&mut self, now: Moment, calls: u64, ahead: u64) -> Option<(Shut, Moment)> {
        let slowdown = &self.slowdown;
        let limits = self
            .limits
            .iter_mut()
            .filter_map(|limit| Some((Shut::Limit(limit.config.unit), limit.opens_at(now, calls, ahead, slowdown)?)));
        let by_limits = limits.max_by_key(|(_, until)| *until);
        let by_hours = self.hours_begin(now).map(|from| (Shut::Hours, from));
        by_limits.into_iter().chain(by_hours).max_by_key(|(_, until)| *until)
    }

    /// When the next of its hours begin; `None`: it is open.
    fn hours_begin(&self, now: Moment) -> Option<Moment> {
        let hours = self.open_hours.as_ref()?;
        let next = hours.partition_point(|interval| Moment::from(interval.until) <= now);
        let from = hours.get(next).map_or(now.plus(NO_MORE_HOURS), |interval| interval.from.into());
        Some(from).filter(|from| *from > now)
    }

    /// Takes the calls that [`BudgetGate::closed`] allowed.
    pub fn spend(&mut self, now: Moment, calls: u64) {
        for limit in self.limits.iter_mut().filter(|limit| limit.config.unit == Unit::ApiCalls) {
            limit.window.spend(now, calls);
            if let Some(rate) = limit.rate(&self.slowdown) {
                limit.pacing.spend(now, calls, rate);
            }
        }
    }

    /// Counts what a response brought.
    pub fn charge(&mut self, now: Moment, documents: u64, bytes: u64) {
        for limit in &mut self.limits {
            match limit.config.unit {
                Unit::ApiCalls => {}
                Unit::Documents => limit.window.charge(now, documents),
                Unit::Bytes => limit.window.charge(now, bytes),
            }
        }
    }

    /// One more is under way.
    pub fn begin(&mut self) {
        self.under_way += 1;
    }

    /// One less is under way.
    pub fn end(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// Requests under way.
    pub fn under_way(&self) -> u32 {
        self.under_way
    }

    /// A server pushed back: one event.
    pub fn slow_down(&mut self, now: Moment) {
        if let Some(floor_percent) = self.floor_percent {
            self.slowdown.event(now, floor_percent);
        }
    }

    /// A request sent then succeeded. Returns whether that made the budget faster.
    pub fn success(&mut self, sent_at: Moment) -> bool {
        let before = self.slowdown.permille();
        self.slowdown.success(sent_at);
        self.slowdown.permille() > before
    }
}

/// The limit with what is known to have been spent: of the same unit, by the window that remembers longest.
fn inherit(known: &[Limit], now: Moment, config: BudgetLimit) -> Limit {
    let same = known.iter().filter(|limit| limit.config.unit == config.unit);
    let source = same
        .clone()
        .find(|limit| limit.config.period == config.period)
        .or_else(|| same.max_by_key(|limit| limit.config.period));
    let Some(source) = source else { return Limit::new(config) };
    let mut window = source.window.clone();
    window.resize(now, config.amount, config.period);
    Limit { config, window, pacing: source.pacing.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::BudgetId;

    const START: Moment = Moment(1_800_000_000_000_000);

    fn limit(unit: Unit, amount: u64, seconds: u64) -> BudgetLimit {
        BudgetLimit { unit, amount, period: Duration::from_secs(seconds), even: false }
    }

    fn config(limits: &[BudgetLimit]) -> BudgetConfig {
        let limits = limits.to_vec();
        BudgetConfig {
            id: BudgetId("b".into()),
            limits,
            max_concurrent: None,
            adaptive_floor_percent: Some(10),
            open_hours: None,
            spent: Vec::new(),
            short_windows_start_spent: false,
        }
    }

    fn seconds(seconds: u64) -> Moment {
        START.plus(Duration::from_secs(seconds))
    }

    #[test]
    fn all_limits_bind_and_the_one_that_opens_last_is_named() {
        let limits = [limit(Unit::ApiCalls, 2, 1), limit(Unit::Documents, 10, 60), limit(Unit::Bytes, 100, 5)];
        let mut gate = BudgetGate::new(&config(&limits), START);
        assert_eq!(gate.closed(START, 1, None), None);
        gate.spend(START, 2);
        assert_eq!(gate.closed(START, 1, None), Some((Shut::Limit(Unit::ApiCalls), seconds(1))));
        gate.charge(START, 0, 100);
        assert_eq!(gate.closed(START, 1, None), Some((Shut::Limit(Unit::Bytes), seconds(5))));
        gate.charge(START, 10, 0);
        assert_eq!(gate.closed(START, 1, None), Some((Shut::Limit(Unit::Documents), seconds(60))));
        assert_eq!(gate.closed(seconds(60), 1, None), None);
    }

    #[test]
    fn a_day_limit_holds_over_the_whole_day() {
        let mut gate = BudgetGate::new(&config(&[limit(Unit::ApiCalls, 1000, 86_400)]), START);
        for call in 0..1000 {
            assert_eq!(gate.closed(seconds(call * 60), 1, None), None);
            gate.spend(seconds(call * 60), 1);
        }
        let (_, until) = gate.closed(seconds(60_000), 1, None).unwrap_or((Shut::Hours, START));
        assert!((seconds(86_400)..=seconds(86_400 + 675)).contains(&until), "{until:?}");
    }

    #[test]
    fn slowed_down_even_a_bursting_budget_is_spread() {
        let mut gate = BudgetGate::new(&config(&[limit(Unit::ApiCalls, 10, 10)]), START);
        gate.spend(START, 1);
        gate.slow_down(START);
        gate.spend(START, 1);
        assert_eq!(gate.closed(START, 1, None), Some((Shut::Limit(Unit::ApiCalls), seconds(2))));
        assert!(gate.success(seconds(1)));
        assert!(gate.closed(START, 1, None).is_some_and(|(_, until)| until < seconds(2)));
    }

    #[test]
    fn a_limit_over_another_period_inherits_what_is_remembered() {
        let mut gate = BudgetGate::new(&config(&[limit(Unit::ApiCalls, 10, 10)]), START);
        gate.spend(START, 10);
        gate.configure(START, &config(&[limit(Unit::ApiCalls, 10, 60)]));
        assert_eq!(gate.closed(START, 1, None), Some((Shut::Limit(Unit::ApiCalls), seconds(60))));
    }

    #[test]
    fn outside_of_its_hours_it_is_closed_until_the_next() {
        let hours = |from, until| OpenInterval { from: seconds(from).into(), until: seconds(until).into() };
        let open_hours = Some(Arc::from([hours(10, 20), hours(30, 40)]));
        let mut gate = BudgetGate::new(&BudgetConfig { open_hours, ..config(&[limit(Unit::ApiCalls, 1, 8)]) }, START);
        let closed = [0, 9, 10, 19, 20, 30, 39].map(|second| gate.closed(seconds(second), 1, None));
        let until = |second| Some((Shut::Hours, seconds(second)));
        assert_eq!(closed, [until(10), until(10), None, None, until(30), None, None]);
        assert_eq!(gate.closed(seconds(40), 1, None), until(40 + 86_400), "closed until it is configured anew");
        gate.spend(seconds(15), 1);
        assert_eq!(gate.closed(seconds(16), 1, None), Some((Shut::Limit(Unit::ApiCalls), seconds(23))));
        gate.configure(seconds(40), &config(&[]));
        assert_eq!(gate.closed(seconds(40), 1, None), None);
    }

    #[test]
    fn what_is_kept_for_others_is_left_to_them_until_it_lapses() {
        let mut burst = BudgetGate::new(&config(&[limit(Unit::ApiCalls, 5, 10)]), START);
        let ahead = |calls, second| Some(Ahead { calls, lapses: seconds(second) });
        let shut = Shut::Limit(Unit::ApiCalls);
        burst.spend(START, 2);
        assert_eq!(burst.closed(START, 1, ahead(2, 99)), None);
        assert_eq!(burst.closed(START, 2, ahead(2, 99)), Some((shut, seconds(10))));
        assert_eq!(burst.closed(START, 2, ahead(2, 3)), Some((shut, seconds(3))));
        assert_eq!(burst.closed(START, 4, ahead(2, 3)), Some((shut, seconds(10))), "closed without them too");
        assert_eq!(burst.closed(START, 4, ahead(2, 99)), Some((shut, seconds(99))), "both never fit");

        let paced = BudgetLimit { even: true, ..limit(Unit::ApiCalls, 1, 1) };
        let mut even = BudgetGate::new(&config(&[paced]), START);
        even.spend(START, 1);
        assert_eq!(even.closed(START, 1, ahead(1, 99)), Some((shut, seconds(99))));
        let paced = BudgetLimit { even: true, ..limit(Unit::ApiCalls, 10, 10) };
        let mut even = BudgetGate::new(&config(&[paced]), START);
        even.spend(START, 1);
        assert_eq!(even.closed(seconds(1), 1, None), None);
        assert_eq!(even.closed(seconds(1), 1, ahead(1, 99)), Some((shut, seconds(2))), "the slot is the other's");
    }
}
