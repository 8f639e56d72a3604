//! The steps of the store that close a run's books.

use std::collections::BTreeMap;
use std::future::ready;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use tracing::warn;

use super::health::{expired_nodes, proves_absence, reading_of};
use super::{RunError, RunInput};
use crate::clock::Clock;
use crate::planner::{SkippedNode, Verdict, spec_hash};
use crate::queue::{DeadTask, MAX_DEAD_KEPT, Patience, Queue};
use crate::store::landing::Landing;
use crate::store::{
    CloseTraversal, DeletionGuard, FailedTask, NodeOutcome, NodeReading, Opened, RunState, SectionReport, Store,
    StoreError, TaskEffects, TaskResult,
};
use crate::task::{NodeName, SectionKey};

/// Steps of the store that are waited for together when the books are closed.
const STEPS_AT_A_TIME: usize = 64;

/// How long a queue that is not needed any more is tried.
pub(crate) const LAST_PATIENCE: Duration = Duration::from_secs(5);

/// What a run knows of its nodes when its books are closed, and what closes them.
#[derive(Debug)]
pub(crate) struct Books<'a> {
    pub(crate) input: &'a RunInput,
    pub(crate) state: &'a RunState,
    pub(crate) store: &'a dyn Store,
    /// Where what crawlers could not tell any more is told.
    pub(crate) landing: &'a dyn Landing,
    /// The queue, if others can reach it, too: it knows of tasks that were given up.
    pub(crate) queue: Option<&'a dyn Queue>,
    pub(crate) patience: &'a Patience,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) guard: DeletionGuard,
    pub(crate) approved: &'a [(SectionKey, u64)],
    /// The nodes that were crawled.
    pub(crate) crawled: &'a [NodeName],
    pub(crate) skipped: &'a [SkippedNode],
    /// The nodes that the Catalog no longer selects and whose records are to go.
    pub(crate) removed: &'a [NodeName],
    pub(crate) incremental: bool,
    pub(crate) verdict: Verdict,
}

impl Books<'_> {
    /// Sweeps what nobody lists any more, remembers how each node fared, and lets go of what has outlived its time.
    /// Returns the nodes whose records have.
    pub(crate) async fn close(&self) -> Result<Vec<NodeName>, RunError> {
        let (store, run) = (self.store, &self.state.run);
        let cut_short = match self.verdict {
            Verdict::Drained => None,
            Verdict::DeadlineExceeded => Some("the run's deadline passed".to_owned()),
            Verdict::Interrupted => Some("the run was interrupted".to_owned()),
        };
        let may_sweep = cut_short.is_none();
        self.bury_suspects().await?;
        let lost = if self.queue.is_some() {
            "a task was dropped from the queue by hand, or lost to a fault of this program"
        } else {
            "a task was lost to a fault of this program"
        };
        let unfinished = cut_short.unwrap_or_else(|| lost.to_owned());
        store.cut_short(run, self.close_request(Some(unfinished))).await?;
        if may_sweep {
            let sweep = |node| store.sweep_unlisted(run, node, self.close_request(None));
            at_a_time(self.crawled.iter().map(sweep)).await?;
        }
        for node in self.removed {
            store.sweep_removed_node(run, node, self.close_request(None)).await?;
        }
        let unread = self.remember_nodes().await?;
        let known = store.nodes(&self.state.catalog).await?;
        let mut expired = expired_nodes(&unread, &known, &self.input.catalog.spec.deletion);
        // Only a full run deletes by what could not be seen.
        expired.retain(|_| may_sweep && !self.incremental);
        for node in &expired {
            store.sweep_expired_node(run, node, self.close_request(None)).await?;
        }
        Ok(expired)
    }

    fn close_request(&self, cut_short: Option<String>) -> CloseTraversal {
        CloseTraversal { cut_short, guard: self.guard, approved: self.approved.to_vec(), at: self.clock.now() }
    }

    /// Tasks that took one crawler after the other with them were given up by the queue; the store is told why.
    async fn bury_suspects(&self) -> Result<(), RunError> {
        let Some(queue) = self.queue else { return Ok(()) };
        let (run, landing) = (&self.state.run, self.landing);
        let dead = match self.patience.at_most(LAST_PATIENCE).with(|| queue.dead(run, MAX_DEAD_KEPT)).await {
            Ok(dead) => dead,
            Err(error) => {
                warn!(run = %run, "why tasks were given up is not known: {error}");
                return Ok(());
            }
        };
        for dead in dead {
            let DeadTask { task, charges, mut history, .. } = dead;
            let Some(last) = history.pop().filter(|_| charges > 0) else { continue };
            let Opened::Open { traversal, .. } = landing.open_traversal(run, &task.section).await? else { continue };
            let (kind, page) = (task.kind, task.page);
            // No answer of a server should make a crawler crash.
            let failed = FailedTask { kind, page, why: last.why, earlier: history, may_be_ours: true };
            let effects = TaskEffects {
                task: task.id,
                result: TaskResult::Failed(failed),
                at: last.at,
                close_when_drained: Some(self.close_request(None)),
                ..TaskEffects::default()
            };
            landing.commit(&traversal, effects).await?;
        }
        Ok(())
    }

    /// Remembers how each node fared. Returns those that can't be read by their own fault: tried in vain in this run, or
    /// left alone because of the runs before. None, if this run proves nothing.
    async fn remember_nodes(&self) -> Result<Vec<NodeName>, RunError> {
        let store = self.store;
        let reports = store.reports(&self.state.run).await?;
        let mut sections: BTreeMap<&NodeName, Vec<&SectionReport>> = BTreeMap::new();
        for report in &reports {
            sections.entry(&report.section.node).or_default().push(report);
        }
        let at = self.clock.now();
        let by_name = self.input.nodes_by_name();
        let mut readings = Vec::new();
        for name in self.crawled {
            let of_node = sections.get(name).map(Vec::as_slice).unwrap_or_default();
            let (Some(reading), Some(node)) = (reading_of(of_node), by_name.get(name.as_str())) else { continue };
            readings.push((name, *node, reading));
        }
        let proves_absence = proves_absence(self.input, readings.iter().map(|(_, _, reading)| *reading));
        let steps = readings.iter().map(|&(name, node, reading)| {
            let is_inconclusive = reading == NodeReading::Nothing && !proves_absence;
            let reading = if is_inconclusive { NodeReading::Inconclusive } else { reading };
            let outcome = NodeOutcome { reading, spec_hash: spec_hash(&node.spec), at };
            store.record_node(&self.state.run, name, outcome)
        });
        at_a_time(steps).await?;
        if !proves_absence {
            return Ok(Vec::new());
        }
        let in_vain =
            readings.iter().filter(|(_, _, reading)| *reading == NodeReading::Nothing).map(|(name, ..)| *name);
        let left_alone = self.skipped.iter().filter(|skipped| skipped.reason.is_outage()).map(|skipped| &skipped.node);
        Ok(in_vain.chain(left_alone).cloned().collect())
    }
}

/// Waits for many small steps of the store, several at a time and in their order: the store makes them durable together.
async fn at_a_time<T>(
    steps: impl Iterator<Item = impl Future<Output = Result<T, StoreError>>>,
) -> Result<(), StoreError> {
    stream::iter(steps).buffered(STEPS_AT_A_TIME).try_for_each(|_| ready(Ok(()))).await
}
