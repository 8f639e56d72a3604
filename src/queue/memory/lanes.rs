//! Who is next: groups, budgets' pools, lanes and nodes, each taking turns.
//!
//! ```text
//! group (a claim names it) ─► pool: one budget ─► lane: one origin ─► node ─► status ─► oldest
//! ```
//! A closed budget takes its pool out of the turns, a closed origin its lanes (`waiting.rs`), so that a claim meets
//! each closed gate once and then no more until it opens.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};

use super::node_queue::{Item, NodeQueue};
use super::turns::{Place, Turns};
use super::waiting::Timer;
use crate::queue::gate::Moment;
use crate::queue::gate::budget::BudgetGate;
use crate::queue::gate::origin::OriginGate;
use crate::queue::{BudgetConfig, BudgetId, NodeConfig, OriginProtection};
use crate::task::{ItemStatus, NodeName, OriginKey};

/// What one task costs a lane or pool with one active node.
const STRIDE: u64 = 1 << 24;

/// Divisible by every node weight.
const NODE_STRIDE: u64 = 2520;

/// Everything that decides which task is next.
#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "lanes are one of the things it is made of")]
pub(super) struct Lanes {
    pub(super) protection: OriginProtection,
    pub(super) nodes: Vec<Node>,
    pub(super) budgets: Vec<Budget>,
    pub(super) origins: Vec<Origin>,
    pub(super) groups: Vec<Group>,
    pub(super) pools: Vec<Pool>,
    pub(super) lanes: Vec<Lane>,
    pub(super) queues: Vec<NodeQueue>,
    node_index: HashMap<NodeName, u32>,
    budget_index: HashMap<BudgetId, u32>,
    origin_index: HashMap<OriginKey, u32>,
    group_index: HashMap<String, u32>,
    pool_index: HashMap<(u32, u32), u32>,
    lane_index: HashMap<(u32, u32), u32>,
    queue_index: HashMap<(u32, u32), u32>,
    tickets: u64,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) config: NodeConfig,
    pub(super) budget: u32,
    pub(super) group: u32,
    /// No longer in the configuration: what it has left is dropped.
    pub(super) removed: bool,
    /// Its queues: one per origin.
    pub(super) queues: Vec<u32>,
}

#[derive(Debug)]
pub(super) struct Budget {
    pub(super) id: BudgetId,
    pub(super) gate: BudgetGate,
    pub(super) pools: Vec<u32>,
}

#[derive(Debug)]
pub(super) struct Origin {
    pub(super) key: OriginKey,
    pub(super) gate: OriginGate,
    /// Lanes that wait for it, by group.
    pub(super) waiting: Vec<OriginWaiting>,
}

#[derive(Debug)]
pub(super) struct OriginWaiting {
    pub(super) group: u32,
    pub(super) lanes: VecDeque<u32>,
    /// The moment for which the group has a timer.
    pub(super) armed: Option<Moment>,
}

#[derive(Debug, Default)]
pub(super) struct Group {
    /// Of pools.
    pub(super) turns: Turns,
    pub(super) timers: BinaryHeap<Reverse<(Moment, Timer)>>,
}

/// The lanes of one budget for one group.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) budget: u32,
    pub(super) group: u32,
    pub(super) place: Place,
    /// Of lanes.
    pub(super) turns: Turns,
    pub(super) active_nodes: u32,
    pub(super) parked: Parked,
    /// Lanes that were woken by their origin and not looked at since.
    pub(super) batons: HashSet<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parked {
    No,
    /// Until a request of the budget ends.
    ForCapacity,
    Until(Moment),
}

#[derive(Debug)]
pub(super) struct Lane {
    pub(super) origin: u32,
    pub(super) pool: u32,
    pub(super) place: Place,
    /// Of node queues.
    pub(super) turns: Turns,
    pub(super) active_nodes: u32,
    pub(super) queued: u64,
    pub(super) leased: u64,
    /// Waits at its origin.
    pub(super) is_parked: bool,
    /// Since when it has had work and got no turn.
    pub(super) since: Moment,
}

/// A task that was handed out, and what counts it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Picked {
    pub(super) task: u32,
    pub(super) lane: u32,
    pub(super) origin: u32,
    pub(super) budget: u32,
    /// What its request costs.
    pub(super) calls: u64,
}

