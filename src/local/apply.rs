//! Carrying out a plan's steps: the only place of local mode that changes anything.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tracing::{info, warn};

use super::LocalError;
use super::launch::{EarlyDeath, Launcher};
use crate::crawler::CrawlContext;
use crate::planner::{CrawlerState, ExecutionPlan, Step, Verdict};
use crate::queue::{Patience, QueueError, RunConfig};
use crate::run::books::LAST_PATIENCE;
use crate::run::briefs::Briefs;
use crate::store::{RunState, SharedStore};
use crate::task::{NodeName, RunId, Task};

/// How many tasks are read from the store at a time when a run is resumed.
const RESUME_BATCH: usize = 10_000;

/// How long a queue that was never reached is tried: a wrong address should be told of soon.
const FIRST_PATIENCE: Duration = Duration::from_secs(10);

/// So many left-over queues of one run are closed before that is taken for a fault.
const MAX_LEFT_OVER: usize = 3;

/// So many crawlers in a row may die without having begun to work, by themselves …
const MAX_EARLY_DEATHS: u32 = 5;
/// … or killed by somebody.
const MAX_EARLY_KILLS: u32 = 50;

/// The crawlers of a run, and what they share.
#[derive(Debug)]
pub(super) struct Crew {
    pub(super) context: Arc<CrawlContext>,
    pub(super) store: SharedStore,
    pub(super) state: RunState,
    /// Tasks come from the store: the run was begun before, or its queue was lost.
    pub(super) resumed: bool,
    launcher: Box<dyn Launcher>,
    /// What crawlers of other processes are told.
    briefs: Option<Briefs>,
    /// The queue's instance, for those who must choose another one.
    instance: String,
    /// Deaths in a row, a kill counting as 1.
    early_deaths: u32,
    /// Nodes that could not be started, each with a sentence.
    pub(super) problems: BTreeMap<NodeName, String>,
    /// The queue was reached once.
    was_reached: bool,
    /// The run that is in the queue under this name is ours.
    is_open: bool,
}

impl Crew {
    pub(super) fn new(
        context: Arc<CrawlContext>,
        store: SharedStore,
        state: RunState,
        resumed: bool,
        problems: BTreeMap<NodeName, String>,
        launcher: Box<dyn Launcher>,
    ) -> Self {
        Self {
            context,
            store,
            state,
            resumed,
            launcher,
            briefs: None,
            instance: String::new(),
            early_deaths: 0,
            problems,
            was_reached: false,
            is_open: false,
        }
    }

    /// The run's crawlers are told this, through its queue.
    pub(super) fn with_briefs(self, briefs: Option<Briefs>, instance: String) -> Self {
        Self { briefs, instance, ..self }
    }

    /// Those at work. On one machine every crawler serves all nodes.
    pub(super) fn crawlers(&self) -> Vec<CrawlerState> {
        let running = self.launcher.running().into_iter();
        running.map(|token| CrawlerState { token, group: "default".to_owned(), running: true }).collect()
    }

    /// Whether the queue may be lost while this process lives.
    pub(super) fn has_foreign_queue(&self) -> bool {
        self.briefs.is_some()
    }

    /// Carries out a plan. Returns how the run ended, if the plan says that it has.
    pub(super) async fn apply(&mut self, plan: &ExecutionPlan) -> Result<Option<Verdict>, LocalError> {
        let (queue, run) = (self.context.queue.clone(), self.state.run.clone());
        for step in &plan.steps {
            match step {
                Step::OpenQueue { config } => self.open_queue(config).await?,
                Step::SeedNodes { nodes } => self.seed(nodes).await?,
                Step::Freeze => self.context.patience.with(|| queue.freeze(&run)).await?,
                Step::Thaw => self.context.patience.with(|| queue.thaw(&run)).await?,
                // Frozen by hand, it is thawed by hand.
                Step::StartCrawler { .. } if self.is_frozen_by_hand().await? => {}
                Step::StartCrawler { token, group } => self.launcher.start(*token, group),
                Step::StopCrawlers => self.launcher.stop(),
                Step::FinishRun { verdict: Verdict::Drained } if self.hand_in_forgotten().await? > 0 => {}
                Step::FinishRun { verdict } => return Ok(Some(*verdict)),
            }
        }
        Ok(None)
    }

    async fn open_queue(&mut self, config: &RunConfig) -> Result<(), LocalError> {
        let mut config = config.clone();
        if let Some(briefs) = &self.briefs {
            briefs.write_into(&mut config);
        }
        let queue = self.context.queue.clone();
        let patience = self.patience();
        for _ in 0..MAX_LEFT_OVER {
            match patience.with(|| queue.open(config.clone())).await {
                Err(QueueError::RunExists { run }) if self.briefs.is_some() => self.close_left_over(&run).await?,
                opened => {
                    opened?;
                    (self.was_reached, self.is_open) = (true, true);
                    return Ok(());
                }
            }
        }
        Err(QueueError::RunExists { run: config.run }.into())
    }

    /// Until the queue was reached once, it may be that it never can be.
    fn patience(&self) -> Patience {
        let patience = &self.context.patience;
        if self.was_reached { patience.clone() } else { patience.at_most(FIRST_PATIENCE) }
    }

