//! Why does it wait: what each lane holds, and which gate is closed until when.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;

use super::run::{Call, State};
use crate::queue::gate::Moment;
use crate::queue::{Gate, LaneStatus, QueueError, Waiting};
use crate::task::NodeName;

/// Nodes named per lane.
const MAX_NAMED_NODES: usize = 20;

/// What a lane's delayed tasks are.
struct Delayed {
    tasks: u64,
    /// When the first of them is tried again, and its queue.
    first: (Moment, u32),
    /// Queues they go back to, as many as are named.
    queues: BTreeSet<u32>,
}

impl Call<'_> {
    pub(super) fn suspend_node(&mut self, name: &NodeName, suspended: bool) -> Result<(), QueueError> {
        let node = self.run.node(name)?;
        self.run.lanes.suspend(node, suspended);
        self.run.changed();
        Ok(())
    }

    pub(super) fn lane_statuses(&mut self, limit: usize) -> Vec<LaneStatus> {
        let delayed = self.delayed_by_lane();
        let mut queues: HashMap<u32, Vec<u32>> = HashMap::new();
        for (position, queue) in self.run.lanes.queues.iter().enumerate().filter(|(_, queue)| !queue.is_empty()) {
            queues.entry(queue.lane).or_default().push(super::lanes::index(position));
        }
        let mut lanes: Vec<u32> = (0..super::lanes::index(self.run.lanes.lanes.len()))
            .filter(|lane| {
                let known = &self.run.lanes.lanes[*lane as usize];
                known.queued + known.leased > 0 || delayed.contains_key(lane)
            })
            .collect();
        lanes.sort_by_key(|lane| {
            let known = &self.run.lanes.lanes[*lane as usize];
            (known.queued == 0, known.since, *lane)
        });
        lanes.truncate(limit);
        lanes
            .into_iter()
            .map(|lane| {
                let queues = queues.get(&lane).map_or(&[][..], Vec::as_slice);
                self.lane_status(lane, queues, delayed.get(&lane))
            })
            .collect()
    }

    fn delayed_by_lane(&self) -> HashMap<u32, Delayed> {
        let mut lanes: HashMap<u32, Delayed> = HashMap::new();
        for (_, entry) in &self.run.tasks {
            if let State::Delayed(until) = entry.state {
                let lane = self.run.lanes.queues[entry.queue as usize].lane;
                let first = (until, entry.queue);
                let delayed = lanes.entry(lane).or_insert(Delayed { tasks: 0, first, queues: BTreeSet::new() });
                delayed.tasks += 1;
                delayed.first = delayed.first.min(first);
                if delayed.queues.len() < MAX_NAMED_NODES {
                    delayed.queues.insert(entry.queue);
                }
            }
        }
        lanes
    }

    fn lane_status(&mut self, lane: u32, queues: &[u32], delayed: Option<&Delayed>) -> LaneStatus {
        let waiting = self.closed_gate(lane, queues, delayed);
        let known = &self.run.lanes.lanes[lane as usize];
        let budget = &self.gates.budgets[self.run.lanes.pools[known.pool as usize].budget as usize];
        LaneStatus {
            origin: self.gates.origins[known.origin as usize].key.clone(),
            budget: budget.id.clone(),
            nodes: named(queues, delayed).into_iter().map(|queue| self.node_name(queue)).collect(),
            queued: known.queued + delayed.map_or(0, |delayed| delayed.tasks),
            leased: known.leased,
            calls_per_s: budget.gate.calls_per_s(),
            waiting,
        }
    }

    fn node_name(&self, queue: u32) -> NodeName {
        self.run.lanes.nodes[self.run.lanes.queues[queue as usize].node as usize].config.name.clone()
    }

    /// The gate that keeps the lane's next task, in the order in which a claim asks them. For a gate that opens with
    /// a call, the moment is the one at which time would open it: when the next lease expires.
    fn closed_gate(&mut self, lane: u32, queues: &[u32], delayed: Option<&Delayed>) -> Option<Waiting> {
        let at = |gate, until: Moment| Some(Waiting { gate, until: Timestamp::from(until) });
        let Some(&first) = queues.first() else {
            return delayed.and_then(|delayed| at(Gate::Delay, delayed.first.0));
        };
        let by_call = self.run.leases.next_expiry().unwrap_or(self.now);
        let Some(&next) = queues.iter().find(|queue| self.run.lanes.queues[**queue as usize].place.is_listed()) else {
            return self
                .why_suspects_wait(queues, by_call)
                .or_else(|| at(Gate::NodeSuspended { node: self.node_name(first) }, by_call));
        };
        let calls = self.run.lanes.calls(next);
        let known = &self.run.lanes.lanes[lane as usize];
        let origin = &self.gates.origins[known.origin as usize];
        if let Some(until) = origin.gate.backs_off_until(self.now) {
            return at(Gate::OriginBackOff { origin: origin.key.clone() }, until);
        }
        if origin.gate.is_full(&self.run.lanes.protection) {
            return at(Gate::OriginConcurrency { origin: origin.key.clone() }, by_call);
        }
        let budget = &mut self.gates.budgets[self.run.lanes.pools[known.pool as usize].budget as usize];
        if budget.gate.is_full() {
            return at(Gate::BudgetConcurrency { budget: budget.id.clone() }, by_call);
        }
        let (gate, until) = budget.closed(self.now, calls)?;
        at(gate, until)
    }

    /// Why a lane waits in which all that is ready is suspected of a crash.
    fn why_suspects_wait(&mut self, queues: &[u32], by_call: Moment) -> Option<Waiting> {
        let lanes = &self.run.lanes;
        let is_awake = |queue: &&u32| !lanes.nodes[lanes.queues[**queue as usize].node as usize].config.suspended;
        let queue = *queues.iter().find(is_awake)?;
        let (gate, until) = self
            .run
            .lanes
            .suspect_waits_for(self.gates, queue, self.now)
            .unwrap_or_else(|| (Gate::CrashSuspect { node: self.node_name(queue) }, by_call));
        Some(Waiting { gate, until: Timestamp::from(until) })
    }
}

/// The queues whose nodes are named: those with something ready, then the one that is tried again first, then others.
fn named(ready: &[u32], delayed: Option<&Delayed>) -> Vec<u32> {
    let delayed = delayed.into_iter().flat_map(|delayed| std::iter::once(&delayed.first.1).chain(&delayed.queues));
    let mut named = Vec::new();
    for &queue in ready.iter().chain(delayed) {
        if named.len() == MAX_NAMED_NODES {
            break;
        }
        if !named.contains(&queue) {
            named.push(queue);
        }
    }
    named
}
