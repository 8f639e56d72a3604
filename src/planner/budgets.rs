//! Which budget each node's requests count against, and what protects every server all the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use super::hours::open_intervals;
use crate::api::schedules::parse_time_zone;
use crate::api::{BudgetPer, CatalogNode, Pacing, TargetType, ThrottlePolicy, ThrottleTarget, ThrottleUnit};
use crate::flow::{BudgetConfig, BudgetId, BudgetLimit, NodeConfig, OpenInterval, OriginProtection, Unit};
use crate::task::{NodeName, origin_of};

/// What protects every origin, whatever the policy: at most 8 requests under way; after a 429, 503 or timeout without
/// `Retry-After` nothing is sent for 2 s, doubling with each such event, and never for more than an hour, whatever the
/// server asks for.
pub const ORIGIN_PROTECTION: OriginProtection = OriginProtection {
    max_concurrent: 8,
    initial_backoff: Duration::from_secs(2),
    max_backoff: Duration::from_hours(1),
};

/// The polite default of a connection that no policy is assigned to: 10 requests in any second, 4 under way.
pub const DEFAULT_BUDGET: (BudgetLimit, u32) =
    (BudgetLimit { unit: Unit::ApiCalls, amount: 10, period: Duration::from_secs(1), even: false }, 4);

/// The default budget in one sentence, for reports and documents.
pub fn describe_default_budget() -> String {
    let (limit, concurrent) = DEFAULT_BUDGET;
    format!(
        "at most {} requests in any {} s and {concurrent} at a time to one server",
        limit.amount,
        limit.period.as_secs()
    )
}

/// Gives each node its budget. Precedence: the node's own reference, then a policy that targets its connection, then one
/// that targets its credential; of several at one level the oldest, then the first by name, wins.
/// Allowed hours are worked out for the span of time.
pub(super) fn assign_budgets(
    crawled: &[(NodeName, &CatalogNode)],
    policies: &[ThrottlePolicy],
    span: OpenInterval,
) -> (Vec<NodeConfig>, Vec<BudgetConfig>) {
    let ordered = by_precedence(policies.iter());
    let mut budgets: BTreeMap<BudgetId, BudgetConfig> = BTreeMap::new();
    let mut hours: BTreeMap<&str, Option<Arc<[OpenInterval]>>> = BTreeMap::new();
    let nodes = crawled
        .iter()
        .map(|(name, node)| {
            let connection = connection_of(node);
            let policy = policy_of(node, &connection, &ordered);
            let budget = match policy {
                Some(policy) => {
                    let name_of_policy = policy.metadata.name.as_deref().unwrap_or_default();
                    let hours = hours
                        .entry(name_of_policy)
                        .or_insert_with(|| open_intervals(&policy.spec.allowed_hours, span.from, span.until));
                    BudgetConfig { open_hours: hours.clone(), ..policy_budget(policy, name, &connection) }
                }
                None => default_budget(&connection),
            };
            let id = budget.id.clone();
            budgets.entry(id.clone()).or_insert(budget);
            NodeConfig {
                name: name.clone(),
                budget: id,
                group: node.spec.crawler_class.clone().unwrap_or_else(|| "default".to_owned()),
                priority: node.spec.priority,
                suspended: false,
                api_calls_per_document: node.spec.api_calls_per_document,
                brief: Arc::default(),
            }
        })
        .collect();
    (nodes, budgets.into_values().collect())
}

/// The oldest first, then by name.
fn by_precedence<'a>(policies: impl Iterator<Item = &'a ThrottlePolicy>) -> Vec<&'a ThrottlePolicy> {
    let mut ordered: Vec<&ThrottlePolicy> = policies.collect();
    ordered.sort_by_key(|policy| {
        (policy.metadata.creation_timestamp.as_ref().map(|time| time.0), policy.metadata.name.as_deref())
    });
    ordered
}

/// The name of the policy that holds for a node; `None`: the polite default does.
pub fn policy_name_of<'a>(node: &CatalogNode, policies: impl Iterator<Item = &'a ThrottlePolicy>) -> Option<String> {
    policy_of(node, &connection_of(node), &by_precedence(policies))?.metadata.name.clone()
}

