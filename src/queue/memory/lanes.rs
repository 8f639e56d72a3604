//! Who is next: groups, budgets' pools, lanes and nodes, each taking turns.
//!
//! ```text
//! group (a claim names it) ─► pool: one budget ─► lane: one origin ─► node ─► status ─► oldest
//! ```
//! All of this is one run's; the gates are shared with other runs (`gates.rs`), so what asks them is given them.
//!
//! A closed budget takes its pool out of the turns, a closed origin its lanes (`waiting.rs`), so that a claim meets
//! each closed gate once and then no more until it opens.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet};

use super::gates::Gates;
use super::node_queue::{Item, NodeQueue};
use super::right_of_way::Share;
use super::turns::{Place, Turns};
use super::waiting::Timer;
use crate::queue::gate::Moment;
use crate::queue::{BudgetConfig, NodeConfig, OriginProtection};
use crate::task::{ItemStatus, NodeName, OriginKey};

/// What one task costs a lane or pool with one active node.
const STRIDE: u64 = 1 << 24;

/// Divisible by every node weight.
const NODE_STRIDE: u64 = 2520;

/// Everything of a run that decides which task is next.
#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "lanes are one of the things it is made of")]
pub(super) struct Lanes {
    /// The run's key among those of the instance.
    pub(super) run: u32,
    pub(super) weight: u32,
    pub(super) protection: OriginProtection,
    /// Something became ready to be handed out since this was reset.
    pub(super) has_woken: bool,
    pub(super) nodes: Vec<Node>,
    pub(super) groups: Vec<Group>,
    pub(super) pools: Vec<Pool>,
    pub(super) lanes: Vec<Lane>,
    pub(super) queues: Vec<NodeQueue>,
    node_index: HashMap<NodeName, u32>,
    budgets: HashSet<u32>,
    /// Queues that hold suspects.
    pub(super) suspected: BTreeSet<u32>,
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
    pub(super) fn new(run: u32, weight: u32, protection: OriginProtection) -> Self {
        Self {
            run,
            weight,
            protection,
            has_woken: false,
            nodes: Vec::new(),
            groups: Vec::new(),
            pools: Vec::new(),
            lanes: Vec::new(),
            queues: Vec::new(),
            node_index: HashMap::new(),
            budgets: HashSet::new(),
            suspected: BTreeSet::new(),
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
    pub(super) fn set_budget(&mut self, gates: &mut Gates, config: &BudgetConfig, now: Moment) {
        let budget = gates.set_budget(config, now);
        if self.budgets.insert(budget) {
            gates.use_budget(budget);
        }
    }

    /// All budgets that the run knows.
    pub(super) fn budgets(&self) -> Vec<u32> {
        self.budgets.iter().copied().collect()
    }

    /// All origins that its lanes ask.
    pub(super) fn origins(&self) -> Vec<u32> {
        let origins: HashSet<u32> = self.lanes.iter().map(|lane| lane.origin).collect();
        origins.into_iter().collect()
    }

    /// Takes the run out of the gates.
    pub(super) fn leave(&mut self, gates: &mut Gates) {
        for lane in &self.lanes {
            gates.leave_origin(lane.origin, self.run);
        }
        for budget in self.budgets() {
            gates.leave_budget(budget, self.run);
        }
    }

    /// Makes or changes a node; its budget exists.
    pub(super) fn set_node(&mut self, gates: &mut Gates, config: NodeConfig, now: Moment) {
        let Some(budget) = gates.budget(&config.budget) else { return };
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
            let lane = self.lane(gates, origin, budget, group, now);
            self.move_queue(queue, lane);
        }
    }

    /// The queue of a node's tasks for an origin.
    pub(super) fn queue(&mut self, gates: &mut Gates, node: u32, origin: &OriginKey, now: Moment) -> u32 {
        let origin = gates.origin(origin, now);
        if let Some(&queue) = self.queue_index.get(&(node, origin)) {
            return queue;
        }
        let Node { budget, group, .. } = self.nodes[node as usize];
        let lane = self.lane(gates, origin, budget, group, now);
        let queue = index(self.queues.len());
        self.queues.push(NodeQueue::new(node, lane));
        self.queue_index.insert((node, origin), queue);
        self.nodes[node as usize].queues.push(queue);
        queue
    }

    fn lane(&mut self, gates: &mut Gates, origin: u32, budget: u32, group: u32, now: Moment) -> u32 {
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
            gates.budgets[budget as usize].right_of_way.enter(self.run, pool);
            pool
        });
        *self.lane_index.entry((origin, pool)).or_insert_with(|| {
            gates.use_origin(origin);
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
        if item.is_suspect {
            self.suspected.insert(queue);
        } else {
            self.list_queue(queue);
        }
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
            self.suspected.remove(&queue);
            let queue = &mut self.queues[queue as usize];
            self.lanes[queue.lane as usize].queued -= queue.len() as u64;
            tasks.extend(queue.drain().into_iter().map(|item| item.task));
        }
        tasks
    }

