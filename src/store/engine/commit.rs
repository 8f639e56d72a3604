//! Opening a traversal, and making a task's effects durable.

use super::close::{close_row, go_on_closing};
use super::feed::Feed;
use super::rows::{Entry, Place, RunRow, SectionRow, TraversalRow, load, save};
use super::runs::{add_tasks, is_settled, under_way};
use super::spending::spend;
use super::{Read, Table, Write, keys, sections};
use crate::finding::Rejected;
use crate::record::ContentHash;
use crate::store::judge::{Marks, Sighting, weigh};
use crate::store::{
    ChangeKind, CloseTraversal, Committed, Mode, Opened, RecordWrite, SoFar, Spending, StoreError, TaskEffects,
    TaskResult, Traversal,
};
use crate::task::{RunId, SectionKey, Task, TaskKind};

pub(in crate::store) fn open_traversal(
    tables: &mut impl Write,
    run: &RunId,
    section: &SectionKey,
) -> Result<Opened, StoreError> {
    let run = under_way(tables, run)?;
    let (section_key, mut row) = sections::section_or_new(tables, &run.state.catalog, section)?;
    let key = keys::traversal(run.key, row.key);
    let mut traversal: TraversalRow = load(tables, Table::Traversals, &key)?.unwrap_or_default();
    if let Some(report) = traversal.report {
        return Ok(Opened::Closed { report: Box::new(report) });
    }
    if traversal.closing.is_some() {
        let report = go_on_closing(tables, &run, &section_key, row)?;
        return Ok(Opened::Closed { report: Box::new(report) });
    }
    if traversal.number == 0 {
        row.number += 1;
        traversal.number = row.number;
        save(tables, Table::Sections, &section_key, &row)?;
    }
    if traversal.attempt == 0 || traversal.session != tables.session() {
        traversal.attempt += 1;
        traversal.session = tables.session();
        save(tables, Table::Traversals, &key, &traversal)?;
    }
    let TraversalRow { number, attempt, tally, .. } = traversal;
    Ok(Opened::Open {
        traversal: Traversal { run: run.state.run, section: section.clone(), number, attempt },
        validators: row.validators,
        checkpoint: row.checkpoint.filter(|_| run.state.mode == Mode::Incremental),
        so_far: SoFar { records: tally.seen, requests: tally.requests, bytes: tally.bytes, total: tally.total },
    })
}

pub(in crate::store) fn commit(
    tables: &mut impl Write,
    traversal: &Traversal,
    mut effects: TaskEffects,
) -> Result<Committed, StoreError> {
    let run = under_way(tables, &traversal.run)?;
    let (section_key, section) = sections::section(tables, &run.state.catalog, &traversal.section)?;
    let Some(section) = section else { return Err(superseded(traversal)) };
    let key = keys::traversal(run.key, section.key);
    let row = load(tables, Table::Traversals, &key)?;
    let row: TraversalRow = row.ok_or_else(|| superseded(traversal))?;
    if (row.number, row.attempt) != (traversal.number, traversal.attempt) {
        return Err(superseded(traversal));
    }
    spend(tables, &[cost(traversal, &effects)])?;
    let task_key = keys::task(run.key, effects.task);
    let close_when_drained = effects.close_when_drained.take();
    if row.report.is_some() || row.closing.is_some() || tables.get(Table::Settled, &task_key, |_| ())?.is_some() {
        let closed = row.closing.is_some();
        if closed {
            go_on_closing(tables, &run, &section_key, section)?;
        }
        let mut settled_feedback = Vec::new();
        for task in &effects.feedback {
            if is_settled(tables, &run, task)? {
                settled_feedback.push(task.id);
            }
        }
        let counts = Committed { already_settled: true, settled_feedback, closed, ..Committed::default() };
        return Ok(row.committed(counts));
    }

    let mut page = Page { run: &run, number: row.number, section, feed: Feed::default(), row };
    let is_listing = effects.reading.is_some() || !effects.records.is_empty() || effects.result != TaskResult::Done;
    let counts = page.write_records(tables, std::mem::take(&mut effects.records))?;
    page.touch_rejected(tables, &effects.rejected)?;
    page.delete(tables, &effects.deleted_ids)?;
    if effects.result == TaskResult::NotModified {
        page.see_all(tables)?;
    }
    let Page { feed, mut row, section, .. } = page;
    feed.write(tables, &run)?;
    sections::list(tables, &traversal.section, section.key, row.number, &effects.listed_sections)?;
    row.tally.absorb(&mut effects, is_listing);
    // The root is kept with what it was: a second look begins with it.
    let is_root = row.root == Some(effects.task);
    let kept = if is_root { tables.get(Table::Pending, &task_key, <[u8]>::to_vec)? } else { None };
    if tables.remove(Table::Pending, &task_key)? {
        row.pending = row.pending.saturating_sub(1);
    }
    tables.put(Table::Settled, &task_key, &kept.unwrap_or_default())?;
    save(tables, Table::Sections, &section_key, &section)?;
    save(tables, Table::Traversals, &key, &row)?;
    let mut settled_feedback = Vec::new();
    if !effects.feedback.is_empty() {
        let mut leads_back = false;
        add_tasks(tables, &run, &effects.feedback, &mut |task, is_settled| {
            settled_feedback.extend(is_settled.then_some(task.id));
            leads_back |= task.kind == TaskKind::Page && task.section == traversal.section;
        })?;
        row = load(tables, Table::Traversals, &key)?.unwrap_or(row);
        if leads_back && !row.tally.repeated_page {
            row.tally.repeated_page = true;
            save(tables, Table::Traversals, &key, &row)?;
        }
    }
    let mut committed = row.committed(Committed { settled_feedback, ..counts });
    if let Some(close) = close_when_drained.filter(|_| committed.pending == 0) {
        committed.look_again = look_again(tables, &run, &section, row, &close)?;
        if committed.look_again.is_some() {
            committed.pending = 1;
        } else {
            close_row(tables, &run, &section_key, section, &close)?;
            committed.closed = true;
        }
    }
    Ok(committed)
}