impl Lanes {
    pub(super) fn new(protection: OriginProtection) -> Self {
        Self {
            protection,
            nodes: Vec::new(),
            budgets: Vec::new(),
            origins: Vec::new(),
            groups: Vec::new(),
            pools: Vec::new(),
            lanes: Vec::new(),
            queues: Vec::new(),
            node_index: HashMap::new(),
            budget_index: HashMap::new(),
            origin_index: HashMap::new(),
            group_index: HashMap::new(),
            pool_index: HashMap::new(),
            lane_index: HashMap::new(),
            queue_index: HashMap::new(),
            tickets: 0,
        }
    }

    /// A node of the present configuration.
    pub(super) fn node(&self, name: &NodeName) -> Option<u32> {
        self.node_index.get(name).copied().filter(|&node| !self.nodes[node as usize].removed)
    }

    /// A node of the present or an earlier configuration.
    pub(super) fn known_node(&self, name: &NodeName) -> Option<u32> {
        self.node_index.get(name).copied()
    }

    pub(super) fn origin(&self, key: &OriginKey) -> Option<u32> {
        self.origin_index.get(key).copied()
    }

    pub(super) fn group(&mut self, name: &str) -> u32 {
        if let Some(&group) = self.group_index.get(name) {
            return group;
        }
        let group = index(self.groups.len());
        self.groups.push(Group::default());
        self.group_index.insert(name.to_owned(), group);
        group
    }

    /// Makes or changes a budget.
    pub(super) fn set_budget(&mut self, now: Moment, config: &BudgetConfig) {
        if let Some(&budget) = self.budget_index.get(&config.id) {
            self.budgets[budget as usize].gate.configure(now, config);
            return;
        }
        self.budget_index.insert(config.id.clone(), index(self.budgets.len()));
        self.budgets.push(Budget { id: config.id.clone(), gate: BudgetGate::new(config), pools: Vec::new() });
    }

    /// Makes or changes a node; its budget exists.
    pub(super) fn set_node(&mut self, config: NodeConfig, now: Moment) {
        let Some(&budget) = self.budget_index.get(&config.budget) else { return };
        let group = self.group(&config.group);
        let Some(&node) = self.node_index.get(&config.name) else {
            self.node_index.insert(config.name.clone(), index(self.nodes.len()));
            self.nodes.push(Node { config, budget, group, removed: false, queues: Vec::new() });
            return;
        };
        let known = &mut self.nodes[node as usize];
        (known.config, known.budget, known.group, known.removed) = (config, budget, group, false);
        for queue in known.queues.clone() {
            let origin = self.lanes[self.queues[queue as usize].lane as usize].origin;
            let lane = self.lane(origin, budget, group, now);
            self.move_queue(queue, lane);
        }
    }

    /// The queue of a node's tasks for an origin.
    pub(super) fn queue(&mut self, node: u32, origin: &OriginKey, now: Moment) -> u32 {
        let origin = self.origin(origin).unwrap_or_else(|| self.adopt(origin, OriginGate::default()));
        if let Some(&queue) = self.queue_index.get(&(node, origin)) {
            return queue;
        }
        let Node { budget, group, .. } = self.nodes[node as usize];
        let lane = self.lane(origin, budget, group, now);
        let queue = index(self.queues.len());
        self.queues.push(NodeQueue::new(node, lane));
        self.queue_index.insert((node, origin), queue);
        self.nodes[node as usize].queues.push(queue);
        queue
    }

    /// An origin that tasks ask from now on, with what is known of it.
    pub(super) fn adopt(&mut self, origin: &OriginKey, gate: OriginGate) -> u32 {
        let position = index(self.origins.len());
        self.origin_index.insert(origin.clone(), position);
        self.origins.push(Origin { key: origin.clone(), gate, waiting: Vec::new() });
        position
    }

