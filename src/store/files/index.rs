//! The index: the engine's tables in an embedded database.

use std::fs::File;
use std::io;
use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::backends::FileBackend;
use redb::{
    Database, ReadOnlyDatabase, ReadOnlyTable, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition,
};

use super::super::StoreError;
use super::super::engine::{Read, Table, Visit};
use super::errors;

/// Pages of the index kept in memory, at most.
pub(super) const CACHE_BYTES: usize = 8 << 20;

/// How keys and values are seen by the database.
pub(super) type Definition = TableDefinition<'static, &'static [u8], &'static [u8]>;

/// Segments and what of them is live; see [`super::segments`].
pub(super) const SEGMENTS: Definition = Definition::new("segments");

/// The file of the index. It is synced only when the writer says so: what is written survives the process anyway, and
/// waiting for the disk at each commit would make it the bound of every crawl (ADR 0004).
#[derive(Debug)]
pub(super) struct IndexFile {
    file: FileBackend,
    to_disk: Arc<AtomicBool>,
}

impl IndexFile {
    pub(super) fn new(file: File, to_disk: Arc<AtomicBool>) -> Result<Self, redb::DatabaseError> {
        Ok(Self { file: FileBackend::new(file)?, to_disk })
    }
}

impl StorageBackend for IndexFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.to_disk.load(Ordering::Relaxed) { self.file.sync_data() } else { Ok(()) }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}

/// The database, open for reading.
pub(super) struct Index {
    path: PathBuf,
    database: Opened,
}

enum Opened {
    Writable(Arc<Database>),
    ReadOnly(ReadOnlyDatabase),
}

impl Index {
    pub(super) fn writable(path: PathBuf, database: Arc<Database>) -> Self {
        Self { path, database: Opened::Writable(database) }
    }

    pub(super) fn read_only(path: PathBuf, database: ReadOnlyDatabase) -> Self {
        Self { path, database: Opened::ReadOnly(database) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The state after the last commit.
    pub(super) fn read(&self) -> Result<ReadTables, StoreError> {
        let failed = |error: redb::Error| errors::index("read", &self.path, error);
        let transaction = match &self.database {
            Opened::Writable(database) => database.begin_read(),
            Opened::ReadOnly(database) => database.begin_read(),
        };
        let transaction = transaction.map_err(|error| failed(error.into()))?;
        let open = |(_, name): (Table, &'static str)| transaction.open_table(Definition::new(name));
        let tables: Result<Vec<_>, _> = Table::ALL.into_iter().map(open).collect();
        Ok(ReadTables { path: self.path.clone(), tables: tables.map_err(|error| failed(error.into()))? })
    }
}

/// One consistent state.
pub(super) struct ReadTables {
    path: PathBuf,
    tables: Vec<ReadOnlyTable<&'static [u8], &'static [u8]>>,
}

impl Read for ReadTables {
    fn get<T>(&self, table: Table, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>, StoreError> {
        get(&self.path, &self.tables[table as usize], key, read)
    }

    fn scan(&self, table: Table, prefix: &[u8], after: Option<&[u8]>, visit: Visit<'_>) -> Result<(), StoreError> {
        scan(&self.path, &self.tables[table as usize], prefix, after, visit)
    }

    fn damaged(&self, why: &str) -> StoreError {
        errors::unusable(&self.path, why)
    }
}

pub(super) fn get<T>(
    path: &Path,
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    key: &[u8],
    read: impl FnOnce(&[u8]) -> T,
) -> Result<Option<T>, StoreError> {
    match table.get(key) {
        Ok(value) => Ok(value.map(|value| read(value.value()))),
        Err(error) => Err(errors::index("read", path, error)),
    }
}

pub(super) fn scan(
    path: &Path,
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    prefix: &[u8],
    after: Option<&[u8]>,
    visit: Visit<'_>,
) -> Result<(), StoreError> {
    let start = match after {
        Some(after) if after >= prefix => Bound::Excluded(after),
        _ => Bound::Included(prefix),
    };
    let failed = |error| errors::index("read", path, error);
    for entry in table.range::<&[u8]>((start, Bound::Unbounded)).map_err(failed)? {
        let (key, value) = entry.map_err(failed)?;
        if !key.value().starts_with(prefix) || visit(key.value(), value.value())? == ControlFlow::Break(()) {
            break;
        }
    }
    Ok(())
}
