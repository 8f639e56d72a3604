//! One task, from lease to settlement: permit, fetch, decode, store.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::Timestamp;
use tracing::{debug, info};

use super::context::{CrawlContext, CrawlNode};
use super::effects::{Answer, page_effects};
use super::http::{Failure, FetchError, Fetched};
use super::nodes::KnownNode;
use super::progress::Stage;
use super::settle::Verdict;
use super::task_gate::{TaskGate, pushback_of};
use super::worker::CrawlerError;
use crate::clock::Stopwatch;
use crate::finding::{Checkpoint, Limited, TaskFailure, Validators, harmless};
use crate::flow::ClosedOrigin;
use crate::outcome::Outcome;
use crate::protocol::{NodeContext, Page, ReadError, Response};
use crate::queue::{Holder, LeaseRef, Leased, Pushback, SettleResult, Settlement};
use crate::store::landing::FailedTry;
use crate::store::{Committed, FailedTask, Opened, SoFar, Spending, StoreError, TaskEffects, TaskResult, Traversal};
use crate::task::{OriginKey, Task, TaskKind};

/// A decoded body above this size is read off the event loop.
const LARGE_BODY_BYTES: usize = 1024 * 1024;

/// How a task was left.
pub(super) struct Finished {
    pub(super) settlement: Settlement,
    /// Set when the crawler can't go on.
    pub(super) fatal: Option<CrawlerError>,
}

/// What went wrong with a task.
enum TaskError {
    Fetch(FetchError),
    /// With the requests that the answer took.
    Read(ReadError, u64),
    /// The node can't be crawled from here.
    Node(Arc<str>),
    Internal(String),
    Fatal(CrawlerError),
}

impl From<StoreError> for TaskError {
    fn from(error: StoreError) -> Self {
        match error {
            // Another answer will fit.
            StoreError::TooLarge { .. } => Self::Internal(error.to_string()),
            error => Self::Fatal(CrawlerError::Store(error)),
        }
    }
}

/// A section as a task finds it.
enum SectionWork {
    Open(Box<OpenSection>),
    /// Another run has it, or this run has closed it.
    Skipped(String),
}

/// A section whose traversal is open.
struct OpenSection {
    traversal: Traversal,
    /// What is asked of the node; what is remembered of other questions is no answer to it.
    question: String,
    validators: Option<Validators>,
    checkpoint: Option<Checkpoint>,
    /// What all crawlers had brought when the task began.
    so_far: SoFar,
}

/// What a task that did not fail came to.
struct Done {
    result: SettleResult,
    documents: u64,
    bytes: u64,
}

impl Done {
    fn without_effect(result: SettleResult) -> Self {
        Self { result, documents: 0, bytes: 0 }
    }
}

/// Runs one leased task. Its effects are in the store before this returns; the caller settles it.
pub(super) async fn run_task(
    context: Arc<CrawlContext>,
    holder: Arc<Holder>,
    leased: Leased,
    node: KnownNode,
    permit_lasts_until: Timestamp,
) -> Finished {
    let (lease, task) = (leased.lease, &leased.task);
    let run = TaskRun { context: &context, holder: &holder, lease, task, node, permit_lasts_until };
    let (done, fatal) = match run.attempt(leased.attempt).await {
        Ok(done) => (done, None),
        Err(TaskError::Fatal(error)) => (Done::without_effect(SettleResult::Released), Some(error)),
        Err(error) => match run.fail(error, leased.attempt).await {
            Ok(done) => (done, None),
            Err(error) => (Done::without_effect(SettleResult::Released), Some(error)),
        },
    };
    let settlement = Settlement { lease, result: done.result, documents: done.documents, bytes: done.bytes };
    Finished { settlement, fatal }
}

struct TaskRun<'a> {
    context: &'a CrawlContext,
    holder: &'a Holder,
    lease: LeaseRef,
    task: &'a Task,
    node: KnownNode,
    /// Until when the permit that came with the claim may be used.
    permit_lasts_until: Timestamp,
}

