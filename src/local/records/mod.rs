//! `trawler records`: looking at what a Catalog has. Typed rows, and how they are shown.

mod feed;
mod find;
mod list;

use clap::ValueEnum;
use serde::Serialize;

pub use self::feed::{ChangeList, changes};
pub use self::find::{FindError, RecordSheet, find};
pub use self::list::{RecordList, RecordRow, list};

/// How rows are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, ValueEnum)]
pub enum Output {
    /// A table for people
    #[default]
    Text,
    /// One JSON array of objects
    Json,
    /// One JSON object a line
    Jsonl,
}

/// Rows as JSON: an array with one row a line, or just the lines.
fn to_json<T: Serialize>(rows: &[T], output: Output) -> String {
    // Rows are strings and numbers, which always have a JSON form.
    let lines: Vec<String> = rows.iter().map(|row| serde_json::to_string(row).unwrap_or_default()).collect();
    match output {
        Output::Jsonl => lines.iter().fold(String::new(), |text, line| text + line + "\n"),
        Output::Json | Output::Text if lines.is_empty() => "[]\n".to_owned(),
        Output::Json | Output::Text => format!("[\n{}\n]\n", lines.join(",\n")),
    }
}
