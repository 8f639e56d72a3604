//! A queue, a clock that the test moves, and short words for what tests do with them.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use trawler::clock::{Clock, ManualClock, SharedClock};
use trawler::queue::{
    BudgetConfig, BudgetId, BudgetLimit, Claim, Holder, JoinRequest, LeaseRef, Leased, Ledger, NodeConfig,
    OpenInterval, OriginProtection, Permit, Pushback, PushbackKind, Pushed, QueueError, RunConfig, SettleResult,
    Settled, Settlement, SharedQueue, Unit,
};
use trawler::task::{ItemStatus, NodeName, OriginKey, RunId, SectionKey, Task, TaskKind};

/// Makes an adapter that reads this clock.
pub(crate) type MakeQueue = fn(SharedClock) -> SharedQueue;

pub(crate) const GROUP: &str = "default";

/// When every scene begins.
const START_S: i64 = 1_800_000_000;

pub(crate) struct Scene {
    pub(crate) queue: SharedQueue,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) run: RunId,
}

impl Scene {
    pub(crate) fn new(make: MakeQueue) -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::from_second(START_S).unwrap()));
        Self { queue: make(clock.clone()), clock, run: RunId::from("run-1") }
    }

    /// With an open run.
    pub(crate) async fn open(make: MakeQueue, config: RunConfig) -> Self {
        let scene = Self::new(make);
        scene.queue.open(config).await.unwrap();
        scene
    }

    /// Another run of the same instance, at the same time.
    pub(crate) async fn open_also(&self, name: &str, config: RunConfig) -> Self {
        let run = RunId::from(name);
        self.queue.open(RunConfig { run: run.clone(), ..config }).await.unwrap();
        Self { queue: self.queue.clone(), clock: self.clock.clone(), run }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn after_ms(&self, ms: u64) -> Timestamp {
        self.now() + Duration::from_millis(ms)
    }

    pub(crate) fn pass_ms(&self, ms: u64) {
        self.clock.advance(Duration::from_millis(ms));
    }

    pub(crate) fn pass_until(&self, moment: Timestamp) {
        self.clock.advance(moment.duration_since(self.now()).try_into().unwrap());
    }

    pub(crate) async fn join(&self, token: u32) -> Holder {
        self.try_join(token, GROUP).await.unwrap()
    }

    pub(crate) async fn try_join(&self, token: u32, group: &str) -> Result<Holder, QueueError> {
        let request =
            JoinRequest { run: self.run.clone(), token, uid: format!("job-{token}"), group: group.to_owned() };
        self.queue.join(request).await
    }

    pub(crate) async fn push(&self, tasks: impl IntoIterator<Item = Task>) -> Pushed {
        self.queue.push(&self.run, tasks.into_iter().collect()).await.unwrap()
    }

    /// Nothing eligible gives an empty list.
    pub(crate) async fn claim(&self, holder: &Holder, max: usize) -> Vec<Leased> {
        match self.queue.claim(holder, max).await.unwrap() {
            Claim::Tasks(tasks) => tasks,
            _ => Vec::new(),
        }
    }

    pub(crate) async fn claim_one(&self, holder: &Holder) -> Leased {
        self.claim(holder, 1).await.pop().expect("a task is eligible")
    }

    /// When to come back; the claim must find nothing eligible.
    pub(crate) async fn until(&self, holder: &Holder) -> Timestamp {
        match self.queue.claim(holder, 1).await.unwrap() {
            Claim::Wait { until, .. } => until,
            other => panic!("expected to wait, got {other:?}"),
        }
    }

    pub(crate) async fn settle(&self, holder: &Holder, leased: &Leased, result: SettleResult) -> Settled {
        let settlement = settlement(leased.lease, result);
        self.queue.settle(holder, vec![settlement]).await.unwrap().pop().unwrap()
    }

    pub(crate) async fn done(&self, holder: &Holder, leased: &[Leased]) {
        let settlements = leased.iter().map(|leased| settlement(leased.lease, done())).collect();
        self.queue.settle(holder, settlements).await.unwrap();
    }

    pub(crate) async fn charge(&self, holder: &Holder, leased: &Leased, documents: u64, bytes: u64) {
        let settlement = Settlement { documents, bytes, ..settlement(leased.lease, done()) };
        self.queue.settle(holder, vec![settlement]).await.unwrap();
    }

    pub(crate) async fn permit(&self, holder: &Holder, leased: &Leased, origin: &OriginKey) -> Permit {
        self.queue.permit(holder, &leased.lease, origin).await.unwrap()
    }

    pub(crate) async fn pushback(&self, holder: &Holder, origin: &OriginKey, retry_after_ms: Option<u64>) {
        let retry_after = retry_after_ms.map(Duration::from_millis);
        let pushback = Pushback { kind: PushbackKind::TooManyRequests, retry_after };
        self.queue.pushback(holder, origin, pushback).await.unwrap();
    }

    pub(crate) async fn ledger(&self) -> Ledger {
        let ledger = self.queue.ledger(&self.run).await.unwrap();
        assert!(ledger.is_balanced(), "{ledger:?}");
        ledger
    }
}

