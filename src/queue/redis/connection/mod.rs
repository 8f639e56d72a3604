//! Between the queue's calls and a Redis server: connects, reconnects, waits no longer than it should, and says in a
//! sentence what went wrong.
//!
//! All calls of a [`Connection`] go pipelined over one connection. What was certainly not done (no connection could be
//! made; the server said "not now" before it did anything) is tried again for ten seconds. What was sent and not answered
//! is returned as [`Fault::Unknown`] at once: only the caller knows whether it can be sent again.

mod address;
mod classify;
mod dial;
mod fault;
mod link;
mod password;
mod sentinel;
mod stream;
mod subscription;
#[cfg(test)]
mod tests;
mod timing;

use std::sync::{Arc, OnceLock};

use redis::{Cmd, Value};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use self::address::Address;
use self::dial::dial;
pub(super) use self::dial::text_of;
pub(super) use self::fault::{CallError, Fault};
use self::link::Link;
use self::subscription::Hub;
#[allow(unused_imports, reason = "until the queue hears it")]
pub(super) use self::subscription::{Heard, Subscription};
use self::timing::Timing;
use super::RedisSettings;
use crate::queue::QueueError;

/// The way to the queue's Redis. Connects with the first call; clones share the connection.
#[derive(Clone)]
pub(super) struct Connection {
    shared: Arc<Shared>,
}

struct Shared {
    address: Arc<Address>,
    at: Arc<str>,
    prefix: String,
    timing: Timing,
    slot: Mutex<Slot>,
    /// The latest attempt to connect, if it failed, and when it ended.
    failed: std::sync::Mutex<Option<(Instant, CallError)>>,
    hub: OnceLock<Arc<Hub>>,
}

/// The present link, and what is known of attempts to make one.
struct Slot {
    link: Option<Arc<Link>>,
    /// Attempts since a link last served.
    failures: u32,
    /// No attempt is made earlier, whoever asks.
    not_before: Instant,
}

impl Connection {
    /// Understands the settings; does nothing else yet.
    pub(super) fn new(settings: &RedisSettings) -> Result<Self, QueueError> {
        Self::with_timing(settings, Timing::NORMAL)
    }

    /// The same for a person who waits.
    pub(super) fn impatient(settings: &RedisSettings) -> Result<Self, QueueError> {
        Self::with_timing(settings, Timing::IMPATIENT)
    }

