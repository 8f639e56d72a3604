//! What followed from the tasks that were committed last.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use crate::task::{Task, TaskId};

/// So many tasks are remembered, all that followed taken together. A task that is done a second time, because whoever did it
/// first died before the queue was told, is so soon after.
const MAX_KEPT: usize = 16_384;

/// A task that is done twice need not lead to the same tasks: a page's link may carry a moment or a session. What the store
/// waits for is what followed the first time.
#[derive(Debug, Default)]
pub(super) struct Followed(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    by_task: HashMap<TaskId, Vec<Task>>,
    oldest_first: VecDeque<TaskId>,
    count: usize,
}

impl Followed {
    /// Remembers what followed from a task.
    pub(super) fn keep(&self, task: TaskId, tasks: Vec<Task>) {
        if tasks.is_empty() || tasks.len() > MAX_KEPT / 4 {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.count += tasks.len();
        if let Some(before) = kept.by_task.insert(task, tasks) {
            kept.count -= before.len();
        } else {
            kept.oldest_first.push_back(task);
        }
        while kept.count > MAX_KEPT {
            let Some(oldest) = kept.oldest_first.pop_front() else { return };
            kept.count -= kept.by_task.remove(&oldest).map_or(0, |tasks| tasks.len());
        }
    }

    /// What followed from a task, if that is remembered.
    pub(super) fn from(&self, task: TaskId) -> Option<Vec<Task>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).by_task.get(&task).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::{SectionKey, TaskKind};

    fn task(number: usize) -> Task {
        Task::new(SectionKey::root_of("acme".into()), TaskKind::Page, "o".into(), number.to_string())
    }

    #[test]
    fn the_latest_are_remembered_and_no_more() {
        let followed = Followed::default();
        for number in 0..MAX_KEPT {
            followed.keep(task(number).id, vec![task(number), task(number + 1)]);
        }
        assert_eq!(followed.from(task(MAX_KEPT / 2 - 1).id), None);
        for number in [MAX_KEPT / 2, MAX_KEPT - 1] {
            assert_eq!(followed.from(task(number).id), Some(vec![task(number), task(number + 1)]));
        }
        followed.keep(task(0).id, vec![task(0); MAX_KEPT]);
        assert_eq!(followed.from(task(0).id), None);
    }
}
