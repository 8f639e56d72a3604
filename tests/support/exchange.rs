//! Talking to a reader as the crawler does, but with answers from memory.

use std::collections::{HashSet, VecDeque};

use bytes::Bytes;
use trawler::protocol::{
    CkanSettings, DspSettings, NodeContext, Page, ProtocolSettings, ReadError, Reader, Request, Response,
};
use trawler::task::{NodeName, Task};
use url::Url;

/// Answers are capped at this number of requests: a test that needs more has found a loop.
const MAX_REQUESTS: usize = 200;

/// A URL that is known to be one.
pub(crate) fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

/// A node as the crawler hands it to a reader.
pub(crate) fn node(endpoint: &str, settings: ProtocolSettings) -> NodeContext {
    NodeContext { name: NodeName::from("acme"), endpoint: url(endpoint), settings, checkpoint: None }
}

/// `spec.dsp` with its defaults.
pub(crate) fn dsp_defaults() -> DspSettings {
    DspSettings::default()
}

/// A DSP node with default settings.
pub(crate) fn dsp_node(endpoint: &str) -> NodeContext {
    node(endpoint, ProtocolSettings::Dsp(dsp_defaults()))
}

/// A CKAN node with pages of 100.
pub(crate) fn ckan_node(endpoint: &str) -> NodeContext {
    node(endpoint, ProtocolSettings::Ckan(CkanSettings { page_size: 100, filter: None }))
}

/// An answer with this body, said to be JSON.
pub(crate) fn answer(from: &str, status: u16, body: impl Into<Bytes>) -> Response {
    Response {
        status,
        url: url(from),
        content_type: Some("application/json".to_owned()),
        links: Vec::new(),
        etag: None,
        last_modified: None,
        date: None,
        body: body.into(),
    }
}

/// All that a traversal with its nested sections did.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// The requests in order, as `METHOD url`.
    pub(crate) requests: Vec<String>,
    /// The tasks in order.
    pub(crate) tasks: Vec<Task>,
    /// The pages in order; `Err` where a task failed.
    pub(crate) pages: Vec<Result<Page, ReadError>>,
}

impl Walk {
    /// The ids of all records, in order, each with its section.
    pub(crate) fn ids(&self) -> Vec<String> {
        let with_section = |(task, page): (&Task, &Result<Page, ReadError>)| -> Vec<String> {
            let records = page.iter().flat_map(|page| &page.records);
            records.map(|record| format!("{}/{}", task.section.section, record.id)).collect()
        };
        self.tasks.iter().zip(&self.pages).flat_map(with_section).collect()
    }

    /// The last page, which must have been read.
    pub(crate) fn last(&self) -> &Page {
        self.pages.last().unwrap().as_ref().unwrap()
    }
}

/// Crawls a node: each task once, in the order found; 4xx answers reach the reader only if it asked for them.
pub(crate) fn walk(reader: &dyn Reader, node: &NodeContext, respond: impl Fn(&Request) -> Response) -> Walk {
    let mut walk = Walk::default();
    let root = reader.root_task(node).unwrap();
    let mut seen = HashSet::from([root.id]);
    let mut queue = VecDeque::from([root]);
    while let Some(task) = queue.pop_front() {
        assert!(walk.requests.len() < MAX_REQUESTS, "the walk does not end: {:#?}", &walk.requests[..10]);
        let request = reader.request(node, &task).unwrap();
        walk.requests
            .push(format!("{:?} {}", request.method, request.url).replace("Get ", "GET ").replace("Post ", "POST "));
        let response = respond(&request);
        let page = if response.status < 300 || request.decodes_client_errors {
            reader.decode(node, &task, &response)
        } else {
            let message = reader.describe_error(&response).unwrap_or_else(|| format!("status {}", response.status));
            Err(ReadError::ErrorAnswer { url: response.url.to_string(), message })
        };
        for next in page.iter().flat_map(|page| &page.feedback) {
            if seen.insert(next.id) {
                queue.push_back(next.clone());
            }
        }
        walk.tasks.push(task);
        walk.pages.push(page);
    }
    walk
}
