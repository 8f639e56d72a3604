//! The engine's tables, as one step sees them: what it has read, what it is about to write, and the atomic write that checks the
//! one and does the other.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use bytes::Bytes;
use tokio::runtime::Handle;

use super::super::StoreError;
use super::super::engine::rows::{Entry, Place};
use super::super::engine::{Read, Table, Visit, Write};
use super::keys::{self, PAYLOADS, Slot};
use super::link::{Link, MAX_FIELDS, Written, number, text};
use super::places::Places;
use crate::task::{CatalogName, RunId, TaskId};

/// A step over many entries is written in portions of so many changes …
const MAX_CHANGES: usize = 500;

/// The first portion of a scan, and the largest: most scans end early.
const FIRST_PORTION: usize = 64;
const LARGEST_PORTION: usize = 512;

/// So many scans are looked at again when a step is written. More are of the edges of a node with many sections, whose
/// traversals are all closed by the time that anybody asks which can be reached: nothing is added to them any more.
const MAX_RANGES: usize = 1000;

/// One step may write so much at once.
const MAX_BYTES: usize = 256 << 20;

/// So many tasks that followed from others are remembered for a run, all taken together.
const MAX_FOLLOWED: usize = 16_384;

/// The tables during one try of a step.
pub(super) struct Tables {
    link: Arc<Link>,
    runtime: Handle,
    places: Arc<Places>,
    /// The run that the step is about; empty: none.
    run: String,
    may_exceed: bool,
    known: RefCell<HashMap<Slot, Option<Vec<u8>>>>,
    /// What was gone through, and how many keys there were: they must be as many when it is written.
    ranges: RefCell<Vec<Range>>,
    changes: BTreeMap<Slot, Option<Vec<u8>>>,
    /// Payloads that were appended, and the bytes of them.
    payloads: Vec<(Vec<u8>, Bytes)>,
    bytes: usize,
    released: Vec<Vec<u8>>,
    /// What followed from the step's task: the command that remembers it.
    kept: Vec<Bytes>,
    /// What is not a change of a slot: commands as they are sent.
    more: Vec<Bytes>,
    /// A write was refused because of what others wrote: the step must be tried again.
    pub(super) is_stale: Cell<bool>,
}

struct Range {
    hash: String,
    from: Vec<u8>,
    to: Vec<u8>,
    count: usize,
}

impl Tables {
    pub(super) fn new(link: Arc<Link>, runtime: Handle, places: Arc<Places>, run: Option<&RunId>) -> Self {
        Self {
            link,
            runtime,
            places,
            run: run.map(ToString::to_string).unwrap_or_default(),
            may_exceed: false,
            known: RefCell::default(),
            ranges: RefCell::default(),
            changes: BTreeMap::new(),
            payloads: Vec::new(),
            bytes: 0,
            released: Vec::new(),
            kept: Vec::new(),
            more: Vec::new(),
            is_stale: Cell::new(false),
        }
    }

    /// The step deletes: it must go on where memory is used up.
    pub(super) fn may_exceed_memory(&mut self) {
        self.may_exceed = true;
    }

    /// Reads what the step will need, in one call.
    pub(super) fn prefetch(&self, mut slots: Vec<Slot>) -> Result<(), StoreError> {
        slots.retain(|slot| !self.known.borrow().contains_key(slot));
        slots.sort();
        slots.dedup();
        for portion in slots.chunks(4 * MAX_FIELDS) {
            let values = self.runtime.block_on(self.link.read(portion))?;
            self.known.borrow_mut().extend(portion.iter().cloned().zip(values));
        }
        Ok(())
    }

