//! What a run came to, once its books are closed.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::health::observation_of;
use super::report::{ReportInput, build_report};
use super::{Report, RunError, RunInput};
use crate::api::RemovalPolicy;
use crate::crawler::StageSeconds;
use crate::planner::{Health, SkippedNode, Verdict, describe_default_budget, health};
use crate::store::{NodeState, RunState, Store};
use crate::task::NodeName;

/// What is known when a run's books are closed.
#[derive(Debug)]
pub(crate) struct Concluded<'a> {
    pub(crate) input: &'a RunInput,
    pub(crate) state: &'a RunState,
    pub(crate) dry_run: bool,
    pub(crate) finished_at: Timestamp,
    pub(crate) verdict: Verdict,
    pub(crate) crawled: &'a [NodeName],
    pub(crate) skipped: Vec<SkippedNode>,
    /// Nodes that could not even be started, each with a sentence.
    pub(crate) problems: BTreeMap<NodeName, String>,
    /// Nodes whose records have outlived their time.
    pub(crate) expired: Vec<NodeName>,
    pub(crate) stage_seconds: StageSeconds,
}

impl Concluded<'_> {
    /// The report, from what the store says of the run.
    pub(crate) async fn report(self, store: &dyn Store) -> Result<Report, RunError> {
        let catalog = self.input.catalog_name();
        let by_name = self.input.nodes_by_name();
        let asked_protocol = |name: &NodeName| {
            by_name.get(name.as_str()).map(|node| format!("{:?}", node.spec.protocol)).unwrap_or_default()
        };
        Ok(build_report(ReportInput {
            run: self.state.run.clone(),
            number: self.state.number,
            mode: self.state.mode,
            dry_run: self.dry_run,
            started_at: self.state.started_at,
            finished_at: self.finished_at,
            verdict: self.verdict,
            max_failed_nodes_percent: self.input.spec.settings.max_failed_nodes_percent,
            crawled: self.crawled.iter().map(|name| (name.clone(), asked_protocol(name))).collect(),
            skipped: self.skipped,
            problems: self.problems,
            sections: store.reports(&self.state.run).await?,
            known: store.nodes(&catalog).await?,
            expired: self.expired,
            health: &|name, state| match by_name.get(name.as_str()) {
                Some(node) => health(&observation_of(state), &node.spec, &self.input.catalog.spec.node_health),
                None => Health::Online,
            },
            default_budget: describe_default_budget(),
            stage_seconds: self.stage_seconds,
            catalog,
        }))
    }
}

/// Nodes that the store knows and the Catalog no longer selects, if their records are to go. A run over a part of the
/// nodes says nothing about the others.
pub(crate) fn removed_nodes(input: &RunInput, known: &BTreeMap<NodeName, NodeState>) -> Vec<NodeName> {
    if input.catalog.spec.deletion.on_node_removal == RemovalPolicy::Keep {
        return Vec::new();
    }
    let selector = &input.catalog.spec.catalog_node_selector;
    let none = BTreeMap::new();
    let by_name = input.nodes_by_name();
    let selected = |name: &NodeName| {
        let found = by_name.get(name.as_str());
        found.is_some_and(|node| selector.matches(node.metadata.labels.as_ref().unwrap_or(&none)))
    };
    known.iter().filter(|(name, state)| state.records > 0 && !selected(name)).map(|(name, _)| name.clone()).collect()
}
