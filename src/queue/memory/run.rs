//! The state of one run: what is known, handed out, and accounted for.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;
use slab::Slab;

use super::failures::Failures;
use super::lanes::{Lanes, Picked, index};
use super::leases::{Leases, random};
use super::node_queue::Item;
use crate::queue::gate::Moment;
use crate::queue::gate::origin::OriginGate;
use crate::queue::{Claim, Holder, JoinRequest, Leased, Ledger, MAX_CLAIM_TASKS, Pushed, QueueError, RunConfig};
use crate::task::{NodeName, OriginKey, RunId, Task, TaskId, TaskKind};

/// Until when a claim waits if nothing but a call can change anything: far, but no moment to overflow on.
const UNTIMED: Duration = Duration::from_hours(24);

/// One run's queue.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) id: RunId,
    pub(super) lease: Duration,
    pub(super) max_holders: u32,
    pub(super) max_charges: u32,
    pub(super) frozen: bool,
    pub(super) ledger: Ledger,
    pub(super) lanes: Lanes,
    pub(super) tasks: Slab<Entry>,
    pub(super) leases: Leases,
    pub(super) failures: Failures,
    pub(super) holders: HashMap<u32, Member>,
    /// Origins that only redirects and token endpoints lead to.
    pub(super) elsewhere: HashMap<OriginKey, OriginGate>,
    seen: HashSet<TaskId>,
    delayed: BinaryHeap<Reverse<(Moment, u64, u32)>>,
    /// Starts at random: a holder of a queue that was lost or closed has no place in this one.
    fences: u64,
    seq: u64,
    pub(super) sequence: u64,
    /// Somebody was told to wait since the sequence was raised.
    someone_waits: bool,
}

/// A task that is queued, delayed or leased.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) task: Task,
    pub(super) queue: u32,
    pub(super) node: u32,
    pub(super) seq: u64,
    pub(super) attempts: u32,
    pub(super) charges: u32,
    pub(super) state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Queued,
    Delayed(Moment),
    Leased,
}

/// Who has joined.
#[derive(Debug)]
pub(super) struct Member {
    fence: u64,
    group: u32,
}

impl Run {
    pub(super) fn open(config: RunConfig, now: Moment) -> Result<Self, QueueError> {
        super::configure::check(&config)?;
        let mut run = Self {
            id: config.run.clone(),
            lease: config.lease,
            max_holders: config.max_holders,
            max_charges: config.max_charges,
            frozen: false,
            ledger: Ledger::default(),
            lanes: Lanes::new(config.origin_protection),
            tasks: Slab::new(),
            leases: Leases::default(),
            failures: Failures::default(),
            holders: HashMap::new(),
            elsewhere: HashMap::new(),
            seen: HashSet::new(),
            delayed: BinaryHeap::new(),
            fences: u64::from(random()),
            seq: 0,
            sequence: 0,
            someone_waits: false,
        };
        run.apply(config, now);
        Ok(run)
    }

    /// Something may have become claimable, or a moment that was given may have become earlier.
    pub(super) fn changed(&mut self) {
        if std::mem::take(&mut self.someone_waits) {
            self.sequence += 1;
        }
    }

    pub(super) fn set_frozen(&mut self, frozen: bool) {
        self.frozen = frozen;
        self.changed();
    }

    pub(super) fn push(&mut self, tasks: Vec<Task>, now: Moment) -> Result<Pushed, QueueError> {
        if self.frozen {
            return Err(QueueError::Frozen { run: self.id.clone() });
        }
        for task in &tasks {
            self.node(&task.section.node)?;
        }
        let pushed = self.add(tasks, now);
        self.changed();
        Ok(pushed)
    }

    pub(super) fn node(&self, name: &NodeName) -> Result<u32, QueueError> {
        self.lanes.node(name).ok_or_else(|| QueueError::NoSuchNode { run: self.id.clone(), node: name.clone() })
    }

    /// Queues those tasks of known nodes that the run has not seen.
    pub(super) fn add(&mut self, tasks: Vec<Task>, now: Moment) -> Pushed {
        let mut pushed = Pushed::default();
        for task in tasks {
            let Some(node) = self.lanes.known_node(&task.section.node) else { continue };
            if !self.seen.insert(task.id) {
                pushed.duplicates += 1;
                continue;
            }
            pushed.new += 1;
            self.ledger.discovered += 1;
            if self.lanes.nodes[node as usize].removed {
                self.ledger.dropped += 1;
                continue;
            }
            self.ledger.queued += 1;
            if let Some(gate) = self.elsewhere.remove(&task.origin) {
                self.lanes.adopt(&task.origin, gate);
            }
            let queue = self.lanes.queue(node, &task.origin, now);
            let entry = Entry { task, queue, node, seq: 0, attempts: 0, charges: 0, state: State::Queued };
            let key = index(self.tasks.insert(entry));
            self.enqueue_last(key, now);
        }
        pushed
    }

