//! Beginning a run in the store, once: whoever comes later finds it there.

use serde::{Deserialize, Serialize};

use super::super::error::OperatorError;
use super::super::world::World;
use super::is_final;
use crate::api::{Catalog, CatalogNode, CrawlRun, RunMode};
use crate::run::RunInput;
use crate::run::observe::observe_remembered;
use crate::store::{Mode, RunStart, RunState};
use crate::task::CatalogName;
use kube::ResourceExt as _;
use std::sync::Arc;
use tracing::info;

/// What a run was begun with, as the store keeps it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FrozenRun {
    /// The uid of its CrawlRun.
    pub(crate) owner: String,
    /// Its name.
    pub(crate) crawl_run: String,
    /// Catalog, nodes and what was remembered of them.
    pub(crate) input: RunInput,
}

/// What came of trying to begin a run.
pub(super) enum Begin {
    Begun(RunState, Box<FrozenRun>),
    /// Another run of the Catalog goes on: the name of its CrawlRun.
    Another(String),
}

/// Finds the run in the store, or begins it.
pub(super) async fn find_or_begin(
    run: &CrawlRun,
    catalog: &Arc<Catalog>,
    world: &World,
) -> Result<Begin, OperatorError> {
    let name = CatalogName::from(catalog.name_any().as_str());
    let uid = run.uid().unwrap_or_default();
    if let Some(state) = world.store.unfinished_run(&name).await? {
        let frozen = read(&state)?;
        if frozen.owner == uid {
            return Ok(Begin::Begun(state, Box::new(frozen)));
        }
        let others = world.caches.runs.find(|other| other.uid().as_deref() == Some(frozen.owner.as_str()));
        if others.is_some_and(|other| !is_final(&other) && other.metadata.deletion_timestamp.is_none()) {
            return Ok(Begin::Another(frozen.crawl_run));
        }
        // Its CrawlRun is gone, or has ended: what is left of it ends too.
        info!(run = %state.run, crawl_run = frozen.crawl_run, "a run without its CrawlRun is abandoned");
        world.check_leads()?;
        world.patience.with(|| world.queue.close(&state.run)).await?;
        world.store.finish_run(&state.run, "").await?;
    }
    world.check_leads()?;
    let nodes: Arc<[CatalogNode]> = world.caches.nodes.state().iter().map(|node| trimmed(node)).collect();
    let policies = world.caches.policies.state().iter().map(|policy| policy.as_ref().clone()).collect();
    let input = RunInput {
        catalog: Arc::new(without_status(catalog)),
        spec: run.spec.clone(),
        nodes,
        policies,
        remembered: observe_remembered(world.store.as_ref(), &name).await?,
    };
    let frozen = FrozenRun { owner: uid, crawl_run: run.name_any(), input };
    let mode = match run.spec.settings.mode {
        RunMode::Full => Mode::Full,
        RunMode::Incremental => Mode::Incremental,
    };
    // Types of our own always have a JSON form.
    let spec = serde_json::to_string(&frozen).unwrap_or_default();
    let state = world.store.begin_run(RunStart { catalog: name, mode, spec, started_at: world.clock.now() }).await?;
    info!(run = %state.run, crawl_run = frozen.crawl_run, "run begun");
    Ok(Begin::Begun(state, Box::new(frozen)))
}

/// What a run in the store was begun with.
pub(super) fn read(state: &RunState) -> Result<FrozenRun, OperatorError> {
    serde_json::from_str(&state.spec)
        .map_err(|error| OperatorError::UnreadableRun { run: state.run.to_string(), why: error.to_string() })
}

/// Without what is no part of what is asked.
fn trimmed(node: &CatalogNode) -> CatalogNode {
    let mut node = node.clone();
    node.status = None;
    node.metadata.managed_fields = None;
    node
}

fn without_status(catalog: &Catalog) -> Catalog {
    let mut catalog = catalog.clone();
    catalog.status = None;
    catalog.metadata.managed_fields = None;
    catalog
}
