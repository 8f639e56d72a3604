//! What a decision about one run sees.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::api::{Catalog, CatalogNode, CrawlRunSpec, ThrottlePolicy};
use crate::flow::{ClosedOrigin, Ledger};
use crate::record::ContentHash;
use crate::task::{NodeName, RunId};

/// Everything that was read about one run, at one moment.
#[derive(Debug, Clone)]
pub struct RunSnapshot {
    /// The moment.
    pub now: Timestamp,
    /// The run.
    pub run: RunId,
    /// When it began.
    pub started_at: Timestamp,
    /// What it is asked to do.
    pub spec: CrawlRunSpec,
    /// Its Catalog.
    pub catalog: Arc<Catalog>,
    /// All nodes of the namespace; the planner selects.
    pub nodes: Arc<[CatalogNode]>,
    /// All throttle policies of the namespace.
    pub policies: Arc<[ThrottlePolicy]>,
    /// What the store remembered of nodes when the run began: its set of nodes is fixed then.
    pub remembered: Arc<BTreeMap<NodeName, NodeObservation>>,
    /// What was spent before this process.
    pub spent: Arc<SpentObservation>,
    /// Origins whose servers asked earlier processes to leave them alone.
    pub closed_origins: Arc<[ClosedOrigin]>,
    /// The run's queue; `None`: it has none yet.
    pub queue: Option<QueueObservation>,
    /// The run's crawlers.
    pub crawlers: Vec<CrawlerState>,
    /// How many of the instance's tokens the run may use; never above `spec.tokens`.
    pub token_share: u32,
    /// Crawlers end when there is nothing to do for a while, and are started when there is: each is a pod.
    pub starts_for_eligible_work_only: bool,
    /// Tokens that nobody holds, the first to be taken first. `None`: the run has its tokens for itself.
    pub free_tokens: Option<Vec<u32>>,
    /// Set when somebody asked for an orderly end (Ctrl-C).
    pub interrupted: bool,
}

/// What the store remembers of a node, as far as a plan needs it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeObservation {
    /// The last run that came to it.
    pub last_crawled_at: Option<Timestamp>,
    /// Runs in a row in which nothing of it could be read.
    pub failures_in_row: u32,
    /// The first of these runs.
    pub failing_since: Option<Timestamp>,
    /// The hash of the `spec` that it was last crawled with; see [`spec_hash`](super::spec_hash).
    pub spec_hash: Option<ContentHash>,
}

/// What was spent before this process, by runs of all Catalogs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpentObservation {
    /// What was asked of nodes, as far as it was counted.
    pub spendings: Vec<NodeSpending>,
    /// The process before has counted all that it asked.
    pub ended_in_order: bool,
}

impl Default for SpentObservation {
    /// Nothing.
    fn default() -> Self {
        Self { spendings: Vec::new(), ended_in_order: true }
    }
}

/// What was asked of a node by a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSpending {
    /// The node.
    pub node: NodeName,
    /// The latest moment that it may have been.
    pub at: Timestamp,
    /// Calls.
    pub calls: u64,
    /// Documents.
    pub documents: u64,
    /// Decoded bytes.
    pub bytes: u64,
}

/// A queue, as far as a plan needs it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueObservation {
    /// The run's account.
    pub ledger: Ledger,
    /// Tasks that could be handed out now: in lanes whose gates are open.
    pub ready: u64,
    /// Whether it is frozen.
    pub frozen: bool,
    /// When the first of the gates opens that tasks wait at.
    pub next_opening: Option<Timestamp>,
}

/// A crawler.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CrawlerState {
    /// Its token.
    pub token: u32,
    /// The group of nodes that it serves.
    pub group: String,
    /// Whether it still works; a finished one's token is free.
    pub running: bool,
}