pub(crate) fn done() -> SettleResult {
    SettleResult::Done { feedback: Vec::new() }
}

pub(crate) fn done_with(feedback: Vec<Task>) -> SettleResult {
    SettleResult::Done { feedback }
}

pub(crate) fn retry_after_ms(ms: u64) -> SettleResult {
    SettleResult::Retry { delay: Duration::from_millis(ms), why: "the server answered 500".into() }
}

pub(crate) fn settlement(lease: LeaseRef, result: SettleResult) -> Settlement {
    Settlement { lease, result, documents: 0, bytes: 0 }
}

/// The named nodes under one budget without limits.
pub(crate) fn config(nodes: &[&str]) -> RunConfig {
    RunConfig {
        run: RunId::from("run-1"),
        weight: 1,
        max_holders: 4,
        lease: Duration::from_mins(1),
        max_charges: 3,
        nodes: nodes.iter().map(|name| node(name, "open")).collect(),
        budgets: vec![budget("open", &[])],
        origin_protection: OriginProtection {
            max_concurrent: 100_000,
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_mins(1),
        },
        closed_origins: Vec::new(),
        brief: Arc::default(),
    }
}

/// The named nodes under one budget with these limits.
pub(crate) fn limited(nodes: &[&str], limits: &[BudgetLimit]) -> RunConfig {
    RunConfig { budgets: vec![budget("open", limits)], ..config(nodes) }
}

pub(crate) fn node(name: &str, budget: &str) -> NodeConfig {
    NodeConfig {
        name: NodeName::from(name),
        budget: BudgetId(budget.into()),
        group: GROUP.into(),
        priority: 0,
        suspended: false,
        api_calls_per_document: 1,
        brief: Arc::default(),
    }
}

pub(crate) fn budget(id: &str, limits: &[BudgetLimit]) -> BudgetConfig {
    BudgetConfig {
        id: BudgetId(id.into()),
        limits: limits.to_vec(),
        max_concurrent: None,
        adaptive_floor_percent: None,
        open_hours: None,
        spent: Vec::new(),
        short_windows_start_spent: false,
    }
}

/// A budget without limits that is open in these seconds of a scene's time.
pub(crate) fn open_at(id: &str, seconds: &[(i64, i64)]) -> BudgetConfig {
    let at = |second: i64| Timestamp::from_second(START_S + second).unwrap();
    let hours = seconds.iter().map(|&(from, until)| OpenInterval { from: at(from), until: at(until) });
    BudgetConfig { open_hours: Some(hours.collect()), ..budget(id, &[]) }
}

pub(crate) fn limit(unit: Unit, amount: u64, period_ms: u64) -> BudgetLimit {
    BudgetLimit { unit, amount, period: Duration::from_millis(period_ms), even: false }
}

pub(crate) fn even(amount: u64, period_ms: u64) -> BudgetLimit {
    BudgetLimit { even: true, ..limit(Unit::ApiCalls, amount, period_ms) }
}

/// Each node has an origin of its own.
pub(crate) fn origin_of(node: &str) -> OriginKey {
    OriginKey::from(format!("https://{node}.example:443"))
}

pub(crate) fn page(node: &str, number: u32) -> Task {
    page_at(&origin_of(node), node, number)
}

pub(crate) fn page_at(origin: &OriginKey, node: &str, number: u32) -> Task {
    let section = SectionKey::root_of(NodeName::from(node));
    Task::new(section, TaskKind::Page, origin.clone(), format!("page={number}"))
}

pub(crate) fn dataset(node: &str, number: u32, status: ItemStatus) -> Task {
    let section = SectionKey::root_of(NodeName::from(node));
    Task { status, ..Task::new(section, TaskKind::Dataset, origin_of(node), format!("dataset={number}")) }
}

pub(crate) fn pages(node: &str, count: u32) -> Vec<Task> {
    (0..count).map(|number| page(node, number)).collect()
}

/// What was handed out, as `node page=…`.
pub(crate) fn names(leased: &[Leased]) -> Vec<String> {
    leased.iter().map(|leased| format!("{} {}", leased.task.section.node, leased.task.cursor)).collect()
}

/// Whose tasks were handed out, with the length of each row.
pub(crate) fn rows(leased: &[Leased]) -> Vec<(String, usize)> {
    let mut rows: Vec<(String, usize)> = Vec::new();
    for leased in leased {
        let node = leased.task.section.node.to_string();
        match rows.last_mut().filter(|row| row.0 == node) {
            Some(row) => row.1 += 1,
            None => rows.push((node, 1)),
        }
    }
    rows
}
