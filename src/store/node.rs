//! What the store remembers of a node between runs.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::record::ContentHash;

/// Between two failures that count as one outage lies at most so much time. More is a machine that was off or a clock that
/// jumped: nobody knows how the node fared meanwhile.
const LONGEST_UNSEEN: SignedDuration = SignedDuration::from_hours(31 * 24);

/// How a node fared in a run that came to it. A run that ended before it asked the node anything has no outcome for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeOutcome {
    /// How much of it could be read.
    pub reading: NodeReading,
    /// The hash of the `spec` that it was crawled with. Failures of a node that was described differently don't count.
    pub spec_hash: ContentHash,
    /// When.
    pub at: Timestamp,
}

/// How much of a node could be read in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeReading {
    /// Every section, completely.
    Complete,
    /// Something: a limit was reached, a page or a section failed. The node is there.
    Partial,
    /// Nothing, though others could be read: it could not be reached, or what it said could not be read.
    Nothing,
    /// Nothing, and it may be our own fault: nothing else could be read either, or what we may do is in the way. It has
    /// failed all the same, but that doesn't prove that it is gone.
    Inconclusive,
}

/// What the store remembers of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeState {
    /// The last run in which every section was complete.
    pub last_succeeded_at: Option<Timestamp>,
    /// The last run in which something of it could be read.
    pub last_read_at: Option<Timestamp>,
    /// The last run that came to it.
    pub last_crawled_at: Option<Timestamp>,
    /// Runs in a row in which nothing of it could be read: 0 if the last one got something. Above 0 its records are stale.
    pub failures_in_row: u32,
    /// The first of these runs.
    pub failing_since: Option<Timestamp>,
    /// The first of the latest runs in a row that each prove that it could not be read by its own fault.
    pub missing_since: Option<Timestamp>,
    /// The hash of the `spec` that it was last crawled with.
    pub spec_hash: Option<ContentHash>,
    /// Live records.
    pub records: u64,
}

impl NodeState {
    /// What is remembered after a run, and what was remembered before it. Pure.
    pub(super) fn after(&self, outcome: &NodeOutcome) -> Self {
        let before = self.clone();
        let at = Some(outcome.at);
        let remembered = Self {
            last_crawled_at: at,
            spec_hash: Some(outcome.spec_hash),
            failures_in_row: 0,
            failing_since: None,
            missing_since: None,
            ..before
        };
        match outcome.reading {
            NodeReading::Complete => Self { last_succeeded_at: at, last_read_at: at, ..remembered },
            NodeReading::Partial => Self { last_read_at: at, ..remembered },
            NodeReading::Nothing | NodeReading::Inconclusive => {
                let goes_on = self.failures_in_row > 0 && self.spec_hash == Some(outcome.spec_hash);
                let before = if goes_on { self } else { &Self::default() };
                let is_missing = outcome.reading == NodeReading::Nothing;
                let unseen = before.last_crawled_at.map(|last| outcome.at.duration_since(last)).unwrap_or_default();
                let was_seen = (SignedDuration::ZERO..=LONGEST_UNSEEN).contains(&unseen);
                Self {
                    failures_in_row: before.failures_in_row.saturating_add(1),
                    // A clock that was set back has left moments that are yet to come.
                    failing_since: before.failing_since.or(at).min(at),
                    missing_since: before.missing_since.filter(|_| was_seen).or(at).filter(|_| is_missing),
                    ..remembered
                }
            }
        }
    }
}
