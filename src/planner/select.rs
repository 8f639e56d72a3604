//! Which nodes a run crawls, and why it leaves others out.

use jiff::Timestamp;
use url::Url;

use super::execution_plan::{SkipReason, SkippedNode};
use super::health::{Health, health};
use super::snapshot::RunSnapshot;
use crate::api::{CatalogNode, Protocol};
use crate::task::NodeName;

/// The nodes of a run.
#[derive(Debug, Default)]
pub(super) struct Selection<'a> {
    pub(super) crawled: Vec<(NodeName, &'a CatalogNode)>,
    pub(super) skipped: Vec<SkippedNode>,
}

/// Selects: of the Catalog's nodes those that the run names or selects (all, if it does neither), less those that can't
/// be crawled now. Both lists are in order of the nodes' names.
pub(super) fn select_nodes(snapshot: &RunSnapshot) -> Selection<'_> {
    let settings = &snapshot.spec.settings;
    let mut selected: Vec<(&str, &CatalogNode)> = snapshot
        .nodes
        .iter()
        .filter_map(|node| node.metadata.name.as_deref().map(|name| (name, node)))
        .filter(|(_, node)| snapshot.catalog.spec.catalog_node_selector.matches(labels_of(node)))
        .filter(|(name, _)| {
            settings.catalog_node_names.is_empty() || settings.catalog_node_names.iter().any(|wanted| wanted == name)
        })
        .filter(|(_, node)| {
            settings.catalog_node_selector.as_ref().is_none_or(|selector| selector.matches(labels_of(node)))
        })
        .collect();
    selected.sort_by_key(|(name, _)| *name);
    let mut selection = Selection::default();
    for (name, node) in selected {
        let name = NodeName::from(name);
        match skip_reason(snapshot, &name, node) {
            Some(reason) => selection.skipped.push(SkippedNode { node: name, reason }),
            None => selection.crawled.push((name, node)),
        }
    }
    selection
}

fn labels_of(node: &CatalogNode) -> &std::collections::BTreeMap<String, String> {
    static NONE: std::collections::BTreeMap<String, String> = std::collections::BTreeMap::new();
    node.metadata.labels.as_ref().unwrap_or(&NONE)
}

fn skip_reason(snapshot: &RunSnapshot, name: &NodeName, node: &CatalogNode) -> Option<SkipReason> {
    if node.spec.suspend {
        return Some(SkipReason::Suspended);
    }
    if let Some(reason) = fault_of(node) {
        return Some(reason);
    }
    let remembered = snapshot.remembered.get(name)?;
    if remembered.last_crawled_at.is_some_and(|last| last > snapshot.started_at) {
        // A clock that was set back has left a moment that is yet to come. Waiting for it might take for ever.
        return None;
    }
    let is_due = |at: Timestamp| at <= snapshot.started_at;
    let is_named = snapshot.spec.settings.catalog_node_names.iter().any(|wanted| wanted == name.as_str());
    let health =
        if is_named { Health::Online } else { health(remembered, &node.spec, &snapshot.catalog.spec.node_health) };
    match health {
        Health::Offline(outage) if !is_due(outage.next_try) => return Some(SkipReason::Offline(outage)),
        Health::Dead(outage) if !is_due(outage.next_try) => return Some(SkipReason::Dead(outage)),
        _ => {}
    }
    let until = remembered.last_crawled_at?.checked_add(node.spec.recrawl_interval?.get()).ok()?;
    (!is_due(until)).then_some(SkipReason::NotDue { until })
}

/// Why no run can crawl a node, whatever is remembered of it.
fn fault_of(node: &CatalogNode) -> Option<SkipReason> {
    if !matches!(node.spec.protocol, Protocol::Auto | Protocol::DSP | Protocol::CKAN | Protocol::DCAT) {
        return Some(SkipReason::ProtocolNotSupported { protocol: format!("{:?}", node.spec.protocol) });
    }
    let error = Url::parse(&node.spec.endpoint).err()?;
    Some(SkipReason::Invalid { why: format!("spec.endpoint {:?} is not an absolute URL: {error}", node.spec.endpoint) })
}

/// The same as a sentence.
pub fn unusable(node: &CatalogNode) -> Option<String> {
    fault_of(node).map(|reason| reason.to_string())
}