    /// Reads slots and remembers nothing.
    pub(super) fn read_now(&self, slots: &[Slot]) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        self.runtime.block_on(self.link.read(slots))
    }

    /// What was read contradicts itself: others have written meanwhile.
    pub(super) fn stale(&self) -> StoreError {
        self.is_stale.set(true);
        StoreError::Contended { address: self.link.shown().to_owned() }
    }

    /// What was read: what another try will need.
    pub(super) fn what_was_read(&self) -> Vec<Slot> {
        self.known.borrow().keys().cloned().collect()
    }

    /// A slot's value.
    pub(super) fn value<T>(&self, slot: Slot, read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>, StoreError> {
        if let Some(value) = self.changes.get(&slot) {
            return Ok(value.as_deref().map(read));
        }
        if let Some(value) = self.known.borrow().get(&slot) {
            return Ok(value.as_deref().map(read));
        }
        let value = self.runtime.block_on(self.link.read(std::slice::from_ref(&slot)))?.pop().flatten();
        let seen = value.as_deref().map(read);
        self.known.borrow_mut().insert(slot, value);
        Ok(seen)
    }

    /// Puts a value into a slot, or takes it away.
    pub(super) fn set(&mut self, slot: Slot, value: Option<&[u8]>) {
        self.changes.insert(slot, value.map(<[u8]>::to_vec));
    }

    /// Remembers what followed from a task; said again before it is written, that counts.
    pub(super) fn keep_followed(&mut self, run: &RunId, task: TaskId, value: Vec<u8>) {
        let parts = [Bytes::copy_from_slice(&task.0), Bytes::from(value), number(MAX_FOLLOWED)];
        self.kept = vec![text("keep"), text(&keys::followed(run)), number(parts.len())];
        self.kept.extend(parts);
    }

    /// Forgets what is kept with a run besides the engine's tables.
    pub(super) fn forget_run(&mut self, run: &RunId) {
        self.command("clear", &keys::tries(run), []);
        self.command("clear", &keys::followed(run), []);
        self.command("clear", &format!("{}:order", keys::followed(run)), []);
        self.command("remove", "s", [text(run.as_str())]);
    }

    fn command<const N: usize>(&mut self, what: &str, key: &str, parts: [Bytes; N]) {
        self.more.extend([text(what), text(key), number(N)]);
        self.more.extend(parts);
    }

    /// Writes what there is to write, if what was read is still so.
    pub(super) fn finish(&mut self) -> Result<(), StoreError> {
        let has_changes =
            !self.changes.is_empty() || !self.payloads.is_empty() || !self.more.is_empty() || !self.kept.is_empty();
        if has_changes || !self.released.is_empty() { self.write() } else { Ok(()) }
    }

    /// A step that fails may have seen things that were never so at one moment: looks whether they still are.
    pub(super) fn fail(&mut self, error: StoreError) -> StoreError {
        let may_be_wrong = matches!(
            error,
            StoreError::Damaged { .. }
                | StoreError::NoSuchRun { .. }
                | StoreError::RunUnfinished { .. }
                | StoreError::Superseded { .. }
        );
        if !may_be_wrong {
            return error;
        }
        self.run.clear();
        self.changes.clear();
        self.payloads.clear();
        self.released.clear();
        self.more.clear();
        self.kept.clear();
        match self.write() {
            Err(stale) if self.is_stale.get() => stale,
            _ => error,
        }
    }

    fn write(&mut self) -> Result<(), StoreError> {
        if self.bytes > MAX_BYTES {
            return Err(StoreError::TooLarge { bytes: self.bytes, max: MAX_BYTES });
        }
        let parts = self.parts();
        let written = self.runtime.block_on(self.link.write(&self.run, &parts, self.may_exceed))?;
        if written == Written::Changed {
            return Err(self.stale());
        }
        // What was written is what is there; what was read before may be forgotten, so that memory does not grow. But the run
        // must stay under way as long as the step goes on.
        let run = Slot::of(Table::Runs, self.run.as_bytes());
        let run = self.known.get_mut().remove_entry(&run);
        let kept = std::mem::take(&mut self.changes).into_iter().filter(|(slot, _)| slot.is_checked);
        *self.known.get_mut() = run.into_iter().chain(kept).collect();
        self.ranges.get_mut().clear();
        self.payloads.clear();
        self.bytes = 0;
        self.released.clear();
        self.more.clear();
        Ok(())
    }

    /// The arguments of a write: what must be so, then what is to be done.
    fn parts(&mut self) -> Vec<Bytes> {
        let known = self.known.get_mut();
        let mut parts = Parts::default();
        for (slot, value) in known.iter().filter(|(slot, _)| slot.is_checked) {
            match value {
                Some(value) => parts.pair("present", &slot.hash, &slot.field, value),
                None => parts.one("absent", &slot.hash, &slot.field),
            }
        }
        for Range { hash, from, to, count } in self.ranges.get_mut().iter() {
            parts.command("range", &keys::index_of(hash), &[from, to, count.to_string().as_bytes()]);
        }
        parts.end_checks();
        for (slot, value) in &self.changes {
            let before = known.get(slot);
            match value {
                Some(value) if before.is_some_and(|before| before.as_ref() == Some(value)) => {}
                Some(value) => {
                    parts.pair("put", &slot.hash, &slot.field, value);
                    if slot.is_indexed && !matches!(before, Some(Some(_))) {
                        parts.pair("index", &keys::index_of(&slot.hash), b"0", &slot.field);
                    }
                }
                None if matches!(before, Some(None)) => {}
                None => {
                    parts.one("remove", &slot.hash, &slot.field);
                    if slot.is_indexed {
                        parts.one("unindex", &keys::index_of(&slot.hash), &slot.field);
                    }
                }
            }
        }
        for (field, payload) in &self.payloads {
            parts.payload(field, payload);
        }
        for field in &self.released {
            parts.one("remove", PAYLOADS, field);
        }
        let mut all = parts.end();
        all.append(&mut self.kept);
        all.append(&mut self.more);
        all
    }
}

