//! How catalogues speak: the port between a protocol's wire format and everything else.
//!
//! A [`Reader`] is pure. It turns a task into a [`Request`] (a value; the crawler sends it) and a [`Response`] into a
//! [`Page`]: the records found, and the tasks that follow. Version discovery, paging, nested catalogues and single
//! datasets are all *feedback*: every request is a task of its own, so that every request is counted, resumable and
//! remembered. A reader is tolerant on input and says what it forgave ([`Page::forgiven`]).
//!
//! # Contract (every reader passes `tests/it/protocol_contract.rs`)
//! - Neither `request` nor `decode` reads a clock, a file or a network, and neither panics, whatever the bytes.
//! - `decode` of the same bytes gives the same page: the same ids, hashes and tasks, in the same order.
//! - What a server makes up anew in each response takes no part in a content hash, by named rules (each reader lists its own).
//! - One broken record is reported in [`Page::rejected`] and costs no other record.
//! - Every page that lists datasets says how much of its section it speaks for ([`Page::reading`]). A reader asks for less
//!   than everything only if the node's context has a checkpoint, and a page that may be a part is never said to be whole.
//! - A page that leads to itself or to an earlier page gives a task with the same id as that page; who remembers the
//!   tasks (the queue) drops it, so a loop ends at the first repeat.

mod body;
pub mod canonical;
pub mod ckan;
pub mod dcat;
pub mod detect;
pub mod dsp;
mod json;
mod link;
pub mod registry;
mod since;
mod text;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use url::Url;

pub use crate::finding::{Checkpoint, Forgiven, InFull, Limited, Reading, Rejected};
use crate::outcome::Outcome;
use crate::record::Record;
pub use crate::task::origin_of;
use crate::task::{SectionKey, Task};

/// Reads one protocol. See the module's contract.
pub trait Reader: Send + Sync + std::fmt::Debug {
    /// The task that starts the traversal of a node's root section.
    fn root_task(&self, node: &NodeContext) -> Result<Task, ReadError>;

    /// The request that a task stands for.
    fn request(&self, node: &NodeContext, task: &Task) -> Result<Request, ReadError>;

    /// What the answer says. Called for every 2xx answer, and for a 4xx one (but 408, 425, 429) if the request
    /// [`decodes_client_errors`](Request::decodes_client_errors).
    fn decode(&self, node: &NodeContext, task: &Task, response: &Response) -> Result<Page, ReadError>;

    /// One sentence from an error body, if it is in the protocol's own format. Never a secret, at most 256 characters.
    fn describe_error(&self, _response: &Response) -> Option<String> {
        None
    }
}

/// What a reader knows of the node: its settings and what the store remembers, never a credential.
#[derive(Debug, Clone)]
pub struct NodeContext {
    /// The node's name.
    pub name: crate::task::NodeName,
    /// `spec.endpoint`.
    pub endpoint: Url,
    /// The block of the protocol.
    pub settings: ProtocolSettings,
    /// Set for an incremental traversal whose section has a checkpoint.
    pub checkpoint: Option<Checkpoint>,
}

impl NodeContext {
    /// A short name for what is asked of the node: where, with which settings, and by which version of this program (another
    /// one may read more). What is remembered of an answer holds for the same question only.
    pub fn question(&self) -> String {
        let question = format!("{} {} {:?}", env!("CARGO_PKG_VERSION"), self.endpoint, self.settings);
        blake3::hash(question.as_bytes()).to_hex()[..16].to_owned()
    }
}

/// The settings of the node's protocol, from its `spec`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProtocolSettings {
    /// Find out which it is; each protocol's settings, should it be that one.
    Auto(Box<AutoSettings>),
    /// Dataspace Protocol.
    Dsp(DspSettings),
    /// CKAN's Action API.
    Ckan(CkanSettings),
    /// A DCAT document or feed.
    Dcat(DcatSettings),
}

/// The settings that a node of an unknown protocol has for each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AutoSettings {
    /// `spec.dsp`.
    pub dsp: DspSettings,
    /// `spec.ckan`.
    pub ckan: CkanSettings,
    /// `spec.dcat`.
    pub dcat: DcatSettings,
}

