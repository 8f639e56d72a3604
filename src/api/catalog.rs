//! `Catalog`: which nodes to keep fresh, when, how, and where the records land.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::crawl_run::{SUBSET_MESSAGE, SUBSET_RULE};
use super::crd::rule;
use super::throttle_policy::utc;
use super::{KubeDuration, LabelSelector, NodeHealthSpec, ObjectRef, RunMode, RunSettings};

/// The aggregate that is kept fresh: which nodes, when, how, and where the records land.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "trawler.dev",
    version = "v1alpha1",
    kind = "Catalog",
    plural = "catalogs",
    shortname = "ctlg",
    category = "trawler",
    namespaced,
    status = "CatalogStatus",
    derive = "PartialEq",
    doc = "The aggregate that is kept fresh: which nodes, when, how, and where the records land.",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status", description = "Whether it can be crawled."),
    printcolumn(name = "Nodes", type_ = "integer", json_path = ".status.catalogNodes.selected", description = "Nodes that it selects."),
    printcolumn(name = "Records", type_ = "integer", json_path = ".status.records", description = "Records held."),
    printcolumn(name = "Suspended", type_ = "boolean", json_path = ".spec.suspend", description = "Whether schedules are off."),
    printcolumn(name = "Last Success", type_ = "date", json_path = ".status.lastSuccessfulTime", description = "When a run last succeeded."),
    printcolumn(name = "Next Run", type_ = "string", json_path = ".status.nextScheduleTime", description = "When the next run is due.", priority = 1),
    printcolumn(name = "Status", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].message", description = "Why.", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp", description = "How long it exists."),
    validation = Rule::new("self.metadata.name.size() <= 52")
        .message("the name of a Catalog must be at most 52 characters, since runs append to it; write a shorter one")
)]
#[serde(rename_all = "camelCase")]
pub struct CatalogSpec {
    /// Labels of the nodes that belong to the Catalog. An empty selector takes all nodes of the namespace.
    pub catalog_node_selector: LabelSelector,
    /// When runs start. None: only on demand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub schedules: Vec<Schedule>,
    /// Time after its moment when a missed scheduled run is no longer started.
    #[serde(default = "one_hour")]
    pub starting_deadline: KubeDuration,
    /// What happens when a scheduled run is due while one of the same mode is active.
    #[serde(default)]
    pub concurrency_policy: ConcurrencyPolicy,
    /// Starts no run by schedule. Active runs go on.
    #[serde(default)]
    pub suspend: bool,
    /// What runs made for this Catalog look like.
    #[serde(default)]
    pub run_template: RunTemplate,
    /// How deletions are guarded.
    #[serde(default)]
    pub deletion: DeletionSpec,
    /// When a node that can't be read counts as offline or dead, and how often it is tried then.
    #[serde(default)]
    pub node_health: NodeHealthSpec,
    /// Where the records land.
    #[serde(default)]
    pub store: StoreSpec,
    /// How many finished runs made by a schedule are kept.
    #[serde(default)]
    pub history: HistorySpec,
}

/// A moment at which runs start, again and again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Schedule {
    /// Name of the schedule, unique in the Catalog.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// When, as a cron expression with five fields, or a macro such as @daily.
    #[schemars(length(min = 1, max = 128))]
    pub cron: String,
    /// Time zone by its IANA name, such as Europe/Berlin.
    #[serde(default = "utc")]
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: String,
    /// Mode of the runs.
    #[serde(default)]
    pub mode: RunMode,
    /// Time over which the moments of many Catalogs are spread: each is shifted by a part of it that follows from the names of
    /// Catalog and schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<KubeDuration>,
}

/// What happens when a run is due while one of the same mode is active.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ConcurrencyPolicy {
    /// Start it too. Sections that another run holds are left out of it.
    Allow,
    /// Skip it.
    #[default]
    Forbid,
    /// End the active one and start it.
    Replace,
}

/// What runs made for a Catalog look like.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RunTemplate {
    /// Labels and annotations of the runs.
    pub metadata: TemplateMetadata,
    /// Settings of the runs, as in a CrawlRun. A schedule's mode takes precedence.
    #[schemars(extend("x-kubernetes-validations" = [rule(SUBSET_RULE, SUBSET_MESSAGE)]))]
    pub spec: RunSettings,
}

/// Labels and annotations of runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TemplateMetadata {
    /// Labels that every run gets.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::api::crd::label_map")]
    pub labels: BTreeMap<String, String>,
    /// Annotations that every run gets.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::api::crd::label_map")]
    pub annotations: BTreeMap<String, String>,
}

