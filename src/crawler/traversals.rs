//! What the crawlers of a process share: the sections that they traverse, and the tries that failed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::OnceCell;

use crate::finding::{Checkpoint, TaskFailure, Validators};
use crate::store::{SoFar, Traversal};
use crate::task::{SectionKey, TaskId};

/// The traversals that this process has open: as many as are under way, not as many as the run has. Its crawlers share
/// them: what one has counted towards a limit, or spent on a try that failed, counts for whoever goes on.
#[derive(Debug, Default)]
pub struct Traversals {
    sections: Mutex<HashMap<SectionKey, Arc<OnceCell<SectionWork>>>>,
    /// Tries that failed, of tasks that will be tried again.
    tries: Mutex<HashMap<TaskId, Tries>>,
}

/// What a task went through before.
#[derive(Debug, Default)]
struct Tries {
    /// Requests: they count as the task's when it is settled.
    requests: u64,
    failures: Vec<TaskFailure>,
}

/// A section as this process works on it.
#[derive(Debug)]
pub(super) enum SectionWork {
    Open(Box<OpenSection>),
    /// Another run has it, or this run has closed it.
    Skipped(String),
}

/// A section whose traversal is open.
#[derive(Debug)]
pub(super) struct OpenSection {
    pub(super) traversal: Traversal,
    /// What is asked of the node; what is remembered of other questions is no answer to it.
    pub(super) question: String,
    pub(super) validators: Option<Validators>,
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) so_far: Mutex<SoFar>,
}

impl Traversals {
    /// The place of a section's work, filled by who comes first.
    pub(super) fn section(&self, section: &SectionKey) -> Arc<OnceCell<SectionWork>> {
        lock(&self.sections).entry(section.clone()).or_default().clone()
    }

    /// A section is traversed. A straggler is told so by the store.
    pub(super) fn close(&self, section: &SectionKey) {
        lock(&self.sections).remove(section);
    }

    /// A try of a task cost so many requests and came to nothing.
    pub(super) fn add_requests(&self, task: TaskId, requests: u64) {
        lock(&self.tries).entry(task).or_default().requests += requests;
    }

    /// A try of a task failed, and another one will follow.
    pub(super) fn note_failure(&self, task: TaskId, at: Timestamp, why: &str) {
        TaskFailure::note(&mut lock(&self.tries).entry(task).or_default().failures, at, why);
    }

    /// Why the tries before failed.
    pub(super) fn failures(&self, task: TaskId) -> Vec<TaskFailure> {
        lock(&self.tries).get(&task).map(|tries| tries.failures.clone()).unwrap_or_default()
    }

    /// Forgets a task that is settled; returns the requests of the tries before.
    pub(super) fn settle(&self, task: TaskId) -> u64 {
        lock(&self.tries).remove(&task).unwrap_or_default().requests
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
