//! The one thread that writes, and its group commit: the steps that wait share one transaction, so that the price of
//! making it durable is shared too.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use redb::{Database, WriteTransaction};
use tokio::sync::{mpsc, oneshot};

use super::super::StoreError;
use super::super::engine::rows::{Entry, Place};
use super::super::engine::{Read, Table, Visit, Write};
use super::errors;
use super::index::{self, Definition, SEGMENTS};
use super::segments::Appender;

/// Steps that may wait; their records are in memory.
const MAX_WAITING: usize = 32;
/// Steps in one transaction, at most.
const MAX_STEPS: usize = 64;
/// A transaction that has appended so much ends.
const MAX_APPENDED: usize = 4 << 20;

/// Under load a transaction waits so long for more steps: its price is per page of the index, and steps share pages.
const LINGER: Duration = Duration::from_micros(300);

/// Runs a step (or tells it that there is no transaction), and leaves its answer for after the commit.
type Step = Box<dyn FnOnce(Result<&mut WriteTables<'_>, &StoreError>) -> Answer + Send>;

/// Tells a step's caller how its transaction has ended.
type Tell = Box<dyn FnOnce(Result<(), &StoreError>) + Send>;

/// What a step leaves.
struct Answer {
    tell: Tell,
    /// The step left the transaction in pieces.
    broken: Option<StoreError>,
}

/// A handle on the writing thread; dropping it waits for the thread to end.
#[derive(Debug)]
pub(super) struct Writer {
    steps: Option<mpsc::Sender<Step>>,
    thread: Option<JoinHandle<()>>,
    path: PathBuf,
}

impl Writer {
    /// Starts the thread. `session` tells this process from earlier ones.
    pub(super) fn start(
        path: &Path,
        database: &Arc<Database>,
        appender: Appender,
        session: u64,
        to_disk: Arc<AtomicBool>,
    ) -> Result<Self, StoreError> {
        let (steps, waiting) = mpsc::channel(MAX_WAITING);
        let path = path.to_owned();
        let mut worker =
            Worker { path: path.clone(), database: database.clone(), appender, session, to_disk, is_busy: false };
        let thread = std::thread::Builder::new().name("store-writer".to_owned()).spawn(move || worker.work(waiting));
        let thread = thread.map_err(|source| errors::io("start the writer of", &path, source))?;
        Ok(Self { steps: Some(steps), thread: Some(thread), path })
    }

    /// Runs a step in the next transaction, and answers when it is durable.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        step: impl FnOnce(&mut WriteTables<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let ended = || errors::io("write", &self.path, std::io::Error::other("the writing thread has ended"));
        let step: Step = Box::new(move |tables| {
            let result = match tables {
                Ok(tables) => step(tables),
                Err(error) => Err(errors::again(error)),
            };
            let broken = match &result {
                Err(error @ (StoreError::Io { .. } | StoreError::Unusable { .. })) => Some(errors::again(error)),
                _ => None,
            };
            let tell = Box::new(move |committed: Result<(), &StoreError>| {
                // A caller that has gone needs no answer.
                drop(reply.send(committed.map_err(errors::again).and(result)));
            });
            Answer { tell, broken }
        });
        let steps = self.steps.as_ref().ok_or_else(ended)?;
        steps.send(step).await.map_err(|_| ended())?;
        answer.await.map_err(|_| ended())?
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.steps.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been told to the callers.
            drop(thread.join());
        }
    }
}

struct Worker {
    path: PathBuf,
    database: Arc<Database>,
    appender: Appender,
    session: u64,
    /// Whether the index's file is to be synced.
    to_disk: Arc<AtomicBool>,
    /// Steps came together the last time: more will come soon.
    is_busy: bool,
}

impl Worker {
    fn work(&mut self, mut waiting: mpsc::Receiver<Step>) {
        while let Some(first) = waiting.blocking_recv() {
            let mut answers = Vec::new();
            let committed = self.transact(first, &mut waiting, &mut answers);
            match &committed {
                Ok(()) => self.appender.committed(),
                Err(_) => self.appender.aborted(),
            }
            for answer in answers {
                (answer.tell)(committed.as_ref().map(|&()| ()));
            }
        }
    }

