//! What tasks went through before: known to the process that holds the store, and lost with it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::super::{TaskEffects, TaskResult};
use super::FailedTry;
use crate::finding::TaskFailure;
use crate::task::TaskId;

/// Tries that failed, of tasks that will be tried again.
#[derive(Debug, Default)]
pub(super) struct Tries(Mutex<HashMap<TaskId, Earlier>>);

#[derive(Debug, Default)]
struct Earlier {
    requests: u64,
    failures: Vec<TaskFailure>,
}

impl Tries {
    pub(super) fn note(&self, failed: FailedTry) {
        let mut tries = self.lock();
        let earlier = tries.entry(failed.task).or_default();
        earlier.requests += failed.requests;
        if let Some(TaskFailure { at, why }) = failed.failure {
            TaskFailure::note(&mut earlier.failures, at, &why);
        }
    }

    /// Forgets a task that is being settled, and adds what it went through to its effects.
    pub(super) fn settle(&self, effects: &mut TaskEffects) {
        let Some(earlier) = self.lock().remove(&effects.task) else { return };
        effects.requests += earlier.requests;
        if let TaskResult::Failed(failed) = &mut effects.result
            && failed.earlier.is_empty()
        {
            failed.earlier = earlier.failures;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, Earlier>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
