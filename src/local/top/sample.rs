//! What is read of a queue for one frame.

use jiff::Timestamp;

use crate::local::queue::{AskError, Wait, waits_of};
use crate::queue::{HolderStatus, LaneStatus, Queue, QueueError, RunStatus};
use crate::task::RunId;

/// More lanes than this are not summed up, and of those that are only the first are shown.
const MAX_LANES: usize = 1_000;

/// What a queue was at a moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The moment.
    pub at: Timestamp,
    /// The runs, in the order of their ids.
    pub runs: Vec<RunStatus>,
    /// The selected run, if there is any.
    pub details: Option<Details>,
}

/// What is shown of the selected run.
#[derive(Debug, Clone, PartialEq)]
pub struct Details {
    /// The run.
    pub run: RunId,
    /// Its lanes, the longest waiting first.
    pub lanes: Vec<LaneStatus>,
    /// What they wait for.
    pub waits: Vec<Wait>,
    /// Who has joined.
    pub holders: Vec<HolderStatus>,
}

/// Reads a queue. The selected run is the one that is named, or the first.
pub async fn sample(queue: &dyn Queue, selected: Option<&RunId>, now: Timestamp) -> Result<Sample, AskError> {
    let runs = queue.runs().await?;
    let is_selected = |status: &&RunStatus| Some(&status.run) == selected;
    let run = runs.iter().find(is_selected).or_else(|| runs.first()).map(|status| status.run.clone());
    let details = match run {
        None => None,
        Some(run) => match details(queue, run, now).await {
            // It was closed meanwhile.
            Err(QueueError::NoSuchRun { .. }) => None,
            details => Some(details?),
        },
    };
    Ok(Sample { at: now, runs, details })
}

async fn details(queue: &dyn Queue, run: RunId, now: Timestamp) -> Result<Details, QueueError> {
    let lanes = queue.lanes(&run, MAX_LANES).await?;
    let holders = queue.holders(&run).await?;
    Ok(Details { run, waits: waits_of(&lanes, now), lanes, holders })
}
