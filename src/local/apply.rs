//! Carrying out a plan's steps: the only place of local mode that changes anything.

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::LocalError;
use super::health::{expired_nodes, proves_absence, reading_of};
use super::observe::RunInput;
use crate::crawler::{CrawlContext, CrawlEnd, Crawler, CrawlerError};
use crate::planner::{ExecutionPlan, SkippedNode, Step, Verdict, spec_hash};
use crate::queue::{ReleaseCause, RunConfig};
use crate::store::{NodeOutcome, NodeReading, RunState, SectionReport, StoreError};
use crate::task::{NodeName, Task};

/// Steps of the store that are waited for together when the books are closed.
const STEPS_AT_A_TIME: usize = 64;

/// How many tasks are read from the store at a time when a run is resumed.
const RESUME_BATCH: usize = 10_000;

/// The crawlers of a run, and what they share.
#[derive(Debug)]
pub(super) struct Crew {
    context: Arc<CrawlContext>,
    state: RunState,
    resumed: bool,
    stop: CancellationToken,
    lease: std::time::Duration,
    crawlers: JoinSet<(u32, Result<CrawlEnd, CrawlerError>)>,
    running: BTreeSet<u32>,
    /// Nodes that could not be started, each with a sentence.
    pub(super) problems: BTreeMap<NodeName, String>,
    pub(super) opened: bool,
}

impl Crew {
    pub(super) fn new(
        context: Arc<CrawlContext>,
        state: RunState,
        resumed: bool,
        problems: BTreeMap<NodeName, String>,
    ) -> Self {
        Self {
            context,
            state,
            resumed,
            stop: CancellationToken::new(),
            lease: std::time::Duration::from_mins(1),
            crawlers: JoinSet::new(),
            running: BTreeSet::new(),
            problems,
            opened: false,
        }
    }

    pub(super) fn running_tokens(&self) -> BTreeSet<u32> {
        self.running.clone()
    }

    /// Carries out a plan. Returns how the run ended, if the plan says that it has.
    pub(super) async fn apply(&mut self, plan: &ExecutionPlan) -> Result<Option<Verdict>, LocalError> {
        for step in &plan.steps {
            match step {
                Step::OpenQueue { config } => self.open_queue(config).await?,
                Step::SeedNodes { nodes } => self.seed(nodes).await?,
                Step::Freeze => self.context.queue.freeze(&self.state.run).await?,
                Step::Thaw => self.context.queue.thaw(&self.state.run).await?,
                Step::StartCrawler { token, group } => self.start_crawler(*token, group.clone()),
                Step::StopCrawlers => self.stop.cancel(),
                Step::FinishRun { verdict } => return Ok(Some(*verdict)),
            }
        }
        Ok(None)
    }

    async fn open_queue(&mut self, config: &RunConfig) -> Result<(), LocalError> {
        self.lease = config.lease;
        self.context.queue.open(config.clone()).await?;
        self.opened = true;
        Ok(())
    }

    /// A new run starts with the root of each node; a resumed one with the tasks that were not settled. That it was
    /// killed before its roots were recorded is possible too, so they are recorded in any case: known ones are left.
    async fn seed(&mut self, nodes: &[NodeName]) -> Result<(), LocalError> {
        let mut tasks: Vec<Task> = Vec::with_capacity(nodes.len());
        for name in nodes {
            let Some(node) = self.context.nodes.get(name) else { continue };
            match node.reader.root_task(&node.context) {
                Ok(task) => tasks.push(task),
                Err(error) => {
                    info!(node = %name, "node can't be started: {error}");
                    self.problems.insert(name.clone(), error.to_string());
                }
            }
        }
        self.context.store.seed(&self.state.run, &tasks).await?;
        if !self.resumed {
            self.context.queue.push(&self.state.run, tasks).await?;
            return Ok(());
        }
        let mut after = None;
        loop {
            let tasks = self.context.store.pending_tasks(&self.state.run, after, RESUME_BATCH).await?;
            let Some(last) = tasks.last() else { return Ok(()) };
            after = Some(last.id);
            self.context.queue.push(&self.state.run, tasks).await?;
        }
    }

    fn start_crawler(&mut self, token: u32, group: String) {
        let crawler = Crawler::new(self.context.clone(), self.lease, self.stop.clone());
        let uid = format!("{}-{token}", self.state.run);
        self.running.insert(token);
        self.crawlers.spawn(async move { (token, crawler.run(token, uid, group).await) });
    }

