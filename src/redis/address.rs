//! Where the server is: the URL as people write it, made into what the client needs.

use std::path::PathBuf;

use redis::sentinel::{Sentinel, SentinelNodeConnectionInfo};
use redis::{
    Client, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo, RedisConnectionInfo, TlsCertificates,
};

use super::RedisSettings;
use super::fault::CallError;

/// The scheme of an address that sentinels know.
const SENTINEL: &str = "redis+sentinel://";

/// The longest password file that is read.
const MAX_PASSWORD_BYTES: u64 = 4096;

/// Where the server is.
#[derive(Clone)]
pub(crate) struct Address {
    kind: Kind,
    password_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    /// Host and port, for people: never a password.
    pub(crate) shown: String,
}

#[derive(Clone)]
enum Kind {
    Server(Box<ConnectionInfo>),
    Sentinels { sentinels: Vec<String>, service: String, db: i64, user: Option<String>, password: Option<String> },
}

impl Address {
    pub(crate) fn parse(settings: &RedisSettings) -> Result<Self, CallError> {
        let (kind, shown) = if let Some(rest) = settings.url.strip_prefix(SENTINEL) {
            sentinels(rest).ok_or_else(|| {
                refused(
                    "the address of the queue's Redis must read \
                     redis+sentinel://[user:password@]host:port[,host:port…]/service[/database]",
                )
            })?
        } else {
            let info = settings.url.as_str().into_connection_info().map_err(|error| {
                refused(&format!(
                    "the address of the queue's Redis can't be read ({error}); write redis://host:port, rediss://host:port \
                     for TLS, unix:///path, or redis+sentinel://host:port/service"
                ))
            })?;
            let shown = info.addr().to_string();
            (Kind::Server(Box::new(info)), shown)
        };
        let is_tls = matches!(&kind, Kind::Server(info) if matches!(info.addr(), ConnectionAddr::TcpTls { .. }));
        if settings.ca_file.is_some() && !is_tls {
            return Err(refused(
                "a file with certificates is given for the queue's Redis, but its address is not rediss://…: nothing would be \
                 checked; correct the address, or leave the file out",
            ));
        }
        let (password_file, ca_file) = (settings.password_file.clone(), settings.ca_file.clone());
        Ok(Self { kind, password_file, ca_file, shown })
    }

    /// A client for the server that holds the data at present. Asks the sentinels, and reads files anew.
    pub(crate) async fn client(&self) -> Result<Client, CallError> {
        let password = self.read_password().await?;
        match &self.kind {
            Kind::Server(info) => self.client_of((**info).clone(), password),
            Kind::Sentinels { sentinels, service, db, user, password: own } => {
                let addresses = sentinels.iter().map(|address| format!("redis://{address}")).collect();
                let mut sentinel = Sentinel::build(addresses).map_err(|error| self.unreachable(&error))?;
                let mut settings = RedisConnectionInfo::default().set_db(*db).set_skip_set_lib_name();
                if let Some(user) = user {
                    settings = settings.set_username(user);
                }
                if let Some(password) = password.as_ref().or(own.as_ref()) {
                    settings = settings.set_password(password);
                }
                settings = with_a_password(settings);
                let node = SentinelNodeConnectionInfo::default().set_redis_connection_info(settings);
                sentinel.async_master_for(service, Some(&node)).await.map_err(|error| self.unreachable(&error))
            }
        }
    }

    fn client_of(&self, mut info: ConnectionInfo, password: Option<String>) -> Result<Client, CallError> {
        // The client's name is told with a command that servers before 7.2 don't know and users need no right for.
        let mut settings = info.redis_settings().clone().set_skip_set_lib_name();
        if let Some(password) = password {
            settings = settings.set_password(password);
        }
        info = info.set_redis_settings(with_a_password(settings));
        let is_tls = matches!(info.addr(), ConnectionAddr::TcpTls { .. });
        let built = match &self.ca_file {
            Some(file) if is_tls => {
                let root_cert = std::fs::read(file).map_err(|error| {
                    CallError::Refused(format!(
                        "the certificates for the queue's Redis can't be read from {}: {error}",
                        file.display()
                    ))
                })?;
                Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert: Some(root_cert) })
            }
            _ => Client::open(info),
        };
        built.map_err(|error| CallError::of_connecting(&self.shown, &error))
    }

    /// A password that is wrong now may be right with the next connection.
    pub(crate) fn password_may_change(&self) -> bool {
        self.password_file.is_some()
    }

    /// Read with each connection: it may have been changed.
    async fn read_password(&self) -> Result<Option<String>, CallError> {
        let Some(file) = &self.password_file else { return Ok(None) };
        let why = |why: String| {
            CallError::Refused(format!(
                "the password for the queue's Redis can't be read from {}: {why}",
                file.display()
            ))
        };
        let length = tokio::fs::metadata(file).await.map_err(|error| why(error.to_string()))?.len();
        if length > MAX_PASSWORD_BYTES {
            return Err(why(format!("it has more than {MAX_PASSWORD_BYTES} bytes")));
        }
        let text = tokio::fs::read_to_string(file).await.map_err(|error| why(error.to_string()))?;
        Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
    }

    fn unreachable(&self, error: &redis::RedisError) -> CallError {
        match error.kind() {
            // While another takes over the sentinels name none.
            ErrorKind::MasterNameNotFoundBySentinel | ErrorKind::NoValidReplicasFoundBySentinel => {
                CallError::NotSent(format!(
                    "no sentinel names a master of the queue's Redis {} at present; if it goes on, check the service's name and the sentinels",
                    self.shown
                ))
            }
            _ => CallError::of_connecting(&self.shown, error),
        }
    }
}

/// Who is named without a password needs none and takes any: without one nobody would be named to the server, and the default
/// user would be who asks.
fn with_a_password(settings: RedisConnectionInfo) -> RedisConnectionInfo {
    if settings.username().is_some() && settings.password().is_none() { settings.set_password("") } else { settings }
}

/// `[user:password@]host:port[,host:port…]/service[/database]`.
fn sentinels(rest: &str) -> Option<(Kind, String)> {
    let (credentials, rest) = match rest.rsplit_once('@') {
        Some((credentials, rest)) => (Some(credentials), rest),
        None => (None, rest),
    };
    let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let (user, password) = match credentials.map(|credentials| credentials.split_once(':').unwrap_or((credentials, "")))
    {
        Some((user, password)) => (Some(decoded(user)), Some(decoded(password))),
        None => (None, None),
    };
    let is_given = |text: &String| !text.is_empty();
    let mut parts = rest.split('/');
    let (hosts, service) = (parts.next()?, parts.next()?);
    let db = match parts.next() {
        None | Some("") => 0,
        Some(db) => db.parse().ok()?,
    };
    let sentinels: Vec<String> = hosts.split(',').map(str::to_owned).collect();
    if service.is_empty() || sentinels.iter().any(String::is_empty) {
        return None;
    }
    let shown = format!("{service} (by the sentinels {hosts})");
    let (user, password) = (user.filter(is_given), password.filter(is_given));
    Some((Kind::Sentinels { sentinels, service: service.to_owned(), db, user, password }, shown))
}

fn refused(why: &str) -> CallError {
    CallError::Refused(why.to_owned())
}
