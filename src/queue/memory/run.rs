//! The state of one run: what is known, handed out, and accounted for; and one call at work on it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use slab::Slab;
use tokio::sync::watch;

use super::failures::Failures;
use super::gates::Gates;
use super::lanes::{Lanes, Picked, index};
use super::leases::{Leases, random};
use super::node_queue::Item;
use super::suspects::Offer;
use crate::queue::gate::Moment;
use crate::queue::{Claim, Holder, JoinRequest, Leased, Ledger, MAX_CLAIM_TASKS, Pushed, QueueError, RunConfig};
use crate::task::{NodeName, RunId, Task, TaskId, TaskKind};

/// Until when a claim waits if nothing but a call can change anything: far, but no moment to overflow on.
const UNTIMED: Duration = Duration::from_hours(24);

/// One run's queue.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) id: RunId,
    pub(super) brief: Arc<str>,
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
    seen: HashSet<TaskId>,
    delayed: BinaryHeap<Reverse<(Moment, u64, u32)>>,
    /// Starts at random: a holder of a queue that was lost or closed has no place in this one.
    fences: u64,
    seq: u64,
    sequence: u64,
    /// Somebody was told to wait since the sequence was raised.
    someone_waits: bool,
    /// Rings with each new sequence.
    pub(super) bell: watch::Sender<u64>,
}

/// One call at work on one run: the run, the gates that it shares, and the moment.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) run: &'a mut Run,
    pub(super) gates: &'a mut Gates,
    pub(super) now: Moment,
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
    pub(super) uid: String,
    pub(super) group: u32,
    /// Its leases.
    pub(super) under_way: u32,
    /// Works on a suspect.
    pub(super) is_alone: bool,
    /// Is given nothing until it is free to take a suspect.
    pub(super) is_draining: bool,
}

impl Run {
    /// A run that knows no node yet. The key is its own among the runs of the instance.
    pub(super) fn new(key: u32, config: &RunConfig) -> Self {
        Self {
            id: config.run.clone(),
            brief: config.brief.clone(),
            lease: config.lease,
            max_holders: config.max_holders,
            max_charges: config.max_charges,
            frozen: false,
            ledger: Ledger::default(),
            lanes: Lanes::new(key, config.weight, config.origin_protection),
            tasks: Slab::new(),
            leases: Leases::default(),
            failures: Failures::default(),
            holders: HashMap::new(),
            seen: HashSet::new(),
            delayed: BinaryHeap::new(),
            fences: u64::from(random()),
            seq: 0,
            sequence: 0,
            someone_waits: false,
            bell: watch::Sender::new(0),
        }
    }

    /// Something may have become claimable, or a moment that was given may have become earlier.
    pub(super) fn changed(&mut self) {
        if std::mem::take(&mut self.someone_waits) {
            self.sequence += 1;
        }
    }

    /// Tells those who wait, if something changed since they were told last.
    pub(super) fn ring(&mut self) {
        if *self.bell.borrow() != self.sequence {
            self.bell.send_replace(self.sequence);
        }
    }

    pub(super) fn node(&self, name: &NodeName) -> Result<u32, QueueError> {
        self.lanes.node(name).ok_or_else(|| QueueError::NoSuchNode { run: self.id.clone(), node: name.clone() })
    }

    /// The group of a current holder.
    pub(super) fn admit(&self, holder: &Holder) -> Result<u32, QueueError> {
        self.holders
            .get(&holder.token)
            .filter(|member| member.fence == holder.fence)
            .map(|member| member.group)
            .ok_or_else(|| QueueError::Fenced { run: self.id.clone(), token: holder.token })
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
}

impl Call<'_> {
    pub(super) fn set_frozen(&mut self, frozen: bool) {
        self.run.frozen = frozen;
        if frozen {
            self.yield_right_of_way();
        }
        self.run.changed();
    }

    /// Nobody of this run will come: nobody waits for it at budgets.
    pub(super) fn yield_right_of_way(&mut self) {
        for budget in self.run.lanes.budgets() {
            if self.gates.budgets[budget as usize].right_of_way.yields(self.run.lanes.run) {
                self.gates.touch_budget(budget, self.run.lanes.run);
            }
        }
    }

    pub(super) fn push(&mut self, tasks: Vec<Task>) -> Result<Pushed, QueueError> {
        if self.run.frozen {
            return Err(QueueError::Frozen { run: self.run.id.clone() });
        }
        for task in &tasks {
            self.run.node(&task.section.node)?;
        }
        let pushed = self.add(tasks);
        self.run.changed();
        Ok(pushed)
    }

    /// Queues those tasks of known nodes that the run has not seen.
    pub(super) fn add(&mut self, tasks: Vec<Task>) -> Pushed {
        let mut pushed = Pushed::default();
        for task in tasks {
            let Some(node) = self.run.lanes.known_node(&task.section.node) else { continue };
            if !self.run.seen.insert(task.id) {
                pushed.duplicates += 1;
                continue;
            }
            pushed.new += 1;
            self.run.ledger.discovered += 1;
            if self.run.lanes.nodes[node as usize].removed {
                self.run.ledger.dropped += 1;
                continue;
            }
            self.run.ledger.queued += 1;
            self.admit_task(node, task);
        }
        pushed
    }

    /// Takes in a task of a node that is counted as queued.
    pub(super) fn admit_task(&mut self, node: u32, task: Task) {
        let queue = self.run.lanes.queue(self.gates, node, &task.origin, self.now);
        let entry = Entry { task, queue, node, seq: 0, attempts: 0, charges: 0, state: State::Queued };
        let key = index(self.run.tasks.insert(entry));
        self.enqueue_last(key);
    }

