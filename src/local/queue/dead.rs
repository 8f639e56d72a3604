//! `trawler queue dead`: tasks that were given up, and why.

use std::fmt::Write as _;

use serde::Serialize;

use super::peek::TaskWords;
use super::{Answer, AskError, Look, cut, more};
use crate::local::grid::Cell;
use crate::local::text::ago;
use crate::queue::{DeadTask, Queue, TaskFailure};
use crate::task::RunId;

/// Tasks that were given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct DeadList {
    /// The tasks, oldest death first.
    pub tasks: Vec<DeadRow>,
    /// There are more than were asked for.
    #[serde(skip)]
    pub has_more: bool,
    /// Dead tasks that the queue counted and did not keep.
    #[serde(skip)]
    pub not_kept: u64,
}

/// A task that was given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadRow {
    /// The task.
    #[serde(flatten)]
    pub task: TaskWords,
    /// How often it was handed out.
    pub attempts: u32,
    /// How often a crawler crashed while it worked on it.
    pub charges: u32,
    /// Its latest failures; the last one ended it.
    pub history: Vec<TaskFailure>,
}

/// The first `limit` dead tasks of a run that are kept.
pub async fn dead(queue: &dyn Queue, run: &RunId, limit: usize) -> Result<DeadList, AskError> {
    let ledger = queue.ledger(run).await?;
    let (tasks, has_more) = cut(queue.dead(run, limit.saturating_add(1)).await?, limit);
    let not_kept = if has_more { 0 } else { ledger.dead.saturating_sub(tasks.len() as u64) };
    let row = |DeadTask { task, attempts, charges, history }: &DeadTask| DeadRow {
        task: task.into(),
        attempts: *attempts,
        charges: *charges,
        history: history.clone(),
    };
    Ok(DeadList { tasks: tasks.iter().map(row).collect(), has_more, not_kept })
}

impl Answer for DeadList {
    fn text(&self, look: &Look) -> String {
        if self.tasks.is_empty() && self.not_kept == 0 {
            return "No dead tasks\n".to_owned();
        }
        let mut header = vec!["TASK", "NODE", "SECTION", "KIND", "DIED", "ATTEMPTS", "CRASHES"];
        header.extend(if look.is_wide() { &["STATUS", "ORIGIN", "CURSOR", "HISTORY"][..] } else { &["ERROR"] });
        let rows: Vec<Vec<Cell>> = self.tasks.iter().map(|task| row(task, look)).collect();
        let mut text = look.grid(&header, &rows) + more(self.has_more);
        if self.not_kept > 0 {
            writeln!(text, "{} more died and were counted, but not kept", self.not_kept).unwrap_or_default();
        }
        text
    }
}

fn row(task: &DeadRow, look: &Look) -> Vec<Cell> {
    let last = task.history.last();
    let mut row: Vec<Cell> = task.task.cells().into();
    row.extend([
        last.map_or_else(|| "-".to_owned(), |failure| ago(failure.at, look.now)).into(),
        task.attempts.into(),
        task.charges.into(),
    ]);
    if look.is_wide() {
        row.extend(task.task.wide_cells());
        let history: Vec<String> =
            task.history.iter().map(|failure| format!("{}: {}", ago(failure.at, look.now), failure.why)).collect();
        row.push(history.join("; ").into());
    } else {
        row.push(last.map_or("-", |failure| &*failure.why).into());
    }
    row
}
