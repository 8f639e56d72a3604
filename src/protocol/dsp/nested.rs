//! Nested catalogues: where they are, and whether they lead back.

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
    let accessed = distributions.filter_map(|one| get(one, "accessService")).find_map(|access| services.address(access));
    accessed.or_else(|| catalog.services.items().iter().find_map(address_of))
}

/// Whether an address is that of the node, of the connector that lists it, or of any on the way there, with whatever
/// version path.
pub(super) fn leads_back(url: &Url, node: &NodeContext, task: &Task, base: &Url) -> bool {
    let key = connector_key(url);
    let on_the_way = task.provenance.iter().filter_map(|endpoint| Url::parse(endpoint).ok());
    connector_key(&node.endpoint) == key
        || connector_key(base) == key
        || on_the_way.into_iter().any(|endpoint| connector_key(&endpoint) == key)
}
