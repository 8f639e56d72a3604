//! What a call of the server came to, if it came to nothing.

use redis::{ErrorKind, RedisError, ServerErrorKind};

/// Why a call has no answer. Each holds a sentence: what happened, where, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallError {
    /// No connection could be made: nothing took effect.
    NotSent(String),
    /// It was sent, and no answer came: it may have taken effect.
    Unknown(String),
    /// The server can't at present, and nothing took effect: it is loading, busy, or a replica.
    NotNow(String),
    /// The function is not there.
    FunctionMissing(String),
    /// The server is at its memory limit: what adds is refused.
    OutOfMemory(String),
    /// The user may not do it.
    Forbidden(String),
    /// User or password are not accepted.
    WrongPassword(String),
    /// A person must act.
    Refused(String),
}

impl CallError {
    /// A connection was not made.
    pub(crate) fn of_connecting(server: &str, error: &RedisError) -> Self {
        if error.to_string().contains("invalid peer certificate") {
            return Self::Refused(format!(
                "the certificate of the queue's Redis at {server} can't be trusted ({error}); name the file of certificates that it is signed by, or correct the host"
            ));
        }
        let text = error.to_string();
        if text.contains("received corrupt message") {
            return Self::Refused(format!(
                "the server at {server} does not speak TLS; write redis://… for a server without"
            ));
        }
        match Self::of(server, error) {
            Self::Unknown(_) | Self::NotSent(_) => {
                Self::NotSent(format!("the queue's Redis at {server} can't be reached: {error}"))
            }
            other => other,
        }
    }

    /// A call was answered with an error, or not at all.
    pub(crate) fn of(server: &str, error: &RedisError) -> Self {
        let text = error.detail().map_or_else(|| error.to_string(), str::to_owned);
        let code = error.code().unwrap_or_default();
        match (error.kind(), code) {
            (ErrorKind::Server(ServerErrorKind::NoPerm), _) | (_, "NOPERM") => Self::forbidden(server, &text),
            // What a function does is refused without a code of its own.
            _ if text.starts_with("The user executing the script") => Self::forbidden(server, &text),
            _ if text.contains("max number of clients reached") => Self::NotNow(format!(
                "the queue's Redis at {server} takes no more clients; raise its maxclients, or look who holds so many connections"
            )),
            // With TLS 1.3 it is said after the connection is made.
            _ if text.contains("fatal alert: CertificateRequired") => Self::Refused(format!(
                "the queue's Redis at {server} asks for a client certificate; set its tls-auth-clients to no or optional, as the \
                 queue shows who it is by user and password"
            )),
            (ErrorKind::AuthenticationFailed, _) | (_, "WRONGPASS" | "NOAUTH") => Self::WrongPassword(format!(
                "the queue's Redis at {server} does not accept the password or the user; check the address and the password file"
            )),
            (ErrorKind::Server(ServerErrorKind::BusyLoading), _) | (_, "LOADING") => {
                Self::NotNow(format!("the queue's Redis at {server} is still loading its data"))
            }
            (ErrorKind::Server(ServerErrorKind::ReadOnly), _) | (_, "READONLY") => Self::NotNow(format!(
                "the queue's Redis at {server} is a replica that takes no writes; it must become the master, or the address must name the master"
            )),
            (ErrorKind::Server(ServerErrorKind::MasterDown | ServerErrorKind::TryAgain), _)
            | (_, "MASTERDOWN" | "TRYAGAIN" | "BUSY" | "NOREPLICAS" | "CLUSTERDOWN") => {
                Self::NotNow(format!("the queue's Redis at {server} can't at present: {code} {text}"))
            }
            (_, "OOM") => Self::OutOfMemory(format!(
                "the queue's Redis at {server} has reached its maxmemory; give it more, or wait until crawlers have worked some off"
            )),
            (_, "MISCONF") => Self::NotNow(format!(
                "the queue's Redis at {server} takes no writes because it can't persist them: {text}; look at its disk and its log"
            )),
            _ if text.contains("Function not found") => {
                Self::FunctionMissing(format!("the queue's functions are not in the Redis at {server}"))
            }
            _ if text.contains("unknown command") => Self::Refused(format!(
                "the server at {server} has no functions; the queue needs Redis 7 or later, or a server that is like it"
            )),
            _ if text.contains("DB index is out of range") || text.contains("invalid DB index") => Self::Refused(
                format!("the Redis at {server} has no database of that number; take it out of the address"),
            ),
            _ if text.contains("SELECT is not allowed") => Self::Refused(format!(
                "the Redis at {server} is a node of a cluster, which has no other database than 0; take the number out of the address"
            )),
            (ErrorKind::Server(ServerErrorKind::Moved | ServerErrorKind::Ask), _) | (_, "MOVED" | "ASK") => {
                Self::Refused(format!(
                    "the Redis at {server} is a node of a cluster and does not hold the instance's keys ({text}); give the address of the node that does, or better of a server that is no cluster"
                ))
            }
            (ErrorKind::Io, _) => {
                Self::Unknown(format!("the connection to the queue's Redis at {server} broke: {error}"))
            }
            (ErrorKind::Parse | ErrorKind::UnexpectedReturnType, _) => Self::Refused(format!(
                "the server at {server} does not answer as a Redis does ({error}); check host and port"
            )),
            (ErrorKind::InvalidClientConfig, _) => {
                Self::Refused(format!("the queue's Redis at {server} can't be used so: {error}"))
            }
            _ if error.is_io_error() || error.is_timeout() || error.is_connection_dropped() => {
                Self::Unknown(format!("the connection to the queue's Redis at {server} broke: {error}"))
            }
            _ => Self::Refused(format!(
                "the queue's Redis at {server} refused a call ({code} {text}); if it goes on, `trawler queue doctor` and `trawler queue audit` tell more"
            )),
        }
    }
}

impl CallError {
    /// The sentence, for who asked on behalf of the store: it may share its server with the queue, and a person must know which
    /// of the two is meant.
    pub(crate) fn about_the_store(&self) -> String {
        match self {
            Self::NotSent(why)
            | Self::Unknown(why)
            | Self::NotNow(why)
            | Self::FunctionMissing(why)
            | Self::OutOfMemory(why)
            | Self::Forbidden(why)
            | Self::WrongPassword(why)
            | Self::Refused(why) => why.replace("the queue's Redis", "the store's Redis"),
        }
    }

    fn forbidden(server: &str, text: &str) -> Self {
        Self::Forbidden(format!(
            "the user of the queue's Redis at {server} may not do this ({text}); `trawler queue acl` prints what it needs"
        ))
    }
}
