//! Dividing an instance's tokens between its runs.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::task::RunId;

/// Everything that was read about an instance, at one moment.
#[derive(Debug, Clone)]
pub struct InstanceSnapshot {
    /// The moment.
    pub now: Timestamp,
    /// The instance's tokens (`--tokens`).
    pub tokens: u32,
    /// The runs that want some.
    pub runs: Vec<RunDemand>,
}

/// What one run wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDemand {
    /// The run.
    pub run: RunId,
    /// Tokens that it could use now.
    pub wanted: u32,
    /// `spec.weight`.
    pub weight: u32,
    /// `spec.priority`.
    pub priority: i32,
    /// Since when it has waited without any token, if it has.
    pub waiting_since: Option<Timestamp>,
}

/// How many tokens each run may use.
pub type Shares = BTreeMap<RunId, u32>;

/// Waiting this long counts as much as one step of priority.
const AGEING_SECS: i64 = 600;

/// Divides tokens: higher priority (raised by waiting) first; inside one priority fair by weight, one token at a time to
/// the run that has the least for its weight; ties by name. Nobody gets more than it wants, no token is left idle while
/// a run wants one.
pub fn plan_shares(snapshot: &InstanceSnapshot) -> Shares {
    let mut shares: Shares = snapshot.runs.iter().map(|run| (run.run.clone(), 0)).collect();
    let mut free = snapshot.tokens;
    let mut by_priority: BTreeMap<std::cmp::Reverse<i64>, Vec<&RunDemand>> = BTreeMap::new();
    for run in &snapshot.runs {
        by_priority.entry(std::cmp::Reverse(aged_priority(run, snapshot.now))).or_default().push(run);
    }
    for mut runs in by_priority.into_values() {
        runs.sort_by(|a, b| a.run.cmp(&b.run));
        while free > 0 {
            let hungry = runs.iter().filter(|run| shares.get(&run.run).is_some_and(|share| *share < run.wanted));
            let next = hungry.min_by_key(|run| {
                let share = u64::from(shares.get(&run.run).copied().unwrap_or(0));
                // The least for its weight: share/weight, compared without fractions.
                share * 1_000_000 / u64::from(run.weight.max(1))
            });
            let Some(next) = next else { break };
            if let Some(share) = shares.get_mut(&next.run) {
                *share += 1;
            }
            free -= 1;
        }
    }
    shares
}

fn aged_priority(run: &RunDemand, now: Timestamp) -> i64 {
    let waited = run.waiting_since.map_or(0, |since| now.duration_since(since).as_secs().max(0));
    i64::from(run.priority) + waited / AGEING_SECS
}
