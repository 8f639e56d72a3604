//! Closing a traversal, and what falls to sections that nobody lists or wants any more.

use std::ops::ControlFlow;

use super::commit::{bury, superseded};
use super::feed::Feed;
use super::rows::{Entry, Judged, RunRow, SectionRow, Sweeping, TraversalRow, load, save};
use super::runs::under_way;
use super::{CHUNK, Read, Table, Write, keys, sections};
use crate::store::judge::{Census, Closing, Verdict, judge, judge_gone, report};
use crate::store::tally::Tally;
use crate::store::{CloseTraversal, DeletionGuard, Mode, SectionReport, StoreError, Traversal};
use crate::task::{NodeName, RunId, SectionKey};

/// So many records go together: what they cost must not keep others waiting where the tables are shared.
const SWEPT_AT_ONCE: usize = 256;

pub(in crate::store) fn close_traversal(
    tables: &mut impl Write,
    traversal: &Traversal,
    close: &CloseTraversal,
) -> Result<SectionReport, StoreError> {
    let run = under_way(tables, &traversal.run)?;
    let (key, section) = sections::section(tables, &run.state.catalog, &traversal.section)?;
    let Some(section) = section else { return Err(superseded(traversal)) };
    let row = load(tables, Table::Traversals, &keys::traversal(run.key, section.key))?;
    let row: TraversalRow = row.ok_or_else(|| superseded(traversal))?;
    match row.report {
        Some(report) if row.number == traversal.number => Ok(report),
        None if (row.number, row.attempt) == (traversal.number, traversal.attempt) => {
            close_row(tables, &run, &key, section, close)
        }
        _ => Err(superseded(traversal)),
    }
}

/// Closes the run's open traversal of a section.
pub(super) fn close_row(
    tables: &mut impl Write,
    run: &RunRow,
    section_key: &[u8],
    mut section: SectionRow,
    close: &CloseTraversal,
) -> Result<SectionReport, StoreError> {
    let name = keys::parse_section(section_key).ok_or_else(|| tables.damaged("a section's name can't be read"))?;
    let traversal_key = keys::traversal(run.key, section.key);
    let mut row: TraversalRow = load(tables, Table::Traversals, &traversal_key)?.unwrap_or_default();
    let number = row.number;
    let mode = row.tally.mode(run.state.mode);
    let lost: Vec<Vec<u8>> = sections::listed(tables, section.key)?
        .into_iter()
        .filter_map(|(edge, listed_in)| (listed_in < number).then_some(edge))
        .collect();
    let judged = row.closing.take();
    let is_judged = judged.is_some();
    let Judged { census, verdict } = match judged {
        Some(judged) => judged,
        None => judge_row(tables, &section, &name, &row, mode, !lost.is_empty(), close)?,
    };
    if !is_judged {
        section.records = census.live();
        if verdict.swept > 0 {
            // Whoever goes on after a crash must not judge what is left.
            let closing = Some(Judged { census, verdict: verdict.clone() });
            save(tables, Table::Sections, section_key, &section)?;
            save(tables, Table::Traversals, &traversal_key, &TraversalRow { closing, ..row.clone() })?;
            tables.pause()?;
        }
    }
    sweep(tables, run, section_key, &mut section, number, &verdict)?;
    if verdict.partial.is_none() && verdict.held.is_none() && mode == Mode::Full {
        for edge in &lost {
            tables.remove(Table::Edges, edge)?;
        }
    }
    section.remember(number, mode, &row.tally, &verdict);
    let report = report(&name, number, run.state.mode, &row.tally, &census, verdict);
    row.report = Some(report.clone());
    // The report says it now.
    row.tally = Tally::default();
    save(tables, Table::Sections, section_key, &section)?;
    save(tables, Table::Traversals, &traversal_key, &row)?;
    Ok(report)
}

fn judge_row(
    tables: &impl Read,
    section: &SectionRow,
    name: &SectionKey,
    row: &TraversalRow,
    mode: Mode,
    lost_nested: bool,
    close: &CloseTraversal,
) -> Result<Judged, StoreError> {
    let held_by = section.held.map(|(held_by, _)| held_by);
    let census = census(tables, section, row.number, held_by)?;
    let verdict = judge(&Closing {
        section: name,
        number: row.number,
        mode,
        tally: &row.tally,
        pending: row.pending,
        census: &census,
        held_by,
        lost_nested,
        close,
    });
    Ok(Judged { census, verdict })
}

