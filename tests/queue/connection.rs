//! What the queue in Redis does when its server stops, restarts, forgets, moves, or answers what it should not. In real time,
//! against servers of each test's own; where a server would take long, a fake one answers.

mod answers;
mod doctor;
mod failover;
mod fake;
mod refusals;
mod restarts;

use std::future::Future;
use std::time::Duration;

use trawler::clock::SystemClock;
use trawler::queue::redis::{RedisSettings, Timing, open_with_timing};
use trawler::queue::{Claim, Holder, JoinRequest, Leased, QueueError, SharedQueue};
use trawler::task::RunId;

use crate::contract::scene::{GROUP, config, done, pages, settlement};

fn run() -> RunId {
    RunId::from("run-1")
}

/// Short enough for a test, long enough for a busy machine.
fn timing() -> Timing {
    Timing {
        connect: Duration::from_secs(2),
        response: Duration::from_secs(2),
        patience: Duration::from_secs(8),
        first_patience: Duration::from_secs(1),
    }
}

fn queue(settings: &RedisSettings) -> SharedQueue {
    open_with_timing(settings, SystemClock::shared(), timing()).unwrap()
}

/// With an open run that has so many tasks.
async fn with_run(settings: &RedisSettings, tasks: u32) -> SharedQueue {
    let queue = queue(settings);
    open_run(&queue, tasks).await;
    queue
}

async fn open_run(queue: &SharedQueue, tasks: u32) {
    queue.open(config(&["a"])).await.unwrap();
    queue.push(&run(), pages("a", tasks)).await.unwrap();
}

async fn join(queue: &SharedQueue, token: u32) -> Result<Holder, QueueError> {
    queue.join(JoinRequest { run: run(), token, uid: format!("job-{token}"), group: GROUP.into() }).await
}

async fn claim(queue: &SharedQueue, holder: &Holder, max: usize) -> Result<Vec<Leased>, QueueError> {
    match queue.claim(holder, max).await? {
        Claim::Tasks(tasks) => Ok(tasks),
        _ => Ok(Vec::new()),
    }
}

async fn settle(queue: &SharedQueue, holder: &Holder, tasks: &[Leased]) -> Result<(), QueueError> {
    let settlements = tasks.iter().map(|leased| settlement(leased.lease, done())).collect();
    queue.settle(holder, settlements).await.map(drop)
}

/// Works until nothing is left. Every call must succeed.
async fn work(queue: SharedQueue, token: u32) {
    let holder = join(&queue, token).await.unwrap();
    loop {
        match queue.claim(&holder, 2).await.unwrap() {
            Claim::Tasks(tasks) => settle(&queue, &holder, &tasks).await.unwrap(),
            Claim::Wait { .. } => tokio::time::sleep(Duration::from_millis(20)).await,
            Claim::Drained => return,
            Claim::Frozen => panic!("nobody froze the run"),
        }
    }
}

/// Works with four crawlers, each over a connection of its own, while something happens to the server once a tenth is done.
/// Then everything is done, and once.
async fn works_through<F: Future<Output = ()>>(settings: &RedisSettings, tasks: u32, happens: F) {
    let owner = with_run(settings, tasks).await;
    let crawlers: Vec<_> = (0..4).map(|token| tokio::spawn(work(queue(settings), token))).collect();
    while owner.ledger(&run()).await.unwrap().done < u64::from(tasks / 10) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(owner.ledger(&run()).await.unwrap().done < u64::from(tasks), "the work was done before anything happened");
    happens.await;
    for crawler in crawlers {
        crawler.await.unwrap();
    }
    let ledger = owner.ledger(&run()).await.unwrap();
    assert!(ledger.is_balanced(), "{ledger:?}");
    assert_eq!((ledger.discovered, ledger.done), (tasks.into(), tasks.into()), "{ledger:?}");
    assert_eq!(owner.audit(&run()).await.unwrap(), Vec::<String>::new());
}

/// The sentence of an error that a call came to.
fn why<T: std::fmt::Debug>(answer: Result<T, QueueError>) -> String {
    answer.unwrap_err().to_string()
}

fn is_lost<T>(answer: &Result<T, QueueError>) -> bool {
    matches!(answer, Err(QueueError::Lost { .. }))
}
