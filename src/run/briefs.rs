//! What crawlers of other processes are told of a run and its nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::flow::RunConfig;
use crate::planner::RunBrief;
use crate::task::NodeName;

/// The briefs of a run, as its queue keeps them.
#[derive(Debug)]
pub(crate) struct Briefs {
    run: RunBrief,
    nodes: BTreeMap<NodeName, Arc<str>>,
}

impl Briefs {
    pub(crate) fn new(run: RunBrief, nodes: BTreeMap<NodeName, Arc<str>>) -> Self {
        Self { run, nodes }
    }

    pub(crate) fn write_into(&self, config: &mut RunConfig) {
        config.brief = self.run.to_text();
        for node in &mut config.nodes {
            if let Some(brief) = self.nodes.get(&node.name) {
                node.brief = brief.clone();
            }
        }
    }

    /// Whether a run that is in the queue was begun by the same owner: with the state in our directory, for the same CrawlRun.
    pub(crate) fn are_of(&self, brief: &str) -> bool {
        RunBrief::owner_of(brief).is_some_and(|owner| owner == self.run.owner)
    }
}
