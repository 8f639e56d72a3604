//! Nodes and answers for the DCAT reader.

use bytes::Bytes;
use trawler::protocol::dcat::DcatReader;
use trawler::protocol::{DcatSettings, NodeContext, Page, ProtocolSettings, ReadError, Reader, Response};
use trawler::task::{NodeName, Task};
use url::Url;

/// A DCAT node at this endpoint.
pub(crate) fn node(endpoint: &str) -> NodeContext {
    NodeContext {
        name: NodeName::from("portal"),
        endpoint: Url::parse(endpoint).expect("a test endpoint is a URL"),
        settings: ProtocolSettings::Dcat(DcatSettings { format: None, follow_linked_datasets: true }),
        checkpoint: None,
    }
}

/// A 200 from this address.
pub(crate) fn answer(url: &str, content_type: &str, body: impl Into<Vec<u8>>) -> Response {
    Response {
        status: 200,
        url: Url::parse(url).expect("a test address is a URL"),
        content_type: (!content_type.is_empty()).then(|| content_type.to_owned()),
        links: Vec::new(),
        etag: None,
        last_modified: None,
        date: None,
        body: Bytes::from(body.into()),
    }
}

/// The node's first task.
pub(crate) fn root_task(node: &NodeContext) -> Task {
    DcatReader::new().root_task(node).expect("a test endpoint has a root task")
}

/// What the reader makes of a root document.
pub(crate) fn read_root(endpoint: &str, content_type: &str, body: impl Into<Vec<u8>>) -> Result<Page, ReadError> {
    let node = node(endpoint);
    DcatReader::new().decode(&node, &root_task(&node), &answer(endpoint, content_type, body))
}

/// The cursors of the tasks that follow.
pub(crate) fn cursors(tasks: &[Task]) -> Vec<&str> {
    tasks.iter().map(|task| &*task.cursor).collect()
}

/// A document of tests/fixtures/dcat.
pub(crate) fn fixture(name: &str) -> Vec<u8> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/dcat").join(name);
    std::fs::read(path).expect("the fixture is there")
}
