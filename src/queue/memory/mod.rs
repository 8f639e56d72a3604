//! The queue in memory: the embedded default, and the model that other adapters are compared with. It is lost with
//! its process; the store re-seeds it.
//!
//! One mutex per run, never held across an await; time comes from the clock alone and is caught up with at the
//! start of each call. With n tasks of the run, and k handed in or out: push and claim cost O(k log n), permit O(log n), settle O(k log n)
//! with its feedback; `configure`, `lanes`, `audit` and `release_holder` look at everything.

mod audit;
mod configure;
mod failures;
mod lanes;
mod leases;
mod node_queue;
mod run;
mod settle;
mod status;
mod turns;
mod waiting;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::watch;

use self::run::Run;
use super::gate::Moment;
use super::{
    Claim, DeadTask, Holder, JoinRequest, LaneStatus, LeaseRef, Ledger, Permit, Pushback, Pushed, Queue, QueueError,
    ReleaseCause, Released, RunConfig, Settled, Settlement,
};
use crate::clock::SharedClock;
use crate::task::{NodeName, OriginKey, RunId, Task};

/// The queue in memory.
#[derive(Debug)]
pub struct MemoryQueue {
    clock: SharedClock,
    runs: Mutex<HashMap<RunId, Arc<Shared>>>,
}

/// One run, and the bell that rings when something changes.
#[derive(Debug)]
struct Shared {
    run: Mutex<Run>,
    sequence: watch::Sender<u64>,
}

impl MemoryQueue {
    /// An empty queue.
    pub fn new(clock: SharedClock) -> Self {
        Self { clock, runs: Mutex::default() }
    }

    fn now(&self) -> Moment {
        self.clock.now().into()
    }

    fn shared(&self, run: &RunId) -> Result<Arc<Shared>, QueueError> {
        lock(&self.runs).get(run).cloned().ok_or_else(|| QueueError::NoSuchRun { run: run.clone() })
    }

    /// Brings a run up to the present, works on it, and rings if that changed something for those who wait.
    fn with<T>(&self, id: &RunId, work: impl FnOnce(&mut Run, Moment) -> T) -> Result<T, QueueError> {
        let shared = self.shared(id)?;
        let mut run = lock(&shared.run);
        // Asked for under the lock: else a slower caller's older reading could come after a newer one.
        let now = self.now();
        run.advance(now);
        let result = work(&mut run, now);
        let sequence = run.sequence;
        drop(run);
        shared.sequence.send_if_modified(|known| std::mem::replace(known, sequence.max(*known)) < sequence);
        Ok(result)
    }
}

/// A panic elsewhere leaves the state as it is: it is repaired by `audit`, not by refusing everybody.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl Queue for MemoryQueue {
    async fn open(&self, config: RunConfig) -> Result<(), QueueError> {
        let now = self.now();
        match lock(&self.runs).entry(config.run.clone()) {
            Entry::Occupied(_) => Err(QueueError::RunExists { run: config.run }),
            Entry::Vacant(place) => {
                let run = Run::open(config, now)?;
                place.insert(Arc::new(Shared { run: Mutex::new(run), sequence: watch::Sender::new(0) }));
                Ok(())
            }
        }
    }

    async fn configure(&self, config: RunConfig) -> Result<(), QueueError> {
        let id = config.run.clone();
        self.with(&id, |run, now| run.configure(config, now))?
    }

    async fn push(&self, run: &RunId, tasks: Vec<Task>) -> Result<Pushed, QueueError> {
        self.with(run, |run, now| run.push(tasks, now))?
    }

    async fn join(&self, request: JoinRequest) -> Result<Holder, QueueError> {
        let id = request.run.clone();
        self.with(&id, |run, now| run.join(request, now))?
    }

    async fn claim(&self, holder: &Holder, max: usize) -> Result<Claim, QueueError> {
        self.with(&holder.run, |run, now| run.claim(holder, max, now))?
    }

    async fn permit(&self, holder: &Holder, lease: &LeaseRef, origin: &OriginKey) -> Result<Permit, QueueError> {
        self.with(&holder.run, |run, now| run.permit(holder, *lease, origin, now))?
    }

    async fn settle(&self, holder: &Holder, settlements: Vec<Settlement>) -> Result<Vec<Settled>, QueueError> {
        self.with(&holder.run, |run, now| run.settle(holder, settlements, now))?
    }

    async fn renew(&self, holder: &Holder, leases: &[LeaseRef]) -> Result<Vec<LeaseRef>, QueueError> {
        self.with(&holder.run, |run, now| run.renew(holder, leases, now))?
    }

    async fn pushback(&self, holder: &Holder, origin: &OriginKey, pushback: Pushback) -> Result<(), QueueError> {
        self.with(&holder.run, |run, now| run.pushback(holder, origin, pushback, now))?
    }

    async fn release_holder(&self, run: &RunId, token: u32, cause: ReleaseCause) -> Result<Released, QueueError> {
        self.with(run, |run, now| run.release_holder(token, cause, now))
    }

    async fn suspend_node(&self, run: &RunId, node: &NodeName, suspended: bool) -> Result<(), QueueError> {
        self.with(run, |run, _| run.suspend_node(node, suspended))?
    }

    async fn freeze(&self, run: &RunId) -> Result<(), QueueError> {
        self.with(run, |run, _| run.set_frozen(true))
    }

    async fn thaw(&self, run: &RunId) -> Result<(), QueueError> {
        self.with(run, |run, _| run.set_frozen(false))
    }

    async fn ledger(&self, run: &RunId) -> Result<Ledger, QueueError> {
        self.with(run, |run, _| run.ledger)
    }

    async fn lanes(&self, run: &RunId, limit: usize) -> Result<Vec<LaneStatus>, QueueError> {
        self.with(run, |run, now| run.lane_statuses(limit, now))
    }

    async fn dead(&self, run: &RunId, limit: usize) -> Result<Vec<DeadTask>, QueueError> {
        self.with(run, |run, _| run.failures.dead(limit))
    }

    async fn audit(&self, run: &RunId) -> Result<Vec<String>, QueueError> {
        self.with(run, Run::audit)
    }

    async fn wait(&self, run: &RunId, seen: u64, until: Timestamp) -> Result<(), QueueError> {
        let mut sequence = self.shared(run)?.sequence.subscribe();
        let left = until.duration_since(self.clock.now());
        let left = Duration::try_from(left).unwrap_or(Duration::ZERO);
        tokio::select! {
            changed = sequence.wait_for(|sequence| *sequence > seen) => match changed {
                Ok(_) => Ok(()),
                Err(_) => Err(QueueError::NoSuchRun { run: run.clone() }),
            },
            () = tokio::time::sleep(left) => Ok(()),
        }
    }

    async fn close(&self, run: &RunId) -> Result<(), QueueError> {
        lock(&self.runs).remove(run);
        Ok(())
    }
}
