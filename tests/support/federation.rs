//! A federation of many DSP 2025-1 connectors on loopback that costs as little as possible, for measuring crawlers.
//!
//! Every node is an origin of its own: a port of 127.0.0.1. All nodes share their pages' bytes, but for the node's
//! number, which is patched in. HTTP is read by hand: request line, `Content-Length`, keep-alive, pipelining; nothing else.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use trawler::clock::{Clock, SystemClock};

/// How large the federation is.
#[derive(Debug, Clone)]
pub(crate) struct StubOptions {
    /// Connectors; at most 9,999.
    pub(crate) nodes: usize,
    /// Datasets of each, of about 1.2 kB.
    pub(crate) datasets_per_node: usize,
    /// Datasets a page.
    pub(crate) page_size: usize,
    /// Where to write a line per request: microseconds since 1970, node, method and target, divided by tabs.
    pub(crate) request_log: Option<PathBuf>,
}

/// The running federation. Dropping it stops it.
#[derive(Debug)]
pub(crate) struct StubFederation {
    shared: Arc<Shared>,
    addresses: Vec<SocketAddr>,
    servers: JoinSet<()>,
}

impl StubFederation {
    /// Serves the federation. Takes one file descriptor per node and connection.
    pub(crate) async fn start(options: &StubOptions) -> io::Result<Self> {
        let shared = Arc::new(Shared::new(options)?);
        let mut federation = Self { shared, addresses: Vec::new(), servers: JoinSet::new() };
        for node in 0..options.nodes {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(|error| {
                io::Error::new(
                    error.kind(),
                    format!("node {node} can't listen: {error}; if that is about open files, raise ulimit -n"),
                )
            })?;
            let address = listener.local_addr()?;
            federation.addresses.push(address);
            let node = Arc::new(Node::new(node, address, Arc::clone(&federation.shared)));
            federation.servers.spawn(accept(listener, node));
        }
        Ok(federation)
    }

    /// Manifests for a crawl of the whole federation, with a budget that never binds.
    pub(crate) fn manifests(&self) -> String {
        let mut yaml = String::from(
            "apiVersion: trawler.dev/v1alpha1\nkind: Catalog\nmetadata: {name: stub}\nspec:\n  \
             catalogNodeSelector: {matchLabels: {federation: stub}}\n  runTemplate: {spec: {tokens: 1}}\n---\n\
             apiVersion: trawler.dev/v1alpha1\nkind: ThrottlePolicy\nmetadata: {name: unbounded}\nspec:\n  \
             limits: [{unit: ApiCalls, amount: 1000000, period: 1s, pacing: Burst}]\n",
        );
        for (number, address) in self.addresses.iter().enumerate() {
            // Writing to a String can't fail.
            let _written = writeln!(
                yaml,
                "---\napiVersion: trawler.dev/v1alpha1\nkind: CatalogNode\nmetadata: {{name: node-{number:04}, labels: \
                 {{federation: stub}}}}\nspec:\n  endpoint: http://{address}/api/dsp\n  protocol: DSP\n  \
                 throttlePolicyRef: {{name: unbounded}}"
            );
        }
        yaml
    }

    /// Requests answered so far.
    pub(crate) fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::Relaxed)
    }

    /// Bytes of answers' bodies so far.
    pub(crate) fn body_bytes(&self) -> u64 {
        self.shared.body_bytes.load(Ordering::Relaxed)
    }

    /// Makes sure that the request log is on disk.
    pub(crate) fn flush_log(&self) -> io::Result<()> {
        match &self.shared.log {
            Some(log) => log.lock().unwrap_or_else(PoisonError::into_inner).flush(),
            None => Ok(()),
        }
    }
}

/// What all nodes share.
#[derive(Debug)]
struct Shared {
    pages: Vec<Template>,
    requests: AtomicU64,
    body_bytes: AtomicU64,
    log: Option<Mutex<BufWriter<std::fs::File>>>,
    clock: SystemClock,
}

