//! The driver of ThrottlePolicies: which of their targets they have, and how many nodes they hold for.

use std::sync::Arc;

use kube::ResourceExt as _;
use kube::runtime::controller::Action;

use super::conditions::{Holds, Said, conditions};
use super::error::OperatorError;
use super::world::World;
use crate::api::conditions::{ACCEPTED, READY, STALLED, accepted, ready};
use crate::api::{ThrottlePolicy, ThrottlePolicyStatus, ThrottleTargetStatus};
use crate::planner::{policy_name_of, target_owner, unusable_hours};

pub(crate) const KIND: &str = "ThrottlePolicy";

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
        assigned_catalog_nodes: i64::try_from(assigned).unwrap_or(i64::MAX),
        targets: targets.collect(),
    };
    if status != before {
        world.write_status::<ThrottlePolicy>(&name, &status).await?;
    }
    Ok(Action::await_change())
}
