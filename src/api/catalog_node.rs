//! `CatalogNode`: one remote catalogue endpoint.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::crd::{rule, rule_at};
use super::{ByteSize, KubeDuration, ObjectRef};

/// One remote catalogue endpoint: where it is, what it speaks, and how gently it must be treated.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "trawler.dev",
    version = "v1alpha1",
    kind = "CatalogNode",
    plural = "catalognodes",
    shortname = "cnode",
    category = "trawler",
    namespaced,
    status = "CatalogNodeStatus",
    derive = "PartialEq",
    doc = "One remote catalogue endpoint: where it is, what it speaks, and how gently it must be treated.",
    printcolumn(
        name = "Protocol",
        type_ = "string",
        json_path = ".spec.protocol",
        description = "What the node is said to speak."
    ),
    printcolumn(
        name = "Spoken",
        type_ = "string",
        json_path = ".status.protocol",
        description = "What it was found to speak.",
        priority = 1
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status",
        description = "Whether it can be crawled."
    ),
    printcolumn(
        name = "Records",
        type_ = "integer",
        json_path = ".status.records",
        description = "Records held of it."
    ),
    printcolumn(
        name = "Last Crawl",
        type_ = "date",
        json_path = ".status.lastCrawl.finishedAt",
        description = "When it was last crawled."
    ),
    printcolumn(
        name = "Fresh",
        type_ = "date",
        json_path = ".status.lastCompleteAt",
        description = "When all of it was read last."
    ),
    printcolumn(
        name = "Health",
        type_ = "string",
        json_path = ".status.health",
        description = "Online, Offline or Dead.",
        priority = 1
    ),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].message",
        description = "Why.",
        priority = 1
    ),
    printcolumn(
        name = "Endpoint",
        type_ = "string",
        json_path = ".spec.endpoint",
        description = "Its address.",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "How long it exists."
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule_at(".dsp", "!has(self.dsp) || self.protocol in ['Auto', 'DSP']", "dsp may be set only if protocol is DSP or Auto; remove dsp, or set protocol: DSP"),
    rule_at(".ckan", "!has(self.ckan) || self.protocol in ['Auto', 'CKAN']", "ckan may be set only if protocol is CKAN or Auto; remove ckan, or set protocol: CKAN"),
    rule_at(".dcat", "!has(self.dcat) || self.protocol in ['Auto', 'DCAT']", "dcat may be set only if protocol is DCAT or Auto; remove dcat, or set protocol: DCAT"),
]))]
pub struct CatalogNodeSpec {
    /// Address of the catalogue: an absolute http or https URL without user name, password or fragment.
    #[schemars(length(min = 1, max = 2048))]
    #[schemars(extend("x-kubernetes-validations" = [
        rule(
            "isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != ''",
            "endpoint must be an absolute http or https URL; write one like https://portal.example/catalog"
        ),
        rule("self.split('/').size() < 3 || !self.split('/')[2].contains('@')", "endpoint must not hold a user name or password; put them into a Secret and name it in credentialRef"),
        rule("!self.contains('#')", "endpoint must not have a fragment; remove the part from #"),
    ]))]
    pub endpoint: String,
    /// What the node speaks. Auto: find out at the first crawl.
    #[serde(default)]
    pub protocol: Protocol,
    /// Settings for the Dataspace Protocol. Only with protocol DSP or Auto.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dsp: Option<DspSpec>,
    /// Settings for CKAN's Action API. Only with protocol CKAN or Auto.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ckan: Option<CkanSpec>,
    /// Settings for a DCAT document or feed. Only with protocol DCAT or Auto.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dcat: Option<DcatSpec>,
    /// Name shared by nodes that sit on one server and so share its budget. Default: the endpoint's origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub connection: Option<String>,
    /// Secret to authenticate with. It must carry the label trawler.dev/credential and list the endpoint's origin in
    /// its annotation trawler.dev/allowed-origins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_ref: Option<ObjectRef>,
    /// ConfigMap whose key ca.crt holds the authorities (PEM) to trust for this node, beside the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_ref: Option<ObjectRef>,
    /// ThrottlePolicy whose budgets apply. It takes precedence over policies that target the connection or credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttle_policy_ref: Option<ObjectRef>,
    /// What a request for one dataset costs, in units of ApiCalls. Every other request costs 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1000))]
    pub api_calls_per_document: u32,
    /// Where a traversal stops. A traversal that was stopped is not complete and deletes nothing.
    #[serde(default)]
    pub limits: CatalogNodeLimits,
    /// Shortest time between two crawls of the node, whatever the schedule. Default: no minimum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recrawl_interval: Option<KubeDuration>,
    /// Precedence among the nodes of a lane: higher gets more turns.
    #[serde(default)]
    #[schemars(range(min = -1000, max = 1000))]
    pub priority: i32,
    /// Class of crawler pod, named in the operator's configuration. Default: the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub crawler_class: Option<String>,
    /// Leaves the node out: no request is sent to it, and its records are kept.
    #[serde(default)]
    pub suspend: bool,
}

impl CatalogNodeSpec {
    /// A node with defaults for everything but its address.
    pub fn at(endpoint: impl Into<String>, protocol: Protocol) -> Self {
        Self {
            endpoint: endpoint.into(),
            protocol,
            dsp: None,
            ckan: None,
            dcat: None,
            connection: None,
            credential_ref: None,
            ca_ref: None,
            throttle_policy_ref: None,
            api_calls_per_document: 1,
            limits: CatalogNodeLimits::default(),
            recrawl_interval: None,
            priority: 0,
            crawler_class: None,
            suspend: false,
        }
    }
}

