//! One connection to a server, from its greeting to its loss.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, PushInfo, RedisError, Value};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// What is told of each message that comes unasked.
pub(super) type OnPush = Box<dyn Fn(PushInfo) + Send + Sync>;

/// One connection, shared by all callers, whose calls are pipelined.
pub(super) struct Link {
    connection: MultiplexedConnection,
    at: Arc<str>,
    closed: CancellationToken,
    is_retired: AtomicBool,
    has_served: AtomicBool,
    driver: JoinHandle<()>,
}

impl Link {
    pub(super) fn new(
        connection: MultiplexedConnection,
        driver: impl Future<Output = ()> + Send + 'static,
        at: Arc<str>,
    ) -> Self {
        let closed = CancellationToken::new();
        let guard = closed.clone().drop_guard();
        let driver = tokio::spawn(async move {
            let _guard = guard;
            driver.await;
        });
        Self { connection, at, closed, is_retired: AtomicBool::new(false), has_served: AtomicBool::new(false), driver }
    }

    /// Where it leads.
    pub(super) fn at(&self) -> &Arc<str> {
        &self.at
    }

    /// Nothing was sent over a link that is not usable; over one that is, it may have been.
    pub(super) fn is_usable(&self) -> bool {
        !self.closed.is_cancelled() && !self.is_retired.load(Ordering::Relaxed)
    }

    /// Calls in flight go on; new ones take another link.
    pub(super) fn retire(&self) {
        self.is_retired.store(true, Ordering::Relaxed);
    }

    /// Whether it ever did what it was asked.
    pub(super) fn has_served(&self) -> bool {
        self.has_served.load(Ordering::Relaxed)
    }

    /// Sends a command and waits for its answer, no longer than the connection's response timeout.
    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        let value = self.connection.clone().send_packed_command(command).await?.extract_error()?;
        self.has_served.store(true, Ordering::Relaxed);
        Ok(value)
    }

    /// What the server says of itself: version, mode, role.
    pub(super) async fn ask_hello(&self) -> Result<Value, RedisError> {
        self.connection.clone().send_packed_command(&redis::cmd("HELLO")).await?.extract_error()
    }

    /// Returns once the channels are subscribed to.
    pub(super) async fn subscribe(&self, channels: &[String]) -> Result<(), RedisError> {
        self.connection.clone().subscribe(channels).await?;
        self.has_served.store(true, Ordering::Relaxed);
        Ok(())
    }

    pub(super) async fn unsubscribe(&self, channels: &[String]) -> Result<(), RedisError> {
        self.connection.clone().unsubscribe(channels).await
    }

    /// Returns when the connection is lost.
    pub(super) async fn closed(&self) {
        self.closed.cancelled().await;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
