//! A record that was read from RDF: its own statements, made valid where the reader forgave.

use std::collections::HashSet;

use oxrdf::vocab::rdf;
use oxrdf::{BlankNode, Literal, NamedNode, NamedOrBlankNode, Term, Triple};
use oxttl::NTriplesParser;

use super::vocabulary::dcat;
use super::{BlankNames, Statements, own_iri, terms};
use crate::store::RecordKey;

/// The statements in N-Triples. A line that can't be read costs no other.
pub(super) fn statements(key: &RecordKey, text: &str, names: &BlankNames) -> Statements {
    let mut left_out = 0;
    let mut triples = Vec::new();
    for triple in NTriplesParser::new().lenient().for_slice(text) {
        match triple {
            Ok(triple) => triples.push(triple),
            Err(_) => left_out += 1,
        }
    }
    let (subject, root) = subject_of(key, &triples);
    let cleaning = Cleaning { subject: &subject, root: root.as_ref(), names };
    let parsed = triples.len();
    let triples: Vec<Triple> = triples.into_iter().filter_map(|triple| cleaning.triple(triple)).collect();
    left_out += (parsed - triples.len()) as u64;
    Statements { subject, triples, left_out }
}

/// The dataset's IRI, and the blank node that stands for it in the source, if it has no IRI there.
fn subject_of(key: &RecordKey, triples: &[Triple]) -> (NamedNode, Option<BlankNode>) {
    let is_said_of_id = triples
        .iter()
        .any(|triple| matches!(&triple.subject, NamedOrBlankNode::NamedNode(node) if node.as_str() == key.id));
    if is_said_of_id {
        return (terms::iri(&key.id).unwrap_or_else(|| own_iri(key)), None);
    }
    let objects: HashSet<&BlankNode> = triples
        .iter()
        .filter_map(|triple| match &triple.object {
            Term::BlankNode(node) => Some(node),
            _ => None,
        })
        .collect();
    let is_dataset = |triple: &&Triple| triple.predicate == rdf::TYPE && triple.object == dcat::DATASET.into();
    let blank = |triple: &Triple| match &triple.subject {
        NamedOrBlankNode::BlankNode(node) => Some(node.clone()),
        NamedOrBlankNode::NamedNode(_) => None,
    };
    let datasets = || triples.iter().filter(is_dataset).filter_map(blank);
    // All that is said hangs on the dataset, so nothing else is nobody's object.
    let root = datasets()
        .find(|node| !objects.contains(node))
        .or_else(|| datasets().next())
        .or_else(|| triples.iter().filter_map(blank).find(|node| !objects.contains(node)));
    (own_iri(key), root)
}

struct Cleaning<'a> {
    subject: &'a NamedNode,
    root: Option<&'a BlankNode>,
    names: &'a BlankNames,
}

impl Cleaning<'_> {
    /// The statement as valid RDF; `None` if its subject or predicate can't be.
    fn triple(&self, triple: Triple) -> Option<Triple> {
        let subject = match triple.subject {
            NamedOrBlankNode::NamedNode(node) => terms::iri(node.as_str())?.into(),
            NamedOrBlankNode::BlankNode(node) => self.blank(&node),
        };
        let predicate = terms::iri(triple.predicate.as_str())?;
        let object = match triple.object {
            Term::NamedNode(node) => terms::iri_or_text(node.as_str()),
            Term::BlankNode(node) => self.blank(&node).into(),
            Term::Literal(literal) => clean(literal).into(),
        };
        Some(Triple { subject, predicate, object })
    }

    fn blank(&self, node: &BlankNode) -> NamedOrBlankNode {
        if self.root == Some(node) { self.subject.clone().into() } else { self.names.named(node.as_str()).into() }
    }
}

/// A literal whose language and datatype are valid, else its text.
fn clean(literal: Literal) -> Literal {
    let is_valid = match literal.language() {
        Some(lang) => Literal::new_language_tagged_literal("", lang).is_ok(),
        None => NamedNode::new(literal.datatype().as_str()).is_ok(),
    };
    if is_valid { literal } else { Literal::new_simple_literal(literal.value()) }
}
