//! What tasks went through before: known to the process that holds the store, and lost with it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::super::{TaskEffects, TaskResult};
use super::FailedTry;
use crate::finding::TaskFailure;
use crate::task::TaskId;

/// Tries that failed, of tasks that will be tried again.
#[derive(Debug, Default)]
pub(super) struct Tries(Mutex<HashMap<TaskId, Earlier>>);

/// What a task went through in vain.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::store) struct Earlier {
    requests: u64,
    failures: Vec<TaskFailure>,
}

impl Earlier {
    pub(in crate::store) fn note(&mut self, failed: FailedTry) {
        self.requests += failed.requests;
        if let Some(TaskFailure { at, why }) = failed.failure {
            TaskFailure::note(&mut self.failures, at, &why);
        }
    }

    /// Adds it to the effects of the task.
    pub(in crate::store) fn settle(self, effects: &mut TaskEffects) {
        effects.requests += self.requests;
        if let TaskResult::Failed(failed) = &mut effects.result
            && failed.earlier.is_empty()
        {
            failed.earlier = self.failures;
        }
    }
}

impl Tries {
    pub(super) fn note(&self, failed: FailedTry) {
        self.lock().entry(failed.task).or_default().note(failed);
    }

    /// Forgets a task that is being settled, and adds what it went through to its effects.
    pub(super) fn settle(&self, effects: &mut TaskEffects) {
        let earlier = self.lock().remove(&effects.task);
        if let Some(earlier) = earlier {
            earlier.settle(effects);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, Earlier>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
