//! How deletions are decided: pure, and the same for every adapter.
//!
//! An adapter counts a closing traversal's records into a [`Census`], asks [`judge`], and deletes the live records whose
//! last sighting lies below [`Verdict::sweep_below`].

use serde::{Deserialize, Serialize};

use super::tally::Tally;
use super::{CloseTraversal, DeletionGuard, Mode, ReadAs, ReadMode, SectionReport};
use crate::finding::{InFull, Limited, Reading};
use crate::record::ContentHash;
use crate::task::SectionKey;

/// What a record's history says, in traversal numbers of its section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Marks {
    pub(super) hash: ContentHash,
    pub(super) first_seen: u64,
    pub(super) last_seen: u64,
    pub(super) changed_in: u64,
    /// A tombstone: `changed_in` is the traversal that deleted it.
    pub(super) deleted: bool,
}

/// What seeing a record means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sighting {
    Added,
    Updated,
    Unchanged,
    /// This traversal has seen it before. The first sighting stands: were the last one to win, two pages with different
    /// versions of one record would make every crawl report a change.
    Repeated,
}

/// Compares a record with what is known of it.
pub(super) fn weigh(known: Option<&Marks>, number: u64, hash: ContentHash) -> Sighting {
    match known {
        None => Sighting::Added,
        Some(marks) if marks.deleted => Sighting::Added,
        Some(marks) if marks.last_seen >= number => Sighting::Repeated,
        Some(marks) if marks.hash == hash => Sighting::Unchanged,
        Some(_) => Sighting::Updated,
    }
}

/// A section's records, counted when its traversal closes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Census {
    pub(super) added: u64,
    pub(super) updated: u64,
    pub(super) unchanged: u64,
    /// Deleted by the source's word in this traversal.
    pub(super) deleted: u64,
    /// Live, not seen by this traversal, but by the one whose sweep is held or by a later one.
    pub(super) unseen: u64,
    /// Live, and not seen by the traversal whose sweep is held either.
    pub(super) held: u64,
}

impl Census {
    /// Counts one record. `held_by` is the traversal whose sweep is held.
    pub(super) fn count(&mut self, marks: &Marks, number: u64, held_by: Option<u64>) {
        if marks.deleted {
            self.deleted += u64::from(marks.changed_in == number && marks.first_seen < number);
        } else if marks.last_seen < number {
            let is_held = held_by.is_some_and(|held_by| marks.last_seen < held_by);
            *(if is_held { &mut self.held } else { &mut self.unseen }) += 1;
        } else if marks.first_seen == number {
            self.added += 1;
        } else if marks.changed_in == number {
            self.updated += 1;
        } else {
            self.unchanged += 1;
        }
    }

    /// Records that are there.
    pub(super) fn live(&self) -> u64 {
        self.seen() + self.unseen + self.held
    }

    fn seen(&self) -> u64 {
        self.added + self.updated + self.unchanged
    }

    /// Live records when the traversal began.
    fn before(&self) -> u64 {
        self.updated + self.unchanged + self.deleted + self.unseen + self.held
    }
}

/// A traversal that is about to close.
#[derive(Debug)]
pub(super) struct Closing<'a> {
    pub(super) section: &'a SectionKey,
    pub(super) number: u64,
    /// What it went over, whatever the run wanted.
    pub(super) mode: Mode,
    pub(super) tally: &'a Tally,
    /// Tasks that are not settled.
    pub(super) pending: u64,
    pub(super) census: &'a Census,
    /// The traversal whose sweep is held.
    pub(super) held_by: Option<u64>,
    /// The section listed nested ones before that this traversal did not list.
    pub(super) lost_nested: bool,
    pub(super) close: &'a CloseTraversal,
}

/// What happens to a section when its traversal closes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Verdict {
    /// Why the traversal is partial.
    pub(super) partial: Option<String>,
    /// Live records last seen below this go; 0: none.
    pub(super) sweep_below: u64,
    /// So many go.
    pub(super) swept: u64,
    /// What would go and waits for a person: the number to approve, and so many records.
    pub(super) held: Option<(u64, u64)>,
    /// So many were not seen and stay.
    pub(super) kept_unseen: u64,
}

/// Judges a traversal: complete or partial, and what it sweeps.
pub(super) fn judge(closing: &Closing<'_>) -> Verdict {
    let partial = partial_because(closing);
    let Census { unseen, held, .. } = *closing.census;
    if closing.mode == Mode::Incremental {
        return Verdict { partial, ..Verdict::default() };
    }
    if partial.is_some() {
        return Verdict { partial, kept_unseen: unseen + held, ..Verdict::default() };
    }
    let is_empty = closing.census.seen() == 0 && closing.tally.listed == 0 && !closing.tally.not_modified;
    let guarded = Guarded {
        records: closing.census.before(),
        unseen,
        held,
        is_empty_answer: is_empty && (unseen + held > 0 || closing.lost_nested),
    };
    guarded.decide(closing.section, closing.number, closing.held_by, closing.close)
}

