//! Calls of the functions: what each presents, how it is repeated, and what is made of a refusal.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use redis::Value;
use tokio::time::Instant;

use super::super::StoreError;
use super::keys::{SCHEMA, Slot};
use super::library::Library;
use super::session::{Session, SessionId};
use crate::redis::{CallError, Connection, RedisSettings, Timing};

/// A call whose answer was lost is repeated so often: a write is known by its lane and number, so that it is done once.
const REPETITIONS: u32 = 3;

/// The pause before such a repetition.
const PAUSE: Duration = Duration::from_millis(200);

/// A lane that was not used for so long is given up: the server forgets a process's lanes a week after its last write.
const LANE_AGE: Duration = Duration::from_hours(24);

/// So many fields at most are asked for, or written, by one command of the server.
pub(super) const MAX_FIELDS: usize = 500;

const EMPTIED: &str = "the server has nothing of it any more: it was emptied";
const ROLLED_BACK: &str = "the server has forgotten writes that it had answered: it was rolled back";
const SWAPPED: &str = "another store has taken its place, or the server was rolled back";

/// A process's way to the store.
#[derive(Debug)]
pub(super) struct Link {
    connection: Connection,
    library: &'static Library,
    session: SessionId,
    /// This handle, unlike any other.
    handle: String,
    lanes: Mutex<Vec<Lane>>,
    next_lane: AtomicU64,
    next_write: AtomicU64,
    /// For tests: so many writes are left before this process is as good as dead.
    writes_left: AtomicI64,
}

/// Writes of one lane come one after the other, so that the server knows by the last one's number whether the next is asked for
/// again, and whether it has forgotten some.
#[derive(Debug)]
struct Lane {
    number: u64,
    last: u64,
    used_at: Instant,
}

/// What came of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    Done,
    /// What was read is not so any more: nothing was written.
    Changed,
}

/// One portion of a scan: the keys in their order, with their values.
pub(super) type Portion = Vec<(Vec<u8>, Vec<u8>)>;

impl Link {
    /// Connects, and begins or joins a session.
    pub(super) async fn open(settings: &RedisSettings, timing: Timing, session: Session) -> Result<Self, StoreError> {
        let refused = |error: CallError| StoreError::Elsewhere { why: error.about_the_store() };
        let connection = Connection::new(settings, timing).map_err(refused)?;
        let mut link = Self {
            connection,
            library: Library::own(),
            session: SessionId::default(),
            handle: random_hex()?,
            lanes: Mutex::default(),
            next_lane: AtomicU64::new(0),
            next_write: AtomicU64::new(0),
            writes_left: AtomicI64::new(i64::MAX),
        };
        link.session = match session {
            Session::New => {
                let reply = link.send("open", &[Bytes::from(random_hex()?)]).await?;
                link.read_session(reply)?
            }
            Session::Of(session) => {
                let latest = link.latest().await?;
                if latest.epoch != session.epoch || latest.number < session.number {
                    return Err(link.lost(SWAPPED));
                }
                session
            }
            Session::Latest => link.latest().await?,
        };
        Ok(link)
    }

    pub(super) fn session(&self) -> &SessionId {
        &self.session
    }

    /// Host and port, for people.
    pub(super) fn shown(&self) -> &str {
        self.connection.shown()
    }

    /// See [`super::RedisStore::die_after`].
    pub(super) fn die_after(&self, writes: u32) {
        self.writes_left.store(writes.into(), Ordering::SeqCst);
    }

