//! `CrawlRun`: one bounded pass over some or all nodes of a Catalog.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::crd::rule;
use super::{KubeDuration, LabelSelector, ObjectRef};

/// One bounded pass over some or all nodes of a Catalog. Its set of nodes is fixed when it starts.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "trawler.dev",
    version = "v1alpha1",
    kind = "CrawlRun",
    plural = "crawlruns",
    shortname = "crun",
    category = "trawler",
    namespaced,
    status = "CrawlRunStatus",
    derive = "PartialEq",
    doc = "One bounded pass over some or all nodes of a Catalog. Its set of nodes is fixed when it starts.",
    printcolumn(name = "Catalog", type_ = "string", json_path = ".spec.catalogRef.name", description = "What it crawls."),
    printcolumn(name = "Mode", type_ = "string", json_path = ".spec.mode", description = "Full or Incremental."),
    printcolumn(name = "Succeeded", type_ = "string", json_path = ".status.conditions[?(@.type=='Succeeded')].status", description = "Unknown while it is active."),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Succeeded')].reason", description = "Why."),
    printcolumn(name = "Nodes", type_ = "integer", json_path = ".status.catalogNodes.total", description = "Nodes of the run."),
    printcolumn(name = "Failed", type_ = "integer", json_path = ".status.catalogNodes.failed", description = "Nodes that failed."),
    printcolumn(name = "Records", type_ = "integer", json_path = ".status.records.seen", description = "Records seen so far."),
    printcolumn(name = "Tokens", type_ = "integer", json_path = ".status.tokens.held", description = "Crawlers at work.", priority = 1),
    printcolumn(name = "Waiting", type_ = "string", json_path = ".status.waiting.message", description = "Why it does not move.", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp", description = "How long it exists."),
    validation = Rule::new(IMMUTABLE_RULE).message(IMMUTABLE_MESSAGE).field_path(".spec")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule(SUBSET_RULE, SUBSET_MESSAGE)]))]
pub struct CrawlRunSpec {
    /// Catalog that is crawled.
    pub catalog_ref: ObjectRef,
    /// How it is crawled.
    #[serde(flatten)]
    pub settings: RunSettings,
}

/// How a run goes: a CrawlRun's spec without the reference to its Catalog.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RunSettings {
    /// Full: everything, and what is gone is deleted. Incremental: what changed since the last traversal, where the
    /// source can tell; other nodes are read in full.
    pub mode: RunMode,
    /// Crawl and report, but write no record and delete none.
    pub dry_run: bool,
    /// Names of the nodes to crawl, all of the Catalog. Default: all of its nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), inner(length(min = 1, max = 253)), extend("x-kubernetes-list-type" = "set"))]
    pub catalog_node_names: Vec<String>,
    /// Labels of the nodes to crawl, among those of the Catalog. Not together with catalogNodeNames.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catalog_node_selector: Option<LabelSelector>,
    /// Crawlers at a time, at most.
    #[schemars(range(min = 1, max = 1000))]
    pub tokens: u32,
    /// Share of the instance's tokens, relative to other runs.
    #[schemars(range(min = 1, max = 1000))]
    pub weight: u32,
    /// Precedence over other runs: higher first.
    #[schemars(range(min = -1000, max = 1000))]
    pub priority: i32,
    /// True freezes the run: nothing is handed out and no request is sent. False thaws it.
    pub suspend: bool,
    /// Time from the start after which the run ends, finished or not. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<KubeDuration>,
    /// How often and when a failed task is tried again.
    pub retries: RetrySpec,
    /// Failed nodes up to which the run still counts as succeeded, in percent. All failed is always a failure.
    #[schemars(range(min = 0, max = 100))]
    pub max_failed_nodes_percent: u32,
    /// The crawlers of the run.
    pub crawler: CrawlerSpec,
    /// Time after its end when the run is deleted. Default: never; runs made by a schedule are pruned by the
    /// Catalog's history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_after_finished: Option<KubeDuration>,
}

impl Default for RunSettings {
    fn default() -> Self {
        Self {
            mode: RunMode::Full,
            dry_run: false,
            catalog_node_names: Vec::new(),
            catalog_node_selector: None,
            tokens: 8,
            weight: 1,
            priority: 0,
            suspend: false,
            deadline: None,
            retries: RetrySpec::default(),
            max_failed_nodes_percent: 50,
            crawler: CrawlerSpec::default(),
            ttl_after_finished: None,
        }
    }
}

/// What a run goes over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum RunMode {
    /// Everything.
    #[default]
    Full,
    /// What changed since the last traversal, where the source can tell.
    Incremental,
}

/// How often and when a failed task is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RetrySpec {
    /// Further attempts after the first.
    #[schemars(range(min = 0, max = 100))]
    pub limit: u32,
    /// Time before the first further attempt. It doubles with each, with some randomness.
    pub initial_delay: KubeDuration,
    /// Longest time before a further attempt. A server's Retry-After may ask for more.
    pub max_delay: KubeDuration,
}

impl Default for RetrySpec {
    fn default() -> Self {
        Self { limit: 5, initial_delay: KubeDuration::from_secs(2), max_delay: KubeDuration::from_secs(300) }
    }
}

/// The crawlers of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CrawlerSpec {
    /// Tasks that one crawler works on at a time.
    #[schemars(range(min = 1, max = 256))]
    pub concurrency: u32,
    /// Class of crawler pod, named in the operator's configuration.
    #[schemars(length(min = 1, max = 63))]
    pub class: String,
    /// Resources of the crawler pod, over those of its class.
    pub resources: CrawlerResources,
}

impl Default for CrawlerSpec {
    fn default() -> Self {
        Self { concurrency: 16, class: "default".to_owned(), resources: CrawlerResources::default() }
    }
}

