//! An execution plan as text for a person.

use std::fmt::{self, Display, Formatter};

use super::execution_plan::{ExecutionPlan, Step, Verdict};
use crate::api::{ByteSize, KubeDuration};
use crate::flow::{BudgetConfig, OpenInterval, RunConfig, Unit};

impl Display for ExecutionPlan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "Run {} ({:?})", self.run, self.phase)?;
        for (number, step) in (1..).zip(&self.steps) {
            write!(f, "{number:3}. ")?;
            write_step(f, step)?;
        }
        if self.steps.is_empty() {
            writeln!(f, "  Nothing to do now")?;
        }
        for skipped in &self.skipped {
            writeln!(f, "  Left out: {}: {}", skipped.node, skipped.reason)?;
        }
        if let Some(at) = self.look_again_at {
            writeln!(f, "  Look again at {at}")?;
        }
        Ok(())
    }
}

fn write_step(f: &mut Formatter<'_>, step: &Step) -> fmt::Result {
    match step {
        Step::OpenQueue { config } => write_config(f, config),
        Step::SeedNodes { nodes } => writeln!(f, "Put in the root of {} node{}", nodes.len(), plural(nodes.len())),
        Step::Freeze => writeln!(f, "Freeze: hand out nothing more"),
        Step::Thaw => writeln!(f, "Thaw: go on"),
        Step::StartCrawler { token, group } => writeln!(f, "Start a crawler with token {token} for group {group:?}"),
        Step::StopCrawlers => writeln!(f, "Let the crawlers finish what they have"),
        Step::FinishRun { verdict } => writeln!(
            f,
            "Finish the run: {}",
            match verdict {
                Verdict::Drained => "every task is settled",
                Verdict::DeadlineExceeded => "its deadline has passed",
                Verdict::Interrupted => "it was interrupted, and can be resumed",
            }
        ),
    }
}

fn write_config(f: &mut Formatter<'_>, config: &RunConfig) -> fmt::Result {
    writeln!(f, "Open a queue for at most {} crawler{}", config.max_holders, plural(config.max_holders as usize))?;
    for node in &config.nodes {
        writeln!(f, "       node {}: budget {:?}", node.name, &*node.budget.0)?;
    }
    for budget in &config.budgets {
        writeln!(f, "       budget {:?}: {}", &*budget.id.0, describe(budget))?;
    }
    let protection = &config.origin_protection;
    writeln!(f, "       any server: at most {} requests at a time", protection.max_concurrent)
}

fn describe(budget: &BudgetConfig) -> String {
    let mut parts: Vec<String> = budget
        .limits
        .iter()
        .map(|limit| {
            let amount = match limit.unit {
                Unit::ApiCalls => format!("{} calls", limit.amount),
                Unit::Documents => format!("{} documents", limit.amount),
                Unit::Bytes => ByteSize::from_bytes(limit.amount).to_string(),
            };
            let period = KubeDuration::from_secs(limit.period.as_secs());
            format!(
                "{amount} in {period}{}",
                if limit.even && limit.unit == Unit::ApiCalls { ", spread evenly" } else { "" }
            )
        })
        .collect();
    if let Some(max) = budget.max_concurrent {
        parts.push(format!("{max} at a time"));
    }
    parts.extend(budget.open_hours.as_deref().map(describe_hours));
    if parts.is_empty() { "no limit".to_owned() } else { parts.join("; ") }
}

fn describe_hours(hours: &[OpenInterval]) -> String {
    match hours.first() {
        Some(OpenInterval { from, until }) => format!("only in its allowed hours, the first from {from} to {until}"),
        None => "never: no allowed hours lie within the run's time".to_owned(),
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}
