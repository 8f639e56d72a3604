//! How a step of the engine is run: on a thread that may wait, and again until nothing that it has read was changed meanwhile.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;

use super::super::engine::needs::{self, Known, Need};
use super::super::engine::read::Found;
use super::super::{StoreError, StoredRecord, TaskEffects, Traversal};
use super::keys::{self, PAYLOADS, Slot};
use super::link::random;
use super::tables::Tables;
use super::{RedisStore, STRIPES};
use crate::task::{RunId, SectionKey, Task};

/// A step whose ground others changed is run again so often.
const MAX_TRIES: u32 = 200;

/// The longest pause before that.
const LONGEST_PAUSE_MS: u32 = 60;

/// Of so many sections it is remembered what never changes.
const MAX_KNOWN: usize = 16_384;

/// Payloads that are read at once.
const PAYLOADS_AT_ONCE: usize = 200;

pub(super) type SharedKnown = Arc<Mutex<HashMap<(RunId, SectionKey), Known>>>;

impl RedisStore {
    /// Runs a step.
    pub(super) async fn step<T: Send + 'static>(
        &self,
        run: Option<&RunId>,
        work: impl Fn(&mut Tables) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let ended = |why: String| StoreError::Gone { address: self.link.shown().to_owned(), why };
        let place = self.steps.clone().acquire_owned().await.map_err(|error| ended(error.to_string()))?;
        let (link, places, run) = (self.link.clone(), self.places.clone(), run.cloned());
        let runtime = Handle::current();
        let stepping = tokio::task::spawn_blocking(move || {
            let _place = place;
            let mut slots = Vec::new();
            let mut tries = 0;
            loop {
                let mut tables = Tables::new(link.clone(), runtime.clone(), places.clone(), run.as_ref());
                let outcome = tables.prefetch(std::mem::take(&mut slots)).and_then(|()| work(&mut tables));
                let error = match outcome.and_then(|done| tables.finish().map(|()| done)) {
                    Ok(done) => return Ok(done),
                    Err(error) if tables.is_stale.get() => error,
                    Err(error) => tables.fail(error),
                };
                tries += 1;
                if !tables.is_stale.get() || tries >= MAX_TRIES {
                    return Err(error);
                }
                slots = tables.what_was_read();
                runtime.block_on(tokio::time::sleep(pause(tries)?));
            }
        });
        stepping.await.unwrap_or_else(|error| Err(ended(error.to_string())))
    }

    /// Keeps other commits of this process to a section waiting.
    pub(super) async fn stripe(&self, section: &SectionKey) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        let mut hasher = DefaultHasher::new();
        section.hash(&mut hasher);
        let stripe = usize::try_from(hasher.finish() % STRIPES as u64).unwrap_or_default();
        match self.stripes.get(stripe) {
            Some(stripe) => Some(stripe.lock().await),
            None => None,
        }
    }
}

/// Between none and what grows with the tries: who collided must not collide again.
fn pause(tries: u32) -> Result<Duration, StoreError> {
    let longest = (2 * tries).min(LONGEST_PAUSE_MS);
    let [random, ..] = random()?;
    Ok(Duration::from_micros(u64::from(longest) * 1000 * u64::from(random) / 256))
}

impl Tables {
    fn prefetch_needs(&self, needs: impl IntoIterator<Item = Need>) -> Result<(), StoreError> {
        self.prefetch(needs.into_iter().map(|(table, key)| Slot::of(table, &key)).collect())
    }

    /// Reads what opening or closing a traversal needs.
    pub(super) fn prefetch_traversal(
        &self,
        shared: &SharedKnown,
        run: &RunId,
        section: &SectionKey,
    ) -> Result<(), StoreError> {
        let known = lock(shared).get(&(run.clone(), section.clone())).cloned();
        let known = if let Some(known) = known {
            known
        } else if let Some(known) = needs::known(self, run, section)? {
            remember(shared, run, section, &known);
            known
        } else {
            return Ok(());
        };
        self.prefetch_needs(needs::of_traversal(&known, run, section))
    }

    /// Reads what a commit needs, in two calls at most once the section is known.
    pub(super) fn prefetch_commit(
        &self,
        shared: &SharedKnown,
        traversal: &Traversal,
        effects: &TaskEffects,
        more: Vec<Slot>,
    ) -> Result<Option<Known>, StoreError> {
        let Traversal { run, section, .. } = traversal;
        let known = lock(shared).get(&(run.clone(), section.clone())).cloned();
        let known = match known {
            None => needs::known(self, run, section)?,
            known => known,
        };
        let Some(mut known) = known else { return Ok(None) };
        let needed = needs::of_commit(&known, traversal, effects);
        let slots = needed.into_iter().map(|(table, key)| Slot::of(table, &key)).chain(more);
        self.prefetch(slots.collect())?;
        self.prefetch_needs(needs::of_commit_then(self, &mut known, traversal, effects)?)?;
        remember(shared, run, section, &known);
        Ok(Some(known))
    }

    /// Reads what recording tasks needs.
    pub(super) fn prefetch_seed(&self, run: &RunId, tasks: &[Task]) -> Result<(), StoreError> {
        if let Some(needed) = needs::of_seed(self, run, tasks)? {
            self.prefetch_needs(needed)?;
            self.prefetch_needs(needs::of_seed_then(self, run, tasks)?)?;
        }
        Ok(())
    }

    /// Adds payloads to records. One that is not there was given up since its record was read.
    pub(super) fn with_payloads(&self, found: Vec<Found>) -> Result<Vec<StoredRecord>, StoreError> {
        let mut records = Vec::with_capacity(found.len());
        let mut found = found.into_iter();
        loop {
            let portion: Vec<Found> = found.by_ref().take(PAYLOADS_AT_ONCE).collect();
            if portion.is_empty() {
                return Ok(records);
            }
            let slots: Vec<Slot> = portion.iter().map(|found| payload_slot(keys::payload(found.entry.place))).collect();
            for (found, payload) in portion.into_iter().zip(self.read_now(&slots)?) {
                let Some(payload) = payload else { return Err(self.stale()) };
                records.push(found.with_payload(Bytes::from(payload)));
            }
        }
    }
}

fn payload_slot(field: Vec<u8>) -> Slot {
    Slot { hash: PAYLOADS.to_owned(), field, is_indexed: false, is_checked: false }
}

fn remember(shared: &SharedKnown, run: &RunId, section: &SectionKey, known: &Known) {
    let mut shared = lock(shared);
    if shared.len() >= MAX_KNOWN {
        shared.clear();
    }
    shared.insert((run.clone(), section.clone()), known.clone());
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
