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

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Address, QueueError> {
        Address::parse(&RedisSettings {
            url: url.to_owned(),
            password_file: None,
            ca_file: None,
            instance: "it".to_owned(),
        })
    }

    fn host(host: &str, port: u16) -> HostPort {
        HostPort { host: host.to_owned(), port }
    }

    #[test]
    fn addresses_are_understood() {
        let sentinels = |sentinels: &[HostPort], service: &str| Route::Sentinels {
            sentinels: sentinels.to_vec(),
            service: service.to_owned(),
        };
        for (url, route, is_tls, database) in [
            ("redis://redis", Route::Tcp(host("redis", 6379)), false, 0),
            ("redis://redis.queue.svc:7000/3", Route::Tcp(host("redis.queue.svc", 7000)), false, 3),
            ("rediss://user:word@redis:1/", Route::Tcp(host("redis", 1)), true, 0),
            ("redis://[::1]:7000/1", Route::Tcp(host("::1", 7000)), false, 1),
            ("redis://[::1]", Route::Tcp(host("::1", 6379)), false, 0),
            ("unix:///run/redis%20one/socket", Route::Unix("/run/redis one/socket".into()), false, 0),
            ("redis+sentinel://a,b:1/main", sentinels(&[host("a", 26379), host("b", 1)], "main"), false, 0),
            ("rediss+sentinel://u:p@a/main/4", sentinels(&[host("a", 26379)], "main"), true, 4),
        ] {
            let address = parse(url).unwrap();
            assert_eq!((address.route, address.tls.is_some(), address.database), (route, is_tls, database), "{url}");
        }
    }

    #[test]
    fn users_and_passwords_are_decoded() {
        for (url, user, password) in [
            ("redis://redis", None, None),
            ("redis://:word@redis", None, Some("word")),
            ("redis://user:p%40%2F%3A@redis", Some("user"), Some("p@/:")),
            ("redis://user:a@b@redis", Some("user"), Some("a@b")),
            ("redis://user@redis", Some("user"), Some("")),
        ] {
            let address = parse(url).unwrap();
            let found = match address.password {
                Password::Known(password) => Some(password),
                Password::None | Password::InFile(_) => None,
            };
            assert_eq!((address.user.as_deref(), found.as_deref()), (user, password), "{url}");
        }
    }

    #[test]
    fn wrong_addresses_are_told_without_what_is_secret() {
        for (url, words) in [
            ("", "it has no scheme"),
            ("redis:6379", "it has no scheme"),
            ("http://secret@redis", "its scheme is unknown"),
            ("redis://", "it has no host"),
            ("redis://user:secret@", "it has no host"),
            ("redis://user:secret/secret@redis", "its port is not one"),
            ("redis://user:secret#secret@redis", "it has a ? or a #"),
            ("redis://redis:70000", "its port is not one"),
            ("redis://redis:0", "its port is not one"),
            ("redis://a,b", "its host is not one"),
            ("redis://[::1", "a [ is not closed"),
            ("redis://redis/first", "the database is not a number"),
            ("redis://redis/-1", "the database is not a number"),
            ("redis://%ff:secret@redis", "not UTF-8"),
            ("unix://", "it has no path"),
            ("unix:///", "it has no path"),
            ("redis+sentinel://a,b", "does not name the service"),
            ("redis+sentinel://a,,b/main", "it has no host"),
        ] {
            let Err(QueueError::Refused { why }) = parse(url) else { unreachable!("{url} is wrong") };
            assert!(why.contains(words), "{url}: {why}");
            assert!(!why.contains("secret"), "{url}: {why}");
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let settings = |url: &str, password_file: Option<&str>, ca_file: Option<&str>| RedisSettings {
            url: url.to_owned(),
            password_file: password_file.map(PathBuf::from),
            ca_file: ca_file.map(PathBuf::from),
            instance: "it".to_owned(),
        };
        let why = |settings: &RedisSettings| match Address::parse(settings) {
            Err(QueueError::Refused { why }) => why,
            _ => String::new(),
        };
        assert!(why(&settings("redis://:word@redis", Some("/file"), None)).contains("keep one"));
        assert!(why(&settings("redis://redis", None, Some("/ca.pem"))).contains("it isn't rediss://"));
        assert_eq!(why(&settings("rediss://user@redis", Some("/file"), Some("/ca.pem"))), "");
    }

    #[test]
    fn instances_have_names_that_are_safe_in_patterns() {
        assert_eq!(prefix("a-1.b").unwrap(), "trawler:{a-1.b}:");
        for name in ["", "A", "a_b", "a*", "a}", "ü", &"a".repeat(64)] {
            assert!(prefix(name).is_err(), "{name}");
        }
    }
}
