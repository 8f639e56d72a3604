//! Spreads calls over the period instead of letting them come as they like.

use std::time::Duration;

use super::{Moment, micros};

/// Whoever comes this late, or half a gap late, still has the slot he was promised: else every timer's lateness
/// would be lost rate. Whoever comes later starts a new row of slots; idle time earns nothing.
const LATENESS_US: i64 = 20_000;

/// A row of slots, one call's gap apart.
#[derive(Debug, Clone, Default)]
pub struct Pacing {
    last: Option<Slot>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    at: Moment,
    cost: u64,
}

/// The rate that slots follow.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    /// So many calls …
    pub amount: u64,
    /// … in this time …
    pub period: Duration,
    /// … times this many thousandths.
    pub permille: u32,
}

impl Rate {
    fn gap_us(self, cost: u64) -> i64 {
        let calls_permille = u128::from(self.amount.max(1)) * u128::from(self.permille.max(1));
        let period_us = u128::from(micros(self.period).unsigned_abs());
        let gap_us = (period_us * u128::from(cost) * 1000).div_ceil(calls_permille);
        i64::try_from(gap_us).unwrap_or(i64::MAX)
    }
}

impl Pacing {
    /// When the next slot is, behind those of `ahead` calls that are others'; `None`: now.
    pub fn opens_at(&self, now: Moment, ahead: u64, rate: Rate) -> Option<Moment> {
        let next = self.slot(now, rate);
        Some(Moment(next.0.saturating_add(rate.gap_us(ahead)))).filter(|slot| *slot > now)
    }

    /// Takes the slot that [`Pacing::opens_at`] showed.
    pub fn spend(&mut self, now: Moment, cost: u64, rate: Rate) {
        self.last = Some(Slot { at: self.slot(now, rate), cost });
    }

    /// The slot that comes next: that of the row, or now if it is long past.
    fn slot(&self, now: Moment, rate: Rate) -> Moment {
        let tolerated_us = (rate.gap_us(1) / 2).max(LATENESS_US);
        self.next(rate).filter(|next| now.0.saturating_sub(next.0) <= tolerated_us).unwrap_or(now)
    }

    fn next(&self, rate: Rate) -> Option<Moment> {
        self.last.map(|slot| Moment(slot.at.0.saturating_add(rate.gap_us(slot.cost))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Moment = Moment(1_800_000_000_000_000);
    const TEN_A_SECOND: Rate = Rate { amount: 10, period: Duration::from_secs(1), permille: 1000 };

    fn ms(ms: u64) -> Moment {
        START.plus(Duration::from_millis(ms))
    }

    #[test]
    fn the_next_slot_is_as_far_away_as_the_last_call_was_dear() {
        let mut pacing = Pacing::default();
        assert_eq!(pacing.opens_at(START, 0, TEN_A_SECOND), None);
        pacing.spend(START, 1, TEN_A_SECOND);
        assert_eq!(pacing.opens_at(START, 0, TEN_A_SECOND), Some(ms(100)));
        pacing.spend(ms(100), 3, TEN_A_SECOND);
        assert_eq!(pacing.opens_at(ms(100), 0, TEN_A_SECOND), Some(ms(400)));
    }

    #[test]
    fn a_slower_rate_moves_the_slot_that_was_shown() {
        let mut pacing = Pacing::default();
        pacing.spend(START, 1, TEN_A_SECOND);
        assert_eq!(pacing.opens_at(START, 0, Rate { permille: 250, ..TEN_A_SECOND }), Some(ms(400)));
    }

    #[test]
    fn being_a_little_late_costs_nothing_and_being_idle_earns_nothing() {
        let mut pacing = Pacing::default();
        pacing.spend(START, 1, TEN_A_SECOND);
        pacing.spend(ms(150), 1, TEN_A_SECOND);
        assert_eq!(pacing.opens_at(ms(150), 0, TEN_A_SECOND), Some(ms(200)));
        pacing.spend(ms(999), 1, TEN_A_SECOND);
        assert_eq!(pacing.opens_at(ms(999), 0, TEN_A_SECOND), Some(ms(1099)));
    }

    #[test]
    fn timers_that_are_two_milliseconds_late_keep_a_thousand_a_second() {
        let rate = Rate { amount: 1000, period: Duration::from_secs(1), permille: 1000 };
        let (mut pacing, mut now, mut calls) = (Pacing::default(), START, 0);
        while now < ms(10_000) {
            if let Some(until) = pacing.opens_at(now, 0, rate) {
                now = until.plus(Duration::from_millis(2));
                continue;
            }
            pacing.spend(now, 1, rate);
            calls += 1;
        }
        assert!((9_900..=10_001).contains(&calls), "{calls} calls");
    }
}
