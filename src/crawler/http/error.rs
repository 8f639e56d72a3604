//! What can go wrong with a request, as sentences, each with what follows from it.

use std::borrow::Cow;
use std::time::Duration;

use jiff::Timestamp;
use thiserror::Error;
use url::Url;

use super::guard::Refusal;
use crate::outcome::Outcome;
use crate::protocol::{Response, origin_of};
use crate::task::OriginKey;

/// What an exchange has cost so far; failures cost too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Requests sent, redirects and token fetches included.
    pub requests: u32,
    /// Bytes of bodies received, as they came over the wire.
    pub wire_bytes: u64,
}

/// A failed exchange: which URL, what happened, and what it cost.
#[derive(Debug, Error)]
#[error("{url} {failure}")]
pub struct FetchError {
    /// The URL that failed, without user info, query values and fragment.
    pub url: String,
    /// Its origin: whom a pushback is about. Not always the task's, for redirects and token fetches lead elsewhere.
    pub origin: OriginKey,
    /// What happened.
    pub failure: Failure,
    /// What was spent until then.
    pub spent: Spent,
}

/// Which clock ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Looking up the name, connecting, TLS.
    Connecting,
    /// From the request to the end of the answer's header.
    Answering,
    /// Between two pieces of the body.
    Idle,
    /// From the request to the end of the body.
    Receiving,
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Connecting => "could not be connected to",
            Self::Answering => "did not begin to answer",
            Self::Idle => "sent nothing more of its answer",
            Self::Receiving => "did not finish its answer",
        })
    }
}

/// What happened. Each reads as the end of a sentence that starts with the URL; none holds a credential.
#[derive(Debug, Error)]
pub enum Failure {
    /// The guard refused the URL, or an address it leads to.
    #[error("is not fetched: {0}")]
    Refused(Refusal),
    /// The name could not be looked up.
    #[error("can't be reached: its name was not found ({why}); check the endpoint's spelling and the DNS")]
    Lookup {
        /// The resolver's words.
        why: String,
    },
    /// No connection.
    #[error("can't be reached: {why}")]
    Connect {
        /// The system's words.
        why: String,
    },
    /// The server's certificate, or ours, is not good; a person must act.
    #[error("can't be trusted: {why}")]
    Certificate {
        /// What is wrong and what to do.
        why: String,
    },
    /// TLS failed for another reason.
    #[error("failed to set up TLS: {why}")]
    Tls {
        /// The library's words.
        why: String,
    },
    /// A time limit passed.
    #[error("{phase} within {limit:?}")]
    Timeout {
        /// Which.
        phase: Phase,
        /// The limit.
        limit: Duration,
    },
    /// The connection broke before an answer.
    #[error("broke the connection before it answered: {why}")]
    Broken {
        /// The library's words.
        why: String,
    },
    /// What came back is not HTTP.
    #[error("answered something that is not HTTP: {why}")]
    NotHttp {
        /// The library's words.
        why: String,
    },
    /// The answer's header is too large.
    #[error("answered with a header of more than {limit} bytes or 100 fields")]
    HeaderTooLarge {
        /// The limit.
        limit: usize,
    },
    /// The body is too large.
    #[error(
        "answered more than {limit} bytes (counted after decompression); ask for smaller pages, or raise the limit for one answer"
    )]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// The body ended early.
    #[error("broke off in the middle of its answer: {why}; try again later")]
    Truncated {
        /// What is missing.
        why: String,
    },
    /// The body does not decompress.
    #[error("answered a body that is not the {encoding} it claims to be: {why}")]
    Decoding {
        /// The encoding.
        encoding: &'static str,
        /// The library's words.
        why: String,
    },
    /// A content encoding that was not asked for, or too many.
    #[error("answered with the content encoding {encoding:?}; up to two of gzip, br, zstd and deflate are understood")]
    Encoding {
        /// The header's value.
        encoding: String,
    },
    /// A chain of redirects that does not end.
    #[error("redirects more than {limit} times; give the final address as the endpoint")]
    TooManyRedirects {
        /// The limit.
        limit: u32,
    },
    /// A redirect that is not followed.
    #[error("redirects to {to:?}, which is not followed: {why}")]
    RedirectRefused {
        /// Where to, fit to be shown.
        to: String,
        /// Why not.
        why: Cow<'static, str>,
    },
    /// 304 to a request without conditions.
    #[error("answered 304 Not Modified to a request that set no condition")]
    NotModifiedUnasked,
    /// 206 to a request without a range.
    #[error("answered 206 with a part of the document although all of it was asked for")]
    PartialUnasked,
    /// A status that is not a success.
    #[error("{0}")]
    Status(Box<StatusFailure>),
    /// The token endpoint did not give a token.
    #[error("gave no access token: {why}; check the Secret's clientId, clientSecret, scope and audience")]
    Token {
        /// The endpoint's error code, or what its answer lacks.
        why: String,
    },
    /// The credential can't be sent.
    #[error("is not asked: its credential is unusable: {why}")]
    Credential {
        /// What is wrong with it; never the credential itself.
        why: &'static str,
    },
    /// A certificate authority's file can't be read.
    #[error("is not asked: {why}")]
    TlsSettings {
        /// What is wrong with which key.
        why: String,
    },
    /// The gate gave no leave for a further request.
    #[error("was not asked further: {0}")]
    Gate(GateClosed),
}

