//! What the two sides say to each other, and how it is framed: a length (four bytes, big-endian), then `MessagePack` with
//! named fields.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio_util::codec::LengthDelimitedCodec;

use super::super::super::{ClosedOrigin, Committed, Opened, StoreError, TaskEffects, Traversal};
use super::super::FailedTry;
use crate::task::{RunId, SectionKey};

/// Both sides are the same program; another version of it does not guess.
pub(super) const VERSION: u32 = 1;

/// The largest frame. A page's records are stored in one step, so a frame must hold what an answer may come to.
pub(super) const MAX_FRAME_BYTES: usize = 1 << 30;

/// A request with a number by which its answer is known.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) id: u64,
    pub(super) request: Request,
}

/// What a crawler asks.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// The first request of a connection.
    Hello {
        version: u32,
        crawler: String,
    },
    OpenTraversal {
        run: RunId,
        section: SectionKey,
    },
    Commit {
        traversal: Traversal,
        effects: Box<TaskEffects>,
    },
    NoteTry(FailedTry),
    CloseOrigins(Vec<ClosedOrigin>),
}

/// The answer to the request of this number.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answered {
    pub(super) id: u64,
    pub(super) answer: Result<Answer, Refusal>,
}

/// What came of a request.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    Opened(Opened),
    Committed(Committed),
    Done,
}

/// A [`StoreError`] as data: those that a crawler tells apart, and the sentences of the others.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Refusal {
    NoSuchRun { run: RunId },
    Superseded { section: SectionKey, number: u64, attempt: u64 },
    Failed { why: String },
}

impl Refusal {
    pub(super) fn of(error: StoreError) -> Self {
        match error {
            StoreError::NoSuchRun { run } => Self::NoSuchRun { run },
            StoreError::Superseded { section, number, attempt } => Self::Superseded { section, number, attempt },
            error => Self::Failed { why: error.to_string() },
        }
    }

    pub(super) fn into_error(self) -> StoreError {
        match self {
            Self::NoSuchRun { run } => StoreError::NoSuchRun { run },
            Self::Superseded { section, number, attempt } => StoreError::Superseded { section, number, attempt },
            Self::Failed { why } => StoreError::Elsewhere { why },
        }
    }
}

pub(super) fn codec() -> LengthDelimitedCodec {
    LengthDelimitedCodec::builder().max_frame_length(MAX_FRAME_BYTES).new_codec()
}

/// A message as a frame's content.
pub(super) fn encode(message: &impl Serialize) -> Result<Bytes, String> {
    // Fields by name: some are left out when they say nothing.
    rmp_serde::to_vec_named(message).map(Bytes::from).map_err(|error| error.to_string())
}

pub(super) fn decode<T: DeserializeOwned>(frame: &[u8]) -> Result<T, String> {
    rmp_serde::from_slice(frame).map_err(|error| error.to_string())
}
