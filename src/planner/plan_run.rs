//! Deciding one run.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::budgets::{ORIGIN_PROTECTION, assign_budgets, groups_of};
use super::execution_plan::{ExecutionPlan, Phase, Step, Verdict};
use super::select::{Selection, select_nodes};
use super::snapshot::{QueueObservation, RunSnapshot, SpentObservation};
use super::spent::add_spent;
use crate::flow::{NodeConfig, OpenInterval, RunConfig};

/// A lease that is not renewed lapses after this long: the fallback for a crawler that vanished unseen.
const LEASE: Duration = Duration::from_mins(1);

/// A task that was being worked on in so many crashes is dead.
const MAX_CHARGES: u32 = 3;

/// Allowed hours of a run without a deadline are worked out for so long: longer than any period that a limit may have.
const HOURS_AHEAD: Duration = Duration::from_hours(35 * 24);

/// Look again after this long when nothing else asks for it.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Decides what to do about one run now. Pure: the same snapshot gives the same plan. Doing the steps and looking again
/// reaches the end of the run; doing them twice does no harm.
pub fn plan_run(snapshot: &RunSnapshot) -> ExecutionPlan {
    let selection = select_nodes(snapshot);
    let deadline = deadline_of(snapshot);
    let span = OpenInterval { from: snapshot.now, until: deadline.unwrap_or(snapshot.now + HOURS_AHEAD) };
    let (node_configs, mut budgets) = assign_budgets(&selection.crawled, &snapshot.policies, span);
    let nodes: Vec<_> = selection.crawled.iter().map(|(name, _)| name.clone()).collect();
    let running = snapshot.crawlers.iter().filter(|crawler| crawler.running).count();
    let deadline_passed = deadline.is_some_and(|deadline| snapshot.now >= deadline);

    let mut steps = Vec::new();
    let mut look_again_at = None;
    let phase = match snapshot.queue {
        _ if snapshot.interrupted || deadline_passed => {
            let verdict = if snapshot.interrupted { Verdict::Interrupted } else { Verdict::DeadlineExceeded };
            steps.push(if running > 0 { Step::StopCrawlers } else { Step::FinishRun { verdict } });
            if running > 0 { Phase::Stopping } else { Phase::Finishing }
        }
        None => {
            if *snapshot.spent != SpentObservation::default() {
                add_spent(&mut budgets, snapshot);
            }
            let config = RunConfig {
                run: snapshot.run.clone(),
                weight: snapshot.spec.settings.weight.max(1),
                max_holders: snapshot.spec.settings.tokens,
                lease: LEASE,
                max_charges: MAX_CHARGES,
                nodes: node_configs.clone(),
                budgets,
                origin_protection: ORIGIN_PROTECTION,
                closed_origins: snapshot.closed_origins.to_vec(),
                brief: Arc::default(),
            };
            steps.push(Step::OpenQueue { config: Box::new(config) });
            steps.push(Step::SeedNodes { nodes: nodes.clone() });
            if snapshot.spec.settings.suspend {
                steps.push(Step::Freeze);
                Phase::Frozen
            } else {
                // A run's first crawler starts at once; more follow when there is work for them.
                steps.extend(start_crawlers(snapshot, &node_configs, nodes.len() as u64));
                Phase::Pending
            }
        }
        Some(queue) if snapshot.spec.settings.suspend => {
            if !queue.frozen {
                steps.push(Step::Freeze);
            }
            Phase::Frozen
        }
        Some(queue) if queue.ledger.is_drained() && running == 0 => {
            steps.push(Step::FinishRun { verdict: Verdict::Drained });
            Phase::Finishing
        }
        Some(queue) => {
            if queue.frozen {
                steps.push(Step::Thaw);
            }
            steps.extend(start_crawlers(snapshot, &node_configs, wanted_tasks(queue, running)));
            look_again_at = Some(earliest(snapshot.now + LOOK_AGAIN, deadline));
            Phase::Active
        }
    };
    let Selection { skipped, .. } = selection;
    ExecutionPlan { run: snapshot.run.clone(), steps, phase, nodes, skipped, look_again_at }
}

/// The tasks that crawlers are wanted for: what is ready and what is under way. A run with work but without a crawler
/// wants one even if everything waits at gates: somebody must be there when one opens.
fn wanted_tasks(queue: QueueObservation, running: usize) -> u64 {
    let wanted = queue.ready + queue.ledger.leased;
    if running == 0 && !queue.ledger.is_drained() { wanted.max(1) } else { wanted }
}

/// Starts so many crawlers that each has a full load of the wanted tasks, within the run's tokens; one at least for each
/// group, while tokens last. Tokens are taken lowest first.
fn start_crawlers(snapshot: &RunSnapshot, nodes: &[NodeConfig], wanted: u64) -> Vec<Step> {
    let settings = &snapshot.spec.settings;
    let tokens = settings.tokens.min(snapshot.token_share);
    let load = u64::from(settings.crawler.concurrency.max(1));
    let groups = groups_of(nodes);
    let needed = u32::try_from(wanted.div_ceil(load)).unwrap_or(u32::MAX).min(tokens);
    let needed = if wanted > 0 { needed.max(u32::try_from(groups.len()).unwrap_or(u32::MAX).min(tokens)) } else { 0 };
    let running = u32::try_from(snapshot.crawlers.iter().filter(|crawler| crawler.running).count()).unwrap_or(u32::MAX);
    let taken = |token: u32| snapshot.crawlers.iter().any(|crawler| crawler.token == token && crawler.running);
    let groups: Vec<&str> = groups.into_iter().collect();
    (0..tokens)
        .filter(|token| !taken(*token))
        .take(needed.saturating_sub(running) as usize)
        .filter_map(|token| {
            let group = groups.get(token as usize % groups.len().max(1))?;
            Some(Step::StartCrawler { token, group: (*group).to_owned() })
        })
        .collect()
}

/// When the run must have ended.
pub(super) fn deadline_of(snapshot: &RunSnapshot) -> Option<Timestamp> {
    let deadline = snapshot.spec.settings.deadline?.get();
    snapshot.started_at.checked_add(deadline).ok()
}

fn earliest(at: Timestamp, other: Option<Timestamp>) -> Timestamp {
    other.map_or(at, |other| at.min(other))
}
