//! What the store tells.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use bytes::Bytes;

pub(in crate::store) use super::feed::changes;
use super::rows::{Entry, NodeRow, RunRow, SectionRow, load};
use super::{Read, Table, keys, sections};
use crate::store::judge::Marks;
use crate::store::{NodeState, RecordFilter, RecordKey, SectionState, StoreError, StoredRecord};
use crate::task::{CatalogName, NodeName, SectionKey};

/// A live record, without its payload.
#[derive(Debug, Clone)]
pub(in crate::store) struct Found {
    pub(in crate::store) key: RecordKey,
    pub(in crate::store) entry: Entry,
}

impl Found {
    pub(in crate::store) fn with_payload(self, payload: Bytes) -> StoredRecord {
        let Entry { marks: Marks { hash, first_seen, last_seen, changed_in, .. }, previous_hash, .. } = self.entry;
        StoredRecord { key: self.key, hash, previous_hash, first_seen, last_seen, changed_in, payload }
    }
}

pub(in crate::store) fn nodes(
    tables: &impl Read,
    catalog: &CatalogName,
) -> Result<BTreeMap<NodeName, NodeState>, StoreError> {
    let mut nodes: BTreeMap<NodeName, NodeState> = BTreeMap::new();
    let prefix = keys::of_catalog(catalog);
    tables.scan(Table::Nodes, &prefix, None, &mut |key, value| {
        let name = std::str::from_utf8(&key[prefix.len()..]);
        let row = serde_json::from_slice::<NodeRow>(value);
        let (Ok(name), Ok(row)) = (name, row) else { return Err(tables.damaged("a node can't be read")) };
        nodes.insert(NodeName::from(name), row.state);
        Ok(ControlFlow::Continue(()))
    })?;
    sections::each_section(tables, &prefix, &mut |section, row| {
        if row.records > 0 {
            nodes.entry(section.node).or_default().records += row.records;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(nodes)
}

pub(in crate::store) fn sections(
    tables: &impl Read,
    catalog: &CatalogName,
    node: &NodeName,
) -> Result<Vec<SectionState>, StoreError> {
    let mut states = Vec::new();
    sections::each_section(tables, &keys::of_node(catalog, node), &mut |section, row| {
        let SectionRow { number, last_complete, records, held, .. } = row;
        states.push(SectionState { section, number, last_complete, records, held });
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(states)
}

pub(in crate::store) fn get(
    tables: &impl Read,
    catalog: &CatalogName,
    key: &RecordKey,
) -> Result<Option<Found>, StoreError> {
    let (_, Some(section)) = sections::section(tables, catalog, &key.section)? else { return Ok(None) };
    let entry = tables.get(Table::Records, &keys::in_section(section.key, &key.id), Entry::decode)?;
    let Some(entry) = entry else { return Ok(None) };
    let entry = entry.ok_or_else(|| tables.damaged("a record's entry can't be read"))?;
    Ok(found(&section, &key.section, &key.id, entry))
}

pub(in crate::store) fn records(
    tables: &impl Read,
    catalog: &CatalogName,
    filter: &RecordFilter,
    after: Option<&RecordKey>,
    limit: usize,
) -> Result<Vec<Found>, StoreError> {
    let changed_in = match &filter.changed_in {
        None => None,
        Some(run) => match load::<RunRow>(tables, Table::Runs, run.as_str().as_bytes())? {
            Some(row) if row.state.catalog == *catalog => Some(row.state.number),
            _ => return Ok(Vec::new()),
        },
    };
    let mut search = Search { tables, changed_in, limit, records: Vec::new() };
    let prefix = match &filter.node {
        Some(node) => keys::of_node(catalog, node),
        None => keys::of_catalog(catalog),
    };
    let mut start = None;
    if let Some(after) = after {
        let (key, row) = sections::section(tables, catalog, &after.section)?;
        if let Some(row) = row.filter(|_| key.starts_with(&prefix)) {
            search.section(&after.section, &row, Some(&after.id))?;
        }
        start = Some(key);
    }
    tables.scan(Table::Sections, &prefix, start.as_deref(), &mut |key, value| {
        if search.is_full() {
            return Ok(ControlFlow::Break(()));
        }
        let section = keys::parse_section(key).ok_or_else(|| tables.damaged("a section's name can't be read"))?;
        let row = serde_json::from_slice(value).map_err(|_| tables.damaged("a section can't be read"))?;
        search.section(&section, &row, None)?;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(search.records)
}

struct Search<'a, T> {
    tables: &'a T,
    changed_in: Option<u64>,
    limit: usize,
    records: Vec<Found>,
}

impl<T: Read> Search<'_, T> {
    fn is_full(&self) -> bool {
        self.records.len() >= self.limit
    }

    fn section(&mut self, name: &SectionKey, row: &SectionRow, after: Option<&str>) -> Result<(), StoreError> {
        if row.records == 0 || self.is_full() {
            return Ok(());
        }
        let after = after.map(|id| keys::in_section(row.key, id));
        let tables = self.tables;
        tables.scan(Table::Records, &row.key.to_be_bytes(), after.as_deref(), &mut |key, value| {
            let entry = Entry::decode(value).ok_or_else(|| tables.damaged("a record's entry can't be read"))?;
            if self.changed_in.is_none_or(|run| run == entry.run) {
                let id = std::str::from_utf8(&key[4..]).map_err(|_| tables.damaged("a record's id can't be read"))?;
                self.records.extend(found(row, name, id, entry));
            }
            Ok(if self.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })
    }
}

fn found(row: &SectionRow, section: &SectionKey, id: &str, entry: Entry) -> Option<Found> {
    let Marks { deleted, .. } = entry.marks;
    let entry = Entry { marks: row.marks(&entry), ..entry };
    (!deleted).then(|| Found { key: RecordKey { section: section.clone(), id: id.to_owned() }, entry })
}
