//! Opening a store: the lock, the schema, and what a crash left over.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use redb::{Builder, Database, DatabaseError, ReadOnlyDatabase, ReadableDatabase, ReadableTable};

use super::super::StoreError;
use super::super::engine::Table;
use super::index::{CACHE_BYTES, Definition, Index, IndexFile, SEGMENTS};
use super::segments::{Appender, Extent, Segments};
use super::writer::Writer;
use super::{FileStore, Shared, errors};

/// The version of the layout. A newer one is refused, an older one is read.
const SCHEMA: u32 = 1;

/// So often is a lock that is held looked at, this long apart, before it counts as held: 0.2 s in all.
const LOCK_LOOKS: u32 = 10;
const LOCK_LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Where the state lies in a directory of results.
pub const STATE_DIR: &str = ".trawler";

/// Records without their index are a loss, not a fresh start: what was deleted and changed would be forgotten.
fn refuse_lost_index(paths: &Paths) -> Result<(), StoreError> {
    let is_missing = std::fs::metadata(&paths.index).map_or(true, |index| index.len() == 0);
    let has_segments = std::fs::read_dir(&paths.segments).is_ok_and(|mut segments| {
        segments.any(|segment| segment.is_ok_and(|segment| segment.metadata().is_ok_and(|data| data.len() > 0)))
    });
    if is_missing && has_segments {
        let why = "its index is missing or empty, though records are there".to_owned();
        return Err(StoreError::Unusable { path: paths.index.display().to_string(), why });
    }
    Ok(())
}

impl FileStore {
    /// Opens the state in `dir/.trawler`, and makes it if there is none. Fails at once while another process has it.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let paths = Paths::of(dir);
        create_dir(&paths.segments)?;
        let lock = paths.lock(true)?;
        paths.check_schema(true)?;
        refuse_lost_index(&paths)?;
        let (database, state) = open_index(&paths.index)?;
        let segments = Segments::new(paths.segments.clone());
        collect_leftovers(&paths.segments, &segments, &state.extents)?;
        let mut appender = Appender::new(segments.clone(), state.extents);
        appender.go_on()?;
        let writer = Writer::start(&paths.index, &database, appender, state.session, state.to_disk)?;
        Ok(Self::with_writer(writer, Index::writable(paths.index, database), segments, Some(lock), None))
    }

    /// Opens the state in `dir/.trawler` to look at it.
    pub fn open_read_only(dir: &Path) -> Result<Self, StoreError> {
        let paths = Paths::of(dir);
        let lock = paths.lock(false)?;
        paths.check_schema(false)?;
        let open = || Builder::new().set_cache_size(CACHE_BYTES).open_read_only(&paths.index);
        let put_in_order = |lock| {
            drop(lock);
            drop(Self::open(dir)?);
            Ok((paths.lock(false)?, open()))
        };
        let (lock, database) = match open() {
            // The last process was killed, or knew fewer tables: let a writer put it in order first.
            Err(DatabaseError::RepairAborted) => put_in_order(lock)?,
            Ok(database) if !has_all_tables(&database) => {
                drop(database);
                put_in_order(lock)?
            }
            other => (lock, other),
        };
        let database = database.map_err(|error| errors::index("read", &paths.index, error))?;
        let shared = Shared {
            index: Index::read_only(paths.index, database),
            segments: Segments::new(paths.segments),
            removal: RwLock::default(),
            _lock: Some(lock),
            _scratch: None,
        };
        Ok(Self { writer: None, shared: Arc::new(shared) })
    }

    /// Opens a copy of the state in `dir/.trawler`, if there is any: what is written goes away with it, and nothing
    /// under `dir` is touched.
    pub fn open_dry_run(dir: &Path) -> Result<Self, StoreError> {
        let paths = Paths::of(dir);
        let scratch = tempfile::Builder::new().prefix("trawler-dry-run-").tempdir();
        let scratch = scratch.map_err(|source| errors::io("create", &std::env::temp_dir(), source))?;
        let own = Paths::of(scratch.path());
        create_dir(&own.segments)?;
        let mut lock = None;
        if paths.index.try_exists().map_err(|source| errors::io("read", &paths.index, source))? {
            lock = Some(paths.lock(false)?);
            paths.check_schema(false)?;
            fs::copy(&paths.index, &own.index).map_err(|source| errors::io("copy", &paths.index, source))?;
        }
        let (database, state) = open_index(&own.index)?;
        let first = state.extents.last_key_value().map_or(1, |(&newest, _)| newest.saturating_add(1));
        let segments = Segments::new(paths.segments).with_own(own.segments, first);
        let appender = Appender::new(segments.clone(), state.extents);
        let writer = Writer::start(&own.index, &database, appender, state.session, state.to_disk)?;
        Ok(Self::with_writer(writer, Index::writable(own.index, database), segments, lock, Some(scratch)))
    }

    fn with_writer(
        writer: Writer,
        index: Index,
        segments: Segments,
        lock: Option<File>,
        scratch: Option<tempfile::TempDir>,
    ) -> Self {
        let shared = Shared { index, segments, removal: RwLock::default(), _lock: lock, _scratch: scratch };
        Self { writer: Some(writer), shared: Arc::new(shared) }
    }
}

struct Paths {
    state: PathBuf,
    lock: PathBuf,
    schema: PathBuf,
    index: PathBuf,
    segments: PathBuf,
}

impl Paths {
    fn of(dir: &Path) -> Self {
        let state = dir.join(STATE_DIR);
        Self {
            lock: state.join("lock"),
            schema: state.join("schema"),
            index: state.join("index.redb"),
            segments: state.join("segments"),
            state,
        }
    }

