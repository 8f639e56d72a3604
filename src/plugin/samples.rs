//! Objects for the tests of this module, all read at one moment.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Look, Output, RunFacts};
use crate::api::{Catalog, CatalogNode, CrawlRun};

pub(super) fn now() -> Timestamp {
    "2026-11-30T02:00:00Z".parse().unwrap()
}

pub(super) fn look(output: Output) -> Look {
    Look { output, now: now(), max_width: None, colours: false, with_namespaces: false }
}

/// A run in one of the states that tests speak of.
pub(super) fn run(name: &str, state: &str) -> CrawlRun {
    let (created, status) = match state {
        "unseen" => ("2026-11-30T01:59:40Z", Value::Null),
        "running" => (
            "2026-11-30T01:55:00Z",
            json!({
                "conditions": [said("Succeeded", "Unknown", "Running", "crawling")],
                "startedAt": "2026-11-30T01:55:00Z",
                "catalogNodes": {"total": 7, "complete": 2, "partial": 1, "failed": 1, "active": 3},
                "records": {"seen": 420, "added": 20, "unchanged": 400},
                "ledger": {"discovered": 50, "queued": 10, "delayed": 2, "leased": 3, "done": 35},
                "tokens": {"share": 4, "held": 2},
                "waiting": {
                    "reason": "Budget", "message": "budget gentle has no ApiCalls left", "until": "2026-11-30T02:00:40Z",
                },
            }),
        ),
        "frozen" => (
            "2026-11-30T01:50:00Z",
            json!({
                "conditions": [
                    said("Succeeded", "Unknown", "Running", "crawling"),
                    said("Frozen", "True", "Suspended", "spec.suspend is set"),
                ],
                "startedAt": "2026-11-30T01:50:00Z",
                "catalogNodes": {"total": 7, "active": 7},
                "waiting": {"reason": "Suspended", "message": "spec.suspend is set"},
            }),
        ),
        "complete" => (
            "2026-11-30T01:00:00Z",
            json!({
                "conditions": [said("Succeeded", "True", "Complete", "7 nodes complete")],
                "startedAt": "2026-11-30T01:00:00Z",
                "finishedAt": "2026-11-30T01:40:00Z",
                "catalogNodes": {"total": 7, "complete": 7},
                "records": {"seen": 1304},
            }),
        ),
        _ => (
            "2026-11-30T01:00:00Z",
            json!({
                "conditions": [
                    said("Succeeded", "False", "TooManyFailedNodes", "1 nodes complete, 1 partial, 2 failed"),
                    said("Stalled", "True", "TooManyFailedNodes", "1 nodes complete, 1 partial, 2 failed"),
                ],
                "startedAt": "2026-11-30T01:00:00Z",
                "finishedAt": "2026-11-30T01:40:00Z",
                "catalogNodes": {"total": 4, "complete": 1, "partial": 1, "failed": 2},
                "failedCatalogNodes": [
                    {"name": "acme", "reason": "NothingRead", "message": "the server does not answer"},
                    {"name": "blue", "reason": "NothingRead", "message": "401 Unauthorized"},
                ],
            }),
        ),
    };
    serde_json::from_value(json!({
        "apiVersion": "trawler.dev/v1alpha1", "kind": "CrawlRun",
        "metadata": {"name": name, "namespace": "harvest", "uid": format!("uid-{name}"), "creationTimestamp": created},
        "spec": {"catalogRef": {"name": "mobility"}, "suspend": state == "frozen"},
        "status": status,
    }))
    .unwrap()
}

/// A condition.
pub(super) fn said(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-11-30T01:00:00Z",
    })
}

/// A Catalog that is ready, with these further conditions.
pub(super) fn catalog(more: &[Value]) -> Catalog {
    let conditions = [&[said("Ready", "True", "Ready", "7 nodes")], more].concat();
    serde_json::from_value(json!({
        "apiVersion": "trawler.dev/v1alpha1", "kind": "Catalog",
        "metadata": {"name": "mobility", "namespace": "harvest", "uid": "uid-mobility"},
        "spec": {
            "catalogNodeSelector": {"matchLabels": {"in": "mobility"}},
            "runTemplate": {"metadata": {"labels": {"team": "data"}}, "spec": {"tokens": 3, "mode": "Incremental"}},
        },
        "status": {"conditions": conditions},
    }))
    .unwrap()
}

/// A node with this status.
pub(super) fn node(name: &str, status: &Value) -> CatalogNode {
    serde_json::from_value(json!({
        "apiVersion": "trawler.dev/v1alpha1", "kind": "CatalogNode",
        "metadata": {"name": name, "namespace": "harvest", "labels": {"in": "mobility"}},
        "spec": {"endpoint": format!("https://{name}.example/dcat"), "protocol": "DCAT"},
        "status": status,
    }))
    .unwrap()
}

/// A run with nothing around it but its Catalog.
pub(super) fn facts(run: CrawlRun) -> RunFacts {
    RunFacts {
        now: now(),
        run,
        catalog: Some(catalog(&[])),
        nodes: Vec::new(),
        others: Vec::new(),
        jobs: Vec::new(),
        pods: Vec::new(),
        events: Vec::new(),
        unread: Vec::new(),
    }
}

/// A crawler's pod with this status.
pub(super) fn pod(name: &str, status: &Value) -> k8s_openapi::api::core::v1::Pod {
    serde_json::from_value(json!({"metadata": {"name": name}, "status": status})).unwrap()
}
