//! What a call to Redis came to when it came to nothing, as a sentence for the person who must act.

use std::fmt;
use std::sync::Arc;

use crate::queue::QueueError;

/// Why a call has no answer, and where. Displayed as a sentence: what, where, why, what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::queue::redis) struct CallError {
    /// What kind of failure it is.
    pub(in crate::queue::redis) kind: Fault,
    /// Host and port, without user and password.
    at: Arc<str>,
    /// What the server, or the system, said.
    says: String,
}

/// The kinds of failures that are told apart. Only [`Unknown`](Fault::Unknown) and [`Script`](Fault::Script) may have
/// taken effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::queue::redis) enum Fault {
    /// No connection could be made: nothing was sent.
    NotSent,
    /// It was sent, and there was no answer: it may have taken effect.
    Unknown,
    /// The server does not have the function.
    FunctionMissing,
    /// The server is at its memory limit.
    OutOfMemory,
    /// Somebody's script keeps the server from everything else.
    Busy,
    /// The server has started and reads its data.
    Loading,
    /// The server is a replica.
    ReadOnly,
    /// The server is a replica without its master.
    MasterDown,
    /// The server can't do it at present: it has too few replicas, too many clients.
    TryAgain,
    /// The server can't write to its disk.
    CantSave,
    /// The user may not do that.
    Denied,
    /// User or password are wrong.
    WrongPassword,
    /// The server has fewer databases.
    WrongDatabase,
    /// A Redis without functions.
    NotRedis7,
    /// Something else listens there.
    NotRedis,
    /// A server that can't serve, for a reason of its own.
    Unfit,
    /// No TLS connection comes about.
    Tls,
    /// A file that the settings name is no good.
    Settings,
    /// A fault inside the function, or an answer that makes no sense.
    Script,
}

impl Fault {
    /// The server itself said no before it did anything, for a reason that passes: worth another try.
    pub(super) fn is_refusal_that_passes(self) -> bool {
        matches!(self, Self::Busy | Self::Loading | Self::ReadOnly | Self::MasterDown | Self::TryAgain)
    }

    /// Passes by itself, or may at least: nobody has to change Trawler's settings, or the server's.
    pub(in crate::queue::redis) fn passes(self) -> bool {
        self.is_refusal_that_passes()
            || matches!(self, Self::NotSent | Self::Unknown | Self::OutOfMemory | Self::CantSave)
    }
}

impl CallError {
    pub(super) fn new(kind: Fault, at: &Arc<str>, says: impl Into<String>) -> Self {
        Self { kind, at: Arc::clone(at), says: says.into() }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, at, says } = self;
        match kind {
            Fault::NotSent => write!(f, "the queue's Redis at {at} can't be reached: {says}"),
            Fault::Unknown => {
                write!(f, "the queue's Redis at {at} did not answer: {says}; whether the call took effect is not known")
            }
            Fault::FunctionMissing => write!(
                f,
                "the queue's Redis at {at} does not have Trawler's function {says}: it was never set up, or has lost its \
                 data; whoever starts the run loads it"
            ),
            Fault::OutOfMemory => write!(
                f,
                "the queue's Redis at {at} has reached its memory limit ({says}); raise its maxmemory, or wait until \
                 crawlers have worked off some of the queue"
            ),
            Fault::Busy => write!(
                f,
                "the queue's Redis at {at} is kept busy by a script ({says}); `redis-cli FUNCTION KILL` or SCRIPT KILL \
                 ends one that has written nothing"
            ),
            Fault::Loading => {
                write!(f, "the queue's Redis at {at} has just started and is still loading its data; this passes")
            }
            Fault::ReadOnly => write!(
                f,
                "the queue's Redis at {at} is a replica and takes no writes; the address must lead to the master \
                 (redis+sentinel://… follows it after a failover)"
            ),
            Fault::MasterDown => write!(
                f,
                "the queue's Redis at {at} is a replica that has lost its master; the address must lead to the master \
                 (redis+sentinel://… follows it after a failover)"
            ),
            Fault::TryAgain => write!(f, "the queue's Redis at {at} can't serve at present: {says}"),
            Fault::CantSave => write!(
                f,
                "the queue's Redis at {at} can't write to its disk and takes no changes; look at its log, and whether \
                 the disk is full ({says})"
            ),
            Fault::Denied => write!(
                f,
                "the queue's Redis at {at} does not let this user do that: {says}; give the user the rights that \
                 Trawler's ACL lines name"
            ),
            Fault::WrongPassword => write!(
                f,
                "the queue's Redis at {at} does not accept user and password ({says}); check them in the address or in \
                 the password file"
            ),
            Fault::WrongDatabase => write!(
                f,
                "the queue's Redis at {at} does not have the database ({says}); correct the number at the end of the \
                 address, or leave it out"
            ),
            Fault::NotRedis7 => write!(
                f,
                "the server at {at} has no functions ({says}); Trawler's queue needs Redis 7.0 or later, or Valkey"
            ),
            Fault::NotRedis => write!(
                f,
                "what answers at {at} does not speak Redis's protocol ({says}); check host and port, and whether it \
                 expects TLS (rediss://…)"
            ),
            Fault::Unfit => write!(f, "the server at {at} can't serve as the queue's Redis: {says}"),
            Fault::Tls => write!(f, "there is no TLS connection to the queue's Redis at {at}: {says}"),
            Fault::Settings => f.write_str(says),
            Fault::Script => write!(
                f,
                "a call to the queue's Redis at {at} failed there: {says}; please report this as a fault of Trawler's"
            ),
        }
    }
}

impl std::error::Error for CallError {}

impl From<CallError> for QueueError {
    fn from(error: CallError) -> Self {
        let why = error.to_string();
        if error.kind.passes() { Self::Unreachable { why } } else { Self::Refused { why } }
    }
}
