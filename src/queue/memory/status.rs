//! Why does it wait: what each lane holds, and which gate is closed until when.

use std::collections::HashMap;

use jiff::Timestamp;

use super::run::{Run, State};
use crate::queue::gate::Moment;
use crate::queue::{Gate, LaneStatus, QueueError, Waiting};
use crate::task::NodeName;

/// Nodes named per lane.
const MAX_NAMED_NODES: usize = 20;

/// What a lane's delayed tasks are.
struct Delayed {
    tasks: u64,
    first: Moment,
}

impl Run {
    pub(super) fn suspend_node(&mut self, name: &NodeName, suspended: bool) -> Result<(), QueueError> {
        let node = self.node(name)?;
        self.lanes.suspend(node, suspended);
        self.changed();
        Ok(())
    }

    pub(super) fn lane_statuses(&mut self, limit: usize, now: Moment) -> Vec<LaneStatus> {
        let delayed = self.delayed_by_lane();
        let mut queues: HashMap<u32, Vec<u32>> = HashMap::new();
        for (position, queue) in self.lanes.queues.iter().enumerate().filter(|(_, queue)| !queue.is_empty()) {
            queues.entry(queue.lane).or_default().push(super::lanes::index(position));
        }
        let mut lanes: Vec<u32> = (0..super::lanes::index(self.lanes.lanes.len()))
            .filter(|lane| {
                let known = &self.lanes.lanes[*lane as usize];
                known.queued + known.leased > 0 || delayed.contains_key(lane)
            })
            .collect();
        lanes.sort_by_key(|lane| {
            let known = &self.lanes.lanes[*lane as usize];
            (known.queued == 0, known.since, *lane)
        });
        lanes.truncate(limit);
        lanes
            .into_iter()
            .map(|lane| {
                let queues = queues.get(&lane).map_or(&[][..], Vec::as_slice);
                self.lane_status(lane, queues, delayed.get(&lane), now)
            })
            .collect()
    }

    fn delayed_by_lane(&self) -> HashMap<u32, Delayed> {
        let mut lanes: HashMap<u32, Delayed> = HashMap::new();
        for (_, entry) in &self.tasks {
            if let State::Delayed(until) = entry.state {
                let lane = self.lanes.queues[entry.queue as usize].lane;
                let delayed = lanes.entry(lane).or_insert(Delayed { tasks: 0, first: until });
                delayed.tasks += 1;
                delayed.first = delayed.first.min(until);
            }
        }
        lanes
    }

    fn lane_status(&mut self, lane: u32, queues: &[u32], delayed: Option<&Delayed>, now: Moment) -> LaneStatus {
        let waiting = self.closed_gate(lane, queues, delayed, now);
        let known = &self.lanes.lanes[lane as usize];
        let budget = &self.lanes.budgets[self.lanes.pools[known.pool as usize].budget as usize];
        LaneStatus {
            origin: self.lanes.origins[known.origin as usize].key.clone(),
            budget: budget.id.clone(),
            nodes: queues.iter().take(MAX_NAMED_NODES).map(|queue| self.node_name(*queue)).collect(),
            queued: known.queued + delayed.map_or(0, |delayed| delayed.tasks),
            leased: known.leased,
            calls_per_s: budget.gate.calls_per_s(),
            waiting,
        }
    }

    fn node_name(&self, queue: u32) -> NodeName {
        self.lanes.nodes[self.lanes.queues[queue as usize].node as usize].config.name.clone()
    }

    /// The gate that keeps the lane's next task, in the order in which a claim asks them. For a gate that opens with
    /// a call, the moment is the one at which time would open it: when the next lease expires.
    fn closed_gate(&mut self, lane: u32, queues: &[u32], delayed: Option<&Delayed>, now: Moment) -> Option<Waiting> {
        let at = |gate, until: Moment| Some(Waiting { gate, until: Timestamp::from(until) });
        let Some(&first) = queues.first() else {
            return delayed.and_then(|delayed| at(Gate::Delay, delayed.first));
        };
        let by_call = self.leases.next_expiry().unwrap_or(now);
        let Some(&next) = queues.iter().find(|queue| self.lanes.queues[**queue as usize].place.is_listed()) else {
            return at(Gate::NodeSuspended { node: self.node_name(first) }, by_call);
        };
        let calls = self.lanes.calls(next);
        let known = &self.lanes.lanes[lane as usize];
        let origin = &self.lanes.origins[known.origin as usize];
        if let Some(until) = origin.gate.backs_off_until(now) {
            return at(Gate::OriginBackOff { origin: origin.key.clone() }, until);
        }
        if origin.gate.is_full(&self.lanes.protection) {
            return at(Gate::OriginConcurrency { origin: origin.key.clone() }, by_call);
        }
        let budget = &mut self.lanes.budgets[self.lanes.pools[known.pool as usize].budget as usize];
        if budget.gate.is_full() {
            return at(Gate::BudgetConcurrency { budget: budget.id.clone() }, by_call);
        }
        let (unit, until) = budget.gate.closed(now, calls)?;
        at(Gate::Budget { budget: budget.id.clone(), unit }, until)
    }
}
