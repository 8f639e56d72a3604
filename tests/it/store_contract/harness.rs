//! A store to test, and short ways to say what happens to it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use tempfile::TempDir;
use tokio::runtime::Handle;
use trawler::finding::TaskFailure;
use trawler::record::ContentHash;
use trawler::redis::RedisSettings;
use trawler::store::files::FileStore;
use trawler::store::memory::MemoryStore;
use trawler::store::redis::{RedisStore, Session};
use trawler::store::*;
use trawler::task::{CatalogName, OriginKey, RunId, SectionKey, SectionPath, Task, TaskId, TaskKind};

use crate::redis_server::new_instance;

/// One adapter under test.
pub(super) struct Subject {
    kind: Kind,
    pub(super) catalog: CatalogName,
}

enum Kind {
    Memory(MemoryStore),
    Files { store: Option<FileStore>, dir: Arc<TempDir> },
    Redis { store: RedisStore, settings: RedisSettings },
}

pub(super) const GUARD: DeletionGuard = DeletionGuard { max_percent: 30, min_records: 10 };

impl Subject {
    pub(super) fn memory() -> Self {
        Self { kind: Kind::Memory(MemoryStore::new()), catalog: "mobility".into() }
    }

    pub(super) fn files() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Some(FileStore::open(dir.path()).unwrap());
        Self { kind: Kind::Files { store, dir: Arc::new(dir) }, catalog: "mobility".into() }
    }

    /// An instance of its own on a real server. Needs a runtime with threads.
    pub(super) fn redis() -> Self {
        let settings = new_instance(false);
        let store = open_redis(&settings);
        Self { kind: Kind::Redis { store, settings }, catalog: "mobility".into() }
    }

    pub(super) fn store(&self) -> &dyn Store {
        match &self.kind {
            Kind::Memory(store) => store,
            Kind::Files { store, .. } => store.as_ref().unwrap(),
            Kind::Redis { store, .. } => store,
        }
    }

    /// Where the files lie.
    pub(super) fn dir(&self) -> &Path {
        match &self.kind {
            Kind::Memory(_) | Kind::Redis { .. } => panic!("not in files"),
            Kind::Files { dir, .. } => dir.path(),
        }
    }

    /// The process ends, and another opens the store.
    pub(super) fn next_process(&mut self) {
        match &mut self.kind {
            Kind::Memory(store) => *store = store.another_process(),
            Kind::Files { store, dir } => {
                drop(store.take());
                *store = Some(FileStore::open(dir.path()).unwrap());
            }
            Kind::Redis { store, settings } => *store = open_redis(settings),
        }
    }

    /// The same store, for another Catalog.
    pub(super) fn for_catalog(self, catalog: &str) -> Self {
        Self { catalog: catalog.into(), ..self }
    }

    pub(super) async fn begin(&self) -> RunId {
        self.begin_as(Mode::Full).await
    }

    pub(super) async fn begin_as(&self, mode: Mode) -> RunId {
        self.store().begin_run(start(&self.catalog, mode)).await.unwrap().run
    }

    pub(super) async fn finish(&self, run: &RunId) {
        self.store().finish_run(run, "{}").await.unwrap();
    }

    pub(super) async fn open(&self, run: &RunId, section: &SectionKey) -> Traversal {
        match self.store().open_traversal(run, section).await.unwrap() {
            Opened::Open { traversal, .. } => traversal,
            other => panic!("not open: {other:?}"),
        }
    }

    pub(super) async fn commit(&self, traversal: &Traversal, effects: TaskEffects) -> Committed {
        self.store().commit(traversal, effects).await.unwrap()
    }

    pub(super) async fn close(&self, traversal: &Traversal) -> SectionReport {
        self.store().close_traversal(traversal, closing()).await.unwrap()
    }

    /// Opens, commits one task with these effects, closes.
    pub(super) async fn traverse(&self, run: &RunId, section: &SectionKey, effects: TaskEffects) -> SectionReport {
        self.traverse_closing(run, section, effects, closing()).await
    }

    pub(super) async fn traverse_closing(
        &self,
        run: &RunId,
        section: &SectionKey,
        effects: TaskEffects,
        close: CloseTraversal,
    ) -> SectionReport {
        let traversal = self.open(run, section).await;
        self.commit(&traversal, effects).await;
        self.store().close_traversal(&traversal, close).await.unwrap()
    }

    /// A whole run over one section.
    pub(super) async fn crawl(&self, section: &SectionKey, effects: TaskEffects) -> SectionReport {
        self.crawl_closing(section, effects, closing()).await
    }

    pub(super) async fn crawl_closing(
        &self,
        section: &SectionKey,
        effects: TaskEffects,
        close: CloseTraversal,
    ) -> SectionReport {
        let run = self.begin().await;
        let report = self.traverse_closing(&run, section, effects, close).await;
        self.finish(&run).await;
        report
    }

    pub(super) async fn all(&self) -> Vec<StoredRecord> {
        self.store().records(&self.catalog, &RecordFilter::default(), None, usize::MAX).await.unwrap()
    }

    /// Every live record, as `node/section/id=payload`.
    pub(super) async fn list(&self) -> Vec<String> {
        let line = |record: &StoredRecord| {
            let RecordKey { section, id } = &record.key;
            format!("{section}/{id}={}", String::from_utf8_lossy(&record.payload))
        };
        self.all().await.iter().map(line).collect()
    }

    /// The change feed after a cursor, as `kind id`.
    pub(super) async fn feed(&self, after: u64) -> Vec<String> {
        let changes = self.store().changes(&self.catalog, after, usize::MAX).await.unwrap();
        changes.iter().map(|change| format!("{:?} {}", change.kind, change.key.id)).collect()
    }

    pub(super) async fn section(&self, section: &SectionKey) -> SectionState {
        let states = self.store().sections(&self.catalog, &section.node).await.unwrap();
        states.into_iter().find(|state| state.section == *section).unwrap()
    }
}