    fn with_timing(settings: &RedisSettings, timing: Timing) -> Result<Self, QueueError> {
        let address = Address::parse(settings)?;
        let slot = Slot { link: None, failures: 0, not_before: Instant::now() };
        let shared = Shared {
            at: address.to_string().into(),
            address: Arc::new(address),
            prefix: address::prefix(&settings.instance)?,
            timing,
            slot: Mutex::new(slot),
            failed: std::sync::Mutex::default(),
            hub: OnceLock::new(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Calls a function, which is given the instance's prefix as its one key. Functions answer one string.
    pub(super) async fn call(&self, function: &str, arguments: &[&[u8]]) -> Result<Vec<u8>, CallError> {
        let mut command = redis::cmd("FCALL");
        command.arg(function).arg(1).arg(&self.shared.prefix);
        for argument in arguments {
            command.arg(*argument);
        }
        match self.shared.send(&command, Some(function)).await? {
            Value::BulkString(bytes) => Ok(bytes),
            _ => Err(self.senseless(&format!("the function '{function}' did not answer a string"))),
        }
    }

    /// Loads a library of functions, unless it is there with this very code.
    pub(super) async fn load_library(&self, name: &str, code: &str) -> Result<(), CallError> {
        let mut list = redis::cmd("FUNCTION");
        list.arg("LIST").arg("LIBRARYNAME").arg(name).arg("WITHCODE");
        let libraries = self.shared.send(&list, None).await?;
        if library_code(&libraries) == Some(code) {
            return Ok(());
        }
        let mut load = redis::cmd("FUNCTION");
        load.arg("LOAD").arg("REPLACE").arg(code);
        self.shared.send(&load, None).await.map(|_| ())
    }

    /// A plain command. It must do no harm to send it twice.
    pub(super) async fn command(&self, parts: &[&str]) -> Result<Value, CallError> {
        let mut command = Cmd::new();
        for part in parts {
            command.arg(*part);
        }
        self.shared.send(&command, None).await
    }

    /// What is published on this channel after it returned. Opens a second connection, the first time.
    pub(super) async fn subscribe(&self, channel: &str) -> Result<Subscription, CallError> {
        let Shared { address, at, timing, hub, .. } = self.shared.as_ref();
        hub.get_or_init(|| Arc::new(Hub::start(Arc::clone(address), *timing))).subscribe(channel, at, timing).await
    }

    fn senseless(&self, says: &str) -> CallError {
        CallError::new(Fault::Script, &self.shared.at, says)
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("at", &self.shared.at).field("prefix", &self.shared.prefix).finish()
    }
}

impl Shared {
    async fn send(&self, command: &Cmd, function: Option<&str>) -> Result<Value, CallError> {
        let deadline = Instant::now() + self.timing.patience;
        let mut refusals = 0;
        loop {
            let link = self.link(deadline).await?;
            let error = match link.send(command).await {
                Ok(value) => return Ok(value),
                Err(error) => classify::of_call(&error, link.at(), function),
            };
            // Silence may mean that the other side is gone for good; a replica never becomes the right server by waiting.
            if matches!(error.kind, Fault::Unknown | Fault::ReadOnly | Fault::MasterDown) {
                link.retire();
            }
            let pause = self.timing.pause(refusals);
            if !error.kind.is_refusal_that_passes() || Instant::now() + pause >= deadline {
                return Err(error);
            }
            refusals += 1;
            sleep(pause).await;
        }
    }

    /// A link that is usable, as far as is known: made anew if there is none, by one caller for all.
    async fn link(&self, deadline: Instant) -> Result<Arc<Link>, CallError> {
        let asked = Instant::now();
        timeout_at(deadline, self.connected(asked, deadline)).await.unwrap_or_else(|_| {
            let never = || CallError::new(Fault::NotSent, &self.at, "no connection could be made in time");
            Err(self.latest_failure().map_or_else(never, |(_, fault)| fault))
        })
    }

    async fn connected(&self, asked: Instant, deadline: Instant) -> Result<Arc<Link>, CallError> {
        let mut slot = self.slot.lock().await;
        match &slot.link {
            Some(link) if link.is_usable() => return Ok(Arc::clone(link)),
            Some(link) if link.has_served() => {
                slot.failures = 0;
                slot.not_before = Instant::now();
            }
            _ => {}
        }
        slot.link = None;
        loop {
            match self.latest_failure() {
                // Another caller's attempt, since this one asked.
                Some((when, fault)) if when >= asked && !self.is_worth_another_try(&fault) => return Err(fault),
                Some((_, fault)) if slot.not_before >= deadline => return Err(fault),
                _ => sleep_until(slot.not_before).await,
            }
            // Before the attempt, which may be given up together with the call that makes it.
            let pause = self.timing.pause(slot.failures);
            slot.not_before = Instant::now() + pause;
            slot.failures = slot.failures.saturating_add(1);
            match dial(&self.address, &self.timing, slot.failures as usize, None).await {
                Ok(link) => {
                    let link = Arc::new(link);
                    slot.link = Some(Arc::clone(&link));
                    *self.failed() = None;
                    return Ok(link);
                }
                Err(fault) => {
                    let now = Instant::now();
                    slot.not_before = now + pause;
                    *self.failed() = Some((now, fault));
                }
            }
        }
    }

    fn latest_failure(&self) -> Option<(Instant, CallError)> {
        self.failed().clone()
    }

    fn failed(&self) -> std::sync::MutexGuard<'_, Option<(Instant, CallError)>> {
        self.failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn is_worth_another_try(&self, fault: &CallError) -> bool {
        fault.kind.passes() || (fault.kind == Fault::WrongPassword && self.address.password.may_change())
    }
}

/// The code in what FUNCTION LIST answered.
fn library_code(libraries: &Value) -> Option<&str> {
    let Value::Array(libraries) = libraries else { return None };
    let mut fields = libraries.first()?.as_map_iter()?;
    fields.find(|(key, _)| text_of(key) == Some("library_code")).and_then(|(_, code)| text_of(code))
}
