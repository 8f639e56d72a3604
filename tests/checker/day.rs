//! Limits over a day, in simulated time: the real queue hands out work, simulated crawlers and servers need time for it,
//! and the same judge reads what the servers saw.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use trawler::clock::{Clock, ManualClock};
use trawler::queue::memory::MemoryQueue;
use trawler::queue::{
    self, BudgetConfig, BudgetId, BudgetLimit, Claim, Holder, JoinRequest, Leased, NodeConfig, OriginProtection, Queue,
    RunConfig, SettleResult, Settlement,
};
use trawler::task::{NodeName, OriginKey, RunId, SectionKey, Task, TaskKind};

use crate::laws::judge_traffic;
use crate::log::Seen;
use crate::place::{Policy, calls};
use crate::random::Random;
use crate::rules::{Limit, Unit};
use crate::verdict::Verdict;
use crate::watched::node_name;

const DAY: u64 = 24 * 3600;
/// Tasks that a crawler has under way.
const AT_A_TIME: usize = 4;
const CRAWLERS: u32 = 3;
const DOCUMENTS: u64 = 20;

/// A queue, and the crawlers and servers around it.
struct Simulation {
    clock: Arc<ManualClock>,
    queue: MemoryQueue,
    random: Random,
    pages: usize,
    /// What happens next: at this millisecond, to this crawler: an answer is settled, or it asks again.
    events: BinaryHeap<Reverse<(i64, u32, Option<usize>)>>,
    under_way: Vec<Option<Leased>>,
    seen: Vec<Seen>,
}

/// What a queue is told of a policy: one budget for so many nodes.
pub(crate) fn policy_config(policy: &Policy, nodes: usize) -> RunConfig {
    let limit = |limit: &Limit| BudgetLimit {
        unit: match limit.unit {
            Unit::ApiCalls => queue::Unit::ApiCalls,
            Unit::Documents => queue::Unit::Documents,
            Unit::Bytes => queue::Unit::Bytes,
        },
        amount: limit.amount,
        period: limit.period,
        even: limit.even,
    };
    let node = |node: usize| NodeConfig {
        name: NodeName::from(node_name(node)),
        budget: BudgetId("limited".into()),
        group: "default".into(),
        priority: 0,
        suspended: false,
        api_calls_per_document: 1,
        brief: Arc::default(),
    };
    let budget = BudgetConfig {
        id: BudgetId("limited".into()),
        limits: policy.limits.iter().map(limit).collect(),
        max_concurrent: policy.max_concurrent.and_then(|max| u32::try_from(max).ok()),
        adaptive_floor_percent: None,
        open_hours: None,
        spent: Vec::new(),
        short_windows_start_spent: false,
    };
    RunConfig {
        run: RunId::from("run-1"),
        weight: 1,
        max_holders: CRAWLERS,
        lease: Duration::from_mins(1),
        max_charges: 3,
        nodes: (0..nodes).map(node).collect(),
        budgets: vec![budget],
        origin_protection: OriginProtection {
            max_concurrent: 8,
            initial_backoff: Duration::from_secs(2),
            max_backoff: Duration::from_hours(1),
        },
        closed_origins: Vec::new(),
        brief: Arc::default(),
    }
}

fn page_task(node: &str, page: usize) -> Task {
    let origin = OriginKey::from(format!("https://{node}.example:443"));
    Task::new(SectionKey::root_of(NodeName::from(node)), TaskKind::Page, origin, format!("{page}"))
}

