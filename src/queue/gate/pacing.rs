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
    /// When the next slot is; `None`: now.
    pub fn opens_at(&self, now: Moment, rate: Rate) -> Option<Moment> {
        self.next(rate).filter(|next| *next > now)
    }

    /// Takes the slot that [`Pacing::opens_at`] showed.
    pub fn spend(&mut self, now: Moment, cost: u64, rate: Rate) {
        let tolerated_us = (rate.gap_us(1) / 2).max(LATENESS_US);
        let at = self.next(rate).filter(|next| now.0.saturating_sub(next.0) <= tolerated_us).unwrap_or(now);
        self.last = Some(Slot { at, cost });
    }

    fn next(&self, rate: Rate) -> Option<Moment> {
        self.last.map(|slot| Moment(slot.at.0.saturating_add(rate.gap_us(slot.cost))))
    }
}
