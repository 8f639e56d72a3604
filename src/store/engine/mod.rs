//! What a store does, over ordered tables of bytes: the adapters that keep such tables (memory, files) share it.
//!
//! An adapter gives [`Read`] and [`Write`]; every function here is one step of it. A function that refuses does so before
//! it writes anything, so that an adapter may put many steps in one transaction.

pub(super) mod close;
pub(super) mod commit;
mod feed;
mod keys;
pub(super) mod needs;
pub(super) mod nodes;
pub(super) mod origins;
pub(super) mod read;
pub(super) mod rows;
pub(super) mod runs;
mod sections;
pub(super) mod spending;

use std::ops::ControlFlow;

use super::StoreError;
use crate::task::CatalogName;
use rows::{Entry, Place};

/// The tables. Keys are described in `keys`, values in `rows`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Table {
    Meta,
    Catalogs,
    Runs,
    RunTexts,
    Pending,
    Settled,
    Traversals,
    Sections,
    SectionNames,
    Edges,
    Nodes,
    Records,
    Changes,
    Spendings,
    ClosedOrigins,
}

impl Table {
    /// All of them, in the order of their numbers.
    pub(super) const ALL: [(Self, &'static str); 15] = [
        (Self::Meta, "meta"),
        (Self::Catalogs, "catalogs"),
        (Self::Runs, "runs"),
        (Self::RunTexts, "run_texts"),
        (Self::Pending, "pending"),
        (Self::Settled, "settled"),
        (Self::Traversals, "traversals"),
        (Self::Sections, "sections"),
        (Self::SectionNames, "section_names"),
        (Self::Edges, "edges"),
        (Self::Nodes, "nodes"),
        (Self::Records, "records"),
        (Self::Changes, "changes"),
        (Self::Spendings, "spendings"),
        (Self::ClosedOrigins, "closed_origins"),
    ];
}

/// Called with each key and value of a scan; `Break` ends it.
pub(super) type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, StoreError>;

/// Reads one consistent state.
pub(super) trait Read {
    /// What `read` makes of the value, if there is one.
    fn get<T>(&self, table: Table, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>, StoreError>;

    /// Visits the entries whose keys start with `prefix` and come after `after`, in order.
    fn scan(&self, table: Table, prefix: &[u8], after: Option<&[u8]>, visit: Visit<'_>) -> Result<(), StoreError>;

    /// A state that contradicts itself.
    fn damaged(&self, why: &str) -> StoreError;
}

/// Writes one step.
pub(super) trait Write: Read {
    /// Which process this is: grows each time the store is opened.
    fn session(&self) -> u64;

    /// Puts a value in the place of the one before.
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError>;

    /// Shows the value, and puts what `change` gives for it, if anything, in its place: one way through the table instead
    /// of two. Returns whether there is a value.
    fn update(
        &mut self,
        table: Table,
        key: &[u8],
        change: impl FnOnce(&[u8]) -> Option<[u8; Entry::BYTES]>,
    ) -> Result<bool, StoreError>;

    /// Removes an entry; returns whether there was one.
    fn remove(&mut self, table: Table, key: &[u8]) -> Result<bool, StoreError>;

    /// Keeps a payload.
    fn append(&mut self, payload: &[u8]) -> Result<Place, StoreError>;

    /// Gives a payload up.
    fn release(&mut self, place: Place) -> Result<(), StoreError>;

    /// Adds changes of one step to a Catalog's feed, with the next sequence numbers: the block is the run's number, how many
    /// there are, and the entries.
    fn append_changes(&mut self, catalog: &CatalogName, count: u64, block: &[u8]) -> Result<(), StoreError>
    where
        Self: Sized,
    {
        feed::append(self, catalog, count, block)
    }

    /// Removes every entry whose key starts with `prefix`.
    fn clear(&mut self, table: Table, prefix: &[u8]) -> Result<(), StoreError>
    where
        Self: Sized,
    {
        remove_all(self, table, prefix)
    }

    /// A place at which a step over many entries may be interrupted: what it has written so far says the same after a crash,
    /// and whoever begins the step again goes on from there. An adapter with transactions of bounded size ends one here; one
    /// in which a step is a transaction has nothing to do.
    fn pause(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// How many entries a step holds in memory when it goes over many.
pub(super) const CHUNK: usize = 1024;

/// Removes every entry whose key starts with `prefix`.
fn remove_all(tables: &mut impl Write, table: Table, prefix: &[u8]) -> Result<(), StoreError> {
    loop {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        tables.scan(table, prefix, None, &mut |key, _| {
            keys.push(key.to_vec());
            Ok(if keys.len() < CHUNK { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        for key in &keys {
            tables.remove(table, key)?;
        }
        if keys.len() < CHUNK {
            return Ok(());
        }
    }
}
