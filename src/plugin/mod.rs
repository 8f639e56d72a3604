//! `kubectl trawler` without the cluster: what was read of one becomes rows and sentences. Pure; what reads and writes is
//! in `cli::kubectl`.

mod facts;
mod make;
mod nodes;
mod progress;
mod runs;
mod status;
pub mod top;
mod why;

use clap::ValueEnum;
use jiff::Timestamp;
use serde::Serialize;

pub use self::facts::{RunFacts, Told};
pub use self::make::{MAX_NAMES, NewRun, Retry, dated_name, named_nodes, nodes_to_retry, retry_name};
pub use self::nodes::{Crawled, NodeList, NodeRow};
pub use self::progress::{End, end_of, progress_line};
pub use self::runs::{RunList, RunRow, State};
pub use self::status::StatusSheet;
pub use self::why::{Why, why};
use crate::local::grid::{Cell, Grid};
use crate::local::suggest::closest;

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
    /// The same as YAML
    Yaml,
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
    /// Whether rows are of several namespaces.
    pub with_namespaces: bool,
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
pub trait Answer: Serialize + Sized {
    /// As text for people.
    fn text(&self, look: &Look) -> String;

    /// As it was asked for. What is shown are strings and numbers, which always have a form.
    fn render(&self, look: &Look) -> String {
        match look.output {
            Output::Json => serde_json::to_string_pretty(self).unwrap_or_default() + "\n",
            Output::Yaml => serde_saphyr::to_string(self).unwrap_or_default(),
            Output::Table | Output::Wide => self.text(look),
        }
    }
}

/// There is no object of this name: a sentence, with the name that was probably meant.
pub fn no_such(kind: &str, name: &str, namespace: &str, known: &[&str]) -> String {
    let lead = format!("there is no {kind} {name} in namespace {namespace}");
    match (closest(name, known), known.is_empty()) {
        (Some(near), _) => format!("{lead}; did you mean {near}?"),
        (None, true) => format!("{lead}, nor any other; is this the right namespace (-n)?"),
        (None, false) => {
            let listed = listed(known.iter().copied(), 5);
            format!("{lead}; there are {listed}")
        }
    }
}

/// "a, b and 3 more".
pub(crate) fn listed<'n>(names: impl ExactSizeIterator<Item = &'n str>, most: usize) -> String {
    let more = names.len().saturating_sub(most);
    let shown: Vec<&str> = names.take(most).collect();
    let shown = shown.join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

/// "1 node", "7 nodes".
pub(crate) fn counted(count: i64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod samples;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_not_there_is_answered_with_the_one_that_was_meant() {
        let known = ["mobility-nightly", "energy-nightly"];
        assert_eq!(
            no_such("CrawlRun", "mobilty-nightly", "harvest", &known),
            "there is no CrawlRun mobilty-nightly in namespace harvest; did you mean mobility-nightly?"
        );
        assert_eq!(
            no_such("CrawlRun", "x", "harvest", &known),
            "there is no CrawlRun x in namespace harvest; there are mobility-nightly, energy-nightly"
        );
        assert_eq!(
            no_such("Catalog", "x", "harvest", &[]),
            "there is no Catalog x in namespace harvest, nor any other; is this the right namespace (-n)?"
        );
    }

    #[test]
    fn long_lists_are_cut() {
        assert_eq!(listed(["a", "b", "c"].into_iter(), 2), "a, b and 1 more");
        assert_eq!(listed(["a", "b"].into_iter(), 2), "a, b");
    }
}
