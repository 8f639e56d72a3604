//! One run as the model knows it: a list of tasks, and who has joined.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use jiff::Timestamp;
use trawler::queue::{Holder, LeaseRef, Ledger, Pushed, RunConfig};
use trawler::task::{ItemStatus, Task, TaskId, TaskKind};

use super::turns::Turns;
use super::world::{BUDGETS, GROUPS, NODES, ORIGINS, origin_key, position};

/// So many leases that ended are remembered, to be tried again.
const MAX_ENDED: usize = 60;

#[derive(Debug)]
pub(super) struct Run {
    pub(super) config: RunConfig,
    /// By node; `None`: not in the configuration.
    pub(super) nodes: Vec<Option<Node>>,
    pub(super) tasks: HashMap<TaskId, Known>,
    pub(super) holders: BTreeMap<u32, Held>,
    /// With the holder they belonged to.
    pub(super) ended: VecDeque<(Holder, LeaseRef)>,
    pub(super) numbers: HashSet<u64>,
    pub(super) frozen: bool,
    pub(super) turns: Turns,
    /// Budgets and groups that there ever was something for.
    pub(super) pools: BTreeSet<(usize, usize)>,
    /// The permit that was told to wait last: for which task, and to which origin.
    pub(super) waiting_permit: Option<(TaskId, usize)>,
    /// In the order in which they died.
    pub(super) dead: Vec<TaskId>,
    seq: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub(super) budget: usize,
    pub(super) group: usize,
    pub(super) priority: i32,
    pub(super) suspended: bool,
    pub(super) dataset_calls: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) holder: Holder,
    pub(super) group: usize,
    /// It does not answer at present.
    pub(super) stalled: bool,
    /// What the last claim that found nothing was told.
    pub(super) told: Option<Told>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Told {
    pub(super) until: Timestamp,
    pub(super) sequence: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) task: Task,
    pub(super) node: usize,
    pub(super) origin: usize,
    pub(super) state: State,
    /// Its place in line.
    pub(super) seq: u64,
    pub(super) attempts: u32,
    pub(super) charges: u32,
    /// When it failed, and why; `None`: in a crash.
    pub(super) failures: Vec<(i64, Option<&'static str>)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum State {
    Queued,
    Delayed { until: i64, order: u64 },
    Leased(Lease),
    Done,
    Dead,
    Dropped,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lease {
    pub(super) lease: LeaseRef,
    pub(super) token: u32,
    pub(super) expires: i64,
    pub(super) sent_at: i64,
    pub(super) budget: usize,
    pub(super) calls: u64,
    /// The other origin that its last request went to.
    pub(super) elsewhere: Option<usize>,
}

impl Known {
    pub(super) fn lease(&self) -> Option<&Lease> {
        match &self.state {
            State::Leased(lease) => Some(lease),
            _ => None,
        }
    }

    pub(super) fn is_queued(&self) -> bool {
        self.state == State::Queued
    }

    /// A crawler crashed while it worked on it.
    pub(super) fn is_suspect(&self) -> bool {
        self.charges > 0
    }

    /// What stands before what inside a node.
    pub(super) fn rank(&self) -> (ItemStatus, u64) {
        (self.task.status, self.seq)
    }
}

impl Run {
    pub(super) fn new(config: RunConfig) -> Self {
        let mut run = Self {
            config: config.clone(),
            nodes: Vec::new(),
            tasks: HashMap::new(),
            holders: BTreeMap::new(),
            ended: VecDeque::new(),
            numbers: HashSet::new(),
            frozen: false,
            turns: Turns::default(),
            pools: BTreeSet::new(),
            waiting_permit: None,
            dead: Vec::new(),
            seq: 0,
        };
        run.configure(config);
        run
    }

    /// Takes over a configuration; what nodes that it lacks have left is dropped.
    pub(super) fn configure(&mut self, config: RunConfig) {
        self.nodes = NODES
            .iter()
            .map(|name| {
                let node = config.nodes.iter().find(|node| node.name.as_str() == *name)?;
                Some(Node {
                    budget: position(&BUDGETS, &node.budget.0),
                    group: position(&GROUPS, &node.group),
                    priority: node.priority,
                    suspended: node.suspended,
                    dataset_calls: node.api_calls_per_document.into(),
                })
            })
            .collect();
        self.config = config;
        self.turns.forget();
        for known in self.tasks.values() {
            self.pools.extend(self.nodes[known.node].map(|node| (node.budget, node.group)));
        }
        for known in self.tasks.values_mut() {
            if self.nodes[known.node].is_none() && matches!(known.state, State::Queued | State::Delayed { .. }) {
                known.state = State::Dropped;
            }
        }
    }

    pub(super) fn calls(&self, known: &Known) -> u64 {
        let node = self.nodes[known.node].filter(|_| known.task.kind == TaskKind::Dataset);
        node.map_or(1, |node| node.dataset_calls)
    }

    pub(super) fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// Delays end, leases expire. Returns how many of each.
    pub(super) fn advance(&mut self, now: i64) -> (u64, u64) {
        let mut due: Vec<(i64, u64, TaskId)> = Vec::new();
        let mut expired: Vec<TaskId> = Vec::new();
        for (id, known) in &self.tasks {
            match &known.state {
                State::Delayed { until, order } if *until <= now => due.push((*until, *order, *id)),
                State::Leased(lease) if lease.expires <= now => expired.push(*id),
                _ => {}
            }
        }
        due.sort_unstable();
        for (_, _, id) in &due {
            self.queue_last(*id);
        }
        for id in &expired {
            self.end(*id, State::Queued);
        }
        (due.len() as u64, expired.len() as u64)
    }

    pub(super) fn add(&mut self, tasks: &[Task]) -> Pushed {
        let mut pushed = Pushed::default();
        for task in tasks {
            if self.tasks.contains_key(&task.id) {
                pushed.duplicates += 1;
                continue;
            }
            pushed.new += 1;
            let node = position(&NODES, task.section.node.as_str());
            let origin = ORIGINS.iter().position(|name| origin_key(name) == task.origin).unwrap();
            let state = if self.nodes[node].is_some() { State::Queued } else { State::Dropped };
            self.pools.extend(self.nodes[node].map(|node| (node.budget, node.group)));
            let seq = self.next_seq();
            let known =
                Known { task: task.clone(), node, origin, state, seq, attempts: 0, charges: 0, failures: Vec::new() };
            self.tasks.insert(task.id, known);
        }
        pushed
    }

    /// Behind the others of its status.
    pub(super) fn queue_last(&mut self, id: TaskId) {
        let seq = self.next_seq();
        let known = self.known(id);
        (known.state, known.seq) = (State::Queued, seq);
    }

    pub(super) fn known(&mut self, id: TaskId) -> &mut Known {
        self.tasks.get_mut(&id).expect("a task of the model's")
    }

    /// Live leases in a fixed order.
    pub(super) fn leases(&self) -> Vec<(TaskId, Lease)> {
        let mut leases: Vec<_> =
            self.tasks.iter().filter_map(|(id, known)| Some((*id, known.lease()?.clone()))).collect();
        leases.sort_unstable_by_key(|(id, _)| *id);
        leases
    }

    /// Whether a suspect is ready, for which a holder of the group may be kept free.
    pub(super) fn has_suspects(&self, group: usize) -> bool {
        let is_of_group = |known: &Known| self.nodes[known.node].is_some_and(|node| node.group == group);
        self.tasks.values().any(|known| known.is_queued() && known.is_suspect() && is_of_group(known))
    }

    /// Which token has a suspect under way.
    pub(super) fn works_on_a_suspect(&self) -> Option<u32> {
        let suspects = self.tasks.values().filter(|known| known.is_suspect());
        suspects.filter_map(|known| known.lease().map(|lease| lease.token)).min()
    }

    /// What a token has under way.
    pub(super) fn under_way(&self, token: u32) -> Vec<&Known> {
        let is_own = |known: &&Known| known.lease().is_some_and(|lease| lease.token == token);
        self.tasks.values().filter(is_own).collect()
    }

    /// The tasks of a holder that answers, one of them picked.
    pub(super) fn pick(&self, pick: usize) -> Option<(Holder, Vec<TaskId>)> {
        let mut leases = self.leases();
        leases.retain(|(_, lease)| self.holders.get(&lease.token).is_some_and(|held| !held.stalled));
        let first = pick.checked_rem(leases.len())?;
        leases.rotate_left(first);
        let token = leases[0].1.token;
        leases.retain(|(_, lease)| lease.token == token);
        Some((self.holders[&token].holder.clone(), leases.into_iter().map(|(id, _)| id).collect()))
    }

    /// Ends a lease. What a node that is gone gets back is dropped.
    pub(super) fn end(&mut self, id: TaskId, state: State) {
        let is_gone = self.nodes[self.tasks[&id].node].is_none();
        let is_back = matches!(state, State::Queued | State::Delayed { .. });
        let known = self.tasks.get_mut(&id).expect("a task of the model's");
        let state = if is_gone && is_back { State::Dropped } else { state };
        let State::Leased(lease) = std::mem::replace(&mut known.state, state) else { return };
        if let Some(held) = self.holders.get(&lease.token) {
            self.ended.push_back((held.holder.clone(), lease.lease));
        }
        while self.ended.len() > MAX_ENDED {
            self.ended.pop_front();
        }
    }

    /// Frees all leases of a token.
    pub(super) fn free(&mut self, token: u32) -> Vec<TaskId> {
        let ids: Vec<TaskId> =
            self.leases().into_iter().filter(|(_, lease)| lease.token == token).map(|(id, _)| id).collect();
        ids.iter().for_each(|id| self.end(*id, State::Queued));
        ids
    }

    /// A holder and a lease that do not fit any more: both of the past, or each of somebody else.
    pub(super) fn outdated(&self, pick: usize) -> Option<(Holder, LeaseRef)> {
        let leases = self.leases();
        let foreign = pick.checked_rem(leases.len()).map(|position| &leases[position].1);
        let stranger = foreign.and_then(|lease| {
            let (_, held) = self.holders.iter().find(|(token, _)| **token != lease.token)?;
            Some((held.holder.clone(), lease.lease))
        });
        if pick % 5 == 0 && stranger.is_some() {
            return stranger;
        }
        self.ended.get(pick.checked_rem(self.ended.len())?).cloned()
    }

    /// All that is of the past once the run was closed.
    pub(super) fn all_outdated(&self) -> VecDeque<(Holder, LeaseRef)> {
        let live = self
            .leases()
            .into_iter()
            .filter_map(|(_, lease)| Some((self.holders.get(&lease.token)?.holder.clone(), lease.lease)));
        self.ended.iter().cloned().chain(live).collect()
    }

    pub(super) fn ledger(&self) -> Ledger {
        let mut ledger = Ledger { discovered: self.tasks.len() as u64, ..Ledger::default() };
        for known in self.tasks.values() {
            *match known.state {
                State::Queued => &mut ledger.queued,
                State::Delayed { .. } => &mut ledger.delayed,
                State::Leased(_) => &mut ledger.leased,
                State::Done => &mut ledger.done,
                State::Dead => &mut ledger.dead,
                State::Dropped => &mut ledger.dropped,
            } += 1;
        }
        ledger
    }
}
