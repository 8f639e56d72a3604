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
//! # Gates
//! Budgets and origins belong to the instance: runs that name the same budget or ask the same origin share it. At a shared
//! budget runs go by their weight: who was told to wait goes first for 50 ms after its moment, so a run may be told to
//! come back a moment later though the gate is open. Places at an origin go to whoever comes first.
//!
//! # Order
//! Lanes (tasks that share origin, budget and crawler group) take turns; inside a lane nodes take turns of a quantum of
//! [`TURN_TASKS`] tasks; inside a node tasks go by [`ItemStatus`](crate::task::ItemStatus), then oldest first.
//! What was being worked on in a crash takes no turns: it is handed out alone, to a holder that has nothing else.

mod check;
mod claim;
mod error;
pub mod gate;
pub mod memory;
mod patience;
pub mod redis;
mod settle;
mod status;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use self::check::check_config;
pub use self::claim::{Claim, Holder, JoinRequest, LeaseRef, Leased, Permit};
pub use self::error::QueueError;
pub use self::patience::Patience;
pub use self::settle::{Pushback, PushbackKind, Pushed, ReleaseCause, Released, SettleResult, Settled, Settlement};
pub use self::status::{DeadTask, Gate, HolderStatus, LaneStatus, QueuedTask, RunStatus, TaskState, Waiting, Woken};
pub use crate::finding::TaskFailure;
pub use crate::flow::{
    BudgetConfig, BudgetId, BudgetLimit, ClosedOrigin, Ledger, NodeConfig, OpenInterval, OriginProtection, RunConfig,
    SHORT_WINDOW, SPENT_STRETCH, Spent, Unit,
};
use crate::task::{NodeName, OriginKey, RunId, Task, TaskId};

/// A node's turn in its lane: so many tasks, then the next node.
pub const TURN_TASKS: u32 = 25;

/// A claim gives no more tasks than this, whatever was asked.
pub const MAX_CLAIM_TASKS: usize = 1000;

/// A permit that was not used within this time is void: what was permitted when must say what a server sees when.
pub const PERMIT_LASTS: Duration = Duration::from_millis(250);

/// When to ask again for a permit that waits for another request to end.
pub const PERMIT_RETRY: Duration = Duration::from_millis(50);

/// The queue of an instance's runs. See the module's guarantees.
///
/// Every operation is atomic, and takes effect at one moment of the queue's own clock, which never goes back. All data is
/// plain and all moments are absolute, so that any adapter can keep the contract. Costs: n tasks of the run, k tasks
/// handed in or out; *gates* are the budgets and origins that a run has.
///
/// Every operation but [`open`](Queue::open) and [`close`](Queue::close) fails with [`QueueError::NoSuchRun`] if the run
/// is not open: a caller that knew it has lost its queue. What a call refuses it refuses as a whole: nothing was changed.
#[async_trait]
pub trait Queue: Send + Sync + std::fmt::Debug {
    /// Makes the run's queue: empty, not frozen, without holders.
    ///
    /// - After it: nodes and gates are known. A budget that the instance knows already keeps what was spent and takes
    ///   over this configuration; a new one begins with what [`BudgetConfig::spent`] says. Origins of
    ///   [`RunConfig::closed_origins`] back off until then at least, but not for longer than
    ///   [`OriginProtection::max_backoff`] from now: a clock that was wrong closes none for ever.
    /// - Errors: [`RunExists`](QueueError::RunExists); [`BadConfig`](QueueError::BadConfig) if the configuration
    ///   contradicts itself.
    /// - Cost: O(nodes + gates + closed origins).
    async fn open(&self, config: RunConfig) -> Result<(), QueueError>;

    /// Replaces nodes and gates of a live run.
    ///
    /// - After it: leases, places in line, holders and what was spent are as before. Nodes move to other budgets and groups
    ///   with their tasks. What a node that is no longer named has left is dropped, and so is what comes back of it.
    ///   Of runs that share a budget, the latest configuration holds.
    /// - Errors: [`BadConfig`](QueueError::BadConfig).
    /// - Cost: O(nodes + gates + tasks of removed and moved nodes).
    async fn configure(&self, config: RunConfig) -> Result<(), QueueError>;

    /// Puts in tasks.
    ///
    /// - After it: those whose id the run has never seen are queued behind the others of their status, in this order; the
    ///   rest are counted as duplicates.
    /// - Errors: [`Frozen`](QueueError::Frozen); [`NoSuchNode`](QueueError::NoSuchNode) if any is of an unknown node.
    /// - Cost: O(k log n).
    async fn push(&self, run: &RunId, tasks: Vec<Task>) -> Result<Pushed, QueueError>;

    /// Makes the caller the holder of a token.
    ///
    /// - After it: the token's earlier holder is fenced, its tasks are back in their places, uncharged.
    /// - Errors: [`NoPlaceFree`](QueueError::NoPlaceFree) if the token is new and [`RunConfig::max_holders`] have joined.
    /// - Cost: O(leases of the run).
    async fn join(&self, request: JoinRequest) -> Result<Holder, QueueError>;

