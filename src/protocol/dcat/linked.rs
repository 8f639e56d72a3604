//! Datasets that a catalogue only links: where to ask for them, and what the answer says.

use oxrdf::Term;
use url::Url;

use super::datasets::Nodes;
use super::graph::Graph;
use super::identity::Identities;
use crate::protocol::{Page, Rejected};
use crate::task::MAX_CURSOR_BYTES;

/// The linked dataset's IRI and the address to ask, or why it is not asked for.
pub(super) fn address_of(graph: &Graph, dataset: u32, endpoint: &Url) -> Result<(String, Url), Rejected> {
    let Term::NamedNode(iri) = graph.term(dataset) else {
        let why = "it is listed without an IRI and without a description".to_owned();
        return Err(Rejected { what: "a dataset".to_owned(), why });
    };
    let iri = iri.as_str();
    let refused = |why: &str| Rejected { what: iri.chars().take(256).collect(), why: why.to_owned() };
    if iri.len() > MAX_CURSOR_BYTES {
        return Err(refused("its IRI is too long to be asked for"));
    }
    let url = Url::parse(iri).map_err(|_| refused("it is only linked, and its IRI is no address to ask"))?;
    let own = on_own_origin(&url, endpoint).ok_or_else(|| {
        refused("it is only linked, and lies on another server; make that server a CatalogNode of its own")
    })?;
    Ok((iri.to_owned(), own))
}

/// The address on the endpoint's origin, if it is one there: IRIs often say `http` where the server speaks `https`.
pub(super) fn on_own_origin(url: &Url, endpoint: &Url) -> Option<Url> {
    let is_web = matches!(url.scheme(), "http" | "https");
    let same_port = match (url.port(), endpoint.port()) {
        (None, None) => true,
        _ => url.port_or_known_default() == endpoint.port_or_known_default(),
    };
    if !is_web || url.host() != endpoint.host() || !same_port {
        return None;
    }
    let mut own = endpoint.clone();
    own.set_path(url.path());
    own.set_query(url.query());
    own.set_fragment(None);
    Some(own)
}

/// The record of the dataset that was asked for; what else its document describes is not this task's.
pub(super) fn decode_one(graph: &Graph, nodes: &Nodes, iri: &str, page: &mut Page) {
    let named = |iri: &str| graph.iri(iri).filter(|id| !graph.about(*id).is_empty());
    let other_scheme = iri.strip_prefix("http:").map(|rest| format!("https:{rest}"));
    let other_scheme = other_scheme.or_else(|| iri.strip_prefix("https:").map(|rest| format!("http:{rest}")));
    let only_one = || match nodes.described[..] {
        [only] => Some(only),
        _ => None,
    };
    let dataset = named(iri).or_else(|| named(&other_scheme?)).or_else(only_one);
    let record = match dataset {
        Some(dataset) => Identities::of(graph, nodes).record(graph, nodes, dataset).map_err(|why| why.to_string()),
        None => Err("the document at its IRI says nothing about it".to_owned()),
    };
    match record {
        Ok((mut record, _)) => {
            iri.clone_into(&mut record.id);
            page.records.push(record);
        }
        Err(why) => page.rejected.push(Rejected { what: iri.to_owned(), why }),
    }
}
