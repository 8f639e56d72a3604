//! What the commits of a traversal add up to, besides its records.

use std::collections::BTreeMap;
use std::mem::take;

use serde::{Deserialize, Serialize};

use super::{FailedTask, Mode, TaskEffects, TaskResult};
use crate::finding::{Checkpoint, Forgiven, Limited, Reading, Rejected, Validators};

/// How many failed tasks are kept.
const MAX_FAILURES: usize = 20;
/// How many rejected records are kept.
const MAX_REJECTED: usize = 100;

/// Kept with an open traversal. Bounded: it does not grow with the number of records or tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Tally {
    /// Tasks settled, except those that only led on to others.
    pub(super) listing: u64,
    pub(super) failed: u64,
    pub(super) failures: Vec<FailedTask>,
    /// Tasks given up because of a limit.
    pub(super) dropped: u64,
    pub(super) limited: Option<Limited>,
    /// A page link led back to a page that the run knows.
    pub(super) repeated_page: bool,
    /// The server's number of records, as it last gave it: a total may shrink while pages are read.
    pub(super) total: Option<u64>,
    /// The total was larger before, by so much, and nobody has looked for what may have slipped by.
    pub(super) shrank: Option<u64>,
    pub(super) forgiven: BTreeMap<Forgiven, u64>,
    pub(super) rejected: Vec<Rejected>,
    pub(super) rejected_count: u64,
    /// Distinct records seen.
    pub(super) seen: u64,
    /// Rejected records that are not among those seen: the server has them all the same.
    pub(super) unreadable: u64,
    /// Nested sections listed.
    pub(super) listed: u64,
    pub(super) requests: u64,
    pub(super) bytes: u64,
    pub(super) protocol: String,
    /// What the answers together speak for.
    pub(super) reading: Option<Reading>,
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) validators: Option<Validators>,
    /// A task found its document unchanged.
    pub(super) not_modified: bool,
    /// A record was added, updated or deleted.
    pub(super) wrote: bool,
}

impl Tally {
    /// Whether this was a traversal of the whole section, or of what changed in it. Answers that say nothing about it are
    /// what the run wanted.
    pub(super) fn mode(&self, run: Mode) -> Mode {
        match self.reading {
            Some(Reading::Since(_)) => Mode::Incremental,
            Some(Reading::Full | Reading::FullBecause(_)) => Mode::Full,
            None => run,
        }
    }

    /// Whether a list of several pages was read whole: what moved to a page that had been read already was missed. A total
    /// does not tell, if as many came as went.
    pub(super) fn may_have_moved(&self) -> bool {
        let is_whole = self.failed == 0 && self.dropped == 0 && self.limited.is_none() && !self.repeated_page;
        let is_short = self.total.is_some_and(|total| self.seen < total) || self.shrank.is_some();
        self.listing > 1 && self.unreadable == 0 && is_whole && !is_short
    }

    /// Takes over what a task found, except its records. `is_listing`: it did not only lead on to other tasks.
    pub(super) fn absorb(&mut self, effects: &mut TaskEffects, is_listing: bool) {
        self.listing += u64::from(is_listing);
        self.reading = match (self.reading, effects.reading) {
            (Some(before), Some(now)) => Some(before.and(now)),
            (before, now) => now.or(before),
        };
        match &effects.result {
            TaskResult::Done => {}
            TaskResult::NotModified => self.not_modified = true,
            TaskResult::Dropped => self.dropped += 1,
            TaskResult::Failed(task) => {
                self.failed += 1;
                if self.failures.len() < MAX_FAILURES {
                    self.failures.push(task.clone());
                }
            }
        }
        self.limited = effects.limited.or(self.limited);
        let shrank = self.total.zip(effects.total).filter(|(before, now)| now < before && !effects.heeds_total);
        self.shrank = shrank.map(|(before, now)| before - now).or(self.shrank);
        self.total = effects.total.or(self.total);
        for (&fault, &count) in &effects.forgiven {
            *self.forgiven.entry(fault).or_default() += count;
        }
        self.rejected_count += effects.rejected.len() as u64;
        let room = MAX_REJECTED.saturating_sub(self.rejected.len());
        self.rejected.extend(effects.rejected.drain(..).take(room));
        self.listed += effects.listed_sections.len() as u64;
        self.requests += effects.requests;
        self.bytes += effects.bytes;
        if !effects.protocol.is_empty() {
            self.protocol = take(&mut effects.protocol);
        }
        self.checkpoint = effects.checkpoint.take().or_else(|| self.checkpoint.take());
        self.validators = effects.validators.take().or_else(|| self.validators.take());
    }
}
