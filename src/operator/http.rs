//! What probes and Prometheus ask: `/healthz`, `/readyz`, `/metrics`.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tracing::debug;

use super::metrics::Metrics;

/// Connections at a time: probes and a scraper need few.
const MAX_CONNECTIONS: usize = 64;

/// Whether the operator can do its work, as leader or as the one that would be.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    /// Everything that it watches has been seen once.
    pub(crate) synced: AtomicBool,
    /// The queue answered when it was asked last.
    pub(crate) queue: AtomicBool,
}

impl Readiness {
    fn answer(&self) -> (StatusCode, &'static str) {
        if !self.synced.load(Ordering::Acquire) {
            (StatusCode::SERVICE_UNAVAILABLE, "not ready: what it watches was not seen yet\n")
        } else if !self.queue.load(Ordering::Acquire) {
            (StatusCode::SERVICE_UNAVAILABLE, "not ready: the queue's Redis can't be reached\n")
        } else {
            (StatusCode::OK, "ready\n")
        }
    }
}

/// Serves one of the two ports until the program ends.
pub(crate) async fn serve(address: SocketAddr, readiness: Arc<Readiness>, metrics: Metrics) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return Ok(()) };
        let (stream, _) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                debug!("a connection was not accepted: {error}");
                continue;
            }
        };
        let (readiness, metrics) = (readiness.clone(), metrics.clone());
        tokio::spawn(async move {
            let service = service_fn(|request: Request<Incoming>| {
                let response = respond(request.uri().path(), &readiness, &metrics);
                async move { Ok::<_, Infallible>(response) }
            });
            let served = http1::Builder::new().keep_alive(true).serve_connection(TokioIo::new(stream), service).await;
            if let Err(error) = served {
                debug!("a probe's connection ended: {error}");
            }
            drop(place);
        });
    }
}

fn respond(path: &str, readiness: &Readiness, metrics: &Metrics) -> Response<Full<Bytes>> {
    let (status, type_, body) = match path {
        "/healthz" | "/livez" => (StatusCode::OK, "text/plain", Bytes::from_static(b"ok\n")),
        "/readyz" => {
            let (status, text) = readiness.answer();
            (status, "text/plain", Bytes::from_static(text.as_bytes()))
        }
        "/metrics" => {
            (StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", Bytes::from(metrics.text()))
        }
        _ => (StatusCode::NOT_FOUND, "text/plain", Bytes::from_static(b"there are /healthz, /readyz and /metrics\n")),
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    if let Ok(type_) = type_.parse() {
        response.headers_mut().insert(CONTENT_TYPE, type_);
    }
    response
}
