//! The values of the tables: records in a fixed width, everything else, of which there is little, as JSON.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::super::judge::{Census, Marks, Verdict};
use super::super::tally::Tally;
use super::super::{NodeState, RunState, SectionReport, StoreError};
use super::{Read, Table, Write};
use crate::finding::{Checkpoint, Validators};
use crate::record::ContentHash;
use crate::task::TaskId;

/// Where a payload lies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::store) struct Place {
    pub(in crate::store) segment: u32,
    pub(in crate::store) offset: u64,
    pub(in crate::store) len: u32,
}

/// A record, live or deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct Entry {
    pub(in crate::store) marks: Marks,
    pub(in crate::store) previous_hash: Option<ContentHash>,
    /// The number of the run that last changed it.
    pub(in crate::store) run: u64,
    pub(in crate::store) place: Place,
}

const DELETED: u8 = 1;
const HAS_PREVIOUS: u8 = 2;

impl Entry {
    /// How long an entry is in its table.
    pub(in crate::store) const BYTES: usize = 81;

    pub(in crate::store) fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (flags, rest) = bytes.split_at_mut(1);
        flags[0] = if self.marks.deleted { DELETED } else { 0 };
        flags[0] |= if self.previous_hash.is_some() { HAS_PREVIOUS } else { 0 };
        let mut at = 0;
        let mut put = |part: &[u8]| {
            rest[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        };
        put(&self.marks.hash.0);
        put(&self.previous_hash.map_or([0; 16], |hash| hash.0));
        for number in [self.marks.first_seen, self.marks.last_seen, self.marks.changed_in, self.run, self.place.offset]
        {
            put(&number.to_be_bytes());
        }
        put(&self.place.segment.to_be_bytes());
        put(&self.place.len.to_be_bytes());
        bytes
    }

    /// `None` if these bytes are no entry.
    pub(in crate::store) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&flags, mut rest) = bytes.split_first()?;
        if bytes.len() != Self::BYTES {
            return None;
        }
        let hash = ContentHash(take(&mut rest)?);
        let previous = ContentHash(take(&mut rest)?);
        let first_seen = u64::from_be_bytes(take(&mut rest)?);
        let last_seen = u64::from_be_bytes(take(&mut rest)?);
        let changed_in = u64::from_be_bytes(take(&mut rest)?);
        let run = u64::from_be_bytes(take(&mut rest)?);
        let offset = u64::from_be_bytes(take(&mut rest)?);
        let segment = u32::from_be_bytes(take(&mut rest)?);
        let len = u32::from_be_bytes(take(&mut rest)?);
        Some(Self {
            marks: Marks { hash, first_seen, last_seen, changed_in, deleted: flags & DELETED != 0 },
            previous_hash: (flags & HAS_PREVIOUS != 0).then_some(previous),
            run,
            place: Place { segment, offset, len },
        })
    }
}

/// Cuts a fixed number of bytes off the front.
pub(in crate::store) fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*head)
}

/// A Catalog.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct CatalogRow {
    /// Runs begun so far.
    pub(super) runs: u64,
    /// The number of the one that is not finished.
    pub(super) unfinished: Option<u64>,
    /// Entries of the change feed so far.
    pub(super) sequence: u64,
}

/// A run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RunRow {
    /// Short, for the keys of other tables.
    pub(super) key: u32,
    /// Without `spec`: that can be large, and this row is read with every commit.
    pub(super) state: RunState,
    pub(super) is_finished: bool,
}

/// A section in a run: made when its first task is recorded.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct TraversalRow {
    /// 0: not opened.
    pub(super) number: u64,
    pub(super) attempt: u64,
    /// The process that opened it last.
    pub(super) session: u64,
    /// Tasks not settled.
    pub(super) pending: u64,
    pub(super) tally: Tally,
    /// Its first task: where a second look begins.
    #[serde(default)]
    pub(super) root: Option<TaskId>,
    /// It is being looked at a second time.
    #[serde(default)]
    pub(super) looks_again: bool,
    /// Set while it is being closed: judged, and perhaps not all is swept yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) closing: Option<Judged>,
    /// Set when it is closed.
    pub(super) report: Option<SectionReport>,
}

/// What a traversal was judged by, and how. A sweep may be interrupted: whoever goes on must not judge what is left of the
/// records, but carry out what was decided when all were there.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Judged {
    pub(super) census: Census,
    pub(super) verdict: Verdict,
}

/// A sweep of a section that is gone, under way: the run that decided it, the number it is told by, and how many records there
/// were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sweeping {
    pub(super) run: u64,
    pub(super) number: u64,
    pub(super) records: u64,
}

/// A section.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct SectionRow {
    /// Short, for the keys of other tables.
    pub(super) key: u32,
    pub(super) number: u64,
    pub(super) last_complete: u64,
    /// Live records.
    pub(super) records: u64,
    /// Live records and tombstones are somewhere in the records table.
    pub(super) has_entries: bool,
    /// The sweep that waits for a person: the number to approve, and records that would go.
    pub(super) held: Option<(u64, u64)>,
    /// The last traversal that was told "not modified": it saw every record there was.
    pub(super) all_seen_in: u64,
    pub(super) validators: Option<Validators>,
    pub(super) checkpoint: Option<Checkpoint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sweeping: Option<Sweeping>,
}

impl SectionRow {
    /// A record's marks, with the sightings that only the section remembers.
    pub(super) fn marks(&self, entry: &Entry) -> Marks {
        Marks { last_seen: entry.marks.last_seen.max(self.all_seen_in), ..entry.marks }
    }
}

/// A node.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct NodeRow {
    /// What is remembered. Its records are counted in its sections.
    pub(super) state: NodeState,
    /// The run that said so, and what was remembered before it: a run that is resumed may say it again.
    pub(super) run: u64,
    pub(super) earlier: NodeState,
}

/// Reads a JSON row.
pub(super) fn load<T: DeserializeOwned>(tables: &impl Read, table: Table, key: &[u8]) -> Result<Option<T>, StoreError> {
    match tables.get(table, key, |bytes| serde_json::from_slice(bytes))? {
        None => Ok(None),
        Some(Ok(row)) => Ok(Some(row)),
        Some(Err(error)) => Err(tables.damaged(&format!("a row of {table:?} can't be read ({error})"))),
    }
}

/// Writes a JSON row.
pub(super) fn save(tables: &mut impl Write, table: Table, key: &[u8], row: &impl Serialize) -> Result<(), StoreError> {
    match serde_json::to_vec(row) {
        Ok(bytes) => tables.put(table, key, &bytes),
        Err(error) => Err(tables.damaged(&format!("a row of {table:?} can't be written ({error})"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_was_written_and_nothing_else_is_read() {
        let marks = Marks { hash: ContentHash([7; 16]), first_seen: 1, last_seen: 3, changed_in: 2, deleted: true };
        let place = Place { segment: 4, offset: 1 << 40, len: 5 };
        for previous_hash in [None, Some(ContentHash([0; 16])), Some(ContentHash([9; 16]))] {
            let entry = Entry { marks, previous_hash, run: 6, place };
            let bytes = entry.encode();
            assert_eq!(Entry::decode(&bytes), Some(entry));
            assert_eq!(Entry::decode(&bytes[..80]), None);
        }
        assert_eq!(Entry::decode(&[]), None);
    }
}
