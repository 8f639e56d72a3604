//! A queue that is away for a while, or forgets to answer, as a server behind a network does.
#![expect(clippy::unwrap_used, reason = "a helper of tests fails the test")]

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use jiff::Timestamp;
use trawler::queue::{
    Claim, DeadTask, Holder, HolderStatus, JoinRequest, LaneStatus, LeaseRef, Ledger, Permit, Pushback, Pushed, Queue,
    QueueError, QueuedTask, ReleaseCause, Released, RunConfig, RunStatus, Settled, Settlement, SharedQueue, Woken,
};
use trawler::task::{NodeName, OriginKey, RunId, Task, TaskId};

/// Stands before a queue.
#[derive(Debug)]
pub(crate) struct MoodyQueue {
    queue: SharedQueue,
    /// So many calls are not answered, and have no effect.
    pub(crate) away_for: AtomicU32,
    /// So many claims take effect and are not answered.
    pub(crate) claims_unanswered: AtomicU32,
    /// What all calls are answered with.
    pub(crate) refuses: Mutex<Option<QueueError>>,
    /// Calls that were not answered.
    pub(crate) unanswered: AtomicU32,
}

impl MoodyQueue {
    pub(crate) fn new(queue: SharedQueue) -> Self {
        Self {
            queue,
            away_for: AtomicU32::new(0),
            claims_unanswered: AtomicU32::new(0),
            refuses: Mutex::default(),
            unanswered: AtomicU32::new(0),
        }
    }

    fn unanswered(&self) -> QueueError {
        self.unanswered.fetch_add(1, Ordering::SeqCst);
        QueueError::Unreachable { why: "connection refused".to_owned() }
    }

    fn mood(&self) -> Result<&SharedQueue, QueueError> {
        if let Some(error) = self.refuses.lock().unwrap().clone() {
            return Err(error);
        }
        if is_one_left(&self.away_for) { Err(self.unanswered()) } else { Ok(&self.queue) }
    }
}

fn is_one_left(counter: &AtomicU32) -> bool {
    counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

#[async_trait]
impl Queue for MoodyQueue {
    async fn open(&self, config: RunConfig) -> Result<(), QueueError> {
        self.mood()?.open(config).await
    }
    async fn configure(&self, config: RunConfig) -> Result<(), QueueError> {
        self.mood()?.configure(config).await
    }
    async fn push(&self, run: &RunId, tasks: Vec<Task>) -> Result<Pushed, QueueError> {
        self.mood()?.push(run, tasks).await
    }
    async fn join(&self, request: JoinRequest) -> Result<Holder, QueueError> {
        self.mood()?.join(request).await
    }
    async fn claim(&self, holder: &Holder, max: usize) -> Result<Claim, QueueError> {
        let claim = self.mood()?.claim(holder, max).await?;
        let is_lost = matches!(claim, Claim::Tasks(_)) && is_one_left(&self.claims_unanswered);
        if is_lost { Err(self.unanswered()) } else { Ok(claim) }
    }
    async fn permit(&self, holder: &Holder, lease: &LeaseRef, origin: &OriginKey) -> Result<Permit, QueueError> {
        self.mood()?.permit(holder, lease, origin).await
    }
    async fn settle(&self, holder: &Holder, settlements: Vec<Settlement>) -> Result<Vec<Settled>, QueueError> {
        self.mood()?.settle(holder, settlements).await
    }
    async fn renew(&self, holder: &Holder, leases: &[LeaseRef]) -> Result<Vec<LeaseRef>, QueueError> {
        self.mood()?.renew(holder, leases).await
    }
    async fn pushback(
        &self,
        holder: &Holder,
        origin: &OriginKey,
        pushback: Pushback,
    ) -> Result<Option<Timestamp>, QueueError> {
        self.mood()?.pushback(holder, origin, pushback).await
    }
    async fn release_holder(&self, run: &RunId, token: u32, cause: ReleaseCause) -> Result<Released, QueueError> {
        self.mood()?.release_holder(run, token, cause).await
    }
    async fn suspend_node(&self, run: &RunId, node: &NodeName, suspended: bool) -> Result<(), QueueError> {
        self.mood()?.suspend_node(run, node, suspended).await
    }
    async fn freeze(&self, run: &RunId) -> Result<(), QueueError> {
        self.mood()?.freeze(run).await
    }
    async fn thaw(&self, run: &RunId) -> Result<(), QueueError> {
        self.mood()?.thaw(run).await
    }
    async fn ledger(&self, run: &RunId) -> Result<Ledger, QueueError> {
        self.mood()?.ledger(run).await
    }
    async fn lanes(&self, run: &RunId, limit: usize) -> Result<Vec<LaneStatus>, QueueError> {
        self.mood()?.lanes(run, limit).await
    }
    async fn dead(&self, run: &RunId, limit: usize) -> Result<Vec<DeadTask>, QueueError> {
        self.mood()?.dead(run, limit).await
    }
    async fn runs(&self) -> Result<Vec<RunStatus>, QueueError> {
        self.mood()?.runs().await
    }
    async fn holders(&self, run: &RunId) -> Result<Vec<HolderStatus>, QueueError> {
        self.mood()?.holders(run).await
    }
    async fn peek(&self, run: &RunId, limit: usize) -> Result<Vec<QueuedTask>, QueueError> {
        self.mood()?.peek(run, limit).await
    }
    async fn retry_dead(&self, run: &RunId, tasks: Option<&[TaskId]>) -> Result<u64, QueueError> {
        self.mood()?.retry_dead(run, tasks).await
    }
    async fn drop_tasks(&self, run: &RunId, tasks: &[TaskId]) -> Result<u64, QueueError> {
        self.mood()?.drop_tasks(run, tasks).await
    }
    async fn brief(&self, run: &RunId) -> Result<Arc<str>, QueueError> {
        self.mood()?.brief(run).await
    }
    async fn node_briefs(&self, run: &RunId, nodes: &[NodeName]) -> Result<Vec<Option<Arc<str>>>, QueueError> {
        self.mood()?.node_briefs(run, nodes).await
    }
    async fn audit(&self, run: &RunId) -> Result<Vec<String>, QueueError> {
        self.mood()?.audit(run).await
    }
    async fn wait(&self, run: &RunId, seen: u64, until: Timestamp) -> Result<Woken, QueueError> {
        self.mood()?.wait(run, seen, until).await
    }
    async fn close(&self, run: &RunId) -> Result<(), QueueError> {
        self.mood()?.close(run).await
    }
}
