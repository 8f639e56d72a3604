//! The queue in memory: the embedded default, and the model that other adapters are compared with. It is lost with
//! its process; the store re-seeds it.
//!
//! One mutex for the instance, never held across an await; time comes from the clock alone and is caught up with at the
//! start of each call. Costs stand with the operations in [`Queue`].

mod audit;
#[cfg(test)]
mod bounds;
mod configure;
mod failures;
mod gates;
mod inspect;
mod instance;
mod lanes;
mod leases;
mod node_queue;
mod reserved;
mod right_of_way;
mod run;
mod settle;
mod status;
mod suspects;
mod turns;
mod waiting;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use self::instance::Instance;
use self::run::Call;
use super::gate::Moment;
use super::{
    Claim, DeadTask, Holder, HolderStatus, JoinRequest, LaneStatus, LeaseRef, Ledger, Permit, Pushback, Pushed, Queue,
    QueueError, QueuedTask, ReleaseCause, Released, RunConfig, RunStatus, Settled, Settlement, Woken,
};
use crate::clock::SharedClock;
use crate::task::{NodeName, OriginKey, RunId, Task, TaskId};

/// The queue in memory.
#[derive(Debug)]
pub struct MemoryQueue {
    clock: SharedClock,
    instance: Mutex<Instance>,
}

impl MemoryQueue {
    /// An empty queue.
    pub fn new(clock: SharedClock) -> Self {
        Self { clock, instance: Mutex::default() }
    }

    /// A panic elsewhere leaves the state as it is: it is repaired by `audit`, not by refusing everybody.
    fn lock(&self) -> MutexGuard<'_, Instance> {
        self.instance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings a run up to the present, works on it, and rings if that changed something for those who wait.
    fn with<T>(&self, run: &RunId, work: impl FnOnce(&mut Call<'_>) -> T) -> Result<T, QueueError> {
        let mut instance = self.lock();
        // Asked for under the lock: else a slower caller's older reading could come after a newer one.
        let now = self.now();
        instance.call(run, now, work)
    }

    fn now(&self) -> Moment {
        self.clock.now().into()
    }
}

#[async_trait]
impl Queue for MemoryQueue {
    async fn open(&self, config: RunConfig) -> Result<(), QueueError> {
        let mut instance = self.lock();
        let now = self.now();
        instance.open(config, now)
    }

    async fn configure(&self, config: RunConfig) -> Result<(), QueueError> {
        let id = config.run.clone();
        self.with(&id, |call| call.configure(config))?
    }

    async fn push(&self, run: &RunId, tasks: Vec<Task>) -> Result<Pushed, QueueError> {
        self.with(run, |call| call.push(tasks))?
    }

    async fn join(&self, request: JoinRequest) -> Result<Holder, QueueError> {
        let id = request.run.clone();
        self.with(&id, |call| call.join(request))?
    }

    async fn claim(&self, holder: &Holder, max: usize) -> Result<Claim, QueueError> {
        let mut instance = self.lock();
        let now = self.now();
        instance.claim(&holder.run, now, |call| call.claim(holder, max))
    }

    async fn permit(&self, holder: &Holder, lease: &LeaseRef, origin: &OriginKey) -> Result<Permit, QueueError> {
        self.with(&holder.run, |call| call.permit(holder, *lease, origin))?
    }

    async fn settle(&self, holder: &Holder, settlements: Vec<Settlement>) -> Result<Vec<Settled>, QueueError> {
        self.with(&holder.run, |call| call.settle(holder, settlements))?
    }

    async fn renew(&self, holder: &Holder, leases: &[LeaseRef]) -> Result<Vec<LeaseRef>, QueueError> {
        self.with(&holder.run, |call| call.renew(holder, leases))?
    }

    async fn pushback(
        &self,
        holder: &Holder,
        origin: &OriginKey,
        pushback: Pushback,
    ) -> Result<Option<Timestamp>, QueueError> {
        self.with(&holder.run, |call| call.pushback(holder, origin, pushback))?
    }