    fn lane(&mut self, origin: u32, budget: u32, group: u32, now: Moment) -> u32 {
        let pool = *self.pool_index.entry((budget, group)).or_insert_with(|| {
            let pool = index(self.pools.len());
            self.pools.push(Pool {
                budget,
                group,
                place: Place::default(),
                turns: Turns::default(),
                active_nodes: 0,
                parked: Parked::No,
                batons: HashSet::new(),
            });
            self.budgets[budget as usize].pools.push(pool);
            pool
        });
        *self.lane_index.entry((origin, pool)).or_insert_with(|| {
            self.lanes.push(Lane {
                origin,
                pool,
                place: Place::default(),
                turns: Turns::default(),
                active_nodes: 0,
                queued: 0,
                leased: 0,
                is_parked: false,
                since: now,
            });
            index(self.lanes.len() - 1)
        })
    }

    fn move_queue(&mut self, queue: u32, lane: u32) {
        self.unlist_queue(queue);
        let moved = &mut self.queues[queue as usize];
        let tasks = moved.len() as u64;
        self.lanes[moved.lane as usize].queued -= tasks;
        self.lanes[lane as usize].queued += tasks;
        if moved.lane != lane {
            moved.place = Place::default();
        }
        moved.lane = lane;
        self.list_queue(queue);
    }

    /// Makes a task ready.
    pub(super) fn enqueue(&mut self, now: Moment, queue: u32, status: ItemStatus, item: Item) {
        let lane = &mut self.lanes[self.queues[queue as usize].lane as usize];
        if lane.queued == 0 {
            lane.since = now;
        }
        lane.queued += 1;
        self.queues[queue as usize].insert(status, item);
        self.list_queue(queue);
    }

    /// Stops or resumes handing out a node's tasks.
    pub(super) fn suspend(&mut self, node: u32, suspended: bool) {
        self.nodes[node as usize].config.suspended = suspended;
        for queue in self.nodes[node as usize].queues.clone() {
            if suspended {
                self.unlist_queue(queue);
            } else {
                self.list_queue(queue);
            }
        }
    }

    /// Takes a node out, and its ready tasks with it.
    pub(super) fn remove(&mut self, node: u32) -> Vec<u32> {
        self.nodes[node as usize].removed = true;
        let mut tasks = Vec::new();
        for queue in self.nodes[node as usize].queues.clone() {
            self.unlist_queue(queue);
            let queue = &mut self.queues[queue as usize];
            self.lanes[queue.lane as usize].queued -= queue.len() as u64;
            tasks.extend(queue.drain().into_iter().map(|item| item.task));
        }
        tasks
    }

    /// Gives every task that is handed out to the caller's group its turn. Takes what the gates charge for it.
    pub(super) fn next(&mut self, group: u32, now: Moment) -> Option<Picked> {
        loop {
            let pool = self.groups[group as usize].turns.first(|pool| self.pools[pool as usize].place.ticket())?;
            if let Some(picked) = self.next_of_pool(pool, now) {
                return Some(picked);
            }
        }
    }

    /// The next task of a pool; if there is none, the pool has left the turns.
    fn next_of_pool(&mut self, pool: u32, now: Moment) -> Option<Picked> {
        let budget = self.pools[pool as usize].budget;
        if self.budgets[budget as usize].gate.is_full() {
            self.park_pool(pool, Parked::ForCapacity, now);
            return None;
        }
        loop {
            let Some(lane) = self.pools[pool as usize].turns.first(|lane| self.lanes[lane as usize].place.ticket())
            else {
                self.pools[pool as usize].place.leave();
                return None;
            };
            if !self.is_open(self.lanes[lane as usize].origin, now) {
                self.park_lane(lane, now);
                continue;
            }
            let Some(queue) = self.lanes[lane as usize].turns.first(|queue| self.queues[queue as usize].place.ticket())
            else {
                self.lanes[lane as usize].place.leave();
                self.drop_baton(lane, now);
                continue;
            };
            let calls = self.calls(queue);
            if let Some((_, until)) = self.budgets[budget as usize].gate.closed(now, calls) {
                self.park_pool(pool, Parked::Until(until), now);
                return None;
            }
            return self.hand_out(queue, calls, now);
        }
    }

    /// What the request of a queue's first task costs.
    pub(super) fn calls(&self, queue: u32) -> u64 {
        let queue = &self.queues[queue as usize];
        let is_dataset = queue.first().is_some_and(|item| item.is_dataset);
        if is_dataset { self.nodes[queue.node as usize].config.api_calls_per_document.into() } else { 1 }
    }

