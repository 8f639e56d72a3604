//! The store in memory: for tests, and for runs that keep nothing.

use std::collections::{BTreeMap, HashMap};
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;

use super::engine::read::{self, Found};
use super::engine::rows::{Entry, Place};
use super::engine::{Read, Table, Visit, Write, close, commit, nodes, origins, runs, spending};
use super::{
    Change, CloseTraversal, ClosedOrigin, Committed, NodeOutcome, NodeState, Opened, RecordFilter, RecordKey, RunStart,
    RunState, SectionReport, SectionState, Spending, Store, StoreError, StoredRecord, TaskEffects, Traversal,
};
use crate::task::{CatalogName, NodeName, RunId, SectionKey, Task, TaskId};

/// Keeps everything in memory, and forgets it when the last handle goes.
#[derive(Debug)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
    session: u64,
}

#[derive(Debug, Default)]
struct State {
    sessions: u64,
    tables: [BTreeMap<Vec<u8>, Vec<u8>>; Table::ALL.len()],
    payloads: HashMap<u64, Bytes>,
    appended: u64,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::session_of(Arc::default())
    }

    /// A handle on the same state that counts as another process: traversals it opens fence this one's.
    #[must_use]
    pub fn another_process(&self) -> Self {
        Self::session_of(self.state.clone())
    }

    fn session_of(state: Arc<Mutex<State>>) -> Self {
        let mut guard = state.lock().unwrap_or_else(PoisonError::into_inner);
        guard.sessions += 1;
        let session = guard.sessions;
        drop(guard);
        Self { state, session }
    }

    fn tables(&self) -> MemoryTables<'_> {
        // A step that panicked has left the maps whole, if not the step.
        MemoryTables { state: self.state.lock().unwrap_or_else(PoisonError::into_inner), session: self.session }
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

struct MemoryTables<'a> {
    state: MutexGuard<'a, State>,
    session: u64,
}

impl MemoryTables<'_> {
    fn stored(&self, found: Found) -> StoredRecord {
        let payload = self.state.payloads.get(&found.entry.place.offset).cloned().unwrap_or_default();
        found.with_payload(payload)
    }
}

