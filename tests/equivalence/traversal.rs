//! What a traversal of one section must come to, from what its server said and nothing else.
//!
//! # Rules
//! - **Taken in.** An answer that was asked for again right afterwards was not taken in: the process was killed before.
//!   All other whole, good answers were, in their order; what was taken in is never asked for again.
//! - **First sighting.** Of a record that a traversal is given twice, the first version counts.
//! - **To the end.** Who is told that more follows asks for it; only a failure, a limit, or a page of which every record
//!   had come already ends a traversal before its end.
//! - **Complete** is a traversal that got to its end, was given as many records as the server says it has, and has left
//!   nothing unread that could be one of the records it did not see. Where a total
//!   shrank while the list was read, some may have slipped by, be it a list of changes, unless the reader looked for it,
//!   as it does for CKAN if no more than a page is gone.
//! - **Second look.** Where several pages, read whole, lack what is known, and not only what waits for a person already,
//!   the list is read once more from its beginning: it may have moved. Both readings count together.
//! - **Changes.** In an incremental run a list of what changed, or nothing at all, deletes nothing, and need not be as long as a total says. What it leaves out is known
//!   as it is: the question was put right. A CKAN portal that lists no change at all is read in full: what it was asked from
//!   had been listed by it.
//! - **Sweep.** A complete traversal deletes what it did not see, unless that is more than the guard lets pass, or all
//!   there is: then all stays, and waits for a person. An approval covers what was not seen by the traversal that it names
//!   and has not been seen since. That traversal stays the one to name while nothing more is missing.

use std::collections::{BTreeMap, BTreeSet};

use trawler::store::{ChangeKind, DeletionGuard};

use crate::history::{Limit, Speaks};
use crate::world::{Answer, Entry, Item};

/// A section as the store must have it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) records: BTreeMap<String, Kept>,
    pub(crate) held: Option<Held>,
    /// The number of its last traversal; some held deletions have a number of their own.
    pub(crate) number: u64,
    /// The number of its last complete one.
    pub(crate) last_complete: u64,
    /// Ids that were deleted: a list of changes does not bring back what is there again and has not changed.
    pub(crate) deleted: BTreeSet<String>,
}

/// A record as the store must have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) version: u64,
    /// The traversal that saw it last.
    pub(crate) seen_in: u64,
}

/// A sweep that waits for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    /// The traversal that would not make it: the first one that missed all of these.
    pub(crate) number: u64,
    /// Records that would go.
    pub(crate) records: u64,
}

/// What a section's report must say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) added: u64,
    pub(crate) updated: u64,
    pub(crate) unchanged: u64,
    pub(crate) deleted: u64,
    pub(crate) kept_unseen: u64,
    pub(crate) partial: bool,
    pub(crate) held: Option<Held>,
}

/// What the change feed must say about a section.
pub(crate) type Changes = BTreeSet<(ChangeKind, String)>;

/// What may become of a section.
#[derive(Debug, Clone)]
pub(crate) struct Ending {
    pub(crate) known: Known,
    pub(crate) outcome: Outcome,
    pub(crate) changes: Changes,
    /// Nested sections listed; `None` if it was not traversed.
    pub(crate) listed: Option<BTreeSet<usize>>,
}

/// What a traversal is judged by, besides its answers.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, and none excludes another")]
pub(crate) struct Terms {
    pub(crate) speaks: Speaks,
    pub(crate) page_size: usize,
    pub(crate) limit: Option<Limit>,
    pub(crate) guard: DeletionGuard,
    /// The held sweep is approved.
    pub(crate) approved: bool,
    /// The run asks for changes.
    pub(crate) incremental: bool,
    pub(crate) was_killed: bool,
    /// Sections listed before, that this traversal may miss.
    pub(crate) had_nested: bool,
}

/// Why a traversal ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It found what it found.
    Own,
    /// The run was abandoned.
    CutShort,
}

