//! Time that passes when nothing else can happen: a clock, and a queue that moves it instead of waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use trawler::clock::Clock;
use trawler::queue::memory::MemoryQueue;
use trawler::queue::*;
use trawler::task::{NodeName, OriginKey, RunId, Task, TaskId};

/// A clock that is moved.
#[derive(Debug)]
pub(crate) struct JumpingClock(AtomicI64);

impl JumpingClock {
    pub(crate) fn new() -> Self {
        Self(AtomicI64::new(1_800_000_000_000_000))
    }

    /// Moves forward to this moment, never back.
    fn jump_to(&self, moment: Timestamp) {
        self.0.fetch_max(moment.as_microsecond() + 1, Ordering::SeqCst);
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_micros()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for JumpingClock {
    fn now(&self) -> Timestamp {
        // A microsecond each time: two moments are never the same.
        Timestamp::from_microsecond(self.0.fetch_add(1, Ordering::SeqCst)).unwrap()
    }
}

/// The memory queue, without the waiting: when no task is under way, only time can open a gate, so time jumps.
#[derive(Debug)]
pub(crate) struct ImpatientQueue {
    queue: MemoryQueue,
    clock: Arc<JumpingClock>,
}

impl ImpatientQueue {
    pub(crate) fn new(clock: Arc<JumpingClock>) -> Self {
        Self { queue: MemoryQueue::new(clock.clone()), clock }
    }
}

#[async_trait]
impl Queue for ImpatientQueue {
    async fn wait(&self, run: &RunId, seen: u64, until: Timestamp) -> Result<Woken, QueueError> {
        let soon = Duration::from_millis(1);
        while tokio::time::timeout(soon, self.queue.wait(run, seen, Timestamp::MAX)).await.is_err() {
            if self.queue.ledger(run).await?.leased == 0 {
                self.clock.jump_to(until);
                return Ok(Woken::Moment);
            }
        }
        Ok(Woken::Changed)
    }

    async fn open(&self, config: RunConfig) -> Result<(), QueueError> {
        self.queue.open(config).await
    }

    async fn configure(&self, config: RunConfig) -> Result<(), QueueError> {
        self.queue.configure(config).await
    }

    async fn push(&self, run: &RunId, tasks: Vec<Task>) -> Result<Pushed, QueueError> {
        self.queue.push(run, tasks).await
    }

    async fn join(&self, request: JoinRequest) -> Result<Holder, QueueError> {
        self.queue.join(request).await
    }

    async fn claim(&self, holder: &Holder, max: usize) -> Result<Claim, QueueError> {
        self.queue.claim(holder, max).await
    }

    async fn permit(&self, holder: &Holder, lease: &LeaseRef, origin: &OriginKey) -> Result<Permit, QueueError> {
        self.queue.permit(holder, lease, origin).await
    }

    async fn settle(&self, holder: &Holder, settlements: Vec<Settlement>) -> Result<Vec<Settled>, QueueError> {
        self.queue.settle(holder, settlements).await
    }

    async fn renew(&self, holder: &Holder, leases: &[LeaseRef]) -> Result<Vec<LeaseRef>, QueueError> {
        self.queue.renew(holder, leases).await
    }

    async fn pushback(
        &self,
        holder: &Holder,
        origin: &OriginKey,
        pushback: Pushback,
    ) -> Result<Option<Timestamp>, QueueError> {
        self.queue.pushback(holder, origin, pushback).await
    }

    async fn release_holder(&self, run: &RunId, token: u32, cause: ReleaseCause) -> Result<Released, QueueError> {
        self.queue.release_holder(run, token, cause).await
    }

    async fn suspend_node(&self, run: &RunId, node: &NodeName, suspended: bool) -> Result<(), QueueError> {
        self.queue.suspend_node(run, node, suspended).await
    }

    async fn freeze(&self, run: &RunId) -> Result<(), QueueError> {
        self.queue.freeze(run).await
    }

    async fn thaw(&self, run: &RunId) -> Result<(), QueueError> {
        self.queue.thaw(run).await
    }

    async fn ledger(&self, run: &RunId) -> Result<Ledger, QueueError> {
        self.queue.ledger(run).await
    }

    async fn lanes(&self, run: &RunId, limit: usize) -> Result<Vec<LaneStatus>, QueueError> {
        self.queue.lanes(run, limit).await
    }

    async fn dead(&self, run: &RunId, limit: usize) -> Result<Vec<DeadTask>, QueueError> {
        self.queue.dead(run, limit).await
    }

    async fn runs(&self) -> Result<Vec<RunStatus>, QueueError> {
        self.queue.runs().await
    }

    async fn holders(&self, run: &RunId) -> Result<Vec<HolderStatus>, QueueError> {
        self.queue.holders(run).await
    }

    async fn peek(&self, run: &RunId, limit: usize) -> Result<Vec<QueuedTask>, QueueError> {
        self.queue.peek(run, limit).await
    }

    async fn retry_dead(&self, run: &RunId, tasks: Option<&[TaskId]>) -> Result<u64, QueueError> {
        self.queue.retry_dead(run, tasks).await
    }

    async fn drop_tasks(&self, run: &RunId, tasks: &[TaskId]) -> Result<u64, QueueError> {
        self.queue.drop_tasks(run, tasks).await
    }

    async fn brief(&self, run: &RunId) -> Result<Arc<str>, QueueError> {
        self.queue.brief(run).await
    }

    async fn node_briefs(&self, run: &RunId, nodes: &[NodeName]) -> Result<Vec<Option<Arc<str>>>, QueueError> {
        self.queue.node_briefs(run, nodes).await
    }

    async fn audit(&self, run: &RunId) -> Result<Vec<String>, QueueError> {
        self.queue.audit(run).await
    }

    async fn close(&self, run: &RunId) -> Result<(), QueueError> {
        self.queue.close(run).await
    }
}