/// `spec.dsp`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DspSettings {
    /// The version; `None`: discover it.
    pub version: Option<DspVersion>,
    /// Entries a page, asked for through EDC's query filter; `None`: the server decides.
    pub page_size: Option<u32>,
    /// Follow nested catalogues.
    pub follow_nested: bool,
    /// How many levels of nesting to follow.
    pub max_depth: u32,
    /// Nested catalogues on other origins than the node's are followed only if this is set.
    pub allow_cross_origin: bool,
    /// The identity that the node's own catalogue must have; `None`: any.
    pub participant_id: Option<String>,
}

impl Default for DspSettings {
    /// The defaults of `spec.dsp`.
    fn default() -> Self {
        Self {
            version: None,
            page_size: None,
            follow_nested: true,
            max_depth: 5,
            allow_cross_origin: false,
            participant_id: None,
        }
    }
}

impl Default for CkanSettings {
    /// The defaults of `spec.ckan`.
    fn default() -> Self {
        Self { page_size: 100, filter: None }
    }
}

impl Default for DcatSettings {
    /// The defaults of `spec.dcat`.
    fn default() -> Self {
        Self { format: None, follow_linked_datasets: true }
    }
}

/// A version of the Dataspace Protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DspVersion {
    /// The 0.8 of the field (EDC), not the tagged document.
    #[serde(rename = "0.8")]
    V08,
    /// 2024-1.
    #[serde(rename = "2024-1")]
    V2024_1,
    /// 2025-1.
    #[serde(rename = "2025-1")]
    V2025_1,
}

/// `spec.ckan`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CkanSettings {
    /// `rows` asked for; the server may clamp it.
    pub page_size: u32,
    /// A filter query (`fq`).
    pub filter: Option<String>,
}

/// `spec.dcat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DcatSettings {
    /// The serialisation; `None`: by content type, then by sniffing, then by the path's ending.
    pub format: Option<RdfFormat>,
    /// Fetch datasets that a catalogue only links.
    pub follow_linked_datasets: bool,
}

/// A serialisation of RDF.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RdfFormat {
    /// JSON-LD.
    JsonLd,
    /// Turtle (also reads N3 that is Turtle).
    Turtle,
    /// N-Triples.
    NTriples,
    /// RDF/XML.
    RdfXml,
}

/// A request as a value. The crawler adds credentials, `User-Agent` and `Accept-Encoding`, and sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// GET or POST.
    pub method: Method,
    /// Where to.
    pub url: Url,
    /// `Accept`.
    pub accept: &'static str,
    /// `Content-Type` and body of a POST.
    pub body: Option<(&'static str, Bytes)>,
    /// Give 4xx answers to [`Reader::decode`]: this request is a question whose "no" is an answer.
    pub decodes_client_errors: bool,
    /// May be made conditional with what the section's last traversal got (`ETag`, `Last-Modified`).
    pub conditional: bool,
}

impl Request {
    /// A plain GET.
    pub fn get(url: Url, accept: &'static str) -> Self {
        Self { method: Method::Get, url, accept, body: None, decodes_client_errors: false, conditional: false }
    }

    /// A POST of JSON.
    pub fn post_json(url: Url, accept: &'static str, body: impl Into<Bytes>) -> Self {
        Self { method: Method::Post, body: Some(("application/json", body.into())), ..Self::get(url, accept) }
    }
}

/// An HTTP method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// GET.
    Get,
    /// POST.
    Post,
}

/// An answer: final (redirects walked), decompressed, within the limits.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// Where the answer came from, after redirects.
    pub url: Url,
    /// `Content-Type`, as sent.
    pub content_type: Option<String>,
    /// All `Link` header fields, in order.
    pub links: Vec<String>,
    /// `ETag`.
    pub etag: Option<String>,
    /// `Last-Modified`, as sent.
    pub last_modified: Option<String>,
    /// `Date`: the server's clock.
    pub date: Option<Timestamp>,
    /// The body, decoded.
    pub body: Bytes,
}