/// A protocol that catalogues speak.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Protocol {
    /// Find out at the first crawl.
    #[default]
    Auto,
    /// Dataspace Protocol.
    DSP,
    /// CKAN's Action API.
    CKAN,
    /// A DCAT document or feed.
    DCAT,
    /// OAI-PMH.
    OAIPMH,
    /// SpatioTemporal Asset Catalog.
    STAC,
    /// OGC Catalogue Service for the Web.
    CSW,
}

/// Settings for the Dataspace Protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DspSpec {
    /// Version of the protocol. Auto: ask the connector, the newest known one wins.
    pub version: DspVersionChoice,
    /// Identity that the connector is expected to have. A catalogue of someone else is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub participant_id: Option<String>,
    /// Datasets asked for per page. Default: as many as the connector gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10000))]
    pub page_size: Option<u32>,
    /// What is done with catalogues inside the catalogue.
    pub nested: NestedSpec,
}

impl Default for DspSpec {
    fn default() -> Self {
        Self { version: DspVersionChoice::Auto, participant_id: None, page_size: None, nested: NestedSpec::default() }
    }
}

/// A version of the Dataspace Protocol, or the wish to find out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum DspVersionChoice {
    /// Ask the connector.
    #[default]
    Auto,
    /// 0.8, as connectors speak it.
    #[serde(rename = "0.8")]
    V08,
    /// 2024-1.
    #[serde(rename = "2024-1")]
    V2024_1,
    /// 2025-1.
    #[serde(rename = "2025-1")]
    V2025_1,
}

/// What is done with catalogues inside a catalogue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NestedSpec {
    /// Crawl them too, each as a section of this node.
    pub follow: bool,
    /// Levels of nesting to follow.
    #[schemars(range(min = 0, max = 20))]
    pub max_depth: u32,
    /// Follow those on other origins than the endpoint's too. Credentials are never sent there.
    pub allow_cross_origin: bool,
}

impl Default for NestedSpec {
    fn default() -> Self {
        Self { follow: true, max_depth: 5, allow_cross_origin: false }
    }
}

/// Settings for CKAN's Action API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CkanSpec {
    /// Datasets asked for per page. The portal may give fewer.
    #[schemars(range(min = 1, max = 1000))]
    pub page_size: u32,
    /// Filter query (fq), such as organization:city. Default: everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub filter: Option<String>,
}

impl Default for CkanSpec {
    fn default() -> Self {
        Self { page_size: 100, filter: None }
    }
}

/// Settings for a DCAT document or feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DcatSpec {
    /// Serialisation of the document. Auto: by content type, then by what the bytes look like.
    pub format: DcatFormat,
    /// Fetch datasets that the catalogue only links, each with one request.
    pub follow_linked_datasets: bool,
}

impl Default for DcatSpec {
    fn default() -> Self {
        Self { format: DcatFormat::Auto, follow_linked_datasets: true }
    }
}

/// A serialisation of RDF, or the wish to find out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum DcatFormat {
    /// By content type, then by what the bytes look like.
    #[default]
    Auto,
    /// JSON-LD.
    JsonLd,
    /// Turtle.
    Turtle,
    /// N-Triples.
    NTriples,
    /// RDF/XML.
    RdfXml,
}

/// Where a traversal of a section stops.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CatalogNodeLimits {
    /// Pages read in one traversal.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub max_pages: u32,
    /// Records taken in one traversal.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub max_records: u64,
    /// Bytes read in one traversal, after decompression.
    pub max_bytes: ByteSize,
    /// Time that one request may take, from connecting to the last byte.
    pub request_timeout: KubeDuration,
}

impl Default for CatalogNodeLimits {
    fn default() -> Self {
        Self {
            max_pages: 10_000,
            max_records: 1_000_000,
            max_bytes: ByteSize::from_bytes(1 << 30),
            request_timeout: KubeDuration::from_secs(30),
        }
    }
}

/// What is known of a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CatalogNodeStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Aspects of the node's state: Ready, and Stalled while a person must act.
    #[schemars(schema_with = "crate::api::crd::conditions")]
    pub conditions: Vec<Condition>,
    /// Protocol and version that the node was found to speak, such as DSP 2025-1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub protocol: Option<String>,
    /// Whether it could be read lately. Offline and Dead nodes are tried less often, as the Catalog's nodeHealth says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<CatalogNodeHealth>,
    /// Runs in a row in which nothing of it could be read.
    pub failures_in_row: i64,
    /// Until when runs leave it out because it can't be read, unless they name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::api::crd::time")]
    pub next_try_at: Option<Time>,
    /// When all of its sections were complete last: how old the oldest of its records may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::api::crd::time")]
    pub last_complete_at: Option<Time>,
    /// True: records are held that the last crawl could not read again.
    pub stale: bool,
    /// Records held of the node.
    pub records: i64,
    /// Sections of the node: its own catalogue and nested ones.
    pub sections: i64,
    /// Name of the ThrottlePolicy that applies. Unset: the polite default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub throttle_policy: Option<String>,
    /// The last crawl.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_crawl: Option<LastCrawl>,
}

/// Whether a node could be read lately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum CatalogNodeHealth {
    /// It is tried in every run.
    Online,
    /// It failed again and again, and is tried less often.
    Offline,
    /// It has failed for long, and is tried rarely.
    Dead,
}

/// The last crawl of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastCrawl {
    /// Name of the CrawlRun.
    #[schemars(length(max = 253))]
    pub crawl_run: String,
    /// When the node's last task was settled.
    #[schemars(schema_with = "crate::api::crd::time")]
    pub finished_at: Time,
    /// Whether all of its sections were complete.
    pub complete: bool,
    /// Why not, as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub message: Option<String>,
}

fn one() -> u32 {
    1
}