    /// The values of slots, as of one moment.
    pub(super) async fn read(&self, slots: &[Slot]) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        let mut args = vec![Bytes::from(self.session.epoch.clone())];
        for group in slots.chunk_by(|a, b| a.hash == b.hash).flat_map(|group| group.chunks(MAX_FIELDS)) {
            args.extend([text(&group[0].hash), number(group.len())]);
            args.extend(group.iter().map(|slot| Bytes::from(slot.field.clone())));
        }
        let lists = self.ask("read", &args).await?;
        let values: Vec<_> = lists.into_iter().flat_map(list).map(bytes).collect();
        if values.len() == slots.len() { Ok(values) } else { Err(self.unreadable()) }
    }

    /// What lies between two keys of a hash, in order; at most `limit`.
    pub(super) async fn scan(&self, hash: &str, from: &[u8], to: &[u8], limit: usize) -> Result<Portion, StoreError> {
        let (from, to) = (Bytes::copy_from_slice(from), Bytes::copy_from_slice(to));
        let epoch = Bytes::from(self.session.epoch.clone());
        let args = [epoch, text(&super::keys::index_of(hash)), text(hash), from, to, number(limit)];
        let mut lists = self.ask("scan", &args).await?.into_iter();
        let (Some(keys), Some(values), None) = (lists.next(), lists.next(), lists.next()) else {
            return Err(self.unreadable());
        };
        let pairs = list(keys).into_iter().map(bytes).zip(list(values).into_iter().map(bytes));
        pairs.map(|(key, value)| key.zip(value).ok_or_else(|| self.damaged("a key in order has no value"))).collect()
    }

    /// Does one atomic write. `may_exceed`: where memory is used up, too.
    pub(super) async fn write(&self, run: &str, parts: &[Bytes], may_exceed: bool) -> Result<Written, StoreError> {
        if self.writes_left.fetch_sub(1, Ordering::SeqCst) <= 0 {
            return Err(StoreError::Gone { address: self.shown().to_owned(), why: "this process died".to_owned() });
        }
        let mut lane = self.lane();
        let this = self.next_write.fetch_add(1, Ordering::Relaxed) + 1;
        let SessionId { number: session, epoch } = &self.session;
        let mut args = vec![text(epoch), text(&self.handle), number(lane.number), number(lane.last), number(this)];
        args.extend([text(run), number(*session)]);
        args.extend_from_slice(parts);
        // A lane whose write has no answer is not used again: nobody knows where it stands.
        let reply = self.send(if may_exceed { "write_anyway" } else { "write" }, &args).await?;
        let written = match self.understand(reply) {
            Ok(_) => {
                (lane.last, lane.used_at) = (this, Instant::now());
                Written::Done
            }
            Err(Refusal::Changed) => Written::Changed,
            Err(Refusal::Failed(error)) => return Err(error),
        };
        self.lanes().push(lane);
        Ok(written)
    }

    /// A lane that nobody uses.
    fn lane(&self) -> Lane {
        let now = Instant::now();
        let mut lanes = self.lanes();
        // What the server has forgotten because it is old must not be taken for a roll-back.
        lanes.retain(|lane| now.duration_since(lane.used_at) < LANE_AGE);
        let number = || self.next_lane.fetch_add(1, Ordering::Relaxed);
        lanes.pop().unwrap_or_else(|| Lane { number: number(), last: 0, used_at: now })
    }

    async fn latest(&self) -> Result<SessionId, StoreError> {
        let reply = self.send("join", &[Bytes::new()]).await?;
        self.read_session(reply)
    }

    fn read_session(&self, reply: Value) -> Result<SessionId, StoreError> {
        let parts = self.understand(reply).map_err(|refusal| refusal.into_error(self))?;
        let mut parts = parts.into_iter();
        let epoch = parts.next().and_then(bytes).and_then(|epoch| String::from_utf8(epoch).ok());
        let number = match parts.next() {
            Some(Value::Int(number)) => u64::try_from(number).ok(),
            Some(value) => bytes(value).and_then(|number| String::from_utf8(number).ok()?.parse().ok()),
            None => None,
        };
        epoch.zip(number).map(|(epoch, number)| SessionId { number, epoch }).ok_or_else(|| self.unreadable())
    }

    /// Calls a function that refuses only for good.
    async fn ask(&self, function: &str, args: &[Bytes]) -> Result<Vec<Value>, StoreError> {
        let reply = self.send(function, args).await?;
        self.understand(reply).map_err(|refusal| refusal.into_error(self))
    }

    /// Sends a request; loads the library if it is missing; repeats what may not have taken effect.
    async fn send(&self, function: &str, args: &[Bytes]) -> Result<Value, StoreError> {
        let name = format!("{}_{function}", self.library.name);
        let args: Vec<&[u8]> = args.iter().map(|arg| &arg[..]).collect();
        let mut has_loaded = false;
        let mut repetitions = 0;
        loop {
            let error = match self.connection.call(&name, &args).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            match error {
                CallError::FunctionMissing(_) if !has_loaded => {
                    has_loaded = true;
                    match self.connection.load_library(&self.library.code).await {
                        Err(CallError::Forbidden(_)) => return Err(self.nobody_loaded_it().await),
                        loaded => loaded.map_err(|error| self.failed(&error))?,
                    }
                }
                CallError::Unknown(_) if repetitions < REPETITIONS => {
                    repetitions += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                error => return Err(self.failed(&error)),
            }
        }
    }

    /// A server that was emptied has lost the functions too.
    async fn nobody_loaded_it(&self) -> StoreError {
        let epoch = self.connection.field(&format!("store:{SCHEMA}:i"), "epoch").await;
        if matches!(epoch, Ok(None)) && !self.session.epoch.is_empty() {
            return self.lost(EMPTIED);
        }
        let why = format!(
            "the store's functions are not in the Redis at {}, and this user may not load them: whoever begins the run does, and \
             must be of the same version of trawler as the crawlers",
            self.shown()
        );
        StoreError::Elsewhere { why }
    }

    /// The parts of an answer behind its first word, if that is "ok".
    fn understand(&self, reply: Value) -> Result<Vec<Value>, Refusal> {
        let Value::Array(mut parts) = reply else { return Err(Refusal::Failed(self.unreadable())) };
        let rest = parts.split_off(parts.len().min(1));
        let word = parts.pop().and_then(bytes).unwrap_or_default();
        let error = match word.as_slice() {
            b"ok" => return Ok(rest),
            b"changed" => return Err(Refusal::Changed),
            b"over" => {
                let newer = rest.into_iter().next().and_then(bytes).and_then(|newer| String::from_utf8(newer).ok());
                let newer = newer.and_then(|newer| newer.parse().ok()).unwrap_or_default();
                StoreError::SessionOver { session: self.session.number, newer }
            }
            b"unopened" => StoreError::Elsewhere {
                why: format!(
                    "the Redis at {} holds no store of this instance: whoever begins runs makes it; see that --instance and the \
                     address are those of the run",
                    self.shown()
                ),
            },
            b"emptied" => self.lost(EMPTIED),
            b"swapped" => self.lost(SWAPPED),
            b"rolled back" => self.lost(ROLLED_BACK),
            _ => self.unreadable(),
        };
        Err(Refusal::Failed(error))
    }

    fn lanes(&self) -> MutexGuard<'_, Vec<Lane>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, error: &CallError) -> StoreError {
        let why = error.about_the_store();
        match error {
            CallError::NotSent(_) | CallError::Unknown(_) | CallError::NotNow(_) | CallError::OutOfMemory(_) => {
                StoreError::Gone { address: self.shown().to_owned(), why }
            }
            _ => StoreError::Elsewhere { why },
        }
    }

    fn lost(&self, why: &str) -> StoreError {
        StoreError::Lost { address: self.shown().to_owned(), why: why.to_owned() }
    }

    pub(super) fn damaged(&self, why: &str) -> StoreError {
        StoreError::Damaged { address: self.shown().to_owned(), why: why.to_owned() }
    }

    fn unreadable(&self) -> StoreError {
        StoreError::Elsewhere {
            why: format!(
                "the store's functions in the Redis at {} answered what this version of trawler can't read; let one version use \
                 the instance, or give each its own with --instance",
                self.shown()
            ),
        }
    }
}

enum Refusal {
    Changed,
    Failed(StoreError),
}

impl Refusal {
    /// Only writes are told that something has changed.
    fn into_error(self, link: &Link) -> StoreError {
        match self {
            Self::Changed => link.unreadable(),
            Self::Failed(error) => error,
        }
    }
}

pub(super) fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// A number as it is sent.
pub(super) fn number<N: ToString + Copy>(number: N) -> Bytes {
    Bytes::from(number.to_string())
}

fn list(value: Value) -> Vec<Value> {
    match value {
        Value::Array(values) => values,
        _ => Vec::new(),
    }
}

fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        _ => None,
    }
}

/// What nobody has twice.
pub(super) fn random() -> Result<[u8; 16], StoreError> {
    let mut bytes = [0; 16];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(error) => Err(StoreError::Elsewhere { why: format!("the system gives no random numbers ({error})") }),
    }
}

fn random_hex() -> Result<String, StoreError> {
    Ok(data_encoding::HEXLOWER.encode(&random()?))
}
