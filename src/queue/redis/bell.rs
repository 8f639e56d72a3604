//! Waiting for a change: the functions publish a run's new sequence if somebody was told to wait. A message can be lost with its
//! connection, so whoever waits also looks for himself now and then.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::StreamExt as _;
use jiff::Timestamp;
use tokio::sync::broadcast;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::RedisQueue;
use super::calls::Caller;
use crate::queue::{QueueError, Woken};
use crate::redis::CallError;
use crate::redis::Connection;
use crate::task::RunId;

/// Whoever waits looks for himself after this long.
const LOOK: Duration = Duration::from_millis(500);

/// The pause before another subscription when one ended.
const PAUSE: Duration = Duration::from_millis(500);

/// Messages that a slow listener may have before it: with more it looks for itself.
const CAPACITY: usize = 256;

/// Rings with the id of each run whose sequence was raised, or that was closed.
#[derive(Debug)]
pub(super) struct Bell {
    rung: broadcast::Sender<Arc<str>>,
    listener: OnceLock<JoinHandle<()>>,
}

impl Default for Bell {
    fn default() -> Self {
        Self { rung: broadcast::Sender::new(CAPACITY), listener: OnceLock::new() }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        if let Some(listener) = self.listener.get() {
            listener.abort();
        }
    }
}

impl Bell {
    /// Hears what is rung from now on. The first caller has the channel subscribed to.
    fn listen(&self, connection: &Arc<Connection>, channel: String) -> broadcast::Receiver<Arc<str>> {
        let receiver = self.rung.subscribe();
        self.listener.get_or_init(|| {
            let (connection, rung) = (connection.clone(), self.rung.clone());
            tokio::spawn(async move {
                loop {
                    // Whoever waits looks for himself meanwhile.
                    if let Err(error) = pass_on(&connection, &channel, &rung).await {
                        tracing::debug!("not told of changes in the queue at present: {error:?}");
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            })
        });
        receiver
    }
}

/// Passes messages on until the subscription ends.
async fn pass_on(connection: &Connection, channel: &str, rung: &broadcast::Sender<Arc<str>>) -> Result<(), CallError> {
    let mut messages = connection.subscribe(channel).await?.into_on_message();
    while let Some(message) = messages.next().await {
        let payload = String::from_utf8_lossy(message.get_payload_bytes());
        let run = payload.split('\n').next().unwrap_or_default();
        // Nobody may be listening at the moment.
        drop(rung.send(Arc::from(run)));
    }
    Ok(())
}

impl RedisQueue {
    pub(super) async fn wait_for(&self, run: &RunId, seen: u64, until: Timestamp) -> Result<Woken, QueueError> {
        let left = Duration::try_from(until.duration_since(self.clock.now())).unwrap_or(Duration::ZERO);
        let moment = Instant::now() + left;
        // Before the first look: what changes after it is heard.
        let mut rung = (!left.is_zero()).then(|| self.bell.listen(&self.calls.connection, self.calls.bell_channel()));
        loop {
            let answer = self.calls.call("sequence", run, Caller::Owner, 0, |_| {}).await?;
            if answer.read(|reader| reader.uint::<u64>())? > seen {
                return Ok(Woken::Changed);
            }
            let Some(rung) = rung.as_mut().filter(|_| Instant::now() < moment) else { return Ok(Woken::Moment) };
            let look = moment.min(Instant::now() + LOOK);
            let is_rung = async {
                // An error says that messages were missed.
                while rung.recv().await.is_ok_and(|rung| *rung != *run.as_str()) {}
            };
            drop(tokio::time::timeout_at(look, is_rung).await);
        }
    }
}
