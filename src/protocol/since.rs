//! From when on a source is asked for changes.

use jiff::{SignedDuration, Timestamp};

use super::Checkpoint;

/// How far before its checkpoint an incremental traversal starts: more than the clocks of one portal's machines differ, and
/// than a search index lags behind. It costs only what changed in that time.
const OVERLAP: SignedDuration = SignedDuration::from_hours(24);

/// The moment that a checkpoint is.
pub(super) fn moment_of(checkpoint: &Checkpoint) -> Option<Timestamp> {
    checkpoint.0.parse().ok()
}

/// From when on to ask for changes after a checkpoint: in whole seconds, as it is asked.
pub(super) fn start_of(checkpoint: &Checkpoint) -> Option<Timestamp> {
    let start = moment_of(checkpoint)?.checked_sub(OVERLAP).ok()?;
    Timestamp::from_second(start.as_second()).ok()
}
