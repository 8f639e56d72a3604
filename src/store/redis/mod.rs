//! The store in Redis: shared by crawlers on many machines, which write straight to it (ADR 0013).
//!
//! The engine's steps run here, over tables that are looked up in the server ([`tables`]). A step remembers what it has read, and
//! ends with one atomic write (`lua/store.lua`) that first looks whether all of it is still so. If not, the step is run again.
//! Numbers of the change feed are given by that write.
//!
//! # Steps over many records
//! Whatever goes over many entries (a sweep, the end of a run) pauses where what is written so far says the same after a crash,
//! and is written in portions of some hundred changes. A close is judged first, and the judgement is written down with the
//! traversal before the first record goes; whoever repeats the step carries it out and does not judge what is left. The same
//! holds for sections that are gone, within the run. Counts of live records go down with each portion.
//!
//! Reads that write nothing are not of one moment: each portion of them is.
//!
//! # Is it the store I knew?
//! Every call presents the store's epoch, every write the number of the last write of its lane: a server that was emptied, or that
//! has forgotten what it had answered, is noticed by the next write, and takes another epoch, so that all others notice too.

mod keys;
mod landing;
pub(crate) mod library;
mod link;
mod places;
mod session;
mod step;
mod store;
mod tables;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

pub use self::landing::RedisLanding;
use self::link::Link;
use self::places::Places;
pub use self::session::{Session, SessionId};
use super::StoreError;
use super::engine::needs::Known;
use crate::redis::{RedisSettings, Timing};
use crate::task::{RunId, SectionKey};

/// Commits of one process to a section go one after the other: the later ones would only have to begin again.
const STRIPES: usize = 64;

/// So many steps of one process are under way at a time.
const MAX_STEPS: usize = 64;

/// A handle on the store of an instance.
#[derive(Debug)]
pub struct RedisStore {
    link: Arc<Link>,
    places: Arc<Places>,
    known: Arc<Mutex<HashMap<(RunId, SectionKey), Known>>>,
    stripes: Vec<tokio::sync::Mutex<()>>,
    steps: Arc<tokio::sync::Semaphore>,
}

impl RedisStore {
    /// Opens the store of an instance, and makes it if there is none and the session is a new one.
    pub async fn open(settings: &RedisSettings, session: Session) -> Result<Self, StoreError> {
        Self::open_with_timing(settings, session, Timing::default()).await
    }

    /// The same with less patience, or more.
    pub async fn open_with_timing(
        settings: &RedisSettings,
        session: Session,
        timing: Timing,
    ) -> Result<Self, StoreError> {
        let link = Link::open(settings, timing, session).await?;
        Ok(Self {
            link: Arc::new(link),
            places: Arc::new(Places::new()?),
            known: Arc::default(),
            stripes: (0..STRIPES).map(|_| tokio::sync::Mutex::default()).collect(),
            steps: Arc::new(tokio::sync::Semaphore::new(MAX_STEPS)),
        })
    }

    /// The session: what crawlers are told, so that they work in it too.
    pub fn session(&self) -> &SessionId {
        self.link.session()
    }

    /// For tests: after so many more atomic writes this handle answers nothing but that its process died.
    #[doc(hidden)]
    pub fn die_after(&self, writes: u32) {
        self.link.die_after(writes);
    }
}
