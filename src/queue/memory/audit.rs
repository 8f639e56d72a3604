//! Recounts everything from the tasks and leases, and sees that what is ready can be reached.

use std::collections::HashSet;

use super::lanes::{Parked, index};
use super::run::{Call, State};
use crate::queue::Ledger;

impl Call<'_> {
    /// Repairs, and says what it repaired.
    pub(super) fn audit(&mut self) -> Vec<String> {
        let mut repaired = Vec::new();
        self.audit_queues(&mut repaired);
        self.audit_ledger(&mut repaired);
        self.audit_turns(&mut repaired);
        if !repaired.is_empty() {
            self.run.changed();
        }
        repaired
    }

    /// A ready task must stand in its node's queue.
    fn audit_queues(&mut self, repaired: &mut Vec<String>) {
        let standing: HashSet<u32> =
            self.run.lanes.queues.iter().flat_map(|queue| queue.iter().map(|item| item.task)).collect();
        let lost: Vec<u32> = self
            .run
            .tasks
            .iter()
            .map(|(key, entry)| (index(key), entry))
            .filter(|(key, entry)| entry.state == State::Queued && !standing.contains(key))
            .map(|(key, _)| key)
            .collect();
        for key in lost {
            repaired.push(format!("the task {} was ready and stood in no queue", self.run.tasks[key as usize].task.id));
            self.enqueue(key);
        }
    }

    fn audit_ledger(&mut self, repaired: &mut Vec<String>) {
        let mut counted = Ledger { queued: 0, delayed: 0, leased: 0, ..self.run.ledger };
        for (_, entry) in &self.run.tasks {
            match entry.state {
                State::Queued => counted.queued += 1,
                State::Delayed(_) => counted.delayed += 1,
                State::Leased => counted.leased += 1,
            }
        }
        counted.discovered =
            counted.queued + counted.delayed + counted.leased + counted.done + counted.dead + counted.dropped;
        if counted != self.run.ledger {
            repaired.push(format!("the ledger said {:?}, counted was {counted:?}", self.run.ledger));
            self.run.ledger = counted;
        }
    }

    /// What is ready must be listed, or wait at a gate that will wake it.
    fn audit_turns(&mut self, repaired: &mut Vec<String>) {
        for position in 0..index(self.run.lanes.queues.len()) {
            let queue = &self.run.lanes.queues[position as usize];
            let node = &self.run.lanes.nodes[queue.node as usize];
            if !queue.has_turns() || node.config.suspended || node.removed {
                continue;
            }
            let lane = &self.run.lanes.lanes[queue.lane as usize];
            let pool = &self.run.lanes.pools[lane.pool as usize];
            let is_reachable =
                lane.is_parked || lane.place.is_listed() && (pool.place.is_listed() || pool.parked != Parked::No);
            if !(queue.place.is_listed() && is_reachable) {
                repaired.push(format!("ready tasks of the node {} could not be reached", node.config.name));
                self.run.lanes.list_queue(position);
                self.run.lanes.list_lane(self.run.lanes.queues[position as usize].lane);
            }
        }
        for position in 0..index(self.run.lanes.queues.len()) {
            let has_suspects = self.run.lanes.queues[position as usize].first_suspect().is_some();
            if has_suspects && self.run.lanes.suspected.insert(position) {
                repaired.push("tasks that were in a crash could not be reached".to_owned());
            }
        }
        self.audit_sleepers(repaired);
    }

    /// Nobody may sleep at an open origin, unless somebody was woken who will wake the next.
    fn audit_sleepers(&mut self, repaired: &mut Vec<String>) {
        let run = self.run.lanes.run;
        let woken: HashSet<(u32, u32)> = self
            .run
            .lanes
            .pools
            .iter()
            .flat_map(|pool| pool.batons.iter().map(|lane| (self.run.lanes.lanes[*lane as usize].origin, pool.group)))
            .collect();
        for origin in self.run.lanes.origins() {
            let known = &self.gates.origins[origin as usize];
            let is_asleep = known.waiting.iter().filter(|waiting| waiting.run == run).any(|waiting| {
                let is_cared_for = waiting.armed.is_some() || woken.contains(&(origin, waiting.group));
                let has_work = |lane: &u32| self.run.lanes.lanes[*lane as usize].active_nodes > 0;
                !is_cared_for && waiting.lanes.iter().any(has_work)
            });
            if is_asleep && self.run.lanes.is_open(self.gates, origin, self.now) {
                repaired.push(format!("lanes slept at the origin {}, which is open", known.key));
                self.origin_changed(origin);
            }
        }
    }
}
