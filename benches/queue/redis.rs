//! Claim and settle in Redis, beside the limit of the same server; pushes, permits, memory, and how they scale.

use std::time::Duration;

use trawler::clock::{Stopwatch, SystemClock};
use trawler::queue::redis::{RedisSettings, open};
use trawler::queue::{
    BudgetId, BudgetLimit, Claim, Holder, JoinRequest, QueueError, RunConfig, SettleResult, Settlement, SharedQueue,
    Unit,
};
use trawler::task::{OriginKey, RunId, SectionKey, Task, TaskKind};

use crate::limit;
use crate::memory::{budget, config, name, node};
use crate::server::Server;

type Failure = Box<dyn std::error::Error>;

const RUN: &str = "bench";
const CONNECTIONS: [u32; 3] = [1, 4, 16];
const BATCHES: [usize; 3] = [1, 10, 50];

pub(crate) async fn bench(wanted: &[String]) -> Result<(), Failure> {
    let wants =
        |name: &str| wanted.iter().all(|wanted| wanted == "redis") || wanted.iter().any(|wanted| wanted == name);
    let server = Server::start().await?;
    if wants("rates") {
        rates(&server).await?;
    }
    if wants("memory-of-tasks") {
        memory(&server).await?;
    }
    if wants("permits") {
        permits(&server).await?;
    }
    if wants("scale") {
        scale(&server).await?;
    }
    Ok(())
}

/// Twenty lanes of five nodes each, under one budget of two limits that are never reached.
async fn rates(server: &Server) -> Result<(), Failure> {
    println!("\nclaim+settle in Redis: 20 lanes of 5 nodes, two limits, gates open; medians of three, in turn");
    println!(
        "batch, connections | items/s: limit, with payload, trawler | share: of limit, with payload | in two calls: items/s, share | server us/task: limit, payload, trawler, in two calls"
    );
    for batch in BATCHES {
        for connections in CONNECTIONS {
            let tasks = match batch {
                1 => 6_000 * connections.min(4) as usize,
                10 => 40_000 * connections.min(4) as usize / 2,
                _ => 120_000,
            };
            let mut cells: [Vec<(f64, f64)>; 4] = Default::default();
            for _ in 0..3 {
                cells[0].push(of_limit(server, tasks, batch, connections, false).await?);
                cells[1].push(of_limit(server, tasks, batch, connections, true).await?);
                cells[2].push(of_queue(server, tasks, batch, connections, true).await?);
                cells[3].push(of_queue(server, tasks, batch, connections, false).await?);
            }
            let [limit, payload, ours, in_two] = cells.map(median);
            println!(
                "{batch:>5}, {connections:<11} | {:>8.0} {:>8.0} {:>8.0} | {:>4.0} % {:>4.0} % | {:>8.0} {:>4.0} % | {:>6.1} {:>6.1} {:>6.1} {:>6.1}",
                limit.0,
                payload.0,
                ours.0,
                100.0 * ours.0 / limit.0,
                100.0 * ours.0 / payload.0,
                in_two.0,
                100.0 * in_two.0 / limit.0,
                limit.1,
                payload.1,
                ours.1,
                in_two.1
            );
        }
    }
    Ok(())
}

fn median(mut cells: Vec<(f64, f64)>) -> (f64, f64) {
    let mut of = |part: fn(&(f64, f64)) -> f64| {
        cells.sort_by(|a, b| part(a).total_cmp(&part(b)));
        part(&cells[cells.len() / 2])
    };
    (of(|cell| cell.0), of(|cell| cell.1))
}

/// Tasks in a second, and microseconds of the server's for each.
async fn of_limit(
    server: &Server,
    tasks: usize,
    batch: usize,
    connections: u32,
    payload: bool,
) -> Result<(f64, f64), Failure> {
    server.flush().await?;
    limit::fill(server, tasks).await?;
    let mut workers = Vec::new();
    for _ in 0..connections {
        workers.push(limit::work(server.connect().await?, batch, payload));
    }
    measured(server, tasks, async {
        let done = futures_util::future::try_join_all(workers).await?;
        assert_eq!(done.iter().sum::<usize>(), tasks);
        Ok(())
    })
    .await
}

