//! Sessions: who works in the store, and who is gone.
//!
//! Crawlers of a run are many processes and must not fence each other, so they share their owner's session. A traversal's attempt
//! is raised once by each session. Once a session has written to a run, earlier ones can't any more.

use std::fmt;
use std::str::FromStr;

/// Which session a handle works in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Session {
    /// A new one, as whoever begins or takes over runs needs it.
    New,
    /// This one, as a crawler is told it.
    Of(SessionId),
    /// The one that was begun last.
    Latest,
}

/// A session as crawlers are told it: `<number>.<epoch>`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionId {
    /// Grows with each.
    pub(super) number: u64,
    /// Tells the store from another one in its place.
    pub(super) epoch: String,
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.number, self.epoch)
    }
}

impl FromStr for SessionId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('.').and_then(|(number, epoch)| Some((number.parse().ok()?, epoch)));
        match parts.filter(|(_, epoch)| !epoch.is_empty()) {
            Some((number, epoch)) => Ok(Self { number, epoch: epoch.to_owned() }),
            None => Err(format!("{text:?} is no session of a store: it reads NUMBER.EPOCH")),
        }
    }
}
