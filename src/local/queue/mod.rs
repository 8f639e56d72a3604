//! `trawler queue`: looking at a queue, and putting it right. Typed rows, and how they are shown.

mod acts;
mod choose;
mod dead;
mod doctor;
mod lanes;
mod peek;
mod reasons;
mod runs;
mod show;

use clap::ValueEnum;
use jiff::Timestamp;
use serde::Serialize;
use thiserror::Error;

pub use self::acts::{
    Audited, Dropped, Frozen, Retried, audit, choose_dead, choose_waiting, drop_tasks, retry_dead, set_frozen,
};
pub use self::choose::choose_run;
pub use self::dead::{DeadList, dead};
pub use self::doctor::{Diagnosis, acl_lines, doctor};
pub(super) use self::lanes::rate;
pub use self::lanes::{LaneList, lanes};
pub use self::peek::{TaskList, peek};
pub use self::reasons::{Reason, Wait, waits_of};
pub(super) use self::runs::state as state_of;
pub use self::runs::{RunList, runs};
pub use self::show::{RunSheet, show};
use super::grid::{Cell, Grid};
use crate::outcome::Outcome;
use crate::queue::QueueError;

/// How an answer is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, ValueEnum)]
pub enum Output {
    /// For people
    #[default]
    Table,
    /// For people, with more columns
    Wide,
    /// For programs; fields are only added
    Json,
}

/// How an answer is shown, where, and when.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// The form.
    pub output: Output,
    /// The present moment.
    pub now: Timestamp,
    /// The terminal's width; `None`: nothing is cut.
    pub max_width: Option<usize>,
    /// Whether colours are wanted.
    pub colours: bool,
}

impl Look {
    fn grid(&self, header: &[&str], rows: &[Vec<Cell>]) -> String {
        Grid { header, rows, max_width: self.max_width, colours: self.colours }.text()
    }

    fn is_wide(&self) -> bool {
        self.output == Output::Wide
    }
}

/// An answer that can be shown.
pub trait Answer: Serialize {
    /// As text for people.
    fn text(&self, look: &Look) -> String;

    /// As text or JSON.
    fn render(&self, look: &Look) -> String {
        if look.output == Output::Json { json(self) } else { self.text(look) }
    }
}

/// Why nothing can be shown or done.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AskError {
    /// The queue refused, or could not be asked.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// What was asked for makes no sense; a sentence.
    #[error("{0}")]
    Usage(String),
}

impl AskError {
    /// Whether the person who asked must change something before it can work: exit code 2.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Usage(_) => true,
            Self::Queue(QueueError::Lost { .. }) => false,
            Self::Queue(error) => error.outcome() == Outcome::Terminal,
        }
    }
}

/// Pretty, with a line end. What is shown are strings and numbers, which always have a JSON form.
fn json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// What a list says below its rows if it was cut.
fn more(has_more: bool) -> &'static str {
    if has_more { "There are more; --limit shows them\n" } else { "" }
}

/// A list, asked for with one more than is shown: that tells whether there are more.
fn cut<T>(mut rows: Vec<T>, limit: usize) -> (Vec<T>, bool) {
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    (rows, has_more)
}
