//! What protects an origin, whatever the policy: a cap on requests under way, and back-off.

use std::time::Duration;

use super::{Moment, REMEMBERED};
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

    /// When it is as well to start anew, if nobody asks any more; `None`: now.
    pub fn remembers_until(&self, now: Moment) -> Option<Moment> {
        let events = self.last_event.filter(|_| self.events > 0).map(|event| event.plus(REMEMBERED));
        events.max(self.back_off_until).filter(|until| *until > now)
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

    /// It is to be left alone until then, at least.
    pub fn close_until(&mut self, until: Moment) {
        self.back_off_until = self.back_off_until.max(Some(until));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::PushbackKind;

    const PROTECTION: OriginProtection = OriginProtection {
        max_concurrent: 2,
        initial_backoff: Duration::from_secs(1),
        max_backoff: Duration::from_secs(5),
    };

    fn second(second: i64) -> Moment {
        Moment(second * 1_000_000)
    }

    fn pushed(retry_after_seconds: Option<u64>) -> Pushback {
        let retry_after = retry_after_seconds.map(Duration::from_secs);
        Pushback { kind: PushbackKind::Unavailable, retry_after }
    }

    #[test]
    fn it_is_left_alone_for_as_long_as_it_asks_within_reason() {
        let cases = [(None, 1), (Some(0), 1), (Some(3), 3), (Some(86_400), 5)];
        for (asked, expected) in cases {
            let mut gate = OriginGate::default();
            assert!(gate.pushback(second(0), None, pushed(asked), &PROTECTION));
            assert_eq!(gate.backs_off_until(second(0)), Some(second(expected)), "asked for {asked:?}");
            assert_eq!(gate.backs_off_until(second(expected)), None);
        }
    }

    #[test]
    fn an_answer_to_a_request_from_before_the_event_is_the_same_event_but_may_ask_for_more() {
        let mut gate = OriginGate::default();
        gate.sent(second(0));
        assert!(gate.pushback(second(1), Some(second(0)), pushed(None), &PROTECTION));
        assert!(!gate.pushback(second(3), Some(second(0)), pushed(None), &PROTECTION));
        assert_eq!(gate.backs_off_until(second(3)), None);
        assert!(!gate.pushback(second(3), None, pushed(Some(4)), &PROTECTION));
        assert_eq!(gate.backs_off_until(second(3)), Some(second(7)));
        gate.sent(second(8));
        assert!(gate.pushback(second(9), Some(second(8)), pushed(None), &PROTECTION));
        assert_eq!(gate.backs_off_until(second(9)), Some(second(11)), "the second event doubles");
    }

    #[test]
    fn only_the_success_of_a_later_request_resets_the_doubling() {
        for (sent_at, expected) in [(0, 2), (2, 1)] {
            let mut gate = OriginGate::default();
            gate.pushback(second(1), None, pushed(None), &PROTECTION);
            gate.success(second(sent_at));
            gate.pushback(second(10), Some(second(9)), pushed(None), &PROTECTION);
            assert_eq!(gate.backs_off_until(second(10)), Some(second(10 + expected)));
        }
    }
}