    /// Makes a task ready, behind the others of its status.
    pub(super) fn enqueue_last(&mut self, key: u32) {
        self.run.seq += 1;
        self.run.tasks[key as usize].seq = self.run.seq;
        self.enqueue(key);
    }

    /// Makes a task ready where its number in line puts it.
    pub(super) fn enqueue(&mut self, key: u32) {
        let entry = &mut self.run.tasks[key as usize];
        entry.state = State::Queued;
        let is_dataset = entry.task.kind == TaskKind::Dataset;
        let item = Item { seq: entry.seq, task: key, is_dataset, is_suspect: entry.charges > 0 };
        self.run.lanes.enqueue(self.now, entry.queue, entry.task.status, item);
    }

    /// Lets a task wait out a delay.
    pub(super) fn delay(&mut self, key: u32, until: Moment) {
        self.run.seq += 1;
        self.run.tasks[key as usize].state = State::Delayed(until);
        self.run.delayed.push(Reverse((until, self.run.seq, key)));
    }

    /// Does what time does: delays end, leases expire.
    pub(super) fn advance(&mut self) {
        while let Some(until) = self.run.next_delayed().filter(|until| *until <= self.now) {
            if let Some(Reverse((_, _, key))) = self.run.delayed.pop() {
                debug_assert!(until <= self.now);
                self.run.ledger.delayed -= 1;
                self.run.ledger.queued += 1;
                self.enqueue_last(key);
                self.run.changed();
            }
        }
        self.lapse();
    }

    /// Ends leases that were not renewed in time.
    pub(super) fn lapse(&mut self) {
        while let Some(lease) = self.run.leases.expire(self.now) {
            self.requeue(&lease);
            self.run.changed();
        }
    }

    /// Gives back what the run holds at the gates: it is closed.
    pub(super) fn leave_gates(&mut self) {
        for lease in self.run.leases.take_all() {
            self.end_lease(&lease);
        }
        self.run.lanes.leave(self.gates);
    }

    pub(super) fn join(&mut self, request: JoinRequest) -> Result<Holder, QueueError> {
        let is_known = self.run.holders.contains_key(&request.token);
        if !is_known && self.run.holders.len() >= self.run.max_holders as usize {
            return Err(QueueError::NoPlaceFree { run: request.run, max: self.run.max_holders });
        }
        for lease in self.run.leases.end_all(request.token) {
            self.requeue(&lease);
        }
        self.run.fences += 1;
        let group = self.run.lanes.group(&request.group);
        self.run.holders.insert(
            request.token,
            Member {
                fence: self.run.fences,
                uid: request.uid.clone(),
                group,
                under_way: 0,
                is_alone: false,
                is_draining: false,
            },
        );
        self.run.changed();
        let JoinRequest { run, token, uid, group } = request;
        Ok(Holder { run, token, uid, group, fence: self.run.fences, lease: self.run.lease })
    }

    pub(super) fn claim(&mut self, holder: &Holder, max: usize) -> Result<Claim, QueueError> {
        let group = self.run.admit(holder)?;
        if self.run.frozen {
            return Ok(Claim::Frozen);
        }
        self.run.lanes.advance(self.gates, group, self.now);
        let mut tasks = Vec::with_capacity(max.min(16));
        let offer = self.offer(holder.token, group, max);
        if let Offer::Suspect(queue) = offer
            && let Some(picked) = self.run.lanes.hand_out_suspect(self.gates, queue, self.now)
        {
            tasks.push(self.grant(holder.token, picked));
        }
        while offer == Offer::Any && tasks.len() < max.min(MAX_CLAIM_TASKS) {
            let Some(picked) = self.run.lanes.next(self.gates, group, self.now) else { break };
            tasks.push(self.grant(holder.token, picked));
        }
        if !tasks.is_empty() {
            return Ok(Claim::Tasks(tasks));
        }
        if self.run.ledger.is_drained() {
            return Ok(Claim::Drained);
        }
        self.run.someone_waits = true;
        let until = match offer {
            _ if max == 0 => self.now,
            Offer::Any => self.next_change(group),
            Offer::Suspect(_) | Offer::Nothing => {
                self.run.leases.next_expiry().unwrap_or_else(|| self.now.plus(UNTIMED))
            }
        };
        Ok(Claim::Wait { until: Timestamp::from(until), sequence: self.run.sequence })
    }

    fn grant(&mut self, token: u32, picked: Picked) -> Leased {
        let entry = &mut self.run.tasks[picked.task as usize];
        let attempt = entry.attempts;
        entry.attempts = attempt.saturating_add(1);
        entry.state = State::Leased;
        if let Some(member) = self.run.holders.get_mut(&token) {
            member.under_way += 1;
            member.is_alone = entry.charges > 0;
        }
        self.run.ledger.queued -= 1;
        self.run.ledger.leased += 1;
        let lease = self.run.leases.grant(token, entry.task.id, picked, self.now, self.now.plus(self.run.lease));
        Leased { task: entry.task.clone(), lease, attempt }
    }

    /// The earliest moment at which time alone can make something claimable.
    fn next_change(&mut self, group: u32) -> Moment {
        let suspects = self.run.lanes.suspect_opens_at(self.gates, group, self.now);
        let opening = self.run.lanes.next_opening(self.gates, group);
        [opening, suspects, self.run.next_delayed(), self.run.leases.next_expiry()]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or_else(|| self.now.plus(UNTIMED))
    }
}