    /// Takes up to `max` tasks (at most [`MAX_CLAIM_TASKS`]) of the holder's group in their order, each with a permit for
    /// its first request, which is void after [`PERMIT_LASTS`]: claim what can be sent at once.
    ///
    /// - After it: every task given has a lease that ends after [`RunConfig::lease`] unless it is renewed, and its gates
    ///   are charged. Fewer than `max` were given only if every other task stands behind a gate, or the holder is kept free for a
    ///   task that was being worked on in a crash: that is given alone. `Wait` names a moment no later than the one at
    ///   which time alone makes a task eligible; a call that does so earlier ends [`wait`](Queue::wait).
    /// - Errors: [`Fenced`](QueueError::Fenced).
    /// - Cost: O(k log n), and O(1) for each gate that is found closed: it is not met again until it may have opened. With
    ///   tasks that were in a crash, also O(their nodes).
    async fn claim(&self, holder: &Holder, max: usize) -> Result<Claim, QueueError>;

    /// Leave to send one more request (redirect, retry, token fetch) to this origin for a leased task, now. One to the
    /// task's own origin costs what the first one did, one to another origin a single call, all of the task's budget.
    ///
    /// - After it: `Granted` charged the gates, and counts at the origin instead of where the task's last request went.
    ///   `Wait` for a budget keeps the calls for this lease until a second after the moment: nobody overtakes it for ever.
    /// - Errors: [`Fenced`](QueueError::Fenced); [`LeaseLost`](QueueError::LeaseLost) if the lease is not the caller's.
    /// - Cost: O(log n + permits that wait at the budget).
    async fn permit(&self, holder: &Holder, lease: &LeaseRef, origin: &OriginKey) -> Result<Permit, QueueError>;

    /// Ends leases, each with its feedback. Taken while frozen, too.
    ///
    /// - After it: what each lease held at its gates is free, what it brought is charged, what it discovered is queued as by
    ///   [`push`](Queue::push), and the task is done, dead, dropped, delayed, or back in its place. A lease that was no
    ///   longer the caller's is answered `Fenced`, changes nothing, and spoils nothing.
    /// - Errors: [`Fenced`](QueueError::Fenced); [`NoSuchNode`](QueueError::NoSuchNode) if any feedback is of a node that
    ///   the run never had.
    /// - Cost: O(k log n) with its feedback.
    async fn settle(&self, holder: &Holder, settlements: Vec<Settlement>) -> Result<Vec<Settled>, QueueError>;

    /// [`settle`](Queue::settle), if there is anything to settle, then [`claim`](Queue::claim): in one round trip, where that is
    /// one.
    ///
    /// - Errors: those of both. After [`Unreachable`](QueueError::Unreachable) either may have taken effect.
    async fn settle_and_claim(
        &self,
        holder: &Holder,
        settlements: Vec<Settlement>,
        max: usize,
    ) -> Result<(Vec<Settled>, Claim), QueueError> {
        let settled = if settlements.is_empty() { Vec::new() } else { self.settle(holder, settlements).await? };
        Ok((settled, self.claim(holder, max).await?))
    }

    /// Lengthens leases: each ends [`RunConfig::lease`] from now. Returns those that are no longer the caller's.
    ///
    /// - Errors: [`Fenced`](QueueError::Fenced).
    /// - Cost: O(log n) each.
    async fn renew(&self, holder: &Holder, leases: &[LeaseRef]) -> Result<Vec<LeaseRef>, QueueError>;

    /// Tells that a server pushed back on a request of the holder's. Returns until when the origin is left alone, to be
    /// remembered beyond this queue ([`RunConfig::closed_origins`]); `None`: this says nothing new, and it is not.
    ///
    /// - After it: nobody's request goes to the origin until its back-off ends. A new event doubles the back-off and slows
    ///   the budgets of the holder's requests there; all pushbacks of one moment, and answers to requests that were sent
    ///   before the last event, are no new event and can only lengthen the back-off.
    /// - Errors: [`Fenced`](QueueError::Fenced).
    /// - Cost: O(leases of the run).
    async fn pushback(
        &self,
        holder: &Holder,
        origin: &OriginKey,
        pushback: Pushback,
    ) -> Result<Option<Timestamp>, QueueError>;

    /// Frees a token and all leases of its holder, who is fenced. A token that nobody holds is fine.
    ///
    /// - After it: the tasks are back in their places. `Crashed` charges them; one that was charged
    ///   [`RunConfig::max_charges`] times is dead, the others are handed out alone until they are settled.
    /// - Cost: O(leases of the run).
    async fn release_holder(&self, run: &RunId, token: u32, cause: ReleaseCause) -> Result<Released, QueueError>;

