//! How leases end: settled, released, expired; and what comes of it.

use jiff::Timestamp;

use super::failures::CRASHED;
use super::leases::Lease;
use super::run::{Run, State};
use crate::queue::gate::Moment;
use crate::queue::gate::origin::OriginGate;
use crate::queue::{
    Gate, Holder, LeaseRef, PERMIT_RETRY, Permit, Pushback, Pushed, QueueError, ReleaseCause, Released, SettleResult,
    Settled, Settlement,
};
use crate::task::OriginKey;

/// Origins that no task has are forgotten above so many, if nothing is known of them that matters.
const MAX_IDLE_ELSEWHERE: usize = 1024;

impl Run {
    pub(super) fn permit(
        &mut self,
        holder: &Holder,
        lease_ref: LeaseRef,
        origin: &OriginKey,
        now: Moment,
    ) -> Result<Permit, QueueError> {
        self.admit(holder)?;
        let Some(lease) = self.leases.get(holder.token, lease_ref) else {
            return Err(QueueError::LeaseLost { run: self.id.clone(), task: lease_ref.task });
        };
        if self.frozen {
            return Ok(Permit::Frozen);
        }
        let (picked, previous) = (lease.picked, lease.elsewhere.clone());
        let is_own = self.lanes.origins[picked.origin as usize].key == *origin;
        let protection = self.lanes.protection;
        let gate = self.origin_gate(origin, now);
        if let Some(until) = gate.backs_off_until(now) {
            return Ok(wait(until, Gate::OriginBackOff { origin: origin.clone() }));
        }
        let counts_already = is_own || previous.as_ref() == Some(origin);
        if !counts_already && gate.is_full(&protection) {
            return Ok(wait(now.plus(PERMIT_RETRY), Gate::OriginConcurrency { origin: origin.clone() }));
        }
        let calls = if is_own { picked.calls } else { 1 };
        let budget = &mut self.lanes.budgets[picked.budget as usize];
        if let Some((unit, until)) = budget.gate.closed(now, calls) {
            return Ok(wait(until, Gate::Budget { budget: budget.id.clone(), unit }));
        }
        budget.gate.spend(now, calls);
        let gate = self.origin_gate(origin, now);
        gate.sent(now);
        if !counts_already {
            gate.begin();
        }
        if previous.as_ref() != Some(origin) {
            self.leave_elsewhere(previous, now);
        }
        if let Some(lease) = self.leases.get(holder.token, lease_ref) {
            lease.sent_at = now;
            lease.elsewhere = (!is_own).then(|| origin.clone());
        }
        Ok(Permit::Granted)
    }

    /// The gate of any origin, also one that no task has.
    fn origin_gate(&mut self, origin: &OriginKey, now: Moment) -> &mut OriginGate {
        if let Some(known) = self.lanes.origin(origin) {
            return &mut self.lanes.origins[known as usize].gate;
        }
        if self.elsewhere.len() >= MAX_IDLE_ELSEWHERE && !self.elsewhere.contains_key(origin) {
            self.elsewhere.retain(|_, gate| !gate.is_idle(now));
        }
        self.elsewhere.entry(origin.clone()).or_default()
    }

    /// A request to another origin than the task's ended.
    fn leave_elsewhere(&mut self, origin: Option<OriginKey>, now: Moment) {
        let Some(origin) = origin else { return };
        if let Some(known) = self.lanes.origin(&origin) {
            self.lanes.origins[known as usize].gate.end();
            self.lanes.origin_changed(known, now);
        } else if let Some(gate) = self.elsewhere.get_mut(&origin) {
            gate.end();
        }
    }

    pub(super) fn settle(
        &mut self,
        holder: &Holder,
        settlements: Vec<Settlement>,
        now: Moment,
    ) -> Result<Vec<Settled>, QueueError> {
        self.admit(holder)?;
        for settlement in &settlements {
            if let SettleResult::Done { feedback } = &settlement.result
                && self.leases.get(holder.token, settlement.lease).is_some()
            {
                feedback.iter().try_for_each(|task| {
                    self.lanes
                        .known_node(&task.section.node)
                        .map(drop)
                        .ok_or_else(|| QueueError::NoSuchNode { run: self.id.clone(), node: task.section.node.clone() })
                })?;
            }
        }
        let settled =
            settlements.into_iter().map(|settlement| self.settle_one(holder.token, settlement, now)).collect();
        self.changed();
        Ok(settled)
    }

    fn settle_one(&mut self, token: u32, settlement: Settlement, now: Moment) -> Settled {
        let Some(lease) = self.leases.end(token, settlement.lease) else { return Settled::Fenced };
        let budget = &mut self.lanes.budgets[lease.picked.budget as usize].gate;
        budget.charge(now, settlement.documents, settlement.bytes);
        let mut pushed = Pushed::default();
        match settlement.result {
            SettleResult::Done { feedback } => {
                self.succeeded(&lease, now);
                self.end_lease(&lease, now);
                self.forget(lease.picked.task);
                self.ledger.done += 1;
                pushed = self.add(feedback, now);
            }
            SettleResult::Retry { delay, why } => {
                self.failures.note(lease.picked.task, now, &why);
                self.end_lease(&lease, now);
                self.put_back(lease.picked.task, Some(now.plus(delay)), now);
            }
            SettleResult::Dead { why } => {
                self.end_lease(&lease, now);
                self.bury(lease.picked.task, &why, now);
            }
            SettleResult::Dropped => {
                self.end_lease(&lease, now);
                self.forget(lease.picked.task);
                self.ledger.dropped += 1;
            }
            SettleResult::Released => {
                let entry = &mut self.tasks[lease.picked.task as usize];
                entry.attempts = entry.attempts.saturating_sub(1);
                self.requeue(&lease, now);
            }
        }
        Settled::Accepted(pushed)
    }

