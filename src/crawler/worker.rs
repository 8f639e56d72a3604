//! The loop of one crawler: join, then claim and run tasks until the run is drained, frozen or stopped.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use thiserror::Error;
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, debug, info, warn};

use super::context::CrawlContext;
use super::nodes::KnownNode;
use super::task_run::{Finished, run_task};
use crate::queue::{Claim, Holder, JoinRequest, LeaseRef, Leased, PERMIT_LASTS, QueueError, SettleResult, Settlement};
use crate::store::StoreError;
use crate::task::{NodeName, SectionKey};

/// Leases are renewed this many times before they would lapse.
const RENEWALS_PER_LEASE: u32 = 3;

/// One crawler of a run.
#[derive(Debug)]
pub struct Crawler {
    context: Arc<CrawlContext>,
    stop: CancellationToken,
    grace: Option<Duration>,
    linger: Option<Duration>,
}

/// Why a crawler ended, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrawlEnd {
    /// Nothing is left to do.
    Drained,
    /// The run was frozen; work in flight was finished.
    Frozen,
    /// It had nothing to do for as long as it may linger, and what is left waits for longer.
    Idle,
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
    pub fn new(context: Arc<CrawlContext>, stop: CancellationToken) -> Self {
        Self { context, stop, grace: None, linger: None }
    }

    /// Told to stop, it finishes what is under way for so long; what is left then is put back untried.
    #[must_use]
    pub fn with_grace(self, grace: Duration) -> Self {
        Self { grace: Some(grace), ..self }
    }

    /// With nothing to do it stays for so long, and for as long as something may be done within that; then it ends. Otherwise it
    /// stays until nothing is left.
    #[must_use]
    pub fn with_linger(self, linger: Option<Duration>) -> Self {
        Self { linger, ..self }
    }

    /// Joins with a token and works until nothing is left. The caller releases the token afterwards.
    pub async fn run(&self, token: u32, uid: String, group: String) -> Result<CrawlEnd, CrawlerError> {
        let CrawlContext { run, queue, patience, .. } = self.context.as_ref();
        let request = JoinRequest { run: run.clone(), token, uid, group };
        let holder = Arc::new(patience.with(|| queue.join(request.clone())).await?);
        let mut shift = Shift {
            crawler: self,
            request,
            holder,
            is_unsure: false,
            idle_since: None,
            tasks: JoinSet::new(),
            leases: HashMap::new(),
            finished: Vec::new(),
        };
        let end = shift.work().await;
        shift.leave().await;
        if let Ok(end) = &end {
            info!(run = %run, token, ?end, "crawler ended");
        }
        end
    }

    /// Returns when what is under way has had its time to finish. Never, if it has all the time it needs.
    async fn grace_ends(&self) {
        match self.grace {
            Some(grace) => {
                self.stop.cancelled().await;
                tokio::time::sleep(grace).await;
            }
            None => std::future::pending().await,
        }
    }
}

/// Returns when a crawler that has nothing to do may end. Never, if it may not, or has lingered already and waits for something
/// that is near.
async fn lingered(idle_since: Option<Instant>, linger: Option<Duration>) {
    match idle_since.zip(linger).map(|(since, linger)| since + linger) {
        Some(end) if end > Instant::now() => tokio::time::sleep_until(end).await,
        _ => std::future::pending().await,
    }
}

/// What a crawler has under way.
struct Shift<'a> {
    crawler: &'a Crawler,
    request: JoinRequest,
    holder: Arc<Holder>,
    /// A claim was not answered: the queue may have leased tasks to this crawler that it does not know of.
    is_unsure: bool,
    /// Since when it has had nothing to do.
    idle_since: Option<Instant>,
    tasks: JoinSet<Finished>,
    leases: HashMap<Id, (LeaseRef, SectionKey)>,
    finished: Vec<Settlement>,
}

