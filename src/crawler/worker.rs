//! The loop of one crawler: join, then claim and run tasks until the run is drained, frozen or stopped.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use thiserror::Error;
use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info, warn};

use super::context::CrawlContext;
use super::task_run::{Finished, run_task};
use crate::queue::{Claim, Holder, JoinRequest, LeaseRef, Leased, PERMIT_LASTS, QueueError, SettleResult, Settlement};
use crate::store::StoreError;
use crate::task::SectionKey;

/// Leases are renewed this many times before they would lapse.
const RENEWALS_PER_LEASE: u32 = 3;

/// One crawler of a run.
#[derive(Debug)]
pub struct Crawler {
    context: Arc<CrawlContext>,
    /// How long a lease lasts without renewal.
    lease: Duration,
    stop: CancellationToken,
}

/// Why a crawler ended, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrawlEnd {
    /// Nothing is left to do.
    Drained,
    /// The run was frozen; work in flight was finished.
    Frozen,
    /// It was told to stop; work in flight was finished.
    Stopped,
}

/// Why a crawler ended badly.
#[derive(Debug, Error)]
pub enum CrawlerError {
    /// The queue refused it.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The store failed or refused it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Crawler {
    /// A crawler for a run. It ends early, in order, when `stop` is cancelled.
    pub fn new(context: Arc<CrawlContext>, lease: Duration, stop: CancellationToken) -> Self {
        Self { context, lease, stop }
    }

    /// Joins with a token and works until nothing is left. The caller releases the token afterwards.
    pub async fn run(&self, token: u32, uid: String, group: String) -> Result<CrawlEnd, CrawlerError> {
        let request = JoinRequest { run: self.context.run.clone(), token, uid, group };
        let holder = Arc::new(self.context.queue.join(request).await?);
        let mut shift =
            Shift { crawler: self, holder, tasks: JoinSet::new(), leases: HashMap::new(), finished: Vec::new() };
        let end = shift.work().await;
        shift.abandon().await;
        if let Ok(end) = &end {
            info!(run = %self.context.run, token, ?end, "crawler ended");
        }
        end
    }
}

/// What a crawler has under way.
struct Shift<'a> {
    crawler: &'a Crawler,
    holder: Arc<Holder>,
    tasks: JoinSet<Finished>,
    leases: HashMap<Id, (LeaseRef, SectionKey)>,
    finished: Vec<Settlement>,
}

impl Shift<'_> {
    async fn work(&mut self) -> Result<CrawlEnd, CrawlerError> {
        let context = &self.crawler.context;
        let mut renewal = tokio::time::interval(self.crawler.lease / RENEWALS_PER_LEASE);
        renewal.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            self.settle().await?;
            let stopped = self.crawler.stop.is_cancelled();
            let room = context.concurrency.saturating_sub(self.tasks.len());
            let mut come_back = None;
            if room > 0 && !stopped {
                // Read before the claim: the permits are at least as young.
                let permits_last_until = context.clock.now() + PERMIT_LASTS;
                match context.queue.claim(&self.holder, room).await? {
                    Claim::Tasks(claimed) => {
                        for leased in claimed {
                            self.start(leased, permits_last_until);
                        }
                        continue;
                    }
                    Claim::Wait { until, sequence } => come_back = Some((until, sequence)),
                    Claim::Drained if self.tasks.is_empty() => return Ok(CrawlEnd::Drained),
                    Claim::Frozen if self.tasks.is_empty() => return Ok(CrawlEnd::Frozen),
                    Claim::Drained | Claim::Frozen => {}
                }
            }
            if stopped && self.tasks.is_empty() {
                return Ok(CrawlEnd::Stopped);
            }
            let wake = async {
                match come_back {
                    Some((until, sequence)) => context.queue.wait(&context.run, sequence, until).await.map(drop),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(done) = self.tasks.join_next_with_id() => self.finish(done)?,
                woken = wake => woken?,
                _ = renewal.tick() => self.renew().await?,
                () = self.crawler.stop.cancelled(), if !stopped => {}
            }
        }
    }

    fn start(&mut self, leased: Leased, permit_lasts_until: Timestamp) {
        let (lease, section) = (leased.lease, leased.task.section.clone());
        let span = tracing::error_span!("task", run = %self.holder.run, node = %section.node, task = %leased.task.id);
        let run = run_task(self.crawler.context.clone(), self.holder.clone(), leased, permit_lasts_until);
        let handle = self.tasks.spawn(run.instrument(span));
        self.leases.insert(handle.id(), (lease, section));
    }

    /// Takes in what has ended: this task, and all others that have ended by now, so that they are settled at once.
    fn finish(&mut self, done: Result<(Id, Finished), tokio::task::JoinError>) -> Result<(), CrawlerError> {
        let mut next = Some(done);
        while let Some(done) = next {
            match done {
                Ok((id, Finished { settlement, fatal })) => {
                    self.leases.remove(&id);
                    self.finished.push(settlement);
                    if let Some(error) = fatal {
                        return Err(error);
                    }
                }
                Err(error) => {
                    // A fault of this program in one task must not take the others with it.
                    if let Some((lease, section)) = self.leases.remove(&error.id()) {
                        warn!(node = %section.node, section = %section.section, "task ended by a fault of this program: {error}");
                        let result = SettleResult::Dead { why: format!("a fault of this program: {error}") };
                        self.finished.push(Settlement { lease, result, documents: 0, bytes: 0 });
                    }
                }
            }
            next = self.tasks.try_join_next_with_id();
        }
        Ok(())
    }

    async fn settle(&mut self) -> Result<(), CrawlerError> {
        if !self.finished.is_empty() {
            self.crawler.context.queue.settle(&self.holder, std::mem::take(&mut self.finished)).await?;
        }
        Ok(())
    }

    async fn renew(&mut self) -> Result<(), CrawlerError> {
        let leases: Vec<LeaseRef> = self.leases.values().map(|(lease, _)| *lease).collect();
        if !leases.is_empty() {
            self.crawler.context.queue.renew(&self.holder, &leases).await?;
        }
        Ok(())
    }

    /// Ends what is still under way after a fatal error, and settles what had ended before it.
    async fn abandon(&mut self) {
        self.tasks.shutdown().await;
        if let Err(error) = self.settle().await {
            warn!(run = %self.holder.run, "what had ended could not be settled: {error}");
        }
    }
}