/// Ends a close that was interrupted: it is judged already.
pub(super) fn go_on_closing(
    tables: &mut impl Write,
    run: &RunRow,
    section_key: &[u8],
    section: SectionRow,
) -> Result<SectionReport, StoreError> {
    let guard = DeletionGuard { max_percent: 0, min_records: 0 };
    let close = CloseTraversal { cut_short: None, guard, approved: Vec::new(), at: run.state.started_at };
    close_row(tables, run, section_key, section, &close)
}

impl SectionRow {
    /// Takes over what takes effect when a traversal closes.
    fn remember(&mut self, number: u64, mode: Mode, tally: &Tally, verdict: &Verdict) {
        let old = self.validators.take();
        if verdict.partial.is_some() {
            // They speak of a document of which the records are no longer the picture, if any was written since.
            self.validators = old.filter(|_| !tally.wrote);
            return;
        }
        self.last_complete = number;
        self.checkpoint = tally.checkpoint.clone().or_else(|| self.checkpoint.take().filter(|_| tally.not_modified));
        if mode == Mode::Full {
            self.held = verdict.held;
        }
        // "Not modified" would count what is held as seen: the next traversal must look at the document itself.
        if tally.listing == 1 && self.held.is_none() {
            self.validators = tally.validators.clone().or_else(|| old.filter(|_| tally.not_modified));
        }
    }
}

/// Closes every traversal of the run that is open. A section whose tasks nobody came to is reported too: it is as
/// incomplete as one that was left in the middle.
pub(super) fn close_open(tables: &mut impl Write, run: &RunRow, close: &CloseTraversal) -> Result<(), StoreError> {
    let mut last = None;
    loop {
        let mut open = Vec::new();
        let after = last.map(|last| keys::traversal(run.key, last));
        each_traversal(tables, run, after.as_ref().map(<[u8; 8]>::as_slice), &mut |section, row| {
            last = Some(section);
            if row.report.is_none() && (row.number > 0 || row.pending > 0) {
                open.push(section);
            }
            open.len() < CHUNK
        })?;
        let is_last = open.len() < CHUNK;
        for section in open {
            close_one(tables, run, section, close)?;
            tables.pause()?;
        }
        if is_last {
            return Ok(());
        }
    }
}

fn close_one(tables: &mut impl Write, run: &RunRow, short: u32, close: &CloseTraversal) -> Result<(), StoreError> {
    let row: Option<TraversalRow> = load(tables, Table::Traversals, &keys::traversal(run.key, short))?;
    let Some(row) = row.filter(|row| row.report.is_none()) else { return Ok(()) };
    let (key, section) = sections::section_by_key(tables, short)?;
    if row.number > 0 {
        return close_row(tables, run, &key, section, close).map(drop);
    }
    let verdict = Verdict { partial: close.cut_short.clone(), kept_unseen: section.records, ..Verdict::default() };
    let name = sections::name_of(tables, short)?;
    let report = report(&name, section.number, run.state.mode, &row.tally, &Census::default(), verdict);
    save_report(tables, run, short, &report)
}

/// Keeps the report of a section that was not traversed: the number in its row stays 0, so that it is judged again if
/// its sweep is held and the run is resumed.
fn save_report(tables: &mut impl Write, run: &RunRow, section: u32, report: &SectionReport) -> Result<(), StoreError> {
    let key = keys::traversal(run.key, section);
    let row: TraversalRow = load(tables, Table::Traversals, &key)?.unwrap_or_default();
    save(tables, Table::Traversals, &key, &TraversalRow { report: Some(report.clone()), ..row })
}

pub(in crate::store) fn cut_short(
    tables: &mut impl Write,
    run: &RunId,
    close: &CloseTraversal,
) -> Result<(), StoreError> {
    let run = under_way(tables, run)?;
    let why = close.cut_short.clone().unwrap_or_else(|| "the run was cut short".to_owned());
    close_open(tables, &run, &CloseTraversal { cut_short: Some(why), ..close.clone() })
}

