//! `trawler queue ls`: the runs of an instance.

use serde::Serialize;

use super::{Answer, AskError, Look};
use crate::local::grid::{Cell, Tone};
use crate::queue::{Ledger, Queue, RunStatus};

/// The runs of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct RunList {
    /// In the order of their ids.
    pub runs: Vec<RunStatus>,
}

/// The runs of the instance.
pub async fn runs(queue: &dyn Queue) -> Result<RunList, AskError> {
    Ok(RunList { runs: queue.runs().await? })
}

impl Answer for RunList {
    fn text(&self, look: &Look) -> String {
        if self.runs.is_empty() {
            return "No runs\n".to_owned();
        }
        let mut header = vec!["RUN", "STATE", "HOLDERS", "QUEUED", "DELAYED", "LEASED", "DONE", "DEAD"];
        if look.is_wide() {
            header.extend(["DROPPED", "DISCOVERED", "WEIGHT"]);
        }
        let rows: Vec<Vec<Cell>> = self.runs.iter().map(|run| row(run, look.is_wide())).collect();
        look.grid(&header, &rows)
    }
}

fn row(run: &RunStatus, is_wide: bool) -> Vec<Cell> {
    let Ledger { queued, delayed, leased, done, dead, .. } = run.ledger;
    let mut row = vec![
        run.run.as_str().into(),
        state(run),
        Cell::from(format!("{}/{}", run.holders, run.max_holders)).at_right(),
        queued.into(),
        delayed.into(),
        leased.into(),
        done.into(),
        dead_cell(dead),
    ];
    if is_wide {
        row.extend([run.ledger.dropped.into(), run.ledger.discovered.into(), run.weight.into()]);
    }
    row
}

/// Dead tasks are worth a look.
fn dead_cell(dead: u64) -> Cell {
    Cell::from(dead).toned(if dead > 0 { Tone::Bad } else { Tone::Plain })
}

/// What the run is doing, in a word or two.
pub(in crate::local) fn state(run: &RunStatus) -> Cell {
    let (state, tone) = if run.frozen {
        ("frozen", Tone::Warn)
    } else if run.ledger.is_drained() {
        ("drained", Tone::Good)
    } else if run.holders == 0 {
        ("no crawler", Tone::Warn)
    } else {
        ("working", Tone::Plain)
    };
    Cell::from(state).toned(tone)
}
