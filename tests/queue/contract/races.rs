//! Two callers at once: whatever they do to the same task, holder, gate and run, it comes out as if one had been first.

use std::sync::Arc;

use jiff::Timestamp;
use trawler::clock::{ManualClock, SharedClock};
use trawler::queue::{
    Claim, Holder, JoinRequest, Leased, Pushback, PushbackKind, ReleaseCause, RunConfig, SettleResult, SharedQueue,
    Unit,
};
use trawler::task::{NodeName, RunId};

use super::scene::{GROUP, config, done_with, limit, limited, origin_of, page, pages, retry_after_ms, settlement};

/// Makes two ways to the same queue.
pub(super) type MakePair = fn(SharedClock) -> [SharedQueue; 2];

/// What callers do. Each is about the task that token 0 has leased, its holder, its gates, or its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mutation {
    Push,
    Claim,
    ClaimByAnother,
    Permit,
    SettleDone,
    SettleForRetry,
    SettleAsDead,
    SettleAsDropped,
    SettleAndClaim,
    Release,
    Renew,
    Pushback,
    ReleaseHolderCrashed,
    ReleaseHolderDisrupted,
    Join,
    SuspendNode,
    ResumeNode,
    Freeze,
    Thaw,
    RemoveNode,
    TightenBudget,
    RetryDead,
    DropTask,
    Close,
}

const ALL: [Mutation; 24] = [
    Mutation::Push,
    Mutation::Claim,
    Mutation::ClaimByAnother,
    Mutation::Permit,
    Mutation::SettleDone,
    Mutation::SettleForRetry,
    Mutation::SettleAsDead,
    Mutation::SettleAsDropped,
    Mutation::SettleAndClaim,
    Mutation::Release,
    Mutation::Renew,
    Mutation::Pushback,
    Mutation::ReleaseHolderCrashed,
    Mutation::ReleaseHolderDisrupted,
    Mutation::Join,
    Mutation::SuspendNode,
    Mutation::ResumeNode,
    Mutation::Freeze,
    Mutation::Thaw,
    Mutation::RemoveNode,
    Mutation::TightenBudget,
    Mutation::RetryDead,
    Mutation::DropTask,
    Mutation::Close,
];

/// How often a pair is set against each other.
const ROUNDS: usize = 3;

/// A run in which something of everything is under way.
struct Setting {
    ways: [SharedQueue; 2],
    run: RunId,
    holder: Holder,
    other: Holder,
    leased: Leased,
}

fn own_config() -> RunConfig {
    RunConfig { max_holders: 2, max_charges: 2, ..limited(&["a", "b"], &[limit(Unit::ApiCalls, 8, 1_000)]) }
}

