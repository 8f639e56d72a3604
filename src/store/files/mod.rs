//! The store in files (ADR 0004): an index that is one embedded database, and payloads in segments that are only
//! appended to.
//!
//! ```text
//! DIR/.trawler/lock               held by the process that works here
//!              schema             the version of this layout
//!              id                 tells this state from another one, where runs of several meet
//!              index.redb         runs, tasks, sections, record entries, change feed
//!              segments/000001.jsonl   payloads, one a line, where the index says
//! ```
//!
//! All writes go through one thread, which puts the steps that wait into one transaction ([`writer`]). Payloads are
//! written before the transaction that refers to them; what no transaction refers to is dropped when the store opens.

mod compact;
mod errors;
mod identity;
mod index;
mod open;

mod segments;
mod writer;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use jiff::Timestamp;
use tempfile::TempDir;

pub use self::identity::identity;
use self::index::{Index, ReadTables};
pub use self::open::STATE_DIR;
use self::segments::Segments;
use self::writer::{WriteTables, Writer};
use super::engine::read::{self, Found};
use super::engine::{close, commit, nodes, origins, runs, spending};
use super::{
    Change, CloseTraversal, ClosedOrigin, Committed, NodeOutcome, NodeState, Opened, RecordFilter, RecordKey, RunStart,
    RunState, SectionReport, SectionState, Spending, Store, StoreError, StoredRecord, TaskEffects, Traversal,
};
use crate::task::{CatalogName, NodeName, RunId, SectionKey, Task, TaskId};

/// Keeps everything in a directory. One process works in it at a time.
pub struct FileStore {
    /// Goes first: it ends the writing thread. `None`: opened read-only.
    writer: Option<Writer>,
    shared: Arc<Shared>,
}

/// What the callers and the writing thread share.
struct Shared {
    index: Index,
    segments: Segments,
    /// Held for reading while payloads are read, for writing while segments are removed.
    removal: RwLock<()>,
    _lock: Option<File>,
    _scratch: Option<TempDir>,
}

impl fmt::Debug for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileStore").field("index", &self.shared.index.path()).finish_non_exhaustive()
    }
}

impl FileStore {
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&ReadTables) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.blocking(move |shared| read(&shared.index.read()?)).await
    }

    /// Reads records with their payloads.
    async fn read_records(
        &self,
        find: impl FnOnce(&ReadTables) -> Result<Vec<Found>, StoreError> + Send + 'static,
    ) -> Result<Vec<StoredRecord>, StoreError> {
        self.blocking(move |shared| {
            let _not_removed = shared.removal.read().unwrap_or_else(PoisonError::into_inner);
            let found = find(&shared.index.read()?)?;
            shared.segments.read(found)
        })
        .await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = self.shared.clone();
        match tokio::task::spawn_blocking(move || work(&shared)).await {
            Ok(result) => result,
            Err(error) => Err(errors::io("read", self.shared.index.path(), std::io::Error::other(error))),
        }
    }

    async fn write<T: Send + 'static>(
        &self,
        step: impl FnOnce(&mut WriteTables<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        match &self.writer {
            Some(writer) => writer.write(step).await,
            None => Err(errors::io("write", self.shared.index.path(), std::io::ErrorKind::ReadOnlyFilesystem.into())),
        }
    }
}

#[async_trait]
impl Store for FileStore {
    async fn unfinished_run(&self, catalog: &CatalogName) -> Result<Option<RunState>, StoreError> {
        let catalog = catalog.clone();
        self.read(move |tables| runs::unfinished_run(tables, &catalog)).await
    }

    async fn begin_run(&self, start: RunStart) -> Result<RunState, StoreError> {
        self.write(|tables| runs::begin_run(tables, start)).await
    }

    async fn seed(&self, run: &RunId, tasks: &[Task]) -> Result<(), StoreError> {
        let (run, tasks) = (run.clone(), tasks.to_vec());
        self.write(move |tables| runs::seed(tables, &run, &tasks)).await
    }

    async fn pending_tasks(&self, run: &RunId, after: Option<TaskId>, limit: usize) -> Result<Vec<Task>, StoreError> {
        let run = run.clone();
        self.read(move |tables| runs::pending_tasks(tables, &run, after, limit)).await
    }

    async fn open_traversal(&self, run: &RunId, section: &SectionKey) -> Result<Opened, StoreError> {
        let (run, section) = (run.clone(), section.clone());
        self.write(move |tables| commit::open_traversal(tables, &run, &section)).await
    }

    async fn commit(&self, traversal: &Traversal, effects: TaskEffects) -> Result<Committed, StoreError> {
        let traversal = traversal.clone();
        self.write(move |tables| commit::commit(tables, &traversal, effects)).await
    }