    async fn release_holder(&self, run: &RunId, token: u32, cause: ReleaseCause) -> Result<Released, QueueError> {
        self.with(run, |call| call.release_holder(token, cause))
    }

    async fn suspend_node(&self, run: &RunId, node: &NodeName, suspended: bool) -> Result<(), QueueError> {
        self.with(run, |call| call.suspend_node(node, suspended))?
    }

    async fn freeze(&self, run: &RunId) -> Result<(), QueueError> {
        self.with(run, |call| call.set_frozen(true))
    }

    async fn thaw(&self, run: &RunId) -> Result<(), QueueError> {
        self.with(run, |call| call.set_frozen(false))
    }

    async fn ledger(&self, run: &RunId) -> Result<Ledger, QueueError> {
        self.with(run, |call| call.run.ledger)
    }

    async fn lanes(&self, run: &RunId, limit: usize) -> Result<Vec<LaneStatus>, QueueError> {
        self.with(run, |call| call.lane_statuses(limit))
    }

    async fn dead(&self, run: &RunId, limit: usize) -> Result<Vec<DeadTask>, QueueError> {
        self.with(run, |call| call.run.failures.dead(limit))
    }

    async fn audit(&self, run: &RunId) -> Result<Vec<String>, QueueError> {
        #[expect(
            clippy::redundant_closure_for_method_calls,
            reason = "the method alone is for one lifetime of the call"
        )]
        self.with(run, |call| call.audit())
    }

    async fn runs(&self) -> Result<Vec<RunStatus>, QueueError> {
        let mut instance = self.lock();
        let now = self.now();
        let ids = instance.run_ids();
        ids.iter().map(|run| instance.call(run, now, |call| call.run_status())).collect()
    }

    async fn holders(&self, run: &RunId) -> Result<Vec<HolderStatus>, QueueError> {
        self.with(run, |call| call.holder_statuses())
    }

    async fn peek(&self, run: &RunId, limit: usize) -> Result<Vec<QueuedTask>, QueueError> {
        self.with(run, |call| call.peek(limit))
    }

    async fn retry_dead(&self, run: &RunId, tasks: Option<&[TaskId]>) -> Result<u64, QueueError> {
        self.with(run, |call| call.retry_dead(tasks))
    }

    async fn drop_tasks(&self, run: &RunId, tasks: &[TaskId]) -> Result<u64, QueueError> {
        self.with(run, |call| call.drop_tasks(tasks))
    }

    async fn brief(&self, run: &RunId) -> Result<Arc<str>, QueueError> {
        self.with(run, |call| call.run.brief.clone())
    }

    async fn node_briefs(&self, run: &RunId, nodes: &[NodeName]) -> Result<Vec<Option<Arc<str>>>, QueueError> {
        self.with(run, |call| nodes.iter().map(|node| call.node_brief(node)).collect())
    }

    async fn wait(&self, run: &RunId, seen: u64, until: Timestamp) -> Result<Woken, QueueError> {
        let mut sequence = self.lock().subscribe(run)?;
        if *sequence.borrow() > seen {
            return Ok(Woken::Changed);
        }
        let left = until.duration_since(self.clock.now());
        let left = Duration::try_from(left).unwrap_or(Duration::ZERO);
        if left.is_zero() {
            return Ok(Woken::Moment);
        }
        tokio::select! {
            changed = sequence.wait_for(|sequence| *sequence > seen) => match changed {
                Ok(_) => Ok(Woken::Changed),
                Err(_) => Err(QueueError::NoSuchRun { run: run.clone() }),
            },
            () = tokio::time::sleep(left) => Ok(Woken::Moment),
        }
    }

    async fn close(&self, run: &RunId) -> Result<(), QueueError> {
        let mut instance = self.lock();
        let now = self.now();
        instance.close(run, now);
        Ok(())
    }
}
