//! Calls kept for permits that were told to wait: a task that is under way is not overtaken by those that could begin.

use std::time::Duration;

use crate::queue::gate::Moment;
use crate::queue::gate::budget::Ahead;

/// So long after its moment a permit that does not come is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// The reservations at one budget, oldest first.
#[derive(Debug, Default)]
pub(super) struct Reserved(Vec<Reservation>);

#[derive(Debug)]
struct Reservation {
    run: u32,
    lease: u64,
    calls: u64,
    lapses: Moment,
}

impl Reserved {
    /// What must be left for those that asked before: all, or those before this lease.
    pub(super) fn ahead(&mut self, now: Moment, of: Option<(u32, u64)>) -> Option<Ahead> {
        if self.0.is_empty() {
            return None;
        }
        self.0.retain(|reservation| reservation.lapses > now);
        let before = self.0.iter().take_while(|reservation| Some((reservation.run, reservation.lease)) != of);
        before.fold(None, |ahead: Option<Ahead>, reservation| {
            let Ahead { calls, lapses } = ahead.unwrap_or(Ahead { calls: 0, lapses: now });
            Some(Ahead { calls: calls.saturating_add(reservation.calls), lapses: lapses.max(reservation.lapses) })
        })
    }

    /// A lease's permit was told to come back at a moment. It keeps its place.
    pub(super) fn keep(&mut self, run: u32, lease: u64, calls: u64, until: Moment) {
        let lapses = until.plus(PATIENCE);
        match self.0.iter_mut().find(|known| (known.run, known.lease) == (run, lease)) {
            Some(known) => (known.calls, known.lapses) = (calls, lapses),
            None => self.0.push(Reservation { run, lease, calls, lapses }),
        }
    }

    /// A lease's permit came, or the lease ended. Returns whether something was reserved for it.
    pub(super) fn end(&mut self, run: u32, lease: u64) -> bool {
        let before = self.0.len();
        if before > 0 {
            self.0.retain(|known| (known.run, known.lease) != (run, lease));
        }
        self.0.len() < before
    }
}