/// Begins a second look at a section, if its list may have moved while it was read and records would go for that.
fn look_again(
    tables: &mut impl Write,
    run: &RunRow,
    section: &SectionRow,
    mut row: TraversalRow,
    close: &CloseTraversal,
) -> Result<Option<Task>, StoreError> {
    let missing = section.records.saturating_sub(row.tally.seen);
    // What waits for a person already was looked for before.
    let waiting = section.held.map_or(0, |(_, records)| records);
    let would_go = row.tally.mode(run.state.mode) == Mode::Full && close.cut_short.is_none() && missing > waiting;
    if row.looks_again || !would_go || !row.tally.may_have_moved() {
        return Ok(None);
    }
    let Some(root) = row.root else { return Ok(None) };
    let task = tables.get(Table::Settled, &keys::task(run.key, root), |bytes| serde_json::from_slice::<Task>(bytes))?;
    let Some(Ok(task)) = task else { return Ok(None) };
    let task = task.again();
    row.looks_again = true;
    save(tables, Table::Traversals, &keys::traversal(run.key, section.key), &row)?;
    add_tasks(tables, run, std::slice::from_ref(&task), &mut |_, _| {})?;
    Ok(Some(task))
}

/// What a task has cost its node, whatever becomes of its effects.
fn cost(traversal: &Traversal, effects: &TaskEffects) -> Spending {
    Spending {
        node: traversal.section.node.clone(),
        at: effects.at,
        calls: effects.calls,
        documents: effects.records.len() as u64,
        bytes: effects.bytes,
    }
}

pub(super) fn superseded(traversal: &Traversal) -> StoreError {
    let Traversal { section, number, attempt, .. } = traversal;
    StoreError::Superseded { section: section.clone(), number: *number, attempt: *attempt }
}

impl TraversalRow {
    fn committed(&self, counts: Committed) -> Committed {
        Committed { pending: self.pending, seen: self.tally.seen, bytes: self.tally.bytes, ..counts }
    }
}

/// A task's records on their way into a section.
struct Page<'a> {
    run: &'a RunRow,
    number: u64,
    section: SectionRow,
    feed: Feed,
    row: TraversalRow,
}

