//! A sound queue behind a defect. Each call asks [`defects`](super::defects) first what goes in, and then what comes
//! out.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;
use trawler::clock::SharedClock;
use trawler::queue::{
    Claim, DeadTask, Holder, HolderStatus, JoinRequest, LaneStatus, LeaseRef, Leased, Ledger, Permit, Pushback, Pushed,
    Queue, QueueError, QueuedTask, ReleaseCause, Released, RunConfig, RunStatus, SettleResult, Settled, Settlement,
    SharedQueue, Woken,
};
use trawler::task::{NodeName, OriginKey, RunId, Task, TaskId};

use super::Fault;

#[derive(Debug)]
pub(super) struct Faulty {
    pub(super) inner: SharedQueue,
    pub(super) fault: Fault,
    pub(super) clock: SharedClock,
    memory: Mutex<Memory>,
}

/// What some defects need to know.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) calls: u64,
    pub(super) holders: HashMap<(RunId, u32), Holder>,
    pub(super) leases: BTreeMap<(RunId, TaskId), (Holder, Leased)>,
    pub(super) suspended: HashSet<(RunId, NodeName)>,
    /// As pushed.
    pub(super) tasks: HashMap<TaskId, Task>,
}

impl Faulty {
    pub(super) fn new(inner: SharedQueue, fault: Fault, clock: SharedClock) -> Self {
        Self { inner, fault, clock, memory: Mutex::default() }
    }

    pub(super) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    /// Every so many calls.
    pub(super) fn now_and_then(&self, every: u64) -> bool {
        let mut memory = self.memory();
        memory.calls += 1;
        memory.calls.is_multiple_of(every)
    }
}

#[async_trait]
impl Queue for Faulty {
    async fn open(&self, config: RunConfig) -> Result<(), QueueError> {
        self.inner.open(self.configured(config)).await
    }

    async fn configure(&self, config: RunConfig) -> Result<(), QueueError> {
        self.inner.configure(self.configured(config)).await
    }

    async fn push(&self, run: &RunId, tasks: Vec<Task>) -> Result<Pushed, QueueError> {
        let tasks = tasks.into_iter().map(|task| self.pushed(task)).collect();
        self.inner.push(run, tasks).await
    }

    async fn join(&self, request: JoinRequest) -> Result<Holder, QueueError> {
        let group = request.group.clone();
        let request = self.joining(request);
        let holder = Holder { group, ..self.inner.join(request).await? };
        self.memory().holders.insert((holder.run.clone(), holder.token), holder.clone());
        Ok(holder)
    }

    async fn claim(&self, holder: &Holder, max: usize) -> Result<Claim, QueueError> {
        self.keep_leases().await;
        let claim = self.claimed(holder, max).await?;
        let claim = self.answered(claim, holder);
        if let Claim::Tasks(tasks) = &claim {
            let mut memory = self.memory();
            for leased in tasks {
                let key = (holder.run.clone(), leased.task.id);
                memory.leases.insert(key, (holder.clone(), leased.clone()));
            }
        }
        Ok(claim)
    }

    async fn permit(&self, holder: &Holder, lease: &LeaseRef, origin: &OriginKey) -> Result<Permit, QueueError> {
        self.keep_leases().await;
        Ok(self.permitted(self.inner.permit(holder, lease, origin).await?))
    }

    async fn settle(&self, holder: &Holder, settlements: Vec<Settlement>) -> Result<Vec<Settled>, QueueError> {
        self.keep_leases().await;
        let (holder, settlements) = self.settling(holder, settlements);
        let ended: Vec<TaskId> = settlements.iter().map(|settlement| settlement.lease.task).collect();
        let feedback: Vec<usize> = settlements.iter().map(feedback).collect();
        let settlements = settlements.into_iter().map(|settlement| self.settlement(settlement)).collect();
        let settled = self.inner.settle(&holder, settlements).await?;
        self.memory().leases.retain(|(run, id), _| *run != holder.run || !ended.contains(id));
        Ok(settled.into_iter().zip(feedback).map(|(settled, feedback)| self.settled(settled, feedback)).collect())
    }

