//! Adaptive slow-down: half the rate with each event, a tenth more with each success.

use super::{Moment, REMEMBERED};

/// The full rate, in thousandths.
const FULL: u32 = 1000;

/// The share of its rate at which a budget goes at present.
#[derive(Debug, Clone)]
pub struct Slowdown {
    permille: u32,
    last_event: Option<Moment>,
}

impl Default for Slowdown {
    fn default() -> Self {
        Self { permille: FULL, last_event: None }
    }
}

impl Slowdown {
    /// The present share, in thousandths.
    pub fn permille(&self) -> u32 {
        self.permille
    }

    /// Whether it goes slower than it may.
    pub fn is_slow(&self) -> bool {
        self.permille < FULL
    }

    /// A server pushed back. The caller tells events apart; this is one.
    pub fn event(&mut self, now: Moment, floor_percent: u32) {
        self.permille = (self.permille / 2).max(floor_percent.clamp(1, 100) * 10);
        self.last_event = Some(now);
    }

    /// A request that was sent then succeeded. One sent before the last event says nothing.
    pub fn success(&mut self, sent_at: Moment) {
        if self.last_event.is_none_or(|event| sent_at > event) {
            self.permille = (self.permille + (self.permille / 10).max(1)).min(FULL);
        }
    }

    /// When it is as well to start anew, if nobody asks any more; `None`: now.
    pub fn remembers_until(&self, now: Moment) -> Option<Moment> {
        self.last_event.filter(|_| self.is_slow()).map(|event| event.plus(REMEMBERED)).filter(|until| *until > now)
    }

    /// Back to the full rate.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_halves_the_rate_down_to_the_floor() {
        let mut slowdown = Slowdown::default();
        let shares = [1, 2, 3, 4, 5, 6].map(|moment| {
            slowdown.event(Moment(moment), 5);
            slowdown.permille()
        });
        assert_eq!(shares, [500, 250, 125, 62, 50, 50]);
    }

    #[test]
    fn successes_bring_the_full_rate_back_but_not_those_sent_before_the_event() {
        let mut slowdown = Slowdown::default();
        slowdown.event(Moment(10), 5);
        slowdown.success(Moment(10));
        assert_eq!(slowdown.permille(), 500);
        slowdown.success(Moment(11));
        assert_eq!(slowdown.permille(), 550);
        (0..7).for_each(|_| slowdown.success(Moment(12)));
        assert!(!slowdown.is_slow());
    }
}