impl Shift<'_> {
    async fn work(&mut self) -> Result<CrawlEnd, CrawlerError> {
        let context = &self.crawler.context;
        let mut renewal = tokio::time::interval(self.holder.lease / RENEWALS_PER_LEASE);
        renewal.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut grace_ends = std::pin::pin!(self.crawler.grace_ends());
        loop {
            let stopped = self.crawler.stop.is_cancelled();
            let room = context.concurrency.saturating_sub(self.tasks.len());
            let claims = room > 0 && !stopped && !self.is_unsure;
            if !claims {
                self.settle().await?;
            }
            if stopped && self.tasks.is_empty() {
                return Ok(CrawlEnd::Stopped);
            }
            if self.is_unsure && self.tasks.is_empty() {
                self.join_again().await?;
                continue;
            }
            let mut come_back = None;
            if claims {
                // Read before the claim: the permits are at least as young.
                let permits_last_until = context.clock.now() + PERMIT_LASTS;
                match self.settle_and_claim(room).await {
                    Ok(Claim::Tasks(claimed)) => {
                        self.idle_since = None;
                        self.start(claimed, permits_last_until).await?;
                        continue;
                    }
                    Ok(Claim::Wait { until, .. }) if self.has_lingered(until) => return Ok(CrawlEnd::Idle),
                    Ok(Claim::Wait { until, sequence }) => come_back = Some((until, sequence)),
                    Ok(Claim::Drained) if self.tasks.is_empty() => return Ok(CrawlEnd::Drained),
                    Ok(Claim::Frozen) if self.tasks.is_empty() => return Ok(CrawlEnd::Frozen),
                    Ok(Claim::Drained | Claim::Frozen) => {}
                    Err(QueueError::Unreachable { why }) => {
                        debug!(run = %context.run, "a claim was not answered: {why}");
                        self.is_unsure = true;
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            let wake = async {
                match come_back {
                    Some((until, sequence)) => {
                        let wait = || context.queue.wait(&context.run, sequence, until);
                        context.patience.with(wait).await.map(drop)
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(done) = self.tasks.join_next_with_id() => self.finish(done)?,
                woken = wake => woken?,
                () = lingered(self.idle_since, self.crawler.linger), if come_back.is_some() => {}
                _ = renewal.tick() => self.renew().await?,
                () = self.crawler.stop.cancelled(), if !stopped => {}
                () = &mut grace_ends => return Ok(CrawlEnd::Stopped),
            }
        }
    }

    /// Whether it has had nothing to do for as long as it may, and will have nothing for as long again.
    fn has_lingered(&mut self, until: Timestamp) -> bool {
        if !self.tasks.is_empty() {
            self.idle_since = None;
            return false;
        }
        let idle_since = *self.idle_since.get_or_insert_with(Instant::now);
        let Some(linger) = self.crawler.linger else { return false };
        let left = Duration::try_from(until.duration_since(self.crawler.context.clock.now())).unwrap_or_default();
        idle_since.elapsed() >= linger && left >= linger
    }

    /// Takes its own place anew: what the queue leased to it without its knowledge is put back, uncharged.
    async fn join_again(&mut self) -> Result<(), CrawlerError> {
        let CrawlContext { queue, patience, .. } = self.crawler.context.as_ref();
        self.holder = Arc::new(patience.with(|| queue.join(self.request.clone())).await?);
        self.is_unsure = false;
        Ok(())
    }

    async fn start(&mut self, claimed: Vec<Leased>, permits_last_until: Timestamp) -> Result<(), CrawlerError> {
        let CrawlContext { run, queue, nodes, patience, .. } = self.crawler.context.as_ref();
        let names: Vec<&NodeName> = claimed.iter().map(|leased| &leased.task.section.node).collect();
        let nodes = nodes.resolve(&names, run, queue.as_ref(), patience).await?;
        for (leased, node) in claimed.into_iter().zip(nodes) {
            self.start_task(leased, node, permits_last_until);
        }
        Ok(())
    }

    fn start_task(&mut self, leased: Leased, node: KnownNode, permit_lasts_until: Timestamp) {
        let (lease, section) = (leased.lease, leased.task.section.clone());
        let span = tracing::error_span!("task", run = %self.holder.run, node = %section.node, task = %leased.task.id);
        let run = run_task(self.crawler.context.clone(), self.holder.clone(), leased, node, permit_lasts_until);
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
            let CrawlContext { queue, patience, .. } = self.crawler.context.as_ref();
            // Done twice it is refused: the lease ended with the first.
            patience.with(|| queue.settle(&self.holder, self.finished.clone())).await?;
            self.finished.clear();
        }
        Ok(())
    }

    /// What is refused or not answered is settled again: done twice it is refused, since the lease ended with the first.
    async fn settle_and_claim(&mut self, room: usize) -> Result<Claim, QueueError> {
        let queue = &self.crawler.context.queue;
        let (_, claimed) = queue.settle_and_claim(&self.holder, self.finished.clone(), room).await?;
        self.finished.clear();
        Ok(claimed)
    }

    async fn renew(&mut self) -> Result<(), CrawlerError> {
        let leases: Vec<LeaseRef> = self.leases.values().map(|(lease, _)| *lease).collect();
        if !leases.is_empty() {
            let CrawlContext { queue, patience, .. } = self.crawler.context.as_ref();
            patience.with(|| queue.renew(&self.holder, &leases)).await?;
        }
        Ok(())
    }

    /// Takes in what has ended, ends what is still under way and puts it back, and tells the queue.
    async fn leave(&mut self) {
        while let Some(done) = self.tasks.try_join_next_with_id() {
            if let Err(error) = self.finish(done) {
                debug!(run = %self.holder.run, "a task ended after its crawler: {error}");
            }
        }
        self.tasks.shutdown().await;
        let left = self.leases.drain().map(|(_, (lease, _))| lease);
        let released = |lease| Settlement { lease, result: SettleResult::Released, documents: 0, bytes: 0 };
        self.finished.extend(left.map(released));
        if self.finished.is_empty() {
            return;
        }
        let settled = self.crawler.context.queue.settle(&self.holder, std::mem::take(&mut self.finished)).await;
        if let Err(error) = settled {
            info!(run = %self.holder.run, "what had ended could not be settled: {error}");
        }
    }
}
