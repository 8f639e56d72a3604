//! What a crawler is given: the ports, and what it must know of each node.

use std::sync::Arc;

use super::http::{HttpClient, NodeAccess};
use super::nodes::Nodes;
use super::progress::Progress;
use super::settle::RetryPolicy;
use crate::clock::SharedClock;
use crate::protocol::{NodeContext, SharedReader};
use crate::queue::{Patience, SharedQueue};
use crate::store::landing::SharedLanding;
use crate::store::{CloseTraversal, DeletionGuard};
use crate::task::{RunId, SectionKey};

/// Everything that the crawlers of one run share.
#[derive(Debug)]
pub struct CrawlContext {
    /// The run.
    pub run: RunId,
    /// Work in flight.
    pub queue: SharedQueue,
    /// Where records land.
    pub landing: SharedLanding,
    /// The one client.
    pub http: Arc<HttpClient>,
    /// The nodes of the run.
    pub nodes: Nodes,
    /// How failures are retried.
    pub retries: RetryPolicy,
    /// The mass-deletion guard.
    pub guard: DeletionGuard,
    /// Held sweeps that a person approved.
    pub approved_deletions: Vec<(SectionKey, u64)>,
    /// Incremental runs start from checkpoints.
    pub incremental: bool,
    /// Tasks under way at a time, per crawler.
    pub concurrency: usize,
    /// Time.
    pub clock: SharedClock,
    /// What is shown while it runs.
    pub progress: Arc<Progress>,
    /// For a queue that can't be reached for a while.
    pub patience: Patience,
}

impl CrawlContext {
    /// How a traversal that drained is closed.
    pub fn close_request(&self, cut_short: Option<String>) -> CloseTraversal {
        CloseTraversal { cut_short, guard: self.guard, approved: self.approved_deletions.clone(), at: self.clock.now() }
    }
}

/// One node as a crawler needs it.
#[derive(Debug, Clone)]
pub struct CrawlNode {
    /// What its reader is told.
    pub context: NodeContext,
    /// Its reader.
    pub reader: SharedReader,
    /// Credential, CA and request limits.
    pub access: Arc<NodeAccess>,
    /// How far a traversal may go.
    pub limits: NodeLimits,
    /// What a request for one dataset costs in calls.
    pub api_calls_per_document: u32,
}

/// `spec.limits` of a node, per traversal of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeLimits {
    /// Pages.
    pub max_pages: u32,
    /// Records.
    pub max_records: u64,
    /// Decoded bytes.
    pub max_bytes: u64,
}
