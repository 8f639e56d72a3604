//! A store that stops the process in the middle of its work, or that is wrong on purpose.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use trawler::store::*;
use trawler::task::{CatalogName, NodeName, RunId, SectionKey, Task, TaskId};

use crate::history::KillPoint;
use crate::manifests::CATALOG;

/// A fault that the comparison with the model must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Defect {
    /// The first record of a page is not taken in.
    LosesARecord,
    /// A later page of a section is taken as read, and its records are not taken in.
    LosesAPage,
    /// What was seen for the first time is counted once more.
    CountsTwice,
    /// A record that is known is never updated.
    OverlooksUpdates,
    /// The change feed leaves out deletions.
    OmitsFromTheFeed,
    /// A request that failed counts as done, so what it would have given is swept.
    SweepsAfterFailure,
    /// No traversal is ever complete, so nothing is ever deleted.
    NeverSweeps,
    /// Deletions are made, however many.
    IgnoresTheGuard,
    /// A server's total is not believed.
    IgnoresTotals,
    /// A run that is resumed forgets what it had still to do.
    ForgetsPendingTasks,
    /// A section that is no longer listed stays for ever.
    KeepsUnlistedSections,
    /// An approval approves nothing.
    IgnoresApprovals,
    /// A payload is kept under another record's id.
    MixesPayloadsUp,
}

impl Defect {
    pub(crate) const ALL: [Self; 13] = [
        Self::LosesARecord,
        Self::LosesAPage,
        Self::CountsTwice,
        Self::OverlooksUpdates,
        Self::OmitsFromTheFeed,
        Self::SweepsAfterFailure,
        Self::NeverSweeps,
        Self::IgnoresTheGuard,
        Self::IgnoresTotals,
        Self::ForgetsPendingTasks,
        Self::KeepsUnlistedSections,
        Self::IgnoresApprovals,
        Self::MixesPayloadsUp,
    ];
}

/// A store that stops the process at a moment, and has a defect if it is told to.
#[derive(Debug)]
pub(crate) struct Tampered {
    pub(crate) store: SharedStore,
    pub(crate) kill_at: Option<KillPoint>,
    /// Cancelled when the process is to be killed.
    pub(crate) killed: CancellationToken,
    pub(crate) defect: Option<Defect>,
    pub(crate) writes: AtomicU32,
}

impl Tampered {
    /// Writes, unless the process is killed before or after.
    async fn write<T>(&self, write: impl Future<Output = T>) -> T {
        let number = self.writes.fetch_add(1, Ordering::SeqCst) + 1;
        if matches!(self.kill_at, Some(KillPoint::BeforeWrite(at)) if at == number) {
            self.die().await;
        }
        let written = write.await;
        if matches!(self.kill_at, Some(KillPoint::AfterWrite(at)) if at == number) {
            self.die().await;
        }
        written
    }

    /// Whoever called never hears of it.
    async fn die(&self) {
        self.killed.cancel();
        std::future::pending::<()>().await;
    }

    fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    fn tamper(&self, mut close: CloseTraversal) -> CloseTraversal {
        if self.has(Defect::IgnoresTheGuard) {
            close.guard = DeletionGuard { max_percent: 100, min_records: 0 };
        }
        if self.has(Defect::IgnoresApprovals) {
            close.approved.clear();
        }
        close
    }

    fn tamper_with_effects(&self, effects: &mut TaskEffects) {
        match self.defect {
            Some(Defect::LosesARecord) if !effects.records.is_empty() => drop(effects.records.remove(0)),
            Some(Defect::LosesAPage) if effects.feedback.is_empty() => effects.records.clear(),
            Some(Defect::MixesPayloadsUp) if effects.records.len() > 1 => {
                let (first, rest) = effects.records.split_at_mut(1);
                std::mem::swap(&mut first[0].payload, &mut rest[0].payload);
            }
            Some(Defect::SweepsAfterFailure) => effects.result = TaskResult::Done,
            Some(Defect::NeverSweeps) => effects.limited = Some(trawler::finding::Limited::MaxRecords),
            Some(Defect::IgnoresTotals) => effects.total = None,
            _ => {}
        }
        effects.close_when_drained = effects.close_when_drained.take().map(|close| self.tamper(close));
    }
}

