//! The store's port over steps.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;

use super::super::engine::{close, commit, nodes, origins, read, runs, spending};
use super::super::{
    Change, CloseTraversal, ClosedOrigin, Committed, NodeOutcome, NodeState, Opened, RecordFilter, RecordKey, RunStart,
    RunState, SectionReport, SectionState, Spending, Store, StoreError, StoredRecord, TaskEffects, Traversal,
};
use super::RedisStore;
use crate::task::{CatalogName, NodeName, RunId, SectionKey, Task, TaskId};

/// Tasks are recorded in portions: each is known or not for itself.
const TASKS_AT_ONCE: usize = 100;

#[async_trait]
impl Store for RedisStore {
    async fn unfinished_run(&self, catalog: &CatalogName) -> Result<Option<RunState>, StoreError> {
        let catalog = catalog.clone();
        self.step(None, move |tables| runs::unfinished_run(tables, &catalog)).await
    }

    async fn begin_run(&self, start: RunStart) -> Result<RunState, StoreError> {
        self.step(None, move |tables| runs::begin_run(tables, start.clone())).await
    }

    async fn seed(&self, run: &RunId, tasks: &[Task]) -> Result<(), StoreError> {
        // Without any, it is still to be said if there is no such run.
        let portions = tasks.chunks(TASKS_AT_ONCE).chain(tasks.is_empty().then_some(tasks));
        for portion in portions {
            let (id, portion) = (run.clone(), portion.to_vec());
            self.step(Some(run), move |tables| {
                tables.prefetch_seed(&id, &portion)?;
                runs::seed(tables, &id, &portion)
            })
            .await?;
        }
        Ok(())
    }

    async fn pending_tasks(&self, run: &RunId, after: Option<TaskId>, limit: usize) -> Result<Vec<Task>, StoreError> {
        let run = run.clone();
        self.step(None, move |tables| runs::pending_tasks(tables, &run, after, limit)).await
    }

    async fn open_traversal(&self, run: &RunId, section: &SectionKey) -> Result<Opened, StoreError> {
        let _others_wait = self.stripe(section).await;
        let (id, section, known) = (run.clone(), section.clone(), self.known.clone());
        self.step(Some(run), move |tables| {
            tables.prefetch_traversal(&known, &id, &section)?;
            commit::open_traversal(tables, &id, &section)
        })
        .await
    }

    async fn commit(&self, traversal: &Traversal, effects: TaskEffects) -> Result<Committed, StoreError> {
        let _others_wait = self.stripe(&traversal.section).await;
        let (run, traversal, known) = (traversal.run.clone(), traversal.clone(), self.known.clone());
        self.step(Some(&run), move |tables| {
            tables.prefetch_commit(&known, &traversal, &effects, Vec::new())?;
            commit::commit(tables, &traversal, effects.clone())
        })
        .await
    }

    async fn close_traversal(&self, traversal: &Traversal, close: CloseTraversal) -> Result<SectionReport, StoreError> {
        let _others_wait = self.stripe(&traversal.section).await;
        let (run, traversal, known) = (traversal.run.clone(), traversal.clone(), self.known.clone());
        self.step(Some(&run), move |tables| {
            tables.may_exceed_memory();
            tables.prefetch_traversal(&known, &traversal.run, &traversal.section)?;
            close::close_traversal(tables, &traversal, &close)
        })
        .await
    }

    async fn sweep_unlisted(
        &self,
        run: &RunId,
        node: &NodeName,
        close: CloseTraversal,
    ) -> Result<Vec<SectionReport>, StoreError> {
        let (id, node) = (run.clone(), node.clone());
        self.step(Some(run), move |tables| {
            tables.may_exceed_memory();
            close::sweep_unlisted(tables, &id, &node, &close)
        })
        .await
    }

    async fn sweep_removed_node(
        &self,
        run: &RunId,
        node: &NodeName,
        close: CloseTraversal,
    ) -> Result<Vec<SectionReport>, StoreError> {
        let (id, node) = (run.clone(), node.clone());
        self.step(Some(run), move |tables| {
            tables.may_exceed_memory();
            nodes::sweep_removed_node(tables, &id, &node, &close)
        })
        .await
    }

