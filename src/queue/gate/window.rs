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

    /// When `cost` may be spent; `None`: now. A cost above the amount never fits and is taken as the amount.
    pub fn opens_at(&mut self, now: Moment, cost: u64) -> Option<Moment> {
        self.forget(now);
        let wanted = u128::from(self.used) + u128::from(self.debt) + u128::from(cost.min(self.amount));
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
