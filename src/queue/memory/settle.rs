//! How leases end: settled, released, expired; and what comes of it.

use jiff::Timestamp;

use super::failures::CRASHED;
use super::gates::Touched;
use super::leases::Lease;
use super::run::{Call, State};
use crate::queue::gate::Moment;
use crate::queue::{
    Gate, Holder, LeaseRef, PERMIT_RETRY, Permit, Pushback, Pushed, QueueError, ReleaseCause, Released, SettleResult,
    Settled, Settlement,
};
use crate::task::OriginKey;

impl Call<'_> {
    pub(super) fn permit(
        &mut self,
        holder: &Holder,
        lease_ref: LeaseRef,
        origin: &OriginKey,
    ) -> Result<Permit, QueueError> {
        self.run.admit(holder)?;
        let Some(lease) = self.run.leases.get(holder.token, lease_ref) else {
            return Err(QueueError::LeaseLost { run: self.run.id.clone(), task: lease_ref.task });
        };
        if self.run.frozen {
            return Ok(Permit::Frozen);
        }
        let (picked, previous, now) = (lease.picked, lease.elsewhere, self.now);
        let protection = self.run.lanes.protection;
        let asked = self.gates.origin(origin, now);
        let is_own = picked.origin == asked;
        let gate = &self.gates.origins[asked as usize].gate;
        if let Some(until) = gate.backs_off_until(now) {
            return Ok(wait(until, Gate::OriginBackOff { origin: origin.clone() }));
        }
        let counts_already = is_own || previous == Some(asked);
        if !counts_already && gate.is_full(&protection) {
            return Ok(wait(now.plus(PERMIT_RETRY), Gate::OriginConcurrency { origin: origin.clone() }));
        }
        let calls = if is_own { picked.calls } else { 1 };
        let budget = &mut self.gates.budgets[picked.budget as usize];
        if let Err((gate, until)) = budget.permit(now, calls, self.run.lanes.run, lease_ref.lease) {
            return Ok(wait(until, gate));
        }
        let gate = &mut self.gates.origins[asked as usize].gate;
        gate.sent(now);
        if !counts_already {
            gate.begin();
        }
        if previous != Some(asked) {
            self.leave_elsewhere(previous);
        }
        if let Some(lease) = self.run.leases.get(holder.token, lease_ref) {
            lease.sent_at = now;
            lease.elsewhere = (!is_own).then_some(asked);
        }
        Ok(Permit::Granted)
    }

    /// A request to another origin than the task's ended.
    fn leave_elsewhere(&mut self, origin: Option<u32>) {
        if let Some(origin) = origin {
            self.gates.origins[origin as usize].gate.end();
            self.origin_changed(origin);
        }
    }

    /// Wakes who waits for an origin: this run's lanes now, other runs' when the call ends.
    pub(super) fn origin_changed(&mut self, origin: u32) {
        self.run.lanes.origin_changed(self.gates, origin, self.now);
        self.gates.touch_origin(origin, self.run.lanes.run);
    }

    /// Has a budget looked at again that may be open sooner than was said.
    pub(super) fn budget_changed(&mut self, budget: u32) {
        let known = &mut self.gates.budgets[budget as usize];
        known.right_of_way.opened(self.now);
        if !known.gate.is_full() {
            known.right_of_way.freed(self.now);
        }
        self.run.lanes.budget_changed(self.gates, budget);
        self.gates.touch_budget(budget, self.run.lanes.run);
    }

    pub(super) fn settle(&mut self, holder: &Holder, settlements: Vec<Settlement>) -> Result<Vec<Settled>, QueueError> {
        self.run.admit(holder)?;
        for settlement in &settlements {
            if let SettleResult::Done { feedback } = &settlement.result
                && self.run.leases.get(holder.token, settlement.lease).is_some()
            {
                feedback.iter().try_for_each(|task| {
                    self.run.lanes.known_node(&task.section.node).map(drop).ok_or_else(|| QueueError::NoSuchNode {
                        run: self.run.id.clone(),
                        node: task.section.node.clone(),
                    })
                })?;
            }
        }
        let settled = settlements.into_iter().map(|settlement| self.settle_one(holder.token, settlement)).collect();
        self.run.changed();
        Ok(settled)
    }

    fn settle_one(&mut self, token: u32, settlement: Settlement) -> Settled {
        let Some(lease) = self.run.leases.end(token, settlement.lease) else { return Settled::Fenced };
        let budget = &mut self.gates.budgets[lease.picked.budget as usize].gate;
        budget.charge(self.now, settlement.documents, settlement.bytes);
        let mut pushed = Pushed::default();
        match settlement.result {
            SettleResult::Done { feedback } => {
                self.succeeded(&lease);
                self.end_lease(&lease);
                self.forget(lease.picked.task);
                self.run.ledger.done += 1;
                pushed = self.add(feedback);
            }
            SettleResult::Retry { delay, why } => {
                self.run.failures.note(lease.picked.task, self.now, &why);
                self.end_lease(&lease);
                self.put_back(lease.picked.task, Some(self.now.plus(delay)));
            }
            SettleResult::Dead { why } => {
                self.end_lease(&lease);
                self.bury(lease.picked.task, &why);
            }
            SettleResult::Dropped => {
                self.end_lease(&lease);
                self.forget(lease.picked.task);
                self.run.ledger.dropped += 1;
            }
            SettleResult::Released => {
                let entry = &mut self.run.tasks[lease.picked.task as usize];
                entry.attempts = entry.attempts.saturating_sub(1);
                self.requeue(&lease);
            }
        }
        Settled::Accepted(pushed)
    }

    /// Frees the lease's places at the gates, and takes it out of the account.
    pub(super) fn end_lease(&mut self, lease: &Lease) {
        let picked = lease.picked;
        self.run.ledger.leased -= 1;
        if let Some(member) = self.run.holders.get_mut(&lease.token) {
            member.under_way = member.under_way.saturating_sub(1);
            member.is_alone &= member.under_way > 0;
        }
        self.run.lanes.lanes[picked.lane as usize].leased -= 1;
        self.gates.origins[picked.origin as usize].gate.end();
        self.origin_changed(picked.origin);
        self.leave_elsewhere(lease.elsewhere);
        let budget = &mut self.gates.budgets[picked.budget as usize];
        budget.gate.end();
        let has_reserved = budget.reserved.end(self.run.lanes.run, lease.number);
        if budget.right_of_way.freed(self.now) {
            self.run.lanes.budget_freed(self.gates, picked.budget);
            self.gates.touch(Touched::Freed(picked.budget));
        }
        if has_reserved {
            self.budget_changed(picked.budget);
        }
    }

    fn succeeded(&mut self, lease: &Lease) {
        let picked = lease.picked;
        for origin in [Some(picked.origin), lease.elsewhere].into_iter().flatten() {
            self.gates.origins[origin as usize].gate.success(lease.sent_at);
        }
        if self.gates.budgets[picked.budget as usize].gate.success(lease.sent_at) {
            self.budget_changed(picked.budget);
        }
    }

    pub(super) fn forget(&mut self, key: u32) {
        self.run.tasks.remove(key as usize);
        self.run.failures.forget(key);
    }

    fn bury(&mut self, key: u32, why: &str) {
        let entry = self.run.tasks.remove(key as usize);
        self.run.failures.bury(key, entry, self.now, why);
        self.run.ledger.dead += 1;
    }

    /// Puts a leased task back where it was.
    pub(super) fn requeue(&mut self, lease: &Lease) {
        self.end_lease(lease);
        self.put_back(lease.picked.task, None);
    }

    fn put_back(&mut self, key: u32, until: Option<Moment>) {
        let node = self.run.tasks[key as usize].node;
        if self.run.lanes.nodes[node as usize].removed {
            self.forget(key);
            self.run.ledger.dropped += 1;
        } else if let Some(until) = until.filter(|until| *until > self.now) {
            self.run.ledger.delayed += 1;
            self.delay(key, until);
        } else if until.is_some() {
            self.run.ledger.queued += 1;
            self.enqueue_last(key);
        } else {
            self.run.ledger.queued += 1;
            self.enqueue(key);
        }
    }

    pub(super) fn renew(&mut self, holder: &Holder, leases: &[LeaseRef]) -> Result<Vec<LeaseRef>, QueueError> {
        self.run.admit(holder)?;
        let expires = self.now.plus(self.run.lease);
        Ok(leases.iter().copied().filter(|lease| !self.run.leases.renew(holder.token, *lease, expires)).collect())
    }

    pub(super) fn pushback(
        &mut self,
        holder: &Holder,
        origin: &OriginKey,
        pushback: Pushback,
    ) -> Result<Option<Timestamp>, QueueError> {
        self.run.admit(holder)?;
        let origin = self.gates.origin(origin, self.now);
        let asks =
            |lease: &&Lease| lease.token == holder.token && lease.elsewhere.unwrap_or(lease.picked.origin) == origin;
        let sent_at = self.run.leases.iter().filter(asks).map(|lease| lease.sent_at).max();
        let mut budgets: Vec<u32> = self.run.leases.iter().filter(asks).map(|lease| lease.picked.budget).collect();
        budgets.sort_unstable();
        budgets.dedup();
        let protection = self.run.lanes.protection;
        if self.gates.origins[origin as usize].gate.pushback(self.now, sent_at, pushback, &protection) {
            for budget in budgets {
                self.gates.budgets[budget as usize].gate.slow_down(self.now);
            }
        }
        self.origin_changed(origin);
        Ok(self.gates.origins[origin as usize].gate.backs_off_until(self.now).map(Timestamp::from))
    }

    pub(super) fn release_holder(&mut self, token: u32, cause: ReleaseCause) -> Released {
        let mut released = Released::default();
        self.run.holders.remove(&token);
        for lease in self.run.leases.end_all(token) {
            let entry = &mut self.run.tasks[lease.picked.task as usize];
            if cause == ReleaseCause::Crashed {
                entry.charges += 1;
            } else {
                entry.attempts = entry.attempts.saturating_sub(1);
            }
            if cause == ReleaseCause::Crashed && entry.charges >= self.run.max_charges {
                self.end_lease(&lease);
                self.bury(lease.picked.task, CRASHED);
                released.dead += 1;
            } else {
                if cause == ReleaseCause::Crashed {
                    self.run.failures.note(lease.picked.task, self.now, CRASHED);
                }
                self.requeue(&lease);
                released.requeued += 1;
            }
        }
        self.run.changed();
        released
    }

    /// Drops what a node has left that nobody works on.
    pub(super) fn drop_node(&mut self, node: u32) {
        for key in self.run.lanes.remove(node) {
            self.forget(key);
            self.run.ledger.queued -= 1;
            self.run.ledger.dropped += 1;
        }
        let delayed: Vec<usize> = self
            .run
            .tasks
            .iter()
            .filter(|(_, entry)| entry.node == node && matches!(entry.state, State::Delayed(_)))
            .map(|(key, _)| key)
            .collect();
        for key in delayed {
            self.forget(super::lanes::index(key));
            self.run.ledger.delayed -= 1;
            self.run.ledger.dropped += 1;
        }
    }
}

fn wait(until: Moment, gate: Gate) -> Permit {
    Permit::Wait { until: Timestamp::from(until), gate }
}