impl Shared {
    fn new(options: &StubOptions) -> io::Result<Self> {
        let page_size = options.page_size.max(1);
        let open = |path: &PathBuf| std::fs::File::create(path as &Path).map(|file| Mutex::new(BufWriter::new(file)));
        Ok(Self {
            // As an EDC does it: after a full page comes another, though it be empty.
            pages: (0..=options.datasets_per_node / page_size)
                .map(|page| {
                    let first = page * page_size;
                    Template::new(&page_json(first..(first + page_size).min(options.datasets_per_node)))
                })
                .collect(),
            requests: AtomicU64::new(0),
            body_bytes: AtomicU64::new(0),
            log: options.request_log.as_ref().map(open).transpose()?,
            clock: SystemClock::new(),
        })
    }

    fn note(&self, node: usize, request_line: &str) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if let Some(log) = &self.log {
            let now_us = self.clock.now().as_microsecond();
            let target = request_line.trim_end_matches(" HTTP/1.1");
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            writeln!(log, "{now_us}\t{node:04}\t{target}").expect("the request log can be written");
        }
    }
}

/// A text with places for the node's number.
#[derive(Debug)]
struct Template {
    text: Vec<u8>,
    places: Vec<usize>,
}

/// Stands for the node's number, and is as long.
const PLACEHOLDER: &str = "####";

impl Template {
    fn new(text: &str) -> Self {
        let places = text.match_indices(PLACEHOLDER).map(|(place, _)| place).collect();
        Self { text: text.as_bytes().to_vec(), places }
    }

    fn append_to(&self, out: &mut Vec<u8>, number: &[u8]) {
        let start = out.len();
        out.extend_from_slice(&self.text);
        for place in &self.places {
            out[start + place..start + place + PLACEHOLDER.len()].copy_from_slice(number);
        }
    }
}

#[derive(Debug)]
struct Node {
    number: usize,
    number_text: String,
    address: SocketAddr,
    shared: Arc<Shared>,
}

const REQUEST_PATH: &str = "/api/dsp/2025-1/catalog/request";
const VERSIONS: &str = r#"{"protocolVersions":[{"version":"2025-1","path":"/2025-1","binding":"HTTPS"}]}"#;

impl Node {
    fn new(number: usize, address: SocketAddr, shared: Arc<Shared>) -> Self {
        Self { number, number_text: format!("{number:04}"), address, shared }
    }

    /// Appends the answer to a request to `out`.
    fn answer(&self, request_line: &str, out: &mut Vec<u8>) {
        self.shared.note(self.number, request_line);
        let mut words = request_line.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        match (method, path) {
            ("GET", "/api/dsp/.well-known/dspace-version") => self.append(out, "200 OK", "", VERSIONS.as_bytes()),
            ("POST", REQUEST_PATH) => {
                let page = query.strip_prefix("continuationToken=").map_or(Some(0), |token| token.parse().ok());
                match page.and_then(|page: usize| Some((page, self.shared.pages.get(page)?))) {
                    Some((page, template)) => self.append_page(out, page, template),
                    None => self.append(out, "400 Bad Request", "", b"{\"@type\":\"CatalogError\",\"code\":\"400\"}"),
                }
            }
            _ => self.append(out, "404 Not Found", "", b"{\"@type\":\"CatalogError\",\"code\":\"404\"}"),
        }
    }

    fn append_page(&self, out: &mut Vec<u8>, page: usize, template: &Template) {
        let mut link = String::new();
        if page + 1 < self.shared.pages.len() {
            let next = page + 1;
            link = format!("Link: <http://{}{REQUEST_PATH}?continuationToken={next}>; rel=\"next\"\r\n", self.address);
        }
        self.append_head(out, "200 OK", &link, template.text.len());
        template.append_to(out, self.number_text.as_bytes());
    }

    fn append(&self, out: &mut Vec<u8>, status: &str, headers: &str, body: &[u8]) {
        self.append_head(out, status, headers, body.len());
        out.extend_from_slice(body);
    }

    fn append_head(&self, out: &mut Vec<u8>, status: &str, headers: &str, length: usize) {
        self.shared.body_bytes.fetch_add(length as u64, Ordering::Relaxed);
        let head =
            format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{headers}Content-Length: {length}\r\n\r\n");
        out.extend_from_slice(head.as_bytes());
    }
}

