//! Where it lands: the store port, what it remembers between runs, and how deletions are decided.
//!
//! # Contract (one suite, `tests/it/store_contract.rs`, over every adapter)
//! - **One step.** [`Store::commit`] makes a page's records, its settled task and its feedback durable together, or
//!   nothing. A crash at any instant leaves the state after some prefix of the commits.
//! - **Idempotent.** Committing a task that is already settled changes nothing and says so.
//! - **Numbered.** The store allocates a section's traversal number; numbers only grow. At most one traversal of a
//!   section is open; a stale writer (lower number or attempt) is refused.
//! - **Derived.** Counts in a [`SectionReport`] are counted from the records when the traversal closes.
//! - **Never deletes by mistake.** Only a complete traversal of the whole section sweeps, and only under the guard; in an
//!   incremental run too, if its answers say that they were the whole ([`TaskEffects::reading`]). Complete: every task of the
//!   section settled without failure, no limit cut it short, and no fewer records than the server's own total, which did
//!   not shrink unexplained.
//! - **Flat.** Memory does not grow with the number of records.
//!
//! An unchanged record only gets this traversal's mark. A deleted one leaves a tombstone, so that an old writer can't
//! bring it back and the change feed can name it.

mod engine;
mod error;
pub mod files;
mod judge;
pub mod landing;
pub mod memory;
mod node;
pub mod redis;
mod section;
mod spending;
mod tally;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use self::error::StoreError;
pub use self::node::{NodeOutcome, NodeReading, NodeState};
pub use self::section::{FailedTask, ReadAs, ReadMode, SectionReport, SectionState};
pub use self::spending::Spending;
use crate::finding::{Checkpoint, Forgiven, Limited, Reading, Rejected, Validators};
pub use crate::flow::ClosedOrigin;
use crate::record::ContentHash;
use crate::task::{CatalogName, NodeName, RunId, SectionKey, Task, TaskId};

/// The store. See the module's contract.
#[async_trait]
pub trait Store: Send + Sync + std::fmt::Debug {
    /// The run of this Catalog that was begun and not finished, if any.
    async fn unfinished_run(&self, catalog: &CatalogName) -> Result<Option<RunState>, StoreError>;

    /// Begins a run and gives it the Catalog's next number. Fails while another is unfinished.
    async fn begin_run(&self, start: RunStart) -> Result<RunState, StoreError>;

    /// Records tasks as pending, so that they can be handed out again after a crash. Known ones are left.
    async fn seed(&self, run: &RunId, tasks: &[Task]) -> Result<(), StoreError>;

    /// Tasks that are not settled, in the order of their ids, after `after`; at most `limit`.
    async fn pending_tasks(&self, run: &RunId, after: Option<TaskId>, limit: usize) -> Result<Vec<Task>, StoreError>;

    /// Starts (or goes on with) this run's traversal of a section. The number stays when a run is resumed; the attempt
    /// is raised once by each session: a process that has the store open, or whoever shares the session of one
    /// ([`redis::Session`]). Crawlers of other processes come to the store through that one ([`landing`]) or in its session, so all
    /// crawlers of a run work on one attempt, and a process that is gone is fenced.
    async fn open_traversal(&self, run: &RunId, section: &SectionKey) -> Result<Opened, StoreError>;

    /// Makes a task's effects durable, in one step, with what they cost its node. Feedback of kind `Page` for this section that the run knows already is a
    /// page link that leads back: the traversal gets [`Limited::RepeatedPage`], which is excused at the close if the
    /// server gave a total and no fewer records were seen. [`Committed::pending`] is 0 when the section has no task left:
    /// the traversal is then closed, in the same step if [`TaskEffects::close_when_drained`] says how.
    ///
    /// Before records of a list of several pages are swept, it is looked at a second time, once per traversal: what moved to
    /// a page that had been read already was missed, and nothing tells. [`Committed::look_again`] begins that.
    async fn commit(&self, traversal: &Traversal, effects: TaskEffects) -> Result<Committed, StoreError>;

