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
        endpoint: Url::parse(endpoint).unwrap(),
        settings: ProtocolSettings::Dcat(DcatSettings { format: None, follow_linked_datasets: true }),
        checkpoint: None,
    }
}

/// A 200 from this address.
pub(crate) fn answer(url: &str, content_type: &str, body: impl Into<Vec<u8>>) -> Response {
    Response {
        status: 200,
        url: Url::parse(url).unwrap(),
        content_type: (!content_type.is_empty()).then(|| content_type.to_owned()),
        links: Vec::new(),
        etag: None,
        last_modified: None,
        body: Bytes::from(body.into()),
    }
}

/// What the reader makes of a root document.
pub(crate) fn read_root(endpoint: &str, content_type: &str, body: impl Into<Vec<u8>>) -> Result<Page, ReadError> {
    let node = node(endpoint);
    let task = DcatReader::new().root_task(&node).unwrap();
    DcatReader::new().decode(&node, &task, &answer(endpoint, content_type, body))
}

/// The cursors of the tasks that follow.
pub(crate) fn cursors(tasks: &[Task]) -> Vec<&str> {
    tasks.iter().map(|task| &*task.cursor).collect()
}
