//! Carrying out a plan's steps: the only place of local mode that changes anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::LocalError;
use crate::crawler::{CrawlContext, CrawlEnd, Crawler, CrawlerError};
use crate::planner::{ExecutionPlan, Step, Verdict};
use crate::queue::{ReleaseCause, RunConfig};
use crate::store::{NodeOutcome, RunState};
use crate::task::{NodeName, Task};

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

    /// Sweeps what nobody lists any more and remembers how each node fared.
    pub(super) async fn close_books(
        &self,
        crawled: &[NodeName],
        removed: &[NodeName],
        verdict: Verdict,
    ) -> Result<(), LocalError> {
        let store = &self.context.store;
        let cut_short = match verdict {
            Verdict::Drained => None,
            Verdict::DeadlineExceeded => Some("the run's deadline passed".to_owned()),
            Verdict::Interrupted => Some("the run was interrupted".to_owned()),
        };
        let unfinished = cut_short.clone().unwrap_or_else(|| "a task was lost to a fault of this program".to_owned());
        store.cut_short(&self.state.run, self.context.close_request(Some(unfinished))).await?;
        let full = !self.context.incremental;
        if cut_short.is_none() && full {
            for node in crawled {
                store.sweep_unlisted(&self.state.run, node, self.context.close_request(None)).await?;
            }
        }
        for node in removed {
            store.sweep_removed_node(&self.state.run, node, self.context.close_request(None)).await?;
        }
        let mut complete: BTreeMap<&NodeName, bool> = crawled.iter().map(|node| (node, false)).collect();
        let reports = store.reports(&self.state.run).await?;
        for report in &reports {
            if let Some(complete) = complete.get_mut(&report.section.node) {
                *complete = true;
            }
        }
        for report in reports.iter().filter(|report| report.partial.is_some()) {
            if let Some(complete) = complete.get_mut(&report.section.node) {
                *complete = false;
            }
        }
        let at = self.context.clock.now();
        for (node, succeeded) in complete {
            store.record_node(&self.state.run, node, NodeOutcome { succeeded, at }).await?;
        }
        self.context.queue.close(&self.state.run).await?;
        Ok(())
    }
}
