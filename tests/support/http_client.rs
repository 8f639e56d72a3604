//! What the HTTP client's tests need to call it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper of tests fails the test")]

use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use trawler::clock::SystemClock;
use trawler::crawler::credential::{Credential, Secret};
use trawler::crawler::http::{FetchError, Fetched, GateClosed, HttpClient, HttpConfig, NodeAccess, RequestGate};
use trawler::outcome::Outcome;
use trawler::protocol::Request;
use trawler::task::OriginKey;
use url::Url;

/// Settings that allow the loopback servers of the tests.
pub(crate) fn loopback() -> HttpConfig {
    HttpConfig { allow_private: vec!["127.0.0.0/8".parse().unwrap()], ..HttpConfig::default() }
}

pub(crate) fn client(config: HttpConfig) -> HttpClient {
    HttpClient::new(config, SystemClock::shared()).unwrap()
}

pub(crate) fn get(url: Url) -> Request {
    Request::get(url, "*/*")
}

pub(crate) fn retry(at_least: Duration) -> Outcome {
    Outcome::Retry { at_least: Some(at_least) }
}

/// A node with a bearer token for one origin.
pub(crate) fn bearer_for(origin: OriginKey) -> NodeAccess {
    let credential = Credential::Bearer { token: Secret::new("canary-token") };
    NodeAccess { credential: Some(Arc::new(credential)), credential_origins: vec![origin], ..NodeAccess::default() }
}

/// Sends with an open gate and no validators.
pub(crate) async fn fetch(client: &HttpClient, request: &Request, access: &NodeAccess) -> Result<Fetched, FetchError> {
    client.send(request, access, &CountingGate::default(), None).await
}

pub(crate) fn body_of(fetched: Fetched) -> Bytes {
    match fetched {
        Fetched::Response { response, .. } => response.body,
        Fetched::NotModified { .. } => panic!("a document was expected, not 304"),
    }
}

/// A gate that is open, and remembers who was asked for.
#[derive(Debug, Default)]
pub(crate) struct CountingGate(Mutex<Vec<OriginKey>>);

impl CountingGate {
    pub(crate) fn asked(&self) -> Vec<OriginKey> {
        self.0.lock().unwrap().clone()
    }
}

#[async_trait]
impl RequestGate for CountingGate {
    async fn permit(&self, origin: &OriginKey) -> Result<(), GateClosed> {
        self.0.lock().unwrap().push(origin.clone());
        Ok(())
    }
}

/// A gate that lets nothing further through.
#[derive(Debug)]
pub(crate) struct ClosedGate;

#[async_trait]
impl RequestGate for ClosedGate {
    async fn permit(&self, _: &OriginKey) -> Result<(), GateClosed> {
        Err(GateClosed { until: Some(Timestamp::UNIX_EPOCH), why: Cow::Borrowed("the gate is closed") })
    }
}
