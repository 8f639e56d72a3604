//! One attempt to connect: find the server, connect, greet, and see whether it can serve.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, RedisConnectionInfo, Value};
use tokio::time::timeout;

use super::address::{Address, HostPort, Route};
use super::fault::{CallError, Fault};
use super::link::{Link, OnPush};
use super::timing::Timing;
use super::{classify, sentinel, stream};

/// So many calls may stand in line for the socket; further callers wait.
const LINE_LENGTH: usize = 256;

/// Makes a connection, or says why not. Sentinels are asked in turns: `turn` says who is first.
pub(super) async fn dial(
    address: &Address,
    timing: &Timing,
    turn: usize,
    on_push: Option<OnPush>,
) -> Result<Link, CallError> {
    let at: Arc<str> = address.to_string().into();
    let too_long = || {
        let within = timing.connect.as_secs_f32();
        let hint = if address.tls.is_some() { "; does it speak TLS?" } else { "" };
        CallError::new(Fault::NotSent, &at, format!("it did not answer within {within} s{hint}"))
    };
    timeout(timing.connect, attempt(address, &at, timing, turn, on_push)).await.unwrap_or_else(|_| Err(too_long()))
}

async fn attempt(
    address: &Address,
    at: &Arc<str>,
    timing: &Timing,
    turn: usize,
    on_push: Option<OnPush>,
) -> Result<Link, CallError> {
    let password = address.password.current().await.map_err(|why| CallError::new(Fault::Settings, at, why))?;
    let tls = address.tls.as_ref();
    let (stream, at) = match &address.route {
        Route::Unix(path) => (stream::unix(path, at).await?, Arc::clone(at)),
        Route::Tcp(to) => (stream::tcp(to, tls, at, timing.connect).await?, Arc::clone(at)),
        Route::Sentinels { sentinels, service } => {
            let login = sentinel::Login { user: address.user.as_deref(), password: password.as_deref() };
            let asked = sentinel::Asked { sentinels, service, tls, login };
            let master: HostPort = sentinel::master(&asked, timing, turn).await?;
            let at: Arc<str> = format!("{master} (the master of '{service}', as its Sentinels say)").into();
            (stream::tcp(&master, tls, &at, timing.connect).await?, at)
        }
    };
    let link = greet(stream, &at, address, password, timing, on_push).await?;
    check(&link).await?;
    Ok(link)
}

async fn greet(
    stream: Box<dyn stream::Stream>,
    at: &Arc<str>,
    address: &Address,
    password: Option<String>,
    timing: &Timing,
    on_push: Option<OnPush>,
) -> Result<Link, CallError> {
    let mut info = RedisConnectionInfo::default()
        .set_protocol(ProtocolVersion::RESP3)
        .set_skip_set_lib_name()
        .set_db(i64::from(address.database));
    if let Some(user) = &address.user {
        info = info.set_username(user);
    }
    if let Some(password) = password {
        info = info.set_password(password);
    }
    let mut config =
        AsyncConnectionConfig::new().set_response_timeout(Some(timing.response)).set_pipeline_buffer_size(LINE_LENGTH);
    if let Some(on_push) = on_push {
        config = config.set_push_sender(move |push| {
            on_push(push);
            Ok::<(), ()>(())
        });
    }
    let (connection, driver) = MultiplexedConnection::new_with_config(&info, stream, config)
        .await
        .map_err(|error| classify::of_greeting(&error, at))?;
    Ok(Link::new(connection, driver, Arc::clone(at)))
}

/// Asks the server what it is: only a master of version 7 or later can serve.
async fn check(link: &Link) -> Result<(), CallError> {
    let at = link.at();
    let facts = link.ask_hello().await.map_err(|error| classify::of_greeting(&error, at))?;
    let fact = |name: &str| {
        let pairs = facts.as_map_iter()?;
        pairs.into_iter().find(|(key, _)| text_of(key) == Some(name)).and_then(|(_, value)| text_of(value))
    };
    let version = fact("version").unwrap_or_default();
    let major: u32 = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
    let fault = match (fact("mode"), fact("role")) {
        (Some("sentinel"), _) => Some((
            Fault::Unfit,
            "it is a Sentinel; write redis+sentinel://host:port/service so that it is asked for the master".to_owned(),
        )),
        _ if major < 7 => Some((Fault::NotRedis7, format!("it is version {}", classify::shown(version)))),
        (Some("cluster"), _) => {
            Some((Fault::Unfit, "it is part of a Redis Cluster, which is not supported".to_owned()))
        }
        (_, Some("replica" | "slave")) => Some((Fault::ReadOnly, String::new())),
        _ => None,
    };
    fault.map_or(Ok(()), |(kind, says)| Err(CallError::new(kind, at, says)))
}

/// A text, however the server chose to send it.
pub(in crate::queue::redis) fn text_of(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text),
        _ => None,
    }
}