/// Judges a section that nobody lists or wants any more: none of its `records` is seen, and `number` stays.
pub(super) fn judge_gone(
    section: &SectionKey,
    number: u64,
    records: u64,
    held: Option<(u64, u64)>,
    close: &CloseTraversal,
) -> Verdict {
    // An approval of a sweep that held only some of the records does not cover all of them.
    let approved = held == Some((number, records)) && is_approved(section, number, close);
    if approved || !trips(close.guard, records, records) {
        return Verdict { sweep_below: u64::MAX, swept: records, ..Verdict::default() };
    }
    Verdict { held: Some((number, records)), kept_unseen: records, ..Verdict::default() }
}

struct Guarded {
    records: u64,
    unseen: u64,
    held: u64,
    is_empty_answer: bool,
}

impl Guarded {
    /// An approval names the traversal whose sweep was held, so it covers what that one did not see, and not what was
    /// lost since. While nothing more is missing, the number stays: whoever approves what an earlier run has told must
    /// not come too late because another run went by.
    fn decide(&self, section: &SectionKey, number: u64, held_by: Option<u64>, close: &CloseTraversal) -> Verdict {
        let &Self { records, unseen, held, is_empty_answer } = self;
        match held_by.filter(|&held_by| is_approved(section, held_by, close)) {
            Some(_)
                if unseen == 0 || !(is_empty_answer || trips(close.guard, unseen, records.saturating_sub(held))) =>
            {
                Verdict { sweep_below: number, swept: unseen + held, ..Verdict::default() }
            }
            Some(held_by) => Verdict {
                sweep_below: held_by,
                swept: held,
                held: Some((number, unseen)),
                kept_unseen: unseen,
                ..Verdict::default()
            },
            None if is_empty_answer || trips(close.guard, unseen + held, records) => {
                let number = held_by.filter(|_| unseen == 0).unwrap_or(number);
                Verdict { held: Some((number, unseen + held)), kept_unseen: unseen + held, ..Verdict::default() }
            }
            None => Verdict { sweep_below: number, swept: unseen + held, ..Verdict::default() },
        }
    }
}

fn is_approved(section: &SectionKey, number: u64, close: &CloseTraversal) -> bool {
    close.approved.iter().any(|(approved, of)| approved == section && *of == number)
}

/// Whether losing `lost` of `records` needs a person.
fn trips(guard: DeletionGuard, lost: u64, records: u64) -> bool {
    records >= guard.min_records && u128::from(lost) * 100 > u128::from(records) * u128::from(guard.max_percent)
}

fn partial_because(closing: &Closing<'_>) -> Option<String> {
    let tally = closing.tally;
    if let Some(why) = &closing.close.cut_short {
        return Some(why.clone());
    }
    if tally.failed > 0 {
        let first = tally.failures.first().map_or("no reason was given", |task| task.why.as_str());
        return Some(match tally.failed {
            1 => format!("a request failed: {first}"),
            n => format!("{n} requests failed, the first because: {first}"),
        });
    }
    let given = tally.seen + tally.unreadable;
    let limited = tally.limited.or(tally.repeated_page.then_some(Limited::RepeatedPage));
    // A link that leads back after all records were given has cost nothing.
    let is_excused = limited == Some(Limited::RepeatedPage) && tally.total.is_some_and(|total| given >= total);
    if let Some(limited) = limited.filter(|_| !is_excused) {
        return Some(limited_because(limited).to_owned());
    }
    if tally.dropped > 0 || closing.pending > 0 {
        return Some(format!("{} requests were not made", tally.dropped + closing.pending));
    }
    if closing.mode == Mode::Full && tally.unreadable > 0 && closing.census.unseen > 0 {
        return Some(format!(
            "{} entries could not be read and may be among the {} records that were not seen",
            tally.unreadable, closing.census.unseen
        ));
    }
    // Nothing may be missed that is known; but what slipped by must not be left out by the next question for changes.
    if let Some(shrank) = tally.shrank {
        return Some(format!(
            "the server's total fell by {shrank} while its pages were read, so that records may have slipped by"
        ));
    }
    match tally.total {
        Some(total) if closing.mode == Mode::Full && !tally.not_modified && given < total => {
            Some(format!("the pages gave {given} of the {total} records that the server says it has"))
        }
        _ => None,
    }
}

