//! A queue in memory in which something waits for every kind of reason, at a moment that stands still.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use trawler::clock::{Clock, ManualClock};
use trawler::queue::memory::MemoryQueue;
use trawler::queue::{
    BudgetConfig, BudgetId, BudgetLimit, Claim, Holder, JoinRequest, Leased, NodeConfig, OpenInterval,
    OriginProtection, Pushback, PushbackKind, Queue, ReleaseCause, RunConfig, SettleResult, Settlement, Unit,
};
use trawler::task::{ItemStatus, NodeName, OriginKey, RunId, SectionKey, SectionPath, Task, TaskKind};

/// What a hostile server or node could be named.
pub(crate) const HOSTILE: &str = "evil\u{1b}[2J\u{1b}]0;owned\u{7}\u{202E}gpj.exe\n\r\tnext\u{9b}31m鳥";

/// A queue and its clock.
#[derive(Debug)]
pub(crate) struct BusyQueue {
    pub(crate) queue: Arc<MemoryQueue>,
    pub(crate) clock: Arc<ManualClock>,
}

impl BusyQueue {
    /// Without runs.
    pub(crate) fn empty() -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::from_second(1_800_000_000).unwrap()));
        Self { queue: Arc::new(MemoryQueue::new(clock.clone())), clock }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn pass_ms(&self, ms: u64) {
        self.clock.advance(Duration::from_millis(ms));
    }

    pub(crate) async fn open(&self, run: &str, nodes: &[(&str, &str)]) {
        self.queue.open(config(run, nodes)).await.unwrap();
    }

    pub(crate) async fn push(&self, run: &str, tasks: Vec<Task>) {
        self.queue.push(&RunId::from(run), tasks).await.unwrap();
    }

    pub(crate) async fn join(&self, run: &str, token: u32, uid: &str) -> Holder {
        let (run, uid, group) = (RunId::from(run), uid.to_owned(), "default".to_owned());
        self.queue.join(JoinRequest { run, token, uid, group }).await.unwrap()
    }

    pub(crate) async fn claim(&self, holder: &Holder, max: usize) -> Vec<Leased> {
        match self.queue.claim(holder, max).await.unwrap() {
            Claim::Tasks(tasks) => tasks,
            other => panic!("expected tasks, got {other:?}"),
        }
    }

    pub(crate) async fn settle(&self, holder: &Holder, leased: &Leased, result: SettleResult) {
        let settlement = Settlement { lease: leased.lease, result, documents: 0, bytes: 0 };
        self.queue.settle(holder, vec![settlement]).await.unwrap();
    }

    /// Two runs: in `federation-7` something waits for every reason, `federation-8` is frozen.
    pub(crate) async fn busy() -> Self {
        let busy = Self::empty();
        let nodes = [
            ("harbour", "open"),
            ("library", "gentle"),
            ("museum", "gentle"),
            ("night-watch", "nightly"),
            ("pushy", "open"),
            ("resting", "open"),
            ("shaky", "open"),
            ("single", "narrow"),
        ];
        let run = "federation-7";
        busy.open(run, &nodes).await;
        let holder = busy.join(run, 0, "8a6b4c1e-7d2f-4e39-9f10-1c2d3e4f5a6b").await;
        busy.push(run, vec![page("shaky", 0)]).await;
        busy.claim(&holder, 1).await;
        busy.queue.release_holder(&RunId::from(run), 0, ReleaseCause::Crashed).await.unwrap();

        let holder = busy.join(run, 1, "crawler-b").await;
        let suspect = busy.claim(&holder, 1).await;
        busy.push(run, vec![page("pushy", 0), page("harbour", 0), page("harbour", 1), page("harbour", 2)]).await;
        let other = busy.join(run, 2, "crawler-c").await;
        for leased in busy.claim(&other, 4).await {
            busy.pass_ms(250);
            let why = match &*leased.task.cursor {
                _ if leased.task.section.node == NodeName::from("pushy") => {
                    let pushback =
                        Pushback { kind: PushbackKind::TooManyRequests, retry_after: Some(Duration::from_secs(90)) };
                    busy.queue.pushback(&other, &leased.task.origin, pushback).await.unwrap();
                    SettleResult::Released
                }
                "page=0" => SettleResult::Done { feedback: Vec::new() },
                "page=1" => SettleResult::Dead { why: "the server answered 410 Gone".into() },
                _ => retry("the server answered 500", 12_000),
            };
            busy.settle(&other, &leased, why).await;
        }
        busy.push(run, (0..30).map(|number| page("library", number)).collect()).await;
        busy.push(run, (0..5).map(|number| page("museum", number)).collect()).await;
        busy.push(run, vec![page("night-watch", 0), page("single", 0), page("single", 1)]).await;
        busy.queue.suspend_node(&RunId::from(run), &NodeName::from("resting"), true).await.unwrap();
        busy.push(run, vec![nested("resting", "https://resting.example/inner")]).await;
        busy.claim(&other, 20).await;
        busy.queue.release_holder(&RunId::from(run), 1, ReleaseCause::Crashed).await.unwrap();
        assert_eq!(suspect.len(), 1);
        busy.open("federation-8", &[("harbour", "open")]).await;
        busy.queue.freeze(&RunId::from("federation-8")).await.unwrap();
        busy
    }
}

