//! How many tasks one thread claims and settles in the memory queue, and how many permits it gets, with open gates.
//!
//! `cargo bench --bench queue`
#![expect(clippy::print_stdout, reason = "what it measures is printed")]

use std::sync::Arc;
use std::time::Duration;

use trawler::clock::{Stopwatch, SystemClock};
use trawler::queue::memory::MemoryQueue;
use trawler::queue::{
    BudgetConfig, BudgetId, Claim, JoinRequest, NodeConfig, OriginProtection, RunConfig, SettleResult, Settlement,
    SharedQueue,
};
use trawler::task::{NodeName, OriginKey, RunId, SectionKey, Task, TaskKind};

const TASKS: u32 = 1_000_000;
const NODES: u32 = 1_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("memory queue, {TASKS} tasks of {NODES} nodes, one thread");
    for batch in [1, 16, 128] {
        let queue: SharedQueue = Arc::new(MemoryQueue::new(SystemClock::shared()));
        let holder = fill(&queue, TASKS).await?;
        let stopwatch = Stopwatch::start();
        while let Claim::Tasks(tasks) = queue.claim(&holder, batch).await? {
            let settlements = tasks.iter().map(|leased| Settlement {
                lease: leased.lease,
                result: SettleResult::Done { feedback: Vec::new() },
                documents: 1,
                bytes: 1_000,
            });
            queue.settle(&holder, settlements.collect()).await?;
        }
        report(&format!("claim+settle, batches of {batch}"), "tasks", TASKS, stopwatch);
        assert_eq!(queue.ledger(&holder.run).await?.done, u64::from(TASKS));
    }

    let queue: SharedQueue = Arc::new(MemoryQueue::new(SystemClock::shared()));
    let holder = fill(&queue, 1).await?;
    if let Claim::Tasks(tasks) = queue.claim(&holder, 1).await? {
        let stopwatch = Stopwatch::start();
        for _ in 0..TASKS {
            queue.permit(&holder, &tasks[0].lease, &tasks[0].task.origin).await?;
        }
        report("permit", "permits", TASKS, stopwatch);
    }
    Ok(())
}

async fn fill(queue: &SharedQueue, tasks: u32) -> Result<trawler::queue::Holder, trawler::queue::QueueError> {
    let run = RunId::from("bench");
    let budget = BudgetId("open".into());
    let node = |number: u32| NodeName::from(format!("node-{number}"));
    let nodes = (0..NODES).map(|number| NodeConfig {
        name: node(number),
        budget: budget.clone(),
        group: "default".into(),
        priority: 0,
        suspended: false,
        api_calls_per_document: 1,
    });
    let config = RunConfig {
        run: run.clone(),
        weight: 1,
        max_holders: 1,
        lease: Duration::from_mins(1),
        max_charges: 3,
        nodes: nodes.collect(),
        budgets: vec![BudgetConfig {
            id: budget.clone(),
            limits: Vec::new(),
            max_concurrent: None,
            adaptive_floor_percent: None,
            open_hours: None,
            spent: Vec::new(),
            short_windows_start_spent: false,
        }],
        origin_protection: OriginProtection {
            max_concurrent: 1_000_000,
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_mins(1),
        },
    };
    queue.open(config).await?;
    let pages = (0..tasks).map(|number| {
        let node = node(number % NODES);
        let origin = OriginKey::from(format!("https://{node}.example:443"));
        Task::new(SectionKey::root_of(node), TaskKind::Page, origin, format!("page={number}"))
    });
    let stopwatch = Stopwatch::start();
    queue.push(&run, pages.collect()).await?;
    report("push", "tasks", tasks, stopwatch);
    queue.join(JoinRequest { run, token: 0, uid: "bench".into(), group: "default".into() }).await
}

fn report(what: &str, unit: &str, count: u32, stopwatch: Stopwatch) {
    let per_second = f64::from(count) / stopwatch.elapsed().as_secs_f64();
    println!("{what:>30}: {per_second:>12.0} {unit}/s");
}
