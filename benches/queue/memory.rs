//! How many tasks one thread claims and settles in the memory queue, how many permits it gets, both with open gates; and
//! what a task and a node cost in memory.

use std::sync::Arc;
use std::time::Duration;

use trawler::clock::{Stopwatch, SystemClock};
use trawler::queue::memory::MemoryQueue;
use trawler::queue::{
    BudgetConfig, BudgetId, BudgetLimit, Claim, Holder, JoinRequest, NodeConfig, OriginProtection, QueueError,
    RunConfig, SettleResult, Settlement, SharedQueue, Unit,
};
use trawler::task::{NodeName, OriginKey, RunId, SectionKey, Task, TaskKind};

const TASKS: u32 = 1_000_000;
const NODES: u32 = 1_000;
const MANY_NODES: u32 = 100_000;

pub(crate) async fn bench() -> Result<(), Box<dyn std::error::Error>> {
    // First: what was freed before would be used again, and not show.
    measure_memory().await?;

    println!("\nmemory queue, {TASKS} tasks of {NODES} nodes, one thread");
    for batch in [1, 16, 128] {
        let queue = new_queue();
        let holder = fill(&queue, "bench", TASKS).await?;
        let stopwatch = Stopwatch::start();
        work_off(&queue, &holder, batch).await?;
        report(&format!("claim+settle, batches of {batch}"), "tasks", TASKS, stopwatch);
    }

    let queue = new_queue();
    let holder = fill(&queue, "bench", 1).await?;
    if let Claim::Tasks(tasks) = queue.claim(&holder, 1).await? {
        let stopwatch = Stopwatch::start();
        for _ in 0..TASKS {
            queue.permit(&holder, &tasks[0].lease, &tasks[0].task.origin).await?;
        }
        report("permit", "permits", TASKS, stopwatch);
    }

    println!("\ntwo runs in turn, {TASKS} tasks, the same budgets and origins, one thread");
    let queue = new_queue();
    let runs = [fill(&queue, "first", TASKS / 2).await?, fill(&queue, "second", TASKS / 2).await?];
    let stopwatch = Stopwatch::start();
    let mut left = true;
    while left {
        left = false;
        for holder in &runs {
            left |= work_once(&queue, holder, 16).await?;
        }
    }
    report("claim+settle, batches of 16", "tasks", TASKS, stopwatch);
    Ok(())
}

fn new_queue() -> SharedQueue {
    Arc::new(MemoryQueue::new(SystemClock::shared()))
}

async fn work_off(queue: &SharedQueue, holder: &Holder, batch: usize) -> Result<(), QueueError> {
    while work_once(queue, holder, batch).await? {}
    assert_eq!(queue.ledger(&holder.run).await?.done, u64::from(TASKS));
    Ok(())
}

/// Claims and settles a batch; whether there was any.
async fn work_once(queue: &SharedQueue, holder: &Holder, batch: usize) -> Result<bool, QueueError> {
    let Claim::Tasks(tasks) = queue.claim(holder, batch).await? else { return Ok(false) };
    let settlements = tasks.iter().map(|leased| Settlement {
        lease: leased.lease,
        result: SettleResult::Done { feedback: Vec::new() },
        documents: 1,
        bytes: 1_000,
    });
    queue.settle(holder, settlements.collect()).await?;
    Ok(true)
}

async fn fill(queue: &SharedQueue, run: &str, tasks: u32) -> Result<Holder, QueueError> {
    let run = RunId::from(run);
    let open = BudgetId("open".into());
    let nodes = (0..NODES).map(|number| node(number, open.clone())).collect();
    queue.open(config(&run, nodes, vec![budget(open, Vec::new())])).await?;
    let pages = (0..tasks).map(|number| page(number % NODES, number)).collect();
    let stopwatch = Stopwatch::start();
    queue.push(&run, pages).await?;
    if tasks > 1 {
        report("push", "tasks", tasks, stopwatch);
    }
    queue.join(JoinRequest { run, token: 0, uid: "bench".into(), group: "default".into() }).await
}

