//! Calls of the functions in Redis: what each presents, how it is repeated, and what is made of a refusal.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::library::{Library, SCHEMA};
use super::wire::{Reader, Reply, Unreadable, Writer};
use crate::clock::SharedClock;
use crate::queue::gate::Moment;
use crate::queue::{Holder, QueueError};
use crate::redis::CallError;
use crate::redis::Connection;
use crate::task::{NodeName, RunId};

/// A call whose answer was lost is repeated so often: every function can be called twice.
const REPETITIONS: u32 = 3;

/// The pause before such a repetition.
const PAUSE: Duration = Duration::from_millis(200);

const EMPTIED: &str = "the server has nothing of this instance any more: it was emptied";

/// What every request begins with.
const HEAD: usize = 7;

/// Whom the functions take for the caller.
#[derive(Debug, Clone, Copy)]
pub(super) enum Caller<'a> {
    /// A holder of the run.
    Holder(&'a Holder),
    /// The run's owner, or whoever looks at it.
    Owner,
    /// The same, in a call about a token.
    About(u32),
}

impl Caller<'_> {
    /// Token and fence; −1 and 0: none.
    fn place(self) -> (i64, u64) {
        match self {
            Self::Holder(holder) => (holder.token.into(), holder.fence),
            Self::Owner => (-1, 0),
            Self::About(token) => (token.into(), 0),
        }
    }

    /// What the queue counts this caller's calls by.
    fn counted_as(self) -> (u32, u64) {
        match self {
            Self::Holder(holder) => (holder.token, holder.fence),
            Self::Owner | Self::About(_) => (0, 0),
        }
    }
}

/// Calls functions, and remembers what the queue was like when it was called last.
#[derive(Debug)]
pub(super) struct Calls {
    pub(super) connection: Arc<Connection>,
    library: &'static Library,
    clock: SharedClock,
    /// Moments come from the caller's clock instead of the server's: for tests.
    with_callers_moments: bool,
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    /// The instance's epoch; empty: not known.
    epoch: String,
    /// What the queue counted of a caller's calls, by run, token and fence.
    seen: HashMap<RunId, HashMap<(u32, u64), u64>>,
    /// The epoch in which the server was found to be rolled back: the instance must be made anew before anything else.
    rolled_back: Option<String>,
}

/// What a function answered that did not refuse.
#[derive(Debug)]
pub(super) struct Answer {
    reply: Reply,
    start: usize,
    /// From the server's clock to the caller's.
    shift_us: i64,
}

