//! `trawler queue lanes`: what each lane holds, and why it waits.

use serde::Serialize;

use super::{Answer, AskError, Look, cut, more};
use crate::local::grid::{Cell, Tone};
use crate::local::text::in_about;
use crate::local::waiting::{timed_wait, why_closed};
use crate::queue::{LaneStatus, Queue};
use crate::task::{NodeName, RunId};

/// The lanes of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct LaneList {
    /// The longest waiting first.
    pub lanes: Vec<LaneStatus>,
    /// There are more than were asked for.
    #[serde(skip)]
    pub has_more: bool,
}

/// The first `limit` lanes of a run.
pub async fn lanes(queue: &dyn Queue, run: &RunId, limit: usize) -> Result<LaneList, AskError> {
    let (lanes, has_more) = cut(queue.lanes(run, limit.saturating_add(1)).await?, limit);
    Ok(LaneList { lanes, has_more })
}

impl Answer for LaneList {
    fn text(&self, look: &Look) -> String {
        if self.lanes.is_empty() {
            return "No lane has tasks\n".to_owned();
        }
        let header = ["ORIGIN", "BUDGET", "NODES", "QUEUED", "LEASED", "CALLS/S", "OPENS", "WAITS FOR"];
        let rows: Vec<Vec<Cell>> = self.lanes.iter().map(|lane| row(lane, look)).collect();
        look.grid(&header, &rows) + more(self.has_more)
    }
}

fn row(lane: &LaneStatus, look: &Look) -> Vec<Cell> {
    let waiting = lane.waiting.as_ref();
    let opens = waiting.filter(|waiting| timed_wait(waiting, look.now).is_some());
    vec![
        lane.origin.as_str().into(),
        lane.budget.0.as_ref().into(),
        nodes(&lane.nodes, look.is_wide()).into(),
        lane.queued.into(),
        lane.leased.into(),
        Cell::from(rate(lane.calls_per_s)).at_right(),
        opens.map_or_else(|| "-".to_owned(), |waiting| in_about(waiting.until, look.now)).into(),
        match waiting {
            Some(waiting) => Cell::from(why_closed(&waiting.gate, None)).toned(Tone::Warn),
            None if lane.queued > 0 => "a crawler".into(),
            None => "-".into(),
        },
    ]
}

/// "2", "0.25", "any": calls in a second.
pub(in crate::local) fn rate(calls_per_s: Option<f64>) -> String {
    match calls_per_s {
        None => "any".to_owned(),
        Some(rate) if rate >= 10.0 => format!("{rate:.0}"),
        Some(rate) => {
            let text = format!("{rate:.3}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    }
}

/// The first node and how many more, or all.
fn nodes(nodes: &[NodeName], is_wide: bool) -> String {
    match nodes {
        [] => "-".to_owned(),
        [only] => only.to_string(),
        [first, rest @ ..] if !is_wide => format!("{first} +{}", rest.len()),
        all => all.iter().map(NodeName::as_str).collect::<Vec<_>>().join(","),
    }
}
