//! Reading what a decision needs: the frozen input, the store's memory, the queue.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::RunError;
use super::health::observation_of;
use crate::api::{Catalog, CatalogNode, CrawlRunSpec, ThrottlePolicy};
use crate::planner::{
    CrawlerState, DEFAULT_BUDGET, ExecutionPlan, NodeObservation, NodeSpending, ORIGIN_PROTECTION, QueueObservation,
    RunSnapshot, SpentObservation, plan_run, uncounted,
};
use crate::queue::{LaneStatus, Queue, QueueError};
use crate::store::{ClosedOrigin, RunState, Spending, Store};
use crate::task::{CatalogName, NodeName, RunId};

/// What a run was asked to do, as it was when it began: a resumed run goes on with this, whatever the files say now.
/// Holds references to Secrets, never their content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunInput {
    /// The Catalog.
    pub catalog: Arc<Catalog>,
    /// The run.
    pub spec: CrawlRunSpec,
    /// All nodes.
    pub nodes: Arc<[CatalogNode]>,
    /// All policies.
    pub policies: Arc<[ThrottlePolicy]>,
    /// What the store remembered of the Catalog's nodes.
    #[serde(default)]
    pub remembered: Arc<BTreeMap<NodeName, NodeObservation>>,
}

impl RunInput {
    /// The Catalog's name.
    pub fn catalog_name(&self) -> CatalogName {
        CatalogName::from(self.catalog.metadata.name.as_deref().unwrap_or_default())
    }

    /// All nodes by their names: for those who look up more than one.
    pub(crate) fn nodes_by_name(&self) -> HashMap<&str, &CatalogNode> {
        self.nodes.iter().filter_map(|node| Some((node.metadata.name.as_deref()?, node))).collect()
    }

    /// On one machine one process serves every crawler class: classes are a matter of pods.
    pub(crate) fn without_crawler_classes(mut self) -> Self {
        self.nodes = self
            .nodes
            .iter()
            .cloned()
            .map(|mut node| {
                node.spec.crawler_class = None;
                node
            })
            .collect();
        self
    }
}

/// The parts of a snapshot that change while a run goes on.
#[derive(Debug, Clone)]
pub(crate) struct Live {
    pub(crate) now: Timestamp,
    pub(crate) queue: Option<QueueObservation>,
    pub(crate) crawlers: Vec<CrawlerState>,
    /// How many of the instance's tokens the run may use; `None`: it has its tokens for itself.
    pub(crate) token_share: Option<u32>,
    pub(crate) free_tokens: Option<Vec<u32>>,
    pub(crate) interrupted: bool,
    /// What was spent before this process; matters to the first plan only.
    pub(crate) spent: Arc<SpentObservation>,
    /// Origins that earlier processes were to leave alone; matters to the first plan only.
    pub(crate) closed_origins: Arc<[ClosedOrigin]>,
}

/// Everything about a run at one moment.
pub(crate) fn build_snapshot(input: &RunInput, state: &RunState, live: Live) -> RunSnapshot {
    RunSnapshot {
        now: live.now,
        run: state.run.clone(),
        started_at: state.started_at,
        spec: input.spec.clone(),
        catalog: input.catalog.clone(),
        nodes: input.nodes.clone(),
        policies: input.policies.clone(),
        remembered: input.remembered.clone(),
        spent: live.spent,
        closed_origins: live.closed_origins,
        queue: live.queue,
        crawlers: live.crawlers,
        token_share: live.token_share.unwrap_or(input.spec.settings.tokens),
        starts_for_eligible_work_only: live.token_share.is_some(),
        free_tokens: live.free_tokens,
        interrupted: live.interrupted,
    }
}

/// What the store remembers of the Catalog's nodes.
pub(crate) async fn observe_remembered(
    store: &dyn Store,
    catalog: &CatalogName,
) -> Result<Arc<BTreeMap<NodeName, NodeObservation>>, RunError> {
    let nodes = store.nodes(catalog).await?;
    Ok(Arc::new(nodes.into_iter().map(|(name, state)| (name, observation_of(&state))).collect()))
}

/// What was spent before this process, by all runs in this directory, and marks that this process spends from now on.
pub(crate) async fn observe_spent(
    store: &dyn Store,
    input: &RunInput,
    now: Timestamp,
) -> Result<Arc<SpentObservation>, RunError> {
    let ended_in_order = !store.begin_spending(now).await?;
    if !ended_in_order {
        let uncounted =
            uncounted(&input.nodes, &input.policies, &input.spec.settings, now).into_iter().map(|spending| {
                let NodeSpending { node, at, calls, documents, bytes } = spending;
                Spending { node, at, calls, documents, bytes }
            });
        store.spend(uncounted.collect()).await?;
    }
    let limits = input.policies.iter().flat_map(|policy| &policy.spec.limits);
    let longest = limits.map(|limit| limit.period.get()).chain([DEFAULT_BUDGET.0.period]).max().unwrap_or_default();
    // What was spent beyond a limit, known only afterwards, is paid in the period that follows.
    let since = now.checked_sub(longest.saturating_mul(2)).unwrap_or(Timestamp::MIN);
    let spendings = store.spendings(since).await?.into_iter().map(|spending| {
        let Spending { node, at, calls, documents, bytes } = spending;
        NodeSpending { node, at, calls, documents, bytes }
    });
    Ok(Arc::new(SpentObservation { spendings: spendings.collect(), ended_in_order }))
}

/// Origins whose servers asked earlier processes, of any run in this directory, to leave them alone. Frozen input says
/// nothing of it: it is looked up at each start.
pub(crate) async fn observe_closed_origins(store: &dyn Store, now: Timestamp) -> Result<Arc<[ClosedOrigin]>, RunError> {
    let latest = now.checked_add(ORIGIN_PROTECTION.max_backoff).unwrap_or(Timestamp::MAX);
    Ok(store.closed_origins(now, latest).await?.into())
}

/// The run's queue.
pub(crate) async fn observe_queue(queue: &dyn Queue, run: &RunId) -> Result<QueueObservation, QueueError> {
    let ledger = queue.ledger(run).await?;
    let lanes = queue.lanes(run, usize::MAX).await?;
    let ready = lanes.iter().filter(|lane| lane.waiting.is_none()).map(|lane| lane.queued).sum();
    Ok(QueueObservation { ledger, ready, frozen: false, next_opening: next_opening(&lanes) })
}

/// When the first of the gates opens that lanes wait at.
pub(crate) fn next_opening(lanes: &[LaneStatus]) -> Option<Timestamp> {
    lanes.iter().filter_map(|lane| Some(lane.waiting.as_ref()?.until)).min()
}

/// The first plan of a run of this input, as if nothing had been crawled yet. For `trawler plan`.
pub fn plan_from(input: &RunInput, now: Timestamp) -> ExecutionPlan {
    let catalog = input.catalog_name();
    let state = RunState {
        run: RunId::from(format!("{catalog}-1")),
        number: 1,
        catalog,
        mode: crate::store::Mode::Full,
        spec: String::new(),
        started_at: now,
    };
    let live = Live {
        now,
        queue: None,
        crawlers: Vec::new(),
        token_share: None,
        free_tokens: None,
        interrupted: false,
        spent: Arc::default(),
        closed_origins: Arc::default(),
    };
    plan_run(&build_snapshot(input, &state, live))
}