impl Answer {
    /// Reads it.
    pub(super) fn read<T>(&self, read: impl FnOnce(&mut Reader<'_>) -> Result<T, Unreadable>) -> Result<T, QueueError> {
        read(&mut Reader::new(self.reply.head.get(self.start..).unwrap_or_default(), self.shift_us))
            .map_err(|Unreadable| unreadable())
    }

    /// Lists that came with it.
    pub(super) fn lists(&self) -> &[Vec<Vec<u8>>] {
        &self.reply.lists
    }
}

fn unreadable() -> QueueError {
    QueueError::Refused {
        why: "the queue's functions in Redis answered what this version of trawler can't read; \
              let one version use the instance, or give each its own with --instance"
            .to_owned(),
    }
}

impl Calls {
    pub(super) fn new(connection: Connection, clock: SharedClock, with_callers_moments: bool) -> Self {
        let connection = Arc::new(connection);
        Self { connection, library: Library::own(), clock, with_callers_moments, memory: Mutex::default() }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls a function about a run, with so many arguments.
    pub(super) async fn call(
        &self,
        function: &str,
        run: &RunId,
        caller: Caller<'_>,
        arguments: usize,
        write: impl Fn(&mut Writer) + Sync,
    ) -> Result<Answer, QueueError> {
        let epoch = self.epoch().await?;
        let key = caller.counted_as();
        let seen = self.memory().seen.get(run).and_then(|seen| seen.get(&key)).copied().unwrap_or(0);
        let (token, fence) = caller.place();
        let request = || {
            let mut request = Writer::default();
            request.array(HEAD + arguments).text(&epoch).text(&epoch).moment(self.moment()).text(run.as_str());
            request.int(token).uint(fence).uint(seen);
            write(&mut request);
            request.into_bytes()
        };
        let reply = match self.send(function, request).await {
            // A server that was emptied has lost the functions too.
            Err(CallError::FunctionMissing(_)) if self.is_emptied().await? => {
                return Err(self.lost(run.clone(), &epoch, false, EMPTIED));
            }
            sent => sent?,
        };
        let understood = self.understand(run, caller, &epoch, reply);
        if matches!(understood, Err(QueueError::Lost { .. })) {
            // Others may have noticed nothing, and would go on in a past that is not theirs.
            if let Err(error) = self.start_anew_if_rolled_back().await {
                tracing::warn!("the queue was rolled back and can't be made anew at present: {error}");
            }
        }
        understood
    }

    async fn is_emptied(&self) -> Result<bool, CallError> {
        let epoch = self.connection.field(&format!("{SCHEMA}:i"), "epoch").await?;
        Ok(epoch.is_none())
    }

    /// The channel on which changes are told.
    pub(super) fn bell_channel(&self) -> String {
        format!("{}{SCHEMA}:bell", self.connection.prefix())
    }

    /// Zero: the server's own clock decides.
    fn moment(&self) -> Moment {
        if self.with_callers_moments { self.clock.now().into() } else { Moment(0) }
    }

    /// Sends a request; loads the library if it is missing; repeats what may not have taken effect.
    async fn send(&self, function: &str, request: impl Fn() -> Vec<u8>) -> Result<Reply, CallError> {
        let name = format!("{}_{function}", self.library.name);
        let mut has_loaded = false;
        let mut repetitions = 0;
        loop {
            match self.connection.call(&name, &[request()]).await {
                Ok(reply) => return Ok(Reply::of(reply)),
                Err(CallError::FunctionMissing(_)) if !has_loaded => {
                    has_loaded = true;
                    match self.connection.load_library(&self.library.code).await {
                        Err(CallError::Forbidden(_)) => return Err(self.nobody_loaded_it()),
                        loaded => loaded?,
                    }
                }
                Err(CallError::Unknown(_)) if repetitions < REPETITIONS => {
                    repetitions += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn nobody_loaded_it(&self) -> CallError {
        CallError::FunctionMissing(format!(
            "the queue's functions are not in the Redis at {}, and this user may not load them: whoever opens the run does, \
             and must be of the same version of trawler as the crawlers",
            self.connection.shown()
        ))
    }

    fn understand(&self, run: &RunId, caller: Caller<'_>, epoch: &str, reply: Reply) -> Result<Answer, QueueError> {
        let mut reader = Reader::new(&reply.head, 0);
        let run = run.clone();
        let mut head = || -> Result<(String, u64, i64), Unreadable> {
            reader.array_of(4)?;
            Ok((reader.text()?.to_owned(), reader.uint()?, reader.int()?))
        };
        let (status, seen, servers_now) = head().map_err(|Unreadable| unreadable())?;
        match status.as_str() {
            "ok" => {
                let mut memory = self.memory();
                let known = memory.seen.entry(run).or_default().entry(caller.counted_as()).or_default();
                *known = seen.max(*known);
                drop(memory);
                let start = reply.head.len() - reader.left();
                let now = Moment::from(self.clock.now()).0;
                // What two clocks read is never quite the same; where it is the same clock, nothing is added.
                let shift_us = if self.with_callers_moments || servers_now == 0 { 0 } else { now - servers_now };
                Ok(Answer { reply, start, shift_us })
            }
            "no such run" => {
                self.memory().seen.remove(&run);
                Err(QueueError::NoSuchRun { run })
            }
            "run exists" => Err(QueueError::RunExists { run }),
            "frozen" => Err(QueueError::Frozen { run }),
            "fenced" => {
                let token = caller.counted_as().0;
                Err(QueueError::Fenced { run, token })
            }
            "no such node" => {
                let node = NodeName::from(reader.text().map_err(|Unreadable| unreadable())?);
                Err(QueueError::NoSuchNode { run, node })
            }
            "no place free" => {
                let max = reader.uint().map_err(|Unreadable| unreadable())?;
                Err(QueueError::NoPlaceFree { run, max })
            }
            "emptied" => Err(self.lost(run, epoch, false, EMPTIED)),
            "swapped" => Err(self.lost(run, epoch, false, "another queue has taken the instance's place")),
            "rolled back" => {
                let why = "the server has forgotten calls that it had answered: it was rolled back";
                Err(self.lost(run, epoch, true, why))
            }
            _ => Err(unreadable()),
        }
    }

    /// What was called in this epoch is lost.
    fn lost(&self, run: RunId, epoch: &str, was_rolled_back: bool, why: &str) -> QueueError {
        let mut memory = self.memory();
        // Another call may have found out before.
        if memory.epoch == epoch {
            memory.seen.clear();
            let past = std::mem::take(&mut memory.epoch);
            if was_rolled_back {
                memory.rolled_back = Some(past);
            }
        }
        QueueError::Lost { run, why: why.to_owned() }
    }

    /// The instance's epoch as it was met first.
    async fn epoch(&self) -> Result<String, QueueError> {
        self.start_anew_if_rolled_back().await?;
        let known = self.memory().epoch.clone();
        if !known.is_empty() {
            return Ok(known);
        }
        let fresh = random_hex();
        let request = || {
            let mut request = Writer::default();
            request.array(HEAD).text("").text(&fresh).moment(self.moment()).text("").int(-1).int(0).int(0);
            request.into_bytes()
        };
        let epoch = read_epoch(&self.send("hello", request).await?)?;
        self.memory().epoch.clone_from(&epoch);
        Ok(epoch)
    }

    /// Makes the instance anew if it was found to be rolled back: its runs and what was spent belong to another past. Whoever
    /// knew it is told so by the next call.
    async fn start_anew_if_rolled_back(&self) -> Result<(), QueueError> {
        let Some(past) = self.memory().rolled_back.clone() else { return Ok(()) };
        let fresh = random_hex();
        let request = || {
            let mut request = Writer::default();
            request.array(2).text(&past).text(&fresh);
            request.into_bytes()
        };
        read_epoch(&self.send("reset", request).await?)?;
        let mut memory = self.memory();
        if memory.rolled_back.as_ref() == Some(&past) {
            memory.rolled_back = None;
        }
        Ok(())
    }

    /// A holder that is gone makes no more calls.
    pub(super) fn forget(&self, run: &RunId) {
        self.memory().seen.remove(run);
    }
}

fn read_epoch(reply: &Reply) -> Result<String, QueueError> {
    let mut reader = Reader::new(&reply.head, 0);
    let mut read = || -> Result<String, Unreadable> {
        reader.array_of(4)?;
        reader.text()?;
        reader.int()?;
        reader.int()?;
        Ok(reader.text()?.to_owned())
    };
    read().map_err(|Unreadable| unreadable())
}

/// A number that is not guessed twice.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(RandomState::new().hash_one(0))
}

fn random_hex() -> String {
    format!("{:016x}{:016x}", random(), random())
}