    /// Ends a traversal: judges completeness, sweeps under the guard, counts. Closing a closed one returns its report.
    async fn close_traversal(&self, traversal: &Traversal, close: CloseTraversal) -> Result<SectionReport, StoreError>;

    /// Sections of a node that had records, that no parent listed in this run, and whose parents were all complete, count
    /// as empty: sweeps them, under the guard.
    async fn sweep_unlisted(
        &self,
        run: &RunId,
        node: &NodeName,
        close: CloseTraversal,
    ) -> Result<Vec<SectionReport>, StoreError>;

    /// A node that the Catalog no longer selects: deletes its records, under the guard.
    async fn sweep_removed_node(
        &self,
        run: &RunId,
        node: &NodeName,
        close: CloseTraversal,
    ) -> Result<Vec<SectionReport>, StoreError>;

    /// A node of which nothing could be read for longer than its records are kept: deletes them, under the guard. What is
    /// remembered of the node stays.
    async fn sweep_expired_node(
        &self,
        run: &RunId,
        node: &NodeName,
        close: CloseTraversal,
    ) -> Result<Vec<SectionReport>, StoreError>;

    /// Remembers how a node fared in this run. Said again in the same run, it takes the place of what was said before.
    async fn record_node(&self, run: &RunId, node: &NodeName, outcome: NodeOutcome) -> Result<(), StoreError>;

    /// Closes every traversal of the run that is still open, as partial, for the reason in `close.cut_short`. A section
    /// that has pending tasks and was never opened is reported as partial too.
    async fn cut_short(&self, run: &RunId, close: CloseTraversal) -> Result<(), StoreError>;

    /// The reports of all traversals that this run has closed (sweeps of unlisted sections and removed nodes too), in
    /// order of their sections.
    async fn reports(&self, run: &RunId) -> Result<Vec<SectionReport>, StoreError>;

    /// Ends the run; traversals still open are closed as partial. `report` is kept as it is.
    async fn finish_run(&self, run: &RunId, report: &str) -> Result<(), StoreError>;

    /// Marks that requests may be sent from now on, by any run of any Catalog. Returns whether that was marked already:
    /// then the process before ended without [`Store::end_spending`], and requests that it sent last may not be counted.
    async fn begin_spending(&self, now: Timestamp) -> Result<bool, StoreError>;

    /// Counts what was spent without an effect: tries that failed. What tasks cost is counted when they are committed.
    async fn spend(&self, spendings: Vec<Spending>) -> Result<(), StoreError>;

    /// What was spent after a moment, in the order of time, for all Catalogs. What is older than 31 days is forgotten.
    async fn spendings(&self, after: Timestamp) -> Result<Vec<Spending>, StoreError>;

    /// Marks that no request is under way and none will be sent.
    async fn end_spending(&self) -> Result<(), StoreError>;

    /// Remembers that origins are to be left alone, each until the latest moment that was said of it. Of more than
    /// [`MAX_CLOSED_ORIGINS`] those whose back-off ends first are forgotten.
    async fn close_origins(&self, closed: Vec<ClosedOrigin>) -> Result<(), StoreError>;

    /// Origins that are to be left alone after `now`, in the order of their keys. What has passed is forgotten, and nothing
    /// is remembered for longer than until `latest`: a clock that was wrong closes no origin for ever.
    async fn closed_origins(&self, now: Timestamp, latest: Timestamp) -> Result<Vec<ClosedOrigin>, StoreError>;

    /// Every node that the store knows of this Catalog, with what is remembered.
    async fn nodes(&self, catalog: &CatalogName) -> Result<BTreeMap<NodeName, NodeState>, StoreError>;

    /// Every section that the store knows of a node.
    async fn sections(&self, catalog: &CatalogName, node: &NodeName) -> Result<Vec<SectionState>, StoreError>;

