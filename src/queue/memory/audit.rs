//! Recounts everything from the tasks and leases, and sees that what is ready can be reached.

use std::collections::HashSet;

use super::lanes::{Parked, index};
use super::run::{Run, State};
use crate::queue::Ledger;
use crate::queue::gate::Moment;

impl Run {
    /// Repairs, and says what it repaired.
    pub(super) fn audit(&mut self, now: Moment) -> Vec<String> {
        let mut repaired = Vec::new();
        self.audit_queues(now, &mut repaired);
        self.audit_ledger(&mut repaired);
        self.audit_turns(now, &mut repaired);
        if !repaired.is_empty() {
            self.changed();
        }
        repaired
    }

    /// A ready task must stand in its node's queue.
    fn audit_queues(&mut self, now: Moment, repaired: &mut Vec<String>) {
        let standing: HashSet<u32> =
            self.lanes.queues.iter().flat_map(|queue| queue.iter().map(|item| item.task)).collect();
        let lost: Vec<u32> = self
            .tasks
            .iter()
            .map(|(key, entry)| (index(key), entry))
            .filter(|(key, entry)| entry.state == State::Queued && !standing.contains(key))
            .map(|(key, _)| key)
            .collect();
        for key in lost {
            repaired.push(format!("the task {} was ready and stood in no queue", self.tasks[key as usize].task.id));
            self.enqueue(key, now);
        }
    }

    fn audit_ledger(&mut self, repaired: &mut Vec<String>) {
        let mut counted = Ledger { queued: 0, delayed: 0, leased: 0, ..self.ledger };
        for (_, entry) in &self.tasks {
            match entry.state {
                State::Queued => counted.queued += 1,
                State::Delayed(_) => counted.delayed += 1,
                State::Leased => counted.leased += 1,
            }
        }
        counted.discovered =
            counted.queued + counted.delayed + counted.leased + counted.done + counted.dead + counted.dropped;
        if counted != self.ledger {
            repaired.push(format!("the ledger said {:?}, counted was {counted:?}", self.ledger));
            self.ledger = counted;
        }
    }

    /// What is ready must be listed, or wait at a gate that will wake it.
    fn audit_turns(&mut self, now: Moment, repaired: &mut Vec<String>) {
        for position in 0..index(self.lanes.queues.len()) {
            let queue = &self.lanes.queues[position as usize];
            let node = &self.lanes.nodes[queue.node as usize];
            if queue.is_empty() || node.config.suspended || node.removed {
                continue;
            }
            let lane = &self.lanes.lanes[queue.lane as usize];
            let pool = &self.lanes.pools[lane.pool as usize];
            let is_reachable =
                lane.is_parked || lane.place.is_listed() && (pool.place.is_listed() || pool.parked != Parked::No);
            if !(queue.place.is_listed() && is_reachable) {
                repaired.push(format!("ready tasks of the node {} could not be reached", node.config.name));
                self.lanes.list_queue(position);
                self.lanes.list_lane(self.lanes.queues[position as usize].lane);
            }
        }
        for origin in 0..index(self.lanes.origins.len()) {
            self.lanes.origin_changed(origin, now);
        }
    }
}
