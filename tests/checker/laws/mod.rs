//! The laws that a history is judged by. Pure: from what servers saw and what is held to a verdict.

mod concurrency;
mod pause;
mod post_paid;
mod records;
mod usage;
mod window;

use crate::log::Seen;
use crate::rules::{Budget, Rules};
use crate::stored::{Stored, Truth};
use crate::verdict::Verdict;

/// One run, as everybody but the crawler saw it.
#[derive(Debug, Clone)]
pub(crate) struct Crawl {
    /// What the servers saw, in order of arrival.
    pub(crate) seen: Vec<Seen>,
    /// What they hold.
    pub(crate) truth: Truth,
    /// What was held before the run.
    pub(crate) before: Stored,
    /// What is held after it.
    pub(crate) after: Stored,
}

impl Crawl {
    /// Judges everything.
    pub(crate) fn judge(&self, rules: &Rules) -> Verdict {
        let mut verdict = judge_traffic(&self.seen, rules);
        records::judge(self, &mut verdict);
        verdict
    }
}

/// Judges what the servers saw, whatever is held.
pub(crate) fn judge_traffic(seen: &[Seen], rules: &Rules) -> Verdict {
    let mut verdict = Verdict::default();
    let start = seen.first().map_or(0, |seen| seen.arrived);
    for budget in &rules.budgets {
        let own: Vec<&Seen> = seen.iter().filter(|seen| budget.nodes.contains(&seen.node)).collect();
        window::judge(budget, &own, start, &mut verdict);
        post_paid::judge(budget, &own, start, &mut verdict);
        concurrency::judge_budget(budget, &own, start, &mut verdict);
        usage::judge(budget, &own, rules, &mut verdict);
    }
    concurrency::judge_origins(seen, rules, start, &mut verdict);
    pause::judge(seen, rules, start, &mut verdict);
    verdict
}

/// A moment as seconds since the history's start, for sentences.
fn at(moment: i64, start: i64) -> String {
    format!("{:.3} s", seconds(moment - start))
}

#[expect(clippy::cast_precision_loss, reason = "shown to people")]
fn seconds(micros: i64) -> f64 {
    micros as f64 / 1e6
}

/// `budget "name"`.
fn called(budget: &Budget) -> String {
    format!("budget \"{}\"", budget.name)
}