    /// Live records in the order of their keys, after `after`; at most `limit`.
    async fn records(
        &self,
        catalog: &CatalogName,
        filter: &RecordFilter,
        after: Option<&RecordKey>,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, StoreError>;

    /// One live record.
    async fn get(&self, catalog: &CatalogName, key: &RecordKey) -> Result<Option<StoredRecord>, StoreError>;

    /// The change feed: entries with a sequence above `after`, in order; at most `limit`.
    async fn changes(&self, catalog: &CatalogName, after: u64, limit: usize) -> Result<Vec<Change>, StoreError>;

    /// Reclaims space of what is no longer live. Atomic: a crash leaves the old state or the new one.
    async fn compact(&self) -> Result<(), StoreError>;
}

/// So many origins that are to be left alone are remembered.
pub const MAX_CLOSED_ORIGINS: usize = 1 << 16;

/// A shared store.
pub type SharedStore = Arc<dyn Store>;

/// A run about to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunStart {
    /// Whose.
    pub catalog: CatalogName,
    /// Looks at everything, or at what changed.
    pub mode: Mode,
    /// The manifests it was started with, as JSON: what a resumed run goes on with.
    pub spec: String,
    /// When.
    pub started_at: Timestamp,
}

/// A run that the store knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunState {
    /// Its id: `<catalog>-<number>`.
    pub run: RunId,
    /// Its number in its Catalog, from 1.
    pub number: u64,
    /// Whose.
    pub catalog: CatalogName,
    /// Looks at everything, or at what changed.
    pub mode: Mode,
    /// The manifests it was started with, as JSON.
    pub spec: String,
    /// When it began.
    pub started_at: Timestamp,
}

/// How much a run looks at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Everything.
    #[default]
    Full,
    /// What the source says has changed.
    Incremental,
}

/// What opening a traversal came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Opened {
    /// It is this run's.
    Open {
        /// The traversal.
        traversal: Traversal,
        /// What the last complete traversal left for a conditional request, if it was a single document.
        validators: Option<Validators>,
        /// What an incremental traversal may start from.
        checkpoint: Option<Checkpoint>,
        /// What the traversal has come to: above zero if the run is resumed.
        so_far: SoFar,
    },
    /// Another run has it open: skip the section, and say so.
    HeldBy {
        /// That run.
        run: RunId,
    },
    /// This run has closed it.
    Closed {
        /// Its report.
        report: Box<SectionReport>,
    },
}

/// What a traversal under way has come to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoFar {
    /// Distinct records seen.
    pub records: u64,
    /// Requests sent.
    pub requests: u64,
    /// Decoded bytes received.
    pub bytes: u64,
    /// The server's own number of records, if it gave one.
    pub total: Option<u64>,
}

/// A traversal under way, as its writer presents it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Traversal {
    /// The run.
    pub run: RunId,
    /// The section.
    pub section: SectionKey,
    /// For sweeping: grows with every traversal of the section.
    pub number: u64,
    /// The fence: grows with every process that opens it.
    pub attempt: u64,
}

/// Everything that follows from one task.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TaskEffects {
    /// The task.
    pub task: TaskId,
    /// How it ended.
    pub result: TaskResult,
    /// Records found.
    pub records: Vec<RecordWrite>,
    /// Records that the source says are deleted.
    pub deleted_ids: Vec<String>,
    /// Tasks that follow, of this section or of nested ones.
    pub feedback: Vec<Task>,
    /// Nested sections listed, followed or not.
    pub listed_sections: Vec<SectionKey>,
    /// A limit that was reached.
    pub limited: Option<Limited>,
    /// The server's own number of records.
    pub total: Option<u64>,
    /// A total below the one before hides nothing: what may have slipped by is read again.
    pub heeds_total: bool,
    /// Faults forgiven.
    pub forgiven: BTreeMap<Forgiven, u64>,
    /// Records that could not be read; the first hundred of a traversal are kept, all are counted.
    pub rejected: Vec<Rejected>,
    /// How much of the section the answer speaks for; `None`: it listed no records.
    pub reading: Option<Reading>,
    /// For the next incremental traversal; takes effect when this one closes complete. If none was given by then, there is
    /// none any more, unless the document was not modified.
    pub checkpoint: Option<Checkpoint>,
    /// For the next conditional request; takes effect when this traversal closes complete and only this task listed records.
    pub validators: Option<Validators>,
    /// Requests sent for it, with those of tries that failed.
    pub requests: u64,
    /// What the requests of this try cost in calls. Tries that failed were counted when they did ([`Store::spend`]).
    pub calls: u64,
    /// When.
    pub at: Timestamp,
    /// Decoded bytes received for it.
    pub bytes: u64,
    /// The protocol spoken.
    pub protocol: String,
    /// Closes the traversal in the same step, if this was its last task.
    pub close_when_drained: Option<CloseTraversal>,
}