impl Tampered {
    /// Gives every record that is known the content that it had.
    async fn restore_old_records(&self, traversal: &Traversal, effects: &mut TaskEffects) -> Result<(), StoreError> {
        for record in &mut effects.records {
            let key = RecordKey { section: traversal.section.clone(), id: record.id.clone() };
            if let Some(known) = self.store.get(&CATALOG.into(), &key).await? {
                (record.hash, record.payload) = (known.hash, known.payload);
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Store for Tampered {
    async fn unfinished_run(&self, catalog: &CatalogName) -> Result<Option<RunState>, StoreError> {
        self.store.unfinished_run(catalog).await
    }

    async fn begin_run(&self, start: RunStart) -> Result<RunState, StoreError> {
        self.write(self.store.begin_run(start)).await
    }

    async fn seed(&self, run: &RunId, tasks: &[Task]) -> Result<(), StoreError> {
        self.write(self.store.seed(run, tasks)).await
    }

    async fn pending_tasks(&self, run: &RunId, after: Option<TaskId>, limit: usize) -> Result<Vec<Task>, StoreError> {
        if self.has(Defect::ForgetsPendingTasks) {
            return Ok(Vec::new());
        }
        self.store.pending_tasks(run, after, limit).await
    }

    async fn open_traversal(&self, run: &RunId, section: &SectionKey) -> Result<Opened, StoreError> {
        self.write(self.store.open_traversal(run, section)).await
    }

    async fn commit(&self, traversal: &Traversal, mut effects: TaskEffects) -> Result<Committed, StoreError> {
        self.tamper_with_effects(&mut effects);
        if self.has(Defect::OverlooksUpdates) {
            self.restore_old_records(traversal, &mut effects).await?;
        }
        self.write(self.store.commit(traversal, effects)).await
    }

    async fn close_traversal(&self, traversal: &Traversal, close: CloseTraversal) -> Result<SectionReport, StoreError> {
        self.write(self.store.close_traversal(traversal, self.tamper(close))).await
    }

    async fn sweep_unlisted(
        &self,
        run: &RunId,
        node: &NodeName,
        close: CloseTraversal,
    ) -> Result<Vec<SectionReport>, StoreError> {
        if self.has(Defect::KeepsUnlistedSections) {
            return Ok(Vec::new());
        }
        self.write(self.store.sweep_unlisted(run, node, self.tamper(close))).await
    }

    async fn sweep_removed_node(
        &self,
        run: &RunId,
        node: &NodeName,
        close: CloseTraversal,
    ) -> Result<Vec<SectionReport>, StoreError> {
        self.write(self.store.sweep_removed_node(run, node, self.tamper(close))).await
    }

    async fn sweep_expired_node(
        &self,
        run: &RunId,
        node: &NodeName,
        close: CloseTraversal,
    ) -> Result<Vec<SectionReport>, StoreError> {
        self.write(self.store.sweep_expired_node(run, node, self.tamper(close))).await
    }

    async fn begin_spending(&self, now: Timestamp) -> Result<bool, StoreError> {
        self.write(self.store.begin_spending(now)).await
    }

    async fn spend(&self, spending: Vec<Spending>) -> Result<(), StoreError> {
        self.write(self.store.spend(spending)).await
    }

    async fn spendings(&self, after: Timestamp) -> Result<Vec<Spending>, StoreError> {
        self.store.spendings(after).await
    }

    async fn end_spending(&self) -> Result<(), StoreError> {
        self.write(self.store.end_spending()).await
    }

    async fn close_origins(&self, closed: Vec<ClosedOrigin>) -> Result<(), StoreError> {
        self.write(self.store.close_origins(closed)).await
    }

    async fn closed_origins(&self, now: Timestamp, latest: Timestamp) -> Result<Vec<ClosedOrigin>, StoreError> {
        self.write(self.store.closed_origins(now, latest)).await
    }

    async fn record_node(&self, run: &RunId, node: &NodeName, outcome: NodeOutcome) -> Result<(), StoreError> {
        self.write(self.store.record_node(run, node, outcome)).await
    }

    async fn cut_short(&self, run: &RunId, close: CloseTraversal) -> Result<(), StoreError> {
        self.write(self.store.cut_short(run, self.tamper(close))).await
    }

    async fn reports(&self, run: &RunId) -> Result<Vec<SectionReport>, StoreError> {
        let mut reports = self.store.reports(run).await?;
        if self.has(Defect::CountsTwice) {
            for report in reports.iter_mut().filter(|report| report.added > 0) {
                report.added += 1;
            }
        }
        Ok(reports)
    }

    async fn finish_run(&self, run: &RunId, report: &str) -> Result<(), StoreError> {
        self.write(self.store.finish_run(run, report)).await
    }

    async fn nodes(&self, catalog: &CatalogName) -> Result<BTreeMap<NodeName, NodeState>, StoreError> {
        self.store.nodes(catalog).await
    }

    async fn sections(&self, catalog: &CatalogName, node: &NodeName) -> Result<Vec<SectionState>, StoreError> {
        self.store.sections(catalog, node).await
    }

    async fn records(
        &self,
        catalog: &CatalogName,
        filter: &RecordFilter,
        after: Option<&RecordKey>,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, StoreError> {
        self.store.records(catalog, filter, after, limit).await
    }

    async fn get(&self, catalog: &CatalogName, key: &RecordKey) -> Result<Option<StoredRecord>, StoreError> {
        self.store.get(catalog, key).await
    }

    async fn changes(&self, catalog: &CatalogName, after: u64, limit: usize) -> Result<Vec<Change>, StoreError> {
        let mut changes = self.store.changes(catalog, after, limit).await?;
        if self.has(Defect::OmitsFromTheFeed) {
            changes.retain(|change| change.kind != ChangeKind::Deleted);
        }
        Ok(changes)
    }

    async fn compact(&self) -> Result<(), StoreError> {
        self.write(self.store.compact()).await
    }
}
