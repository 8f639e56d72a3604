//! Random histories, each answer and each step compared with a model that is too simple to be wrong: one list of
//! tasks, and logs of what was spent. It sees the queue through its port and moves the clock, so that every adapter
//! is judged alike.

mod account;
mod calls;
mod claims;
mod control;
mod gates;
mod histories;
mod laws;
mod oracle;
mod steps;
mod turns;
mod world;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use trawler::clock::{Clock, ManualClock, SharedClock};
use trawler::queue::{ReleaseCause, RunConfig, SharedQueue};
use trawler::task::RunId;

use self::account::Run;
use self::calls::refused;
use self::histories::Tally;
pub(crate) use self::histories::{
    STEPS, any_history_keeps_the_guarantees, histories_of_ten_thousand_steps_keep_the_guarantees, run_histories,
};
pub(crate) use self::laws::Law;
use self::laws::{Verdict, demand, same};
use self::steps::Step;
use self::world::{ORIGINS, START, TOKENS, World, run_config};

/// One crawler of each group.
const WORKERS: [u32; 2] = [0, 2];

/// The queue under test, and all that the model knows of it.
#[derive(Debug)]
struct Model {
    queue: SharedQueue,
    clock: Arc<ManualClock>,
    runs: Vec<Run>,
    budgets: Vec<gates::Budget>,
    origins: Vec<gates::Origin>,
    tally: Tally,
    joins: u64,
    /// What the last claim that found nothing was told, in milliseconds.
    woken_at: Option<i64>,
}

impl Model {
    async fn new(make: impl Fn(SharedClock) -> SharedQueue, world: World) -> Result<Self, laws::Violation> {
        let clock = Arc::new(ManualClock::at(START));
        let queue = make(clock.clone());
        let configs = ["run-1", "run-2"].map(|name| run_config(world, RunId::from(name)));
        for config in &configs {
            queue.open(config.clone()).await.map_err(|error| refused(&error))?;
        }
        Ok(Self {
            queue,
            clock,
            budgets: configs[0].budgets.iter().map(gates::Budget::new).collect(),
            origins: ORIGINS.iter().map(|_| gates::Origin::default()).collect(),
            runs: configs.into_iter().map(Run::new).collect(),
            tally: Tally::default(),
            joins: 0,
            woken_at: None,
        })
    }

    fn timestamp(&self) -> Timestamp {
        self.clock.now()
    }

    fn now(&self) -> i64 {
        self.timestamp().as_millisecond()
    }

    /// A run was opened anew. What it spent, and what servers asked for, is remembered: gates belong to all runs.
    fn reopened(&mut self, run: usize) {
        let config = self.runs[run].config.clone();
        self.configure_budgets(&config);
        let ended = self.runs[run].all_outdated();
        self.runs[run] = Run::new(config);
        self.runs[run].ended = ended;
    }

    fn configure_budgets(&mut self, config: &RunConfig) {
        let now = self.now();
        for (budget, config) in self.budgets.iter_mut().zip(&config.budgets) {
            budget.configure(now, config);
        }
    }

    /// Budgets whose requests under way are as many as may be: when that ends, who waited for it comes first.
    fn note_full_budgets(&mut self) {
        let (now, load) = (self.now(), self.load());
        for budget in 0..self.budgets.len() {
            if self.is_budget_full(budget, &load) {
                self.budgets[budget].contend(now);
            }
        }
    }

    fn advance(&mut self) {
        let now = self.now();
        for run in &mut self.runs {
            let (delays, leases) = run.advance(now);
            self.tally.add("delay ended", delays);
            self.tally.add("lease expired", leases);
        }
    }

    /// Nothing is kept for a lease that ended, or for a permit that did not come in time.
    fn forget_reservations(&mut self) {
        let now_us = self.now() * 1_000;
        for budget in self.budgets.iter_mut().filter(|budget| !budget.reserved.is_empty()) {
            budget.reserved.retain(|reserved| {
                reserved.lapses_us > now_us
                    && self.runs[reserved.run]
                        .tasks
                        .values()
                        .any(|known| known.lease().is_some_and(|lease| lease.held.lease == reserved.lease))
            });
        }
    }

    /// What time and the call before have brought.
    fn come_up_to_date(&mut self) {
        self.note_full_budgets();
        self.advance();
        self.forget_reservations();
    }