    /// Takes ready tasks out of their queue.
    pub(super) fn take_out(&mut self, queue_index: u32, tasks: &HashSet<u32>) {
        let queue = &mut self.queues[queue_index as usize];
        queue.remove(tasks);
        let (has_turns, has_suspects) = (queue.has_turns(), queue.first_suspect().is_some());
        self.lanes[queue.lane as usize].queued -= tasks.len() as u64;
        if !has_turns {
            self.unlist_queue(queue_index);
        }
        if !has_suspects {
            self.suspected.remove(&queue_index);
        }
    }

    /// A group's name.
    pub(super) fn group_name(&self, group: u32) -> &str {
        self.group_index.iter().find(|(_, index)| **index == group).map_or("", |(name, _)| name)
    }

    /// Gives every task that is handed out to the caller's group its turn. Takes what the gates charge for it.
    pub(super) fn next(&mut self, gates: &mut Gates, group: u32, now: Moment) -> Option<Picked> {
        loop {
            let pool = self.groups[group as usize].turns.first(|pool| self.pools[pool as usize].place.ticket())?;
            if let Some(picked) = self.next_of_pool(gates, pool, now) {
                return Some(picked);
            }
        }
    }

    /// The next task of a pool; if there is none, the pool has left the turns.
    fn next_of_pool(&mut self, gates: &mut Gates, pool: u32, now: Moment) -> Option<Picked> {
        let budget = self.pools[pool as usize].budget;
        if !self.comes_to_budget(gates, pool, now) {
            return None;
        }
        loop {
            let Some(lane) = self.pools[pool as usize].turns.first(|lane| self.lanes[lane as usize].place.ticket())
            else {
                self.pools[pool as usize].place.leave();
                return None;
            };
            if !self.is_open(gates, self.lanes[lane as usize].origin, now) {
                self.park_lane(gates, lane, now);
                continue;
            }
            let Some(queue) = self.lanes[lane as usize].turns.first(|queue| self.queues[queue as usize].place.ticket())
            else {
                self.lanes[lane as usize].place.leave();
                self.drop_baton(gates, lane, now);
                continue;
            };
            let calls = self.calls(queue);
            let known = &mut gates.budgets[budget as usize];
            if let Some((_, until)) = known.closed(now, calls) {
                known.right_of_way.waits(self.run, pool, until);
                self.park_pool(gates, pool, Parked::Until(until), now);
                return None;
            }
            return self.hand_out(gates, queue, calls, now);
        }
    }

    /// Whether a pool may look for a task at its budget; if not, it waits.
    fn comes_to_budget(&mut self, gates: &mut Gates, pool: u32, now: Moment) -> bool {
        let budget_index = self.pools[pool as usize].budget;
        let budget = &mut gates.budgets[budget_index as usize];
        let others_made_way = budget.right_of_way.comes(self.run, pool, now);
        let parked = if budget.gate.is_full() {
            budget.right_of_way.waits_for_capacity(self.run, pool);
            Some(Parked::ForCapacity)
        } else {
            budget.right_of_way.makes_way(self.run, pool, now).map(Parked::Until)
        };
        // They can't go where this one can't: when the budget opens they are there by themselves.
        if others_made_way && parked.is_none() && gates.budgets[budget_index as usize].closed(now, 1).is_none() {
            self.budget_changed(gates, budget_index);
            gates.touch_budget(budget_index, self.run);
        }
        if let Some(parked) = parked {
            self.park_pool(gates, pool, parked, now);
        }
        parked.is_none()
    }