    /// Takes the lock, or fails. The operating system lets go of it when the process ends, however it ends; a child that is
    /// just being started holds it for a moment longer, so a second look is taken before the place is called taken.
    fn lock(&self, exclusive: bool) -> Result<File, StoreError> {
        let mut options = OpenOptions::new();
        let file = if exclusive { options.write(true).create(true).truncate(false) } else { options.read(true) };
        let file = file.open(&self.lock).map_err(|source| errors::io("open", &self.lock, source))?;
        for _ in 0..LOCK_LOOKS {
            match if exclusive { file.try_lock() } else { file.try_lock_shared() } {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_LOOK_AGAIN),
                Err(TryLockError::Error(source)) => return Err(errors::io("lock", &self.lock, source)),
            }
        }
        Err(StoreError::Locked { path: self.state.display().to_string() })
    }

    fn check_schema(&self, create: bool) -> Result<(), StoreError> {
        match fs::read_to_string(&self.schema) {
            Ok(text) => match text.trim().parse::<u32>() {
                Ok(version) if version <= SCHEMA => Ok(()),
                Ok(version) => {
                    let why = format!("a newer trawler wrote it (schema {version}; this one knows {SCHEMA})");
                    Err(errors::unusable(&self.state, why))
                }
                Err(_) => Err(errors::unusable(&self.state, "its schema file does not hold a version")),
            },
            Err(error) if create && error.kind() == io::ErrorKind::NotFound => self.write_schema(),
            Err(source) => Err(errors::io("read", &self.schema, source)),
        }
    }

    /// Appears whole or not at all.
    fn write_schema(&self) -> Result<(), StoreError> {
        let failed = |source| errors::io("write", &self.schema, source);
        let mut file = tempfile::NamedTempFile::new_in(&self.state).map_err(failed)?;
        file.write_all(format!("{SCHEMA}\n").as_bytes()).map_err(failed)?;
        file.persist(&self.schema).map_err(|error| failed(error.error))?;
        Ok(())
    }
}

fn create_dir(path: &Path) -> Result<(), StoreError> {
    fs::create_dir_all(path).map_err(|source| errors::io("create", path, source))
}

/// What the index says when it is opened.
struct State {
    session: u64,
    extents: BTreeMap<u32, Extent>,
    /// Whether the index's file is to be synced.
    to_disk: Arc<AtomicBool>,
}

/// Opens the index, makes what tables are missing, and counts this process.
fn open_index(path: &Path) -> Result<(Arc<Database>, State), StoreError> {
    let failed = |error: redb::Error| errors::index("open", path, error);
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    let file = file.map_err(|source| errors::io("open", path, source))?;
    let to_disk = Arc::new(AtomicBool::new(true));
    let file = IndexFile::new(file, to_disk.clone()).map_err(|error| failed(error.into()))?;
    let database = Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(file);
    let database = database.map_err(|error| failed(error.into()))?;
    let (session, extents) = begin_session(&database).map_err(failed)?;
    Ok((Arc::new(database), State { session, extents, to_disk }))
}

fn begin_session(database: &Database) -> Result<(u64, BTreeMap<u32, Extent>), redb::Error> {
    let transaction = database.begin_write()?;
    let mut extents = BTreeMap::new();
    let session;
    {
        for (_, name) in Table::ALL {
            transaction.open_table(Definition::new(name))?;
        }
        let mut meta = transaction.open_table(Definition::new(Table::ALL[Table::Meta as usize].1))?;
        let last = meta.get(b"sessions".as_slice())?;
        let last = last.and_then(|bytes| bytes.value().try_into().ok().map(u64::from_be_bytes)).unwrap_or(0);
        session = last + 1;
        meta.insert(b"sessions".as_slice(), session.to_be_bytes().as_slice())?;
        for entry in transaction.open_table(SEGMENTS)?.iter()? {
            let (key, value) = entry?;
            let segment = key.value().try_into().ok().map(u32::from_be_bytes);
            let (Some(segment), Some(extent)) = (segment, Extent::decode(value.value())) else {
                return Err(redb::Error::Corrupted("a segment's extent can't be read".to_owned()));
            };
            extents.insert(segment, extent);
        }
    }
    transaction.commit()?;
    Ok((session, extents))
}

fn has_all_tables(database: &ReadOnlyDatabase) -> bool {
    database.begin_read().is_ok_and(|transaction| {
        Table::ALL.into_iter().all(|(_, name)| transaction.open_table(Definition::new(name)).is_ok())
    })
}

/// Removes what was written for transactions that never were, and looks whether everything else is there.
fn collect_leftovers(dir: &Path, segments: &Segments, extents: &BTreeMap<u32, Extent>) -> Result<(), StoreError> {
    let known: BTreeSet<PathBuf> = extents.keys().map(|&segment| segments.path(segment)).collect();
    for entry in fs::read_dir(dir).map_err(|source| errors::io("read", dir, source))? {
        let path = entry.map_err(|source| errors::io("read", dir, source))?.path();
        if !known.contains(&path) {
            fs::remove_file(&path).map_err(|source| errors::io("remove", &path, source))?;
        }
    }
    for (&segment, extent) in extents {
        let path = segments.path(segment);
        let failed = |source| errors::io("open", &path, source);
        let file = OpenOptions::new().write(true).open(&path).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        if len < extent.len {
            let why = format!("{} has lost its last {} bytes", path.display(), extent.len - len);
            return Err(errors::unusable(dir, why));
        }
        if len > extent.len {
            file.set_len(extent.len).map_err(|source| errors::io("shorten", &path, source))?;
        }
    }
    Ok(())
}