/// `at_once`: as crawlers do it, which settle and claim in one call.
async fn of_queue(
    server: &Server,
    tasks: usize,
    batch: usize,
    connections: u32,
    at_once: bool,
) -> Result<(f64, f64), Failure> {
    server.flush().await?;
    let owner = queue(server)?;
    owner.open(of_lanes(20, 5, connections)).await?;
    owner.push(&run(), tasks_of(20, 5, tasks)).await?;
    let mut workers = Vec::new();
    for token in 0..connections {
        let queue = queue(server)?;
        let holder = join(&queue, token).await?;
        workers.push(async move { work_some(&queue, &holder, batch, at_once, usize::MAX).await });
    }
    let measured = measured(server, tasks, async {
        futures_util::future::try_join_all(workers).await?;
        Ok(())
    })
    .await?;
    assert_eq!(owner.ledger(&run()).await?.done, tasks as u64);
    Ok(measured)
}

async fn measured(
    server: &Server,
    tasks: usize,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<(f64, f64), Failure> {
    let before = server.cpu_us().await?;
    let stopwatch = Stopwatch::start();
    work.await?;
    let seconds = stopwatch.elapsed().as_secs_f64();
    let cpu_us = server.cpu_us().await? - before;
    Ok((tasks as f64 / seconds, cpu_us / tasks as f64))
}

async fn memory(server: &Server) -> Result<(), Failure> {
    println!(
        "\nmemory and push: bytes a queued task over its payload, from the opened run on; one connection; nodes in turn, as \
         seeds are, or one node's tasks together, as crawlers find them"
    );
    for (nodes, tasks, together) in [
        (10_000_u32, 100_000_usize, false),
        (10_000, 100_000, true),
        (100_000, 100_000, false),
        (100, 1_000_000, false),
        (100, 1_000_000, true),
    ] {
        server.flush().await?;
        let queue = queue(server)?;
        let lanes = nodes.min(100);
        queue.open(of_lanes(lanes, nodes / lanes, 1)).await?;
        let opened = server.memory().await?;
        let opening = server.longest_calls().await?;
        let mut pushed = tasks_of(lanes, nodes / lanes, tasks);
        if together {
            pushed.sort_by(|a, b| a.section.node.cmp(&b.section.node));
        }
        let (rate, us) = measured(server, tasks, async {
            queue.push(&run(), pushed).await?;
            Ok(())
        })
        .await?;
        let used = server.memory().await? - opened;
        let payload = 160.0;
        println!(
            "{tasks:>8} tasks of {nodes:>6} nodes, {}: {:>6.0} bytes, {rate:>9.0} pushed/s, {us:.1} us of the server; longest \
             calls: opening {opening}, then {}",
            if together { "together" } else { "in turn" },
            used / tasks as f64 - payload,
            server.longest_calls().await?
        );
    }
    Ok(())
}

async fn permits(server: &Server) -> Result<(), Failure> {
    println!("\npermits");
    server.flush().await?;
    let owner = queue(server)?;
    owner.open(of_lanes(20, 5, 16)).await?;
    owner.push(&run(), tasks_of(20, 5, 1000)).await?;
    let holder = join(&owner, 0).await?;
    let Claim::Tasks(tasks) = owner.claim(&holder, 1).await? else { return Err("nothing to claim".into()) };
    for at_once in [1_usize, 16] {
        let count = 10_000 * at_once;
        let (rate, us) = measured(server, count, async {
            for _ in 0..count / at_once {
                let asked = (0..at_once).map(|_| owner.permit(&holder, &tasks[0].lease, &tasks[0].task.origin));
                futures_util::future::try_join_all(asked).await?;
            }
            Ok(())
        })
        .await?;
        println!("{at_once:>3} at once: {rate:>9.0}/s, {us:.1} us of the server");
    }
    Ok(())
}

/// The server's time for a claimed and settled task, with ever more of them queued.
async fn scale(server: &Server) -> Result<(), Failure> {
    println!("\nscale: batches of 10, one connection, 1,000 tasks claimed and settled of so many; medians of five");
    for (what, lanes, nodes) in [("one lane, one node", 1_u32, 1_u32), ("20 lanes of 5 nodes", 20, 5)] {
        for tasks in [1_000_usize, 10_000, 100_000, 1_000_000] {
            server.flush().await?;
            let queue = queue(server)?;
            queue.open(of_lanes(lanes, nodes, 1)).await?;
            queue.push(&run(), tasks_of(lanes, nodes, tasks + 5_000)).await?;
            let holder = join(&queue, 0).await?;
            let mut cells = Vec::new();
            for _ in 0..5 {
                cells.push(
                    measured(server, 1_000, async { Ok(work_some(&queue, &holder, 10, true, 1_000).await?) }).await?,
                );
            }
            println!("{what}, {tasks:>8} queued: {:>6.1} us a task", median(cells).1);
        }
    }
    for lanes in [100_000_u32] {
        server.flush().await?;
        let queue = queue(server)?;
        let stopwatch = Stopwatch::start();
        queue.open(of_lanes(lanes, 1, 1)).await?;
        queue.push(&run(), tasks_of(lanes, 1, 2 * lanes as usize)).await?;
        println!("{lanes} lanes: opened and pushed in {:.1} s", stopwatch.elapsed().as_secs_f64());
        let holder = join(&queue, 0).await?;
        let (rate, us) =
            measured(server, 2 * lanes as usize, async { Ok(work_off(&queue, &holder, 50).await?) }).await?;
        println!("{lanes} lanes: {rate:.0} tasks/s, {us:.1} us a task");
        let stopwatch = Stopwatch::start();
        queue.close(&run()).await?;
        println!(
            "closed in {:.1} s; longest calls: {}",
            stopwatch.elapsed().as_secs_f64(),
            server.longest_calls().await?
        );
    }
    Ok(())
}

fn run() -> RunId {
    RunId::from(RUN)
}

fn queue(server: &Server) -> Result<SharedQueue, QueueError> {
    let settings =
        RedisSettings { url: server.url.clone(), password_file: None, ca_file: None, instance: "bench".into() };
    open(&settings, SystemClock::shared())
}

fn of_lanes(lanes: u32, nodes: u32, holders: u32) -> RunConfig {
    let limits = [(1, 1_000_000_000), (60, 10_000_000_000)];
    let limits = limits.map(|(seconds, amount)| BudgetLimit {
        unit: Unit::ApiCalls,
        amount,
        period: Duration::from_secs(seconds),
        even: false,
    });
    let id = BudgetId("open".into());
    let nodes = (0..lanes * nodes).map(|number| node(number, id.clone())).collect();
    RunConfig { max_holders: holders, ..config(&run(), nodes, vec![budget(id, limits.to_vec())]) }
}

/// Dealt out to the nodes in turn, each with about 150 bytes of its own.
fn tasks_of(lanes: u32, nodes: u32, count: usize) -> Vec<Task> {
    let origins: Vec<OriginKey> =
        (0..lanes).map(|lane| OriginKey::from(format!("https://node-{lane}.example:443"))).collect();
    let cursor = "c".repeat(120);
    (0..count)
        .map(|number| {
            let node = u32::try_from(number).unwrap_or(0) % (lanes * nodes);
            let origin = origins[(node % lanes) as usize].clone();
            Task::new(SectionKey::root_of(name(node)), TaskKind::Page, origin, format!("{cursor}page={number:016}"))
        })
        .collect()
}

async fn join(queue: &SharedQueue, token: u32) -> Result<Holder, QueueError> {
    queue.join(JoinRequest { run: run(), token, uid: "bench".into(), group: "default".into() }).await
}

async fn work_off(queue: &SharedQueue, holder: &Holder, batch: usize) -> Result<(), QueueError> {
    work_some(queue, holder, batch, true, usize::MAX).await
}

/// Claims and settles until nothing is left, or so much is done.
async fn work_some(
    queue: &SharedQueue,
    holder: &Holder,
    batch: usize,
    at_once: bool,
    most: usize,
) -> Result<(), QueueError> {
    let (mut done, mut claimed) = (0, queue.claim(holder, batch).await?);
    // Others have what is left when there is nothing to claim.
    while let Claim::Tasks(tasks) = claimed {
        done += tasks.len();
        let settlements = tasks.iter().map(|leased| Settlement {
            lease: leased.lease,
            result: SettleResult::Done { feedback: Vec::new() },
            documents: 1,
            bytes: 1_000,
        });
        let settlements: Vec<Settlement> = settlements.collect();
        if done >= most || !at_once {
            queue.settle(holder, settlements).await?;
            if done >= most {
                break;
            }
            claimed = queue.claim(holder, batch).await?;
        } else {
            (_, claimed) = queue.settle_and_claim(holder, settlements, batch).await?;
        }
    }
    Ok(())
}