impl Setting {
    async fn new(make: MakePair) -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::from_second(1_800_000_000).unwrap()));
        let ways = make(clock);
        let run = own_config().run;
        let queue = &ways[0];
        queue.open(own_config()).await.unwrap();
        queue.push(&run, [pages("a", 6), pages("b", 2)].concat()).await.unwrap();
        let join = |token: u32| JoinRequest { run: run.clone(), token, uid: "job".into(), group: GROUP.into() };
        let holder = queue.join(join(0)).await.unwrap();
        let other = queue.join(join(1)).await.unwrap();
        let Claim::Tasks(mut tasks) = queue.claim(&holder, 3).await.unwrap() else { panic!("tasks are eligible") };
        let dead = settlement(tasks.remove(0).lease, SettleResult::Dead { why: "404".into() });
        queue.settle(&holder, vec![dead]).await.unwrap();
        Self { ways, run, holder, other, leased: tasks.remove(0) }
    }

    async fn settle(&self, queue: &SharedQueue, result: SettleResult) -> String {
        format!("{:?}", queue.settle(&self.holder, vec![settlement(self.leased.lease, result)]).await)
    }

    /// Does it, and says what came of it, without what is different each time.
    async fn take(&self, way: usize, mutation: Mutation) -> String {
        let (queue, run) = (&self.ways[way], &self.run);
        let a = NodeName::from("a");
        match mutation {
            Mutation::Push => format!("{:?}", queue.push(run, vec![page("a", 100)]).await),
            Mutation::Claim => claimed(queue.claim(&self.holder, 2).await),
            Mutation::ClaimByAnother => claimed(queue.claim(&self.other, 2).await),
            Mutation::Permit => format!("{:?}", queue.permit(&self.holder, &self.leased.lease, &origin_of("a")).await),
            Mutation::SettleDone => self.settle(queue, done_with(vec![page("a", 100), page("b", 100)])).await,
            Mutation::SettleForRetry => self.settle(queue, retry_after_ms(500)).await,
            Mutation::SettleAsDead => self.settle(queue, SettleResult::Dead { why: "410".into() }).await,
            Mutation::SettleAsDropped => self.settle(queue, SettleResult::Dropped).await,
            Mutation::SettleAndClaim => {
                let settlements = vec![settlement(self.leased.lease, done_with(vec![page("b", 100)]))];
                match queue.settle_and_claim(&self.holder, settlements, 2).await {
                    Ok((settled, claim)) => format!("{settled:?}, {}", claimed(Ok(claim))),
                    Err(error) => format!("{error:?}"),
                }
            }
            Mutation::Release => self.settle(queue, SettleResult::Released).await,
            Mutation::Renew => {
                let lost = queue.renew(&self.holder, &[self.leased.lease]).await;
                format!("{:?}", lost.map(|lost| lost.len()))
            }
            Mutation::Pushback => {
                let pushback = Pushback { kind: PushbackKind::Unavailable, retry_after: None };
                format!("{:?}", queue.pushback(&self.holder, &origin_of("a"), pushback).await)
            }
            Mutation::ReleaseHolderCrashed => {
                format!("{:?}", queue.release_holder(run, 0, ReleaseCause::Crashed).await)
            }
            Mutation::ReleaseHolderDisrupted => {
                format!("{:?}", queue.release_holder(run, 0, ReleaseCause::Disrupted).await)
            }
            Mutation::Join => {
                let request = JoinRequest { run: run.clone(), token: 0, uid: "new".into(), group: GROUP.into() };
                format!("{:?}", queue.join(request).await.map(|holder| holder.uid))
            }
            Mutation::SuspendNode => format!("{:?}", queue.suspend_node(run, &a, true).await),
            Mutation::ResumeNode => format!("{:?}", queue.suspend_node(run, &a, false).await),
            Mutation::Freeze => format!("{:?}", queue.freeze(run).await),
            Mutation::Thaw => format!("{:?}", queue.thaw(run).await),
            Mutation::RemoveNode => {
                let kept = RunConfig { nodes: config(&["b"]).nodes, ..own_config() };
                format!("{:?}", queue.configure(kept).await)
            }
            Mutation::TightenBudget => {
                let tight = limited(&["a", "b"], &[limit(Unit::ApiCalls, 4, 1_000)]);
                format!("{:?}", queue.configure(RunConfig { budgets: tight.budgets, ..own_config() }).await)
            }
            Mutation::RetryDead => format!("{:?}", queue.retry_dead(run, None).await),
            Mutation::DropTask => format!("{:?}", queue.drop_tasks(run, &[page("a", 5).id]).await),
            Mutation::Close => format!("{:?}", queue.close(run).await),
        }
    }

    /// What anybody can see of the run.
    async fn seen(&self) -> String {
        let (queue, run) = (&self.ways[0], &self.run);
        let repaired = queue.audit(run).await;
        assert!(repaired.as_ref().is_ok_and(Vec::is_empty) || repaired.is_err(), "{repaired:?}");
        let holders = queue.holders(run).await.map(|holders| {
            holders
                .into_iter()
                .map(|holder| (holder.token, holder.uid, holder.leased, holder.is_alone))
                .collect::<Vec<_>>()
        });
        let tasks = queue.peek(run, 100).await.map(|tasks| {
            let mut tasks: Vec<String> = tasks.into_iter().map(|task| format!("{task:?}")).collect();
            tasks.sort();
            tasks
        });
        let (ledger, dead) = (queue.ledger(run).await, queue.dead(run, 10).await);
        assert!(ledger.as_ref().is_ok_and(trawler::queue::Ledger::is_balanced) || ledger.is_err(), "{ledger:?}");
        format!("{ledger:?}\n{holders:?}\n{:?}\n{dead:?}\n{tasks:#?}", queue.lanes(run, 10).await)
    }
}

fn claimed(claim: Result<Claim, trawler::queue::QueueError>) -> String {
    match claim {
        Ok(Claim::Tasks(tasks)) => format!("{:?}", super::scene::names(&tasks)),
        Ok(Claim::Wait { until, .. }) => format!("wait until {until}"),
        other => format!("{other:?}"),
    }
}

/// One after the other: what each was answered, and what is seen then.
async fn in_order(make: MakePair, first: Mutation, second: Mutation) -> [String; 3] {
    let setting = Setting::new(make).await;
    let first = setting.take(0, first).await;
    let second = setting.take(1, second).await;
    [first, second, setting.seen().await]
}

/// Of two configurations that come at once the one that began first may come to nothing: what is seen then.
async fn alone(make: MakePair, first: Mutation, second: Mutation) -> Vec<[String; 3]> {
    let configures = |mutation| matches!(mutation, Mutation::RemoveNode | Mutation::TightenBudget);
    let mut outcomes = Vec::new();
    if configures(first) && configures(second) {
        for only in [first, second] {
            let setting = Setting::new(make).await;
            let done = setting.take(0, only).await;
            outcomes.push([done.clone(), done, setting.seen().await]);
        }
    }
    outcomes
}

/// This one against itself and each that follows it: every pair is had once.
pub(super) async fn race(make: MakePair, mutation: Mutation) {
    for other in ALL.into_iter().skip_while(|other| *other != mutation) {
        let forth = in_order(make, mutation, other).await;
        let [second, first, seen] = in_order(make, other, mutation).await;
        let back = [first, second, seen];
        let alone = alone(make, mutation, other).await;
        for _ in 0..ROUNDS {
            let setting = Setting::new(make).await;
            let (first, second) = tokio::join!(setting.take(0, mutation), setting.take(1, other));
            let raced = [first, second, setting.seen().await];
            assert!(
                raced == forth || raced == back || alone.contains(&raced),
                "{mutation:?} and {other:?} at once came out as\n{raced:#?}\nneither {forth:#?}\nnor {back:#?}"
            );
        }
    }
}
