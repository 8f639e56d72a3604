//! Work in flight: the queue port, its guarantees, and its gates.
//!
//! # Guarantees (one contract suite, `tests/queue/contract.rs`, over every adapter)
//! - **At least once.** A pushed task is handed out until a settlement ends it; a crash of a crawler or of a client
//!   loses nothing. Effects are idempotent, so a second fetch does no harm.
//! - **Once at a time.** Two claims never overlap; only the current lease of a current holder settles.
//! - **Never twice in a run.** A task whose id the run has seen (queued, leased, done, dead or dropped) is not queued
//!   again: this is what ends paging loops and cycles of catalogues.
//! - **Conserved.** After every call [`Ledger::is_balanced`] holds.
//! - **Frozen means frozen.** Nothing is handed out, no permit is given; nothing is pushed but feedback of work in flight.
//! - **A closed gate blocks nobody else.** Who waits, waits at the gate: claims return at once, with the moment to
//!   come back.
//!
//! # Order
//! Lanes (tasks that share origin, budget and crawler group) take turns; inside a lane nodes take turns of a quantum of
//! [`TURN_TASKS`] tasks; inside a node tasks go by [`ItemStatus`](crate::task::ItemStatus), then oldest first.

pub mod gate;
pub mod memory;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::Serialize;
use thiserror::Error;

pub use crate::flow::{
    BudgetConfig, BudgetId, BudgetLimit, Ledger, NodeConfig, OpenInterval, OriginProtection, RunConfig, SHORT_WINDOW,
    SPENT_STRETCH, Spent, Unit,
};
use crate::outcome::Outcome;
use crate::task::{NodeName, OriginKey, RunId, Task, TaskId};

/// A node's turn in its lane: so many tasks, then the next node.
pub const TURN_TASKS: u32 = 10;

/// A claim gives no more tasks than this, whatever was asked.
pub const MAX_CLAIM_TASKS: usize = 1000;

/// A permit that was not used within this time is void: what was permitted when must say what a server sees when.
pub const PERMIT_LASTS: Duration = Duration::from_millis(250);

/// When to ask again for a permit that waits for another request to end.
pub const PERMIT_RETRY: Duration = Duration::from_millis(50);

/// The queue of runs. See the module's guarantees. Every operation is atomic.
#[async_trait]
pub trait Queue: Send + Sync + std::fmt::Debug {
    /// Makes the run's queue. Fails if it exists.
    async fn open(&self, config: RunConfig) -> Result<(), QueueError>;

    /// Replaces nodes and gates of a live run. Budgets already spent stay spent. What a node that is no longer named
    /// has left is dropped.
    async fn configure(&self, config: RunConfig) -> Result<(), QueueError>;

    /// Puts in tasks; those the run has seen before are counted as duplicates and left. Refused while frozen.
    async fn push(&self, run: &RunId, tasks: Vec<Task>) -> Result<Pushed, QueueError>;

    /// Makes the caller the holder of a token. A second join with the same token fences the first.
    async fn join(&self, request: JoinRequest) -> Result<Holder, QueueError>;

    /// Takes up to `max` tasks (at most [`MAX_CLAIM_TASKS`]), each with a permit for its first request.
    async fn claim(&self, holder: &Holder, max: usize) -> Result<Claim, QueueError>;

    /// Leave to send one more request (redirect, retry, token fetch) to this origin for a leased task, now. One to the
    /// task's own origin costs what the first one did, one to another origin a single call, all of the task's budget.
    /// Fails if the lease is no longer the caller's.
    async fn permit(&self, holder: &Holder, lease: &LeaseRef, origin: &OriginKey) -> Result<Permit, QueueError>;

    /// Ends leases, each with its feedback, atomically: what was discovered is queued in the same step. Feedback of a
    /// node that the run never had refuses the whole call.
    async fn settle(&self, holder: &Holder, settlements: Vec<Settlement>) -> Result<Vec<Settled>, QueueError>;

    /// Lengthens leases. Returns those that are no longer the caller's.
    async fn renew(&self, holder: &Holder, leases: &[LeaseRef]) -> Result<Vec<LeaseRef>, QueueError>;

    /// Tells that a server pushed back. All pushbacks of one moment count as one event.
    async fn pushback(&self, holder: &Holder, origin: &OriginKey, pushback: Pushback) -> Result<(), QueueError>;

    /// Frees a holder's leases and its token. `Crashed` charges the tasks it was working on.
    async fn release_holder(&self, run: &RunId, token: u32, cause: ReleaseCause) -> Result<Released, QueueError>;

    /// Stops (or resumes) handing out a node's tasks; the others are not affected.
    async fn suspend_node(&self, run: &RunId, node: &NodeName, suspended: bool) -> Result<(), QueueError>;