/// The answers that were taken in, and whether the last request failed for good.
pub(crate) fn taken<'l>(requests: &[&'l Entry]) -> (Vec<&'l Answer>, bool) {
    let asked_again = |at: usize| requests.get(at + 1).is_some_and(|next| next.address == requests[at].address);
    let answers = requests.iter().enumerate().filter(|(at, _)| !asked_again(*at));
    let answers = answers.filter_map(|(_, entry)| entry.answer.as_ref()).collect();
    (answers, requests.last().is_some_and(|last| last.answer.is_none()))
}

impl Known {
    /// What these answers make of the section.
    pub(crate) fn traversed(
        &self,
        answers: &[&Answer],
        gave_up: bool,
        end: End,
        terms: &Terms,
    ) -> Result<Ending, String> {
        let number = self.number + 1;
        let mut known = Self { number, ..self.clone() };
        let mut outcome = Outcome::default();
        let mut changes = Changes::new();
        let mut cut = false;
        let mut given = 0;
        let mut total = None;
        let mut nameless = 0;
        let mut slipped = false;
        let mut listed = BTreeSet::new();
        // Where the second look begins.
        let mut second: Option<usize> = None;
        for (at, answer) in answers.iter().enumerate() {
            if answer.not_modified {
                known.must_be(answer)?;
            }
            known.must_have(&answer.left_out)?;
            let before = given;
            for item in &answer.items {
                given += known.sight(item, &mut outcome, &mut changes);
            }
            let shrank = shrinkage(total, answer);
            slipped |= shrank > 0 && terms.speaks != Speaks::Ckan;
            cut |= terms.speaks == Speaks::Ckan && shrank > terms.page_size as u64;
            total = answer.total.or(total);
            nameless += if answer.not_modified { 0 } else { answer.nameless };
            listed.extend(answer.listed.iter().copied());
            let goes_on = at + 1 < answers.len() || gave_up;
            // A kill can come between the page and the decision to follow it no further: then it is followed.
            let is_repeat = given == before && !(goes_on && terms.was_killed) && second.is_none();
            let look = second.unwrap_or(0);
            let given_before = if second.is_some() { 0 } else { before };
            let must_stop = terms.must_stop(&answers[look..], at - look, given_before, is_repeat);
            let looks_again = second.is_none() && !cut && !slipped && known.lacks(&answers[..=at], given, total, terms);
            match (terms.has_more(answer, shrank), must_stop) {
                (true, true) => cut = true,
                (true, false) if !goes_on && end == End::Own => {
                    return Err(format!("it stopped although more followed {answer:?}"));
                }
                (false, _) if looks_again => {
                    if !goes_on && end == End::Own {
                        return Err(format!("it did not look a second time after {answer:?}"));
                    }
                    second = Some(at + 1);
                }
                (false, _) if goes_on && answer.offset.is_some() => return Err(format!("it went on after {answer:?}")),
                _ => {}
            }
            if must_stop && goes_on && second != Some(at + 1) {
                return Err(format!("it went on beyond its limits after {answer:?}"));
            }
        }
        let is_empty = given == 0 && listed.is_empty() && answers.iter().all(|answer| !answer.not_modified);
        let held_by = self.held.map_or(0, |held| held.number);
        let unseen: BTreeMap<String, bool> = known
            .records
            .iter()
            .filter(|(_, kept)| kept.seen_in < number)
            .map(|(id, kept)| (id.clone(), kept.seen_in < held_by))
            .collect();
        let fresh = unseen.values().filter(|was_held| !**was_held).count() as u64;
        let is_short = total.is_some_and(|total| given + nameless < total);
        let may_be_there = nameless > 0 && fresh > 0;
        let is_of_changes = terms.incremental && !answers.iter().any(|answer| answer.is_of_all());
        let is_lacking = !is_of_changes && (is_short || may_be_there);
        outcome.partial = cut || gave_up || end == End::CutShort || slipped || is_lacking;
        if !outcome.partial {
            known.last_complete = number;
        }
        if is_of_changes {
            return Ok(Ending { known, outcome, changes, listed: Some(listed) });
        }
        outcome.kept_unseen = unseen.len() as u64;
        let mut ending = Ending { known, outcome, changes, listed: Some(listed) };
        if !ending.outcome.partial {
            let misses_all = is_empty && (!unseen.is_empty() || terms.had_nested);
            ending.sweep(&unseen, self.records.len() as u64, misses_all, terms);
        }
        Ok(ending)
    }

