//! Following a run to its end: a line for each thing that changed, and how it ended.

use jiff::Timestamp;

use super::{RunRow, State};
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
pub fn progress_line(run: &CrawlRun, now: Timestamp) -> String {
    let row = RunRow::of(run);
    let state = row.state_cell().text;
    let nodes = format!("{}/{} nodes, {} records", row.nodes_complete, row.nodes_total, row.records_seen);
    match (row.state, &row.waiting) {
        (State::Unseen, _) => format!("{}: no operator has seen it yet", row.name),
        (State::Succeeded | State::Failed, _) => format!("{}: {state}: {}", row.name, row.message),
        (_, Some(_)) => format!("{}: {state}, {nodes}; waits: {}", row.name, row.waiting_text(now)),
        (_, None) => format!("{}: {state}, {nodes}, {} crawlers", row.name, row.tokens_held),
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{now, run};
    use super::*;

    #[test]
    fn a_line_says_how_a_run_stands() {
        let line = |state| progress_line(&run("r", state), now());
        assert_eq!(line("unseen"), "r: no operator has seen it yet");
        assert_eq!(
            line("running"),
            "r: Running, 2/7 nodes, 420 records; waits: budget gentle has no ApiCalls left (in 40 s)"
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
