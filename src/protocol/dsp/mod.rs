//! The Dataspace Protocol: 2025-1, 2024-1, and the 0.8 of the field.
//!
//! One task leads to the next: the root task asks for the versions ([`discovery`]); its answer gives the first page of
//! the catalogue, with version and address in the cursor ([`cursor`]); each page gives the next one ([`paging`]) and a
//! root task for each nested catalogue ([`nested`]). Terms are known by their local names ([`terms`]), so that one
//! reader covers all versions without a JSON-LD engine.

mod address;
mod collect;
mod cursor;
mod dataset;
mod discovery;
mod message;
mod nested;
mod page;
mod paging;
mod rules;
mod terms;
mod wire;

use self::cursor::Step;
use super::{DspSettings, NodeContext, Page, ProtocolSettings, ReadError, Reader, Request, Response, origin_of};
use crate::task::{SectionKey, Task, TaskKind};

/// EDC refuses everything else, `application/ld+json` included.
const ACCEPT: &str = "application/json";

/// What a body should have been.
const EXPECTED: &str = "a DSP catalogue";

/// Reads the Dataspace Protocol.
#[derive(Debug, Default)]
pub struct DspReader(());

impl DspReader {
    /// A reader; all settings come with the node.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Reader for DspReader {
    fn root_task(&self, node: &NodeContext) -> Result<Task, ReadError> {
        let endpoint = address::of_endpoint(&node.endpoint)?;
        let step = Step::Discover { endpoint: endpoint.clone(), attempt: 0 };
        let section = SectionKey::root_of(node.name.clone());
        let mut task = Task::new(section, TaskKind::Root, origin_of(&endpoint), step.to_cursor()?);
        task.provenance = [super::normalised_endpoint(&node.endpoint)].into();
        Ok(task)
    }

    fn request(&self, node: &NodeContext, task: &Task) -> Result<Request, ReadError> {
        Ok(match Step::from_cursor(&task.cursor)? {
            Step::Discover { endpoint, attempt } => discovery::request(&endpoint, attempt),
            Step::Page(at) => {
                let body = message::catalog_request(at.version, settings(node).page_size);
                let request = Request::post_json(at.url(), ACCEPT, body);
                Request { decodes_client_errors: at.is_question, ..request }
            }
        })
    }

    fn decode(&self, node: &NodeContext, task: &Task, response: &Response) -> Result<Page, ReadError> {
        let settings = settings(node);
        match Step::from_cursor(&task.cursor)? {
            Step::Discover { endpoint, attempt } => discovery::decode(&settings, task, &endpoint, attempt, response),
            Step::Page(at) if at.is_question => discovery::decode_question(node, &settings, task, &at, response),
            Step::Page(at) => page::decode(node, &settings, task, &at, response),
        }
    }

    fn describe_error(&self, response: &Response) -> Option<String> {
        page::error_message(std::str::from_utf8(&response.body).ok()?)
    }
}

/// The node's settings; the defaults of `spec.dsp` where the protocol is found out.
fn settings(node: &NodeContext) -> DspSettings {
    match &node.settings {
        ProtocolSettings::Dsp(settings) => settings.clone(),
        _ => DspSettings::default(),
    }
}
