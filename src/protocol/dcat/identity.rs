//! What a dataset is called for ever.
//!
//! With an IRI: the IRI, as written. Without one, the first of these that no other dataset of the document shares:
//! `dct:identifier`, `dcat:landingPage`, the first download or access address of its distributions; else `urn:hash:`
//! and its content hash (such a dataset, once changed, is another one). A dataset that says nothing is refused.

use std::collections::HashMap;

use thiserror::Error;

use super::canonical::canonical;
use super::datasets::Nodes;
use super::description::{MAX_RECORD_TRIPLES, describe};
use super::graph::{Graph, TermId};
use super::record::{iri_of, names, record_of};
use super::vocabulary::{RDF_TYPE, dcat, dct};
use crate::record::Record;

/// Why there is no record of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum Refusal {
    /// More triples than one record may have.
    #[error("its description has more than {MAX_RECORD_TRIPLES} triples")]
    TooLarge,
    /// No name, and nothing to make one of.
    #[error("it has neither an IRI nor an identifier nor anything else")]
    SaysNothing,
}

/// How often each candidate for an id occurs among a document's nameless datasets.
#[derive(Debug, Default)]
pub(super) struct Identities {
    uses: HashMap<String, u32>,
}

impl Identities {
    /// Looks at all nameless datasets once.
    pub(super) fn of(graph: &Graph, nodes: &Nodes) -> Self {
        let mut uses: HashMap<String, u32> = HashMap::new();
        for &dataset in nodes.described.iter().filter(|dataset| iri_of(graph, **dataset).is_none()) {
            for candidate in candidates(graph, dataset) {
                *uses.entry(candidate).or_default() += 1;
            }
        }
        Self { uses }
    }

    /// The record of a described dataset, and whether it has an id of its own; or why there is none.
    pub(super) fn record(&self, graph: &Graph, nodes: &Nodes, dataset: TermId) -> Result<(Record, bool), Refusal> {
        let triples = describe(graph, nodes, dataset).ok_or(Refusal::TooLarge)?;
        let form = canonical(graph, dataset, &triples);
        if let Some(iri) = iri_of(graph, dataset) {
            return Ok((record_of(graph, dataset, iri, form), true));
        }
        let rdf_type = graph.iri(RDF_TYPE);
        if graph.about(dataset).iter().all(|triple| Some(triple[1]) == rdf_type) {
            return Err(Refusal::SaysNothing);
        }
        let own = candidates(graph, dataset).into_iter().find(|id| self.uses.get(id) == Some(&1));
        let has_own_id = own.is_some();
        let id = own.unwrap_or_else(|| format!("urn:hash:{}", form.hash));
        Ok((record_of(graph, dataset, id, form), has_own_id))
    }
}

/// Candidates for the id of a nameless dataset, best first, each once.
fn candidates(graph: &Graph, dataset: TermId) -> Vec<String> {
    let first = |node, property| names(graph, node, property).into_iter().next();
    let of_distributions =
        |property| graph.objects(dataset, dcat::DISTRIBUTION).filter_map(|node| first(node, property)).min();
    let mut candidates = Vec::new();
    for candidate in [
        first(dataset, dct::IDENTIFIER),
        first(dataset, dcat::LANDING_PAGE),
        of_distributions(dcat::DOWNLOAD_URL),
        of_distributions(dcat::ACCESS_URL),
    ]
    .into_iter()
    .flatten()
    {
        if !candidates.contains(&candidate) {
            candidates.push(candidate);
        }
    }
    candidates
}