fn limited_because(limited: Limited) -> &'static str {
    match limited {
        Limited::MaxPages => "spec.limits.maxPages was reached",
        Limited::MaxRecords => "spec.limits.maxRecords was reached",
        Limited::MaxBytes => "spec.limits.maxBytes was reached",
        Limited::MaxDepth => "spec.dsp.nested.maxDepth was reached",
        Limited::RepeatedPage => "a page link led to a page already read",
        Limited::FewerThanTotal => "the pages gave fewer records than the server says it has",
        Limited::ForeignPageLink => "a page link led away from the node's origin and was not followed",
    }
}

/// How a section was read, for the report.
fn read_as(run: Mode, tally: &Tally) -> ReadAs {
    let full = ReadAs { read: Some(ReadMode::Full), ..ReadAs::default() };
    let full_because = |why: &str| ReadAs { in_full_because: Some(why.to_owned()), ..full.clone() };
    match tally.reading {
        None => ReadAs { read: tally.not_modified.then_some(ReadMode::NotModified), ..ReadAs::default() },
        Some(Reading::Since(since)) => {
            ReadAs { read: Some(ReadMode::Incremental), since: Some(since), ..ReadAs::default() }
        }
        Some(_) if run == Mode::Full => full,
        Some(Reading::Full) => full_because(NOTHING_TO_START_FROM),
        Some(Reading::FullBecause(why)) => full_because(in_full_because(why)),
    }
}

/// After a complete traversal of the same endpoint with the same settings there is something.
const NOTHING_TO_START_FROM: &str = "no earlier run left a date to start from";

fn in_full_because(why: InFull) -> &'static str {
    match why {
        InFull::NoWayToAsk => "its protocol has no way to ask for changes",
        InFull::OneDocument => "it is one document",
        InFull::Refused => "the server refused to be asked for changes",
        InFull::Ignored => "the server was asked for changes and answered with everything",
        InFull::Forgotten => "the server was asked for changes and left out even one that it had named before",
        InFull::ClockPutBack => "the server's clock was put back",
    }
}

/// Puts a report together.
pub(super) fn report(
    section: &SectionKey,
    number: u64,
    run: Mode,
    tally: &Tally,
    census: &Census,
    verdict: Verdict,
) -> SectionReport {
    let read_as = read_as(run, tally);
    let tally = tally.clone();
    SectionReport {
        section: section.clone(),
        number,
        added: census.added,
        updated: census.updated,
        unchanged: census.unchanged,
        deleted: census.deleted + verdict.swept,
        kept_unseen: verdict.kept_unseen,
        partial: verdict.partial,
        held: verdict.held.map(|(_, records)| records),
        held_as: verdict.held.map(|(number, _)| number),
        failures: tally.failures,
        failed_tasks: tally.failed,
        requests: tally.requests,
        bytes: tally.bytes,
        protocol: tally.protocol,
        read_as,
        forgiven: tally.forgiven,
        rejected: tally.rejected,
        rejected_count: tally.rejected_count,
        total: tally.total,
    }
}

#[cfg(test)]
mod tests {
    use super::Sighting::{Added, Repeated, Unchanged, Updated};
    use super::*;

    #[test]
    fn the_guard_trips_above_its_percentage_and_from_its_minimum_up() {
        let cases = [
            // max_percent, min_records, lost, records, trips
            (30, 10, 3, 10, false),
            (30, 10, 4, 10, true),
            (30, 10, 9, 9, false),
            (0, 0, 1, 1_000_000, true),
            (0, 0, 0, 0, false),
            (100, 0, 10, 10, false),
            (30, 10, u64::MAX, u64::MAX, true),
        ];
        for (max_percent, min_records, lost, records, expected) in cases {
            let guard = DeletionGuard { max_percent, min_records };
            assert_eq!(trips(guard, lost, records), expected, "{lost} of {records} under {guard:?}");
        }
    }

    #[test]
    fn a_record_is_weighed_by_its_hash_and_its_last_sighting() {
        let (one, two) = (ContentHash([1; 16]), ContentHash([2; 16]));
        let marks = Marks { hash: one, first_seen: 1, last_seen: 4, changed_in: 1, deleted: false };
        let weighed = [
            weigh(None, 5, one),
            weigh(Some(&Marks { deleted: true, ..marks }), 5, one),
            weigh(Some(&marks), 5, one),
            weigh(Some(&marks), 5, two),
            weigh(Some(&marks), 4, two),
        ];
        assert_eq!(weighed, [Added, Added, Unchanged, Updated, Repeated]);
    }
}
