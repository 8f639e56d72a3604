//! The defects, each as small as it can be.

use std::time::Duration;

use trawler::queue::{
    Claim, Gate, Holder, JoinRequest, LeaseRef, Ledger, Permit, Pushed, QueueError, ReleaseCause, Released, RunConfig,
    SettleResult, Settled, Settlement, Unit,
};
use trawler::task::{ItemStatus, NodeName, RunId, Task, TaskId};

use super::Fault;
use super::adapter::Faulty;

const STARVED: &str = "g";
const BROKEN: &str = "e";

impl Faulty {
    pub(super) fn configured(&self, mut config: RunConfig) -> RunConfig {
        match self.fault {
            Fault::AllowsOneCallMore => {
                let limits = config.budgets.iter_mut().flat_map(|budget| &mut budget.limits);
                limits.filter(|limit| limit.unit == Unit::ApiCalls).for_each(|limit| limit.amount += 1);
            }
            Fault::ForgetsToSpread => {
                config.budgets.iter_mut().flat_map(|budget| &mut budget.limits).for_each(|limit| limit.even = false);
            }
            Fault::ForgetsTheHours => config.budgets.iter_mut().for_each(|budget| budget.open_hours = None),
            Fault::ForgetsWhatADatasetCosts => {
                config.nodes.iter_mut().for_each(|node| node.api_calls_per_document = 1);
            }
            Fault::StarvesANode => {
                for node in &mut config.nodes {
                    node.priority = if node.name.as_str() == STARVED { -9 } else { 9 };
                }
            }
            Fault::AllowsOneMoreAtAnOrigin => config.origin_protection.max_concurrent += 1,
            _ => {}
        }
        let suspended = config.nodes.iter().filter(|node| node.suspended).map(|node| node.name.clone());
        let suspended: Vec<_> = suspended.map(|node| (config.run.clone(), node)).collect();
        let mut memory = self.memory();
        memory.suspended.retain(|(run, _)| *run != config.run);
        memory.suspended.extend(suspended);
        drop(memory);
        config
    }

    pub(super) fn joining(&self, request: JoinRequest) -> JoinRequest {
        let group = if self.has(Fault::MixesGroups) { "default".into() } else { request.group };
        JoinRequest { group, ..request }
    }

    pub(super) fn pushed(&self, task: Task) -> Task {
        self.memory().tasks.insert(task.id, task.clone());
        match self.fault {
            Fault::IgnoresStatus => Task { status: ItemStatus::Accepted, ..task },
            Fault::QueuesWhatIsDoneAgain if self.now_and_then(20) => Task { id: TaskId([7; 16]), ..task },
            _ => task,
        }
    }

    /// As if the leases that were given lasted for ever.
    pub(super) async fn keep_leases(&self) {
        if !self.has(Fault::NeverLetsLeasesExpire) {
            return;
        }
        let leases: Vec<(Holder, LeaseRef)> =
            self.memory().leases.values().map(|(holder, leased)| (holder.clone(), leased.lease)).collect();
        for (holder, lease) in leases {
            drop(self.inner.renew(&holder, &[lease]).await);
        }
    }

    pub(super) async fn claimed(&self, holder: &Holder, max: usize) -> Result<Claim, QueueError> {
        match self.fault {
            Fault::ClaimsForWhoWasReplaced => {
                let current = self.memory().holders.get(&(holder.run.clone(), holder.token)).cloned();
                self.inner.claim(&current.unwrap_or_else(|| holder.clone()), max).await
            }
            Fault::ClaimsWhileFrozen => {
                let is_frozen = self.inner.claim(holder, 0).await? == Claim::Frozen;
                self.inner.thaw(&holder.run).await?;
                let claim = self.inner.claim(holder, max).await;
                if is_frozen {
                    self.inner.freeze(&holder.run).await?;
                }
                claim
            }
            Fault::BreaksRows => {
                self.claim_without(BROKEN, holder, 0).await?;
                self.inner.claim(holder, max).await
            }
            Fault::IdlesNowAndThen if self.now_and_then(7) => self.inner.claim(holder, max.div_ceil(2)).await,
            _ => self.inner.claim(holder, max).await,
        }
    }

    /// As if the node had nothing.
    async fn claim_without(&self, node: &str, holder: &Holder, max: usize) -> Result<Claim, QueueError> {
        let node = NodeName::from(node);
        let is_out = !self.memory().suspended.contains(&(holder.run.clone(), node.clone()))
            && self.inner.suspend_node(&holder.run, &node, true).await.is_ok();
        let claim = self.inner.claim(holder, max).await;
        if is_out {
            self.inner.suspend_node(&holder.run, &node, false).await?;
        }
        claim
    }

