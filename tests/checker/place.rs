//! A crawl of a watched federation by the real command, and its judgement.

use std::time::Duration;

use crate::laws::Crawl;
use crate::log;
use crate::rules::{Budget, Limit, Rules, Unit};
use crate::stored::Stored;
use crate::trawler::Workplace;
use crate::watched::{Watched, node_name};

/// A ThrottlePolicy called `limited`, and the limits of it that the judge is told.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    pub(crate) limits: Vec<Limit>,
    pub(crate) per: Per,
    pub(crate) max_concurrent: Option<usize>,
    pub(crate) adaptive: bool,
}

/// `budgetPer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Per {
    Policy,
    Node,
    /// Of nodes that are divided among so many connections: servers, or names where there are more servers.
    Connection {
        connections: usize,
    },
}

pub(crate) fn calls(amount: u64, seconds: u64, even: bool) -> Limit {
    Limit { unit: Unit::ApiCalls, amount, period: Duration::from_secs(seconds), even }
}

impl Policy {
    /// One budget for all.
    pub(crate) fn of(limit: Limit) -> Self {
        Self { limits: vec![limit], per: Per::Policy, max_concurrent: None, adaptive: false }
    }

    /// The Catalog, and the policy.
    pub(crate) fn manifests(&self, retries: &str) -> String {
        let per = match self.per {
            Per::Policy => "Policy",
            Per::Node => "Node",
            Per::Connection { .. } => "Connection",
        };
        let limits: Vec<String> = self
            .limits
            .iter()
            .map(|limit| {
                let (unit, amount, seconds) = (limit.unit, limit.amount, limit.period.as_secs());
                let pacing = if limit.even { "Even" } else { "Burst" };
                format!("{{unit: {unit:?}, amount: {amount}, period: {seconds}s, pacing: {pacing}}}")
            })
            .collect();
        let concurrent = self.max_concurrent.map_or_else(String::new, |max| format!("  maxConcurrent: {max}\n"));
        format!(
            "apiVersion: trawler.dev/v1alpha1\nkind: Catalog\nmetadata: {{name: test}}\nspec:\n  \
             catalogNodeSelector: {{matchLabels: {{in: test}}}}\n  deletion: {{maxPercent: 100}}\n  \
             runTemplate: {{spec: {{tokens: 1, retries: {retries}}}}}\n---\n\
             apiVersion: trawler.dev/v1alpha1\nkind: ThrottlePolicy\nmetadata: {{name: limited}}\nspec:\n  \
             limits: [{}]\n  budgetPer: {per}\n  adaptive: {{enabled: {}}}\n{concurrent}",
            limits.join(", "),
            self.adaptive,
        )
    }

    /// What it means for so many nodes.
    pub(crate) fn rules(&self, nodes: usize) -> Rules {
        let budget_of = |node: usize| match self.per {
            Per::Policy => 0,
            Per::Node => node,
            Per::Connection { connections } => node % connections,
        };
        let budgets = 1 + (0..nodes).map(budget_of).max().unwrap_or(0);
        let budget = |number: usize| Budget {
            name: format!("limited {number}"),
            nodes: (0..nodes).filter(|node| budget_of(*node) == number).map(node_name).collect(),
            limits: self.limits.clone(),
            max_concurrent: self.max_concurrent,
        };
        Rules::new((0..budgets).map(budget).collect())
    }
}

/// Few retries, soon.
pub(crate) const SOON: &str = "{limit: 20, initialDelay: 10ms, maxDelay: 50ms}";

/// A directory with the manifests of a federation under a policy.
pub(crate) struct Place {
    pub(crate) workplace: Workplace,
}

pub(crate) const RUN: [&str; 7] = ["run", "-q", "-f", "in.yaml", "-d", "out", "--allow-private=127.0.0.0/8"];

impl Place {
    pub(crate) fn new(federation: &Watched, policy: &Policy) -> Self {
        let place = Self { workplace: Workplace::new() };
        place.write(federation, policy);
        place
    }

    /// Writes the manifests, or replaces them.
    pub(crate) fn write(&self, federation: &Watched, policy: &Policy) {
        let nodes = federation.nodes(|node| {
            let connection = match policy.per {
                // The servers are the connections.
                Per::Connection { connections } if connections == federation.servers() => String::new(),
                Per::Connection { connections } => format!("  connection: line-{}\n", node % connections),
                Per::Policy | Per::Node => String::new(),
            };
            format!("  throttlePolicyRef: {{name: limited}}\n{connection}")
        });
        self.workplace.write("in.yaml", &(policy.manifests(SOON) + &nodes));
    }

    pub(crate) fn held(&self) -> Stored {
        if self.workplace.path("out/records.jsonl").exists() {
            Stored::parse(&self.workplace.read("out/records.jsonl")).unwrap()
        } else {
            Stored::default()
        }
    }

    /// Crawls it all, which must come to an end in order, and says what everybody saw.
    pub(crate) fn crawl(&self, federation: &Watched) -> Crawl {
        let before = self.held();
        let ended = self.workplace.trawler(&RUN);
        assert_eq!(ended.code, 0, "{ended:?}");
        let seen = log::parse(&federation.take_log()).unwrap();
        Crawl { seen, truth: federation.truth(), before, after: self.held() }
    }
}
