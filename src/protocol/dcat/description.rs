//! One dataset's part of the document: its own triples and those of what it refers to.
//!
//! From the dataset, blank nodes are followed wherever they lead, IRIs up to three steps and only where the document
//! describes them. Other datasets, catalogues, catalogue records and series are not entered, nor are shared
//! descriptions of more than [`MAX_SHARED_TRIPLES`] (a service that lists all it serves would make every record
//! change with every dataset); of `dcat:servesDataset` only this dataset's is kept.

use std::collections::{HashSet, VecDeque};

use oxrdf::Term;

use super::datasets::Nodes;
use super::graph::{Graph, TermId, Triple};
use super::vocabulary::dcat;

/// How many IRIs are followed one after the other: distribution, service, its publisher.
const MAX_STEPS: u32 = 3;
/// The longest description of a node with an IRI that is followed.
const MAX_SHARED_TRIPLES: usize = 200;
/// The most triples that one dataset may have.
pub(super) const MAX_RECORD_TRIPLES: usize = 10_000;

/// The triples of `dataset`, or `None` if there are too many.
pub(super) fn describe(graph: &Graph, nodes: &Nodes, dataset: TermId) -> Option<Vec<Triple>> {
    let serves = graph.iri(dcat::SERVES_DATASET);
    let mut triples = Vec::new();
    let mut seen = HashSet::from([dataset]);
    let mut waiting = VecDeque::from([(dataset, 0)]);
    while let Some((subject, steps)) = waiting.pop_front() {
        for &triple in graph.about(subject) {
            let [_, predicate, object] = triple;
            if Some(predicate) == serves && object != dataset {
                continue;
            }
            if triples.len() >= MAX_RECORD_TRIPLES {
                return None;
            }
            triples.push(triple);
            let object_steps = match graph.term(object) {
                Term::Literal(_) => continue,
                Term::BlankNode(_) => steps,
                Term::NamedNode(_) => steps + 1,
            };
            let is_shared_in_full = object_steps == steps || graph.about(object).len() <= MAX_SHARED_TRIPLES;
            if object_steps <= MAX_STEPS
                && is_shared_in_full
                && !nodes.boundaries.contains(&object)
                && seen.insert(object)
            {
                waiting.push_back((object, object_steps));
            }
        }
    }
    Some(triples)
}