    fn hand_out(&mut self, queue_index: u32, calls: u64, now: Moment) -> Option<Picked> {
        let queue = &mut self.queues[queue_index as usize];
        let item = queue.pop()?;
        let (is_empty, lane_index, node) = (queue.is_empty(), queue.lane, queue.node);
        let lane = &mut self.lanes[lane_index as usize];
        lane.queued -= 1;
        lane.leased += 1;
        lane.since = now;
        let (pool_index, origin) = (lane.pool, lane.origin);
        let pool = &mut self.pools[pool_index as usize];
        let budget = pool.budget;

        let gate = &mut self.budgets[budget as usize].gate;
        gate.spend(now, calls);
        gate.begin();
        let gate = &mut self.origins[origin as usize].gate;
        gate.begin();
        gate.sent(now);

        lane.turns.served(&mut queue.place, node_stride(self.nodes[node as usize].config.priority));
        pool.turns.served(&mut lane.place, STRIDE / u64::from(lane.active_nodes.max(1)));
        let group = &mut self.groups[pool.group as usize];
        group.turns.served(&mut pool.place, STRIDE / u64::from(pool.active_nodes.max(1)));
        if is_empty {
            self.unlist_queue(queue_index);
        }
        self.drop_baton(lane_index, now);
        Some(Picked { task: item.task, lane: lane_index, origin, budget, calls })
    }

    /// Whether the origin lets a request through.
    pub(super) fn is_open(&self, origin: u32, now: Moment) -> bool {
        let gate = &self.origins[origin as usize].gate;
        gate.backs_off_until(now).is_none() && !gate.is_full(&self.protection)
    }

    /// Lists a queue that has work, and what it is part of.
    pub(super) fn list_queue(&mut self, queue_index: u32) {
        let queue = &mut self.queues[queue_index as usize];
        let node = &self.nodes[queue.node as usize];
        if queue.place.is_listed() || queue.is_empty() || node.config.suspended || node.removed {
            return;
        }
        let lane_index = queue.lane;
        let lane = &mut self.lanes[lane_index as usize];
        self.tickets += 1;
        lane.turns.enter(&mut queue.place, queue_index, self.tickets);
        lane.active_nodes += 1;
        self.pools[lane.pool as usize].active_nodes += 1;
        self.list_lane(lane_index);
    }

    fn unlist_queue(&mut self, queue: u32) {
        let queue = &mut self.queues[queue as usize];
        if queue.place.is_listed() {
            queue.place.leave();
            let lane = &mut self.lanes[queue.lane as usize];
            lane.active_nodes -= 1;
            self.pools[lane.pool as usize].active_nodes -= 1;
        }
    }

    /// Lists a lane that does not wait at its origin, and its pool.
    pub(super) fn list_lane(&mut self, lane_index: u32) {
        let lane = &mut self.lanes[lane_index as usize];
        if lane.is_parked {
            return;
        }
        let pool_index = lane.pool;
        if !lane.place.is_listed() {
            self.tickets += 1;
            self.pools[pool_index as usize].turns.enter(&mut lane.place, lane_index, self.tickets);
        }
        self.list_pool(pool_index);
    }

    /// Lists a pool that does not wait at its budget.
    pub(super) fn list_pool(&mut self, pool_index: u32) {
        let pool = &mut self.pools[pool_index as usize];
        if pool.parked == Parked::No && !pool.place.is_listed() {
            self.tickets += 1;
            self.groups[pool.group as usize].turns.enter(&mut pool.place, pool_index, self.tickets);
        }
    }
}

/// Priority 0 has one turn; each step up one more, to ten; each step down makes the wait one longer, to ten.
fn node_stride(priority: i32) -> u64 {
    let weight = u64::from(priority.unsigned_abs().min(9)) + 1;
    if priority < 0 { NODE_STRIDE * weight } else { NODE_STRIDE / weight }
}

/// Positions are 32 bits to keep tasks small; memory ends long before.
#[expect(clippy::cast_possible_truncation, reason = "2^32 lanes or nodes do not fit into memory")]
pub(super) fn index(position: usize) -> u32 {
    position as u32
}
