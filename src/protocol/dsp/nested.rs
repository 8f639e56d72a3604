//! Nested catalogues: where they are, and whether they lead back.

use std::collections::HashSet;

use url::Url;

use super::address::connector_key;
use super::collect::Services;
use super::terms::get;
use super::wire::{Address, Catalog, address_of};
use crate::protocol::NodeContext;
use crate::task::Task;

/// The address of a nested catalogue: that of the service its distribution names, else that of any of its services.
pub(super) fn endpoint<'j>(catalog: &'j Catalog<'_>, services: &Services<'j>) -> Option<Address<'j>> {
    let distributions = catalog.distributions.items().iter();
    let accessed =
        distributions.filter_map(|one| get(one, "accessService")).find_map(|access| services.address(access));
    accessed.or_else(|| catalog.services.items().iter().find_map(address_of))
}

/// The connectors on the way to a section, whatever their version paths: the node, the connector that answers, and
/// each one between. A nested catalogue at one of them leads back.
pub(super) fn on_the_way(node: &NodeContext, task: &Task, base: &Url) -> HashSet<String> {
    let between = task.provenance.iter().filter_map(|endpoint| Url::parse(endpoint).ok());
    [&node.endpoint, base].into_iter().cloned().chain(between).map(|url| connector_key(&url)).collect()
}
