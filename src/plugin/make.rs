//! `kubectl trawler start` and `retry`: the runs that they make.

use std::collections::BTreeSet;

use jiff::Timestamp;
use kube::ResourceExt as _;

use super::facts::is_over;
use super::no_such;
use crate::api::{Catalog, CatalogNode, CrawlRun, RunMode, RunSettings};
use crate::operator::run_of;

/// Nodes that a run can name.
pub const MAX_NAMES: usize = 1000;

/// Names of objects are not longer.
const MAX_NAME_LENGTH: usize = 253;

/// A run that is to be made.
#[derive(Debug, Clone)]
pub struct NewRun<'a> {
    /// Of this Catalog.
    pub catalog: &'a Catalog,
    /// Its name.
    pub name: String,
    /// Full or Incremental; default: as the Catalog's template says.
    pub mode: Option<RunMode>,
    /// Nodes of the Catalog; none: as the template says.
    pub nodes: Vec<String>,
}

impl NewRun<'_> {
    /// The object.
    pub fn object(&self) -> CrawlRun {
        let template = &self.catalog.spec.run_template.spec;
        let mut settings = RunSettings { mode: self.mode.unwrap_or(template.mode), ..template.clone() };
        if !self.nodes.is_empty() {
            settings.catalog_node_names.clone_from(&self.nodes);
            settings.catalog_node_selector = None;
        }
        run_of(self.catalog, &self.name, settings)
    }
}

/// `mobility-20261130-020000`.
pub fn dated_name(catalog: &str, now: Timestamp) -> String {
    format!("{catalog}-{}", now.strftime("%Y%m%d-%H%M%S"))
}

/// `RUN-retry-020000`: says whose failures it goes over.
pub fn retry_name(run: &str, now: Timestamp) -> String {
    let suffix = now.strftime("-retry-%Y%m%d-%H%M%S").to_string();
    // A retry of a retry is one too.
    let base = run.split("-retry-").next().unwrap_or(run);
    let mut end = base.len().min(MAX_NAME_LENGTH - suffix.len());
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{suffix}", &base[..end])
}

/// The named nodes, all of the Catalog; or a sentence about one that is not.
pub fn named_nodes(names: &[String], catalog: &Catalog, nodes: &[CatalogNode]) -> Result<Vec<String>, String> {
    let known: Vec<String> = nodes.iter().map(kube::ResourceExt::name_any).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let unknown = names.iter().find(|name| !known.contains(&name.as_str()));
    if let Some(name) = unknown {
        let catalog_name = catalog.name_any();
        let namespace = catalog.namespace().unwrap_or_default();
        return Err(no_such(&format!("CatalogNode of Catalog {catalog_name} named"), name, &namespace, &known));
    }
    let names: BTreeSet<&String> = names.iter().collect();
    if names.len() > MAX_NAMES {
        return Err(format!("a run can name {MAX_NAMES} nodes, not {}; label them and set a selector", names.len()));
    }
    Ok(names.into_iter().cloned().collect())
}

/// What a retry would go over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// The nodes, by name.
    pub nodes: Vec<String>,
    /// Nodes that failed or are partial and are left out.
    pub left_out: usize,
    /// Nodes of which is known that they failed, but not which they are.
    pub unnamed: i64,
}

