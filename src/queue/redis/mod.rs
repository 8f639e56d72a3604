//! The queue in Redis: durable, shared by crawlers on many machines.
//!
//! Every change is one function of one library (`lua/`, loaded by [`library`]); what it does is written in the port, and what it
//! costs, and where things lie, in `docs/queue-redis.md`. This side writes requests and reads answers, in portions where a call
//! would keep the server from others for too long.

#![expect(
    clippy::redundant_closure_for_method_calls,
    reason = "what reads an answer must do so for any lifetime, which a closure does and the path of a reader's method does not"
)]

mod bell;
mod calls;
mod claims;
mod configure;
pub mod doctor;
mod fault;
mod inspect;
mod lanes;
pub(crate) mod library;
mod settlements;
mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;

use self::bell::Bell;
use self::calls::{Caller, Calls};
use super::{
    Claim, DeadTask, Holder, HolderStatus, JoinRequest, LaneStatus, LeaseRef, Ledger, Permit, Pushback, Pushed, Queue,
    QueueError, QueuedTask, ReleaseCause, Released, RunConfig, RunStatus, Settled, Settlement, SharedQueue, Woken,
};
use crate::clock::SharedClock;
use crate::redis::Connection;
pub use crate::redis::{RedisSettings, Timing, acl};
use crate::task::{NodeName, OriginKey, RunId, Task, TaskId};

/// A queue in Redis. Connects with the first call; moments come from the server, the clock is for waiting only.
pub fn open(settings: &RedisSettings, clock: SharedClock) -> Result<SharedQueue, QueueError> {
    open_with_timing(settings, clock, Timing::default())
}

/// The same with less patience, or more.
pub fn open_with_timing(
    settings: &RedisSettings,
    clock: SharedClock,
    timing: Timing,
) -> Result<SharedQueue, QueueError> {
    let connection = Connection::new(settings, timing)?;
    Ok(Arc::new(RedisQueue { calls: Calls::new(connection, clock.clone(), false), bell: Bell::default(), clock }))
}

/// The same with the caller's moments instead of the server's: for tests, that move their clock.
pub fn open_with_callers_clock(settings: &RedisSettings, clock: SharedClock) -> Result<SharedQueue, QueueError> {
    let connection = Connection::new(settings, Timing::default())?;
    Ok(Arc::new(RedisQueue { calls: Calls::new(connection, clock.clone(), true), bell: Bell::default(), clock }))
}

/// Refuses what can't name an instance: the name is part of every key, and of the users' rights.
pub fn check_instance(instance: &str) -> Result<(), QueueError> {
    Ok(crate::redis::check_instance(instance)?)
}

#[derive(Debug)]
struct RedisQueue {
    calls: Calls,
    bell: Bell,
    clock: SharedClock,
}

#[async_trait]
impl Queue for RedisQueue {
    async fn open(&self, config: RunConfig) -> Result<(), QueueError> {
        self.open_run(config).await
    }

    async fn configure(&self, config: RunConfig) -> Result<(), QueueError> {
        self.configure_run(config).await
    }

    async fn push(&self, run: &RunId, tasks: Vec<Task>) -> Result<Pushed, QueueError> {
        self.push_tasks(run, &tasks).await
    }

    async fn join(&self, request: JoinRequest) -> Result<Holder, QueueError> {
        self.join_run(request).await
    }

    async fn claim(&self, holder: &Holder, max: usize) -> Result<Claim, QueueError> {
        self.claim_tasks(holder, max).await
    }

    async fn permit(&self, holder: &Holder, lease: &LeaseRef, origin: &OriginKey) -> Result<Permit, QueueError> {
        self.ask_permit(holder, *lease, origin).await
    }

    async fn settle(&self, holder: &Holder, settlements: Vec<Settlement>) -> Result<Vec<Settled>, QueueError> {
        self.settle_leases(holder, settlements).await
    }

