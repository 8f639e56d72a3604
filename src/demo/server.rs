//! The HTTP server under the demo's catalogues: one listener a node, answers from a pure function.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderName, IF_NONE_MATCH};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// No request of a crawler is longer.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// What all nodes share.
#[derive(Debug)]
pub(super) struct World {
    generation: AtomicU64,
    requests: AtomicU64,
    latency: Duration,
}

impl World {
    pub(super) fn new(latency: Duration) -> Self {
        Self { generation: AtomicU64::new(0), requests: AtomicU64::new(0), latency }
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    pub(super) fn next_generation(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }
}

/// A request, as far as a catalogue looks at it.
pub(super) struct Ask {
    pub(super) method: hyper::Method,
    pub(super) path: String,
    /// Decoded name-value pairs.
    pub(super) query: Vec<(String, String)>,
    pub(super) if_none_match: Option<String>,
    pub(super) body: Bytes,
    /// `http://127.0.0.1:PORT`, for the links in an answer.
    pub(super) origin: String,
    pub(super) generation: u64,
    /// Different for every request: what a server that makes up ids makes them from.
    pub(super) serial: u64,
}

impl Ask {
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A parameter that is a number, with what counts when it is missing or isn't one.
    pub(super) fn number(&self, name: &str, default: usize) -> usize {
        self.parameter(name).and_then(|value| value.parse().ok()).unwrap_or(default)
    }

    pub(super) fn is_post(&self) -> bool {
        self.method == hyper::Method::POST
    }
}

/// An answer.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) content_type: &'static str,
    pub(super) headers: Vec<(HeaderName, String)>,
    pub(super) body: String,
}

impl Answer {
    pub(super) fn new(status: u16, content_type: &'static str, body: impl Into<String>) -> Self {
        Self { status, content_type, headers: Vec::new(), body: body.into() }
    }

    /// JSON with status 200.
    pub(super) fn json(body: &serde_json::Value) -> Self {
        Self::new(200, "application/json", body.to_string())
    }

    /// An error as servlet containers and web frameworks write it, whatever the protocol.
    pub(super) fn html(status: u16, reason: &str) -> Self {
        Self::new(
            status,
            "text/html",
            format!(
                "<html><head><title>Error {status}</title></head><body><h2>HTTP ERROR {status} {reason}</h2></body></html>"
            ),
        )
    }

    pub(super) fn with(mut self, header: HeaderName, value: impl Into<String>) -> Self {
        self.headers.push((header, value.into()));
        self
    }
}

/// Who answers at a node.
pub(super) type Site = fn(&Ask) -> Answer;

/// Serves one node until it is aborted, which closes its connections too.
pub(super) async fn serve(listener: TcpListener, site: Site, world: Arc<World>) {
    let Ok(address) = listener.local_addr() else { return };
    let origin: Arc<str> = format!("http://{address}").into();
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors: the next connection that ends gives one back.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (world, origin) = (Arc::clone(&world), Arc::clone(&origin));
        connections.spawn(async move {
            let service = service_fn(move |request| answer(request, site, Arc::clone(&world), Arc::clone(&origin)));
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service);
            // A crawler that hangs up is no fault of the demo's.
            drop(connection.await);
        });
    }
}

async fn answer(
    request: hyper::Request<Incoming>,
    site: Site,
    world: Arc<World>,
    origin: Arc<str>,
) -> Result<hyper::Response<Full<Bytes>>, Infallible> {
    let serial = world.requests.fetch_add(1, Ordering::SeqCst);
    if !world.latency.is_zero() {
        tokio::time::sleep(world.latency).await;
    }
    let (head, body) = request.into_parts();
    let answer = match Limited::new(body, MAX_BODY_BYTES).collect().await {
        Err(_) => Answer::html(413, "Content Too Large"),
        Ok(body) => site(&Ask {
            method: head.method,
            path: head.uri.path().to_owned(),
            query: url::form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes()).into_owned().collect(),
            if_none_match: head.headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok()).map(str::to_owned),
            body: body.to_bytes(),
            origin: origin.to_string(),
            generation: world.generation(),
            serial,
        }),
    };
    let mut builder = hyper::Response::builder().status(answer.status).header(CONTENT_TYPE, answer.content_type);
    for (name, value) in answer.headers {
        builder = builder.header(name, value);
    }
    Ok(builder.body(Full::new(Bytes::from(answer.body))).unwrap_or_default())
}
