//! The keys of the tables. Numbers are big-endian, so that the order of the bytes is theirs.
//!
//! | table | key |
//! |---|---|
//! | meta | a word |
//! | catalogs | Catalog |
//! | runs | run id |
//! | run_texts | run id, 0, `spec` or `report` |
//! | pending, settled | run's key, task id |
//! | traversals | run's key, section's key |
//! | sections | Catalog, 0, node, 0, section |
//! | section_names | section's key |
//! | edges | section's key, the path of a section that it lists |
//! | nodes | Catalog, 0, node |
//! | records | section's key, record id |
//! | changes | Catalog, 0, last sequence of the block |
//! | spendings | level, second at which the stretch starts, node |
//! | closed_origins | origin |

use crate::task::{CatalogName, NodeName, RunId, SectionKey, TaskId};

/// What a run was started with.
pub(super) fn run_spec(run: &RunId) -> Vec<u8> {
    [run.as_str().as_bytes(), b"\0spec"].concat()
}

/// What a run came to.
pub(super) fn run_report(run: &RunId) -> Vec<u8> {
    [run.as_str().as_bytes(), b"\0report"].concat()
}

pub(super) fn task(run: u32, task: TaskId) -> [u8; 20] {
    let mut key = [0; 20];
    key[..4].copy_from_slice(&run.to_be_bytes());
    key[4..].copy_from_slice(&task.0);
    key
}

pub(super) fn traversal(run: u32, section: u32) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&run.to_be_bytes());
    key[4..].copy_from_slice(&section.to_be_bytes());
    key
}

/// The start of the keys of all that belongs to a Catalog.
pub(super) fn of_catalog(catalog: &CatalogName) -> Vec<u8> {
    [catalog.as_str().as_bytes(), &[0]].concat()
}

pub(super) fn node(catalog: &CatalogName, node: &NodeName) -> Vec<u8> {
    [catalog.as_str().as_bytes(), &[0], node.as_str().as_bytes()].concat()
}

/// The start of the keys of a node's sections.
pub(super) fn of_node(catalog: &CatalogName, node: &NodeName) -> Vec<u8> {
    [catalog.as_str().as_bytes(), &[0], node.as_str().as_bytes(), &[0]].concat()
}

pub(super) fn section(catalog: &CatalogName, section: &SectionKey) -> Vec<u8> {
    let mut key = of_node(catalog, &section.node);
    key.extend_from_slice(section.section.as_str().as_bytes());
    key
}

/// The section that a key of the sections table names.
pub(super) fn parse_section(key: &[u8]) -> Option<SectionKey> {
    let mut parts = key.splitn(3, |&b| b == 0).skip(1).map(|part| std::str::from_utf8(part).ok());
    let (node, section) = (parts.next()??, parts.next()??);
    Some(SectionKey { node: node.into(), section: section.into() })
}

/// The start of the keys of a section's records or edges, followed by what tells them apart.
pub(super) fn in_section(section: u32, rest: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(4 + rest.len());
    write_in_section(&mut key, section, rest);
    key
}

/// The same, into a buffer that is used again.
pub(super) fn write_in_section(key: &mut Vec<u8>, section: u32, rest: &str) {
    key.clear();
    key.extend_from_slice(&section.to_be_bytes());
    key.extend_from_slice(rest.as_bytes());
}

pub(super) fn change(catalog: &CatalogName, sequence: u64) -> Vec<u8> {
    let mut key = of_catalog(catalog);
    key.extend_from_slice(&sequence.to_be_bytes());
    key
}

/// The least key of the stretches of a level that start at this second or later.
pub(super) fn spending_start(level: u8, second: i64) -> Vec<u8> {
    let second = u64::try_from(second).unwrap_or(0);
    [&[level], second.to_be_bytes().as_slice()].concat()
}

pub(super) fn spending(level: u8, second: i64, node: &NodeName) -> Vec<u8> {
    [&spending_start(level, second), node.as_str().as_bytes()].concat()
}

/// The node of which a key of the spendings table speaks.
pub(super) fn parse_spending(key: &[u8]) -> Option<NodeName> {
    std::str::from_utf8(key.get(9..)?).ok().map(NodeName::from)
}