/// Resources of a crawler pod, as a container has them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CrawlerResources {
    /// What is reserved, such as cpu: 500m, memory: 128Mi.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::api::crd::resource_map")]
    pub requests: BTreeMap<String, ResourceAmount>,
    /// What must not be exceeded, such as memory: 256Mi.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::api::crd::resource_map")]
    pub limits: BTreeMap<String, ResourceAmount>,
}

/// An amount of a resource: Kubernetes reads it, Trawler passes it on.
pub type ResourceAmount = k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// How a run stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CrawlRunStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Aspects of the run's state: Succeeded, Reconciling while active, Stalled if it ended badly, and others only
    /// while they are true.
    #[schemars(schema_with = "crate::api::crd::conditions")]
    pub conditions: Vec<Condition>,
    /// When the set of nodes was fixed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::api::crd::time")]
    pub started_at: Option<Time>,
    /// When the run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::api::crd::time")]
    pub finished_at: Option<Time>,
    /// When the run may end, if it goes on as until now. Absent while nothing can be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::api::crd::time")]
    pub estimated_end: Option<Time>,
    /// Tasks by state; discovered is the sum of all others.
    pub ledger: LedgerStatus,
    /// Records by what the run did with them.
    pub records: RecordCounts,
    /// Nodes by how far they are.
    pub catalog_nodes: CatalogNodeCounts,
    /// Nodes that failed, at most 20.
    #[schemars(length(max = 20), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub failed_catalog_nodes: Vec<FailedCatalogNode>,
    /// Crawlers of the run.
    pub tokens: TokenCounts,
    /// Why the run does not move, while it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<WaitingStatus>,
}

/// Tasks by state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LedgerStatus {
    /// All tasks that were ever queued.
    pub discovered: i64,
    /// Tasks that wait for a crawler.
    pub queued: i64,
    /// Tasks that wait for a moment.
    pub delayed: i64,
    /// Tasks that a crawler works on.
    pub leased: i64,
    /// Tasks that succeeded.
    pub done: i64,
    /// Tasks that failed for good.
    pub dead: i64,
    /// Tasks that are no longer needed.
    pub dropped: i64,
}

/// Records by what the run did with them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RecordCounts {
    /// Records seen.
    pub seen: i64,
    /// Records that were not known.
    pub added: i64,
    /// Records whose content differs.
    pub updated: i64,
    /// Records as they were.
    pub unchanged: i64,
    /// Records that a complete traversal did not see.
    pub deleted: i64,
    /// Descriptions that could not be read.
    pub rejected: i64,
}

/// Nodes by how far they are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CatalogNodeCounts {
    /// Nodes of the run.
    pub total: i64,
    /// Nodes that nothing was asked of yet.
    pub pending: i64,
    /// Nodes being crawled.
    pub active: i64,
    /// Nodes whose sections are all complete.
    pub complete: i64,
    /// Nodes of which some section is not complete.
    pub partial: i64,
    /// Nodes that gave nothing.
    pub failed: i64,
    /// Nodes left out: suspended, crawled too recently, or held by another run.
    pub skipped: i64,
}

/// A node that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedCatalogNode {
    /// Name of the node.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Why, as one word in CamelCase.
    #[schemars(length(max = 64))]
    pub reason: String,
    /// Why, as a sentence.
    #[schemars(length(max = 256))]
    pub message: String,
}

/// Crawlers of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TokenCounts {
    /// Tokens that the run may have now: its share of the instance's.
    pub share: i64,
    /// Tokens in use: crawler Jobs that exist.
    pub held: i64,
}

/// Why a run does not move.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitingStatus {
    /// What it waits for, as one word in CamelCase.
    #[schemars(length(max = 64))]
    pub reason: String,
    /// What it waits for, as a sentence.
    #[schemars(length(max = 256))]
    pub message: String,
    /// When the wait ends, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::api::crd::time")]
    pub until: Option<Time>,
    /// Place in line; 1 is next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<i64>,
}

/// Holds for an update of a CrawlRun that changes only what may change.
const IMMUTABLE_RULE: &str = "self.spec.catalogRef == oldSelf.spec.catalogRef \
&& self.spec.mode == oldSelf.spec.mode \
&& self.spec.dryRun == oldSelf.spec.dryRun \
&& has(self.spec.catalogNodeNames) == has(oldSelf.spec.catalogNodeNames) \
&& (!has(self.spec.catalogNodeNames) || self.spec.catalogNodeNames == oldSelf.spec.catalogNodeNames) \
&& has(self.spec.catalogNodeSelector) == has(oldSelf.spec.catalogNodeSelector) \
&& (!has(self.spec.catalogNodeSelector) || self.spec.catalogNodeSelector == oldSelf.spec.catalogNodeSelector) \
&& self.spec.retries == oldSelf.spec.retries \
&& self.spec.maxFailedNodesPercent == oldSelf.spec.maxFailedNodesPercent \
&& self.spec.crawler == oldSelf.spec.crawler \
&& has(self.spec.ttlAfterFinished) == has(oldSelf.spec.ttlAfterFinished) \
&& (!has(self.spec.ttlAfterFinished) || self.spec.ttlAfterFinished == oldSelf.spec.ttlAfterFinished)";

const IMMUTABLE_MESSAGE: &str = "only suspend, tokens, weight, priority and deadline of a CrawlRun may change; \
create another CrawlRun for anything else";

/// Holds for a run that names its nodes in at most one way.
pub(crate) const SUBSET_RULE: &str =
    "!has(self.catalogNodeSelector) || !has(self.catalogNodeNames) || self.catalogNodeNames.size() == 0";

pub(crate) const SUBSET_MESSAGE: &str =
    "catalogNodeNames and catalogNodeSelector must not be set together; remove one of them";