/// The failed and partial nodes of a run that ended; or a sentence about why there is nothing to retry.
///
/// A run's status names few failed nodes and no partial ones; the nodes themselves say which run read them last, and whether
/// that was in full. A node that a later run has read is not tried again.
pub fn nodes_to_retry(run: &CrawlRun, nodes: &[CatalogNode]) -> Result<Retry, String> {
    let name = run.name_any();
    if !is_over(run) {
        return Err(format!(
            "run {name} has not ended; it tries failed tasks again by itself (`kubectl trawler why {name}`)"
        ));
    }
    let status = run.status.clone().unwrap_or_default();
    let is_there = |wanted: &str| nodes.iter().any(|node| node.name_any() == wanted);
    let last = |node: &CatalogNode| node.status.as_ref().and_then(|status| status.last_crawl.clone());
    let was_read_since = |wanted: &str| {
        nodes.iter().filter(|node| node.name_any() == wanted).filter_map(last).any(|last| {
            let is_later = status.finished_at.as_ref().is_some_and(|ended| last.finished_at.0 > ended.0);
            last.complete && last.crawl_run != name && is_later
        })
    };
    let failed = status.failed_catalog_nodes.iter().map(|node| node.name.clone());
    let failed = failed.filter(|wanted| is_there(wanted) && !was_read_since(wanted));
    let unfinished =
        nodes.iter().filter(|node| last(node).is_some_and(|last| last.crawl_run == name && !last.complete));
    let mut wanted: BTreeSet<String> = failed.collect();
    wanted.extend(unfinished.map(kube::ResourceExt::name_any));
    let counted = status.catalog_nodes.failed + status.catalog_nodes.partial;
    if wanted.is_empty() {
        return Err(if counted == 0 {
            format!("no node of run {name} failed or is partial: there is nothing to retry")
        } else {
            format!("all nodes that failed in run {name} are gone or were read since: there is nothing to retry")
        });
    }
    let found = wanted.len();
    let nodes: Vec<String> = wanted.into_iter().take(MAX_NAMES).collect();
    let unnamed = (counted - i64::try_from(found).unwrap_or(i64::MAX)).max(0);
    Ok(Retry { left_out: found - nodes.len(), nodes, unnamed })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::samples::{catalog, node, now, run};
    use super::*;

    #[test]
    fn a_run_is_made_as_the_template_says() {
        let catalog = catalog(&[]);
        let new = NewRun { catalog: &catalog, name: dated_name("mobility", now()), mode: None, nodes: Vec::new() };
        assert_eq!(
            serde_json::to_value(new.object()).unwrap(),
            json!({
                "apiVersion": "trawler.dev/v1alpha1", "kind": "CrawlRun",
                "metadata": {
                    "name": "mobility-20261130-020000",
                    "labels": {"team": "data", "trawler.dev/catalog": "mobility"},
                    "ownerReferences": [{
                        "apiVersion": "trawler.dev/v1alpha1", "kind": "Catalog", "name": "mobility",
                        "uid": "uid-mobility", "controller": true, "blockOwnerDeletion": false,
                    }],
                },
                "spec": {
                    "catalogRef": {"name": "mobility"}, "mode": "Incremental", "dryRun": false, "tokens": 3, "weight": 1,
                    "priority": 0, "suspend": false, "maxFailedNodesPercent": 50,
                    "retries": {"limit": 5, "initialDelay": "2s", "maxDelay": "5m"},
                    "crawler": {"concurrency": 16, "class": "default", "resources": {}},
                },
            })
        );
        let named = NewRun { mode: Some(RunMode::Full), nodes: vec!["acme".into()], ..new };
        let settings = named.object().spec.settings;
        assert_eq!((settings.mode, settings.catalog_node_names), (RunMode::Full, vec!["acme".to_owned()]));
    }

    #[test]
    fn a_node_that_the_catalog_does_not_have_is_named() {
        let nodes = [node("acme", &json!(null))];
        let named = |name: &str| named_nodes(&[name.to_owned()], &catalog(&[]), &nodes);
        assert_eq!(named("acme"), Ok(vec!["acme".to_owned()]));
        assert_eq!(
            named("acne"),
            Err("there is no CatalogNode of Catalog mobility named acne in namespace harvest; did you mean acme?"
                .into())
        );
    }

    fn crawled(run: &str, complete: bool, at: &str) -> serde_json::Value {
        json!({"lastCrawl": {"crawlRun": run, "finishedAt": at, "complete": complete}})
    }

    #[test]
    fn a_retry_goes_over_what_failed_and_what_is_partial() {
        let nodes = [
            node("acme", &json!({})),
            node("blue", &crawled("later", true, "2026-11-30T01:55:00Z")),
            node("cut", &crawled("broken", false, "2026-11-30T01:30:00Z")),
            node("fine", &crawled("broken", true, "2026-11-30T01:30:00Z")),
        ];
        let retry = nodes_to_retry(&run("broken", "failed"), &nodes);
        // "blue" was read since.
        assert_eq!(retry, Ok(Retry { nodes: vec!["acme".into(), "cut".into()], left_out: 0, unnamed: 1 }));
    }

    #[test]
    fn there_may_be_nothing_to_retry() {
        assert_eq!(
            nodes_to_retry(&run("old", "complete"), &[]),
            Err("no node of run old failed or is partial: there is nothing to retry".into())
        );
        assert_eq!(
            nodes_to_retry(&run("young", "running"), &[]),
            Err("run young has not ended; it tries failed tasks again by itself (`kubectl trawler why young`)".into())
        );
        assert_eq!(
            nodes_to_retry(&run("broken", "failed"), &[]),
            Err("all nodes that failed in run broken are gone or were read since: there is nothing to retry".into())
        );
    }

    #[test]
    fn a_retry_of_a_retry_has_a_name_of_the_same_length() {
        let first = retry_name("mobility-nightly", now());
        assert_eq!(first, "mobility-nightly-retry-20261130-020000");
        assert_eq!(retry_name(&first, now()), first);
        assert_eq!(retry_name(&"x".repeat(300), now()).len(), MAX_NAME_LENGTH);
    }
}
