//! The change feed: one block for the changes of one step, so that a change costs a few bytes and no look-up.

use std::ops::ControlFlow;

use super::rows::{CatalogRow, RunRow, save, take};
use super::runs::catalog_row;
use super::{Read, Table, Write, keys, sections};
use crate::store::{Change, ChangeKind, RecordKey, StoreError};
use crate::task::{CatalogName, RunId, SectionKey};

/// Changes of one step, gathered.
#[derive(Debug, Default)]
pub(super) struct Feed {
    entries: Vec<u8>,
    count: u64,
}

impl Feed {
    pub(super) fn push(&mut self, kind: ChangeKind, section: u32, id: &str) {
        self.entries.push(match kind {
            ChangeKind::Added => 0,
            ChangeKind::Updated => 1,
            ChangeKind::Deleted => 2,
        });
        self.entries.extend_from_slice(&section.to_be_bytes());
        self.entries.extend_from_slice(&(id.len() as u64).to_be_bytes());
        self.entries.extend_from_slice(id.as_bytes());
        self.count += 1;
    }

    /// Writes the block, if there is anything in it.
    pub(super) fn write(self, tables: &mut impl Write, run: &RunRow) -> Result<(), StoreError> {
        if self.count == 0 {
            return Ok(());
        }
        let mut block = Vec::with_capacity(16 + self.entries.len());
        block.extend_from_slice(&run.state.number.to_be_bytes());
        block.extend_from_slice(&self.count.to_be_bytes());
        block.extend_from_slice(&self.entries);
        tables.append_changes(&run.state.catalog, self.count, &block)
    }
}

/// Numbers a block by the Catalog's row.
pub(super) fn append(
    tables: &mut impl Write,
    catalog: &CatalogName,
    count: u64,
    block: &[u8],
) -> Result<(), StoreError> {
    let row = catalog_row(tables, catalog)?;
    let sequence = row.sequence + count;
    save(tables, Table::Catalogs, catalog.as_str().as_bytes(), &CatalogRow { sequence, ..row })?;
    tables.put(Table::Changes, &keys::change(catalog, sequence), block)
}

pub(in crate::store) fn changes(
    tables: &impl Read,
    catalog: &CatalogName,
    after: u64,
    limit: usize,
) -> Result<Vec<Change>, StoreError> {
    let mut changes = Vec::new();
    let mut named: Option<(u32, SectionKey)> = None;
    // A block's key is its last sequence, so the first block beyond `after` holds what comes next.
    let start = keys::change(catalog, after);
    tables.scan(Table::Changes, &keys::of_catalog(catalog), Some(&start), &mut |key, block| {
        let damaged = || tables.damaged("the change feed can't be read");
        let mut block = Block::open(key, block).ok_or_else(damaged)?;
        let run = RunId::from(format!("{catalog}-{}", block.run));
        while block.left > 0 && changes.len() < limit {
            let (sequence, kind, section, id) = block.next().ok_or_else(damaged)?;
            if sequence <= after {
                continue;
            }
            let name = match &named {
                Some((of, name)) if *of == section => name.clone(),
                _ => sections::name_of(tables, section)?,
            };
            named = Some((section, name.clone()));
            changes.push(Change {
                sequence,
                kind,
                key: RecordKey { section: name, id: id.to_owned() },
                run: run.clone(),
            });
        }
        Ok(if changes.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    Ok(changes)
}

/// A block being read.
struct Block<'a> {
    run: u64,
    last: u64,
    left: u64,
    rest: &'a [u8],
}

impl<'a> Block<'a> {
    fn open(key: &[u8], mut rest: &'a [u8]) -> Option<Self> {
        let last = u64::from_be_bytes(*key.last_chunk()?);
        Some(Self { run: u64::from_be_bytes(take(&mut rest)?), last, left: u64::from_be_bytes(take(&mut rest)?), rest })
    }

    fn next(&mut self) -> Option<(u64, ChangeKind, u32, &'a str)> {
        let kind = match take::<1>(&mut self.rest)? {
            [0] => ChangeKind::Added,
            [1] => ChangeKind::Updated,
            [2] => ChangeKind::Deleted,
            _ => return None,
        };
        let section = u32::from_be_bytes(take(&mut self.rest)?);
        let len = usize::try_from(u64::from_be_bytes(take(&mut self.rest)?)).ok()?;
        let (id, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        self.left -= 1;
        Some((self.last - self.left, kind, section, std::str::from_utf8(id).ok()?))
    }
}
