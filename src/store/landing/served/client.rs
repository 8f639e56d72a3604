//! The side of a crawler's process.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio_util::codec::{Framed, LengthDelimitedCodec};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::super::super::{ClosedOrigin, Committed, Opened, StoreError, TaskEffects, Traversal};
use super::super::{FailedTry, Landing};
use super::SCHEME;
use super::wire::{Answer, Answered, Asked, MAX_FRAME_BYTES, Refusal, Request, VERSION, codec, decode, encode};
use crate::task::{RunId, SectionKey};

/// Frames that wait to be sent; their records are in memory.
const MAX_WAITING: usize = 4;

type Connection = Framed<UnixStream, LengthDelimitedCodec>;

/// A landing that another process of this machine serves.
#[derive(Debug)]
pub struct LandingClient {
    address: String,
    outgoing: mpsc::Sender<Bytes>,
    next_id: AtomicU64,
    waiting: Arc<Waiting>,
    _ends: [AbortOnDropHandle<()>; 2],
}

/// Who waits for an answer, and whether one can still come.
#[derive(Debug, Default)]
struct Waiting {
    answers: Mutex<HashMap<u64, oneshot::Sender<Result<Answer, Refusal>>>>,
    gone: CancellationToken,
    why: Mutex<String>,
}

impl LandingClient {
    /// Connects, as the crawler of this name.
    pub async fn connect(address: &str, crawler: &str) -> Result<Self, StoreError> {
        let gone = |why: String| StoreError::Gone { address: address.to_owned(), why };
        let path = address.strip_prefix(SCHEME).ok_or_else(|| gone(format!("it does not begin with {SCHEME}")))?;
        let stream = UnixStream::connect(Path::new(path)).await.map_err(|error| gone(error.to_string()))?;
        let (sink, stream) = Framed::new(stream, codec()).split();
        let (outgoing, to_send) = mpsc::channel(MAX_WAITING);
        let waiting = Arc::new(Waiting::default());
        let ends = [
            AbortOnDropHandle::new(tokio::spawn(send(sink, to_send, waiting.clone()))),
            AbortOnDropHandle::new(tokio::spawn(receive(stream, waiting.clone()))),
        ];
        let address = address.to_owned();
        let client = Self { address, outgoing, next_id: AtomicU64::new(0), waiting, _ends: ends };
        client.ask(Request::Hello { version: VERSION, crawler: crawler.to_owned() }).await?;
        Ok(client)
    }

    /// Returns when the process that holds the store is gone, and how that is known.
    pub async fn gone(&self) -> StoreError {
        self.waiting.gone.cancelled().await;
        self.gone_error()
    }

    fn gone_error(&self) -> StoreError {
        StoreError::Gone { address: self.address.clone(), why: lock(&self.waiting.why).clone() }
    }

    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let frame = encode(&Asked { id, request }).map_err(|why| StoreError::Elsewhere { why })?;
        if frame.len() > MAX_FRAME_BYTES {
            return Err(StoreError::TooLarge { bytes: frame.len(), max: MAX_FRAME_BYTES });
        }
        let (sender, answer) = oneshot::channel();
        lock(&self.waiting.answers).insert(id, sender);
        // Looked at after it was put there: who says that nobody will answer takes away what is there by then.
        if self.waiting.gone.is_cancelled() || self.outgoing.send(frame).await.is_err() {
            lock(&self.waiting.answers).remove(&id);
            return Err(self.gone_error());
        }
        match answer.await {
            Ok(answer) => answer.map_err(Refusal::into_error),
            Err(_) => Err(self.gone_error()),
        }
    }

    fn unexpected(&self) -> StoreError {
        StoreError::Gone { address: self.address.clone(), why: "it gave an answer to another question".to_owned() }
    }

    async fn ask_for_nothing(&self, request: Request) -> Result<(), StoreError> {
        match self.ask(request).await? {
            Answer::Done => Ok(()),
            _ => Err(self.unexpected()),
        }
    }
}

#[async_trait]
impl Landing for LandingClient {
    async fn open_traversal(&self, run: &RunId, section: &SectionKey) -> Result<Opened, StoreError> {
        match self.ask(Request::OpenTraversal { run: run.clone(), section: section.clone() }).await? {
            Answer::Opened(opened) => Ok(opened),
            _ => Err(self.unexpected()),
        }
    }

    async fn commit(&self, traversal: &Traversal, effects: TaskEffects) -> Result<Committed, StoreError> {
        match self.ask(Request::Commit { traversal: traversal.clone(), effects: Box::new(effects) }).await? {
            Answer::Committed(committed) => Ok(committed),
            _ => Err(self.unexpected()),
        }
    }

    async fn note_try(&self, failed: FailedTry) -> Result<(), StoreError> {
        self.ask_for_nothing(Request::NoteTry(failed)).await
    }

    async fn close_origins(&self, closed: Vec<ClosedOrigin>) -> Result<(), StoreError> {
        self.ask_for_nothing(Request::CloseOrigins(closed)).await
    }
}

impl Waiting {
    /// Nobody will answer any more.
    fn end(&self, reason: String) {
        if !self.gone.is_cancelled() {
            *lock(&self.why) = reason;
        }
        self.gone.cancel();
        lock(&self.answers).clear();
    }
}

async fn send(mut sink: SplitSink<Connection, Bytes>, mut frames: mpsc::Receiver<Bytes>, waiting: Arc<Waiting>) {
    while let Some(frame) = frames.recv().await {
        if let Err(error) = sink.send(frame).await {
            waiting.end(error.to_string());
            return;
        }
    }
}

async fn receive(mut stream: SplitStream<Connection>, waiting: Arc<Waiting>) {
    let why = loop {
        match stream.next().await {
            None => break "the process that holds it ended".to_owned(),
            Some(Err(error)) => break error.to_string(),
            Some(Ok(frame)) => match decode::<Answered>(&frame) {
                Ok(Answered { id, answer }) => {
                    if let Some(sender) = lock(&waiting.answers).remove(&id) {
                        // Who asked may have gone away meanwhile.
                        drop(sender.send(answer));
                    }
                }
                Err(why) => break why,
            },
        }
    };
    waiting.end(why);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
