//! `trawler queue peek`: tasks that have not ended.

use serde::Serialize;

use super::{Answer, AskError, Look, cut};
use crate::local::grid::{Cell, Tone};
use crate::local::text::in_about;
use crate::queue::{Ledger, Queue, QueuedTask, TaskState};
use crate::task::{ItemStatus, NodeName, OriginKey, RunId, SectionPath, Task, TaskKind};

/// Tasks that have not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct TaskList {
    /// The tasks.
    pub tasks: Vec<TaskRow>,
    /// There are more than are listed.
    #[serde(skip)]
    pub has_more: bool,
}

/// What is shown of any task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskWords {
    /// Its id.
    pub task: String,
    /// Its node.
    pub node: NodeName,
    /// Its section; empty for the node's own catalogue.
    pub section: SectionPath,
    /// What it fetches.
    pub kind: TaskKind,
    /// Its place in the order inside the node.
    pub status: ItemStatus,
    /// Whom it asks.
    pub origin: OriginKey,
    /// What is asked for, as its reader understands it.
    pub cursor: String,
    /// How many pages of the section came before it.
    pub page: u32,
    /// How many nested catalogues it is deep.
    pub depth: u32,
}

impl From<&Task> for TaskWords {
    fn from(task: &Task) -> Self {
        Self {
            task: task.id.to_string(),
            node: task.section.node.clone(),
            section: task.section.section.clone(),
            kind: task.kind,
            status: task.status,
            origin: task.origin.clone(),
            cursor: task.cursor.to_string(),
            page: task.page,
            depth: task.depth,
        }
    }
}

impl TaskWords {
    /// The first cells of a row.
    pub(super) fn cells(&self) -> [Cell; 4] {
        let kind = match self.kind {
            TaskKind::Root => "root",
            TaskKind::Page => "page",
            TaskKind::Dataset => "dataset",
        };
        let section = if self.section.is_root() { "-" } else { self.section.as_str() };
        [self.task.as_str().into(), self.node.as_str().into(), section.into(), kind.into()]
    }

    /// The last cells of a wide row.
    pub(super) fn wide_cells(&self) -> [Cell; 3] {
        let status = match self.status {
            ItemStatus::Error => "ERROR",
            ItemStatus::Modified => "MODIFIED",
            ItemStatus::NewItem => "NEW_ITEM",
            ItemStatus::Accepted => "ACCEPTED",
        };
        [status.into(), self.origin.as_str().into(), self.cursor.as_str().into()]
    }
}

/// A task that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskRow {
    /// The task.
    #[serde(flatten)]
    pub task: TaskWords,
    /// Where it stands.
    #[serde(flatten)]
    pub state: TaskState,
    /// How often it was handed out.
    pub attempts: u32,
    /// How often a crawler crashed while it worked on it.
    pub charges: u32,
}

/// Up to `limit` tasks of a run that have not ended.
pub async fn peek(queue: &dyn Queue, run: &RunId, limit: usize) -> Result<TaskList, AskError> {
    let ledger = queue.ledger(run).await?;
    let (tasks, is_cut) = cut(queue.peek(run, limit.saturating_add(1)).await?, limit);
    // A queue need not look behind its first tasks.
    let has_more = is_cut || live(&ledger) > tasks.len() as u64;
    let row = |QueuedTask { task, state, attempts, charges }: &QueuedTask| TaskRow {
        task: task.into(),
        state: state.clone(),
        attempts: *attempts,
        charges: *charges,
    };
    Ok(TaskList { tasks: tasks.iter().map(row).collect(), has_more })
}

/// Tasks that have not ended.
pub(super) fn live(ledger: &Ledger) -> u64 {
    ledger.queued + ledger.delayed + ledger.leased
}

impl Answer for TaskList {
    fn text(&self, look: &Look) -> String {
        if self.tasks.is_empty() {
            return "No task is queued, delayed or leased\n".to_owned();
        }
        let mut header = vec!["TASK", "NODE", "SECTION", "KIND", "STATE", "ATTEMPTS", "CRASHES"];
        if look.is_wide() {
            header.extend(["STATUS", "ORIGIN", "CURSOR"]);
        }
        let rows: Vec<Vec<Cell>> = self.tasks.iter().map(|task| row(task, look)).collect();
        look.grid(&header, &rows) + if self.has_more { "There are more\n" } else { "" }
    }
}

fn row(task: &TaskRow, look: &Look) -> Vec<Cell> {
    let state = match &task.state {
        TaskState::Queued if task.charges > 0 => Cell::from("queued, tried alone").toned(Tone::Warn),
        TaskState::Queued => "queued".into(),
        TaskState::Delayed { until } => Cell::from(format!("delayed, tried {}", in_about(*until, look.now))),
        TaskState::Leased { token, lapses } => {
            format!("leased by {token}, lapses {}", in_about(*lapses, look.now)).into()
        }
    };
    let charges = Cell::from(task.charges).toned(if task.charges > 0 { Tone::Warn } else { Tone::Plain });
    let mut row: Vec<Cell> = task.task.cells().into();
    row.extend([state, task.attempts.into(), charges]);
    if look.is_wide() {
        row.extend(task.task.wide_cells());
    }
    row
}