/// How a task ended, for the store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskResult {
    /// Done.
    #[default]
    Done,
    /// The document has not changed since the last complete traversal: all of the section's records, and the nested
    /// sections it listed, count as seen.
    NotModified,
    /// Given up.
    Failed(FailedTask),
    /// Not wanted any more, because of `limited`.
    Dropped,
}

/// A record to be kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RecordWrite {
    /// Its id in the section.
    pub id: String,
    /// Decides between unchanged and updated.
    pub hash: ContentHash,
    /// The line of `records.jsonl`, without line feed. Written only if the record is new or changed.
    pub payload: Bytes,
}

/// What a commit did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committed {
    /// Records not known before.
    pub added: u64,
    /// Records with another hash than before.
    pub updated: u64,
    /// Records with the same hash as before.
    pub unchanged: u64,
    /// Records that this traversal had seen before.
    pub repeated: u64,
    /// Tasks of this section that are not settled; 0: close it.
    pub pending: u64,
    /// Records that this traversal has seen so far.
    pub seen: u64,
    /// Decoded bytes that this traversal has received so far.
    pub bytes: u64,
    /// The task had been settled before; nothing was changed.
    pub already_settled: bool,
    /// The traversal is closed.
    pub closed: bool,
    /// Of the feedback, the tasks that the run has settled: nobody need do them again.
    pub settled_feedback: Vec<TaskId>,
    /// The task had been settled before, and this followed from it then, as far as the process that holds the store
    /// remembers: what follows from it now may be something else, which nobody waits for.
    pub followed: Option<Vec<Task>>,
    /// It was not closed: this task, which is pending now, begins a second look at the section.
    pub look_again: Option<Task>,
}

/// How a traversal is to be closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloseTraversal {
    /// Set if the run ended before the traversal did: it is partial, for this reason.
    pub cut_short: Option<String>,
    /// The mass-deletion guard.
    pub guard: DeletionGuard,
    /// Held sweeps that a person approved.
    pub approved: Vec<(SectionKey, u64)>,
    /// When.
    pub at: Timestamp,
}

/// The mass-deletion guard: a sweep of more than `max_percent` of a section's records is held, if it has at least
/// `min_records`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletionGuard {
    /// Percent of the section's records before the traversal.
    pub max_percent: u32,
    /// Smaller sections are swept without guard.
    pub min_records: u64,
}

/// A record's key inside a Catalog. Ordered by node, section, id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordKey {
    /// The section.
    #[serde(flatten)]
    pub section: SectionKey,
    /// The dataset's id.
    pub id: String,
}

/// Which records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordFilter {
    /// Only of this node.
    pub node: Option<NodeName>,
    /// Only those whose traversal changed them last in this run (added or updated).
    pub changed_in: Option<RunId>,
}

/// A record as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    /// Its key.
    pub key: RecordKey,
    /// Its content's hash.
    pub hash: ContentHash,
    /// The hash before this content, if it was updated.
    pub previous_hash: Option<ContentHash>,
    /// The traversal that first saw it.
    pub first_seen: u64,
    /// The traversal that last saw it.
    pub last_seen: u64,
    /// The traversal that last changed it.
    pub changed_in: u64,
    /// The line of `records.jsonl`.
    pub payload: Bytes,
}

/// An entry of the change feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The cursor: grows with every entry.
    pub sequence: u64,
    /// What happened.
    pub kind: ChangeKind,
    /// To which record.
    #[serde(flatten)]
    pub key: RecordKey,
    /// In which run.
    pub run: RunId,
}

/// What happened to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// Its content changed.
    Updated,
    /// It is gone.
    Deleted,
}