fn retry(why: &str, delay_ms: u64) -> SettleResult {
    SettleResult::Retry { delay: Duration::from_millis(delay_ms), why: why.into() }
}

/// A page of a node that has an origin of its own.
pub(crate) fn page(node: &str, number: u32) -> Task {
    let origin = OriginKey::from(format!("https://{node}.example:443"));
    Task::new(SectionKey::root_of(NodeName::from(node)), TaskKind::Page, origin, format!("page={number}"))
}

/// A dataset of a nested catalogue.
fn nested(node: &str, section: &str) -> Task {
    let section = SectionKey { node: NodeName::from(node), section: SectionPath::from(section) };
    let origin = OriginKey::from(format!("https://{node}.example:443"));
    let task = Task::new(section, TaskKind::Dataset, origin, "urn:one");
    Task { status: ItemStatus::Modified, page: 3, depth: 1, ..task }
}

/// Nodes with their budgets: `open`, `gentle`, `nightly` or `narrow`.
pub(crate) fn config(run: &str, nodes: &[(&str, &str)]) -> RunConfig {
    let start = Timestamp::from_second(1_800_000_000).unwrap();
    let limit = |amount| BudgetLimit { unit: Unit::ApiCalls, amount, period: Duration::from_secs(10), even: false };
    let budget = |id: &str, limits: Vec<BudgetLimit>| BudgetConfig {
        id: BudgetId(id.into()),
        limits,
        max_concurrent: None,
        adaptive_floor_percent: None,
        open_hours: None,
        spent: Vec::new(),
        short_windows_start_spent: false,
    };
    let tonight = OpenInterval { from: start + Duration::from_hours(3), until: start + Duration::from_hours(5) };
    RunConfig {
        run: RunId::from(run),
        weight: 2,
        max_holders: 4,
        lease: Duration::from_mins(1),
        max_charges: 3,
        nodes: nodes
            .iter()
            .map(|(name, budget)| NodeConfig {
                name: NodeName::from(*name),
                budget: BudgetId((*budget).into()),
                group: "default".into(),
                priority: 0,
                suspended: false,
                api_calls_per_document: 1,
                brief: Arc::default(),
            })
            .collect(),
        budgets: vec![
            budget("open", Vec::new()),
            budget("gentle", vec![limit(3)]),
            BudgetConfig { open_hours: Some(Arc::from([tonight])), ..budget("nightly", Vec::new()) },
            BudgetConfig { max_concurrent: Some(1), ..budget("narrow", vec![limit(25)]) },
        ],
        origin_protection: OriginProtection {
            max_concurrent: 8,
            initial_backoff: Duration::from_secs(2),
            max_backoff: Duration::from_hours(1),
        },
        closed_origins: Vec::new(),
        brief: Arc::default(),
    }
}
