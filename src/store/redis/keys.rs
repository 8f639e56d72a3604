//! The names of all keys. They begin with `trawler:{INSTANCE}:store:1:`, which the functions put in front.
//!
//! | key | type | content |
//! |---|---|---|
//! | `i` | hash | `epoch`; `sessions`: how many there have been |
//! | `s` | hash | run → the latest session that wrote to it |
//! | `w:<handle>` | hash | lane → the number of its last write; goes a week after the last one |
//! | `h:<table>[:<group>]` | hash | the engine's tables: the rest of the key → the value |
//! | `x:<table>[:<group>]` | sorted set | the same keys in order, for tables that are gone through |
//! | `h:payloads` | hash | place → payload |
//! | `sequences` | hash | `changes:<Catalog>` → the last number of its feed |
//! | `h:tries:<run>` | hash | task → what it went through in vain |
//! | `h:followed:<run>`, `…:order` | hash, list | task → what followed from it; the tasks in their order |
//!
//! What belongs together lies in one hash (a group): the records and edges of a section, the tasks and traversals of a run,
//! the sections, nodes and changes of a Catalog. So a group can be dropped in one call.

use super::super::engine::Table;
use super::super::engine::rows::Place;
use crate::task::{RunId, TaskId};

/// The layout. Raised when rows change their meaning.
pub(super) const SCHEMA: u32 = 1;

/// The hash of all payloads.
pub(super) const PAYLOADS: &str = "h:payloads";

/// A field of a hash.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Slot {
    /// The hash's name, without what stands in front of all keys.
    pub(super) hash: String,
    pub(super) field: Vec<u8>,
    /// Its keys are kept in order, too.
    pub(super) is_indexed: bool,
    /// It must be as it was read when the step is written. Records need not: whoever changes one changes its section's row, or
    /// that of its traversal, which are.
    pub(super) is_checked: bool,
}

impl Slot {
    pub(super) fn of(table: Table, key: &[u8]) -> Self {
        let (group, field) = split(table, key);
        Self {
            hash: hash_of(table, group),
            field: field.to_vec(),
            is_indexed: is_indexed(table),
            is_checked: !matches!(table, Table::Records | Table::Changes),
        }
    }

    /// What a task went through.
    pub(super) fn tries(run: &RunId, task: TaskId) -> Self {
        Self { hash: tries(run), field: task.0.to_vec(), is_indexed: false, is_checked: true }
    }

    /// What followed from a task. Never changes once it is there.
    pub(super) fn followed(run: &RunId, task: TaskId) -> Self {
        Self { hash: followed(run), field: task.0.to_vec(), is_indexed: false, is_checked: false }
    }
}

/// Where the order of a hash's keys is kept.
pub(super) fn index_of(hash: &str) -> String {
    format!("x:{}", hash.strip_prefix("h:").unwrap_or(hash))
}

pub(super) fn tries(run: &RunId) -> String {
    format!("h:tries:{run}")
}

pub(super) fn followed(run: &RunId) -> String {
    format!("h:followed:{run}")
}

/// The hash of a table's group, with the bytes of the group and those that are left of the key, or of a prefix.
pub(super) fn group(table: Table, key: &[u8]) -> (String, &[u8], &[u8]) {
    let (group, rest) = split(table, key);
    (hash_of(table, group), group, rest)
}

/// The field of a payload.
pub(super) fn payload(place: Place) -> Vec<u8> {
    [place.offset.to_be_bytes().as_slice(), &place.segment.to_be_bytes()].concat()
}

/// What sorted sets call the bytes behind all that begin with `prefix`.
pub(super) fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return [b"(", end.as_slice()].concat();
        }
    }
    b"+".to_vec()
}

fn hash_of(table: Table, group: &[u8]) -> String {
    let (_, name) = Table::ALL[table as usize];
    match table {
        Table::Pending | Table::Settled | Table::Traversals | Table::Edges | Table::Records => {
            format!("h:{name}:{}", data_encoding::HEXLOWER.encode(group))
        }
        Table::Sections | Table::Nodes | Table::Changes => {
            let group = group.strip_suffix(&[0]).unwrap_or(group);
            format!("h:{name}:{}", String::from_utf8_lossy(group))
        }
        _ => format!("h:{name}"),
    }
}

fn split(table: Table, key: &[u8]) -> (&[u8], &[u8]) {
    let length = match table {
        Table::Pending | Table::Settled | Table::Traversals | Table::Edges | Table::Records => key.len().min(4),
        Table::Sections | Table::Nodes | Table::Changes => {
            key.iter().position(|&byte| byte == 0).map_or(key.len(), |end| end + 1)
        }
        _ => 0,
    };
    key.split_at(length)
}

/// Settled tasks are looked up, and dropped all at once; the others are never gone through.
fn is_indexed(table: Table) -> bool {
    !matches!(
        table,
        Table::Meta | Table::Catalogs | Table::Runs | Table::RunTexts | Table::SectionNames | Table::Settled
    )
}
