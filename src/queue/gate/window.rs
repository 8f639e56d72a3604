//! A sliding window: at most `amount` in any `period`, whatever its start.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Moment, micros};

/// Spendings closer together than this part of the period are kept as one entry, dated by its last: at most so many
/// entries are kept, and at most this part of the rate is lost.
const GRAINS: i64 = 128;

/// Counts what was spent in the last period.
///
/// What is known only afterwards may overshoot ([`Window::charge`]). The excess becomes debt, paid from what the
/// window would have allowed next, so that the mean rate stays the one allowed.
#[derive(Debug, Clone)]
pub struct Window {
    amount: u64,
    period_us: i64,
    entries: VecDeque<Entry>,
    /// The sum of the entries.
    used: u64,
    debt: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    first: Moment,
    last: Moment,
    count: u64,
}

impl Window {
    /// An unused window. An amount or a period of zero counts as one (of a microsecond).
    pub fn new(amount: u64, period: Duration) -> Self {
        Self { amount: amount.max(1), period_us: micros(period).max(1), entries: VecDeque::new(), used: 0, debt: 0 }
    }

    /// Changes the limit; what was spent stays spent.
    pub fn resize(&mut self, now: Moment, amount: u64, period: Duration) {
        self.forget(now);
        self.amount = amount.max(1);
        self.period_us = micros(period).max(1);
        let debt = std::mem::take(&mut self.debt);
        self.charge(now, debt);
    }

    /// When `cost` may be spent so that `ahead` is left for others; `None`: now. A cost above the amount never fits and
    /// is taken as the amount; what never fits together has no moment until the others have gone.
    pub fn opens_at(&mut self, now: Moment, cost: u64, ahead: u64) -> Option<Moment> {
        self.forget(now);
        let cost = u128::from(cost.min(self.amount)) + u128::from(ahead);
        if ahead > 0 && cost > u128::from(self.amount) {
            return Some(Moment(i64::MAX));
        }
        let wanted = u128::from(self.used) + u128::from(self.debt) + cost;
        let missing = wanted.checked_sub(u128::from(self.amount)).filter(|missing| *missing > 0)?;
        // While there is debt everything that is freed pays it, so the entries come round once a period.
        let used = u128::from(self.used.max(1));
        let rounds = i64::try_from((missing - 1) / used).unwrap_or(i64::MAX);
        let rest = (missing - 1) % used + 1;
        let mut freed = 0;
        let entry = self.entries.iter().find(|entry| {
            freed += u128::from(entry.count);
            freed >= rest
        })?;
        Some(Moment(entry.last.0.saturating_add(self.period_us.saturating_mul(rounds.saturating_add(1)))))
    }

    /// Spends what [`Window::opens_at`] allowed.
    pub fn spend(&mut self, now: Moment, cost: u64) {
        self.charge(now, cost);
    }

    /// Counts what is known only now; may overshoot.
    pub fn charge(&mut self, now: Moment, count: u64) {
        self.forget(now);
        let fits = count.min(self.amount.saturating_sub(self.used));
        self.debt = self.debt.saturating_add(count - fits);
        if fits == 0 {
            return;
        }
        self.used += fits;
        let grain_us = self.period_us / GRAINS;
        match self.entries.back_mut() {
            Some(entry) if now.0.saturating_sub(entry.first.0) < grain_us => {
                entry.last = entry.last.max(now);
                entry.count += fits;
            }
            _ => self.entries.push_back(Entry { first: now, last: now, count: fits }),
        }
    }

    /// When nothing will be left of what was spent; `None`: now.
    pub fn remembers_until(&mut self, now: Moment) -> Option<Moment> {
        self.forget(now);
        let newest = self.entries.back()?.last;
        let rounds = i64::try_from(self.debt.div_ceil(self.amount)).unwrap_or(i64::MAX).saturating_add(1);
        Some(Moment(newest.0.saturating_add(self.period_us.saturating_mul(rounds))))
    }

    /// Drops what left the window; what that frees pays debt first.
    fn forget(&mut self, now: Moment) {
        self.pay_whole_rounds(now);
        while let Some(&entry) = self.entries.front() {
            let freed_at = Moment(entry.last.0.saturating_add(self.period_us));
            if freed_at > now {
                return;
            }
            self.entries.pop_front();
            self.used -= entry.count;
            let paid = self.debt.min(entry.count).min(self.amount.saturating_sub(self.used));
            if paid > 0 {
                self.debt -= paid;
                self.used += paid;
                self.entries.push_back(Entry { first: freed_at, last: freed_at, count: paid });
            }
        }
    }

