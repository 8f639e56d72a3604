//! The driver of ThrottlePolicies: which of their targets they have, and how many nodes they hold for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt as _;
use kube::runtime::controller::Action;

use super::conditions::{Holds, Said, conditions};
use super::error::OperatorError;
use super::gates::gate_sentence;
use super::world::World;
use crate::api::conditions::{ACCEPTED, READY, STALLED, accepted, ready};
use crate::api::times::{moment_of, time_of};
use crate::api::{BudgetStatus, ThrottlePolicy, ThrottlePolicyStatus, ThrottleTargetStatus};
use crate::planner::{policy_name_of, target_owner, unusable_hours};
use crate::queue::LaneStatus;

pub(crate) const KIND: &str = "ThrottlePolicy";

/// A policy that runs count against is looked at so often.
const WHILE_IN_USE: Duration = Duration::from_secs(10);

const MAX_BUDGETS: usize = 20;

/// One pass over a policy.
pub(crate) async fn reconcile(policy: Arc<ThrottlePolicy>, world: Arc<World>) -> Result<Action, OperatorError> {
    world.check_leads()?;
    let started = crate::clock::Stopwatch::start();
    let action = pass(&policy, &world).await;
    world.metrics.reconciled(KIND, started.elapsed(), action.is_ok());
    if action.is_ok() {
        world.note_success(KIND, &policy.name_any());
    }
    action
}

async fn pass(policy: &ThrottlePolicy, world: &World) -> Result<Action, OperatorError> {
    if policy.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let before = policy.status.clone().unwrap_or_default();
    let (name, generation, now) = (policy.name_any(), policy.metadata.generation, world.clock.now());
    let policies = world.caches.policies.state();
    let all = || policies.iter().map(AsRef::as_ref);
    let nodes = world.caches.nodes.state();
    let assigned = nodes.iter().filter(|node| policy_name_of(node, all()).as_deref() == Some(name.as_str())).count();
    let targets = policy.spec.targets.iter().map(|target| {
        let owner = target_owner(target, all()).and_then(|owner| owner.metadata.name.as_deref());
        let said = match owner {
            Some(owner) if owner != name => Said::new(
                ACCEPTED,
                Holds::False,
                accepted::CONFLICTED,
                format!("ThrottlePolicy {owner} has this target: it is older, or comes first by name"),
            ),
            _ => Said::new(ACCEPTED, Holds::True, accepted::ACCEPTED, "this policy holds for the target"),
        };
        let known =
            before.targets.iter().find(|known| (known.target_type, &known.name) == (target.target_type, &target.name));
        let known = known.map(|known| known.conditions.clone()).unwrap_or_default();
        ThrottleTargetStatus {
            target_type: target.target_type,
            name: target.name.clone(),
            conditions: conditions(&known, &[said], generation, now),
        }
    });
    let budgets = budgets_of(&name, &world.memory().lanes);
    let said = match unusable_hours(policy) {
        Some(why) => vec![
            Said::new(READY, Holds::False, ready::INVALID_SPEC, &why),
            Said::new(STALLED, Holds::True, ready::INVALID_SPEC, &why),
        ],
        None => vec![Said::new(READY, Holds::True, ready::READY, format!("it holds for {assigned} nodes"))],
    };
    let status = ThrottlePolicyStatus {
        observed_generation: generation,
        conditions: conditions(&before.conditions, &said, generation, now),
        budgets: budgets.clone(),
        assigned_catalog_nodes: i64::try_from(assigned).unwrap_or(i64::MAX),
        targets: targets.collect(),
    };
    if status != before {
        world.write_status::<ThrottlePolicy>(&name, &status).await?;
    }
    // While nobody counts against it there is nothing to look at.
    Ok(if budgets.is_empty() { Action::await_change() } else { Action::requeue(WHILE_IN_USE) })
}

/// How the budgets of a policy stand in the lanes of all runs. Pure.
fn budgets_of(policy: &str, lanes: &BTreeMap<String, Vec<LaneStatus>>) -> Vec<BudgetStatus> {
    let prefix = format!("{policy} for ");
    let mut by_name: BTreeMap<&str, BudgetStatus> = BTreeMap::new();
    for lane in lanes.values().flatten() {
        let name = lane.budget.0.as_ref();
        if name != policy && !name.starts_with(&prefix) {
            continue;
        }
        let budget = by_name.entry(name).or_insert_with(|| BudgetStatus {
            name: name.to_owned(),
            calls_per_minute: None,
            queued: 0,
            waiting_for: None,
            waiting_until: None,
        });
        budget.queued = budget.queued.saturating_add(i64::try_from(lane.queued).unwrap_or(i64::MAX));
        if let Some(per_second) = lane.calls_per_s {
            #[expect(clippy::cast_possible_truncation, reason = "a rate that people read")]
            let per_minute = (per_second * 60.0).round() as i64;
            budget.calls_per_minute = Some(per_minute);
        }
        if let Some(waiting) = &lane.waiting {
            budget.waiting_for = Some(gate_sentence(&waiting.gate, lane).0.to_owned());
            budget.waiting_until = Some(time_of(waiting.until));
        }
    }
    let mut budgets: Vec<BudgetStatus> = by_name.into_values().collect();
    budgets.sort_by_key(|budget| {
        (std::cmp::Reverse(budget.waiting_until.as_ref().map(moment_of)), std::cmp::Reverse(budget.queued))
    });
    budgets.truncate(MAX_BUDGETS);
    budgets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{BudgetId, Gate, Waiting};

    fn lane(budget: &str, queued: u64, waits: Option<i64>) -> LaneStatus {
        let until = |second| jiff::Timestamp::from_second(second).unwrap();
        LaneStatus {
            origin: "https://acme.example:443".into(),
            budget: BudgetId(budget.into()),
            nodes: vec!["acme".into()],
            queued,
            leased: 0,
            calls_per_s: Some(2.5),
            waiting: waits.map(|at| Waiting {
                gate: Gate::OriginBackOff { origin: "https://acme.example:443".into() },
                until: until(at),
            }),
        }
    }

    #[test]
    fn a_policys_budgets_are_summed_over_all_runs_and_those_that_wait_longest_come_first() {
        let lanes = BTreeMap::from([
            (
                "one".to_owned(),
                vec![lane("gentle for a", 3, None), lane("gentle for b", 1, Some(100)), lane("other", 9, None)],
            ),
            ("two".to_owned(), vec![lane("gentle for a", 4, None), lane("gentler for c", 1, None)]),
        ]);
        let budgets = budgets_of("gentle", &lanes);
        let seen: Vec<_> = budgets
            .iter()
            .map(|budget| (budget.name.as_str(), budget.calls_per_minute, budget.queued, budget.waiting_for.as_deref()))
            .collect();
        assert_eq!(seen, [("gentle for b", Some(150), 1, Some("BackOff")), ("gentle for a", Some(150), 7, None)]);
    }
}
