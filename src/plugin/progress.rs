//! Following a run to its end: a line for each thing that changed, and how it ended.

use super::{RunRow, State, counted};
use crate::api::CrawlRun;
use crate::api::conditions::succeeded;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// All was read.
    Complete,
    /// Not all nodes could be read, within what the run allows.
    Partial,
    /// Badly.
    Failed,
}

/// How a run ended, if it did.
pub fn end_of(run: &CrawlRun) -> Option<End> {
    let row = RunRow::of(run);
    match row.state {
        State::Succeeded if row.reason == succeeded::COMPLETE => Some(End::Complete),
        State::Succeeded => Some(End::Partial),
        State::Failed => Some(End::Failed),
        _ => None,
    }
}

/// How a run stands, on one line that says the same as long as nothing changes.
pub fn progress_line(run: &CrawlRun) -> String {
    let row = RunRow::of(run);
    let state = row.state_cell().text;
    let nodes = format!("{}/{} nodes, {} records", row.nodes_complete, row.nodes_total, row.records_seen);
    match (row.state, &row.waiting) {
        (State::Unseen, _) => format!("{}: no operator has seen it yet", row.name),
        (State::Succeeded | State::Failed, _) => format!("{}: {state}: {}", row.name, row.message),
        (_, Some(waiting)) => {
            // A moment, and not how long it takes until then: that would be another line with every look.
            let until = row.waiting_until.map_or_else(String::new, |until| format!(" until {until}"));
            format!("{}: {state}, {nodes}; waits{until}: {waiting}", row.name)
        }
        (_, None) => format!("{}: {state}, {nodes}, {}", row.name, counted(row.tokens_held, "crawler")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::run;
    use super::*;

    #[test]
    fn a_line_says_how_a_run_stands() {
        let line = |state| progress_line(&run("r", state));
        assert_eq!(line("unseen"), "r: no operator has seen it yet");
        assert_eq!(
            line("running"),
            "r: Running, 2/7 nodes, 420 records; waits until 2026-11-30T02:00:40Z: budget gentle has no ApiCalls left"
        );
        assert_eq!(line("failed"), "r: Failed (TooManyFailedNodes): 1 nodes complete, 1 partial, 2 failed");
    }

    #[test]
    fn the_end_of_a_run_is_told_from_its_conditions() {
        let end = |state| end_of(&run("r", state));
        assert_eq!([end("unseen"), end("running"), end("frozen")], [None; 3]);
        assert_eq!((end("complete"), end("failed")), (Some(End::Complete), Some(End::Failed)));
    }
}