    pub(super) fn answered(&self, claim: Claim, holder: &Holder) -> Claim {
        match (self.fault, claim) {
            (Fault::WaitsTooLong, Claim::Wait { until, sequence }) => {
                Claim::Wait { until: until + Duration::from_secs(10), sequence }
            }
            (Fault::SaysNowForEver, Claim::Wait { sequence, .. }) => Claim::Wait { until: self.clock.now(), sequence },
            (Fault::SleepsThroughWakes, Claim::Wait { until, sequence }) => {
                Claim::Wait { until, sequence: sequence + 1_000 }
            }
            (Fault::LeasesTwice, Claim::Tasks(mut tasks)) => {
                let memory = self.memory();
                if let Some((_, leased)) =
                    memory.leases.values().find(|(other, _)| other.run == holder.run && other.token != holder.token)
                {
                    tasks.pop();
                    tasks.push(leased.clone());
                }
                Claim::Tasks(tasks)
            }
            (Fault::IgnoresStatus, Claim::Tasks(mut tasks)) => {
                let memory = self.memory();
                for leased in &mut tasks {
                    leased.task.status = memory.tasks[&leased.task.id].status;
                }
                Claim::Tasks(tasks)
            }
            (_, claim) => claim,
        }
    }

    pub(super) fn permitted(&self, permit: Permit) -> Permit {
        match (self.fault, permit) {
            (Fault::PermitsWhileFrozen, Permit::Frozen)
            | (Fault::PermitsWithoutLimit, Permit::Wait { gate: Gate::Budget { unit: Unit::ApiCalls, .. }, .. }) => {
                Permit::Granted
            }
            (_, permit) => permit,
        }
    }

    pub(super) fn settling(&self, holder: &Holder, mut settlements: Vec<Settlement>) -> (Holder, Vec<Settlement>) {
        if !self.has(Fault::SettlesForWhoLostTheLease) {
            return (holder.clone(), settlements);
        }
        let memory = self.memory();
        let mut settler = holder.clone();
        for settlement in &mut settlements {
            if let Some((current, leased)) = memory.leases.get(&(holder.run.clone(), settlement.lease.task)) {
                settler = current.clone();
                settlement.lease = leased.lease;
            }
        }
        (settler, settlements)
    }

    pub(super) fn settlement(&self, settlement: Settlement) -> Settlement {
        let result = match (self.fault, settlement.result) {
            (Fault::LosesFeedback, SettleResult::Done { .. }) => SettleResult::Done { feedback: Vec::new() },
            (Fault::TakesFeedbackOfTheUnknown, SettleResult::Done { mut feedback }) => {
                feedback.retain(|task| task.section.node.as_str() != "stranger");
                SettleResult::Done { feedback }
            }
            (Fault::IgnoresStatus, SettleResult::Done { feedback }) => {
                SettleResult::Done { feedback: feedback.into_iter().map(|task| self.pushed(task)).collect() }
            }
            (Fault::ShortensDelays, SettleResult::Retry { delay, why }) => {
                SettleResult::Retry { delay: delay / 2, why }
            }
            (Fault::CountsWhatWasReleasedUntried, SettleResult::Released) => {
                SettleResult::Retry { delay: Duration::ZERO, why: "released".into() }
            }
            (_, result) => result,
        };
        let documents = if self.has(Fault::ForgetsDocuments) { 0 } else { settlement.documents };
        Settlement { result, documents, ..settlement }
    }

    pub(super) fn settled(&self, settled: Settled, feedback: usize) -> Settled {
        match settled {
            Settled::Accepted(_) if self.has(Fault::LosesFeedback) => {
                Settled::Accepted(Pushed { new: feedback as u64, duplicates: 0 })
            }
            settled => settled,
        }
    }

    pub(super) async fn releasing(&self, run: &RunId, token: u32, cause: ReleaseCause) -> Result<Released, QueueError> {
        let cause = match cause {
            ReleaseCause::Disrupted if self.has(Fault::ChargesDisruptions) => ReleaseCause::Crashed,
            cause => cause,
        };
        let released = self.inner.release_holder(run, token, cause).await?;
        if self.has(Fault::KeepsTheTokenOfWhoWasReleased) {
            let group = "default".to_owned();
            drop(self.inner.join(JoinRequest { run: run.clone(), token, uid: "nobody".into(), group }).await);
        }
        Ok(released)
    }

    pub(super) fn counted(&self, mut ledger: Ledger) -> Ledger {
        let drifts = self.has(Fault::DriftsInItsLedger) && self.now_and_then(100);
        if drifts && ledger.queued > 0 {
            ledger.queued -= 1;
            ledger.done += 1;
        }
        ledger
    }
}