/// Fields, and their values if they have some.
type Fields = (Vec<Bytes>, Vec<Bytes>);

/// Fields gathered by what is to be done with them and by key, at most so many together.
#[derive(Default)]
struct Parts {
    all: Vec<Bytes>,
    groups: BTreeMap<(&'static str, String), Fields>,
}

impl Parts {
    fn command(&mut self, what: &str, key: &str, parts: &[&[u8]]) {
        self.all.extend([text(what), text(key), number(parts.len())]);
        self.all.extend(parts.iter().map(|part| Bytes::copy_from_slice(part)));
    }

    fn one(&mut self, what: &'static str, key: &str, field: &[u8]) {
        let group = self.groups.entry((what, key.to_owned())).or_default();
        group.0.push(Bytes::copy_from_slice(field));
        self.flush_if_full(what, key);
    }

    fn pair(&mut self, what: &'static str, key: &str, field: &[u8], value: &[u8]) {
        self.pair_of(what, key, field, Bytes::copy_from_slice(value));
    }

    fn payload(&mut self, field: &[u8], payload: &Bytes) {
        self.pair_of("put", PAYLOADS, field, payload.clone());
    }

    fn pair_of(&mut self, what: &'static str, key: &str, field: &[u8], value: Bytes) {
        let group = self.groups.entry((what, key.to_owned())).or_default();
        group.0.push(Bytes::copy_from_slice(field));
        group.1.push(value);
        self.flush_if_full(what, key);
    }

    fn flush_if_full(&mut self, what: &'static str, key: &str) {
        let group = (what, key.to_owned());
        if self.groups.get(&group).is_some_and(|(fields, _)| fields.len() >= MAX_FIELDS)
            && let Some((fields, values)) = self.groups.remove(&group)
        {
            self.flush(what, key, fields, values);
        }
    }

    fn flush(&mut self, what: &str, key: &str, fields: Vec<Bytes>, values: Vec<Bytes>) {
        self.all.extend([text(what), text(key)]);
        if what == "present" {
            // All fields, then all values, which are not counted.
            self.all.push(number(fields.len()));
            self.all.extend(fields);
            self.all.extend(values);
        } else if values.is_empty() {
            self.all.push(number(fields.len()));
            self.all.extend(fields);
        } else {
            self.all.push(number(2 * fields.len()));
            self.all.extend(fields.into_iter().zip(values).flat_map(|(field, value)| [field, value]));
        }
    }

    /// Nothing may be written before all is checked.
    fn end_checks(&mut self) {
        for ((what, key), (fields, values)) in std::mem::take(&mut self.groups) {
            self.flush(what, &key, fields, values);
        }
    }

    fn end(mut self) -> Vec<Bytes> {
        self.end_checks();
        self.all
    }
}

impl Read for Tables {
    fn get<T>(&self, table: Table, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>, StoreError> {
        self.value(Slot::of(table, key), read)
    }

    fn scan(&self, table: Table, prefix: &[u8], after: Option<&[u8]>, visit: Visit<'_>) -> Result<(), StoreError> {
        let (hash, group, fields) = keys::group(table, prefix);
        let first = match after.filter(|after| *after >= prefix) {
            Some(after) => [b"(", &after[group.len()..]].concat(),
            None => [b"[", fields].concat(),
        };
        let to = keys::end_of(fields);
        let mut from = first.clone();
        let mut limit = FIRST_PORTION;
        let mut counted = 0;
        let mut end = to.clone();
        'portions: loop {
            let portion = self.runtime.block_on(self.link.scan(&hash, &from, &to, limit))?;
            let is_last = portion.len() < limit;
            let next = portion.last().map(|(field, _)| [b"(", field.as_slice()].concat());
            let merged = self.merge(table, &hash, (&from, next.as_deref().filter(|_| !is_last), fields), portion);
            for (field, (value, is_there)) in merged {
                counted += usize::from(is_there);
                let Some(value) = value else { continue };
                if visit(&[group, &field].concat(), &value)? == ControlFlow::Break(()) {
                    end = [b"[", field.as_slice()].concat();
                    break 'portions;
                }
            }
            match next {
                Some(next) if !is_last => from = next,
                _ => break,
            }
            limit = (limit * 4).min(LARGEST_PORTION);
        }
        if !matches!(table, Table::Records | Table::Changes) && self.ranges.borrow().len() < MAX_RANGES {
            self.ranges.borrow_mut().push(Range { hash, from: first, to: end, count: counted });
        }
        Ok(())
    }

