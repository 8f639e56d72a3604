//! Tasks that were being worked on in a crash: each is handed out alone, so that the next crash names the culprit and
//! takes nothing else with it.
//!
//! Suspects take no turns. A holder that has nothing under way takes the first whose gates are open, and gets nothing
//! else until that lease ends. If all are busy, one of the group is given nothing more until it is free.

use super::gates::Gates;
use super::lanes::{Lanes, Picked};
use super::run::Call;
use crate::queue::gate::Moment;
use crate::queue::{Gate, MAX_CLAIM_TASKS};

impl Lanes {
    /// Whether any suspect is ready.
    pub(super) fn has_suspects(&self) -> bool {
        !self.suspected.is_empty()
    }

    /// Whether the queue holds suspects of a group that may be handed out.
    fn holds_suspects_of(&self, queue: u32, group: u32) -> bool {
        let queue = &self.queues[queue as usize];
        let node = &self.nodes[queue.node as usize];
        let pool = &self.pools[self.lanes[queue.lane as usize].pool as usize];
        pool.group == group && !node.config.suspended && !node.removed
    }

    /// The first suspect of a group whose gates are open.
    pub(super) fn open_suspect(&mut self, gates: &mut Gates, group: u32, now: Moment) -> Option<u32> {
        let queues: Vec<u32> = self.suspected.iter().copied().collect();
        queues
            .into_iter()
            .find(|&queue| self.holds_suspects_of(queue, group) && self.suspect_waits_for(gates, queue, now).is_none())
    }

    /// When the first suspect of a group can go, as far as time decides; a place under way may become free earlier.
    pub(super) fn suspect_opens_at(&mut self, gates: &mut Gates, group: u32, now: Moment) -> Option<Moment> {
        let queues: Vec<u32> = self.suspected.iter().copied().collect();
        let own = queues.into_iter().filter(|&queue| self.holds_suspects_of(queue, group)).collect::<Vec<u32>>();
        own.into_iter().filter_map(|queue| self.suspect_waits_for(gates, queue, now)).map(|(_, until)| until).min()
    }

    /// The gate that keeps the first suspect of a queue, and when it opens.
    pub(super) fn suspect_waits_for(&mut self, gates: &mut Gates, queue: u32, now: Moment) -> Option<(Gate, Moment)> {
        let calls = self.suspect_calls(queue)?;
        let lane = &self.lanes[self.queues[queue as usize].lane as usize];
        let pool = lane.pool;
        let origin = &gates.origins[lane.origin as usize];
        if let Some(until) = origin.gate.backs_off_until(now) {
            return Some((Gate::OriginBackOff { origin: origin.key.clone() }, until));
        }
        if origin.gate.is_full(&self.protection) {
            return Some((Gate::OriginConcurrency { origin: origin.key.clone() }, now.plus(LOOK_AGAIN)));
        }
        let budget = &mut gates.budgets[self.pools[pool as usize].budget as usize];
        if budget.gate.is_full() {
            return Some((Gate::BudgetConcurrency { budget: budget.id.clone() }, now.plus(LOOK_AGAIN)));
        }
        budget.closed(now, calls)
    }

    fn suspect_calls(&self, queue: u32) -> Option<u64> {
        let queue = &self.queues[queue as usize];
        let item = queue.first_suspect()?;
        Some(self.calls_of(queue.node, item))
    }

    /// Hands out the first suspect of a queue. Its gates are open.
    pub(super) fn hand_out_suspect(&mut self, gates: &mut Gates, queue: u32, now: Moment) -> Option<Picked> {
        let calls = self.suspect_calls(queue)?;
        let known = &mut self.queues[queue as usize];
        let item = known.pop_suspect()?;
        if known.first_suspect().is_none() {
            self.suspected.remove(&queue);
        }
        Some(self.spend(gates, queue, item, calls, now))
    }
}

/// A suspect that waits for a place which another run may free is looked at again so often: nobody is rung for it.
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_secs(1);

/// What a holder may be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offer {
    /// As much as it asks for.
    Any,
    /// This queue's first suspect, and nothing else.
    Suspect(u32),
    /// Nothing until what it has has ended.
    Nothing,
}

impl Call<'_> {
    /// What a holder may be given: a suspect is worked on alone.
    pub(super) fn offer(&mut self, token: u32, group: u32, max: usize) -> Offer {
        let Some(member) = self.run.holders.get(&token) else { return Offer::Nothing };
        if member.is_alone {
            return Offer::Nothing;
        }
        let is_busy = member.under_way > 0;
        if max.min(MAX_CLAIM_TASKS) == 0 || !self.run.lanes.has_suspects() {
            return Offer::Any;
        }
        let open = self.run.lanes.open_suspect(self.gates, group, self.now);
        let is_another_free = self.run.holders.iter().any(|(other, member)| {
            *other != token && member.group == group && member.under_way > 0 && (member.is_alone || member.is_draining)
        });
        let is_draining = is_busy && open.is_some() && !is_another_free;
        self.run.holders.entry(token).and_modify(|member| member.is_draining = is_draining);
        match open {
            Some(queue) if !is_busy => Offer::Suspect(queue),
            _ if is_draining => Offer::Nothing,
            _ => Offer::Any,
        }
    }
}