    /// Makes a task ready, behind the others of its status.
    pub(super) fn enqueue_last(&mut self, key: u32, now: Moment) {
        self.seq += 1;
        self.tasks[key as usize].seq = self.seq;
        self.enqueue(key, now);
    }

    /// Makes a task ready where its number in line puts it.
    pub(super) fn enqueue(&mut self, key: u32, now: Moment) {
        let entry = &mut self.tasks[key as usize];
        entry.state = State::Queued;
        let item = Item { seq: entry.seq, task: key, is_dataset: entry.task.kind == TaskKind::Dataset };
        self.lanes.enqueue(now, entry.queue, entry.task.status, item);
    }

    /// Lets a task wait out a delay.
    pub(super) fn delay(&mut self, key: u32, until: Moment) {
        self.seq += 1;
        self.tasks[key as usize].state = State::Delayed(until);
        self.delayed.push(Reverse((until, self.seq, key)));
    }

    /// Does what time does: delays end, leases expire.
    pub(super) fn advance(&mut self, now: Moment) {
        while let Some(until) = self.next_delayed().filter(|until| *until <= now) {
            if let Some(Reverse((_, _, key))) = self.delayed.pop() {
                debug_assert!(until <= now);
                self.ledger.delayed -= 1;
                self.ledger.queued += 1;
                self.enqueue_last(key, now);
                self.changed();
            }
        }
        while let Some(lease) = self.leases.expire(now) {
            self.requeue(&lease, now);
            self.changed();
        }
    }

    /// When the next delay ends. Passes over those of tasks that were dropped meanwhile.
    fn next_delayed(&mut self) -> Option<Moment> {
        loop {
            let &Reverse((until, _, key)) = self.delayed.peek()?;
            if self.tasks.get(key as usize).is_some_and(|entry| entry.state == State::Delayed(until)) {
                return Some(until);
            }
            self.delayed.pop();
        }
    }

    pub(super) fn join(&mut self, request: JoinRequest, now: Moment) -> Result<Holder, QueueError> {
        let is_known = self.holders.contains_key(&request.token);
        if !is_known && self.holders.len() >= self.max_holders as usize {
            return Err(QueueError::NoPlaceFree { run: request.run, max: self.max_holders });
        }
        for lease in self.leases.end_all(request.token) {
            self.requeue(&lease, now);
        }
        self.fences += 1;
        let group = self.lanes.group(&request.group);
        self.holders.insert(request.token, Member { fence: self.fences, group });
        self.changed();
        let JoinRequest { run, token, uid, group } = request;
        Ok(Holder { run, token, uid, group, fence: self.fences })
    }

    /// The group of a current holder.
    pub(super) fn admit(&self, holder: &Holder) -> Result<u32, QueueError> {
        self.holders
            .get(&holder.token)
            .filter(|member| member.fence == holder.fence)
            .map(|member| member.group)
            .ok_or_else(|| QueueError::Fenced { run: self.id.clone(), token: holder.token })
    }

    pub(super) fn claim(&mut self, holder: &Holder, max: usize, now: Moment) -> Result<Claim, QueueError> {
        let group = self.admit(holder)?;
        if self.frozen {
            return Ok(Claim::Frozen);
        }
        self.lanes.advance(group, now);
        let mut tasks = Vec::with_capacity(max.min(16));
        while tasks.len() < max.min(MAX_CLAIM_TASKS) {
            let Some(picked) = self.lanes.next(group, now) else { break };
            tasks.push(self.grant(holder.token, picked, now));
        }
        if !tasks.is_empty() {
            return Ok(Claim::Tasks(tasks));
        }
        if self.ledger.is_drained() {
            return Ok(Claim::Drained);
        }
        self.someone_waits = true;
        let until = if max == 0 { now } else { self.next_change(group, now) };
        Ok(Claim::Wait { until: Timestamp::from(until), sequence: self.sequence })
    }

    fn grant(&mut self, token: u32, picked: Picked, now: Moment) -> Leased {
        let entry = &mut self.tasks[picked.task as usize];
        let attempt = entry.attempts;
        entry.attempts = attempt.saturating_add(1);
        entry.state = State::Leased;
        self.ledger.queued -= 1;
        self.ledger.leased += 1;
        let lease = self.leases.grant(token, entry.task.id, picked, now, now.plus(self.lease));
        Leased { task: entry.task.clone(), lease, attempt }
    }

    /// The earliest moment at which time alone can make something claimable.
    fn next_change(&mut self, group: u32, now: Moment) -> Moment {
        [self.lanes.next_opening(group), self.next_delayed(), self.leases.next_expiry()]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or_else(|| now.plus(UNTIMED))
    }
}
