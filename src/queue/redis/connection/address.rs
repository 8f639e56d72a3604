//! What a queue's address says: where Redis is, who asks, and how.

use std::fmt;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;

use super::password::Password;
use crate::queue::QueueError;
use crate::queue::redis::RedisSettings;

const DEFAULT_PORT: u16 = 6379;
const DEFAULT_SENTINEL_PORT: u16 = 26379;
const MAX_INSTANCE_LENGTH: usize = 63;

/// An address that was understood. Displayed without user and password.
pub(super) struct Address {
    pub(super) route: Route,
    pub(super) tls: Option<TlsSettings>,
    pub(super) user: Option<String>,
    pub(super) password: Password,
    pub(super) database: u32,
}

/// How to find the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    Tcp(HostPort),
    Unix(PathBuf),
    /// Sentinels know which server is the master of this service.
    Sentinels {
        sentinels: Vec<HostPort>,
        service: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostPort {
    /// A name or an address, without brackets.
    pub(super) host: String,
    pub(super) port: u16,
}

/// TLS is spoken, with servers that these authorities vouch for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TlsSettings {
    /// Instead of the system's.
    pub(super) ca_file: Option<PathBuf>,
}

impl Address {
    pub(super) fn parse(settings: &RedisSettings) -> Result<Self, QueueError> {
        let wrong = |what: &str| QueueError::Refused {
            why: format!(
                "the address of the queue's Redis can't be used: {what}. Write redis://[user[:password]@]host[:port][/database], \
                 rediss://… for TLS, unix:///path, or redis+sentinel://host[:port][,host[:port]…]/service[/database]; in a \
                 user or password write / ? # @ : % as %2F %3F %23 %40 %3A %25"
            ),
        };
        let parts = Parts::of(&settings.url).map_err(wrong)?;
        let password = match (parts.password, &settings.password_file) {
            (Some(_), Some(_)) => return Err(wrong("it has a password, and a file with one is given, too; keep one")),
            (Some(password), None) => Password::Known(password),
            (None, Some(file)) => Password::InFile(file.clone()),
            // A user of Redis that needs no password takes any.
            (None, None) if parts.user.is_some() => Password::Known(String::new()),
            (None, None) => Password::None,
        };
        if settings.ca_file.is_some() && !parts.is_tls {
            return Err(wrong("a file with certificates is given, but it isn't rediss:// or rediss+sentinel://"));
        }
        let tls = parts.is_tls.then(|| TlsSettings { ca_file: settings.ca_file.clone() });
        Ok(Self { route: parts.route, tls, user: parts.user, password, database: parts.database })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.route {
            Route::Tcp(at) => at.fmt(f),
            Route::Unix(path) => path.display().fmt(f),
            Route::Sentinels { sentinels, service } => {
                let sentinels: Vec<String> = sentinels.iter().map(ToString::to_string).collect();
                write!(f, "the address that the Sentinels {} give for '{service}'", sentinels.join(", "))
            }
        }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// The instance's prefix: what all its keys begin with. One hash tag, so that they are always in one place.
pub(super) fn prefix(instance: &str) -> Result<String, QueueError> {
    let is_good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    if instance.is_empty() || instance.len() > MAX_INSTANCE_LENGTH || !instance.chars().all(is_good) {
        return Err(QueueError::Refused {
            why: format!(
                "the instance {instance:?} can't be used in Redis: give it 1 to {MAX_INSTANCE_LENGTH} characters of a-z, 0-9, - and ."
            ),
        });
    }
    Ok(format!("trawler:{{{instance}}}:"))
}

struct Parts {
    route: Route,
    is_tls: bool,
    user: Option<String>,
    password: Option<String>,
    database: u32,
}

impl Parts {
    fn of(url: &str) -> Result<Self, &'static str> {
        let (scheme, rest) = url.trim().split_once("://").ok_or("it has no scheme")?;
        if rest.contains(['?', '#']) {
            return Err("it has a ? or a #");
        }
        let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let (login, hosts) = authority.rsplit_once('@').map_or((None, authority), |(login, rest)| (Some(login), rest));
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
            None => (None, None),
            Some((user, password)) => (decoded(user)?, decoded(password)?),
        };
        let is_tls = scheme.starts_with("rediss");
        let (route, database) = match scheme {
            "redis" | "rediss" => (Route::Tcp(host_port(hosts, DEFAULT_PORT)?), path.trim_matches('/')),
            "unix" if hosts.is_empty() && path.len() > 1 => {
                (Route::Unix(PathBuf::from(decoded(path)?.unwrap_or_default())), "")
            }
            "unix" => return Err("it has no path"),
            "redis+sentinel" | "rediss+sentinel" => sentinels(hosts, path)?,
            _ => return Err("its scheme is unknown"),
        };
        let database = match database {
            "" => 0,
            number => number.parse().map_err(|_| "what stands for the database is not a number")?,
        };
        Ok(Self { route, is_tls, user, password, database })
    }
}

fn sentinels<'a>(hosts: &str, path: &'a str) -> Result<(Route, &'a str), &'static str> {
    let path = path.trim_matches('/');
    let (service, database) = path.split_once('/').unwrap_or((path, ""));
    let service = decoded(service)?.ok_or("it does not name the service that the Sentinels watch")?;
    let sentinels = hosts.split(',').map(|host| host_port(host, DEFAULT_SENTINEL_PORT)).collect::<Result<_, _>>()?;
    Ok((Route::Sentinels { sentinels, service }, database))
}

fn host_port(text: &str, default_port: u16) -> Result<HostPort, &'static str> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or("a [ is not closed")?;
            (host, rest.strip_prefix(':'))
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err("it has no host");
    }
    if host.contains(|c: char| c.is_whitespace() || c.is_control() || c == ',') {
        return Err("its host is not one");
    }
    let port = match port {
        None => default_port,
        Some(port) => port.parse().ok().filter(|port| *port != 0).ok_or("its port is not one")?,
    };
    Ok(HostPort { host: host.to_owned(), port })
}

/// `None` for an empty text.
fn decoded(text: &str) -> Result<Option<String>, &'static str> {
    let text = percent_decode_str(text).decode_utf8().map_err(|_| "what is written with % in it is not UTF-8")?;
    Ok((!text.is_empty()).then(|| text.into_owned()))
}