/// The gate is closed: nothing is wrong, and the task is released uncharged.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{why}")]
pub struct GateClosed {
    /// When to ask again; `None` if only an event can tell (frozen, fenced, shutting down).
    pub until: Option<Timestamp>,
    /// Which gate, in words.
    pub why: Cow<'static, str>,
}

/// An answer whose status is not a success. Its `Debug` leaves the answer out: servers echo what they were sent.
pub struct StatusFailure {
    /// The status.
    pub status: u16,
    /// `Retry-After`, if it says something: capped, never zero.
    pub retry_after: Option<Duration>,
    /// The answer, with the first 4 KiB of its body: for `Reader::describe_error`.
    pub response: Response,
    /// The server's own words, once a reader has found them.
    pub detail: Option<String>,
}

impl std::fmt::Debug for StatusFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { status, retry_after, response: _, detail } = self;
        f.debug_struct("StatusFailure")
            .field("status", status)
            .field("retry_after", retry_after)
            .field("detail", detail)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Display for StatusFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let reason = reqwest::StatusCode::from_u16(self.status).ok().and_then(|status| status.canonical_reason());
        write!(f, "answered {} {}", self.status, reason.unwrap_or("(a status of its own)"))?;
        if let Some(detail) = &self.detail {
            write!(f, " ({detail})")?;
        }
        match self.status {
            401 => f.write_str("; name a Secret in credentialRef, or check the one named"),
            403 => f.write_str("; the credential may not read this catalogue, or the server refuses crawlers"),
            404 | 410 => f.write_str("; check the endpoint"),
            429 | 503 => match self.retry_after {
                Some(delay) => write!(f, " and asks to wait {delay:?}"),
                None => f.write_str("; it is overloaded, try again later"),
            },
            500.. => f.write_str("; the fault is the server's, try again later or tell its operator"),
            _ => Ok(()),
        }
    }
}

impl FetchError {
    /// What follows from it.
    pub fn outcome(&self) -> Outcome {
        self.failure.outcome()
    }

    /// Whether the server, or the way to it, is overloaded: its origin's rate must go down.
    pub fn is_pushback(&self) -> bool {
        match &self.failure {
            Failure::Timeout { .. } => true,
            Failure::Status(status) => matches!(status.status, 429 | 503),
            _ => false,
        }
    }

    /// Whether it may be our own fault: a credential that is refused or can't be used, or settings that forbid the request.
    /// It doesn't tell that the server is gone.
    pub fn may_be_ours(&self) -> bool {
        match &self.failure {
            Failure::Status(status) => matches!(status.status, 401 | 403 | 407),
            Failure::Refused(_) | Failure::Token { .. } | Failure::Credential { .. } | Failure::TlsSettings { .. } => {
                true
            }
            _ => false,
        }
    }

