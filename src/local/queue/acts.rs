//! `trawler queue retry`, `drop`, `freeze`, `thaw` and `audit`: what a person does to a queue.

use std::fmt::Write as _;

use serde::Serialize;

use super::choose::{Named, read_name, resolve};
use super::peek::live;
use super::{Answer, AskError, Look};
use crate::local::summary::{counted, plural};
use crate::local::text::shown;
use crate::queue::{MAX_DEAD_KEPT, Queue};
use crate::task::{RunId, TaskId};

/// In a run with more tasks than this, or than its queue shows, one must be named by its whole id.
const MAX_LOOKED_THROUGH: usize = 10_000;
/// The widest run's name in a sentence.
const NAME_WIDTH: usize = 80;
/// The widest account of a repair.
const REPAIR_WIDTH: usize = 500;

fn name(run: &RunId) -> String {
    shown(run.as_str(), NAME_WIDTH)
}

/// The dead tasks that are named by their ids or first digits.
pub async fn choose_dead(queue: &dyn Queue, run: &RunId, names: &[String]) -> Result<Vec<TaskId>, AskError> {
    let names: Vec<Named> = names.iter().map(|name| read_name(name)).collect::<Result<_, _>>()?;
    let mut known = Vec::new();
    if names.iter().any(|name| matches!(name, Named::Beginning(_))) {
        known = queue.dead(run, MAX_DEAD_KEPT).await?.into_iter().map(|dead| dead.task.id).collect();
    }
    Ok(distinct(resolve(names, &known, "dead task")?))
}

/// The tasks that are named by their ids or first digits, among those that have not ended.
pub async fn choose_waiting(queue: &dyn Queue, run: &RunId, names: &[String]) -> Result<Vec<TaskId>, AskError> {
    let names: Vec<Named> = names.iter().map(|name| read_name(name)).collect::<Result<_, _>>()?;
    let mut known = Vec::new();
    if names.iter().any(|name| matches!(name, Named::Beginning(_))) {
        known = queue.peek(run, MAX_LOOKED_THROUGH).await?.into_iter().map(|peeked| peeked.task.id).collect();
        // First digits could fit one that was not looked at, too.
        if live(&queue.ledger(run).await?) > known.len() as u64 {
            return Err(AskError::Usage(format!(
                "run {} has too many tasks to look through; give all 32 digits of a task's id",
                name(run)
            )));
        }
    }
    Ok(distinct(resolve(names, &known, "task that has not ended")?))
}

/// A task that is named twice counts once.
fn distinct(mut tasks: Vec<TaskId>) -> Vec<TaskId> {
    tasks.sort_unstable();
    tasks.dedup();
    tasks
}

/// Dead tasks were put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Retried {
    /// The run.
    pub run: RunId,
    /// How many were named; `None`: all that are kept.
    pub named: Option<u64>,
    /// How many were put back.
    pub retried: u64,
    /// How many of the run are still dead.
    pub dead: u64,
}

/// Puts dead tasks back: those named, or all.
pub async fn retry_dead(queue: &dyn Queue, run: &RunId, tasks: Option<&[TaskId]>) -> Result<Retried, AskError> {
    let retried = queue.retry_dead(run, tasks).await?;
    let dead = queue.ledger(run).await?.dead;
    Ok(Retried { run: run.clone(), named: tasks.map(|tasks| tasks.len() as u64), retried, dead })
}

impl Retried {
    /// Whether what was asked for was done.
    pub fn is_whole(&self) -> bool {
        self.named.is_none_or(|named| named == self.retried)
    }
}

impl Answer for Retried {
    fn text(&self, _: &Look) -> String {
        let run = name(&self.run);
        let mut text = match (self.retried, self.dead) {
            (0, 0) => format!("Run {run} has no dead tasks\n"),
            (0, _) => format!("Run {run}: nothing was put back\n"),
            (count, _) => format!("Run {run}: {} put back\n", counted(count, "dead task")),
        };
        if let Some(missing) = self.named.map(|named| named.saturating_sub(self.retried)).filter(|missing| *missing > 0)
        {
            let verb = if missing == 1 { "is" } else { "are" };
            writeln!(text, "{missing} of those named {verb} not dead, not kept, or of a node that was removed")
                .unwrap_or_default();
        }
        text
    }
}

/// Tasks were dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Dropped {
    /// The run.
    pub run: RunId,
    /// How many were named.
    pub named: u64,
    /// How many were dropped.
    pub dropped: u64,
}

/// Drops tasks that are queued or delayed.
pub async fn drop_tasks(queue: &dyn Queue, run: &RunId, tasks: &[TaskId]) -> Result<Dropped, AskError> {
    let dropped = queue.drop_tasks(run, tasks).await?;
    Ok(Dropped { run: run.clone(), named: tasks.len() as u64, dropped })
}

impl Dropped {
    /// Whether what was asked for was done.
    pub fn is_whole(&self) -> bool {
        self.named == self.dropped
    }
}

impl Answer for Dropped {
    fn text(&self, _: &Look) -> String {
        let mut text = format!("Run {}: {} dropped\n", name(&self.run), counted(self.dropped, "task"));
        let missing = self.named.saturating_sub(self.dropped);
        if missing > 0 {
            let verb = if missing == 1 { "is" } else { "are" };
            writeln!(text, "{missing} of those named {verb} neither queued nor delayed").unwrap_or_default();
        }
        text
    }
}

/// A run was frozen, or a freeze lifted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Frozen {
    /// The run.
    pub run: RunId,
    /// Whether it is frozen now.
    pub frozen: bool,
    /// Tasks that are still being worked on.
    pub leased: u64,
}

/// Freezes a run, or lifts its freeze.
pub async fn set_frozen(queue: &dyn Queue, run: &RunId, frozen: bool) -> Result<Frozen, AskError> {
    if frozen {
        queue.freeze(run).await?;
    } else {
        queue.thaw(run).await?;
    }
    let leased = queue.ledger(run).await?.leased;
    Ok(Frozen { run: run.clone(), frozen, leased })
}

impl Answer for Frozen {
    fn text(&self, _: &Look) -> String {
        let run = name(&self.run);
        if !self.frozen {
            return format!("Run {run} is not frozen: tasks are handed out\n");
        }
        let under_way = match self.leased {
            0 => "no task is under way".to_owned(),
            leased => format!("{} under way may end", counted(leased, "task")),
        };
        format!("Run {run} is frozen: nothing is handed out, {under_way}\n")
    }
}

/// A run was recounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Audited {
    /// The run.
    pub run: RunId,
    /// What was wrong and has been put right.
    pub repaired: Vec<String>,
}

/// Recounts a run and repairs what is wrong.
pub async fn audit(queue: &dyn Queue, run: &RunId) -> Result<Audited, AskError> {
    Ok(Audited { run: run.clone(), repaired: queue.audit(run).await? })
}

impl Answer for Audited {
    fn text(&self, _: &Look) -> String {
        let count = self.repaired.len() as u64;
        let mut text = match count {
            0 => format!("Run {}: nothing to repair\n", name(&self.run)),
            _ => format!("Run {}: {count} {} repaired\n", name(&self.run), plural(count, "fault")),
        };
        for fault in &self.repaired {
            writeln!(text, "  {}", shown(fault, REPAIR_WIDTH)).unwrap_or_default();
        }
        text
    }
}