impl Page<'_> {
    fn write_records(
        &mut self,
        tables: &mut impl Write,
        mut records: Vec<RecordWrite>,
    ) -> Result<Committed, StoreError> {
        // In the order of the table: neighbours share its pages, and their payloads lie side by side.
        records.sort_by(|a, b| a.id.cmp(&b.id));
        let was_empty = !self.section.has_entries;
        let mut counts = Committed::default();
        let mut key = Vec::new();
        let mut last: Option<&RecordWrite> = None;
        for record in &records {
            keys::write_in_section(&mut key, self.section.key, &record.id);
            let is_double = last.is_some_and(|last| last.id == record.id);
            let (sighting, known) =
                if was_empty && !is_double { (Sighting::Added, None) } else { self.sight(tables, &key, record.hash)? };
            last = Some(record);
            *match sighting {
                Sighting::Added => &mut counts.added,
                Sighting::Updated => &mut counts.updated,
                Sighting::Unchanged => &mut counts.unchanged,
                Sighting::Repeated => &mut counts.repeated,
            } += 1;
            if let Some(entry) = self.next_entry(tables, sighting, known, record)? {
                tables.put(Table::Records, &key, &entry.encode())?;
            }
        }
        let changed = counts.added + counts.updated;
        self.section.records += counts.added;
        self.section.has_entries |= counts.added > 0;
        self.row.tally.seen += changed + counts.unchanged;
        self.row.tally.wrote |= changed > 0;
        Ok(counts)
    }

    /// Looks a record up, and marks it as seen if it is unchanged.
    fn sight(
        &self,
        tables: &mut impl Write,
        key: &[u8],
        hash: ContentHash,
    ) -> Result<(Sighting, Option<Entry>), StoreError> {
        let mut known = None;
        let mut sighting = Sighting::Added;
        let is_known = tables.update(Table::Records, key, |value| {
            known = Entry::decode(value);
            let entry = known.as_ref()?;
            sighting = weigh(Some(&self.section.marks(entry)), self.number, hash);
            let marks = Marks { last_seen: self.number, ..entry.marks };
            (sighting == Sighting::Unchanged).then(|| Entry { marks, ..*entry }.encode())
        })?;
        if is_known && known.is_none() {
            return Err(tables.damaged("a record's entry can't be read"));
        }
        Ok((sighting, known))
    }

    /// What the table shall say of a record; `None`: what it says already.
    fn next_entry(
        &mut self,
        tables: &mut impl Write,
        sighting: Sighting,
        known: Option<Entry>,
        record: &RecordWrite,
    ) -> Result<Option<Entry>, StoreError> {
        let number = self.number;
        let (first_seen, previous_hash, kind) = match (sighting, known) {
            (Sighting::Repeated | Sighting::Unchanged, _) => return Ok(None),
            (Sighting::Updated, Some(known)) => {
                tables.release(known.place)?;
                (known.marks.first_seen, Some(known.marks.hash), ChangeKind::Updated)
            }
            (Sighting::Added | Sighting::Updated, _) => (number, None, ChangeKind::Added),
        };
        self.feed.push(kind, self.section.key, &record.id);
        Ok(Some(Entry {
            marks: Marks { hash: record.hash, first_seen, last_seen: number, changed_in: number, deleted: false },
            previous_hash,
            run: self.run.state.number,
            place: tables.append(&record.payload)?,
        }))
    }

    /// A record that could not be read is there all the same: the one that is kept must not be swept.
    fn touch_rejected(&mut self, tables: &mut impl Write, rejected: &[Rejected]) -> Result<(), StoreError> {
        for rejected in rejected {
            let key = keys::in_section(self.section.key, &rejected.what);
            match entry(tables, &key)?.filter(|entry| !entry.marks.deleted) {
                None => self.row.tally.unreadable += 1,
                Some(entry) if self.section.marks(&entry).last_seen >= self.number => {}
                Some(entry) => {
                    let marks = Marks { last_seen: self.number, ..entry.marks };
                    tables.put(Table::Records, &key, &Entry { marks, ..entry }.encode())?;
                    self.row.tally.seen += 1;
                }
            }
        }
        Ok(())
    }

    fn delete(&mut self, tables: &mut impl Write, ids: &[String]) -> Result<(), StoreError> {
        for id in ids {
            let key = keys::in_section(self.section.key, id);
            let Some(entry) = entry(tables, &key)?.filter(|entry| !entry.marks.deleted) else { continue };
            bury(tables, &mut self.feed, self.run, self.number, &key, &entry)?;
            self.section.records = self.section.records.saturating_sub(1);
            self.row.tally.wrote = true;
        }
        Ok(())
    }

    /// The document has not changed: what the section has and lists is seen, by a mark on the section itself.
    fn see_all(&mut self, tables: &mut impl Write) -> Result<(), StoreError> {
        self.section.all_seen_in = self.number;
        self.row.tally.seen = self.section.records;
        for (edge, _) in sections::listed(tables, self.section.key)? {
            tables.put(Table::Edges, &edge, &self.number.to_be_bytes())?;
        }
        Ok(())
    }
}

fn entry(tables: &impl Read, key: &[u8]) -> Result<Option<Entry>, StoreError> {
    match tables.get(Table::Records, key, Entry::decode)? {
        None => Ok(None),
        Some(Some(entry)) => Ok(Some(entry)),
        Some(None) => Err(tables.damaged("a record's entry can't be read")),
    }
}

/// Turns a live record into a tombstone.
pub(super) fn bury(
    tables: &mut impl Write,
    feed: &mut Feed,
    run: &RunRow,
    number: u64,
    key: &[u8],
    entry: &Entry,
) -> Result<(), StoreError> {
    tables.release(entry.place)?;
    let marks = Marks { changed_in: number, deleted: true, ..entry.marks };
    let tombstone = Entry { marks, run: run.state.number, place: Place::default(), ..*entry };
    tables.put(Table::Records, key, &tombstone.encode())?;
    let mut rest = key;
    let section = super::rows::take(&mut rest).map(u32::from_be_bytes).unwrap_or_default();
    let id = std::str::from_utf8(rest).map_err(|_| tables.damaged("a record's id can't be read"))?;
    feed.push(ChangeKind::Deleted, section, id);
    Ok(())
}