    /// The delay that the server asked for.
    pub fn retry_after(&self) -> Option<Duration> {
        match &self.failure {
            Failure::Status(status) => status.retry_after,
            _ => None,
        }
    }

    /// A constant for conditions, metrics and reports.
    pub fn reason(&self) -> &'static str {
        self.failure.reason()
    }
}

impl Failure {
    pub(super) fn at(self, url: &Url, spent: Spent) -> FetchError {
        FetchError { url: shown_url(url), origin: origin_of(url), failure: self, spent }
    }

    fn outcome(&self) -> Outcome {
        match self {
            Self::Lookup { .. }
            | Self::Connect { .. }
            | Self::Tls { .. }
            | Self::Timeout { .. }
            | Self::Broken { .. }
            | Self::NotHttp { .. }
            | Self::Truncated { .. }
            | Self::Decoding { .. }
            | Self::NotModifiedUnasked
            | Self::PartialUnasked
            | Self::Gate(GateClosed { until: None, .. }) => Outcome::RETRY,
            Self::Gate(GateClosed { until: Some(until), .. }) => Outcome::Wait { until: *until },
            Self::Status(status) if is_transient(status.status) => Outcome::Retry { at_least: status.retry_after },
            Self::Status(_)
            | Self::Refused(_)
            | Self::Certificate { .. }
            | Self::HeaderTooLarge { .. }
            | Self::TooLarge { .. }
            | Self::Encoding { .. }
            | Self::TooManyRedirects { .. }
            | Self::RedirectRefused { .. }
            | Self::Token { .. }
            | Self::Credential { .. }
            | Self::TlsSettings { .. } => Outcome::Terminal,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Refused(_) => "AddressRefused",
            Self::Lookup { .. } => "NameNotFound",
            Self::Connect { .. } => "ConnectFailed",
            Self::Certificate { .. } => "CertificateInvalid",
            Self::Tls { .. } => "TlsFailed",
            Self::Timeout { .. } => "TimedOut",
            Self::Broken { .. } => "ConnectionBroken",
            Self::NotHttp { .. } => "NotHttp",
            Self::HeaderTooLarge { .. } => "HeaderTooLarge",
            Self::TooLarge { .. } => "BodyTooLarge",
            Self::Truncated { .. } => "BodyTruncated",
            Self::Decoding { .. } => "BodyCorrupt",
            Self::Encoding { .. } => "EncodingUnknown",
            Self::TooManyRedirects { .. } => "TooManyRedirects",
            Self::RedirectRefused { .. } => "RedirectRefused",
            Self::NotModifiedUnasked => "NotModifiedUnasked",
            Self::PartialUnasked => "PartialUnasked",
            Self::Status(status) => match status.status {
                401 => "Unauthorized",
                403 => "Forbidden",
                404 => "NotFound",
                410 => "Gone",
                429 => "TooManyRequests",
                503 => "Unavailable",
                500..=599 => "ServerError",
                _ => "StatusUnexpected",
            },
            Self::Token { .. } => "TokenRefused",
            Self::Credential { .. } => "CredentialUnusable",
            Self::TlsSettings { .. } => "TlsSettingsUnusable",
            Self::Gate(_) => "GateClosed",
        }
    }
}

/// Whether an answer of this status may be another one in a moment.
pub(super) fn is_transient(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500..=599)
}

/// A URL as it may be shown: no user info, no query values (they may be keys), no fragment, at most 256 characters.
pub fn shown_url(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let query = if url.query().is_some() { "?…" } else { "" };
    let shown = format!("{}://{host}{port}{}{query}", url.scheme(), url.path());
    match shown.char_indices().nth(256) {
        Some((end, _)) => format!("{}…", &shown[..end]),
        None => shown,
    }
}