    /// Stops (or resumes) handing out a node's tasks; leases, and other nodes, are not affected. Idempotent.
    ///
    /// - Errors: [`NoSuchNode`](QueueError::NoSuchNode).
    /// - Cost: O(origins of the node).
    async fn suspend_node(&self, run: &RunId, node: &NodeName, suspended: bool) -> Result<(), QueueError>;

    /// Stops handing out tasks and permits, and taking pushes. Leases go on, and settle with their feedback. Idempotent.
    ///
    /// - Cost: O(gates).
    async fn freeze(&self, run: &RunId) -> Result<(), QueueError>;

    /// Lifts a freeze. Idempotent.
    ///
    /// - Cost: O(1).
    async fn thaw(&self, run: &RunId) -> Result<(), QueueError>;

    /// The run's conserved account: [`Ledger::is_balanced`] holds after every call.
    ///
    /// - Cost: O(1).
    async fn ledger(&self, run: &RunId) -> Result<Ledger, QueueError>;

    /// What each lane with tasks holds and what it waits for; at most `limit`, the longest waiting first. Their sums are
    /// the ledger's queued and delayed, and leased.
    ///
    /// - Cost: O(n).
    async fn lanes(&self, run: &RunId, limit: usize) -> Result<Vec<LaneStatus>, QueueError>;

    /// The run's dead tasks with why they died, oldest death first, at most `limit`. The first [`MAX_DEAD_KEPT`] are
    /// kept, each with its latest [`TaskFailure::MAX_KEPT`] failures; the ledger counts all. Tasks that come again have their
    /// failures remembered for that, 10,000 of them at a time.
    ///
    /// - Cost: O(k).
    async fn dead(&self, run: &RunId, limit: usize) -> Result<Vec<DeadTask>, QueueError>;

    /// The runs of the instance, in the order of their ids.
    ///
    /// - Cost: O(runs).
    async fn runs(&self) -> Result<Vec<RunStatus>, QueueError>;

    /// Who has joined, in the order of their tokens.
    ///
    /// - Cost: O(holders).
    async fn holders(&self, run: &RunId) -> Result<Vec<HolderStatus>, QueueError>;

    /// Tasks that are queued, delayed or leased, at most `limit`, in no particular order but by node. A look for people.
    ///
    /// - Cost: O(n).
    async fn peek(&self, run: &RunId, limit: usize) -> Result<Vec<QueuedTask>, QueueError>;

    /// Puts dead tasks back: those named, or all. Returns how many were put back.
    ///
    /// - After it: they are queued behind the others of their status, without charges, attempts and history. Only those
    ///   that are kept ([`Queue::dead`]) can be put back; those of a removed node are dropped.
    /// - Cost: O(k log n).
    async fn retry_dead(&self, run: &RunId, tasks: Option<&[TaskId]>) -> Result<u64, QueueError>;

    /// Drops tasks that are queued or delayed. Returns how many were.
    ///
    /// - Cost: O(k log n).
    async fn drop_tasks(&self, run: &RunId, tasks: &[TaskId]) -> Result<u64, QueueError>;

    /// What whoever opened the run has to say to its crawlers ([`RunConfig::brief`]).
    ///
    /// - Cost: O(1).
    async fn brief(&self, run: &RunId) -> Result<Arc<str>, QueueError>;

    /// What crawlers are to know of these nodes ([`NodeConfig::brief`]); `None` for those that the run never had.
    ///
    /// - Cost: O(k).
    async fn node_briefs(&self, run: &RunId, nodes: &[NodeName]) -> Result<Vec<Option<Arc<str>>>, QueueError>;

    /// Recounts everything, checks that what is ready can be reached, repairs, and reports what it repaired: nothing, if
    /// the adapter is right.
    ///
    /// - Cost: O(n).
    async fn audit(&self, run: &RunId) -> Result<Vec<String>, QueueError>;

    /// Returns when something may have become claimable since `seen` (a [`Claim::Wait`]'s `sequence`), at the latest
    /// at `until`. May return early, never late; a change between the claim and this call is not missed. Once `until` has
    /// passed it returns at once, and says whether anything changed before.
    ///
    /// - Errors: [`NoSuchRun`](QueueError::NoSuchRun) also if the run is closed meanwhile.
    async fn wait(&self, run: &RunId, seen: u64, until: Timestamp) -> Result<Woken, QueueError>;

    /// Forgets the run. Idempotent.
    ///
    /// - After it: what its leases held at gates is free for other runs; what it spent, and what servers asked for, is
    ///   remembered. A run of the same name can be opened, and knows nothing of it.
    /// - Cost: O(n).
    async fn close(&self, run: &RunId) -> Result<(), QueueError>;
}

/// A shared queue.
pub type SharedQueue = Arc<dyn Queue>;

/// Dead tasks of a run that are kept with their history.
pub const MAX_DEAD_KEPT: usize = 1000;
