//! All runs of one queue, and what one run's call means for the others.

use std::collections::HashMap;

use slab::Slab;
use tokio::sync::watch;

use super::gates::{Gates, Touched};
use super::lanes::index;
use super::run::{Call, Run};
use crate::queue::gate::Moment;
use crate::queue::{Claim, QueueError, RunConfig};
use crate::task::RunId;

/// Runs, and the gates that they share.
#[derive(Debug, Default)]
pub(super) struct Instance {
    runs: Slab<Run>,
    keys: HashMap<RunId, u32>,
    gates: Gates,
    /// No lease of any run lapses before this; `None`: none lapses.
    next_lapse: Option<Moment>,
}

impl Instance {
    pub(super) fn open(&mut self, config: RunConfig, now: Moment) -> Result<(), QueueError> {
        crate::queue::check_config(&config)?;
        let id = config.run.clone();
        if self.keys.contains_key(&id) {
            return Err(QueueError::RunExists { run: id });
        }
        let key = index(self.runs.vacant_key());
        self.runs.insert(Run::new(key, &config));
        self.keys.insert(id, key);
        self.work(key, now, |call| {
            call.close_origins(&config.closed_origins);
            call.apply(config);
        });
        Ok(())
    }

    pub(super) fn close(&mut self, id: &RunId, now: Moment) {
        let Some(key) = self.keys.remove(id) else { return };
        #[expect(
            clippy::redundant_closure_for_method_calls,
            reason = "the method alone is for one lifetime of the call"
        )]
        self.work(key, now, |call| call.leave_gates());
        self.runs.remove(key as usize);
    }

    pub(super) fn subscribe(&self, id: &RunId) -> Result<watch::Receiver<u64>, QueueError> {
        Ok(self.runs[self.key(id)? as usize].bell.subscribe())
    }

    /// Runs, budgets and origins that are kept.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> (usize, usize, usize) {
        (self.runs.len(), self.gates.budgets.len(), self.gates.origins.len())
    }

    pub(super) fn run_ids(&self) -> Vec<RunId> {
        let mut ids: Vec<RunId> = self.keys.keys().cloned().collect();
        ids.sort_unstable();
        ids
    }

    fn key(&self, id: &RunId) -> Result<u32, QueueError> {
        self.keys.get(id).copied().ok_or_else(|| QueueError::NoSuchRun { run: id.clone() })
    }

    /// Brings a run up to the present and works on it.
    pub(super) fn call<T>(
        &mut self,
        id: &RunId,
        now: Moment,
        work: impl FnOnce(&mut Call<'_>) -> T,
    ) -> Result<T, QueueError> {
        let key = self.key(id)?;
        self.lapse(now);
        let result = self.work(key, now, |call| {
            call.advance();
            work(call)
        });
        Ok(result)
    }

    /// A claim. One that waits is told of other runs' leases too: what they hold at shared gates may become free.
    pub(super) fn claim(
        &mut self,
        id: &RunId,
        now: Moment,
        work: impl FnOnce(&mut Call<'_>) -> Result<Claim, QueueError>,
    ) -> Result<Claim, QueueError> {
        let mut claim = self.call(id, now, work)?;
        if let Ok(Claim::Wait { until, .. }) = &mut claim
            && self.runs.len() > 1
        {
            let lapse = self.runs.iter_mut().filter_map(|(_, run)| run.leases.next_expiry()).min();
            *until = lapse.map_or(*until, |lapse| (*until).min(lapse.into()));
        }
        claim
    }

    fn work<T>(&mut self, key: u32, now: Moment, work: impl FnOnce(&mut Call<'_>) -> T) -> T {
        let run = &mut self.runs[key as usize];
        let result = work(&mut Call { run: &mut *run, gates: &mut self.gates, now });
        self.next_lapse = [self.next_lapse, run.leases.next_expiry()].into_iter().flatten().min();
        run.ring();
        self.wake_others(now);
        result
    }

    /// Ends the leases of all runs that have lapsed: a run whose crawlers are gone must not keep what others wait for.
    fn lapse(&mut self, now: Moment) {
        if self.next_lapse.is_none_or(|lapse| lapse > now) {
            return;
        }
        for (_, run) in &mut self.runs {
            Call { run: &mut *run, gates: &mut self.gates, now }.lapse();
            run.ring();
        }
        self.next_lapse = self.runs.iter_mut().filter_map(|(_, run)| run.leases.next_expiry()).min();
        self.wake_others(now);
    }

    /// Lets the runs that wait at gates which were touched look at them again.
    fn wake_others(&mut self, now: Moment) {
        for (touched, runs) in self.gates.take_touched() {
            for run in runs {
                let Some(run) = self.runs.get_mut(run as usize) else { continue };
                run.lanes.has_woken = false;
                match touched {
                    Touched::Freed(budget) => run.lanes.budget_freed(&self.gates, budget),
                    Touched::Budget(budget) => run.lanes.budget_changed(&self.gates, budget),
                    Touched::Origin(origin) => run.lanes.origin_changed(&mut self.gates, origin, now),
                }
                if run.lanes.has_woken {
                    run.changed();
                    run.ring();
                }
            }
        }
    }
}
