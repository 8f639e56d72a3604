//! Another client of the run's queue: it looks what becomes of the leases of crawlers that are killed, and takes stock.

use std::time::Duration;

use tokio::runtime::Runtime;
use trawler::clock::{Clock, SystemClock};
use trawler::queue::redis::{RedisSettings, open};
use trawler::queue::{Ledger, QueueError, QueuedTask, SharedQueue, TaskState};
use trawler::task::{RunId, TaskId};

use crate::log::micros;

/// Between two looks.
const LOOKS_EVERY: Duration = Duration::from_millis(20);
/// More than there ever are.
const ALL: usize = 10_000;

pub(super) struct Onlooker {
    runtime: Runtime,
    queue: SharedQueue,
    run: RunId,
    clock: SystemClock,
    orphans: Vec<Orphan>,
    /// Nothing could be handed out before, in microseconds since 1970.
    closed_until: i64,
    /// How long each orphan waited, in microseconds.
    waited: Vec<i64>,
}

/// A task whose crawler was killed.
#[derive(Clone, Copy)]
struct Orphan {
    task: TaskId,
    /// Before this crash.
    charges: u32,
    since: i64,
}

/// The tasks that a crawler holds, and how often each was in a crash.
pub(super) type Held = Vec<(TaskId, u32)>;

impl Onlooker {
    pub(super) fn new(settings: &RedisSettings) -> Self {
        Self {
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
            queue: open(settings, SystemClock::shared()).unwrap(),
            run: RunId::from("test-1"),
            clock: SystemClock::new(),
            orphans: Vec::new(),
            closed_until: 0,
            waited: Vec::new(),
        }
    }

    pub(super) fn now(&self) -> i64 {
        self.clock.now().as_microsecond()
    }

    /// What the holder of a token has. It is to stand still meanwhile.
    pub(super) fn held_by(&self, token: u32) -> Held {
        let is_its = |task: &QueuedTask| matches!(task.state, TaskState::Leased { token: of, .. } if of == token);
        self.tasks().into_iter().filter(is_its).map(|task| (task.task.id, task.charges)).collect()
    }

    /// Who holds these is killed now.
    pub(super) fn note_killed(&mut self, held: Held) {
        let since = self.now();
        self.orphans.extend(held.into_iter().map(|(task, charges)| Orphan { task, charges, since }));
    }

    /// Nothing could be handed out until then.
    pub(super) fn note_closed(&mut self, until: i64) {
        self.closed_until = until;
    }

    /// Looks again and again for so long.
    pub(super) fn look_for(&mut self, time: Duration) {
        let until = self.now() + micros(time);
        while self.now() < until {
            if !self.orphans.is_empty() {
                self.look();
            }
            std::thread::sleep(LOOKS_EVERY);
        }
    }

    fn look(&mut self) {
        let (tasks, now) = (self.tasks(), self.now());
        let waits = |orphan: &Orphan| {
            let task = tasks.iter().find(|task| task.task.id == orphan.task);
            // Leased and without a further charge: by who was killed. What is there no more was handed out and settled.
            task.is_some_and(|task| task.charges == orphan.charges || !matches!(task.state, TaskState::Leased { .. }))
        };
        for orphan in self.orphans.extract_if(.., |orphan| !waits(orphan)) {
            self.waited.push((now - orphan.since.max(self.closed_until)).max(0));
        }
    }

    /// How long each task whose crawler was killed waited until it was handed out again, the longest last, in seconds.
    pub(super) fn waited_s(&mut self) -> Vec<f64> {
        self.look();
        self.waited.sort_unstable();
        self.waited.iter().map(|waited| *waited as f64 / 1e6).collect()
    }

    /// What is queued, delayed and leased. Nothing, once the run is at its end.
    fn tasks(&self) -> Vec<QueuedTask> {
        match self.runtime.block_on(self.queue.peek(&self.run, ALL)) {
            Err(QueueError::NoSuchRun { .. }) => Vec::new(),
            tasks => tasks.unwrap(),
        }
    }

    /// How many tasks are done, while the run is there.
    pub(super) fn done(&self) -> Option<u64> {
        Some(self.runtime.block_on(self.queue.ledger(&self.run)).ok()?.done)
    }

    /// Freezes the run until nobody works any more. Then its account must be what is there: a page of each node that is not done,
    /// and all pages before it.
    pub(super) fn take_stock(&self, nodes: usize, pages: usize) {
        self.runtime.block_on(async {
            self.queue.freeze(&self.run).await.unwrap();
            let all_left = async {
                while !self.queue.holders(&self.run).await.unwrap().is_empty() {
                    tokio::time::sleep(LOOKS_EVERY).await;
                }
            };
            tokio::time::timeout(Duration::from_mins(1), all_left).await.unwrap();
            let left = self.queue.peek(&self.run, ALL).await.unwrap();
            let open: u64 = left.iter().map(|task| pages as u64 - u64::from(task.task.page)).sum();
            // Before its pages each node was asked which protocol it speaks.
            let (queued, done) = (left.len() as u64, (nodes * (1 + pages)) as u64 - open);
            let account = Ledger { discovered: done + queued, queued, done, ..Ledger::default() };
            assert_eq!(self.queue.ledger(&self.run).await, Ok(account));
            assert_eq!(self.queue.audit(&self.run).await, Ok(Vec::new()));
            self.queue.thaw(&self.run).await.unwrap();
        });
    }
}
