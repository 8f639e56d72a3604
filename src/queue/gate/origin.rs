//! What protects an origin, whatever the policy: a cap on requests under way, and back-off.

use std::time::Duration;

use super::Moment;
use crate::queue::{OriginProtection, Pushback};

/// One origin's state.
#[derive(Debug, Clone, Default)]
pub struct OriginGate {
    under_way: u32,
    /// Events since the last success.
    events: u32,
    last_event: Option<Moment>,
    last_sent: Option<Moment>,
    back_off_until: Option<Moment>,
}

impl OriginGate {
    /// Whether as many requests as allowed are under way.
    pub fn is_full(&self, protection: &OriginProtection) -> bool {
        self.under_way >= protection.max_concurrent
    }

    /// Until when it is to be left alone; `None`: it isn't.
    pub fn backs_off_until(&self, now: Moment) -> Option<Moment> {
        self.back_off_until.filter(|until| *until > now)
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

    /// A request is being sent.
    pub fn sent(&mut self, now: Moment) {
        self.last_sent = Some(now);
    }

    /// Nothing is known that would be missed.
    pub fn is_idle(&self, now: Moment) -> bool {
        self.under_way == 0 && self.events == 0 && self.backs_off_until(now).is_none()
    }

    /// A pushback. `sent_at`: when the request it answers was sent, as far as that is known. Returns whether it is
    /// a new event: those for requests sent before the last one say nothing new, but may ask for more patience.
    pub fn pushback(
        &mut self,
        now: Moment,
        sent_at: Option<Moment>,
        pushback: Pushback,
        protection: &OriginProtection,
    ) -> bool {
        let backs_off = self.backs_off_until(now).is_some();
        let sent_since = sent_at.or(self.last_sent) > self.last_event;
        let is_new = self.last_event.is_none() || (!backs_off && sent_since);
        if is_new {
            self.events = self.events.saturating_add(1);
            self.last_event = Some(now);
        }
        let asked =
            pushback.retry_after.filter(|asked| !asked.is_zero()).map(|asked| asked.min(protection.max_backoff));
        let pause = asked.or_else(|| is_new.then(|| self.doubled(protection)));
        let until = pause.map(|pause| now.plus(pause));
        self.back_off_until = self.back_off_until.max(until);
        is_new
    }

    /// A request sent then succeeded. One sent before the last event says nothing.
    pub fn success(&mut self, sent_at: Moment) {
        if Some(sent_at) > self.last_event {
            self.events = 0;
        }
    }

    fn doubled(&self, protection: &OriginProtection) -> Duration {
        let factor = 1_u32.checked_shl(self.events.saturating_sub(1)).unwrap_or(u32::MAX);
        protection.initial_backoff.saturating_mul(factor).min(protection.max_backoff)
    }
}
