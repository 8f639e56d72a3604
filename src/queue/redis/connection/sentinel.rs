//! Asks Sentinels which server is the master.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo, RedisError, Value};
use tokio::time::timeout;

use super::address::{HostPort, TlsSettings};
use super::dial::text_of;
use super::fault::{CallError, Fault};
use super::link::Link;
use super::timing::Timing;
use super::{classify, stream};

/// What is asked, and of whom.
pub(super) struct Asked<'a> {
    pub(super) sentinels: &'a [HostPort],
    pub(super) service: &'a str,
    pub(super) tls: Option<&'a TlsSettings>,
    pub(super) login: Login<'a>,
}

/// User and password of the master: also used for Sentinels that ask for them.
#[derive(Clone, Copy)]
pub(super) struct Login<'a> {
    pub(super) user: Option<&'a str>,
    pub(super) password: Option<&'a str>,
}

/// Asks one Sentinel after the other, each attempt beginning with another.
pub(super) async fn master(asked: &Asked<'_>, timing: &Timing, turn: usize) -> Result<HostPort, CallError> {
    let count = asked.sentinels.len().max(1);
    let in_turn = asked.sentinels.iter().cycle().skip(turn % count).take(asked.sentinels.len());
    let mut failures: Vec<CallError> = Vec::new();
    for sentinel in in_turn {
        let at: Arc<str> = format!("the Sentinel {sentinel}").into();
        match timeout(timing.sentinel, ask(asked, sentinel, &at, timing)).await {
            Ok(Ok(master)) => return Ok(master),
            Ok(Err(failure)) => failures.push(failure),
            Err(_) => failures.push(CallError::new(Fault::NotSent, &at, "it did not answer in time")),
        }
    }
    // What passes comes first: a Sentinel that is down may know what the others don't.
    failures.sort_by_key(|failure| !failure.kind.passes());
    let nobody = || CallError::new(Fault::Settings, &Arc::from("the Sentinels"), "no Sentinel is named");
    Err(failures.into_iter().next().unwrap_or_else(nobody))
}

async fn ask(asked: &Asked<'_>, sentinel: &HostPort, at: &Arc<str>, timing: &Timing) -> Result<HostPort, CallError> {
    let stream = stream::tcp(sentinel, asked.tls, at, timing.sentinel).await?;
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(timing.sentinel));
    let info = RedisConnectionInfo::default().set_skip_set_lib_name();
    let failed = |error: RedisError| classify::of_greeting(&error, at);
    let (connection, driver) = MultiplexedConnection::new_with_config(&info, stream, config).await.map_err(failed)?;
    let link = Link::new(connection, driver, Arc::clone(at));
    let mut question = redis::cmd("SENTINEL");
    question.arg("GET-MASTER-ADDR-BY-NAME").arg(asked.service);
    let answer = match (link.send(&question).await, asked.login.password) {
        (Err(error), Some(password)) if error.code() == Some("NOAUTH") => {
            let mut auth = redis::cmd("AUTH");
            if let Some(user) = asked.login.user {
                auth.arg(user);
            }
            link.send(auth.arg(password)).await.map_err(failed)?;
            link.send(&question).await.map_err(failed)?
        }
        (answer, _) => answer.map_err(failed)?,
    };
    let Value::Array(parts) = answer else {
        let says = format!("it knows no service '{}'; name one that it watches", classify::shown(asked.service));
        return Err(CallError::new(Fault::Unfit, at, says));
    };
    let text = |index: usize| parts.get(index).and_then(text_of);
    match (text(0), text(1).and_then(|port| port.parse().ok())) {
        (Some(host), Some(port)) => Ok(HostPort { host: host.to_owned(), port }),
        _ => Err(CallError::new(Fault::Unfit, at, "it gives no address for the master")),
    }
}