    /// Stops handing out anything. Idempotent.
    async fn freeze(&self, run: &RunId) -> Result<(), QueueError>;

    /// Lifts a freeze. Idempotent.
    async fn thaw(&self, run: &RunId) -> Result<(), QueueError>;

    /// The run's conserved account.
    async fn ledger(&self, run: &RunId) -> Result<Ledger, QueueError>;

    /// What each lane holds and what it waits for; at most `limit`, the longest waiting first.
    async fn lanes(&self, run: &RunId, limit: usize) -> Result<Vec<LaneStatus>, QueueError>;

    /// The run's dead tasks with why they died, oldest death first, at most `limit`. The first [`MAX_DEAD_KEPT`] are
    /// kept; the ledger counts all.
    async fn dead(&self, run: &RunId, limit: usize) -> Result<Vec<DeadTask>, QueueError>;

    /// Recounts everything, checks that what is ready can be reached, repairs, and reports what it repaired.
    async fn audit(&self, run: &RunId) -> Result<Vec<String>, QueueError>;

    /// Returns when something may have become claimable since `seen` (a [`Claim::Wait`]'s `sequence`), at the latest
    /// at `until`. May return early.
    async fn wait(&self, run: &RunId, seen: u64, until: Timestamp) -> Result<(), QueueError>;

    /// Forgets the run. Idempotent.
    async fn close(&self, run: &RunId) -> Result<(), QueueError>;
}

/// A shared queue.
pub type SharedQueue = Arc<dyn Queue>;

/// Dead tasks of a run that are kept with their history.
pub const MAX_DEAD_KEPT: usize = 1000;

/// The latest failures of a task that are kept.
pub const MAX_FAILURES_KEPT: usize = 5;

/// A reason is cut to so many characters.
pub const MAX_WHY_CHARS: usize = 256;

/// Asks for a token's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinRequest {
    /// The run.
    pub run: RunId,
    /// The token's number.
    pub token: u32,
    /// Who asks: a Job's UID, or a random id locally.
    pub uid: String,
    /// The crawler's group.
    pub group: String,
}

/// Proof of having joined. Fenced by a later join with the same token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The run.
    pub run: RunId,
    /// The token's number.
    pub token: u32,
    /// Who joined.
    pub uid: String,
    /// The crawler's group.
    pub group: String,
    /// Raised by every join.
    pub fence: u64,
}

/// A holder's lease on a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseRef {
    /// The task.
    pub task: TaskId,
    /// The lease.
    pub lease: u64,
}

/// A task, leased, with a permit for its first request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leased {
    /// The task.
    pub task: Task,
    /// The lease.
    pub lease: LeaseRef,
    /// How often it was handed out before, without the times it was released untried or its holder was disrupted.
    pub attempt: u32,
}

/// What a claim found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// Tasks, at least one.
    Tasks(Vec<Leased>),
    /// Nothing is eligible now.
    Wait {
        /// Come back then, or when [`Queue::wait`] returns.
        until: Timestamp,
        /// To be given to [`Queue::wait`].
        sequence: u64,
    },
    /// Nothing is left: no task queued, delayed or leased.
    Drained,
    /// The run is frozen.
    Frozen,
}

/// An answer to a request for a permit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permit {
    /// Send now.
    Granted,
    /// Not before this moment.
    Wait {
        /// Ask again then.
        until: Timestamp,
        /// The gate that is closed.
        gate: Gate,
    },
    /// The run is frozen: release the task uncharged.
    Frozen,
}

/// How a lease ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// The lease.
    pub lease: LeaseRef,
    /// How it went.
    pub result: SettleResult,
    /// Records got, against `Documents` budgets.
    pub documents: u64,
    /// Decoded bytes got, against `Bytes` budgets.
    pub bytes: u64,
}

/// How a task went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettleResult {
    /// Done; these follow.
    Done {
        /// Discovered tasks.
        feedback: Vec<Task>,
    },
    /// Try again, not before this long from now.
    Retry {
        /// The delay.
        delay: Duration,
        /// Why, for people.
        why: String,
    },
    /// Will not succeed.
    Dead {
        /// Why, for people.
        why: String,
    },
    /// No longer wanted (a limit was reached, a section was skipped).
    Dropped,
    /// Not done and not tried: back to where it was, uncharged.
    Released,
}

/// What became of one settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Accepted; so many feedback tasks were new and so many had been seen.
    Accepted(Pushed),
    /// The lease was no longer the caller's: nothing was changed.
    Fenced,
}

/// What became of pushed tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pushed {
    /// Queued.
    pub new: u64,
    /// Seen before in this run.
    pub duplicates: u64,
}

