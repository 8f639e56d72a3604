//! The landing of a crawler that reaches the store itself: what all crawlers of a run share is in the server.

use std::sync::Arc;

use async_trait::async_trait;

use super::super::engine::{Read as _, commit, needs, spending};
use super::super::landing::{Earlier, FailedTry, Landing};
use super::super::{ClosedOrigin, Committed, Opened, Store as _, StoreError, TaskEffects, Traversal};
use super::RedisStore;
use super::keys::Slot;
use super::tables::Tables;
use crate::task::{RunId, SectionKey, Task, TaskId};

/// What followed from a task is not remembered if it is more than this.
const MAX_FOLLOWED_FROM_ONE: usize = 4096;

/// Lands records of a run in a shared store. What tasks went through in vain and what followed from them is kept with the run, and
/// changes in the same write as the task.
#[derive(Debug)]
pub struct RedisLanding {
    store: Arc<RedisStore>,
    run: RunId,
}

impl RedisLanding {
    /// A landing for the crawlers of a run.
    pub fn new(store: Arc<RedisStore>, run: RunId) -> Self {
        Self { store, run }
    }
}

#[async_trait]
impl Landing for RedisLanding {
    async fn open_traversal(&self, run: &RunId, section: &SectionKey) -> Result<Opened, StoreError> {
        self.store.open_traversal(run, section).await
    }

    async fn commit(&self, traversal: &Traversal, effects: TaskEffects) -> Result<Committed, StoreError> {
        let _others_wait = self.store.stripe(&traversal.section).await;
        let (run, traversal, known) = (self.run.clone(), traversal.clone(), self.store.known.clone());
        self.store
            .step(Some(&self.run), move |tables| {
                let slots = vec![Slot::tries(&run, effects.task), Slot::followed(&run, effects.task)];
                let section = tables.prefetch_commit(&known, &traversal, &effects, slots)?;
                let will_settle = match &section {
                    Some(section) => needs::will_settle(tables, section, &effects)?,
                    None => false,
                };
                let mut effects = effects.clone();
                let (task, mut followed) = (effects.task, effects.feedback.clone());
                // Before the commit, which may be written in portions.
                if let Some(earlier) = earlier(tables, Slot::tries(&run, task))? {
                    earlier.settle(&mut effects);
                    tables.set(Slot::tries(&run, task), None);
                }
                if will_settle {
                    keep(tables, &run, task, &followed)?;
                }
                let mut committed = commit::commit(tables, &traversal, effects)?;
                if committed.already_settled {
                    committed.followed = tables.value(Slot::followed(&run, task), decode)?.flatten();
                } else if let Some(again) = &committed.look_again {
                    followed.push(again.clone());
                    keep(tables, &run, task, &followed)?;
                }
                Ok(committed)
            })
            .await
    }

    async fn note_try(&self, failed: FailedTry) -> Result<(), StoreError> {
        let run = self.run.clone();
        self.store
            .step(Some(&self.run), move |tables| {
                let slot = Slot::tries(&run, failed.task);
                let mut known = earlier(tables, slot.clone())?.unwrap_or_default();
                known.note(failed.clone());
                tables.set(slot, Some(&to_json(&known)?));
                spending::spend(tables, std::slice::from_ref(&failed.spending))
            })
            .await
    }

    async fn close_origins(&self, closed: Vec<ClosedOrigin>) -> Result<(), StoreError> {
        self.store.close_origins(closed).await
    }
}

/// What a task went through, if anything.
fn earlier(tables: &Tables, slot: Slot) -> Result<Option<Earlier>, StoreError> {
    let earlier = tables.value(slot, |bytes| serde_json::from_slice(bytes))?;
    earlier.transpose().map_err(|_| tables.damaged("what a task went through can't be read"))
}

/// Remembers what followed from a task: how many tasks, then the tasks.
fn keep(tables: &mut Tables, run: &RunId, task: TaskId, followed: &[Task]) -> Result<(), StoreError> {
    if followed.is_empty() || followed.len() > MAX_FOLLOWED_FROM_ONE {
        return Ok(());
    }
    let count = u32::try_from(followed.len()).unwrap_or(u32::MAX);
    let mut value = count.to_be_bytes().to_vec();
    value.extend(to_json(&followed)?);
    tables.keep_followed(run, task, value);
    Ok(())
}

fn decode(bytes: &[u8]) -> Option<Vec<Task>> {
    serde_json::from_slice(bytes.get(4..)?).ok()
}

fn to_json(value: &impl serde::Serialize) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value)
        .map_err(|error| StoreError::Elsewhere { why: format!("a task can't be written down ({error})") })
}