pub(in crate::store) fn reports(tables: &impl Read, run: &RunId) -> Result<Vec<SectionReport>, StoreError> {
    let run = under_way(tables, run)?;
    let mut reports = Vec::new();
    each_traversal(tables, &run, None, &mut |_, row| {
        reports.extend(row.report);
        true
    })?;
    reports.sort_by(|a, b| a.section.cmp(&b.section));
    Ok(reports)
}

/// Visits the run's traversals behind `after`, until `visit` says `false`.
fn each_traversal(
    tables: &impl Read,
    run: &RunRow,
    after: Option<&[u8]>,
    visit: &mut dyn FnMut(u32, TraversalRow) -> bool,
) -> Result<(), StoreError> {
    tables.scan(Table::Traversals, &run.key.to_be_bytes(), after, &mut |key, value| {
        let section = key.last_chunk().map(|section| u32::from_be_bytes(*section));
        let (Some(section), Ok(row)) = (section, serde_json::from_slice(value)) else {
            return Err(tables.damaged("a traversal can't be read"));
        };
        Ok(if visit(section, row) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })
}

pub(in crate::store) fn sweep_unlisted(
    tables: &mut impl Write,
    run: &RunId,
    node: &NodeName,
    close: &CloseTraversal,
) -> Result<Vec<SectionReport>, StoreError> {
    let run = under_way(tables, run)?;
    if close.cut_short.is_some() {
        return Ok(Vec::new());
    }
    let listed = sections::reachable(tables, &run.state.catalog, node)?;
    let mut gone = Vec::new();
    for (section, row) in with_records(tables, &run, node)? {
        let traversal: Option<TraversalRow> = load(tables, Table::Traversals, &keys::traversal(run.key, row.key))?;
        if !listed.contains(&section) && traversal.is_none_or(|traversal| traversal.number == 0) {
            gone.push(section);
        }
    }
    sweep_gone(tables, &run, gone, close)
}

/// A node's sections that have records, or had some when a sweep was interrupted.
pub(super) fn with_records(
    tables: &impl Read,
    run: &RunRow,
    node: &NodeName,
) -> Result<Vec<(SectionKey, SectionRow)>, StoreError> {
    let mut found = Vec::new();
    sections::each_section(tables, &keys::of_node(&run.state.catalog, node), &mut |section, row| {
        if row.records > 0 || row.sweeping.is_some_and(|sweeping| sweeping.run == run.state.number) {
            found.push((section, row));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

pub(super) fn sweep_gone(
    tables: &mut impl Write,
    run: &RunRow,
    gone: Vec<SectionKey>,
    close: &CloseTraversal,
) -> Result<Vec<SectionReport>, StoreError> {
    let mut reports = Vec::new();
    for name in gone {
        reports.extend(sweep_one(tables, run, &name, close)?);
        tables.pause()?;
    }
    Ok(reports)
}

/// Judges a section that is gone, and sweeps it. A sweep that was interrupted in this run is not judged again.
fn sweep_one(
    tables: &mut impl Write,
    run: &RunRow,
    name: &SectionKey,
    close: &CloseTraversal,
) -> Result<Option<SectionReport>, StoreError> {
    let (section_key, row) = sections::section(tables, &run.state.catalog, name)?;
    let Some(mut row) = row else { return Ok(None) };
    let traversal: Option<TraversalRow> = load(tables, Table::Traversals, &keys::traversal(run.key, row.key))?;
    if traversal.is_some_and(|traversal| traversal.closing.is_some()) {
        // What its traversal has decided comes first.
        close_row(tables, run, &section_key, row, close)?;
        row = load(tables, Table::Sections, &section_key)?.unwrap_or_default();
    }
    let interrupted = row.sweeping.take().filter(|sweeping| sweeping.run == run.state.number);
    let (number, verdict) = if let Some(Sweeping { number, records, .. }) = interrupted {
        (number, Verdict { sweep_below: u64::MAX, swept: records, ..Verdict::default() })
    } else {
        let number = number_of_gone(&mut row);
        let verdict = judge_gone(name, number, row.records, row.held, close);
        if verdict.swept > 0 {
            row.sweeping = Some(Sweeping { run: run.state.number, number, records: verdict.swept });
            save(tables, Table::Sections, &section_key, &row)?;
            tables.pause()?;
        }
        (number, verdict)
    };
    let swept_in = row.number;
    sweep(tables, run, &section_key, &mut row, swept_in, &verdict)?;
    row.sweeping = None;
    row.held = verdict.held;
    if row.held.is_none() {
        // Should it come back, it must be read anew.
        row.validators = None;
        row.checkpoint = None;
    }
    save(tables, Table::Sections, &section_key, &row)?;
    report_gone(tables, run, name, &row, number, verdict).map(Some)
}

/// The number by which a person approves that a section goes.
fn number_of_gone(row: &mut SectionRow) -> u64 {
    match row.held {
        // The same records wait already: an approval may have been given, under that number.
        Some((number, records)) if records == row.records => number,
        // More than what waited under this number: an approval of that must not cover it, in later runs either.
        Some((number, _)) if number == row.number => {
            row.number += 1;
            row.number
        }
        _ => row.number,
    }
}

/// Adds what became of a section that is gone to the report of its traversal, if it had one in this run.
fn report_gone(
    tables: &mut impl Write,
    run: &RunRow,
    name: &SectionKey,
    row: &SectionRow,
    number: u64,
    verdict: Verdict,
) -> Result<SectionReport, StoreError> {
    let key = keys::traversal(run.key, row.key);
    let traversal: Option<TraversalRow> = load(tables, Table::Traversals, &key)?;
    let report = match traversal.and_then(|traversal| traversal.report) {
        Some(before) => SectionReport {
            deleted: before.deleted + verdict.swept,
            kept_unseen: verdict.kept_unseen,
            held: verdict.held.map(|(_, records)| records),
            held_as: verdict.held.map(|(number, _)| number),
            ..before
        },
        None => report(name, number, run.state.mode, &Tally::default(), &Census::default(), verdict),
    };
    save_report(tables, run, row.key, &report)?;
    Ok(report)
}

fn census(tables: &impl Read, row: &SectionRow, number: u64, held_by: Option<u64>) -> Result<Census, StoreError> {
    let mut census = Census::default();
    tables.scan(Table::Records, &row.key.to_be_bytes(), None, &mut |_, value| {
        let entry = Entry::decode(value).ok_or_else(|| tables.damaged("a record's entry can't be read"))?;
        census.count(&row.marks(&entry), number, held_by);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(census)
}

/// Deletes what the verdict says, in steps of bounded size, each of which leaves the section's count as its records are. What
/// an interrupted sweep has deleted is passed over.
fn sweep(
    tables: &mut impl Write,
    run: &RunRow,
    section_key: &[u8],
    row: &mut SectionRow,
    number: u64,
    verdict: &Verdict,
) -> Result<(), StoreError> {
    let mut left = verdict.swept;
    let mut after: Option<Vec<u8>> = None;
    while left > 0 {
        let mut doomed: Vec<(Vec<u8>, Entry)> = Vec::new();
        tables.scan(Table::Records, &row.key.to_be_bytes(), after.as_deref(), &mut |key, value| {
            let entry = Entry::decode(value).ok_or_else(|| tables.damaged("a record's entry can't be read"))?;
            if !entry.marks.deleted && row.marks(&entry).last_seen < verdict.sweep_below {
                doomed.push((key.to_vec(), entry));
            }
            Ok(if doomed.len() < SWEPT_AT_ONCE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        let mut feed = Feed::default();
        for (key, entry) in &doomed {
            bury(tables, &mut feed, run, number, key, entry)?;
        }
        feed.write(tables, run)?;
        row.records = row.records.saturating_sub(doomed.len() as u64);
        if doomed.len() < SWEPT_AT_ONCE {
            break;
        }
        left = left.saturating_sub(doomed.len() as u64);
        save(tables, Table::Sections, section_key, row)?;
        tables.pause()?;
        after = doomed.pop().map(|(key, _)| key);
    }
    Ok(())
}