    /// What becomes of a section that nobody lists or wants any more.
    pub(crate) fn gone(&self, guard: DeletionGuard, is_approved: bool) -> Ending {
        let records = self.records.len() as u64;
        let is_approved = is_approved && self.held.is_some_and(|held| held.records == records);
        let mut known = self.clone();
        let mut outcome = Outcome::default();
        let mut changes = Changes::new();
        if trips(guard, records, records) && !is_approved {
            outcome.kept_unseen = records;
            known.held = Some(match self.held {
                Some(held) if held.records == records => held,
                // An approval of what was held under this number must not cover more.
                Some(held) if held.number == self.number => {
                    known.number += 1;
                    Held { number: known.number, records }
                }
                _ => Held { number: self.number, records },
            });
            outcome.held = known.held;
        } else {
            outcome.deleted = records;
            changes.extend(known.records.keys().map(|id| (ChangeKind::Deleted, id.clone())));
            known.deleted.extend(std::mem::take(&mut known.records).into_keys());
            known.held = None;
        }
        Ending { known, outcome, changes, listed: None }
    }

    /// Nothing becomes of it.
    pub(crate) fn untouched(&self) -> Ending {
        Ending { known: self.clone(), outcome: Outcome::default(), changes: Changes::new(), listed: None }
    }

    /// It was opened, and nobody was asked.
    pub(crate) fn opened(&self) -> Ending {
        Ending { known: Self { number: self.number + 1, ..self.clone() }, ..self.untouched() }
    }

    /// Takes in a sighting; 1 if it is the first of this traversal.
    fn sight(&mut self, item: &Item, outcome: &mut Outcome, changes: &mut Changes) -> u64 {
        let (id, version) = (item.id.clone(), item.version);
        let kept = Kept { version, seen_in: self.number };
        match self.records.get_mut(&id) {
            Some(known) if known.seen_in == kept.seen_in => return 0,
            Some(known) if known.version == version => outcome.unchanged += 1,
            Some(known) => {
                outcome.updated += 1;
                changes.insert((ChangeKind::Updated, id));
                *known = kept;
                return 1;
            }
            None => {
                outcome.added += 1;
                changes.insert((ChangeKind::Added, id.clone()));
            }
        }
        self.records.insert(id, kept);
        1
    }

    /// A document that has not changed must be the one that the records are from.
    fn must_be(&self, document: &Answer) -> Result<(), String> {
        let ours: Vec<_> = self.records.iter().map(|(id, kept)| (id.as_str(), kept.version)).collect();
        let mut theirs: Vec<_> = document.items.iter().map(|item| (item.id.as_str(), item.version)).collect();
        theirs.sort_unstable();
        if ours == theirs {
            Ok(())
        } else {
            Err(format!("not modified was believed of {theirs:?}, known was {ours:?}"))
        }
    }
}

impl Known {
    /// Whether a list that these answers show whole lacks so much that it must be looked at a second time.
    fn lacks(&self, answers: &[&Answer], given: u64, total: Option<u64>, terms: &Terms) -> bool {
        let pages = answers.iter().filter(|answer| answer.offset.is_some()).count();
        let is_plain = answers.iter().all(|answer| answer.nameless == 0 && !answer.not_modified);
        let is_short = total.is_some_and(|total| given < total);
        let is_of_all = !terms.incremental || answers.iter().any(|answer| answer.is_of_all());
        let missing = (self.records.len() as u64).saturating_sub(given);
        pages > 1 && is_plain && !is_short && is_of_all && missing > self.held.map_or(0, |held| held.records)
    }

