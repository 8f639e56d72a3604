//! The side of the process that holds the store.

use std::collections::HashSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::SplitSink;
use futures_util::{SinkExt as _, StreamExt as _};
use tempfile::TempDir;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::codec::{Framed, LengthDelimitedCodec};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, warn};

use super::super::super::StoreError;
use super::super::SharedLanding;
use super::SCHEME;
use super::wire::{Answer, Answered, Asked, Refusal, Request, VERSION, codec, decode, encode};

/// Requests of one crawler under way at a time; further ones wait in its socket.
const MAX_UNDER_WAY: usize = 256;

/// After a connection could not be taken (no file handle is left, say).
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Serves a landing until it is dropped.
#[derive(Debug)]
pub struct LandingServer {
    address: String,
    met: Arc<Met>,
    _accepting: AbortOnDropHandle<()>,
    /// Only its user may enter it. Goes last, with the socket in it.
    _directory: TempDir,
}

/// The crawlers that have introduced themselves.
#[derive(Debug, Default)]
struct Met(Mutex<HashSet<String>>);

impl LandingServer {
    /// Begins to serve, on a socket of its own.
    pub fn start(landing: SharedLanding) -> Result<Self, StoreError> {
        let temporary = std::env::temp_dir();
        let directory =
            tempfile::Builder::new().prefix("trawler-").permissions(Permissions::from_mode(0o700)).tempdir();
        let directory = directory.map_err(|source| StoreError::Io {
            doing: "create a directory in",
            path: temporary.display().to_string(),
            source,
        })?;
        let path = directory.path().join("store.sock");
        let listener = UnixListener::bind(&path).map_err(|source| StoreError::Io {
            doing: "open a socket (TMPDIR names another place for it; 90 characters at most) at",
            path: path.display().to_string(),
            source,
        })?;
        let met = Arc::new(Met::default());
        let accepting = tokio::spawn(accept(listener, landing, met.clone()));
        Ok(Self {
            address: format!("{SCHEME}{}", path.display()),
            met,
            _accepting: AbortOnDropHandle::new(accepting),
            _directory: directory,
        })
    }

    /// Where it is served.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Whether this crawler came as far as here.
    pub fn has_met(&self, crawler: &str) -> bool {
        self.met.0.lock().unwrap_or_else(PoisonError::into_inner).contains(crawler)
    }
}

async fn accept(listener: UnixListener, landing: SharedLanding, met: Arc<Met>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, landing.clone(), met.clone()));
                }
                Err(error) => {
                    warn!("a crawler could not be let in: {error}");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            },
        }
    }
}

/// Serves one crawler. What it has asked for when it goes away is carried out all the same: it was sent whole.
async fn serve(stream: UnixStream, landing: SharedLanding, met: Arc<Met>) {
    let (outgoing, mut incoming) = Framed::new(stream, codec()).split();
    let (answers, to_send) = mpsc::channel(MAX_UNDER_WAY);
    tokio::spawn(send_all(outgoing, to_send));
    let places = Arc::new(Semaphore::new(MAX_UNDER_WAY));
    let mut has_said_hello = false;
    while let Some(frame) = incoming.next().await {
        let asked = frame.map_err(|error| error.to_string()).and_then(|frame| decode::<Asked>(&frame));
        let Asked { id, request } = match asked {
            Ok(asked) => asked,
            Err(why) => {
                debug!("a crawler was cut off: {why}");
                return;
            }
        };
        match &request {
            Request::Hello { version: VERSION, crawler } => {
                has_said_hello = true;
                met.0.lock().unwrap_or_else(PoisonError::into_inner).insert(crawler.clone());
            }
            _ if has_said_hello => {}
            _ => {
                let why = "the crawler is of another version of trawler than the process that holds the store";
                let refusal = Answered { id, answer: Err(Refusal::Failed { why: why.to_owned() }) };
                if let Ok(refusal) = encode(&refusal) {
                    drop(answers.send(refusal).await);
                }
                return;
            }
        }
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let (landing, answers) = (landing.clone(), answers.clone());
        tokio::spawn(async move {
            let answer = answer(&landing, request).await.map_err(Refusal::of);
            match encode(&Answered { id, answer }) {
                Ok(answer) => drop(answers.send(answer).await),
                Err(why) => warn!("an answer to a crawler could not be written: {why}"),
            }
            drop(place);
        });
    }
}

/// Ends when nobody is left who may answer.
async fn send_all(
    mut outgoing: SplitSink<Framed<UnixStream, LengthDelimitedCodec>, Bytes>,
    mut answers: mpsc::Receiver<Bytes>,
) {
    while let Some(answer) = answers.recv().await {
        if outgoing.send(answer).await.is_err() {
            return;
        }
    }
}

async fn answer(landing: &SharedLanding, request: Request) -> Result<Answer, StoreError> {
    Ok(match request {
        Request::Hello { .. } => Answer::Done,
        Request::OpenTraversal { run, section } => Answer::Opened(landing.open_traversal(&run, &section).await?),
        Request::Commit { traversal, effects } => Answer::Committed(landing.commit(&traversal, *effects).await?),
        Request::NoteTry(failed) => {
            landing.note_try(failed).await?;
            Answer::Done
        }
        Request::CloseOrigins(closed) => {
            landing.close_origins(closed).await?;
            Answer::Done
        }
    })
}