/// How deletions are guarded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DeletionSpec {
    /// Records of a section that one traversal may delete, in percent. A sweep over it waits for a person.
    #[schemars(range(min = 0, max = 100))]
    pub max_percent: u32,
    /// Records that a section must have for maxPercent to bind.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub min_records: u64,
    /// Time for which the last good records of a node that can't be read are kept, from the first run that failed.
    pub grace_period: KubeDuration,
    /// What happens to them afterwards.
    pub after_grace_period: RemovalPolicy,
    /// What happens to the records of a node that is no longer selected.
    pub on_node_removal: RemovalPolicy,
}

impl Default for DeletionSpec {
    fn default() -> Self {
        Self {
            max_percent: 30,
            min_records: 50,
            grace_period: KubeDuration::from_hours(168),
            after_grace_period: RemovalPolicy::Keep,
            on_node_removal: RemovalPolicy::Sweep,
        }
    }
}

/// What happens to records whose source is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum RemovalPolicy {
    /// They stay, marked as stale.
    Keep,
    /// They are deleted.
    Sweep,
}

/// Where the records land: exactly one of the stores. Ignored on a laptop, where they land in files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule(
    "has(self.redis) != has(self.postgres)",
    "store must have exactly one of redis and postgres; remove or add one"
)]))]
pub struct StoreSpec {
    /// The Redis of the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redis: Option<RedisStore>,
    /// A PostgreSQL database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub postgres: Option<PostgresStore>,
}

impl Default for StoreSpec {
    fn default() -> Self {
        Self { redis: Some(RedisStore {}), postgres: None }
    }
}

/// The Redis of the instance; it has no settings here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RedisStore {}

/// A PostgreSQL database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PostgresStore {
    /// Secret whose key url holds the connection string.
    pub secret_ref: ObjectRef,
}

/// How many finished runs are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HistorySpec {
    /// Succeeded runs.
    #[schemars(range(min = 0, max = 100))]
    pub successful: u32,
    /// Failed runs.
    #[schemars(range(min = 0, max = 100))]
    pub failed: u32,
}

impl Default for HistorySpec {
    fn default() -> Self {
        Self { successful: 5, failed: 5 }
    }
}

/// How a Catalog stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CatalogStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Aspects of the Catalog's state: Ready, and others only while they are true.
    #[schemars(schema_with = "crate::api::crd::conditions")]
    pub conditions: Vec<Condition>,
    /// Nodes of the Catalog.
    pub catalog_nodes: SelectedCatalogNodes,
    /// Records held.
    pub records: i64,
    /// Names of active runs.
    #[schemars(length(max = 20), inner(length(max = 253)), extend("x-kubernetes-list-type" = "set"))]
    pub active_runs: Vec<String>,
    /// Name of the run that ended last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub last_run: Option<String>,
    /// When a run last succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::api::crd::time")]
    pub last_successful_time: Option<Time>,
    /// When the next run is due by schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::api::crd::time")]
    pub next_schedule_time: Option<Time>,
    /// Schedules, each with when it last started a run.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub schedules: Vec<ScheduleStatus>,
    /// Value of the annotation trawler.dev/run-requested-at that was last acted on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub last_handled_run_request: Option<String>,
    /// Sweeps that wait for a person, at most 20.
    #[schemars(length(max = 20), extend("x-kubernetes-list-type" = "atomic"))]
    pub held_deletions: Vec<HeldDeletion>,
}

/// Nodes of a Catalog.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SelectedCatalogNodes {
    /// Nodes that the Catalog selects.
    pub selected: i64,
    /// Those that can be crawled.
    pub ready: i64,
    /// Those that are suspended.
    pub suspended: i64,
}

/// How a schedule stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleStatus {
    /// Name of the schedule.
    #[schemars(length(max = 63))]
    pub name: String,
    /// The moment for which it last started a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::api::crd::time")]
    pub last_schedule_time: Option<Time>,
}

/// A sweep that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeldDeletion {
    /// Name of the node.
    #[schemars(length(max = 253))]
    pub catalog_node: String,
    /// Path of the section; empty is the node's own catalogue.
    #[schemars(length(max = 2048))]
    pub section: String,
    /// Number of the traversal whose sweep is held.
    pub traversal: i64,
    /// Records that would be deleted.
    pub records: i64,
    /// Records that the section has.
    pub of: i64,
}

fn one_hour() -> KubeDuration {
    KubeDuration::from_hours(1)
}
