//! Sections, their short keys, and what they list.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use super::rows::{SectionRow, load, save};
use super::{Read, Table, Write, keys};
use crate::store::StoreError;
use crate::task::{CatalogName, NodeName, SectionKey};

pub(super) fn section(
    tables: &impl Read,
    catalog: &CatalogName,
    section: &SectionKey,
) -> Result<(Vec<u8>, Option<SectionRow>), StoreError> {
    let key = keys::section(catalog, section);
    let row = load(tables, Table::Sections, &key)?;
    Ok((key, row))
}

pub(super) fn section_or_new(
    tables: &mut impl Write,
    catalog: &CatalogName,
    key: &SectionKey,
) -> Result<(Vec<u8>, SectionRow), StoreError> {
    let (key, row) = section(tables, catalog, key)?;
    if let Some(row) = row {
        return Ok((key, row));
    }
    let row = SectionRow { key: next_key(tables, b"sections")?, ..SectionRow::default() };
    tables.put(Table::SectionNames, &row.key.to_be_bytes(), &key)?;
    save(tables, Table::Sections, &key, &row)?;
    Ok((key, row))
}

/// A section by its short key.
pub(super) fn section_by_key(tables: &impl Read, short: u32) -> Result<(Vec<u8>, SectionRow), StoreError> {
    let key = tables.get(Table::SectionNames, &short.to_be_bytes(), <[u8]>::to_vec)?;
    let key = key.ok_or_else(|| tables.damaged("a section has no name"))?;
    let row = load(tables, Table::Sections, &key)?.ok_or_else(|| tables.damaged("a named section is missing"))?;
    Ok((key, row))
}

/// A section's name by its short key.
pub(super) fn name_of(tables: &impl Read, short: u32) -> Result<SectionKey, StoreError> {
    let name = tables.get(Table::SectionNames, &short.to_be_bytes(), keys::parse_section)?;
    name.flatten().ok_or_else(|| tables.damaged("a section has no name"))
}

/// The next number of a sequence, from 1.
pub(super) fn next_key(tables: &mut impl Write, sequence: &[u8]) -> Result<u32, StoreError> {
    let last = tables.get(Table::Meta, sequence, |bytes| bytes.try_into().map_or(0, u32::from_be_bytes))?;
    let next = last.unwrap_or(0).checked_add(1).ok_or_else(|| tables.damaged("all short keys are used up"))?;
    tables.put(Table::Meta, sequence, &next.to_be_bytes())?;
    Ok(next)
}

/// Visits the sections of a node (or of the whole Catalog, with its prefix) in order.
pub(super) fn each_section(
    tables: &impl Read,
    prefix: &[u8],
    visit: &mut dyn FnMut(SectionKey, SectionRow) -> Result<ControlFlow<()>, StoreError>,
) -> Result<(), StoreError> {
    tables.scan(Table::Sections, prefix, None, &mut |key, value| {
        let section = keys::parse_section(key).ok_or_else(|| tables.damaged("a section's name can't be read"))?;
        let row = serde_json::from_slice(value).map_err(|_| tables.damaged("a section can't be read"))?;
        visit(section, row)
    })
}

/// Remembers that a traversal lists these sections of its node.
pub(super) fn list(
    tables: &mut impl Write,
    parent: &SectionKey,
    parent_key: u32,
    number: u64,
    listed: &[SectionKey],
) -> Result<(), StoreError> {
    for child in listed.iter().filter(|child| child.node == parent.node) {
        let key = keys::in_section(parent_key, child.section.as_str());
        tables.put(Table::Edges, &key, &number.to_be_bytes())?;
    }
    Ok(())
}

/// The sections that a section lists, with the traversal that last did.
pub(super) fn listed(tables: &impl Read, parent_key: u32) -> Result<Vec<(Vec<u8>, u64)>, StoreError> {
    let mut edges = Vec::new();
    tables.scan(Table::Edges, &parent_key.to_be_bytes(), None, &mut |key, value| {
        let number = value.try_into().map(u64::from_be_bytes).map_err(|_| tables.damaged("a listing can't be read"))?;
        edges.push((key.to_vec(), number));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(edges)
}

/// The sections of a node that can be reached from its root over what sections list. Complete parents have forgotten
/// what they no longer list, partial ones have not: what can't be reached is not listed by anybody who would know.
pub(super) fn reachable(
    tables: &impl Read,
    catalog: &CatalogName,
    node: &NodeName,
) -> Result<BTreeSet<SectionKey>, StoreError> {
    let mut short_keys = BTreeMap::new();
    each_section(tables, &keys::of_node(catalog, node), &mut |section, row| {
        short_keys.insert(section, row.key);
        Ok(ControlFlow::Continue(()))
    })?;
    let mut reached = BTreeSet::new();
    let mut to_visit = vec![SectionKey::root_of(node.clone())];
    while let Some(section) = to_visit.pop() {
        let short = short_keys.get(&section).copied();
        if !reached.insert(section) {
            continue;
        }
        for (edge, _) in short.map(|short| listed(tables, short)).transpose()?.unwrap_or_default() {
            let path = std::str::from_utf8(&edge[4..]).map_err(|_| tables.damaged("a listing can't be read"))?;
            to_visit.push(SectionKey { node: node.clone(), section: path.into() });
        }
    }
    Ok(reached)
}