impl TaskRun<'_> {
    async fn attempt(&self, attempt: u32) -> Result<Done, TaskError> {
        let node = self.node()?;
        let open = match self.open_section().await? {
            SectionWork::Open(open) => open,
            SectionWork::Skipped(why) => {
                debug!(node = %self.task.section.node, section = %self.task.section.section, why, "section skipped");
                return Ok(Done::without_effect(SettleResult::Dropped));
            }
        };
        let open = open.as_ref();
        if let Some(limited) = self.limit_passed(node, open.so_far) {
            let effects = TaskEffects {
                task: self.task.id,
                result: TaskResult::Dropped,
                limited: Some(limited),
                ..TaskEffects::default()
            };
            self.store(open, effects).await?;
            return Ok(Done::without_effect(SettleResult::Dropped));
        }
        let mut reader_context = Cow::Borrowed(&node.context);
        // A second look is at everything.
        if self.context.incremental && !self.task.is_again && open.checkpoint.is_some() {
            reader_context.to_mut().checkpoint.clone_from(&open.checkpoint);
        }
        let request = node.reader.request(&reader_context, self.task).map_err(|error| TaskError::Read(error, 0))?;
        let validators = open
            .validators
            .as_ref()
            .filter(|_| request.conditional && self.task.kind == TaskKind::Root && !self.task.is_again);
        let gate = TaskGate {
            context: self.context,
            holder: self.holder,
            lease: &self.lease,
            permit_lasts_until: self.permit_lasts_until,
        };
        let fetching = Stopwatch::start();
        let fetched = self.context.http.send(&request, &node.access, &gate, validators).await;
        self.context.progress.add_time(Stage::Fetch, fetching.elapsed());
        match fetched {
            Ok(Fetched::NotModified { spent }) => {
                let requests = u64::from(spent.requests);
                self.count(|progress| progress.add_answer(requests, 0));
                let result = TaskResult::NotModified;
                let effects = TaskEffects { task: self.task.id, result, requests, ..TaskEffects::default() };
                self.commit(open, effects, false).await
            }
            Ok(Fetched::Response { response, spent }) => {
                self.take(node, open, &reader_context, Arc::from(response), u64::from(spent.requests)).await
            }
            Err(error) if !request.decodes_client_errors || attempt < self.context.retries.limit => {
                Err(TaskError::Fetch(error))
            }
            Err(error) => {
                let pushback = pushback_of(&error);
                match error {
                    // A question that a server keeps failing to answer is answered with "no": another one may do, but
                    // not before the server wants to be asked again.
                    FetchError { failure: Failure::Status(status), spent, origin, .. } if status.status >= 500 => {
                        self.push_back(&origin, pushback).await.map_err(TaskError::Fatal)?;
                        let requests = u64::from(spent.requests);
                        self.take(node, open, &reader_context, Arc::new(status.response), requests).await
                    }
                    error => Err(TaskError::Fetch(error)),
                }
            }
        }
    }

    /// A dataset that was queued before a limit of its traversal was reached is not fetched any more.
    fn limit_passed(&self, node: &CrawlNode, so_far: SoFar) -> Option<Limited> {
        match self.task.kind {
            TaskKind::Dataset if so_far.records >= node.limits.max_records => Some(Limited::MaxRecords),
            TaskKind::Dataset if so_far.bytes >= node.limits.max_bytes => Some(Limited::MaxBytes),
            _ => None,
        }
    }

    /// Takes in an answer: decodes it, and stores what it says.
    async fn take(
        &self,
        node: &CrawlNode,
        open: &OpenSection,
        reader_context: &NodeContext,
        response: Arc<Response>,
        requests: u64,
    ) -> Result<Done, TaskError> {
        self.count(|progress| progress.add_answer(requests, response.body.len() as u64));
        let decoding = Stopwatch::start();
        let page = self.decode(node, reader_context, &response, requests).await?;
        self.context.progress.add_time(Stage::Decode, decoding.elapsed());
        if !self.task.is_again {
            self.count(|progress| progress.add_page(page.records.len() as u64, page.total));
        }
        let reads_again = page.reads_again || self.task.is_again;
        let fetched_at = self.context.clock.now().to_string();
        let serialising = Stopwatch::start();
        let answer = Answer { response: &response, question: &open.question, requests, fetched_at: &fetched_at };
        let effects = page_effects(self.task, page, answer, &node.limits, open.so_far)
            .map_err(|error| TaskError::Internal(format!("a record can't be written as JSON: {error}")))?;
        self.context.progress.add_time(Stage::Serialise, serialising.elapsed());
        self.commit(open, effects, reads_again).await
    }

    /// Decodes a page; a large one off the event loop, so that other tasks go on.
    async fn decode(
        &self,
        node: &CrawlNode,
        context: &NodeContext,
        response: &Arc<Response>,
        requests: u64,
    ) -> Result<Page, TaskError> {
        let unreadable = |error| TaskError::Read(error, requests);
        if response.body.len() <= LARGE_BODY_BYTES {
            return node.reader.decode(context, self.task, response).map_err(unreadable);
        }
        let (reader, context, task, response) =
            (node.reader.clone(), context.clone(), self.task.clone(), response.clone());
        let decoded = tokio::task::spawn_blocking(move || reader.decode(&context, &task, &response)).await;
        decoded.map_err(|error| TaskError::Internal(format!("reading the answer failed: {error}")))?.map_err(unreadable)
    }

    /// Stores the effects, and closes the traversal if this was its last task.
    async fn commit(&self, open: &OpenSection, effects: TaskEffects, reads_again: bool) -> Result<Done, TaskError> {
        let documents = effects.records.len() as u64;
        let bytes = effects.bytes;
        let mut feedback = effects.feedback.clone();
        let storing = Stopwatch::start();
        let committed = self.store(open, effects).await?;
        self.context.progress.add_time(Stage::Store, storing.elapsed());
        if let Some(followed) = committed.followed {
            // Whoever did this task first died before the queue was told.
            return Ok(Done { result: SettleResult::Done { feedback: followed }, documents, bytes });
        }
        // The queue may have been made anew since they were settled, and not know them.
        feedback.retain(|next| !committed.settled_feedback.contains(&next.id));
        if let Some(task) = committed.look_again {
            debug!(node = %task.section.node, section = %task.section.section,
                "records are missing from a list that may have moved while it was read: it is read a second time");
            feedback.push(task);
        } else if documents > 0 && committed.repeated == documents && self.task.page > 0 && !reads_again {
            // Another address, the same page: an endless chain. What it leads to is dropped, here and in the store.
            for task in feedback.extract_if(.., |next| next.section == self.task.section && next.kind == TaskKind::Page)
            {
                let dropped = TaskEffects {
                    task: task.id,
                    result: TaskResult::Dropped,
                    limited: Some(Limited::RepeatedPage),
                    ..TaskEffects::default()
                };
                self.store(open, dropped).await?;
            }
        }
        Ok(Done { result: SettleResult::Done { feedback }, documents, bytes })
    }

    /// What requests of this task have cost: the first one what the queue takes for it, the others one call each.
    fn calls(&self, requests: u64) -> u64 {
        let per_document = self.node().map_or(1, |node| u64::from(node.api_calls_per_document));
        let first = if self.task.kind == TaskKind::Dataset { per_document } else { 1 };
        if requests == 0 { 0 } else { first + requests - 1 }
    }

    /// Counts the requests of a try that came to nothing, while the task goes on. `why`: it failed.
    async fn note_try(&self, requests: u64, why: Option<&str>) -> Result<(), StoreError> {
        if requests == 0 && why.is_none() {
            return Ok(());
        }
        let at = self.context.clock.now();
        let spending = Spending::none(self.task.section.node.clone(), at);
        let failed = FailedTry {
            task: self.task.id,
            requests,
            spending: Spending { calls: self.calls(requests), ..spending },
            failure: why.map(|why| TaskFailure { at, why: why.to_owned() }),
        };
        self.context.landing.note_try(failed).await
    }

    /// Makes effects durable; the section's last ones close its traversal in the same step.
    async fn store(&self, open: &OpenSection, mut effects: TaskEffects) -> Result<Committed, StoreError> {
        effects.close_when_drained = Some(self.context.close_request(None));
        if effects.task == self.task.id {
            (effects.calls, effects.at) = (self.calls(effects.requests), self.context.clock.now());
        }
        let committed = self.context.landing.commit(&open.traversal, effects).await?;
        if committed.closed {
            self.context.progress.close_section(&open.traversal.section);
        }
        Ok(committed)
    }

    /// A task failed: tells the origin's gate if the server pushed back, and decides what becomes of the task.
    async fn fail(&self, error: TaskError, attempt: u32) -> Result<Done, CrawlerError> {
        let mut requests = 0;
        let mut may_be_ours = false;
        let (sentence, outcome) = match error {
            TaskError::Fatal(error) => return Err(error),
            TaskError::Internal(sentence) => (sentence, Outcome::Terminal),
            TaskError::Node(sentence) => {
                // A credential that is missing here says nothing of the server.
                may_be_ours = true;
                (sentence.to_string(), Outcome::Terminal)
            }
            // An answer that makes no sense may have been broken on its way, but hardly twice.
            TaskError::Read(error, spent) => {
                requests = spent;
                (error.to_string(), if attempt >= 1 { Outcome::Terminal } else { error.outcome() })
            }
            TaskError::Fetch(FetchError { failure: Failure::Gate(_), spent, .. }) => {
                self.note_try(u64::from(spent.requests), None).await?;
                return Ok(Done::without_effect(SettleResult::Released));
            }
            TaskError::Fetch(mut error) => {
                requests = u64::from(error.spent.requests);
                self.count(|progress| progress.add_answer(requests, 0));
                self.push_back(&error.origin, pushback_of(&error)).await?;
                self.add_the_servers_words(&mut error);
                may_be_ours = error.may_be_ours();
                (error.to_string(), error.outcome())
            }
        };
        let sentence = self.fit_to_show(&sentence);
        let section = &self.task.section;
        self.count(|progress| progress.set_problem(&sentence));
        match self.context.retries.verdict(outcome, self.task.id, attempt, self.context.clock.now()) {
            Verdict::Retry(delay) => {
                self.note_try(requests, Some(&sentence)).await?;
                debug!(node = %section.node, section = %section.section, task = %self.task.id, attempt,
                    delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX), "task failed, will be retried: {sentence}");
                Ok(Done::without_effect(SettleResult::Retry { delay, why: sentence }))
            }
            Verdict::GiveUp => {
                info!(node = %section.node, section = %section.section, task = %self.task.id, attempt, "task given up: {sentence}");
                self.count(super::progress::NodeProgress::add_failure);
                self.give_up(&sentence, may_be_ours, requests).await?;
                Ok(Done::without_effect(SettleResult::Dead { why: sentence }))
            }
        }
    }

    /// Tells the origin's gate that the server pushed back, if it did, and has the store remember it for the processes that
    /// come after this one.
    async fn push_back(&self, origin: &OriginKey, pushback: Option<Pushback>) -> Result<(), CrawlerError> {
        let Some(pushback) = pushback else { return Ok(()) };
        let CrawlContext { queue, landing, patience, .. } = self.context;
        if let Some(until) = patience.with(|| queue.pushback(self.holder, origin, pushback)).await? {
            landing.close_origins(vec![ClosedOrigin { origin: origin.clone(), until }]).await?;
        }
        Ok(())
    }

    /// Records the failure in the store: the traversal is partial.
    async fn give_up(&self, why: &str, may_be_ours: bool, requests: u64) -> Result<(), CrawlerError> {
        let work = match self.open_section().await {
            Ok(work) => work,
            Err(TaskError::Fatal(error)) => return Err(error),
            Err(_) => return Ok(()),
        };
        if let SectionWork::Open(open) = work {
            let (kind, page) = (self.task.kind, self.task.page);
            // Who keeps count of the tries before adds them.
            let failed = FailedTask { kind, page, why: why.to_owned(), earlier: Vec::new(), may_be_ours };
            let effects = TaskEffects {
                task: self.task.id,
                result: TaskResult::Failed(failed),
                requests,
                ..TaskEffects::default()
            };
            self.store(&open, effects).await?;
        }
        Ok(())
    }

    /// A sentence that quotes a server: without the credential that it may have echoed, and without characters that act.
    fn fit_to_show(&self, sentence: &str) -> String {
        let credential = self.node().ok().and_then(|node| node.access.credential.clone());
        let sentence = credential.map_or_else(|| sentence.to_owned(), |credential| credential.redact(sentence));
        sentence.chars().map(harmless).collect()
    }

    /// The server's own words, if its answer is in the protocol's format.
    fn add_the_servers_words(&self, error: &mut FetchError) {
        if let (Failure::Status(status), Ok(node)) = (&mut error.failure, self.node()) {
            status.detail = node.reader.describe_error(&status.response);
        }
    }

    fn node(&self) -> Result<&CrawlNode, TaskError> {
        self.node.as_deref().map_err(|why| TaskError::Node(why.clone()))
    }

    /// The section's traversal: opened by whichever crawler came first, with what all of them have brought since.
    async fn open_section(&self) -> Result<SectionWork, TaskError> {
        let work = match self.context.landing.open_traversal(&self.context.run, &self.task.section).await? {
            Opened::Open { traversal, validators, checkpoint, so_far } => {
                self.context.progress.open_section(&self.task.section, so_far);
                // Without the node there is nothing to ask, and nothing that an earlier answer could save.
                let question = self.node.as_ref().map(|node| node.context.question()).unwrap_or_default();
                let validators = validators.filter(|validators| validators.question == question);
                let checkpoint = checkpoint.and_then(|checkpoint| checkpoint.given_for(&question));
                SectionWork::Open(Box::new(OpenSection { traversal, question, validators, checkpoint, so_far }))
            }
            Opened::HeldBy { run } => SectionWork::Skipped(format!("run {run} is traversing it")),
            Opened::Closed { .. } => SectionWork::Skipped("it was traversed already".to_owned()),
        };
        Ok(work)
    }

    fn count(&self, add: impl FnOnce(&super::progress::NodeProgress)) {
        if let Some(progress) = self.context.progress.node(&self.task.section.node) {
            add(progress);
        }
    }
}