/// A budget with a limit and an origin for each node, as nodes on servers of their own have; ten tasks each.
async fn measure_memory() -> Result<(), QueueError> {
    println!("memory queue, {TASKS} tasks of {MANY_NODES} nodes, each with a budget and an origin of its own");
    let queue = new_queue();
    let run = RunId::from("memory");
    let second = BudgetLimit { unit: Unit::ApiCalls, amount: 10, period: Duration::from_secs(1), even: false };
    let own = |number: u32| BudgetId(format!("default for https://node-{number}.example:443").into());
    let nodes = (0..MANY_NODES).map(|number| node(number, own(number))).collect();
    let budgets = (0..MANY_NODES).map(|number| budget(own(number), vec![second])).collect();
    let before = resident_kib();
    queue.open(config(&run, nodes, budgets)).await?;
    let opened = resident_kib();
    // Its first task makes a node's lane; the configuration has been given back by now.
    let first: Vec<Task> = (0..MANY_NODES).map(|number| page(number, number)).collect();
    queue.push(&run, first).await?;
    let listed = resident_kib();
    let rest: Vec<Task> = (MANY_NODES..TASKS).map(|number| page(number % MANY_NODES, number)).collect();
    let made = resident_kib();
    queue.push(&run, rest).await?;
    let pushed = resident_kib();
    let per = |kib: u64, count: u32| kib * 1024 / u64::from(count);
    println!("{:>30}: {:>12} bytes", "node, with its configuration", per(opened.saturating_sub(before), MANY_NODES));
    println!("{:>30}: {:>12} bytes", "its lane and first task", per(listed.saturating_sub(opened), MANY_NODES));
    println!(
        "{:>30}: {:>12} bytes",
        "a further task, its own data",
        per(made.saturating_sub(listed), TASKS - MANY_NODES)
    );
    println!(
        "{:>30}: {:>12} bytes",
        "a further task, the queue's",
        per(pushed.saturating_sub(made), TASKS - MANY_NODES)
    );
    println!("{:>30}: {:>12} MiB", "all", pushed.saturating_sub(before) / 1024);
    let stopwatch = Stopwatch::start();
    queue.close(&run).await?;
    println!("{:>30}: {:>12.3} s", "closed in", stopwatch.elapsed().as_secs_f64());
    Ok(())
}

/// 0 where the system does not say.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

pub(crate) fn name(number: u32) -> NodeName {
    NodeName::from(format!("node-{number}"))
}

pub(crate) fn node(number: u32, budget: BudgetId) -> NodeConfig {
    NodeConfig {
        name: name(number),
        budget,
        group: "default".into(),
        priority: 0,
        suspended: false,
        api_calls_per_document: 1,
        brief: Arc::default(),
    }
}

pub(crate) fn budget(id: BudgetId, limits: Vec<BudgetLimit>) -> BudgetConfig {
    BudgetConfig {
        id,
        limits,
        max_concurrent: None,
        adaptive_floor_percent: None,
        open_hours: None,
        spent: Vec::new(),
        short_windows_start_spent: false,
    }
}

pub(crate) fn config(run: &RunId, nodes: Vec<NodeConfig>, budgets: Vec<BudgetConfig>) -> RunConfig {
    RunConfig {
        run: run.clone(),
        weight: 1,
        max_holders: 1,
        lease: Duration::from_mins(1),
        max_charges: 3,
        nodes,
        budgets,
        origin_protection: OriginProtection {
            max_concurrent: 1_000_000,
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_mins(1),
        },
        closed_origins: Vec::new(),
        brief: Arc::default(),
    }
}

pub(crate) fn page(node: u32, number: u32) -> Task {
    let origin = OriginKey::from(format!("https://node-{node}.example:443"));
    Task::new(SectionKey::root_of(name(node)), TaskKind::Page, origin, format!("page={number}"))
}

fn report(what: &str, unit: &str, count: u32, stopwatch: Stopwatch) {
    let per_second = f64::from(count) / stopwatch.elapsed().as_secs_f64();
    println!("{what:>30}: {per_second:>12.0} {unit}/s");
}