    /// Takes a step, and looks at the account after it.
    async fn take(&mut self, run: usize, step: &Step) -> Verdict {
        self.come_up_to_date();
        self.apply(run, step).await?;
        self.note_full_budgets();
        self.advance();
        for run in &self.runs {
            let ledger = self.queue.ledger(&run.config.run).await.map_err(|error| refused(&error))?;
            demand(Law::Account, ledger.is_balanced(), || format!("not balanced: {ledger:?}"))?;
            same(Law::Account, &ledger, &run.ledger())?;
        }
        Ok(())
    }

    async fn apply(&mut self, run: usize, step: &Step) -> Verdict {
        match *step {
            Step::Push { node, number, count } => self.push(run, node, number, count).await,
            Step::PushOfAStranger => self.push_a_stranger(run).await,
            Step::Join { token } => self.join(run, token).await,
            Step::Claim { token, max } => self.claim(run, token, max).await,
            Step::Settle { pick, ref results, stranger, claims } => {
                self.settle(run, pick, results, stranger, claims).await
            }
            Step::Permit { pick, elsewhere } => self.permit(run, pick, elsewhere).await,
            Step::PermitAgain => self.permit_again(run).await,
            Step::Renew { pick } => self.renew(run, pick).await,
            Step::Pushback { pick, kind, retry_after_ms } => self.pushback(run, pick, kind, retry_after_ms).await,
            Step::Release { token, cause } => self.release(run, token, cause).await,
            Step::CrashAgain => match self.runs[run].works_on_a_suspect() {
                Some(token) => self.release(run, token, ReleaseCause::Crashed).await,
                None => Ok(()),
            },
            Step::Stall { token } | Step::Recover { token } => {
                self.set_stalled(run, token, matches!(step, Step::Stall { .. }));
                Ok(())
            }
            Step::Late { pick, call } => self.late(run, pick, call).await,
            Step::Suspend { node, suspended } => self.suspend(run, node, suspended).await,
            Step::Freeze => self.set_frozen(run, true).await,
            Step::Thaw => self.set_frozen(run, false).await,
            Step::Configure(ref change) => self.configure(run, change).await,
            Step::CloseAndOpen => self.close_and_open(run).await,
            Step::Lanes => self.lanes(run).await,
            Step::Dead => self.dead(run).await,
            Step::Pass { ms } => {
                self.pass(ms);
                Ok(())
            }
            Step::PassUntilWoken => {
                let left = self.woken_at.map_or(0, |at| at - self.now());
                self.pass(u64::try_from(left).unwrap_or(0).min(60_000));
                Ok(())
            }
        }
    }

    fn set_stalled(&mut self, run: usize, token: u32, stalled: bool) {
        if let Some(held) = self.runs[run].holders.get_mut(&token) {
            held.stalled = stalled;
            self.tally.count(if stalled { "stalled" } else { "recovered" });
        }
    }

    fn pass(&self, ms: u64) {
        self.clock.advance(Duration::from_millis(ms));
    }

    /// Whatever happened, the runs can be worked off, and have nothing to repair.
    async fn finish(&mut self) -> Verdict {
        // Before anything else: it would wake who sleeps by mistake.
        self.audit().await?;
        for run in 0..self.runs.len() {
            for token in 0..=TOKENS {
                self.take(run, &Step::Release { token, cause: ReleaseCause::Finished }).await?;
            }
            self.take(run, &Step::Thaw).await?;
            for node in 0..world::NODES.len() {
                self.suspend(run, node, false).await?;
            }
            for token in WORKERS {
                self.take(run, &Step::Join { token }).await?;
            }
        }
        for _ in 0..2_000 {
            if self.runs.iter().all(|run| run.ledger().is_drained()) {
                return self.audit().await;
            }
            self.work_on().await?;
        }
        laws::broken(Law::NothingWaits, "what is left can't be worked off")
    }

    async fn audit(&mut self) -> Verdict {
        for run in &self.runs {
            same(Law::Sound, &self.queue.audit(&run.config.run).await, &Ok(Vec::new()))?;
        }
        Ok(())
    }

    async fn work_on(&mut self) -> Verdict {
        let mut first: Option<i64> = None;
        for (run, token) in (0..self.runs.len()).flat_map(|run| WORKERS.map(|token| (run, token))) {
            self.woken_at = None;
            self.take(run, &Step::Claim { token, max: 30 }).await?;
            first = first.into_iter().chain(self.woken_at).min();
            let how = steps::How::Done { feedback: 0, documents: 0, bytes: 0 };
            while self.runs[run].pick(0).is_some() {
                let results = vec![how.clone(); 30];
                self.take(run, &Step::Settle { pick: 0, results, stranger: false, claims: None }).await?;
            }
        }
        self.woken_at = first;
        self.take(0, &Step::PassUntilWoken).await
    }
}