    async fn close_traversal(&self, traversal: &Traversal, close: CloseTraversal) -> Result<SectionReport, StoreError> {
        let traversal = traversal.clone();
        self.write(move |tables| close::close_traversal(tables, &traversal, &close)).await
    }

    async fn sweep_unlisted(
        &self,
        run: &RunId,
        node: &NodeName,
        close: CloseTraversal,
    ) -> Result<Vec<SectionReport>, StoreError> {
        let (run, node) = (run.clone(), node.clone());
        self.write(move |tables| close::sweep_unlisted(tables, &run, &node, &close)).await
    }

    async fn sweep_removed_node(
        &self,
        run: &RunId,
        node: &NodeName,
        close: CloseTraversal,
    ) -> Result<Vec<SectionReport>, StoreError> {
        let (run, node) = (run.clone(), node.clone());
        self.write(move |tables| nodes::sweep_removed_node(tables, &run, &node, &close)).await
    }

    async fn sweep_expired_node(
        &self,
        run: &RunId,
        node: &NodeName,
        close: CloseTraversal,
    ) -> Result<Vec<SectionReport>, StoreError> {
        let (run, node) = (run.clone(), node.clone());
        self.write(move |tables| nodes::sweep_expired_node(tables, &run, &node, &close)).await
    }

    async fn record_node(&self, run: &RunId, node: &NodeName, outcome: NodeOutcome) -> Result<(), StoreError> {
        let (run, node) = (run.clone(), node.clone());
        self.write(move |tables| nodes::record_node(tables, &run, &node, &outcome)).await
    }

    async fn cut_short(&self, run: &RunId, close: CloseTraversal) -> Result<(), StoreError> {
        let run = run.clone();
        self.write(move |tables| close::cut_short(tables, &run, &close)).await
    }

    async fn reports(&self, run: &RunId) -> Result<Vec<SectionReport>, StoreError> {
        let run = run.clone();
        self.read(move |tables| close::reports(tables, &run)).await
    }

    async fn finish_run(&self, run: &RunId, report: &str) -> Result<(), StoreError> {
        let (run, report) = (run.clone(), report.to_owned());
        self.write(move |tables| {
            tables.sync();
            runs::finish_run(tables, &run, &report)
        })
        .await
    }

    async fn begin_spending(&self, now: Timestamp) -> Result<bool, StoreError> {
        self.write(move |tables| spending::begin_spending(tables, now)).await
    }

    async fn spend(&self, spendings: Vec<Spending>) -> Result<(), StoreError> {
        self.write(move |tables| spending::spend(tables, &spendings)).await
    }

    async fn spendings(&self, after: Timestamp) -> Result<Vec<Spending>, StoreError> {
        self.read(move |tables| spending::spendings(tables, after)).await
    }

    async fn end_spending(&self) -> Result<(), StoreError> {
        self.write(|tables| spending::end_spending(tables)).await
    }

    async fn close_origins(&self, closed: Vec<ClosedOrigin>) -> Result<(), StoreError> {
        self.write(move |tables| origins::close_origins(tables, &closed)).await
    }

    async fn closed_origins(&self, now: Timestamp, latest: Timestamp) -> Result<Vec<ClosedOrigin>, StoreError> {
        self.write(move |tables| origins::closed_origins(tables, now, latest)).await
    }

    async fn nodes(&self, catalog: &CatalogName) -> Result<BTreeMap<NodeName, NodeState>, StoreError> {
        let catalog = catalog.clone();
        self.read(move |tables| read::nodes(tables, &catalog)).await
    }

    async fn sections(&self, catalog: &CatalogName, node: &NodeName) -> Result<Vec<SectionState>, StoreError> {
        let (catalog, node) = (catalog.clone(), node.clone());
        self.read(move |tables| read::sections(tables, &catalog, &node)).await
    }

    async fn records(
        &self,
        catalog: &CatalogName,
        filter: &RecordFilter,
        after: Option<&RecordKey>,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, StoreError> {
        let (catalog, filter, after) = (catalog.clone(), filter.clone(), after.cloned());
        self.read_records(move |tables| read::records(tables, &catalog, &filter, after.as_ref(), limit)).await
    }

    async fn get(&self, catalog: &CatalogName, key: &RecordKey) -> Result<Option<StoredRecord>, StoreError> {
        let (catalog, key) = (catalog.clone(), key.clone());
        let found = self.read_records(move |tables| Ok(read::get(tables, &catalog, &key)?.into_iter().collect()));
        Ok(found.await?.pop())
    }

    async fn changes(&self, catalog: &CatalogName, after: u64, limit: usize) -> Result<Vec<Change>, StoreError> {
        let catalog = catalog.clone();
        self.read(move |tables| read::changes(tables, &catalog, after, limit)).await
    }

    async fn compact(&self) -> Result<(), StoreError> {
        compact::compact(self).await
    }
}
