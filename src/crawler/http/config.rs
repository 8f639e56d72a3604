//! The client's settings.

use std::fmt;
use std::time::Duration;

use ipnet::IpNet;
use url::Url;

use super::error::shown_url;

/// The client's settings; `HttpConfig::default()` has the documented defaults.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// Whom a server's operator can write to: a URL or a mail address, sent in `User-Agent`. Default: none.
    pub contact: Option<String>,
    /// Networks that may be asked although they are not public. A metadata service must be named by a network of
    /// exactly its address. Default: none.
    pub allow_private: Vec<IpNet>,
    /// Networks that may not be asked although they look public, such as a cluster's Pods and Services. Default: none.
    pub refuse: Vec<IpNet>,
    /// The proxy that all requests go through; the environment's is ignored. The proxy resolves the names, so it must
    /// do the guarding of addresses: names of internal networks and literal addresses are still refused here. Default:
    /// none.
    pub proxy: Option<ProxyUrl>,
    /// Time for name look-up, connecting and TLS. Default: 10 s.
    pub connect_timeout: Duration,
    /// Time from sending a request to the last byte of its answer, unless the node says otherwise. Default: 30 s.
    pub request_timeout: Duration,
    /// Time between two pieces of a body. Default: 10 s.
    pub idle_timeout: Duration,
    /// Largest body, counted after decompression, unless the node says otherwise. Default: 64 MiB.
    pub max_decoded_bytes: u64,
    /// Largest header of an answer: names and values together. Default: 64 KiB.
    pub max_header_bytes: u32,
    /// Longest chain of redirects. Default: 5.
    pub max_redirects: u32,
    /// Longest `Retry-After` that is believed. Default: 1 h.
    pub max_retry_after: Duration,
    /// Unused connections kept for each origin. Default: 4.
    pub max_idle_connections: usize,
    /// Origins that unused connections are kept for; beyond, connections are closed and opened again when needed.
    /// Default: 64.
    pub max_idle_origins: usize,
    /// How long an unused connection is kept. Default: 15 s.
    pub idle_connection_timeout: Duration,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            contact: None,
            allow_private: Vec::new(),
            refuse: Vec::new(),
            proxy: None,
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(10),
            max_decoded_bytes: 64 << 20,
            max_header_bytes: 64 << 10,
            max_redirects: 5,
            max_retry_after: Duration::from_hours(1),
            max_idle_connections: 4,
            max_idle_origins: 64,
            idle_connection_timeout: Duration::from_secs(15),
        }
    }
}

/// The URL of a proxy; its `Debug` leaves out the password it may hold.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyUrl(pub Url);

impl fmt::Debug for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown_url(&self.0))
    }
}