    /// What the request of a queue's first task costs.
    pub(super) fn calls(&self, queue: u32) -> u64 {
        let queue = &self.queues[queue as usize];
        queue.first().map_or(1, |item| self.calls_of(queue.node, item))
    }

    pub(super) fn calls_of(&self, node: u32, item: Item) -> u64 {
        if item.is_dataset { self.nodes[node as usize].config.api_calls_per_document.into() } else { 1 }
    }

    /// Hands out the first task of the queue whose turn it is.
    fn hand_out(&mut self, gates: &mut Gates, queue_index: u32, calls: u64, now: Moment) -> Option<Picked> {
        let queue = &mut self.queues[queue_index as usize];
        let item = queue.pop()?;
        let (is_last, lane_index, node) = (!queue.has_turns(), queue.lane, queue.node);
        let picked = self.spend(gates, queue_index, item, calls, now);
        let queue = &mut self.queues[queue_index as usize];
        let lane = &mut self.lanes[lane_index as usize];
        let pool = &mut self.pools[lane.pool as usize];
        lane.turns.served(&mut queue.place, node_stride(self.nodes[node as usize].config.priority));
        pool.turns.served(&mut lane.place, STRIDE / u64::from(lane.active_nodes.max(1)));
        let group = &mut self.groups[pool.group as usize];
        group.turns.served(&mut pool.place, STRIDE / u64::from(pool.active_nodes.max(1)));
        if is_last {
            self.unlist_queue(queue_index);
        }
        self.drop_baton(gates, lane_index, now);
        Some(picked)
    }

    /// Takes what the gates charge for a task that left its queue.
    pub(super) fn spend(&mut self, gates: &mut Gates, queue: u32, item: Item, calls: u64, now: Moment) -> Picked {
        let queue = &self.queues[queue as usize];
        let (has_more, lane_index) = (queue.has_turns(), queue.lane);
        let lane = &mut self.lanes[lane_index as usize];
        lane.queued -= 1;
        lane.leased += 1;
        lane.since = now;
        let (pool_index, origin) = (lane.pool, lane.origin);
        let pool = &self.pools[pool_index as usize];
        let (budget, active_nodes) = (pool.budget, pool.active_nodes);

        let known = &mut gates.budgets[budget as usize];
        known.gate.spend(now, calls);
        known.gate.begin();
        let of_nodes = known.right_of_way.pools_of(self.run).map(|pool| self.pools[pool as usize].active_nodes).sum();
        let has_more = has_more || active_nodes > 1;
        let is_last = known.gate.is_full();
        let share = Share { weight: self.weight, active_nodes, of_nodes, has_more, is_last };
        known.right_of_way.takes(self.run, pool_index, calls, share, now);
        let gate = &mut gates.origins[origin as usize].gate;
        gate.begin();
        gate.sent(now);
        Picked { task: item.task, lane: lane_index, origin, budget, calls }
    }

    /// Whether the origin lets a request through.
    pub(super) fn is_open(&self, gates: &Gates, origin: u32, now: Moment) -> bool {
        let gate = &gates.origins[origin as usize].gate;
        gate.backs_off_until(now).is_none() && !gate.is_full(&self.protection)
    }

    /// Lists a queue that has work, and what it is part of.
    pub(super) fn list_queue(&mut self, queue_index: u32) {
        let queue = &mut self.queues[queue_index as usize];
        let node = &self.nodes[queue.node as usize];
        if queue.place.is_listed() || !queue.has_turns() || node.config.suspended || node.removed {
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
            self.has_woken = true;
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
