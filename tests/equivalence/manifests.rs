//! What a run is asked to do.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use trawler::local::RunInput;
use trawler::task::SectionKey;

use crate::history::{History, Limit, RunPlan, Speaks};
use crate::serve::path_of;
use crate::world::Node;

/// The Catalog's name.
pub(crate) const CATALOG: &str = "test";

/// A port on loopback where nobody listens.
const NOBODY: u16 = 1;

/// From a plan to manifests.
#[derive(Debug)]
pub(crate) struct Inputs<'a> {
    pub(crate) history: &'a History,
    pub(crate) plan: &'a RunPlan,
    pub(crate) port: u16,
}

impl Inputs<'_> {
    pub(crate) fn build(&self, approved: &[(SectionKey, u64)], nodes: &[Node]) -> RunInput {
        let (max_percent, min_records) = self.history.guard;
        let approvals: Vec<String> = approved
            .iter()
            .map(|(SectionKey { node, section }, number)| match section.as_str() {
                "" => format!("{node}#{number}"),
                path => format!("{node}/{path}#{number}"),
            })
            .collect();
        let catalog = object(
            "Catalog",
            CATALOG,
            &json!({
                "catalogNodeSelector": {"matchLabels": {"in": "test"}},
                "deletion": {"maxPercent": max_percent, "minRecords": min_records},
            }),
        );
        let mut catalog = catalog;
        catalog["metadata"]["annotations"] = json!({"trawler.dev/approved-deletions": approvals.join(" ")});
        let policy = object(
            "ThrottlePolicy",
            "quick",
            &json!({
                "limits": [{"unit": "ApiCalls", "amount": 1_000_000, "period": "1s", "pacing": "Burst"}],
                "adaptive": {"enabled": false},
            }),
        );
        let spec = json!({
            "catalogRef": {"name": CATALOG},
            "mode": if self.plan.incremental { "Incremental" } else { "Full" },
            "tokens": self.history.crawlers,
            "maxFailedNodesPercent": 100,
            "retries": {"limit": 1, "initialDelay": "1ms", "maxDelay": "2ms"},
            "crawler": {"concurrency": self.history.concurrency},
        });
        RunInput {
            catalog: typed(catalog),
            spec: typed(spec),
            nodes: nodes.iter().enumerate().map(|(number, node)| typed(self.node(number, node, nodes.len()))).collect(),
            policies: vec![typed(policy)].into(),
            remembered: Arc::default(),
        }
    }

    fn node(&self, number: usize, node: &Node, count: usize) -> Value {
        let is_named = |list: &[u8]| list.iter().any(|named| usize::from(*named) % count == number);
        let port = if is_named(&self.plan.down) { NOBODY } else { self.port };
        let mut spec = json!({
            "endpoint": format!("http://127.0.0.1:{port}{}", path_of(number, 0)),
            "throttlePolicyRef": {"name": "quick"},
        });
        match node.speaks {
            Speaks::Ckan => {
                spec["protocol"] = json!("CKAN");
                spec["ckan"] = json!({"pageSize": node.page_size});
            }
            Speaks::Dsp => spec["protocol"] = json!("DSP"),
            Speaks::Feed { .. } | Speaks::Document => spec["protocol"] = json!("DCAT"),
        }
        match Self::limit_of(self.plan, count, number) {
            Some(Limit::Pages(pages)) => spec["limits"] = json!({"maxPages": pages}),
            Some(Limit::Records(records)) => spec["limits"] = json!({"maxRecords": records}),
            None => {}
        }
        let mut object = object("CatalogNode", &format!("n{number}"), &spec);
        object["metadata"]["labels"] = json!({"in": if is_named(&self.plan.absent) { "none" } else { "test" }});
        object
    }

    /// The limit of a node in a run.
    pub(crate) fn limit_of(plan: &RunPlan, count: usize, number: usize) -> Option<Limit> {
        plan.limits.iter().find(|(node, _)| usize::from(*node) % count == number).map(|(_, limit)| *limit)
    }
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "trawler.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

fn typed<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}
