//! Everything that was read of one run and what is around it.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use serde::Serialize;

use crate::api::conditions::{READY, SUCCEEDED};
use crate::api::{Catalog, CatalogNode, CrawlRun};

/// A run, and what is around it.
#[derive(Debug, Clone)]
pub struct RunFacts {
    /// When it was read.
    pub now: Timestamp,
    /// The run.
    pub run: CrawlRun,
    /// Its Catalog; none if there is none.
    pub catalog: Option<Catalog>,
    /// The nodes that its Catalog selects.
    pub nodes: Vec<CatalogNode>,
    /// All other runs of the namespace.
    pub others: Vec<CrawlRun>,
    /// Jobs of its crawlers.
    pub jobs: Vec<Job>,
    /// Pods of its crawlers.
    pub pods: Vec<Pod>,
    /// Events about it, its Catalog, its Jobs and pods, latest first.
    pub events: Vec<Told>,
    /// What could not be read, as sentences.
    pub unread: Vec<String>,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Told {
    /// When it was told last.
    pub at: Option<Timestamp>,
    /// Whether something is wrong.
    pub is_warning: bool,
    /// Why, as one word.
    pub reason: String,
    /// What happened.
    pub note: String,
    /// Of what, as `Pod/x`.
    pub about: String,
}

impl RunFacts {
    /// The nodes of the Catalog that the run is to go over.
    pub fn nodes_of_run(&self) -> impl Iterator<Item = &CatalogNode> {
        let settings = &self.run.spec.settings;
        self.nodes.iter().filter(move |node| {
            let is_named = settings.catalog_node_names.is_empty()
                || settings.catalog_node_names.iter().any(|name| *name == node.name_any());
            let is_selected =
                settings.catalog_node_selector.as_ref().is_none_or(|selector| selector.matches(node.labels()));
            is_named && is_selected
        })
    }
}

/// A condition of a run.
pub(super) fn run_condition<'r>(run: &'r CrawlRun, type_: &str) -> Option<&'r Condition> {
    condition(&run.status.as_ref()?.conditions, type_)
}

/// A condition by its type.
pub(super) fn condition<'c>(conditions: &'c [Condition], type_: &str) -> Option<&'c Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// The run has ended, well or badly.
pub(super) fn is_over(run: &CrawlRun) -> bool {
    run_condition(run, SUCCEEDED).is_some_and(|succeeded| succeeded.status != "Unknown")
}

/// Why a node can't be crawled, if it can't: one word and a sentence.
pub(super) fn not_ready(node: &CatalogNode) -> Option<(&str, &str)> {
    let ready = condition(&node.status.as_ref()?.conditions, READY)?;
    (ready.status == "False").then_some((ready.reason.as_str(), ready.message.as_str()))
}
