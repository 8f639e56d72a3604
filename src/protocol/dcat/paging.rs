//! The next page: Hydra in both spellings, or the `Link` header.

use oxrdf::Term;
use url::Url;

use super::graph::Graph;
use super::vocabulary::hydra;
use crate::protocol::{link, origin_of};

/// Where a page link leads.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// To the node's own server.
    Own(Url),
    /// To another server, but to the path that was asked for: the node stands behind a proxy that the server does
    /// not know of. The address is that page on the node's own origin.
    BehindProxy(Url),
    /// Somewhere else.
    Foreign,
}

impl Next {
    /// Where it leads, if it is followed.
    pub(super) fn url(&self) -> Option<&Url> {
        match self {
            Self::Own(url) | Self::BehindProxy(url) => Some(url),
            Self::Foreign => None,
        }
    }
}

/// Where the page links of a document lead. `hydra:next` wins over the old `hydra:nextPage`, and both over `Link`;
/// the view need not be linked from the catalogue, and its value may be an IRI or a string.
pub(super) fn next_pages(graph: &Graph, links: &[String], url: &Url, endpoint: &Url) -> Vec<Next> {
    let targets = |property| {
        let mut targets: Vec<&str> =
            graph.pairs(property).filter_map(|(_, object)| text_of(graph.term(object))).collect();
        targets.sort_unstable();
        targets.dedup();
        targets
    };
    let mut found = targets(hydra::NEXT);
    if found.is_empty() {
        found = targets(hydra::NEXT_PAGE);
    }
    if found.is_empty() {
        found.extend(link::next_targets(links));
    }
    found.into_iter().filter_map(|target| url.join(target).ok()).map(|next| judge(next, url, endpoint)).collect()
}

/// All addresses that a document gives to its pages.
pub(super) fn pages(graph: &Graph, url: &Url) -> Vec<Url> {
    let targets = hydra::OTHER_PAGES.into_iter().flat_map(|property| graph.pairs(property)).map(|(_, object)| object);
    let itself = graph.pairs(hydra::TOTAL_ITEMS).map(|(subject, _)| subject);
    let texts = targets.chain(itself).filter_map(|id| text_of(graph.term(id)));
    texts.filter_map(|text| url.join(text).ok()).collect()
}

fn text_of(term: &Term) -> Option<&str> {
    match term {
        Term::NamedNode(iri) => Some(iri.as_str()),
        Term::Literal(text) => Some(text.value()),
        Term::BlankNode(_) => None,
    }
    .filter(|text| !text.trim().is_empty())
}

fn judge(mut next: Url, url: &Url, endpoint: &Url) -> Next {
    next.set_fragment(None);
    let is_web = matches!(next.scheme(), "http" | "https");
    if is_web && [url, endpoint].iter().any(|own| origin_of(own) == origin_of(&next)) {
        return Next::Own(next);
    }
    if is_web && [url, endpoint].iter().any(|own| own.path() == next.path()) {
        let mut own = endpoint.clone();
        own.set_path(next.path());
        own.set_query(next.query());
        own.set_fragment(None);
        return Next::BehindProxy(own);
    }
    Next::Foreign
}

/// The total that the server gives. Where several nodes give one (a page's and the collection's), the largest.
pub(super) fn total(graph: &Graph) -> Option<u64> {
    graph.pairs(hydra::TOTAL_ITEMS).filter_map(|(_, object)| text_of(graph.term(object))?.trim().parse().ok()).max()
}
