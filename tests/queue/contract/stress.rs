//! C-09, the stress of the token-bounded reactor. A token is a holder's place, and a worker is a crawler that works on
//! one task at a time while it has one: so what is in flight is never above the tokens, whatever the number of workers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use trawler::queue::{Claim, Holder, Leased, Ledger, QueueError, ReleaseCause, Settled, Settlement};
use trawler::task::TaskId;

use super::scene::{GROUP, MakeQueue, Scene, config, done_with, page, pages, settlement};

pub(super) async fn c_09_50_tokens_50_workers_1_000_seeds(make: MakeQueue) {
    stress(make, 50, 50, 1_000, 1).await;
}

pub(super) async fn c_09_10_tokens_50_workers_1_000_seeds(make: MakeQueue) {
    stress(make, 10, 50, 1_000, 1).await;
}

pub(super) async fn c_09_50_tokens_10_workers_1_000_seeds(make: MakeQueue) {
    stress(make, 50, 10, 1_000, 1).await;
}

pub(super) async fn c_09_5_000_tokens_5_000_workers_100_000_seeds(make: MakeQueue) {
    stress(make, 5_000, 5_000, 100_000, 10).await;
}

pub(super) async fn c_09_50_tokens_5_000_workers_100_000_seeds(make: MakeQueue) {
    stress(make, 50, 5_000, 100_000, 10).await;
}

pub(super) async fn c_09_5_000_tokens_50_workers_100_000_seeds(make: MakeQueue) {
    stress(make, 5_000, 50, 100_000, 10).await;
}

/// A worker with a token gives it back after so many tasks if others want one.
const TASKS_PER_TOKEN: usize = 20;
/// What a seed finds has its number plus this.
const FOUND: u32 = 1_000_000;

struct Stress {
    scene: Scene,
    tokens: u64,
    /// What a worker takes at once; it works on one after the other.
    at_once: usize,
    in_flight: AtomicU64,
    most_in_flight: AtomicU64,
    handed_out: Mutex<HashMap<TaskId, u32>>,
    token_freed: Notify,
}

/// Every seed goes through feedback once and is done; nothing is left.
async fn stress(make: MakeQueue, tokens: u32, workers: u32, seeds: u32, at_once: usize) {
    let mut config = config(&["a"]);
    config.max_holders = tokens;
    let scene = Scene::open(make, config).await;
    assert_eq!(scene.push(pages("a", seeds)).await.new, u64::from(seeds));
    let stress = Arc::new(Stress {
        scene,
        tokens: tokens.into(),
        at_once,
        in_flight: AtomicU64::new(0),
        most_in_flight: AtomicU64::new(0),
        handed_out: Mutex::default(),
        token_freed: Notify::new(),
    });
    let workers: Vec<_> = (0..workers).map(|worker| tokio::spawn(Arc::clone(&stress).work(worker))).collect();
    for worker in workers {
        worker.await.unwrap();
    }
    let both = u64::from(seeds) * 2;
    assert_eq!(stress.scene.ledger().await, Ledger { discovered: both, done: both, ..Ledger::default() });
    assert_eq!(stress.scene.queue.lanes(&stress.scene.run, 10).await, Ok(Vec::new()), "nothing is tracked");
    let expected = (0..seeds).flat_map(|seed| [page("a", seed).id, page("a", seed + FOUND).id]);
    let expected: HashMap<TaskId, u32> = expected.map(|id| (id, 1)).collect();
    assert!(*stress.handed_out.lock().unwrap() == expected, "each task was handed out once");
    let most = stress.most_in_flight.load(Ordering::SeqCst);
    assert!((1..=u64::from(tokens)).contains(&most), "{most} were in flight");
}

impl Stress {
    async fn work(self: Arc<Self>, worker: u32) {
        loop {
            match self.scene.try_join(worker, GROUP).await {
                Ok(holder) => {
                    let is_drained = self.work_while_it_lasts(&holder).await;
                    self.scene.queue.release_holder(&self.scene.run, worker, ReleaseCause::Finished).await.unwrap();
                    self.token_freed.notify_one();
                    if is_drained {
                        return;
                    }
                    tokio::task::yield_now().await;
                }
                Err(QueueError::NoPlaceFree { .. }) => self.token_freed.notified().await,
                Err(other) => panic!("{other}"),
            }
        }
    }

    fn work_on(&self, leased: &Leased) -> Settlement {
        *self.handed_out.lock().unwrap().entry(leased.task.id).or_default() += 1;
        let number: u32 = leased.task.cursor.trim_start_matches("page=").parse().unwrap();
        let found = if number < FOUND { vec![page("a", number + FOUND)] } else { Vec::new() };
        settlement(leased.lease, done_with(found))
    }

    /// Returns whether nothing is left.
    async fn work_while_it_lasts(&self, holder: &Holder) -> bool {
        let mut worked = 0;
        while worked < TASKS_PER_TOKEN {
            match self.scene.queue.claim(holder, self.at_once).await.unwrap() {
                Claim::Tasks(tasks) => {
                    worked += tasks.len();
                    let in_flight = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
                    self.most_in_flight.fetch_max(in_flight, Ordering::SeqCst);
                    assert!(in_flight <= self.tokens);
                    tokio::task::yield_now().await;
                    let settlements = tasks.iter().map(|leased| self.work_on(leased)).collect();
                    self.in_flight.fetch_sub(1, Ordering::SeqCst);
                    let settled = self.scene.queue.settle(holder, settlements).await.unwrap();
                    assert!(settled.iter().all(|settled| matches!(settled, Settled::Accepted(_))));
                }
                Claim::Wait { until, sequence } => {
                    self.scene.queue.wait(&self.scene.run, sequence, until).await.unwrap();
                }
                Claim::Drained => return true,
                Claim::Frozen => panic!("nobody froze the run"),
            }
        }
        false
    }
}
