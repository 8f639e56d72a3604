//! Looking at a run again and again, and doing what the plan says, until it says that the run is finished.

use std::sync::Arc;
use std::time::Duration;

use tracing::debug;

use super::LocalError;
use super::apply::Crew;
use super::run::RunOptions;
use crate::clock::Stopwatch;
use crate::planner::{ExecutionPlan, Step, Verdict, plan_run};
use crate::queue::QueueError;
use crate::run::observe::{Live, RunInput, build_snapshot, observe_closed_origins, observe_queue, observe_spent};

/// How often a run is looked at while it goes on: for the display, and for crawlers that should be started.
const TICK: Duration = Duration::from_millis(200);

/// Looking takes no more than one part in so many of the time, however many nodes there are.
const LOOKING_SHARE: u32 = 20;

/// Between the loss of a queue and the next one: what makes it lose runs may not be over.
const AFTER_LOSS: Duration = Duration::from_secs(1);

/// A run that goes on.
pub(super) struct Supervision<'a> {
    pub(super) crew: &'a mut Crew,
    pub(super) input: &'a RunInput,
    pub(super) options: &'a RunOptions,
}

impl Supervision<'_> {
    /// Carries out this plan and those that follow from it. Returns how the run ended.
    pub(super) async fn go_on(&mut self, mut plan: ExecutionPlan) -> Result<Verdict, LocalError> {
        let mut tick = TICK;
        loop {
            let next = self.step(&plan, &mut tick).await;
            plan = match next {
                Ok(Next::Ended(verdict)) => return Ok(verdict),
                Ok(Next::Plan(next)) => *next,
                Err(LocalError::Queue(QueueError::Unreachable { .. })) if self.options.interrupt.is_cancelled() => {
                    self.crew.end_crawlers().await;
                    return Ok(Verdict::Interrupted);
                }
                Err(LocalError::Queue(error)) if self.crew.has_foreign_queue() && is_loss(&error) => {
                    self.begin_anew(&error).await?
                }
                Err(error) => return Err(error),
            };
        }
    }

    async fn step(&mut self, plan: &ExecutionPlan, tick: &mut Duration) -> Result<Next, LocalError> {
        let options = self.options;
        if let Some(verdict) = self.crew.apply(plan).await? {
            return Ok(Next::Ended(verdict));
        }
        tokio::select! {
            ended = self.crew.crawler_ended() => ended?,
            () = tokio::time::sleep(*tick) => {}
            () = options.interrupt.cancelled(), if !is_stopping(plan) => {}
        }
        let looking = Stopwatch::start();
        let context = self.crew.context.clone();
        let (run, queue) = (&context.run, context.queue.as_ref());
        let observed = context.patience.with(|| observe_queue(queue, run)).await?;
        let lanes = context.patience.with(|| queue.lanes(run, 64)).await?;
        options.display.update(&context.progress, &observed.ledger, &lanes, options.clock.now());
        let live = Live {
            now: options.clock.now(),
            queue: Some(observed),
            crawlers: self.crew.crawlers(),
            token_share: None,
            free_tokens: None,
            interrupted: options.interrupt.is_cancelled(),
            spent: Arc::default(),
            closed_origins: Arc::default(),
        };
        let next = plan_run(&build_snapshot(self.input, &self.crew.state, live));
        *tick = TICK.max(looking.elapsed() * LOOKING_SHARE);
        Ok(Next::Plan(Box::new(next)))
    }

    /// The queue is lost: what the store says is not settled goes into a new one. What was asked last is not known, so short
    /// windows of budgets start as if spent, as after a crash.
    async fn begin_anew(&mut self, error: &QueueError) -> Result<ExecutionPlan, LocalError> {
        self.options.display.note(&format!("The queue was lost: {error}. What is left to do goes into a new one."));
        self.crew.lose_queue().await;
        tokio::select! {
            () = tokio::time::sleep(AFTER_LOSS) => {}
            () = self.options.interrupt.cancelled() => {}
        }
        let now = self.options.clock.now();
        let live = Live {
            now,
            queue: None,
            crawlers: self.crew.crawlers(),
            token_share: None,
            free_tokens: None,
            interrupted: self.options.interrupt.is_cancelled(),
            spent: observe_spent(self.crew.store.as_ref(), self.input, now).await?,
            closed_origins: observe_closed_origins(self.crew.store.as_ref(), now).await?,
        };
        debug!(ended_in_order = live.spent.ended_in_order, "the run's queue is made anew");
        Ok(plan_run(&build_snapshot(self.input, &self.crew.state, live)))
    }
}

/// What follows from a look.
enum Next {
    Ended(Verdict),
    Plan(Box<ExecutionPlan>),
}

/// Whether the queue has forgotten what it was told.
fn is_loss(error: &QueueError) -> bool {
    matches!(error, QueueError::NoSuchRun { .. } | QueueError::Lost { .. })
}

fn is_stopping(plan: &ExecutionPlan) -> bool {
    plan.steps.contains(&Step::StopCrawlers)
}
