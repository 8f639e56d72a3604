//! Settings that come from the environment: their names, each once, and the only place that reads them.

/// Which log lines are written: a level (`info`) or directives (`trawler::crawler=debug`).
pub const LOG: &str = "TRAWLER_LOG";

/// How log lines are written: `text` or `json`.
pub const LOG_FORMAT: &str = "TRAWLER_LOG_FORMAT";

/// Whom a server's operator can write to, sent in `User-Agent`.
pub const CONTACT: &str = "TRAWLER_CONTACT";

/// The proxy that all requests go through.
pub const PROXY: &str = "TRAWLER_PROXY";

/// Networks that may be asked although they are not public.
pub const ALLOW_PRIVATE: &str = "TRAWLER_ALLOW_PRIVATE";

/// Where Secrets are read from.
pub const SECRETS_DIR: &str = "TRAWLER_SECRETS_DIR";

/// Where the queue's Redis is.
pub const REDIS: &str = "TRAWLER_REDIS";

/// A file with the password of the queue's Redis.
pub const REDIS_PASSWORD_FILE: &str = "TRAWLER_REDIS_PASSWORD_FILE";

/// A file with the certificates that the queue's Redis may be signed by.
pub const REDIS_CA: &str = "TRAWLER_REDIS_CA";

/// The instance: whose keys in Redis are ours.
pub const INSTANCE: &str = "TRAWLER_INSTANCE";

/// The run that a crawler works for.
pub const RUN: &str = "TRAWLER_RUN";

/// A crawler's token.
pub const TOKEN: &str = "TRAWLER_TOKEN";

/// Who a crawler is, unlike any other.
pub const UID: &str = "TRAWLER_UID";

/// The group of nodes that a crawler serves.
pub const GROUP: &str = "TRAWLER_GROUP";

/// Where a crawler's records land.
pub const STORE: &str = "TRAWLER_STORE";
/// The session of a shared store in which a crawler works.
pub const STORE_SESSION: &str = "TRAWLER_STORE_SESSION";

/// The namespace that the operator serves.
pub const NAMESPACE: &str = "TRAWLER_NAMESPACE";

/// The pod that the operator runs in.
pub const POD_NAME: &str = "POD_NAME";

/// Set to anything: no colours (<https://no-color.org>).
pub const NO_COLOR: &str = "NO_COLOR";

/// What the generated reference says about each variable, in order.
pub const DOCUMENTED: [(&str, &str); 20] = [
    (LOG, "Which log lines are written: a level (`info`) or directives (`trawler::crawler=debug`). Default: `warn`."),
    (LOG_FORMAT, "How log lines are written: `text` (default) or `json`."),
    (CONTACT, "Whom a server's operator can write to: a URL or a mail address, sent in `User-Agent`."),
    (PROXY, "The proxy that all requests go through. `http_proxy` and its kin are ignored."),
    (ALLOW_PRIVATE, "Networks (CIDR, separated by commas) that may be asked although they are not public."),
    (SECRETS_DIR, "A directory with Secrets: `<name>/<key>`."),
    ("TRAWLER_SECRET_<NAME>_<KEY>", "A key of a Secret; name and key in capitals, everything else as `_`."),
    (REDIS, "Where the queue's Redis is: a URL. `run` then crawls with processes that share it."),
    (REDIS_PASSWORD_FILE, "A file with the password of the queue's Redis."),
    (REDIS_CA, "A file with the certificates (PEM) that the queue's Redis may be signed by, instead of the system's."),
    (INSTANCE, "The instance, whose queue is asked. Default: `default`."),
    (RUN, "The run that `crawl` works for."),
    (TOKEN, "The token of the run that `crawl` holds: a number."),
    (UID, "Who this crawler is, unlike any other."),
    (GROUP, "The group of nodes that `crawl` serves. Default: `default`."),
    (
        STORE,
        "Where the records of `crawl` land: `redis`, the queue's Redis; `redis://…`, another one; `unix:///…`, the socket of the process that holds the store.",
    ),
    (STORE_SESSION, "The session of a store in Redis in which `crawl` works; without it, the latest."),
    (NAMESPACE, "The namespace that `operator` serves. Default: the pod's own, or that of the kubeconfig."),
    (POD_NAME, "Who an `operator` is among several: the name of its pod."),
    (NO_COLOR, "Set to anything but nothing: no colours."),
];

/// The variables that hold keys of Secrets.
pub fn secret_variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok()?;
        if name.starts_with("TRAWLER_SECRET_") { Some((name, value.into_string().ok()?)) } else { None }
    })
}

/// Whether colours are unwanted.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
pub fn no_color() -> bool {
    std::env::var_os(NO_COLOR).is_some_and(|value| !value.is_empty())
}
