//! What budgets have spent before the queue knows them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;
use url::Url;

use super::budgets::{ORIGIN_PROTECTION, assign_budgets};
use super::snapshot::{NodeSpending, RunSnapshot};
use crate::api::{CatalogNode, RunSettings, ThrottlePolicy};
use crate::flow::{BudgetConfig, BudgetId, NodeConfig, OpenInterval, Spent};
use crate::task::{NodeName, OriginKey, origin_of};

/// Tells each budget what its nodes have spent, those too that this run leaves out. If the process before did not end in
/// order, short windows start as if spent: what was asked last was not counted.
pub(super) fn add_spent(budgets: &mut [BudgetConfig], snapshot: &RunSnapshot) {
    let spent = &snapshot.spent;
    let nodes = node_budgets(&snapshot.nodes, &snapshot.policies, snapshot.now).0;
    let budget_of: HashMap<&NodeName, &BudgetId> = nodes.iter().map(|node| (&node.name, &node.budget)).collect();
    let mut sums: BTreeMap<(&BudgetId, Timestamp), Spent> = BTreeMap::new();
    for NodeSpending { node, at, calls, documents, bytes } in &spent.spendings {
        let Some(budget) = budget_of.get(node) else { continue };
        // A clock that was set back has left moments that are yet to come.
        let at = (*at).min(snapshot.now);
        let nothing = Spent { at, calls: 0, documents: 0, bytes: 0 };
        let sum = sums.entry((budget, at)).or_insert(nothing);
        sum.calls = sum.calls.saturating_add(*calls);
        sum.documents = sum.documents.saturating_add(*documents);
        sum.bytes = sum.bytes.saturating_add(*bytes);
    }
    for budget in budgets {
        let of_budget = sums.range((&budget.id, Timestamp::MIN)..=(&budget.id, Timestamp::MAX));
        budget.spent = of_budget.map(|(_, spent)| *spent).collect();
        budget.short_windows_start_spent = !spent.ended_in_order;
    }
}

/// What a process that did not end in order may have asked without counting it: as many requests as it may have had under
/// way, for each budget: no more than the budget and the protection of its nodes' origins allow. It is put down to the first of the nodes that share the budget, and must be remembered like what
/// was counted: the next process may not end in order either.
pub fn uncounted(
    nodes: &[CatalogNode],
    policies: &[ThrottlePolicy],
    settings: &RunSettings,
    now: Timestamp,
) -> Vec<NodeSpending> {
    let (configs, budgets) = node_budgets(nodes, policies, now);
    let named = nodes.iter().filter(|node| node.metadata.name.is_some());
    let mut sharing: BTreeMap<&BudgetId, Sharing<'_>> = BTreeMap::new();
    for (config, node) in configs.iter().zip(named) {
        let sharing = sharing.entry(&config.budget).or_insert_with(|| Sharing::new(&config.name));
        sharing.cost = config.api_calls_per_document.max(sharing.cost);
        sharing.origins.extend(Url::parse(&node.spec.endpoint).ok().as_ref().map(origin_of));
    }
    let at_a_time = settings.tokens.saturating_mul(settings.crawler.concurrency);
    let uncounted = budgets.iter().filter_map(|budget| {
        let Sharing { first, cost, origins } = sharing.get(&budget.id)?;
        let origins = u32::try_from(origins.len()).unwrap_or(u32::MAX);
        let at_origins = ORIGIN_PROTECTION.max_concurrent.saturating_mul(origins);
        let under_way = budget.max_concurrent.unwrap_or(at_origins).min(at_origins).min(at_a_time);
        let calls = u64::from(under_way) * u64::from(*cost);
        Some(NodeSpending { node: (*first).clone(), at: now, calls, documents: 0, bytes: 0 })
    });
    uncounted.collect()
}

/// The nodes that share a budget.
struct Sharing<'a> {
    first: &'a NodeName,
    /// What one request may cost at most.
    cost: u32,
    origins: BTreeSet<OriginKey>,
}

impl<'a> Sharing<'a> {
    fn new(first: &'a NodeName) -> Self {
        Self { first, cost: 1, origins: BTreeSet::new() }
    }
}

/// The budget of each of these nodes, crawled or not, and the budgets, whenever they are open.
fn node_budgets(
    nodes: &[CatalogNode],
    policies: &[ThrottlePolicy],
    now: Timestamp,
) -> (Vec<NodeConfig>, Vec<BudgetConfig>) {
    let named = nodes.iter().filter_map(|node| Some((NodeName::from(node.metadata.name.as_deref()?), node)));
    assign_budgets(&named.collect::<Vec<_>>(), policies, OpenInterval { from: now, until: now })
}