    /// Waits until a crawler ends, and frees its token. Pends while none runs.
    pub(super) async fn crawler_ended(&mut self) -> Result<(), LocalError> {
        let Some(ended) = self.crawlers.join_next().await else {
            return std::future::pending().await;
        };
        match ended {
            Ok((token, end)) => {
                self.running.remove(&token);
                self.context.queue.release_holder(&self.state.run, token, ReleaseCause::Finished).await?;
                end?;
            }
            Err(error) => {
                // Which one it was is not known: all of them are taken as crashed but those still running.
                warn!("a crawler ended by a fault of this program: {error}");
                for token in std::mem::take(&mut self.running) {
                    self.context.queue.release_holder(&self.state.run, token, ReleaseCause::Crashed).await?;
                }
                self.crawlers.shutdown().await;
            }
        }
        Ok(())
    }

    /// Sweeps what nobody lists any more, remembers how each node fared, and lets go of what has outlived its time.
    /// Returns the nodes whose records have.
    pub(super) async fn close_books(&self, books: &Books<'_>) -> Result<Vec<NodeName>, LocalError> {
        let (store, run) = (&self.context.store, &self.state.run);
        let cut_short = match books.verdict {
            Verdict::Drained => None,
            Verdict::DeadlineExceeded => Some("the run's deadline passed".to_owned()),
            Verdict::Interrupted => Some("the run was interrupted".to_owned()),
        };
        let may_sweep = cut_short.is_none();
        let unfinished = cut_short.unwrap_or_else(|| "a task was lost to a fault of this program".to_owned());
        store.cut_short(run, self.context.close_request(Some(unfinished))).await?;
        if may_sweep {
            let sweep = |node| store.sweep_unlisted(run, node, self.context.close_request(None));
            at_a_time(books.crawled.iter().map(sweep)).await?;
        }
        for node in books.removed {
            store.sweep_removed_node(run, node, self.context.close_request(None)).await?;
        }
        let unread = self.remember_nodes(books).await?;
        let known = store.nodes(&self.state.catalog).await?;
        let mut expired = expired_nodes(&unread, &known, &books.input.catalog.spec.deletion);
        // Only a full run deletes by what could not be seen.
        expired.retain(|_| may_sweep && !self.context.incremental);
        for node in &expired {
            store.sweep_expired_node(run, node, self.context.close_request(None)).await?;
        }
        self.context.queue.close(run).await?;
        Ok(expired)
    }

    /// Remembers how each node fared. Returns those that can't be read by their own fault: tried in vain in this run, or
    /// left alone because of the runs before. None, if this run proves nothing.
    async fn remember_nodes(&self, books: &Books<'_>) -> Result<Vec<NodeName>, LocalError> {
        let store = &self.context.store;
        let reports = store.reports(&self.state.run).await?;
        let mut sections: BTreeMap<&NodeName, Vec<&SectionReport>> = BTreeMap::new();
        for report in &reports {
            sections.entry(&report.section.node).or_default().push(report);
        }
        let at = self.context.clock.now();
        let by_name = books.input.nodes_by_name();
        let mut readings = Vec::new();
        for name in books.crawled {
            let of_node = sections.get(name).map(Vec::as_slice).unwrap_or_default();
            let (Some(reading), Some(node)) = (reading_of(of_node), by_name.get(name.as_str())) else { continue };
            readings.push((name, *node, reading));
        }
        let proves_absence = proves_absence(books.input, readings.iter().map(|(_, _, reading)| *reading));
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
        let left_alone = books.skipped.iter().filter(|skipped| skipped.reason.is_outage()).map(|skipped| &skipped.node);
        Ok(in_vain.chain(left_alone).cloned().collect())
    }
}

/// Waits for many small steps of the store, several at a time and in their order: the store makes them durable together.
async fn at_a_time<T>(
    steps: impl Iterator<Item = impl Future<Output = Result<T, StoreError>>>,
) -> Result<(), StoreError> {
    stream::iter(steps).buffered(STEPS_AT_A_TIME).try_for_each(|_| ready(Ok(()))).await
}

/// What is known of a run's nodes when its books are closed.
#[derive(Debug)]
pub(super) struct Books<'a> {
    pub(super) input: &'a RunInput,
    /// The nodes that were crawled.
    pub(super) crawled: &'a [NodeName],
    pub(super) skipped: &'a [SkippedNode],
    /// The nodes that the Catalog no longer selects and whose records are to go.
    pub(super) removed: &'a [NodeName],
    pub(super) verdict: Verdict,
}
