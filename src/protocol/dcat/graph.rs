//! A document's triples, each term stored once, indexed by subject. Everything on top of it is linear.

use std::collections::HashMap;
use std::ops::Range;

use oxrdf::{BlankNode, Literal, NamedNode, Term};

use super::vocabulary::HTTPS_NAMESPACES;

/// A term's number: the order in which terms first appear in the document.
pub(super) type TermId = u32;

/// Subject, predicate, object.
pub(super) type Triple = [TermId; 3];

/// A parsed document.
#[derive(Debug, Default)]
pub(super) struct Graph {
    terms: Vec<Term>,
    ids_of_iris: HashMap<String, TermId>,
    triples: Vec<Triple>,
    by_subject: HashMap<TermId, Range<usize>>,
}

impl Graph {
    /// The term.
    pub(super) fn term(&self, id: TermId) -> &Term {
        &self.terms[id as usize]
    }

    /// The number of an IRI, if the document uses it.
    pub(super) fn iri(&self, iri: &str) -> Option<TermId> {
        self.ids_of_iris.get(iri).copied()
    }

    /// What the document says about a subject.
    pub(super) fn about(&self, subject: TermId) -> &[Triple] {
        self.by_subject.get(&subject).map_or(&[], |range| &self.triples[range.clone()])
    }

    /// The objects of a property.
    pub(super) fn objects(&self, subject: TermId, predicate: &str) -> impl Iterator<Item = TermId> + '_ {
        let predicate = self.iri(predicate);
        self.about(subject).iter().filter(move |triple| Some(triple[1]) == predicate).map(|triple| triple[2])
    }

    /// All subjects and objects of a property, in the document's order of subjects.
    pub(super) fn pairs(&self, predicate: &str) -> impl Iterator<Item = (TermId, TermId)> + '_ {
        let predicate = self.iri(predicate);
        self.triples.iter().filter(move |triple| Some(triple[1]) == predicate).map(|triple| (triple[0], triple[2]))
    }

    /// Whether a node has no lasting name: blank nodes, and the IRIs that servers make for them
    /// (RDF 1.1 §3.5, `/.well-known/genid/`).
    pub(super) fn is_blank(&self, id: TermId) -> bool {
        match self.term(id) {
            Term::BlankNode(_) => true,
            Term::NamedNode(iri) => iri.as_str().contains("/.well-known/genid/"),
            Term::Literal(_) => false,
        }
    }
}

/// Collects triples while a parser runs.
#[derive(Debug, Default)]
pub(super) struct GraphBuilder {
    ids: HashMap<Term, TermId>,
    triples: Vec<Triple>,
    /// IRIs with characters that no IRI may have, percent-encoded.
    pub(super) invalid_iris: u64,
    /// Terms of a namespace written with `https`.
    pub(super) misnamed: u64,
}

impl GraphBuilder {
    /// Adds a triple.
    pub(super) fn add(&mut self, subject: Term, predicate: NamedNode, object: Term) {
        let triple = [self.id(subject), self.id(predicate.into()), self.id(object)];
        self.triples.push(triple);
    }

    /// How many triples were added, doubles included.
    pub(super) fn len(&self) -> usize {
        self.triples.len()
    }

    fn id(&mut self, term: Term) -> TermId {
        let term = match term {
            Term::NamedNode(iri) => self.tidy_iri(iri).into(),
            Term::Literal(literal) => tidy_literal(literal).into(),
            Term::BlankNode(node) => node.into(),
        };
        // Triples are bounded far below 2^32, so terms are.
        let next = TermId::try_from(self.ids.len()).unwrap_or(TermId::MAX);
        *self.ids.entry(term).or_insert(next)
    }

    fn tidy_iri(&mut self, iri: NamedNode) -> NamedNode {
        let mut text = iri.into_string();
        if let Some((https, http)) = HTTPS_NAMESPACES.iter().find(|(https, _)| text.starts_with(https)) {
            text.replace_range(..https.len(), http);
            self.misnamed += 1;
        }
        if text.contains(is_no_iri_char) {
            self.invalid_iris += 1;
            text = text.chars().fold(String::with_capacity(text.len() + 8), |mut out, c| {
                if is_no_iri_char(c) {
                    out.extend(percent_encoding::percent_encode(c.encode_utf8(&mut [0; 4]).as_bytes(), NOT_ALNUM));
                } else {
                    out.push(c);
                }
                out
            });
        }
        NamedNode::new_unchecked(text)
    }

    /// The finished graph.
    pub(super) fn finish(self) -> Graph {
        let mut terms = vec![Term::BlankNode(BlankNode::new_unchecked("unused")); self.ids.len()];
        let mut ids_of_iris = HashMap::new();
        for (term, id) in self.ids {
            if let Term::NamedNode(iri) = &term {
                ids_of_iris.insert(iri.as_str().to_owned(), id);
            }
            terms[id as usize] = term;
        }
        let mut triples = self.triples;
        triples.sort_unstable();
        triples.dedup();
        let mut by_subject: HashMap<TermId, Range<usize>> = HashMap::new();
        for (at, triple) in triples.iter().enumerate() {
            by_subject.entry(triple[0]).or_insert(at..at).end = at + 1;
        }
        Graph { terms, ids_of_iris, triples, by_subject }
    }
}

const NOT_ALNUM: &percent_encoding::AsciiSet = percent_encoding::NON_ALPHANUMERIC;

/// What the grammar of N-Triples keeps out of `<…>`.
fn is_no_iri_char(c: char) -> bool {
    c <= ' ' || matches!(c, '<' | '>' | '"' | '{' | '}' | '|' | '^' | '`' | '\\' | '\u{7f}'..='\u{9f}')
}

/// Language tags in lower case: they are equal whatever their case.
fn tidy_literal(literal: Literal) -> Literal {
    match literal.language() {
        Some(tag) if tag.contains(|c: char| c.is_ascii_uppercase()) => {
            Literal::new_language_tagged_literal_unchecked(literal.value(), tag.to_ascii_lowercase())
        }
        _ => literal,
    }
}