    /// What a question for changes leaves out must be known as it is.
    fn must_have(&self, left_out: &[Item]) -> Result<(), String> {
        let is_known = |item: &Item| self.records.get(&item.id).is_some_and(|kept| kept.version == item.version);
        let missed = left_out.iter().find(|item| !is_known(item) && !self.deleted.contains(&item.id));
        missed
            .map_or(Ok(()), |item| Err(format!("it asked for changes, which leaves out {item:?}, which is not known")))
    }
}

impl Terms {
    /// Whether an answer says that more follows.
    fn has_more(&self, answer: &Answer, shrank: u64) -> bool {
        let (Speaks::Ckan, Some(offset), Some(total)) = (self.speaks, answer.offset, answer.total) else {
            return answer.next.is_some();
        };
        let got = answer.entries() as u64;
        let reads_again = shrank > 0 && shrank <= self.page_size as u64;
        reads_again || (got > 0 && offset as u64 + got < total)
    }

    /// Whether what follows this answer must not be asked for.
    fn must_stop(&self, answers: &[&Answer], at: usize, given_before: u64, is_repeat: bool) -> bool {
        let answer = answers[at];
        let Some(offset) = answer.offset else { return false };
        let page = answers[..at].iter().filter(|answer| answer.offset.is_some()).count() as u64;
        let ends_at = answers[..at].last().and_then(|before| Some(before.offset? + before.entries()));
        // A page that begins before the end of the one before it is read to find what slipped by.
        let is_reread = self.speaks == Speaks::Ckan && ends_at.is_some_and(|end| offset < end);
        let is_over = match self.limit {
            None => false,
            Some(Limit::Pages(pages)) => page + 1 >= u64::from(pages),
            Some(Limit::Records(records)) => given_before + answer.items.len() as u64 >= records,
        };
        is_over || (is_repeat && page > 0 && !answer.items.is_empty() && !is_reread)
    }
}

impl Ending {
    fn sweep(&mut self, unseen: &BTreeMap<String, bool>, before: u64, misses_all: bool, terms: &Terms) {
        let held = unseen.values().filter(|was_held| **was_held).count() as u64;
        let all = unseen.len() as u64;
        let (goes, stays): (Vec<_>, u64) = if terms.approved {
            let fresh = all - held;
            if fresh == 0 || !(misses_all || trips(terms.guard, fresh, before.saturating_sub(held))) {
                (unseen.keys().collect(), 0)
            } else {
                (unseen.iter().filter(|(_, was_held)| **was_held).map(|(id, _)| id).collect(), fresh)
            }
        } else if misses_all || trips(terms.guard, all, before) {
            (Vec::new(), all)
        } else {
            (unseen.keys().collect(), 0)
        };
        self.outcome.deleted = goes.len() as u64;
        self.outcome.kept_unseen = stays;
        for id in goes {
            self.known.records.remove(id);
            self.known.deleted.insert(id.clone());
            self.changes.insert((ChangeKind::Deleted, id.clone()));
        }
        let is_held = stays > 0 || (all == 0 && misses_all && !terms.approved);
        let waits = self.known.held.filter(|_| !terms.approved && all == held);
        let number = waits.map_or(self.known.number, |waits| waits.number);
        self.known.held = is_held.then_some(Held { number, records: stays });
        self.outcome.held = self.known.held;
    }
}

/// By how much the total is smaller than before.
fn shrinkage(before: Option<u64>, answer: &Answer) -> u64 {
    before.zip(answer.total).map_or(0, |(before, now)| before.saturating_sub(now))
}

fn trips(guard: DeletionGuard, lost: u64, records: u64) -> bool {
    records >= guard.min_records && lost * 100 > records * u64::from(guard.max_percent)
}
