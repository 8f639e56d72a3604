//! `ThrottlePolicy`: budgets of documents, API calls or bytes per period.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::crd::rule;
use super::{Amount, KubeDuration};

/// Budgets of documents, API calls or bytes per period, for the nodes it is assigned to.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "trawler.dev",
    version = "v1alpha1",
    kind = "ThrottlePolicy",
    plural = "throttlepolicies",
    shortname = "tpol",
    category = "trawler",
    namespaced,
    status = "ThrottlePolicyStatus",
    derive = "PartialEq",
    doc = "Budgets of documents, API calls or bytes per period, for the nodes it is assigned to.",
    printcolumn(
        name = "Budget Per",
        type_ = "string",
        json_path = ".spec.budgetPer",
        description = "What each budget is counted for."
    ),
    printcolumn(
        name = "Concurrent",
        type_ = "integer",
        json_path = ".spec.maxConcurrent",
        description = "Requests in flight at a time."
    ),
    printcolumn(
        name = "Nodes",
        type_ = "integer",
        json_path = ".status.assignedCatalogNodes",
        description = "Nodes that it applies to."
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status",
        description = "Whether it is in force."
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "How long it exists."
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ThrottlePolicySpec {
    /// Budgets. All of them bind.
    #[serde(default)]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["unit", "period"]))]
    pub limits: Vec<ThrottleLimit>,
    /// Requests in flight at a time. Default: no bound but the one per origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub max_concurrent: Option<u32>,
    /// Whether the pace follows the server's answers.
    #[serde(default)]
    pub adaptive: AdaptiveSpec,
    /// What each budget is counted for.
    #[serde(default)]
    pub budget_per: BudgetPer,
    /// Times at which requests may be sent. Empty: always.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub allowed_hours: Vec<AllowedHours>,
    /// Connections and credentials that the policy is assigned to. A node may also name its policy itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type", "name"]))]
    pub targets: Vec<ThrottleTarget>,
}

/// One budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThrottleLimit {
    /// What is counted.
    pub unit: ThrottleUnit,
    /// How much of it in any window of one period: a whole number, or a quantity such as 50k or 2Gi.
    pub amount: Amount,
    /// Length of the window, 1s to 744h (31 days).
    #[schemars(extend("x-kubernetes-validations" = [rule(
        "duration(self) >= duration('1s') && duration(self) <= duration('744h')",
        "period must be from 1s to 744h; write one like 1s, 1m or 24h"
    )]))]
    pub period: KubeDuration,
    /// How requests are spread over the period.
    #[serde(default)]
    pub pacing: Pacing,
}

/// What a budget counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ThrottleUnit {
    /// Requests, each with what it costs.
    ApiCalls,
    /// Dataset descriptions received.
    Documents,
    /// Bytes received, as they come over the wire.
    Bytes,
}

/// How requests are spread over a period.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Pacing {
    /// Evenly.
    #[default]
    Even,
    /// As they come.
    Burst,
}

/// Whether and how far the pace follows the server's answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AdaptiveSpec {
    /// Slow down on 429, 503 and timeouts, and recover afterwards.
    pub enabled: bool,
    /// The slowest pace, in percent of the budget.
    #[schemars(range(min = 1, max = 100))]
    pub floor_percent: u32,
}

impl Default for AdaptiveSpec {
    fn default() -> Self {
        Self { enabled: true, floor_percent: 5 }
    }
}

/// What each budget is counted for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum BudgetPer {
    /// One budget for each connection.
    #[default]
    Connection,
    /// One budget for all that the policy is assigned to.
    Policy,
    /// One budget for each node.
    Node,
}

/// A span of time on some days of the week.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule(
    "self.start != self.end",
    "start and end must differ; leave allowedHours out to allow all hours"
)]))]
pub struct AllowedHours {
    /// Days on which the span starts. Empty: every day.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 7), extend("x-kubernetes-list-type" = "set"))]
    pub days: Vec<Weekday>,
    /// First minute, as HH:MM.
    #[schemars(length(max = 5), regex(pattern = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"))]
    pub start: String,
    /// First minute after the span, as HH:MM. If it is before start, the span ends on the next day.
    #[schemars(length(max = 5), regex(pattern = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"))]
    pub end: String,
    /// Time zone by its IANA name, such as Europe/Berlin.
    #[serde(default = "utc")]
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: String,
}

/// A day of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Weekday {
    /// Monday.
    Mon,
    /// Tuesday.
    Tue,
    /// Wednesday.
    Wed,
    /// Thursday.
    Thu,
    /// Friday.
    Fri,
    /// Saturday.
    Sat,
    /// Sunday.
    Sun,
}

/// Something that a policy is assigned to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThrottleTarget {
    /// What the name stands for.
    #[serde(rename = "type")]
    pub target_type: TargetType,
    /// Name of the connection (spec.connection of nodes, or an origin), or of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// What a target's name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum TargetType {
    /// The connection of nodes.
    Connection,
    /// The Secret that nodes authenticate with.
    Credential,
}

/// Whether a policy is in force, and where.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ThrottlePolicyStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Aspects of the policy's state: Ready, and Stalled while a person must act.
    #[schemars(schema_with = "crate::api::crd::conditions")]
    pub conditions: Vec<Condition>,
    /// Nodes that the policy applies to.
    pub assigned_catalog_nodes: i64,
    /// Budgets of the policy that active runs count against, at most 20: those that wait longest first.
    #[schemars(length(max = 20), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub budgets: Vec<BudgetStatus>,
    /// Targets, each with whether the assignment was accepted.
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type", "name"]))]
    pub targets: Vec<ThrottleTargetStatus>,
}

/// How a budget stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BudgetStatus {
    /// Name of the budget: the policy, and what it is counted for (spec.budgetPer).
    #[schemars(length(max = 1024))]
    pub name: String,
    /// Calls in a minute that it allows at present; less than the policy says while servers push back. Unset: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_per_minute: Option<i64>,
    /// Tasks that count against it and wait.
    pub queued: i64,
    /// Why nothing is sent, as one word in CamelCase, while nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub waiting_for: Option<String>,
    /// Until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::api::crd::time")]
    pub waiting_until: Option<Time>,
}

/// Whether an assignment was accepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThrottleTargetStatus {
    /// What the name stands for.
    #[serde(rename = "type")]
    pub target_type: TargetType,
    /// Name of the target.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Accepted: False if an older policy has the target.
    #[serde(default)]
    #[schemars(schema_with = "crate::api::crd::conditions")]
    pub conditions: Vec<Condition>,
}

pub(crate) fn utc() -> String {
    "UTC".to_owned()
}