    async fn renew(&self, holder: &Holder, leases: &[LeaseRef]) -> Result<Vec<LeaseRef>, QueueError> {
        self.inner.renew(holder, leases).await
    }

    async fn pushback(
        &self,
        holder: &Holder,
        origin: &OriginKey,
        pushback: Pushback,
    ) -> Result<Option<Timestamp>, QueueError> {
        if self.has(Fault::IgnoresPushbacks) {
            // Told of another origin, it says what it should, and does nothing.
            let elsewhere = OriginKey::from(format!("{origin}/elsewhere"));
            return self.inner.pushback(holder, &elsewhere, pushback).await;
        }
        self.inner.pushback(holder, origin, pushback).await
    }

    async fn release_holder(&self, run: &RunId, token: u32, cause: ReleaseCause) -> Result<Released, QueueError> {
        self.releasing(run, token, cause).await
    }

    async fn suspend_node(&self, run: &RunId, node: &NodeName, suspended: bool) -> Result<(), QueueError> {
        let suspended = suspended && !self.has(Fault::HandsOutWhatIsSuspended);
        self.inner.suspend_node(run, node, suspended).await?;
        let mut memory = self.memory();
        if suspended {
            memory.suspended.insert((run.clone(), node.clone()));
        } else {
            memory.suspended.remove(&(run.clone(), node.clone()));
        }
        Ok(())
    }

    async fn freeze(&self, run: &RunId) -> Result<(), QueueError> {
        self.inner.freeze(run).await
    }

    async fn thaw(&self, run: &RunId) -> Result<(), QueueError> {
        self.inner.thaw(run).await
    }

    async fn ledger(&self, run: &RunId) -> Result<Ledger, QueueError> {
        self.keep_leases().await;
        Ok(self.counted(self.inner.ledger(run).await?))
    }

    async fn lanes(&self, run: &RunId, limit: usize) -> Result<Vec<LaneStatus>, QueueError> {
        self.inner.lanes(run, limit).await
    }

    async fn dead(&self, run: &RunId, limit: usize) -> Result<Vec<DeadTask>, QueueError> {
        let mut dead = self.inner.dead(run, limit).await?;
        if self.has(Fault::ForgetsWhyTasksDied) {
            for dead in &mut dead {
                dead.history.truncate(1);
            }
        }
        Ok(dead)
    }

    async fn runs(&self) -> Result<Vec<RunStatus>, QueueError> {
        self.inner.runs().await
    }

    async fn holders(&self, run: &RunId) -> Result<Vec<HolderStatus>, QueueError> {
        self.inner.holders(run).await
    }

    async fn peek(&self, run: &RunId, limit: usize) -> Result<Vec<QueuedTask>, QueueError> {
        self.inner.peek(run, limit).await
    }

    async fn retry_dead(&self, run: &RunId, tasks: Option<&[TaskId]>) -> Result<u64, QueueError> {
        self.inner.retry_dead(run, tasks).await
    }

    async fn drop_tasks(&self, run: &RunId, tasks: &[TaskId]) -> Result<u64, QueueError> {
        self.inner.drop_tasks(run, tasks).await
    }

    async fn brief(&self, run: &RunId) -> Result<Arc<str>, QueueError> {
        self.inner.brief(run).await
    }

    async fn node_briefs(&self, run: &RunId, nodes: &[NodeName]) -> Result<Vec<Option<Arc<str>>>, QueueError> {
        self.inner.node_briefs(run, nodes).await
    }

    async fn audit(&self, run: &RunId) -> Result<Vec<String>, QueueError> {
        self.inner.audit(run).await
    }

    async fn wait(&self, run: &RunId, seen: u64, until: Timestamp) -> Result<Woken, QueueError> {
        self.inner.wait(run, seen, until).await
    }

    async fn close(&self, run: &RunId) -> Result<(), QueueError> {
        self.memory().leases.retain(|(known, _), _| known != run);
        self.inner.close(run).await
    }
}

fn feedback(settlement: &Settlement) -> usize {
    match &settlement.result {
        SettleResult::Done { feedback } => feedback.len(),
        _ => 0,
    }
}