/// What one answer says.
#[derive(Debug, Default)]
pub struct Page {
    /// The datasets it describes, each id once.
    pub records: Vec<Record>,
    /// What is wrong with the ones that could not be read.
    pub rejected: Vec<Rejected>,
    /// Tasks that follow, for this section or for nested ones.
    pub feedback: Vec<Task>,
    /// Nested sections that this page lists, followed or not: what a complete parent no longer lists is gone.
    pub listed_sections: Vec<SectionKey>,
    /// The number of datasets that the server says the section has.
    pub total: Option<u64>,
    /// Faults that were forgiven, by name, with how often.
    pub forgiven: BTreeMap<Forgiven, u64>,
    /// Why the traversal can't be complete although this page is fine (e.g. a depth limit), if so.
    pub limited: Option<Limited>,
    /// How much of the section it speaks for; `None`: it lists no datasets, it only leads on.
    pub reading: Option<Reading>,
    /// What the next incremental traversal may start from, if this one turns out complete. The last one given counts.
    pub checkpoint: Option<Checkpoint>,
    /// The protocol and version spoken, e.g. `DSP 2025-1`, `DCAT (Turtle)`; shown in report and records.
    pub protocol: Cow<'static, str>,
    /// Records that the source says were deleted (incremental traversals).
    pub deleted_ids: Vec<String>,
    /// A total that shrinks from page to page hides nothing: the reader has seen to that.
    pub heeds_total: bool,
    /// It reads again what may have slipped by: that all of its records are known is no sign of an endless chain.
    pub reads_again: bool,
}

/// Why an answer can't be read, or a request can't be built.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReadError {
    /// The body is not what the protocol says; `start` quotes its first characters, cleaned of control characters.
    #[error(
        "{url} answered something that is not {expected}: {why}; it starts with {start:?}; check spec.endpoint and spec.protocol"
    )]
    NotTheProtocol {
        /// Who answered.
        url: String,
        /// What was expected: "a CKAN answer", "RDF (Turtle)".
        expected: &'static str,
        /// What is wrong, with a position where there is one.
        why: String,
        /// The first characters of the body.
        start: String,
    },
    /// The protocol's own error message, sent as an answer.
    #[error("{url} answered with an error of its own: {message}")]
    ErrorAnswer {
        /// Who answered.
        url: String,
        /// Its message.
        message: String,
    },
    /// The catalogue is someone else's than the node says.
    #[error(
        "{url} answered the catalogue of participant {found:?} instead of {expected:?}; correct the endpoint, or \
         spec.dsp.participantId"
    )]
    WrongParticipant {
        /// Who answered.
        url: String,
        /// `spec.dsp.participantId`.
        expected: String,
        /// The catalogue's `participantId`, cleaned; empty if it has none.
        found: String,
    },
    /// A reader's limit on depth or size was passed.
    #[error("{url} answered a document that is {what}, over the limit of {limit}")]
    OverLimit {
        /// Who answered.
        url: String,
        /// "nested 3000 deep".
        what: String,
        /// The limit.
        limit: u64,
    },
    /// Nothing at the endpoint speaks a known protocol or version.
    #[error("{url} speaks no protocol known here: {why}")]
    NoProtocolFound {
        /// The endpoint.
        url: String,
        /// What was tried and what came back.
        why: String,
    },
    /// The task's cursor is not one of this reader's (a store written by another version).
    #[error("the saved position {cursor:?} can't be continued from; start the run again with --restart")]
    BadCursor {
        /// The cursor.
        cursor: String,
    },
    /// The endpoint can't be made into a request URL.
    #[error("{url} can't be used as an endpoint: {why}")]
    BadEndpoint {
        /// The endpoint.
        url: String,
        /// Why.
        why: String,
    },
}

impl ReadError {
    /// What follows: a truncated or foreign answer may be a passing fault, all else needs a person.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::NotTheProtocol { .. } | Self::ErrorAnswer { .. } => Outcome::RETRY,
            Self::WrongParticipant { .. }
            | Self::OverLimit { .. }
            | Self::NoProtocolFound { .. }
            | Self::BadCursor { .. }
            | Self::BadEndpoint { .. } => Outcome::Terminal,
        }
    }
}

/// A URL in the one form that names a section: no user info, query kept, no fragment, no trailing slash.
pub fn normalised_endpoint(url: &Url) -> String {
    let mut url = url.clone();
    url.set_fragment(None);
    // Setting user info fails only for URLs that can't have any.
    let (Ok(()) | Err(())) = url.set_username("");
    let (Ok(()) | Err(())) = url.set_password(None);
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
    url.as_str().trim_end_matches('/').to_owned()
}

/// The first characters of a body, safe to show: at most 80, control characters replaced.
pub fn quoted_start(body: &[u8]) -> String {
    let head = &body[..body.len().min(320)];
    String::from_utf8_lossy(head).chars().map(|c| if c.is_control() { ' ' } else { c }).take(80).collect()
}

/// A reader, shared by the workers.
pub type SharedReader = Arc<dyn Reader>;
