//! What crawlers of other processes are told of a run and its nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::LocalError;
use crate::flow::RunConfig;
use crate::planner::RunBrief;
use crate::task::{NodeName, RunId};

/// The briefs of a run, as its queue keeps them.
#[derive(Debug)]
pub(super) struct Briefs {
    run: RunBrief,
    nodes: BTreeMap<NodeName, Arc<str>>,
    /// The queue's instance, for those who must choose another one.
    instance: String,
}

impl Briefs {
    pub(super) fn new(run: RunBrief, nodes: BTreeMap<NodeName, Arc<str>>, instance: String) -> Self {
        Self { run, nodes, instance }
    }

    pub(super) fn write_into(&self, config: &mut RunConfig) {
        config.brief = self.run.to_text();
        for node in &mut config.nodes {
            if let Some(brief) = self.nodes.get(&node.name) {
                node.brief = brief.clone();
            }
        }
    }

    /// Whether a run that is in the queue was begun with the state in our directory.
    pub(super) fn refuse_foreign(&self, run: &RunId, brief: &str) -> Result<(), LocalError> {
        if RunBrief::owner_of(brief).is_some_and(|owner| owner == self.run.owner) {
            return Ok(());
        }
        Err(LocalError::ForeignRun { run: run.clone(), instance: self.instance.clone() })
    }
}
