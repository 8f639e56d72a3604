//! What people look at and put right: runs, holders, single tasks, the dead.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::leases::Lease;
use super::run::{Call, Entry, State};
use crate::queue::{HolderStatus, QueuedTask, RunStatus, TaskState};
use crate::task::{NodeName, TaskId};

impl Call<'_> {
    pub(super) fn run_status(&self) -> RunStatus {
        RunStatus {
            run: self.run.id.clone(),
            frozen: self.run.frozen,
            weight: self.run.lanes.weight,
            holders: super::lanes::index(self.run.holders.len()),
            max_holders: self.run.max_holders,
            ledger: self.run.ledger,
        }
    }

    pub(super) fn holder_statuses(&self) -> Vec<HolderStatus> {
        let mut lapses: HashMap<u32, Timestamp> = HashMap::new();
        for lease in self.run.leases.iter() {
            let expires = Timestamp::from(lease.expires);
            lapses.entry(lease.token).and_modify(|first| *first = expires.min(*first)).or_insert(expires);
        }
        let status = |(&token, member): (&u32, &super::run::Member)| HolderStatus {
            token,
            uid: member.uid.clone(),
            group: self.run.lanes.group_name(member.group).to_owned(),
            leased: member.under_way.into(),
            is_alone: member.is_alone,
            next_lapse: lapses.get(&token).copied(),
        };
        let mut holders: Vec<HolderStatus> = self.run.holders.iter().map(status).collect();
        holders.sort_by_key(|holder| holder.token);
        holders
    }

    pub(super) fn peek(&self, limit: usize) -> Vec<QueuedTask> {
        let leases: HashMap<u32, &Lease> = self.run.leases.iter().map(|lease| (lease.picked.task, lease)).collect();
        let mut entries: Vec<(u32, &Entry)> =
            self.run.tasks.iter().map(|(key, entry)| (super::lanes::index(key), entry)).collect();
        entries.sort_by_key(|(_, entry)| (entry.node, entry.seq));
        let state = |key: u32, entry: &Entry| match (entry.state, leases.get(&key)) {
            (State::Delayed(until), _) => TaskState::Delayed { until: until.into() },
            (State::Leased, Some(lease)) => TaskState::Leased { token: lease.token, lapses: lease.expires.into() },
            _ => TaskState::Queued,
        };
        let peeked = |(key, entry): (u32, &Entry)| QueuedTask {
            task: entry.task.clone(),
            state: state(key, entry),
            attempts: entry.attempts,
            charges: entry.charges,
        };
        entries.into_iter().take(limit).map(peeked).collect()
    }

    pub(super) fn retry_dead(&mut self, tasks: Option<&[TaskId]>) -> u64 {
        let mut put_back = 0;
        for dead in self.run.failures.exhume(tasks) {
            let Some(node) = self.run.lanes.known_node(&dead.task.section.node) else { continue };
            self.run.ledger.dead -= 1;
            if self.run.lanes.nodes[node as usize].removed {
                self.run.ledger.dropped += 1;
                continue;
            }
            self.run.ledger.queued += 1;
            put_back += 1;
            self.admit_task(node, dead.task);
        }
        self.run.changed();
        put_back
    }

    pub(super) fn drop_tasks(&mut self, tasks: &[TaskId]) -> u64 {
        let named: HashSet<&TaskId> = tasks.iter().collect();
        let waits = |entry: &Entry| entry.state != State::Leased && named.contains(&entry.task.id);
        let found = self.run.tasks.iter().filter(|(_, entry)| waits(entry)).map(|(key, _)| super::lanes::index(key));
        let found: Vec<u32> = found.collect();
        let mut standing: HashMap<u32, HashSet<u32>> = HashMap::new();
        for &key in &found {
            let entry = &self.run.tasks[key as usize];
            if entry.state == State::Queued {
                standing.entry(entry.queue).or_default().insert(key);
                self.run.ledger.queued -= 1;
            } else {
                self.run.ledger.delayed -= 1;
            }
            self.forget(key);
        }
        for (queue, keys) in standing {
            self.run.lanes.take_out(queue, &keys);
        }
        let dropped = found.len() as u64;
        self.run.ledger.dropped += dropped;
        self.run.changed();
        dropped
    }

    pub(super) fn node_brief(&self, name: &NodeName) -> Option<Arc<str>> {
        let node = self.run.lanes.known_node(name)?;
        Some(self.run.lanes.nodes[node as usize].config.brief.clone())
    }
}