    async fn settle_and_claim(
        &self,
        holder: &Holder,
        settlements: Vec<Settlement>,
        max: usize,
    ) -> Result<(Vec<Settled>, Claim), QueueError> {
        self.settle_leases_and_claim(holder, settlements, max).await
    }

    async fn renew(&self, holder: &Holder, leases: &[LeaseRef]) -> Result<Vec<LeaseRef>, QueueError> {
        self.renew_leases(holder, leases).await
    }

    async fn pushback(
        &self,
        holder: &Holder,
        origin: &OriginKey,
        pushback: Pushback,
    ) -> Result<Option<Timestamp>, QueueError> {
        self.push_back(holder, origin, pushback).await
    }

    async fn release_holder(&self, run: &RunId, token: u32, cause: ReleaseCause) -> Result<Released, QueueError> {
        self.release(run, token, cause).await
    }

    async fn suspend_node(&self, run: &RunId, node: &NodeName, suspended: bool) -> Result<(), QueueError> {
        let write = |request: &mut wire::Writer| {
            request.text(node.as_str()).flag(suspended);
        };
        self.calls.call("suspend_node", run, Caller::Owner, 2, write).await.map(drop)
    }

    async fn freeze(&self, run: &RunId) -> Result<(), QueueError> {
        self.set_frozen(run, true).await
    }

    async fn thaw(&self, run: &RunId) -> Result<(), QueueError> {
        self.set_frozen(run, false).await
    }

    async fn ledger(&self, run: &RunId) -> Result<Ledger, QueueError> {
        self.calls.call("ledger", run, Caller::Owner, 0, |_| {}).await?.read(inspect::read_ledger)
    }

    async fn lanes(&self, run: &RunId, limit: usize) -> Result<Vec<LaneStatus>, QueueError> {
        self.lane_statuses(run, limit).await
    }

    async fn dead(&self, run: &RunId, limit: usize) -> Result<Vec<DeadTask>, QueueError> {
        self.dead_tasks(run, limit).await
    }

    async fn runs(&self) -> Result<Vec<RunStatus>, QueueError> {
        self.run_statuses().await
    }

    async fn holders(&self, run: &RunId) -> Result<Vec<HolderStatus>, QueueError> {
        self.holder_statuses(run).await
    }

    async fn peek(&self, run: &RunId, limit: usize) -> Result<Vec<QueuedTask>, QueueError> {
        self.peek_tasks(run, limit).await
    }

    async fn retry_dead(&self, run: &RunId, tasks: Option<&[TaskId]>) -> Result<u64, QueueError> {
        self.put_back_dead(run, tasks).await
    }

    async fn drop_tasks(&self, run: &RunId, tasks: &[TaskId]) -> Result<u64, QueueError> {
        self.drop_some(run, tasks).await
    }

    async fn brief(&self, run: &RunId) -> Result<Arc<str>, QueueError> {
        let answer = self.calls.call("brief", run, Caller::Owner, 0, |_| {}).await?;
        answer.read(|reader| Ok(Arc::from(reader.text()?)))
    }

    async fn node_briefs(&self, run: &RunId, nodes: &[NodeName]) -> Result<Vec<Option<Arc<str>>>, QueueError> {
        self.briefs_of(run, nodes).await
    }

    async fn audit(&self, run: &RunId) -> Result<Vec<String>, QueueError> {
        self.audit_run(run).await
    }

    async fn wait(&self, run: &RunId, seen: u64, until: Timestamp) -> Result<Woken, QueueError> {
        self.wait_for(run, seen, until).await
    }

    async fn close(&self, run: &RunId) -> Result<(), QueueError> {
        self.close_run(run).await
    }
}

impl RedisQueue {
    async fn set_frozen(&self, run: &RunId, frozen: bool) -> Result<(), QueueError> {
        let write = |request: &mut wire::Writer| {
            request.flag(frozen);
        };
        self.calls.call("set_frozen", run, Caller::Owner, 1, write).await.map(drop)
    }
}
