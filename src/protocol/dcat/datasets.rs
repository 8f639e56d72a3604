//! Which nodes of a document are datasets, and which are only linked.
//!
//! A dataset is a subject of type `dcat:Dataset`, or an object of `dcat:dataset` that has properties of its own. The
//! datasets of a catalogue described inside another one belong to the same section. Catalogues, catalogue records,
//! services and series are not datasets; a node that is both a dataset and a catalogue record is one dataset.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use oxrdf::Term;

use super::graph::{Graph, TermId};
use super::vocabulary::{RDF_TYPE, dcat};
use crate::protocol::Forgiven;

/// The nodes of a document, told apart.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    /// Datasets with properties, in the document's order.
    pub(super) described: Vec<TermId>,
    /// Objects of `dcat:dataset` about which the document says nothing.
    pub(super) linked: Vec<TermId>,
    /// Nodes that are things of their own: a dataset's description ends where one of them begins.
    pub(super) boundaries: HashSet<TermId>,
}

/// Tells the nodes of a document apart.
pub(super) fn find(graph: &Graph, forgiven: &mut BTreeMap<Forgiven, u64>) -> Nodes {
    let of_type = |class: &str| -> HashSet<TermId> {
        let class = graph.iri(class);
        graph.pairs(RDF_TYPE).filter(|(_, object)| Some(*object) == class).map(|(subject, _)| subject).collect()
    };
    let misspelt_catalogs = of_type(dcat::CATALOGUE);
    let misspelt_datasets = of_type(dcat::DATA_SET);
    let mut datasets: BTreeSet<TermId> = of_type(dcat::DATASET).into_iter().collect();
    let misspelt = (misspelt_catalogs.len() + misspelt_datasets.len()) as u64;
    datasets.extend(misspelt_datasets);
    let mut catalogs = of_type(dcat::CATALOG);
    catalogs.extend(misspelt_catalogs);
    let records = of_type(dcat::CATALOG_RECORD);

    let mut nodes = Nodes::default();
    let listed: BTreeSet<TermId> = graph.pairs(dcat::DATASET_LINK).map(|(_, object)| object).collect();
    for object in listed {
        if datasets.contains(&object) || catalogs.contains(&object) {
            continue;
        }
        if matches!(graph.term(object), Term::Literal(_)) {
            *forgiven.entry(Forgiven::UnexpectedType).or_default() += 1;
        } else if graph.about(object).is_empty() || records.contains(&object) {
            nodes.linked.push(object);
        } else {
            datasets.insert(object);
        }
    }
    // A catalogue is a kind of dataset to DCAT 3; here it is what lists them.
    datasets.retain(|node| !catalogs.contains(node));

    let also_records = datasets.iter().filter(|node| records.contains(node)).count() as u64;
    for (fault, times) in [(Forgiven::MisspeltClass, misspelt), (Forgiven::CatalogRecord, also_records)] {
        if times > 0 {
            *forgiven.entry(fault).or_default() += times;
        }
    }
    nodes.boundaries.extend(datasets.iter().chain(&nodes.linked).chain(&catalogs).chain(&records));
    nodes.boundaries.extend(of_type(dcat::DATASET_SERIES));
    nodes.described = datasets.into_iter().collect();
    nodes
}
