//! What budgets have spent before the queue knows them.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;

use super::budgets::assign_budgets;
use super::snapshot::{NodeSpending, RunSnapshot};
use crate::flow::{BudgetConfig, BudgetId, OpenInterval, Spent};
use crate::task::NodeName;

/// Tells each budget what its nodes have spent, those too that this run leaves out.
///
/// If the process before did not end in order, what it asked last was not counted: short windows start as if spent, and the
/// long ones are charged for as many requests as may have been under way.
pub(super) fn add_spent(budgets: &mut [BudgetConfig], snapshot: &RunSnapshot) {
    let spent = &snapshot.spent;
    if spent.spendings.is_empty() && spent.ended_in_order {
        return;
    }
    let nodes: Vec<_> =
        snapshot.nodes.iter().filter_map(|node| Some((NodeName::from(node.metadata.name.as_deref()?), node))).collect();
    // Which budget it is matters here, not when it is open.
    let span = OpenInterval { from: snapshot.now, until: snapshot.now };
    let (nodes, _) = assign_budgets(&nodes, &snapshot.policies, span);
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
    for budget in budgets.iter_mut() {
        let of_budget = sums.range((&budget.id, Timestamp::MIN)..=(&budget.id, Timestamp::MAX));
        budget.spent = of_budget.map(|(_, spent)| *spent).collect();
    }
    if !spent.ended_in_order {
        let costliest = |id: &BudgetId| {
            nodes.iter().filter(|node| node.budget == *id).map(|node| node.api_calls_per_document).max().unwrap_or(1)
        };
        let settings = &snapshot.spec.settings;
        let at_a_time = settings.tokens.saturating_mul(settings.crawler.concurrency);
        for budget in budgets {
            let under_way = budget.max_concurrent.unwrap_or(u32::MAX).min(at_a_time);
            let calls = u64::from(under_way) * u64::from(costliest(&budget.id).max(1));
            budget.spent.push(Spent { at: snapshot.now, calls, documents: 0, bytes: 0 });
            budget.short_windows_start_spent = true;
        }
    }
}
