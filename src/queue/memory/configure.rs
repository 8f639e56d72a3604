//! Nodes and gates of a run, at the start and live.

use std::collections::HashSet;

use super::run::Call;
use crate::queue::gate::Moment;
use crate::queue::{ClosedOrigin, QueueError, RunConfig, check_config};

impl Call<'_> {
    pub(super) fn configure(&mut self, config: RunConfig) -> Result<(), QueueError> {
        check_config(&config)?;
        self.apply(config);
        Ok(())
    }

    /// Leaves origins alone that were to be left alone before the run was opened.
    pub(super) fn close_origins(&mut self, closed: &[ClosedOrigin]) {
        let longest = self.run.lanes.protection.max_backoff;
        for ClosedOrigin { origin, until } in closed {
            let until = Moment::from(*until).min(self.now.plus(longest));
            if until > self.now {
                let origin = self.gates.origin(origin, self.now);
                self.gates.origins[origin as usize].gate.close_until(until);
                self.origin_changed(origin);
            }
        }
    }

    /// Takes over a configuration that was checked.
    pub(super) fn apply(&mut self, config: RunConfig) {
        self.run.lease = config.lease;
        self.run.max_holders = config.max_holders;
        self.run.max_charges = config.max_charges;
        self.run.lanes.weight = config.weight;
        self.run.lanes.protection = config.origin_protection;
        self.run.brief = config.brief;
        let kept: HashSet<_> = config.nodes.iter().map(|node| node.name.clone()).collect();
        for budget in &config.budgets {
            self.run.lanes.set_budget(self.gates, budget, self.now);
        }
        for node in config.nodes {
            self.run.lanes.set_node(self.gates, node, self.now);
        }
        for node in 0..super::lanes::index(self.run.lanes.nodes.len()) {
            let known = &self.run.lanes.nodes[node as usize];
            if !known.removed && !kept.contains(&known.config.name) {
                self.drop_node(node);
            }
        }
        for budget in self.run.lanes.budgets() {
            self.budget_changed(budget);
        }
        for origin in self.run.lanes.origins() {
            self.origin_changed(origin);
        }
        self.run.changed();
    }
}