    async fn sweep_expired_node(
        &self,
        run: &RunId,
        node: &NodeName,
        close: CloseTraversal,
    ) -> Result<Vec<SectionReport>, StoreError> {
        let (id, node) = (run.clone(), node.clone());
        self.step(Some(run), move |tables| {
            tables.may_exceed_memory();
            nodes::sweep_expired_node(tables, &id, &node, &close)
        })
        .await
    }

    async fn record_node(&self, run: &RunId, node: &NodeName, outcome: NodeOutcome) -> Result<(), StoreError> {
        let (id, node) = (run.clone(), node.clone());
        self.step(Some(run), move |tables| nodes::record_node(tables, &id, &node, &outcome)).await
    }

    async fn cut_short(&self, run: &RunId, close: CloseTraversal) -> Result<(), StoreError> {
        let id = run.clone();
        self.step(Some(run), move |tables| {
            tables.may_exceed_memory();
            close::cut_short(tables, &id, &close)
        })
        .await
    }

    async fn reports(&self, run: &RunId) -> Result<Vec<SectionReport>, StoreError> {
        let run = run.clone();
        self.step(None, move |tables| close::reports(tables, &run)).await
    }

    async fn finish_run(&self, run: &RunId, report: &str) -> Result<(), StoreError> {
        let (id, report) = (run.clone(), report.to_owned());
        self.step(Some(run), move |tables| {
            tables.may_exceed_memory();
            runs::finish_run(tables, &id, &report)?;
            tables.forget_run(&id);
            Ok(())
        })
        .await
    }

    async fn begin_spending(&self, now: Timestamp) -> Result<bool, StoreError> {
        self.step(None, move |tables| spending::begin_spending(tables, now)).await
    }

    async fn spend(&self, spendings: Vec<Spending>) -> Result<(), StoreError> {
        self.step(None, move |tables| spending::spend(tables, &spendings)).await
    }

    async fn spendings(&self, after: Timestamp) -> Result<Vec<Spending>, StoreError> {
        self.step(None, move |tables| spending::spendings(tables, after)).await
    }

    async fn end_spending(&self) -> Result<(), StoreError> {
        self.step(None, spending::end_spending).await
    }

    async fn close_origins(&self, closed: Vec<ClosedOrigin>) -> Result<(), StoreError> {
        self.step(None, move |tables| origins::close_origins(tables, &closed)).await
    }

    async fn closed_origins(&self, now: Timestamp, latest: Timestamp) -> Result<Vec<ClosedOrigin>, StoreError> {
        self.step(None, move |tables| origins::closed_origins(tables, now, latest)).await
    }

    async fn nodes(&self, catalog: &CatalogName) -> Result<BTreeMap<NodeName, NodeState>, StoreError> {
        let catalog = catalog.clone();
        self.step(None, move |tables| read::nodes(tables, &catalog)).await
    }

    async fn sections(&self, catalog: &CatalogName, node: &NodeName) -> Result<Vec<SectionState>, StoreError> {
        let (catalog, node) = (catalog.clone(), node.clone());
        self.step(None, move |tables| read::sections(tables, &catalog, &node)).await
    }

    async fn records(
        &self,
        catalog: &CatalogName,
        filter: &RecordFilter,
        after: Option<&RecordKey>,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, StoreError> {
        let (catalog, filter, after) = (catalog.clone(), filter.clone(), after.cloned());
        self.step(None, move |tables| {
            tables.with_payloads(read::records(tables, &catalog, &filter, after.as_ref(), limit)?)
        })
        .await
    }

    async fn get(&self, catalog: &CatalogName, key: &RecordKey) -> Result<Option<StoredRecord>, StoreError> {
        let (catalog, key) = (catalog.clone(), key.clone());
        self.step(None, move |tables| {
            let found = read::get(tables, &catalog, &key)?;
            Ok(tables.with_payloads(found.into_iter().collect())?.pop())
        })
        .await
    }

    async fn changes(&self, catalog: &CatalogName, after: u64, limit: usize) -> Result<Vec<Change>, StoreError> {
        let catalog = catalog.clone();
        self.step(None, move |tables| read::changes(tables, &catalog, after, limit)).await
    }

    async fn compact(&self) -> Result<(), StoreError> {
        // A payload goes with what referred to it.
        Ok(())
    }
}
