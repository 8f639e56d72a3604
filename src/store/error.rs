//! Why the store refuses or fails, as sentences, each with what follows.

use thiserror::Error;

use crate::outcome::Outcome;
use crate::task::{CatalogName, RunId, SectionKey};

/// Why the store refused or failed.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Another process works in it.
    #[error("{path} is in use by another trawler process; wait for it to end, or choose another directory with -d")]
    Locked {
        /// The directory.
        path: String,
    },
    /// The file system refused.
    #[error("can't {doing} {path}: {source}")]
    Io {
        /// "write", "read", "create".
        doing: &'static str,
        /// What.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The state can't be read: damaged, or written by a newer version.
    #[error("the state in {path} can't be used: {why}; move it away to start afresh, which crawls everything again")]
    Unusable {
        /// Where.
        path: String,
        /// Why.
        why: String,
    },
    /// Another run of the Catalog is unfinished.
    #[error("run {run} of Catalog {catalog} is unfinished; resume it, or abandon it with --restart")]
    RunUnfinished {
        /// The Catalog.
        catalog: CatalogName,
        /// The run.
        run: RunId,
    },
    /// The store has no such run, or it is finished.
    #[error("run {run} is not under way in this store")]
    NoSuchRun {
        /// The run.
        run: RunId,
    },
    /// A newer traversal, or another process, has taken over.
    #[error("traversal {number} (attempt {attempt}) of {section} was taken over; this crawler must stop writing to it")]
    Superseded {
        /// The section.
        section: SectionKey,
        /// The number presented.
        number: u64,
        /// The attempt presented.
        attempt: u64,
    },
    /// The process that holds the store failed; the sentence is its own.
    #[error("{why}")]
    Elsewhere {
        /// Why.
        why: String,
    },
    /// The process that holds the store is gone, or can't be reached.
    #[error("the store at {address} is gone: {why}; what was not acknowledged will be fetched again")]
    Gone {
        /// Where it was.
        address: String,
        /// How that is known.
        why: String,
    },
    /// The store is another one than this process began with.
    #[error(
        "the store in the Redis at {address} is not as this process left it: {why}; this process stops, and what is missing \
         will be fetched again"
    )]
    Lost {
        /// Where it is.
        address: String,
        /// How that is known.
        why: String,
    },
    /// Its rows contradict each other.
    #[error(
        "the store in the Redis at {address} can't be used: {why}; give this program another instance, which crawls \
         everything again"
    )]
    Damaged {
        /// Where it is.
        address: String,
        /// Why.
        why: String,
    },
    /// A newer session works on the run.
    #[error(
        "session {session} of the store is over: session {newer} has taken over the run; this process must stop writing"
    )]
    SessionOver {
        /// The session presented.
        session: u64,
        /// The newer one.
        newer: u64,
    },
    /// Others were always faster.
    #[error(
        "others kept changing in the Redis at {address} what was about to be stored; fewer crawlers, or a faster server, help"
    )]
    Contended {
        /// Where.
        address: String,
    },
    /// One step is larger than may be sent to the process, or the server, that holds the store.
    #[error("what an answer came to takes {bytes} bytes, more than the {max} that may be stored at once")]
    TooLarge {
        /// What it takes.
        bytes: usize,
        /// What is allowed.
        max: usize,
    },
}

impl StoreError {
    /// What follows.
    pub fn outcome(&self) -> Outcome {
        Outcome::Terminal
    }
}