    /// Closes what a process before left of a run: its state is in the store, and what is left of its crawlers ends. A run of
    /// somebody else is left alone.
    pub(super) async fn close_left_over(&self, run: &RunId) -> Result<(), LocalError> {
        let (Some(briefs), queue) = (&self.briefs, &self.context.queue) else { return Ok(()) };
        let patience = self.patience();
        match patience.with(|| queue.brief(run)).await {
            Err(QueueError::NoSuchRun { .. } | QueueError::Lost { .. }) => {}
            Err(error) => return Err(error.into()),
            Ok(brief) if briefs.are_of(&brief) => {}
            Ok(_) => return Err(LocalError::ForeignRun { run: run.clone(), instance: self.instance.clone() }),
        }
        info!(run = %run, "the queue that an earlier process left is closed");
        Ok(patience.with(|| queue.close(run)).await?)
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
        self.store.seed(&self.state.run, &tasks).await?;
        if !self.resumed {
            return self.push(tasks).await.map(drop);
        }
        self.push_pending().await.map(drop)
    }

    /// Puts in what the store has as pending. Returns how much of it the queue did not know.
    async fn push_pending(&self) -> Result<u64, LocalError> {
        let (mut after, mut new) = (None, 0);
        loop {
            let tasks = self.store.pending_tasks(&self.state.run, after, RESUME_BATCH).await?;
            let Some(last) = tasks.last() else { return Ok(new) };
            after = Some(last.id);
            new += self.push(tasks).await?;
        }
    }

    async fn push(&self, tasks: Vec<Task>) -> Result<u64, LocalError> {
        let CrawlContext { queue, patience, .. } = self.context.as_ref();
        Ok(patience.with(|| queue.push(&self.state.run, tasks.clone())).await?.new)
    }

    /// The queue has nothing left. Tasks that follow from one whose crawlers died each time before the queue was told are in the
    /// store alone: a run is at its end when the store has none of them either.
    async fn hand_in_forgotten(&self) -> Result<u64, LocalError> {
        if !self.has_foreign_queue() {
            return Ok(0);
        }
        let forgotten = self.push_pending().await?;
        if forgotten > 0 {
            info!(run = %self.state.run, forgotten, "tasks that only the store knew are handed in");
        }
        Ok(forgotten)
    }

    /// Whether somebody froze the run in a queue that others can reach, too: crawlers would end as soon as they start.
    async fn is_frozen_by_hand(&self) -> Result<bool, LocalError> {
        if !self.has_foreign_queue() {
            return Ok(false);
        }
        let CrawlContext { queue, patience, .. } = self.context.as_ref();
        let runs = patience.with(|| queue.runs()).await?;
        Ok(runs.iter().any(|status| status.run == self.state.run && status.frozen))
    }

    /// Waits until a crawler ends, and frees its token. Pends while none runs.
    pub(super) async fn crawler_ended(&mut self) -> Result<(), LocalError> {
        let ended = self.launcher.ended().await;
        let CrawlContext { queue, patience, .. } = self.context.as_ref();
        let mut released = 0;
        for token in ended.tokens {
            let run = &self.state.run;
            let of_token = patience.with(|| queue.release_holder(run, token, ended.cause)).await?;
            released += of_token.requeued + of_token.dead;
        }
        if let Some(failure) = ended.failure {
            return Err(failure);
        }
        self.note_death(ended.early_death.filter(|_| released == 0))
    }

    /// Crawlers that come to nothing one after the other end the run. One that had tasks when it died doesn't count: they
    /// are charged, so that comes to an end by itself.
    fn note_death(&mut self, early_death: Option<EarlyDeath>) -> Result<(), LocalError> {
        let Some(EarlyDeath { why, was_killed }) = early_death else {
            self.early_deaths = 0;
            return Ok(());
        };
        let weight = if was_killed { 1 } else { MAX_EARLY_KILLS / MAX_EARLY_DEATHS };
        self.early_deaths += weight;
        if self.early_deaths >= MAX_EARLY_KILLS {
            return Err(LocalError::Crawlers { deaths: MAX_EARLY_KILLS / weight, why });
        }
        Ok(())
    }

    /// The queue has forgotten the run: crawlers can do nothing any more, and what is to be done comes from the store.
    pub(super) async fn lose_queue(&mut self) {
        (self.is_open, self.resumed) = (false, true);
        self.end_crawlers().await;
    }

    /// Ends all crawlers at once. What they had in hand is in the store as pending.
    pub(super) async fn end_crawlers(&mut self) {
        self.launcher.end_all().await;
    }

    /// Forgets the run's queue, if it is ours. One that can't be reached any more is not waited for: it is closed when the run is begun
    /// again, and forgets by itself.
    pub(super) async fn close_queue(&self) {
        let CrawlContext { queue, patience, .. } = self.context.as_ref();
        if !self.is_open {
            return;
        }
        let closed = patience.at_most(LAST_PATIENCE).with(|| queue.close(&self.state.run)).await;
        if let Err(error) = closed {
            warn!(run = %self.state.run, "the run's queue could not be closed: {error}");
        }
    }
}