impl Simulation {
    async fn new(policy: &Policy, nodes: usize, pages: usize) -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::from_second(1_800_000_000).unwrap()));
        let queue = MemoryQueue::new(clock.clone());
        let config = policy_config(policy, nodes);
        let run = config.run.clone();
        queue.open(config).await.unwrap();
        queue.push(&run, (0..nodes).map(|node| page_task(&node_name(node), 0)).collect()).await.unwrap();
        let random = Random::new(nodes as u64);
        Self { clock, queue, random, pages, events: BinaryHeap::new(), under_way: Vec::new(), seen: Vec::new() }
    }

    fn now_ms(&self) -> i64 {
        self.clock.now().as_millisecond()
    }

    async fn run(mut self) -> Vec<Seen> {
        let mut holders = Vec::new();
        for token in 0..CRAWLERS {
            let request =
                JoinRequest { run: RunId::from("run-1"), token, uid: format!("job-{token}"), group: "default".into() };
            holders.push(self.queue.join(request).await.unwrap());
            self.events.push(Reverse((self.now_ms(), token, None)));
        }
        while let Some(Reverse((at, token, answered))) = self.events.pop() {
            let passed = u64::try_from(at - self.now_ms()).unwrap_or(0);
            self.clock.advance(Duration::from_millis(passed));
            let holder = &holders[token as usize];
            if let Some(leased) = answered.and_then(|number| self.under_way[number].take()) {
                self.settle(holder, leased).await;
            }
            self.claim(holder).await;
        }
        assert!(self.queue.ledger(&RunId::from("run-1")).await.unwrap().is_drained());
        self.seen.sort_by_key(|seen| seen.arrived);
        self.seen
    }

    /// The next page follows.
    async fn settle(&self, holder: &Holder, leased: Leased) {
        let next = leased.task.cursor.parse::<usize>().unwrap() + 1;
        let node = leased.task.section.node.as_str();
        let feedback = if next < self.pages { vec![page_task(node, next)] } else { Vec::new() };
        let result = SettleResult::Done { feedback };
        let settlement = Settlement { lease: leased.lease, result, documents: DOCUMENTS, bytes: 0 };
        self.queue.settle(holder, vec![settlement]).await.unwrap();
    }

    async fn claim(&mut self, holder: &Holder) {
        let busy = self.events.iter().filter(|Reverse((_, token, number))| *token == holder.token && number.is_some());
        let room = AT_A_TIME.saturating_sub(busy.count());
        if room == 0 {
            return;
        }
        match self.queue.claim(holder, room).await.unwrap() {
            Claim::Tasks(tasks) => {
                for leased in tasks {
                    self.send(holder.token, leased);
                }
                self.events.push(Reverse((self.now_ms(), holder.token, None)));
            }
            Claim::Wait { until, .. } => {
                // A whole millisecond later: the clock has no smaller ones. Another crawler's settlement may come first.
                let until = (until.as_millisecond() + 1).min(self.now_ms() + 60_000);
                if !self.events.iter().any(|Reverse((_, token, number))| *token == holder.token && number.is_none()) {
                    self.events.push(Reverse((until, holder.token, None)));
                }
            }
            Claim::Drained | Claim::Frozen => {}
        }
    }

    /// Up to 200 ms to the server, up to 300 ms there, and some for what follows.
    fn send(&mut self, token: u32, leased: Leased) {
        let mut wait = |bound| i64::try_from(self.random.below(bound)).unwrap();
        let (travels, takes, stores) = (wait(200), 1 + wait(300), 1 + wait(30));
        let arrived = self.now_ms() + travels;
        let node = leased.task.section.node.to_string();
        let page: usize = leased.task.cursor.parse().unwrap();
        self.seen.push(Seen {
            arrived: arrived * 1000,
            answered: (arrived + takes) * 1000,
            origin: format!("{node}.example"),
            request: format!("GET /?page={page}"),
            node,
            status: 200,
            records: DOCUMENTS,
            bytes: 0,
            opens: u32::from(page + 1 < self.pages),
            retry_after: None,
        });
        self.events.push(Reverse((arrived + takes + stores, token, Some(self.under_way.len()))));
        self.under_way.push(Some(leased));
    }
}

/// Simulates so many nodes with so many pages.
fn judge_days(policy: &Policy, nodes: usize, pages: usize) -> Verdict {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let seen = runtime.block_on(async { Simulation::new(policy, nodes, pages).await.run().await });
    let asked: BTreeSet<(&str, &str)> = seen.iter().map(|seen| (seen.node.as_str(), seen.request.as_str())).collect();
    assert_eq!((asked.len(), seen.len()), (nodes * pages, nodes * pages), "every page was asked for, once");
    let verdict = judge_traffic(&seen, &policy.rules(nodes));
    let days = (seen[seen.len() - 1].arrived - seen[0].arrived) as f64 / 86_400e6;
    println!("{} requests in {days:.2} days: {verdict}", seen.len());
    verdict.assert_clean();
    assert!(verdict.used[0].waited_s > 1.4 * DAY as f64, "{verdict}");
    verdict
}

#[test]
fn one_node_keeps_to_a_thousand_calls_a_day() {
    judge_days(&Policy::of(calls(1000, DAY, false)), 1, 3200);
    judge_days(&Policy::of(calls(1000, DAY, true)), 1, 3200);
}

#[test]
fn ten_nodes_share_a_thousand_calls_a_day() {
    judge_days(&Policy::of(calls(1000, DAY, false)), 10, 320);
    judge_days(&Policy::of(calls(1000, DAY, true)), 10, 320);
}

#[test]
fn a_thousand_nodes_share_ten_thousand_calls_a_day() {
    judge_days(&Policy::of(calls(10_000, DAY, false)), 1000, 32);
    judge_days(&Policy::of(calls(10_000, DAY, true)), 1000, 32);
}

#[test]
fn limits_of_a_second_a_minute_and_a_day_bind_together() {
    let limits = vec![calls(5, 1, false), calls(60, 60, true), calls(2000, DAY, false)];
    judge_days(&Policy { limits, ..Policy::of(calls(5, 1, false)) }, 10, 500);
}

#[test]
fn documents_of_a_day_are_overshot_by_what_is_under_way_at_most_and_paid() {
    let limit = Limit { unit: Unit::Documents, amount: 10_010, period: Duration::from_secs(DAY), even: false };
    judge_days(&Policy::of(limit), 10, 160);
}
