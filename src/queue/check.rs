//! Whether a configuration makes sense, before any adapter takes it.

use std::collections::{HashMap, HashSet};

use super::{BudgetConfig, QueueError, RunConfig, Unit};

/// Refuses what contradicts itself.
pub(super) fn check_config(config: &RunConfig) -> Result<(), QueueError> {
    let bad = |why: String| Err(QueueError::BadConfig { run: config.run.clone(), why });
    if config.max_holders == 0 || config.max_charges == 0 || config.origin_protection.max_concurrent == 0 {
        return bad(
            "the numbers of crawlers, of charges and of requests under way to an origin must be at least 1".into()
        );
    }
    if config.weight == 0 {
        return bad("the weight must be at least 1".into());
    }
    if config.lease.is_zero() {
        return bad("a lease must last longer than 0 s".into());
    }
    let mut budgets = HashMap::new();
    for budget in &config.budgets {
        if budgets.insert(&budget.id, calls_at_once(budget)).is_some() {
            return bad(format!("the budget {} is named twice", budget.id.0));
        }
        if budget.limits.iter().any(|limit| limit.amount == 0 || limit.period.is_zero())
            || budget.max_concurrent == Some(0)
        {
            return bad(format!("the amounts, periods and concurrency of the budget {} must be above 0", budget.id.0));
        }
        if let Some(why) = hours_fault(budget) {
            return bad(format!("the open hours of the budget {} {why}", budget.id.0));
        }
    }
    let mut names = HashSet::new();
    for node in &config.nodes {
        if !names.insert(&node.name) {
            return bad(format!("the node {} is named twice", node.name));
        }
        let Some(&allowed) = budgets.get(&node.budget) else {
            return bad(format!("the node {} refers to the budget {}, which is missing", node.name, node.budget.0));
        };
        let calls = node.api_calls_per_document;
        if calls == 0 {
            return bad(format!("one dataset of the node {} must cost at least 1 call", node.name));
        }
        if u64::from(calls) > allowed {
            return bad(format!(
                "one dataset of the node {} costs {calls} calls, but its budget {} allows only {allowed} at a time",
                node.name, node.budget.0
            ));
        }
    }
    Ok(())
}

/// Open intervals of a budget; a year of sixteen a day is less.
const MAX_OPEN_HOURS: usize = 8192;

fn hours_fault(budget: &BudgetConfig) -> Option<String> {
    let hours = budget.open_hours.as_deref()?;
    if hours.len() > MAX_OPEN_HOURS {
        return Some(format!("must be at most {MAX_OPEN_HOURS}"));
    }
    let is_sound = hours.iter().all(|interval| interval.from < interval.until)
        && hours.windows(2).all(|pair| pair[0].until <= pair[1].from);
    (!is_sound).then(|| "must be sorted and must not overlap".to_owned())
}

fn calls_at_once(budget: &BudgetConfig) -> u64 {
    let calls = budget.limits.iter().filter(|limit| limit.unit == Unit::ApiCalls);
    calls.map(|limit| limit.amount).min().unwrap_or(u64::MAX)
}