/// Of the policies that have a target, the one whose assignment holds.
pub fn target_owner<'a>(
    target: &ThrottleTarget,
    policies: impl Iterator<Item = &'a ThrottlePolicy>,
) -> Option<&'a ThrottlePolicy> {
    by_precedence(policies).into_iter().find(|policy| policy.spec.targets.contains(target))
}

/// Why a policy's allowed hours can't be used, in one sentence.
pub fn unusable_hours(policy: &ThrottlePolicy) -> Option<String> {
    let hours = &policy.spec.allowed_hours;
    let wrong = hours.iter().find_map(|hours| parse_time_zone(&hours.time_zone).err())?;
    Some(format!("spec.allowedHours: {wrong}; it allows nothing until it is corrected"))
}

/// The groups of these nodes.
pub(super) fn groups_of(nodes: &[NodeConfig]) -> BTreeSet<&str> {
    nodes.iter().map(|node| node.group.as_str()).collect()
}

/// `spec.connection`, or the endpoint's origin as `https://host:443`.
fn connection_of(node: &CatalogNode) -> String {
    node.spec.connection.clone().unwrap_or_else(|| match Url::parse(&node.spec.endpoint) {
        Ok(url) => origin_of(&url).to_string(),
        Err(_) => node.spec.endpoint.clone(),
    })
}

fn policy_of<'a>(node: &CatalogNode, connection: &str, ordered: &[&'a ThrottlePolicy]) -> Option<&'a ThrottlePolicy> {
    let named = node.spec.throttle_policy_ref.as_ref().and_then(|reference| {
        ordered.iter().find(|policy| policy.metadata.name.as_deref() == Some(reference.name.as_str())).copied()
    });
    let targeting = |target_type: TargetType, name: &str| {
        ordered
            .iter()
            .find(|policy| {
                policy
                    .spec
                    .targets
                    .iter()
                    .any(|target| target.target_type == target_type && same_target(target_type, &target.name, name))
            })
            .copied()
    };
    named.or_else(|| targeting(TargetType::Connection, connection)).or_else(|| {
        node.spec.credential_ref.as_ref().and_then(|secret| targeting(TargetType::Credential, &secret.name))
    })
}

/// A connection may be targeted by its name, or by an origin with or without its port.
fn same_target(target_type: TargetType, target: &str, name: &str) -> bool {
    let is_origin = || Url::parse(target).is_ok_and(|url| origin_of(&url).as_str() == name);
    target == name || (target_type == TargetType::Connection && is_origin())
}

fn policy_budget(policy: &ThrottlePolicy, node: &NodeName, connection: &str) -> BudgetConfig {
    let name = policy.metadata.name.as_deref().unwrap_or_default();
    let id = match policy.spec.budget_per {
        BudgetPer::Policy => name.to_owned(),
        BudgetPer::Connection => format!("{name} for {connection}"),
        BudgetPer::Node => format!("{name} for {node}"),
    };
    let limits = policy.spec.limits.iter().map(|limit| BudgetLimit {
        unit: match limit.unit {
            ThrottleUnit::ApiCalls => Unit::ApiCalls,
            ThrottleUnit::Documents => Unit::Documents,
            ThrottleUnit::Bytes => Unit::Bytes,
        },
        amount: limit.amount.get(),
        period: limit.period.get(),
        even: limit.pacing == Pacing::Even,
    });
    BudgetConfig {
        id: BudgetId(Arc::from(id)),
        limits: limits.collect(),
        max_concurrent: policy.spec.max_concurrent,
        adaptive_floor_percent: policy.spec.adaptive.enabled.then_some(policy.spec.adaptive.floor_percent),
        open_hours: None,
        spent: Vec::new(),
        short_windows_start_spent: false,
    }
}

fn default_budget(connection: &str) -> BudgetConfig {
    let (limit, max_concurrent) = DEFAULT_BUDGET;
    BudgetConfig {
        id: BudgetId(Arc::from(format!("default for {connection}"))),
        limits: vec![limit],
        max_concurrent: Some(max_concurrent),
        adaptive_floor_percent: Some(5),
        open_hours: None,
        spent: Vec::new(),
        short_windows_start_spent: false,
    }
}