/// A server's wish to be left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pushback {
    /// What it did.
    pub kind: PushbackKind,
    /// `Retry-After`, if it gave one.
    pub retry_after: Option<Duration>,
}

/// How a server pushed back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum PushbackKind {
    /// 429.
    TooManyRequests,
    /// 503.
    Unavailable,
    /// No answer in time.
    Timeout,
}

/// Why a holder's leases are freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseCause {
    /// It ended by itself and in order.
    Finished,
    /// It crashed or ran out of memory: the tasks being worked on are charged.
    Crashed,
    /// Eviction, preemption, node loss: nobody's fault.
    Disrupted,
}

/// What releasing a holder did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Released {
    /// Tasks put back.
    pub requeued: u64,
    /// Tasks that reached the limit of charges.
    pub dead: u64,
}

/// What must be open for a request to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "gate")]
pub enum Gate {
    /// The origin asked to be left alone, or failed.
    OriginBackOff {
        /// The origin.
        origin: OriginKey,
    },
    /// The origin's cap on requests under way.
    OriginConcurrency {
        /// The origin.
        origin: OriginKey,
    },
    /// A budget's limit.
    Budget {
        /// The budget.
        budget: BudgetId,
        /// What is used up.
        unit: Unit,
    },
    /// A budget's cap on requests under way.
    BudgetConcurrency {
        /// The budget.
        budget: BudgetId,
    },
    /// The node is suspended.
    NodeSuspended {
        /// The node.
        node: NodeName,
    },
    /// Outside of the hours in which a budget is open.
    Hours {
        /// The budget.
        budget: BudgetId,
    },
    /// A crawler crashed while it worked on what is next: it waits for one that has nothing else under way.
    CrashSuspect {
        /// The node.
        node: NodeName,
    },
    /// A retry's delay.
    Delay,
}

/// A task that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadTask {
    /// The task.
    pub task: Task,
    /// How often it was handed out, without the times it was released untried or its holder was disrupted.
    pub attempts: u32,
    /// How often a crawler crashed while it worked on it.
    pub charges: u32,
    /// Why it failed: its latest failures, the last being the one that ended it.
    pub history: Vec<TaskFailure>,
}

/// One failure of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskFailure {
    /// When.
    pub at: Timestamp,
    /// Why, for people.
    pub why: String,
}

/// What a lane holds and waits for.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LaneStatus {
    /// The origin asked.
    pub origin: OriginKey,
    /// The budget counted against.
    pub budget: BudgetId,
    /// Nodes with work in it, at most twenty named.
    pub nodes: Vec<NodeName>,
    /// Tasks waiting.
    pub queued: u64,
    /// Tasks under way.
    pub leased: u64,
    /// The calls in a second that its budget allows at present; `None`: any number.
    pub calls_per_s: Option<f64>,
    /// The closed gate, and until when, if it waits.
    pub waiting: Option<Waiting>,
}

/// Why something waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// The closed gate.
    #[serde(flatten)]
    pub gate: Gate,
    /// When it opens.
    pub until: Timestamp,
}

/// Why a call was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QueueError {
    /// The run has no queue here: it was closed, or the queue was lost.
    #[error("run {run} has no queue; it was closed or its queue was lost")]
    NoSuchRun {
        /// The run.
        run: RunId,
    },
    /// The run's queue exists already.
    #[error("run {run} has a queue already")]
    RunExists {
        /// The run.
        run: RunId,
    },
    /// All places are taken.
    #[error("run {run} has its {max} crawlers; a token must be released before another can join")]
    NoPlaceFree {
        /// The run.
        run: RunId,
        /// `spec.tokens`.
        max: u32,
    },
    /// A later join took the token.
    #[error("the token {token} of run {run} was taken over by another crawler")]
    Fenced {
        /// The run.
        run: RunId,
        /// The token.
        token: u32,
    },
    /// The lease ended or expired, or belongs to another holder.
    #[error("the lease on the task {task} of run {run} is no longer the caller's")]
    LeaseLost {
        /// The run.
        run: RunId,
        /// The task.
        task: TaskId,
    },
    /// The run is frozen.
    #[error("run {run} is frozen")]
    Frozen {
        /// The run.
        run: RunId,
    },
    /// A node that the run doesn't have.
    #[error("run {run} has no node {node}")]
    NoSuchNode {
        /// The run.
        run: RunId,
        /// The node.
        node: NodeName,
    },
    /// The configuration contradicts itself.
    #[error("run {run} can't be configured so: {why}")]
    BadConfig {
        /// The run.
        run: RunId,
        /// What is wrong.
        why: String,
    },
}

impl QueueError {
    /// What follows for the crawler that was refused.
    pub fn outcome(&self) -> Outcome {
        Outcome::Terminal
    }
}
