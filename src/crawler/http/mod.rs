//! The one HTTP client, and its guard.
//!
//! Every URL here is a tenant's or a server's word, so that one client asks them all, under one set of rules:
//! - The [`Guard`] judges a URL before it is asked, and every address that its name leads to; the address that was
//!   checked is the one connected to.
//! - Redirects are walked by hand: each hop is judged, needs a permit, and loses the credentials when the origin
//!   changes.
//! - Bodies are decompressed here, because the limit has to count what comes out.
//! - Every wait has an end, every size a limit ([`HttpConfig`]).
//! - No failure ([`FetchError`]) holds a credential, a query or user info.

mod access;
mod body;
mod classify;
mod config;
mod credentials;
mod error;
mod exchange;
mod guard;
mod oauth;
mod redirect;
mod resolve;
mod retry_after;
mod tls;

use std::sync::Arc;

use reqwest::header::HeaderValue;
use rustls::ClientConfig;
use thiserror::Error;

pub use access::{Fetched, NodeAccess, RequestGate, Validators};
pub use config::{HttpConfig, ProxyUrl};
pub use error::{Failure, FetchError, GateClosed, Phase, Spent, StatusFailure, shown_url};
pub use guard::{Guard, Refusal, is_globally_reachable};
pub use resolve::{Lookup, SystemLookup};

pub(super) use self::exchange::date_of;

use self::exchange::Exchange;
use self::oauth::Tokens;
use self::resolve::GuardedResolver;
use self::tls::Clients;
use crate::clock::SharedClock;
use crate::protocol::Request;

/// Why a client can't be made.
#[derive(Debug, Error)]
pub enum HttpError {
    /// The contact can't be sent.
    #[error("the contact {contact:?} can't be sent in a User-Agent: use a URL or a mail address in plain ASCII")]
    BadContact {
        /// The contact.
        contact: String,
    },
    /// The proxy can't be used.
    #[error("the proxy {proxy} can't be used: give an http or https URL with a host")]
    BadProxy {
        /// The proxy, without its password.
        proxy: String,
    },
    /// TLS can't be set up.
    #[error("the HTTP client can't be set up: {why}")]
    Setup {
        /// The library's words.
        why: String,
    },
}

/// The client. Made once; its connections and access tokens are shared by all that use it.
#[derive(Debug)]
pub struct HttpClient {
    config: HttpConfig,
    guard: Arc<Guard>,
    clock: SharedClock,
    clients: Clients,
    tokens: Tokens,
}

impl HttpClient {
    /// A client that asks the operating system for addresses.
    pub fn new(config: HttpConfig, clock: SharedClock) -> Result<Self, HttpError> {
        Self::with_lookup(config, clock, Arc::new(SystemLookup))
    }

    /// A client that looks names up in its own way.
    pub fn with_lookup(config: HttpConfig, clock: SharedClock, lookup: Arc<dyn Lookup>) -> Result<Self, HttpError> {
        let user_agent = user_agent(config.contact.as_deref())?;
        let proxy = config.proxy.as_ref().map(build_proxy).transpose()?;
        let guard = Arc::new(Guard {
            allowed: config.allow_private.clone(),
            refused: config.refuse.clone(),
            proxy_host: config.proxy.as_ref().and_then(|proxy| proxy.0.host_str()).map(str::to_owned),
        });
        let resolver = Arc::new(GuardedResolver { guard: Arc::clone(&guard), lookup });
        let settings = config.clone();
        let build = move |tls: ClientConfig| {
            let builder = reqwest::Client::builder()
                .tls_backend_preconfigured(tls)
                .no_proxy()
                .redirect(reqwest::redirect::Policy::none())
                .retry(reqwest::retry::never())
                .referer(false)
                .dns_resolver(Arc::clone(&resolver))
                .user_agent(user_agent.clone())
                .connect_timeout(settings.connect_timeout)
                .pool_max_idle_per_host(settings.max_idle_connections)
                .pool_idle_timeout(settings.idle_connection_timeout)
                .http2_max_header_list_size(settings.max_header_bytes);
            match &proxy {
                Some(proxy) => builder.proxy(proxy.clone()).build(),
                None => builder.build(),
            }
        };
        let clients = Clients::new(Box::new(build), config.max_idle_origins)
            .map_err(|failure| HttpError::Setup { why: failure.to_string() })?;
        Ok(Self { config, guard, clock, clients, tokens: Tokens::default() })
    }

    /// One task's exchange: sends the request, walks redirects, and gives the decoded answer. The first request has
    /// its permit already; `gate` is asked for every further one. With `validators`, a GET becomes conditional if the
    /// request says it may.
    pub async fn send(
        &self,
        request: &Request,
        access: &NodeAccess,
        gate: &dyn RequestGate,
        validators: Option<&Validators>,
    ) -> Result<Fetched, FetchError> {
        Exchange::new(self, request, access, gate, validators).run().await
    }
}

fn user_agent(contact: Option<&str>) -> Result<HeaderValue, HttpError> {
    let product = concat!("Trawler/", env!("CARGO_PKG_VERSION"));
    let text = match contact {
        Some(contact) => format!("{product} (+{contact})"),
        None => product.to_owned(),
    };
    HeaderValue::from_str(&text).map_err(|_| HttpError::BadContact { contact: contact.unwrap_or_default().to_owned() })
}

fn build_proxy(proxy: &ProxyUrl) -> Result<reqwest::Proxy, HttpError> {
    let bad = || HttpError::BadProxy { proxy: shown_url(&proxy.0) };
    if !matches!(proxy.0.scheme(), "http" | "https") || !proxy.0.has_host() {
        return Err(bad());
    }
    reqwest::Proxy::all(proxy.0.clone()).map_err(|_| bad())
}