    fn damaged(&self, why: &str) -> StoreError {
        self.link.damaged(why)
    }
}

impl Tables {
    /// What a portion comes to with what the step has changed: values, and whether the server has the key.
    fn merge(
        &self,
        table: Table,
        hash: &str,
        (from, next, prefix): (&[u8], Option<&[u8]>, &[u8]),
        portion: Vec<(Vec<u8>, Vec<u8>)>,
    ) -> BTreeMap<Vec<u8>, (Option<Vec<u8>>, bool)> {
        let is_checked = matches!(table, Table::Spendings | Table::ClosedOrigins);
        let mut merged = BTreeMap::new();
        for (field, value) in portion {
            if is_checked {
                let slot = Slot { hash: hash.to_owned(), field: field.clone(), is_indexed: true, is_checked: true };
                self.known.borrow_mut().entry(slot).or_insert_with(|| Some(value.clone()));
            }
            merged.insert(field, (Some(value), true));
        }
        let bound = |field: &[u8], is_excluded| Slot {
            hash: hash.to_owned(),
            field: field.to_vec(),
            is_indexed: is_excluded,
            is_checked: is_excluded,
        };
        let start = Bound::Included(bound(&from[1..], false));
        for (slot, value) in self.changes.range((start, Bound::Unbounded)) {
            let is_past = next.is_some_and(|next| slot.field.as_slice() > &next[1..]);
            if slot.hash != hash || !slot.field.starts_with(prefix) || is_past {
                break;
            }
            if from[0] == b'(' && slot.field == from[1..] {
                continue;
            }
            let is_there = merged.get(&slot.field).is_some_and(|(_, is_there)| *is_there);
            merged.insert(slot.field.clone(), (value.clone(), is_there));
        }
        merged
    }
}

impl Write for Tables {
    fn session(&self) -> u64 {
        self.link.session().number
    }

    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.set(Slot::of(table, key), Some(value));
        Ok(())
    }

    fn update(
        &mut self,
        table: Table,
        key: &[u8],
        change: impl FnOnce(&[u8]) -> Option<[u8; Entry::BYTES]>,
    ) -> Result<bool, StoreError> {
        let slot = Slot::of(table, key);
        let changed = self.value(slot.clone(), change)?;
        if let Some(Some(changed)) = &changed {
            self.set(slot, Some(changed.as_slice()));
        }
        Ok(changed.is_some())
    }

    fn remove(&mut self, table: Table, key: &[u8]) -> Result<bool, StoreError> {
        let slot = Slot::of(table, key);
        let was_there = self.value(slot.clone(), |_| ())?.is_some();
        self.set(slot, None);
        Ok(was_there)
    }

    fn append(&mut self, payload: &[u8]) -> Result<Place, StoreError> {
        let place = self.places.next(payload.len());
        self.payloads.push((keys::payload(place), Bytes::copy_from_slice(payload)));
        self.bytes += payload.len();
        Ok(place)
    }

    fn release(&mut self, place: Place) -> Result<(), StoreError> {
        self.released.push(keys::payload(place));
        Ok(())
    }

    fn append_changes(&mut self, catalog: &CatalogName, count: u64, block: &[u8]) -> Result<(), StoreError> {
        // Numbered by the server: crawlers of a Catalog would have to wait for each other otherwise.
        let parts = [number(count), Bytes::copy_from_slice(block)];
        self.command("changes", &format!("changes:{catalog}"), parts);
        Ok(())
    }

    fn clear(&mut self, table: Table, prefix: &[u8]) -> Result<(), StoreError> {
        let (hash, _, _) = keys::group(table, prefix);
        self.changes.retain(|slot, _| slot.hash != hash);
        self.command("clear", &hash, []);
        self.command("clear", &keys::index_of(&hash), []);
        Ok(())
    }

    fn pause(&mut self) -> Result<(), StoreError> {
        if self.changes.len() + self.released.len() >= MAX_CHANGES { self.write() } else { Ok(()) }
    }
}