fn open_redis(settings: &RedisSettings) -> RedisStore {
    let opening = RedisStore::open(settings, Session::New);
    tokio::task::block_in_place(|| Handle::current().block_on(opening)).unwrap()
}

pub(super) fn start(catalog: &CatalogName, mode: Mode) -> RunStart {
    RunStart { catalog: catalog.clone(), mode, spec: "[]".to_owned(), started_at: at(0) }
}

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

pub(super) fn root(node: &str) -> SectionKey {
    SectionKey::root_of(node.into())
}

pub(super) fn nested(node: &str, path: &str) -> SectionKey {
    SectionKey { node: node.into(), section: SectionPath::from(path) }
}

pub(super) fn task(section: &SectionKey, cursor: &str) -> Task {
    Task::new(section.clone(), TaskKind::Page, OriginKey::from("https://acme.example:443"), cursor)
}

pub(super) fn record(id: &str, version: &str) -> RecordWrite {
    RecordWrite {
        id: id.to_owned(),
        hash: ContentHash::of(version.as_bytes()),
        payload: Bytes::from(format!("{id}@{version}")),
    }
}

/// The effects of the task with this number: records as `id` or `id@version`.
pub(super) fn page(number: u8, records: &[&str]) -> TaskEffects {
    let write = |text: &&str| {
        let (id, version) = text.split_once('@').unwrap_or((text, "1"));
        record(id, version)
    };
    TaskEffects {
        task: TaskId([number; 16]),
        records: records.iter().map(write).collect(),
        protocol: "DCAT".to_owned(),
        ..TaskEffects::default()
    }
}

/// The same, for ids `r00`, `r01`, ….
pub(super) fn page_of(ids: std::ops::Range<usize>) -> TaskEffects {
    let ids: Vec<String> = ids.map(|id| format!("r{id:02}")).collect();
    page(1, &ids.iter().map(String::as_str).collect::<Vec<_>>())
}

pub(super) fn failed_task(why: &str) -> FailedTask {
    let earlier = vec![TaskFailure { at: at(1), why: "no answer in time".to_owned() }];
    FailedTask { kind: TaskKind::Page, page: 1, why: why.to_owned(), earlier, may_be_ours: false }
}

pub(super) fn failed(number: u8, why: &str) -> TaskEffects {
    TaskEffects { result: TaskResult::Failed(failed_task(why)), ..page(number, &[]) }
}

pub(super) fn closing() -> CloseTraversal {
    CloseTraversal { cut_short: None, guard: GUARD, approved: Vec::new(), at: at(1) }
}

pub(super) fn approving(section: &SectionKey, number: u64) -> CloseTraversal {
    CloseTraversal { approved: vec![(section.clone(), number)], ..closing() }
}

/// A node, described as always, was read so far.
pub(super) fn outcome(reading: NodeReading, second: i64) -> NodeOutcome {
    NodeOutcome { reading, spec_hash: ContentHash::of(b"spec"), at: at(second) }
}

/// A report with nothing in it.
pub(super) fn report(section: &SectionKey, number: u64) -> SectionReport {
    SectionReport {
        section: section.clone(),
        number,
        added: 0,
        updated: 0,
        unchanged: 0,
        deleted: 0,
        kept_unseen: 0,
        partial: None,
        held: None,
        held_as: None,
        failures: Vec::new(),
        failed_tasks: 0,
        requests: 0,
        bytes: 0,
        protocol: "DCAT".to_owned(),
        read_as: ReadAs::default(),
        forgiven: BTreeMap::new(),
        rejected: Vec::new(),
        rejected_count: 0,
        total: None,
    }
}
