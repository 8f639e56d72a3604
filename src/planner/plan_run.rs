//! Deciding one run.

use std::collections::{BTreeMap, BTreeSet};
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

/// A crawler is started so long before a gate opens: a pod takes some seconds to start.
const START_AHEAD: Duration = Duration::from_secs(3);

/// Look again after this long when nothing else asks for it.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Decides what to do about one run now. Pure: the same snapshot gives the same plan. Doing the steps and looking again
/// reaches the end of the run; doing them twice does no harm.
pub fn plan_run(snapshot: &RunSnapshot) -> ExecutionPlan {
    let selection = select_nodes(snapshot);
    let deadline = deadline_of(snapshot);
    let span = OpenInterval { from: snapshot.now, until: deadline.unwrap_or(snapshot.now + HOURS_AHEAD) };
    let (node_configs, _) = assign_budgets(&selection.crawled, &snapshot.policies, span);
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
            let config = run_config(snapshot);
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
            steps.extend(start_crawlers(snapshot, &node_configs, wanted_tasks(snapshot, queue)));
            look_again_at = Some(earliest(snapshot.now + LOOK_AGAIN, deadline));
            Phase::Active
        }
    };
    let Selection { skipped, .. } = selection;
    ExecutionPlan { run: snapshot.run.clone(), steps, phase, nodes, skipped, look_again_at }
}

/// What the run's queue is told of its nodes and gates: when it is opened, and again when policies or nodes have changed.
pub fn run_config(snapshot: &RunSnapshot) -> RunConfig {
    let selection = select_nodes(snapshot);
    let deadline = deadline_of(snapshot);
    let span = OpenInterval { from: snapshot.now, until: deadline.unwrap_or(snapshot.now + HOURS_AHEAD) };
    let (nodes, mut budgets) = assign_budgets(&selection.crawled, &snapshot.policies, span);
    if *snapshot.spent != SpentObservation::default() {
        add_spent(&mut budgets, snapshot);
    }
    RunConfig {
        run: snapshot.run.clone(),
        weight: snapshot.spec.settings.weight.max(1),
        max_holders: snapshot.spec.settings.tokens,
        lease: LEASE,
        max_charges: MAX_CHARGES,
        nodes,
        budgets,
        origin_protection: ORIGIN_PROTECTION,
        closed_origins: snapshot.closed_origins.to_vec(),
        brief: Arc::default(),
    }
}

/// The tasks that crawlers are wanted for: what is ready and what is under way. A run with work but without a crawler
/// wants one even if everything waits at gates: somebody must be there when one opens.
fn wanted_tasks(snapshot: &RunSnapshot, queue: QueueObservation) -> u64 {
    let running = snapshot.crawlers.iter().any(|crawler| crawler.running);
    let wanted = queue.ready + queue.ledger.leased;
    if running || queue.ledger.is_drained() {
        return wanted;
    }
    let opens_soon = queue.next_opening.is_none_or(|at| at <= snapshot.now + START_AHEAD);
    let is_there_in_time = !snapshot.starts_for_eligible_work_only || opens_soon;
    if is_there_in_time { wanted.max(1) } else { wanted }
}

/// Crawlers that have a full load of the wanted tasks, within the run's tokens; one at least for each group.
fn needed_crawlers(snapshot: &RunSnapshot, nodes: &[NodeConfig], wanted: u64) -> u32 {
    if wanted == 0 {
        return 0;
    }
    let settings = &snapshot.spec.settings;
    let load = u64::from(settings.crawler.concurrency.max(1));
    let groups = u32::try_from(groups_of(nodes).len()).unwrap_or(u32::MAX);
    u32::try_from(wanted.div_ceil(load)).unwrap_or(u32::MAX).max(groups).min(settings.tokens)
}

/// Starts the crawlers that are missing, each for the group that has the fewest. Tokens are taken lowest first.
fn start_crawlers(snapshot: &RunSnapshot, nodes: &[NodeConfig], wanted: u64) -> Vec<Step> {
    let tokens = snapshot.spec.settings.tokens.min(snapshot.token_share);
    let needed = needed_crawlers(snapshot, nodes, wanted).min(tokens);
    let mut at_work: BTreeMap<&str, u32> = groups_of(nodes).into_iter().map(|group| (group, 0)).collect();
    let (mut running, mut taken) = (0_u32, BTreeSet::new());
    for crawler in snapshot.crawlers.iter().filter(|crawler| crawler.running) {
        running += 1;
        taken.insert(crawler.token);
        if let Some(count) = at_work.get_mut(crawler.group.as_str()) {
            *count += 1;
        }
    }
    let own = || (0..tokens).filter(|token| !taken.contains(token)).collect();
    let free = snapshot.free_tokens.clone().unwrap_or_else(own);
    let mut steps = Vec::new();
    for token in free.into_iter().take(needed.saturating_sub(running) as usize) {
        let Some((group, count)) = at_work.iter_mut().min_by_key(|(_, count)| **count) else { break };
        *count += 1;
        steps.push(Step::StartCrawler { token, group: (*group).to_owned() });
    }
    steps
}

/// How many crawlers the run could use now, if the instance had tokens for all.
pub fn demand(snapshot: &RunSnapshot) -> u32 {
    let selection = select_nodes(snapshot);
    let span = OpenInterval { from: snapshot.now, until: snapshot.now };
    let (nodes, _) = assign_budgets(&selection.crawled, &snapshot.policies, span);
    match snapshot.queue {
        _ if snapshot.spec.settings.suspend || snapshot.interrupted => 0,
        None => needed_crawlers(snapshot, &nodes, nodes.len() as u64),
        Some(queue) => needed_crawlers(snapshot, &nodes, wanted_tasks(snapshot, queue)),
    }
}

/// When the run must have ended.
pub(super) fn deadline_of(snapshot: &RunSnapshot) -> Option<Timestamp> {
    let deadline = snapshot.spec.settings.deadline?.get();
    snapshot.started_at.checked_add(deadline).ok()
}

fn earliest(at: Timestamp, other: Option<Timestamp>) -> Timestamp {
    other.map_or(at, |other| at.min(other))
}
