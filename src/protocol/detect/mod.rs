//! Finding out which protocol an endpoint speaks.
//!
//! The reader of a node with `protocol: Auto` asks one [probe](probes) after the other, each a task of its own; the
//! first that is answered makes way for that protocol's reader, whose tasks it carries on, wrapped. Nothing found is
//! an error that says what each probe was answered. (A 5xx answer to a probe is no answer: it is retried as any other,
//! and ends the detection if it stays.)

mod probe;

use serde::{Deserialize, Serialize};
use url::Url;

pub use self::probe::{Detected, Probe, Protocol, Verdict, judge, probes};
use super::{NodeContext, Page, ProtocolSettings, ReadError, Reader, Request, Response, SharedReader, origin_of};
use crate::task::{MAX_CURSOR_BYTES, SectionKey, Task, TaskKind};

/// The reader of each protocol that can be found.
#[derive(Debug, Clone)]
pub struct Readers {
    /// Dataspace Protocol.
    pub dsp: SharedReader,
    /// CKAN.
    pub ckan: SharedReader,
    /// DCAT.
    pub dcat: SharedReader,
}

impl Readers {
    /// The reader of a protocol.
    pub fn of(&self, protocol: Protocol) -> &SharedReader {
        match protocol {
            Protocol::Dsp => &self.dsp,
            Protocol::Ckan => &self.ckan,
            Protocol::Dcat => &self.dcat,
        }
    }
}

/// Reads nodes whose protocol is not known yet.
#[derive(Debug, Clone)]
pub struct DetectReader {
    readers: Readers,
}

impl DetectReader {
    /// A reader that hands over to these.
    pub fn new(readers: Readers) -> Self {
        Self { readers }
    }
}

/// Where a task stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Step {
    /// The probe to ask, and what the ones before it were answered.
    Probe { index: usize, answers: Vec<String> },
    /// A task of the reader of a protocol that was found.
    Read { protocol: Protocol, endpoint: Url, cursor: String },
}

impl Step {
    fn of(task: &Task) -> Result<Self, ReadError> {
        serde_json::from_str(&task.cursor).map_err(|_| bad_cursor(task))
    }

    fn to_cursor(&self) -> Result<String, ReadError> {
        let url = || match self {
            Self::Read { endpoint, .. } => endpoint.to_string(),
            Self::Probe { .. } => String::new(),
        };
        let cursor = serde_json::to_string(self)
            .map_err(|error| ReadError::BadEndpoint { url: url(), why: error.to_string() })?;
        if cursor.len() > MAX_CURSOR_BYTES {
            let what = "whose next request takes too much to remember".to_owned();
            return Err(ReadError::OverLimit { url: url(), what, limit: MAX_CURSOR_BYTES as u64 });
        }
        Ok(cursor)
    }
}

fn bad_cursor(task: &Task) -> ReadError {
    ReadError::BadCursor { cursor: task.cursor.to_string() }
}

impl Reader for DetectReader {
    fn root_task(&self, node: &NodeContext) -> Result<Task, ReadError> {
        if !matches!(node.endpoint.scheme(), "http" | "https") {
            let why = "it is not an http or https URL".to_owned();
            return Err(ReadError::BadEndpoint { url: node.endpoint.to_string(), why });
        }
        let cursor = Step::Probe { index: 0, answers: Vec::new() }.to_cursor()?;
        let section = SectionKey::root_of(node.name.clone());
        Ok(Task::new(section, TaskKind::Root, origin_of(&node.endpoint), cursor))
    }

    fn request(&self, node: &NodeContext, task: &Task) -> Result<Request, ReadError> {
        match Step::of(task)? {
            Step::Probe { index, .. } => {
                let probe = probes(&node.endpoint).into_iter().nth(index);
                probe.map(|probe| probe.request).ok_or_else(|| bad_cursor(task))
            }
            Step::Read { protocol, endpoint, cursor } => {
                self.readers.of(protocol).request(&node_of(node, protocol, endpoint), &with_cursor(task, &cursor))
            }
        }
    }

    fn decode(&self, node: &NodeContext, task: &Task, response: &Response) -> Result<Page, ReadError> {
        match Step::of(task)? {
            Step::Probe { index, answers } => self.decode_probe(node, task, index, answers, response),
            Step::Read { protocol, endpoint, cursor } => {
                let inner_node = node_of(node, protocol, endpoint.clone());
                let inner_task = with_cursor(task, &cursor);
                let mut page = self.readers.of(protocol).decode(&inner_node, &inner_task, response)?;
                for task in &mut page.feedback {
                    *task = wrapped(protocol, &endpoint, task)?;
                }
                Ok(page)
            }
        }
    }

    fn describe_error(&self, response: &Response) -> Option<String> {
        let Readers { dsp, ckan, dcat } = &self.readers;
        [dsp, ckan, dcat].iter().find_map(|reader| reader.describe_error(response))
    }
}

impl DetectReader {
    fn decode_probe(
        &self,
        node: &NodeContext,
        task: &Task,
        index: usize,
        mut answers: Vec<String>,
        response: &Response,
    ) -> Result<Page, ReadError> {
        let probes = probes(&node.endpoint);
        let probe = probes.get(index).ok_or_else(|| bad_cursor(task))?;
        let next = match judge(&node.endpoint, probe, response) {
            Verdict::Found(Detected { protocol, endpoint, .. }) => {
                let root = self.readers.of(protocol).root_task(&node_of(node, protocol, endpoint.clone()))?;
                wrapped(protocol, &endpoint, &root)?
            }
            Verdict::No(answer) => {
                answers.push(format!("{} answered {answer}", shown(&probe.request.url)));
                let Some(next) = probes.get(index + 1) else {
                    return Err(ReadError::NoProtocolFound { url: node.endpoint.to_string(), why: answers.join("; ") });
                };
                let cursor = Step::Probe { index: index + 1, answers }.to_cursor()?;
                Task::new(task.section.clone(), TaskKind::Root, origin_of(&next.request.url), cursor)
            }
        };
        Ok(Page { feedback: vec![next], protocol: "Auto".into(), ..Page::default() })
    }
}

/// The part of a probe's address that differs from the others'.
fn shown(url: &Url) -> String {
    url.path().chars().take(120).collect()
}

/// The node as the reader of its protocol knows it.
fn node_of(node: &NodeContext, protocol: Protocol, endpoint: Url) -> NodeContext {
    let settings = match (&node.settings, protocol) {
        (ProtocolSettings::Auto(auto), Protocol::Dsp) => ProtocolSettings::Dsp(auto.dsp.clone()),
        (ProtocolSettings::Auto(auto), Protocol::Ckan) => ProtocolSettings::Ckan(auto.ckan.clone()),
        (ProtocolSettings::Auto(auto), Protocol::Dcat) => ProtocolSettings::Dcat(auto.dcat.clone()),
        (known, _) => known.clone(),
    };
    NodeContext { endpoint, settings, ..node.clone() }
}

/// The same task for another cursor.
fn with_cursor(task: &Task, cursor: &str) -> Task {
    let Task { status, page, depth, provenance, .. } = task.clone();
    let same = Task::new(task.section.clone(), task.kind, task.origin.clone(), cursor);
    Task { status, page, depth, provenance, ..same }
}

/// A reader's task as one of the detecting reader's.
fn wrapped(protocol: Protocol, endpoint: &Url, task: &Task) -> Result<Task, ReadError> {
    let step = Step::Read { protocol, endpoint: endpoint.clone(), cursor: task.cursor.to_string() };
    Ok(with_cursor(task, &step.to_cursor()?))
}
