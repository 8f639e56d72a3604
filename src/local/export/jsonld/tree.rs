//! A record's statements as nested JSON-LD node objects.

use std::collections::{HashMap, HashSet};

use oxrdf::vocab::{rdf, xsd};
use oxrdf::{LiteralRef, NamedNodeRef, NamedOrBlankNodeRef, TermRef, TripleRef};

use super::super::rdf::vocabulary::{RDF_JSON, TERMS};
use super::super::rdf::{Statements, is_json};

/// How deep node objects are nested: a hostile chain of blank nodes must not exhaust a stack, here or at the reader's.
const MAX_DEPTH: u32 = 8;

pub(super) struct Tree<'a> {
    root: NamedOrBlankNodeRef<'a>,
    /// In the order of their first statement.
    subjects: Vec<NamedOrBlankNodeRef<'a>>,
    /// Sorted by predicate.
    said: HashMap<NamedOrBlankNodeRef<'a>, Vec<TripleRef<'a>>>,
    /// How often each node is referred to.
    references: HashMap<NamedOrBlankNodeRef<'a>, u32>,
    written: HashSet<NamedOrBlankNodeRef<'a>>,
}

impl<'a> Tree<'a> {
    pub(super) fn of(statements: &'a Statements) -> Self {
        let mut tree = Self {
            root: statements.subject.as_ref().into(),
            subjects: Vec::new(),
            said: HashMap::new(),
            references: HashMap::new(),
            written: HashSet::new(),
        };
        for triple in statements.triples.iter().map(TripleRef::from) {
            let said = tree.said.entry(triple.subject).or_default();
            if said.is_empty() {
                tree.subjects.push(triple.subject);
            }
            said.push(triple);
            if let Some(node) = node_of(triple.object) {
                *tree.references.entry(node).or_default() += 1;
            }
        }
        for said in tree.said.values_mut() {
            said.sort_by_key(|triple| triple.predicate.as_str());
        }
        tree
    }

    /// Writes the dataset, and behind it what does not hang on it or lies too deep.
    pub(super) fn write(mut self, out: &mut Vec<u8>) {
        self.node(self.root, 0, out);
        for subject in std::mem::take(&mut self.subjects) {
            if !self.written.contains(&subject) {
                out.push(b',');
                self.node(subject, 0, out);
            }
        }
    }

    fn node(&mut self, node: NamedOrBlankNodeRef<'a>, depth: u32, out: &mut Vec<u8>) {
        self.written.insert(node);
        let mut members = Members::begin(out);
        let is_nameless = matches!(node, NamedOrBlankNodeRef::BlankNode(_));
        if depth == 0 || !is_nameless || self.references.get(&node) != Some(&1) {
            id(node, members.key("@id"));
        }
        let said = self.said.remove(&node).unwrap_or_default();
        for same_predicate in said.chunk_by(|a, b| a.predicate == b.predicate) {
            let predicate = same_predicate[0].predicate;
            let classes: Option<Vec<NamedNodeRef<'_>>> =
                same_predicate.iter().map(|triple| class_of(*triple)).collect();
            match classes {
                Some(classes) => {
                    list(members.key("@type"), &classes, |class, out| string(name_of(*class), out));
                }
                None => list(members.key(name_of(predicate)), same_predicate, |triple, out| {
                    self.value(triple.object, depth, out);
                }),
            }
        }
        members.end();
    }

    fn value(&mut self, object: TermRef<'a>, depth: u32, out: &mut Vec<u8>) {
        match (object, node_of(object)) {
            (_, Some(node)) if depth < MAX_DEPTH && self.said.contains_key(&node) => self.node(node, depth + 1, out),
            (_, Some(node)) => {
                let mut members = Members::begin(out);
                id(node, members.key("@id"));
                members.end();
            }
            (TermRef::Literal(text), None) => literal(text, out),
            (_, None) => out.extend_from_slice(b"null"),
        }
    }
}

fn node_of(term: TermRef<'_>) -> Option<NamedOrBlankNodeRef<'_>> {
    match term {
        TermRef::NamedNode(node) => Some(node.into()),
        TermRef::BlankNode(node) => Some(node.into()),
        TermRef::Literal(_) => None,
    }
}

/// The class that a statement names.
fn class_of(triple: TripleRef<'_>) -> Option<NamedNodeRef<'_>> {
    match triple.object {
        TermRef::NamedNode(class) if triple.predicate == rdf::TYPE => Some(class),
        _ => None,
    }
}

/// The name of a term of the context, else the IRI.
fn name_of(iri: NamedNodeRef<'_>) -> &str {
    TERMS.iter().find(|(_, known)| *known == iri.as_str()).map_or(iri.as_str(), |(name, _)| name)
}

fn id(node: NamedOrBlankNodeRef<'_>, out: &mut Vec<u8>) {
    match node {
        NamedOrBlankNodeRef::NamedNode(node) => string(node.as_str(), out),
        NamedOrBlankNodeRef::BlankNode(node) => string(&node.to_string(), out),
    }
}

fn literal(text: LiteralRef<'_>, out: &mut Vec<u8>) {
    if text.language().is_none() && text.datatype() == xsd::STRING {
        return string(text.value(), out);
    }
    let mut members = Members::begin(out);
    if let Some(lang) = text.language() {
        string(text.value(), members.key("@value"));
        string(lang, members.key("@language"));
    } else if text.datatype() == RDF_JSON && is_json(text.value()) {
        members.key("@value").extend_from_slice(text.value().as_bytes());
        string("@json", members.key("@type"));
    } else {
        string(text.value(), members.key("@value"));
        string(text.datatype().as_str(), members.key("@type"));
    }
    members.end();
}

/// The members of a JSON object.
struct Members<'o> {
    out: &'o mut Vec<u8>,
    is_first: bool,
}

impl<'o> Members<'o> {
    fn begin(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, is_first: true }
    }

    /// Writes a key; the value is to follow.
    fn key(&mut self, name: &str) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.is_first) {
            self.out.push(b',');
        }
        string(name, self.out);
        self.out.push(b':');
        self.out
    }

    fn end(self) {
        self.out.push(b'}');
    }
}

fn list<T>(out: &mut Vec<u8>, items: &[T], mut write: impl FnMut(&T, &mut Vec<u8>)) {
    out.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(b']');
}

fn string(text: &str, out: &mut Vec<u8>) {
    // Text always has a JSON form, and a vector takes all that is written.
    serde_json::to_writer(out, text).unwrap_or_default();
}