impl Read for MemoryTables<'_> {
    fn get<T>(&self, table: Table, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>, StoreError> {
        Ok(self.state.tables[table as usize].get(key).map(|value| read(value)))
    }

    fn scan(&self, table: Table, prefix: &[u8], after: Option<&[u8]>, visit: Visit<'_>) -> Result<(), StoreError> {
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        for (key, value) in self.state.tables[table as usize].range::<[u8], _>((start, Bound::Unbounded)) {
            if !key.starts_with(prefix) || visit(key, value)? == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
    }

    fn damaged(&self, why: &str) -> StoreError {
        StoreError::Unusable { path: "memory".to_owned(), why: why.to_owned() }
    }
}

impl Write for MemoryTables<'_> {
    fn session(&self) -> u64 {
        self.session
    }

    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.state.tables[table as usize].insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn update(
        &mut self,
        table: Table,
        key: &[u8],
        change: impl FnOnce(&[u8]) -> Option<[u8; Entry::BYTES]>,
    ) -> Result<bool, StoreError> {
        let Some(value) = self.state.tables[table as usize].get_mut(key) else { return Ok(false) };
        if let Some(changed) = change(value) {
            *value = changed.to_vec();
        }
        Ok(true)
    }

    fn remove(&mut self, table: Table, key: &[u8]) -> Result<bool, StoreError> {
        Ok(self.state.tables[table as usize].remove(key).is_some())
    }

    fn append(&mut self, payload: &[u8]) -> Result<Place, StoreError> {
        self.state.appended += 1;
        let offset = self.state.appended;
        self.state.payloads.insert(offset, Bytes::copy_from_slice(payload));
        Ok(Place { segment: 0, offset, len: 0 })
    }

    fn release(&mut self, place: Place) -> Result<(), StoreError> {
        self.state.payloads.remove(&place.offset);
        Ok(())
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn unfinished_run(&self, catalog: &CatalogName) -> Result<Option<RunState>, StoreError> {
        runs::unfinished_run(&self.tables(), catalog)
    }

    async fn begin_run(&self, start: RunStart) -> Result<RunState, StoreError> {
        runs::begin_run(&mut self.tables(), start)
    }

    async fn seed(&self, run: &RunId, tasks: &[Task]) -> Result<(), StoreError> {
        runs::seed(&mut self.tables(), run, tasks)
    }

    async fn pending_tasks(&self, run: &RunId, after: Option<TaskId>, limit: usize) -> Result<Vec<Task>, StoreError> {
        runs::pending_tasks(&self.tables(), run, after, limit)
    }

    async fn open_traversal(&self, run: &RunId, section: &SectionKey) -> Result<Opened, StoreError> {
        commit::open_traversal(&mut self.tables(), run, section)
    }

    async fn commit(&self, traversal: &Traversal, effects: TaskEffects) -> Result<Committed, StoreError> {
        commit::commit(&mut self.tables(), traversal, effects)
    }

    async fn close_traversal(&self, traversal: &Traversal, close: CloseTraversal) -> Result<SectionReport, StoreError> {
        close::close_traversal(&mut self.tables(), traversal, &close)
    }

    async fn sweep_unlisted(
        &self,
        run: &RunId,
        node: &NodeName,
        close: CloseTraversal,
    ) -> Result<Vec<SectionReport>, StoreError> {
        close::sweep_unlisted(&mut self.tables(), run, node, &close)
    }

    async fn sweep_removed_node(
        &self,
        run: &RunId,
        node: &NodeName,
        close: CloseTraversal,
    ) -> Result<Vec<SectionReport>, StoreError> {
        nodes::sweep_removed_node(&mut self.tables(), run, node, &close)
    }

    async fn sweep_expired_node(
        &self,
        run: &RunId,
        node: &NodeName,
        close: CloseTraversal,
    ) -> Result<Vec<SectionReport>, StoreError> {
        nodes::sweep_expired_node(&mut self.tables(), run, node, &close)
    }

    async fn record_node(&self, run: &RunId, node: &NodeName, outcome: NodeOutcome) -> Result<(), StoreError> {
        nodes::record_node(&mut self.tables(), run, node, &outcome)
    }

    async fn cut_short(&self, run: &RunId, close: CloseTraversal) -> Result<(), StoreError> {
        close::cut_short(&mut self.tables(), run, &close)
    }

    async fn reports(&self, run: &RunId) -> Result<Vec<SectionReport>, StoreError> {
        close::reports(&self.tables(), run)
    }

    async fn finish_run(&self, run: &RunId, report: &str) -> Result<(), StoreError> {
        runs::finish_run(&mut self.tables(), run, report)
    }

    async fn begin_spending(&self, now: Timestamp) -> Result<bool, StoreError> {
        spending::begin_spending(&mut self.tables(), now)
    }

    async fn spend(&self, spendings: Vec<Spending>) -> Result<(), StoreError> {
        spending::spend(&mut self.tables(), &spendings)
    }

    async fn spendings(&self, after: Timestamp) -> Result<Vec<Spending>, StoreError> {
        spending::spendings(&self.tables(), after)
    }

    async fn end_spending(&self) -> Result<(), StoreError> {
        spending::end_spending(&mut self.tables())
    }

    async fn close_origins(&self, closed: Vec<ClosedOrigin>) -> Result<(), StoreError> {
        origins::close_origins(&mut self.tables(), &closed)
    }

    async fn closed_origins(&self, now: Timestamp, latest: Timestamp) -> Result<Vec<ClosedOrigin>, StoreError> {
        origins::closed_origins(&mut self.tables(), now, latest)
    }

    async fn nodes(&self, catalog: &CatalogName) -> Result<BTreeMap<NodeName, NodeState>, StoreError> {
        read::nodes(&self.tables(), catalog)
    }

    async fn sections(&self, catalog: &CatalogName, node: &NodeName) -> Result<Vec<SectionState>, StoreError> {
        read::sections(&self.tables(), catalog, node)
    }

    async fn records(
        &self,
        catalog: &CatalogName,
        filter: &RecordFilter,
        after: Option<&RecordKey>,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, StoreError> {
        let tables = self.tables();
        let found = read::records(&tables, catalog, filter, after, limit)?;
        Ok(found.into_iter().map(|found| tables.stored(found)).collect())
    }

    async fn get(&self, catalog: &CatalogName, key: &RecordKey) -> Result<Option<StoredRecord>, StoreError> {
        let tables = self.tables();
        Ok(read::get(&tables, catalog, key)?.map(|found| tables.stored(found)))
    }

    async fn changes(&self, catalog: &CatalogName, after: u64, limit: usize) -> Result<Vec<Change>, StoreError> {
        read::changes(&self.tables(), catalog, after, limit)
    }

    async fn compact(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
