//! The landing in the process that has the store open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::OnceCell;

use super::super::{ClosedOrigin, Committed, Opened, SharedStore, SoFar, StoreError, TaskEffects, Traversal};
use super::followed::Followed;
use super::tries::Tries;
use super::{FailedTry, Landing};
use crate::finding::{Checkpoint, Validators};
use crate::task::{RunId, SectionKey};

/// Stands before a store, for the crawlers of one run: each section is opened once, and what one crawler has brought or
/// tried in vain counts for whoever goes on.
#[derive(Debug)]
pub struct StoreLanding {
    store: SharedStore,
    /// Sections under way: as many as are open, not as many as the run has.
    sections: Mutex<HashMap<SectionKey, Arc<OnceCell<OpenSection>>>>,
    tries: Tries,
    followed: Followed,
}

/// A section whose traversal is open.
#[derive(Debug)]
struct OpenSection {
    traversal: Traversal,
    validators: Option<Validators>,
    checkpoint: Option<Checkpoint>,
    so_far: Mutex<SoFar>,
}

/// Why a section is not open to this run.
enum NotOpen {
    Refused(Box<Opened>),
    Failed(StoreError),
}

impl StoreLanding {
    /// A landing before this store.
    pub fn new(store: SharedStore) -> Self {
        Self { store, sections: Mutex::default(), tries: Tries::default(), followed: Followed::default() }
    }

    async fn open(&self, run: &RunId, section: &SectionKey) -> Result<OpenSection, NotOpen> {
        match self.store.open_traversal(run, section).await.map_err(NotOpen::Failed)? {
            Opened::Open { traversal, validators, checkpoint, so_far } => {
                Ok(OpenSection { traversal, validators, checkpoint, so_far: Mutex::new(so_far) })
            }
            refused => Err(NotOpen::Refused(Box::new(refused))),
        }
    }

    /// Forgets a section. A straggler is told by the store how it ended.
    fn forget(&self, section: &SectionKey) {
        lock(&self.sections).remove(section);
    }

    fn count(&self, section: &SectionKey, committed: &Committed) {
        let cell = lock(&self.sections).get(section).cloned();
        if let Some(open) = cell.as_ref().and_then(|cell| cell.get()) {
            let mut so_far = lock(&open.so_far);
            // Two commits may be told of in another order than they were made.
            so_far.records = so_far.records.max(committed.seen);
            so_far.bytes = so_far.bytes.max(committed.bytes);
        }
    }
}

#[async_trait]
impl Landing for StoreLanding {
    async fn open_traversal(&self, run: &RunId, section: &SectionKey) -> Result<Opened, StoreError> {
        // Who comes while it is being opened waits for that section alone.
        let cell = lock(&self.sections).entry(section.clone()).or_default().clone();
        match cell.get_or_try_init(|| self.open(run, section)).await {
            Ok(open) => Ok(open.as_opened()),
            Err(not_open) => {
                self.forget(section);
                match not_open {
                    NotOpen::Refused(opened) => Ok(*opened),
                    NotOpen::Failed(error) => Err(error),
                }
            }
        }
    }

    async fn commit(&self, traversal: &Traversal, mut effects: TaskEffects) -> Result<Committed, StoreError> {
        self.tries.settle(&mut effects);
        let (task, mut feedback) = (effects.task, effects.feedback.clone());
        let mut committed = self.store.commit(traversal, effects).await?;
        if committed.already_settled {
            committed.followed = self.followed.from(task);
        } else {
            feedback.extend(committed.look_again.clone());
            self.followed.keep(task, feedback);
        }
        if committed.closed {
            self.forget(&traversal.section);
        } else {
            self.count(&traversal.section, &committed);
        }
        Ok(committed)
    }

    async fn note_try(&self, failed: FailedTry) -> Result<(), StoreError> {
        let spending = failed.spending.clone();
        self.tries.note(failed);
        if spending.is_none() { Ok(()) } else { self.store.spend(vec![spending]).await }
    }

    async fn close_origins(&self, closed: Vec<ClosedOrigin>) -> Result<(), StoreError> {
        self.store.close_origins(closed).await
    }
}

impl OpenSection {
    fn as_opened(&self) -> Opened {
        Opened::Open {
            traversal: self.traversal.clone(),
            validators: self.validators.clone(),
            checkpoint: self.checkpoint.clone(),
            so_far: *lock(&self.so_far),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
