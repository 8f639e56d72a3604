//! The connection to the server: one, shared by all calls, made when it is needed and made anew when it broke.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, FromRedisValue, ToRedisArgs};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::RedisSettings;
use super::address::Address;
use super::fault::CallError;
use super::settings::check_instance;

/// How long a connection waits, and for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// A connection that is not made by then is not made.
    pub connect: Duration,
    /// A call that is not answered by then has no answer: longer than a server stands still for a moment.
    pub response: Duration,
    /// What certainly did not take effect is tried again for so long …
    pub patience: Duration,
    /// … and for so long only if there has been no connection yet: the address may be wrong.
    pub first_patience: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            response: Duration::from_secs(10),
            patience: Duration::from_secs(15),
            first_patience: Duration::from_secs(3),
        }
    }
}

/// The pauses between attempts double, from the first to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// One connection to the server, shared by all calls.
pub(crate) struct Connection {
    address: Address,
    prefix: String,
    timing: Timing,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    live: Option<(u64, MultiplexedConnection)>,
    /// Raised by every connection.
    generation: u64,
    /// Attempts in a row that failed.
    failures: u32,
    next_attempt: Option<Instant>,
    /// When the last attempt failed, and why.
    last_failure: Option<(Instant, CallError)>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("server", &self.address.shown).finish_non_exhaustive()
    }
}

impl Connection {
    pub(crate) fn new(settings: &RedisSettings, timing: Timing) -> Result<Self, CallError> {
        let address = Address::parse(settings)?;
        let instance = settings.instance.as_str();
        check_instance(instance)?;
        Ok(Self { address, prefix: format!("trawler:{{{instance}}}:"), timing, state: Mutex::default() })
    }

    /// What the keys of the instance begin with.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Calls a function with the instance's prefix as its one key.
    pub(crate) async fn call<A: ToRedisArgs + Sync>(
        &self,
        function: &str,
        arguments: &[A],
    ) -> Result<redis::Value, CallError> {
        let mut command = redis::cmd("FCALL");
        command.arg(function).arg(1).arg(&self.prefix);
        for argument in arguments {
            command.arg(argument);
        }
        self.query(&command).await
    }

    /// Loads a library in the place of the one of its name.
    pub(crate) async fn load_library(&self, code: &str) -> Result<(), CallError> {
        let mut command = redis::cmd("FUNCTION");
        command.arg("LOAD").arg("REPLACE").arg(code);
        self.query::<redis::Value>(&command).await.map(drop)
    }

    /// The record of a key's field, read past the functions.
    pub(crate) async fn field(&self, key: &str, field: &str) -> Result<Option<Vec<u8>>, CallError> {
        let mut command = redis::cmd("HGET");
        command.arg(format!("{}{key}", self.prefix)).arg(field);
        self.query(&command).await
    }

    /// Sends a command to the server.
    pub(crate) async fn command(&self, parts: &[&str]) -> Result<redis::Value, CallError> {
        let Some((name, arguments)) = parts.split_first() else {
            return Err(CallError::Refused("a command has no name".to_owned()));
        };
        self.query(redis::cmd(name).arg(arguments)).await
    }

    /// Host and port, for people.
    pub(crate) fn shown(&self) -> &str {
        &self.address.shown
    }

    /// Subscribes to a channel, on a connection of its own.
    pub(crate) async fn subscribe(&self, channel: &str) -> Result<redis::aio::PubSub, CallError> {
        let fault = |error| CallError::of_connecting(&self.address.shown, &error);
        let subscribing = async {
            let mut subscription = self.address.client().await?.get_async_pubsub().await.map_err(fault)?;
            subscription.subscribe(channel).await.map_err(fault)?;
            Ok(subscription)
        };
        let late = |_| Err(CallError::NotSent(format!("the queue's Redis at {} does not answer", self.address.shown)));
        tokio::time::timeout(self.timing.connect, subscribing).await.unwrap_or_else(late)
    }

    /// Sends a command. What certainly did not take effect is sent again for a while; what may have is not.
    async fn query<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, CallError> {
        let has_been_there = self.state.lock().await.generation > 0;
        let give_up_at =
            Instant::now() + if has_been_there { self.timing.patience } else { self.timing.first_patience };
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match self.query_once(command).await {
                Ok(value) => return Ok(value),
                Err(error @ (CallError::NotSent(_) | CallError::NotNow(_))) => error,
                // The file may be about to be changed: Secrets come late.
                Err(error @ CallError::WrongPassword(_)) if self.address.password_may_change() => error,
                Err(error) => return Err(error),
            };
            if Instant::now() + pause >= give_up_at {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn query_once<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, CallError> {
        let (generation, mut connection) = self.live().await?;
        let error = match command.query_async(&mut connection).await {
            Ok(value) => return Ok(value),
            Err(error) => CallError::of(&self.address.shown, &error),
        };
        // A replica, or a server that is going away: another one may be behind the address by now.
        if matches!(error, CallError::Unknown(_) | CallError::NotNow(_)) {
            let mut state = self.state.lock().await;
            if state.live.as_ref().is_some_and(|(live, _)| *live == generation) {
                state.live = None;
            }
        }
        Err(error)
    }

    /// The connection. Who comes while one is being made shares what comes of it; after a failure nobody tries before the pause
    /// is over.
    async fn live(&self) -> Result<(u64, MultiplexedConnection), CallError> {
        let asked_at = Instant::now();
        let mut state = self.state.lock().await;
        if let Some(live) = &state.live {
            return Ok(live.clone());
        }
        if let Some((_, error)) = state.last_failure.as_ref().filter(|(failed_at, _)| *failed_at > asked_at) {
            return Err(error.clone());
        }
        if let Some(next_attempt) = state.next_attempt {
            tokio::time::sleep_until(next_attempt).await;
        }
        match self.connect().await {
            Ok(connection) => {
                state.generation += 1;
                state.failures = 0;
                state.next_attempt = None;
                state.live = Some((state.generation, connection.clone()));
                Ok((state.generation, connection))
            }
            Err(error) => {
                let pause = FIRST_PAUSE.saturating_mul(1 << state.failures.min(6)).min(LONGEST_PAUSE);
                state.failures += 1;
                state.next_attempt = Some(Instant::now() + pause);
                state.last_failure = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    async fn connect(&self) -> Result<MultiplexedConnection, CallError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timing.connect))
            .set_response_timeout(Some(self.timing.response));
        let connecting = async {
            let client = self.address.client().await?;
            client
                .get_multiplexed_async_connection_with_config(&config)
                .await
                .map_err(|error| CallError::of_connecting(&self.address.shown, &error))
        };
        tokio::time::timeout(2 * self.timing.connect, connecting).await.unwrap_or_else(|_| {
            let why = format!("the queue's Redis at {} does not answer", self.address.shown);
            Err(CallError::NotSent(why))
        })
    }
}