    /// A shortcut for [`Window::forget`] after a long pause with much debt.
    fn pay_whole_rounds(&mut self, now: Moment) {
        let Some(newest) = self.entries.back().filter(|_| self.debt > 0 && self.used == self.amount) else {
            return;
        };
        let elapsed = u64::try_from(now.0.saturating_sub(newest.last.0) / self.period_us).unwrap_or(0);
        let rounds = elapsed.min(self.debt / self.amount);
        self.debt -= rounds * self.amount;
        let shift_us = i64::try_from(rounds).unwrap_or(i64::MAX).saturating_mul(self.period_us);
        for entry in &mut self.entries {
            entry.first.0 = entry.first.0.saturating_add(shift_us);
            entry.last.0 = entry.last.0.saturating_add(shift_us);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: Moment = Moment(1_800_000_000_000_000);

    /// The most that any window holds; it is enough to look at those that begin with a spending.
    fn most_in_a_window(spent: &[(Moment, u64)], period: Duration) -> u64 {
        let window_from = |start: usize| {
            let end = spent[start].0.plus(period);
            spent[start..].iter().take_while(|(at, _)| *at < end).map(|(_, count)| count).sum()
        };
        (0..spent.len()).map(window_from).max().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn no_window_exceeds_its_amount_whatever_the_arrivals(
            amount in 1_u64..300,
            period_ms in 1_u64..5_000,
            arrivals in proptest::collection::vec((0_u64..200_000, 1_u64..5), 1..400),
        ) {
            let period = Duration::from_millis(period_ms);
            let mut window = Window::new(amount, period);
            let (mut now, mut spent) = (START, Vec::new());
            for (gap_us, cost) in arrivals {
                now = now.plus(Duration::from_micros(gap_us));
                let cost = cost.min(amount);
                if window.opens_at(now, cost, 0).is_none() {
                    window.spend(now, cost);
                    spent.push((now, cost));
                }
            }
            prop_assert!(most_in_a_window(&spent, period) <= amount);
        }

        #[test]
        fn who_always_asks_gets_nine_tenths_of_what_is_allowed(
            amount in 1_u64..500,
            period_ms in 10_u64..5_000,
            work_us in 0_u64..2_000,
        ) {
            let period = Duration::from_millis(period_ms);
            let mut window = Window::new(amount, period);
            let end = START.plus(period * 20);
            let (mut now, mut spent, mut busy_us) = (START, 0, 0);
            while now < end {
                if let Some(until) = window.opens_at(now, 1, 0) {
                    now = until;
                    continue;
                }
                window.spend(now, 1);
                spent += 1;
                busy_us += work_us;
                now = now.plus(Duration::from_micros(work_us));
            }
            let allowed = amount * 20;
            prop_assert!(spent <= allowed);
            let could_do = if busy_us == 0 { allowed } else { allowed.min(period_ms * 1_000 * 20 / work_us) };
            prop_assert!(spent * 10 >= could_do * 9, "{spent} of {could_do}");
        }

        #[test]
        fn it_opens_at_the_moment_it_names_and_not_before(
            amount in 1_u64..50,
            charges in proptest::collection::vec((0_u64..400_000, 1_u64..200), 1..40),
        ) {
            let mut window = Window::new(amount, Duration::from_secs(1));
            let mut now = START;
            for (gap_us, count) in charges {
                now = now.plus(Duration::from_micros(gap_us));
                window.charge(now, count);
                if let Some(until) = window.opens_at(now, 1, 0) {
                    prop_assert!(until > now);
                    prop_assert!(window.clone().opens_at(Moment(until.0 - 1), 1, 0).is_some());
                    prop_assert_eq!(window.clone().opens_at(until, 1, 0), None);
                }
            }
        }

        #[test]
        fn what_overshot_is_paid_so_that_the_mean_rate_holds(
            amount in 1_u64..100,
            answers in proptest::collection::vec(1_u64..500, 20..100),
        ) {
            let mut window = Window::new(amount, Duration::from_secs(1));
            let (mut now, mut charged) = (START, 0);
            let newest = *answers.last().unwrap_or(&0);
            for count in answers {
                if let Some(until) = window.opens_at(now, 1, 0) {
                    now = until;
                }
                window.charge(now, count);
                charged += count;
            }
            let periods = now.since(START).as_secs_f64() + 1.0;
            let allowed = amount as f64 * periods;
            prop_assert!(charged as f64 <= allowed + newest as f64);
            prop_assert!((charged as f64) >= 0.9 * amount as f64 * (periods - 1.0));
        }
    }

    #[test]
    fn bookkeeping_stays_small_however_much_is_spent() {
        let mut window = Window::new(u64::MAX, Duration::from_secs(1));
        for step in 0..100_000 {
            window.spend(START.plus(Duration::from_micros(step * 50)), 1);
        }
        assert!(window.entries.len() <= 130, "{} entries", window.entries.len());
    }

    #[test]
    fn a_huge_debt_is_paid_over_a_long_pause_in_no_time() {
        let mut window = Window::new(1, Duration::from_millis(1));
        window.charge(START, 1 << 40);
        let day = START.plus(Duration::from_hours(24));
        assert!(window.opens_at(day, 1, 0).is_some());
        assert_eq!(window.debt, (1 << 40) - 1 - 86_400_000);
    }
}