async fn accept(listener: TcpListener, node: Arc<Node>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let node = Arc::clone(&node);
                // The other side may hang up whenever it likes.
                connections.spawn(async move { drop(talk(stream, &node).await) });
            }
            // Out of file descriptors: give the connections a chance to end.
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

/// Answers the requests of one connection until it ends.
async fn talk(mut stream: TcpStream, node: &Node) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut input = BytesMut::with_capacity(4096);
    let mut output = Vec::new();
    loop {
        while let Some((head_length, length)) = complete_request(&input)? {
            let line_end = input[..head_length].iter().position(|byte| *byte == b'\r').unwrap_or(head_length);
            node.answer(&String::from_utf8_lossy(&input[..line_end]), &mut output);
            input.advance(length);
        }
        if !output.is_empty() {
            stream.write_all(&output).await?;
            output.clear();
            // An idle connection keeps no page in memory.
            output.shrink_to(0);
        }
        if stream.read_buf(&mut input).await? == 0 {
            return Ok(());
        }
    }
}

/// The lengths of the first request's head and of the whole request, once all of it is there.
fn complete_request(input: &[u8]) -> io::Result<Option<(usize, usize)>> {
    const MAX_BYTES: usize = 64 * 1024;
    let Some(end) = input.windows(4).position(|window| window == b"\r\n\r\n") else {
        if input.len() > MAX_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the request's head is too long"));
        }
        return Ok(None);
    };
    let head_length = end + 4;
    let body_length = input[..end]
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split_at_checked(15))
        .find(|(name, _)| name.eq_ignore_ascii_case(b"content-length:"))
        .map_or(Some(0), |(_, value)| std::str::from_utf8(value).ok()?.trim().parse::<usize>().ok())
        .filter(|length| *length <= MAX_BYTES)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the request's body has no usable length"))?;
    let length = head_length + body_length;
    Ok((input.len() >= length).then_some((head_length, length)))
}

fn page_json(indices: std::ops::Range<usize>) -> String {
    let mut catalog = serde_json::json!({
        "@context": ["https://w3id.org/dspace/2025/1/context.jsonld", {"dcat": "http://www.w3.org/ns/dcat#", "dct": "http://purl.org/dc/terms/"}],
        "@id": "urn:uuid:0c8d6c1e-0000-4000-8000-00000000####",
        "@type": "Catalog",
        "participantId": "did:web:node-####.example",
        "service": [{"@id": "dsp", "@type": "DataService", "endpointURL": "https://node-####.example/api/dsp/2025-1"}],
    });
    if !indices.is_empty() {
        catalog["dataset"] = indices.map(dataset_json).collect();
    }
    catalog.to_string()
}

fn dataset_json(index: usize) -> serde_json::Value {
    serde_json::json!({
        "@id": format!("node-####-dataset-{index:05}"),
        "@type": "Dataset",
        "id": format!("node-####-dataset-{index:05}"),
        "dct:title": [format!("Measurements of station {index}"), format!("Messwerte der Station {index}")],
        "description": format!("What station {index} measured, every ten minutes, checked for plausibility before it is published. \
            Gaps are marked, and values that were corrected later carry the date of their correction. The series \
            begins with the station's first year; older values were taken from the log books of the light house and \
            are kept apart, since their times are known to the hour only."),
        "dcat:keyword": ["weather", "sea state", "automatic station", "ten minutes"],
        "dct:modified": format!("2026-{:02}-{:02}", index % 12 + 1, index % 28 + 1),
        "hasPolicy": [{
            "@id": format!("Y29udHJhY3Q=:bm9kZS0jIyMj:{index:012x}"),
            "@type": "Offer",
            "permission": [{"action": "use", "constraint": [
                {"leftOperand": "purpose", "operator": "eq", "rightOperand": "navigation"},
                {"leftOperand": "dateTime", "operator": "lt", "rightOperand": "2030-01-01T00:00:00Z"},
            ]}],
        }],
        "distribution": [
            {"@type": "Distribution", "format": "HttpData-PULL", "accessService":
                {"@id": "dsp", "@type": "DataService", "endpointDescription": "dspace:connector", "endpointURL": "https://node-####.example/api/dsp/2025-1"}},
            {"@type": "Distribution", "format": "HttpData-PUSH", "accessService": "dsp"},
        ],
    })
}