    /// Puts `first` and what waits behind it into one transaction.
    fn transact(
        &mut self,
        first: Step,
        waiting: &mut mpsc::Receiver<Step>,
        answers: &mut Vec<Answer>,
    ) -> Result<(), StoreError> {
        let path = self.path.clone();
        let transaction = match self.database.begin_write() {
            Ok(transaction) => transaction,
            Err(error) => {
                let error = errors::index("write", &path, error);
                answers.push(first(Err(&error)));
                return Err(error);
            }
        };
        let mut tables = match WriteTables::open(&path, &transaction, &mut self.appender, self.session) {
            Ok(tables) => tables,
            Err(error) => {
                answers.push(first(Err(&error)));
                return Err(error);
            }
        };
        let mut next = Some(first);
        let mut has_lingered = false;
        while let Some(step) = next {
            let mut answer = step(Ok(&mut tables));
            let broken = answer.broken.take();
            answers.push(answer);
            if let Some(error) = broken {
                return Err(error);
            }
            let is_full = answers.len() >= MAX_STEPS || tables.appended >= MAX_APPENDED;
            next = if is_full { None } else { waiting.try_recv().ok() };
            if next.is_none() && !is_full && !has_lingered && self.is_busy {
                std::thread::sleep(LINGER);
                has_lingered = true;
                next = waiting.try_recv().ok();
            }
        }
        self.is_busy = answers.len() > 1;
        tables.finish()?;
        let to_disk = tables.to_disk;
        drop(tables);
        self.to_disk.store(to_disk, Ordering::Relaxed);
        transaction.commit().map_err(|error| errors::index("write", &path, error))
    }
}

/// The engine's tables in a transaction.
pub(super) struct WriteTables<'t> {
    path: &'t Path,
    transaction: &'t WriteTransaction,
    tables: Vec<redb::Table<'t, &'static [u8], &'static [u8]>>,
    /// Where payloads go.
    pub(super) appender: &'t mut Appender,
    appended: usize,
    session: u64,
    /// Whether the transaction shall survive the machine, and not only the process.
    to_disk: bool,
}

impl<'t> WriteTables<'t> {
    pub(super) fn open(
        path: &'t Path,
        transaction: &'t WriteTransaction,
        appender: &'t mut Appender,
        session: u64,
    ) -> Result<Self, StoreError> {
        let open = |(_, name): (Table, &'static str)| transaction.open_table(Definition::new(name));
        let tables: Result<Vec<_>, _> = Table::ALL.into_iter().map(open).collect();
        let tables = tables.map_err(|error| errors::index("read", path, error))?;
        Ok(Self { path, transaction, tables, appender, appended: 0, session, to_disk: false })
    }

    /// Makes this transaction, and all before it, survive the machine: the others survive the process only.
    pub(super) fn sync(&mut self) {
        self.to_disk = true;
    }

    /// Payloads first, then what refers to them.
    fn finish(&mut self) -> Result<(), StoreError> {
        self.appender.flush()?;
        if self.to_disk {
            self.appender.sync()?;
        }
        let mut table =
            self.transaction.open_table(SEGMENTS).map_err(|error| errors::index("write", self.path, error))?;
        for (segment, extent) in self.appender.changed() {
            let key = segment.to_be_bytes();
            let done = match extent {
                Some(extent) => table.insert(key.as_slice(), extent.encode().as_slice()).map(drop),
                None => table.remove(key.as_slice()).map(drop),
            };
            done.map_err(|error| errors::index("write", self.path, error))?;
        }
        Ok(())
    }
}

impl Read for WriteTables<'_> {
    fn get<T>(&self, table: Table, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>, StoreError> {
        index::get(self.path, &self.tables[table as usize], key, read)
    }

    fn scan(&self, table: Table, prefix: &[u8], after: Option<&[u8]>, visit: Visit<'_>) -> Result<(), StoreError> {
        index::scan(self.path, &self.tables[table as usize], prefix, after, visit)
    }

    fn damaged(&self, why: &str) -> StoreError {
        errors::unusable(self.path, why)
    }
}

impl Write for WriteTables<'_> {
    fn session(&self) -> u64 {
        self.session
    }

    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        match self.tables[table as usize].insert(key, value) {
            Ok(_) => Ok(()),
            Err(error) => Err(errors::index("write", self.path, error)),
        }
    }

    fn update(
        &mut self,
        table: Table,
        key: &[u8],
        change: impl FnOnce(&[u8]) -> Option<[u8; Entry::BYTES]>,
    ) -> Result<bool, StoreError> {
        let failed = |error| errors::index("write", self.path, error);
        let Some(mut value) = self.tables[table as usize].get_mut(key).map_err(failed)? else { return Ok(false) };
        if let Some(changed) = change(value.value()) {
            value.insert(changed.as_slice()).map_err(failed)?;
        }
        Ok(true)
    }

    fn remove(&mut self, table: Table, key: &[u8]) -> Result<bool, StoreError> {
        match self.tables[table as usize].remove(key) {
            Ok(removed) => Ok(removed.is_some()),
            Err(error) => Err(errors::index("write", self.path, error)),
        }
    }

    fn append(&mut self, payload: &[u8]) -> Result<Place, StoreError> {
        self.appended += payload.len();
        self.appender.append(payload)
    }

    fn release(&mut self, place: Place) -> Result<(), StoreError> {
        self.appender.release(place);
        Ok(())
    }
}