    /// Frees the lease's places at the gates, and takes it out of the account.
    fn end_lease(&mut self, lease: &Lease, now: Moment) {
        let picked = lease.picked;
        self.ledger.leased -= 1;
        self.lanes.lanes[picked.lane as usize].leased -= 1;
        self.lanes.origins[picked.origin as usize].gate.end();
        self.lanes.budgets[picked.budget as usize].gate.end();
        self.lanes.origin_changed(picked.origin, now);
        self.lanes.budget_freed(picked.budget);
        self.leave_elsewhere(lease.elsewhere.clone(), now);
    }

    fn succeeded(&mut self, lease: &Lease, now: Moment) {
        let picked = lease.picked;
        self.lanes.origins[picked.origin as usize].gate.success(lease.sent_at);
        if let Some(elsewhere) = &lease.elsewhere {
            self.origin_gate(&elsewhere.clone(), now).success(lease.sent_at);
        }
        if self.lanes.budgets[picked.budget as usize].gate.success(lease.sent_at) {
            self.lanes.budget_changed(picked.budget);
        }
    }

    fn forget(&mut self, key: u32) {
        self.tasks.remove(key as usize);
        self.failures.forget(key);
    }

    fn bury(&mut self, key: u32, why: &str, now: Moment) {
        let entry = self.tasks.remove(key as usize);
        self.failures.bury(key, entry, now, why);
        self.ledger.dead += 1;
    }

    /// Puts a leased task back where it was.
    pub(super) fn requeue(&mut self, lease: &Lease, now: Moment) {
        self.end_lease(lease, now);
        self.put_back(lease.picked.task, None, now);
    }

    fn put_back(&mut self, key: u32, until: Option<Moment>, now: Moment) {
        let node = self.tasks[key as usize].node;
        if self.lanes.nodes[node as usize].removed {
            self.forget(key);
            self.ledger.dropped += 1;
        } else if let Some(until) = until.filter(|until| *until > now) {
            self.ledger.delayed += 1;
            self.delay(key, until);
        } else if until.is_some() {
            self.ledger.queued += 1;
            self.enqueue_last(key, now);
        } else {
            self.ledger.queued += 1;
            self.enqueue(key, now);
        }
    }

    pub(super) fn renew(
        &mut self,
        holder: &Holder,
        leases: &[LeaseRef],
        now: Moment,
    ) -> Result<Vec<LeaseRef>, QueueError> {
        self.admit(holder)?;
        let expires = now.plus(self.lease);
        Ok(leases.iter().copied().filter(|lease| !self.leases.renew(holder.token, *lease, expires)).collect())
    }

    pub(super) fn pushback(
        &mut self,
        holder: &Holder,
        origin: &OriginKey,
        pushback: Pushback,
        now: Moment,
    ) -> Result<(), QueueError> {
        self.admit(holder)?;
        let asks = |lease: &&Lease| {
            lease.token == holder.token
                && lease.elsewhere.as_ref().unwrap_or(&self.lanes.origins[lease.picked.origin as usize].key) == origin
        };
        let sent_at = self.leases.iter().filter(asks).map(|lease| lease.sent_at).max();
        let mut budgets: Vec<u32> = self.leases.iter().filter(asks).map(|lease| lease.picked.budget).collect();
        budgets.sort_unstable();
        budgets.dedup();
        let protection = self.lanes.protection;
        if self.origin_gate(origin, now).pushback(now, sent_at, pushback, &protection) {
            for budget in budgets {
                self.lanes.budgets[budget as usize].gate.slow_down(now);
            }
        }
        if let Some(known) = self.lanes.origin(origin) {
            self.lanes.origin_changed(known, now);
        }
        Ok(())
    }

    pub(super) fn release_holder(&mut self, token: u32, cause: ReleaseCause, now: Moment) -> Released {
        let mut released = Released::default();
        self.holders.remove(&token);
        for lease in self.leases.end_all(token) {
            let entry = &mut self.tasks[lease.picked.task as usize];
            if cause == ReleaseCause::Crashed {
                entry.charges += 1;
            } else {
                entry.attempts = entry.attempts.saturating_sub(1);
            }
            if cause == ReleaseCause::Crashed && entry.charges >= self.max_charges {
                self.end_lease(&lease, now);
                self.bury(lease.picked.task, CRASHED, now);
                released.dead += 1;
            } else {
                if cause == ReleaseCause::Crashed {
                    self.failures.note(lease.picked.task, now, CRASHED);
                }
                self.requeue(&lease, now);
                released.requeued += 1;
            }
        }
        self.changed();
        released
    }

    /// Drops what a node has left that nobody works on.
    pub(super) fn drop_node(&mut self, node: u32) {
        for key in self.lanes.remove(node) {
            self.forget(key);
            self.ledger.queued -= 1;
            self.ledger.dropped += 1;
        }
        let delayed: Vec<usize> = self
            .tasks
            .iter()
            .filter(|(_, entry)| entry.node == node && matches!(entry.state, State::Delayed(_)))
            .map(|(key, _)| key)
            .collect();
        for key in delayed {
            self.forget(super::lanes::index(key));
            self.ledger.delayed -= 1;
            self.ledger.dropped += 1;
        }
    }
}

fn wait(until: Moment, gate: Gate) -> Permit {
    Permit::Wait { until: Timestamp::from(until), gate }
}
