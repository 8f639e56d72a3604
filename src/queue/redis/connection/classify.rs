//! Understands failures: the server's, the system's, and the library's.

use std::io;
use std::sync::Arc;

use redis::{ErrorKind, RedisError};

use super::fault::{CallError, Fault};

/// Of what a server says, so many characters are repeated.
const MAX_SAID: usize = 300;

/// A failure of a call that was sent.
pub(super) fn of_call(error: &RedisError, at: &Arc<str>, function: Option<&str>) -> CallError {
    if let Some((code, text)) = said_by_server(error) {
        return of_server(&code, &text, at, function);
    }
    let says = if error.is_timeout() {
        "it took too long".to_owned()
    } else if matches!(error.kind(), ErrorKind::Parse) {
        "what came back is not Redis's protocol".to_owned()
    } else {
        format!("the connection was lost ({})", shown(&error.to_string()))
    };
    CallError::new(Fault::Unknown, at, says)
}

/// A failure before any call was sent: of the greeting.
pub(super) fn of_greeting(error: &RedisError, at: &Arc<str>) -> CallError {
    match error.kind() {
        ErrorKind::RESP3NotSupported => CallError::new(Fault::NotRedis7, at, "it does not know HELLO"),
        ErrorKind::Parse => CallError::new(Fault::NotRedis, at, shown(&error.to_string())),
        _ => match said_by_server(error) {
            Some((code, text)) => of_server(&code, &text, at, None),
            None if error.is_timeout() => CallError::new(Fault::NotSent, at, "it took too long to answer"),
            // With TLS 1.3 the other side speaks last.
            None if error.to_string().contains("fatal alert") => {
                CallError::new(Fault::Tls, at, refused_over_tls(&error.to_string()))
            }
            None => CallError::new(
                Fault::NotSent,
                at,
                format!(
                    "it closed the connection at once ({}); if it expects TLS, write rediss://…",
                    shown(&error.to_string())
                ),
            ),
        },
    }
}

/// A failure to connect.
pub(super) fn of_connecting(error: &io::Error, at: &Arc<str>) -> CallError {
    let says = match error.kind() {
        io::ErrorKind::ConnectionRefused => "nothing listens there (connection refused); is it running?".to_owned(),
        io::ErrorKind::NotFound => "there is no such socket; is it running?".to_owned(),
        io::ErrorKind::PermissionDenied => "the system does not allow it (permission denied)".to_owned(),
        io::ErrorKind::TimedOut => "it did not answer in time".to_owned(),
        _ => shown(&error.to_string()),
    };
    CallError::new(Fault::NotSent, at, says)
}

/// A failure of the TLS handshake: of the network's, which passes, or of what was said.
pub(super) fn of_tls(error: &io::Error, at: &Arc<str>) -> CallError {
    let Some(said) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) else {
        return CallError::new(Fault::NotSent, at, format!("TLS was cut off ({})", shown(&error.to_string())));
    };
    let says = match said {
        rustls::Error::InvalidMessage(_) => "it does not speak TLS; write redis://… for a server without".to_owned(),
        rustls::Error::InvalidCertificate(why) => {
            format!("its certificate is not accepted ({why}); give the file with the certificates of who signed it")
        }
        rustls::Error::AlertReceived(alert) => refused_over_tls(&format!("{alert:?}")),
        other => shown(&other.to_string()),
    };
    CallError::new(Fault::Tls, at, says)
}

fn refused_over_tls(said: &str) -> String {
    format!(
        "it refused ({}); if it asks for client certificates, set tls-auth-clients to no or optional: the queue uses user \
         and password",
        shown(said)
    )
}

/// The code and the text of what the server answered.
fn said_by_server(error: &RedisError) -> Option<(String, String)> {
    let detail = error.detail().unwrap_or_default().to_owned();
    match error.kind() {
        ErrorKind::Server(_) | ErrorKind::Extension => Some((error.code()?.to_owned(), detail)),
        ErrorKind::AuthenticationFailed => Some(("WRONGPASS".to_owned(), detail)),
        _ => None,
    }
}

fn of_server(code: &str, text: &str, at: &Arc<str>, function: Option<&str>) -> CallError {
    let kind = match code {
        "BUSY" => Fault::Busy,
        "LOADING" => Fault::Loading,
        "READONLY" => Fault::ReadOnly,
        "MASTERDOWN" => Fault::MasterDown,
        "TRYAGAIN" | "NOREPLICAS" | "CLUSTERDOWN" => Fault::TryAgain,
        "OOM" => Fault::OutOfMemory,
        "MISCONF" => Fault::CantSave,
        "NOPERM" | "DENIED" => Fault::Denied,
        "WRONGPASS" | "NOAUTH" => Fault::WrongPassword,
        "MOVED" | "ASK" | "CROSSSLOT" => {
            return CallError::new(Fault::Unfit, at, "it is part of a Redis Cluster, which is not supported");
        }
        "NOSCRIPT" => Fault::FunctionMissing,
        _ => of_text(text),
    };
    let says = match (kind, function) {
        (Fault::FunctionMissing, Some(function)) => format!("'{function}'"),
        _ if code == "ERR" => shown(text),
        _ => shown(&format!("{code} {text}")),
    };
    CallError::new(kind, at, says)
}

/// What is only said in words.
fn of_text(text: &str) -> Fault {
    const WORDS: [(&str, Fault); 8] = [
        ("Function not found", Fault::FunctionMissing),
        ("max number of clients reached", Fault::TryAgain),
        ("DB index is out of range", Fault::WrongDatabase),
        ("invalid DB index", Fault::WrongDatabase),
        ("The user executing the script", Fault::Denied),
        ("ACL failure", Fault::Denied),
        ("has no permissions", Fault::Denied),
        ("unknown command", Fault::NotRedis7),
    ];
    WORDS.iter().find(|(words, _)| text.contains(words)).map_or(Fault::Script, |(_, fault)| *fault)
}

/// Text of others, fit to be printed.
pub(super) fn shown(text: &str) -> String {
    let clean = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c });
    clean.take(MAX_SAID).collect()
}
