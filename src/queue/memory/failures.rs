//! Why tasks failed: the latest failures of those that may come again, and the dead with theirs.

use std::collections::{HashMap, HashSet};

use super::run::Entry;
use crate::queue::gate::Moment;
use crate::queue::{DeadTask, MAX_DEAD_KEPT, TaskFailure};
use crate::task::TaskId;

/// Living tasks whose failures are kept. A server that fails everything must not fill the memory with its excuses.
const MAX_LIVING_KEPT: usize = 10_000;

/// What is said of a task that was being worked on when its crawler crashed.
pub(super) const CRASHED: &str = "the crawler crashed while it worked on this task";

/// What failed in a run.
#[derive(Debug, Default)]
pub(super) struct Failures {
    living: HashMap<u32, Vec<TaskFailure>>,
    dead: Vec<DeadTask>,
}

impl Failures {
    /// A task failed and will come again.
    pub(super) fn note(&mut self, key: u32, at: Moment, why: &str) {
        if self.living.len() >= MAX_LIVING_KEPT && !self.living.contains_key(&key) {
            return;
        }
        TaskFailure::note(self.living.entry(key).or_default(), at.into(), why);
    }

    /// A task ended otherwise.
    pub(super) fn forget(&mut self, key: u32) {
        if !self.living.is_empty() {
            self.living.remove(&key);
        }
    }

    /// A task failed for the last time.
    pub(super) fn bury(&mut self, key: u32, entry: Entry, at: Moment, why: &str) {
        let mut history = self.living.remove(&key).unwrap_or_default();
        if self.dead.len() < MAX_DEAD_KEPT {
            TaskFailure::note(&mut history, at.into(), why);
            let Entry { task, attempts, charges, .. } = entry;
            self.dead.push(DeadTask { task, attempts, charges, history });
        }
    }

    /// Takes out the dead that are named, or all.
    pub(super) fn exhume(&mut self, tasks: Option<&[TaskId]>) -> Vec<DeadTask> {
        let named: Option<HashSet<&TaskId>> = tasks.map(|tasks| tasks.iter().collect());
        let is_named = |dead: &mut DeadTask| named.as_ref().is_none_or(|named| named.contains(&dead.task.id));
        self.dead.extract_if(.., is_named).collect()
    }

    pub(super) fn dead(&self, limit: usize) -> Vec<DeadTask> {
        self.dead.iter().take(limit).cloned().collect()
    }
}
