//! A record as RDF (DCAT), shared by Turtle and JSON-LD.
//!
//! - Read from RDF: its own statements, as they were. Read from JSON: DCAT terms for what the record says.
//! - The dataset's IRI is the record's id, if that is an absolute IRI; else `urn:trawler:NODE:SECTION:ID`, each part
//!   percent-encoded, with the id as `dct:identifier`. So is a dataset's whose own RDF gives it no IRI, even if its id
//!   is the address of a page: the page is not the dataset. Two nodes that list the same IRI describe one dataset.
//! - Blank nodes are named after the record's key, so they differ between records and stay between exports.
//! - `prov:wasDerivedFrom` names the catalogue that listed it.
//! - What can't be an IRI is repaired by percent-encoding if it is a web address, else written as text; a language tag
//!   that is none is left out; a date that is none stays plain text. Offers are kept as JSON (`rdf:JSON`).

mod describe;
mod source;
mod terms;
pub(super) mod vocabulary;

use oxrdf::{BlankNode, NamedNode, NamedOrBlankNode, Triple};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

pub(super) use self::terms::is_json;
use self::vocabulary::{dct, prov};
use crate::record::{ContentHash, Record};
use crate::store::RecordKey;

/// What an IRI may hold without having a meaning in it (RFC 3986 §2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A record's statements.
#[derive(Debug)]
pub(super) struct Statements {
    /// The dataset.
    pub(super) subject: NamedNode,
    /// What is said of it and of what it refers to.
    pub(super) triples: Vec<Triple>,
    /// Statements of the source that no valid RDF can say.
    pub(super) left_out: u64,
}

/// What a record says.
pub(super) fn statements_of(key: &RecordKey, record: &Record) -> Statements {
    let names = BlankNames::of(key);
    let mut statements = match &record.raw_triples {
        Some(text) => source::statements(key, text, &names),
        None => describe::statements(key, record, &names),
    };
    let subject = NamedOrBlankNode::from(statements.subject.clone());
    let mut more = Vec::new();
    if statements.subject.as_str() != key.id {
        more.push(Triple::new(subject.clone(), dct::IDENTIFIER, terms::plain(&key.id)));
    }
    if let Some(catalogue) = record.origin.provenance.last() {
        more.push(Triple::new(subject.clone(), prov::WAS_DERIVED_FROM, terms::iri_or_text(catalogue)));
    }
    // Beside what else is said of the dataset, so that a reader finds it in one place.
    let own = statements.triples.iter().take_while(|triple| triple.subject == subject).count();
    statements.triples.splice(own..own, more);
    statements
}

/// The IRI of a dataset that has none.
fn own_iri(key: &RecordKey) -> NamedNode {
    let encoded = |part| utf8_percent_encode(part, RESERVED);
    NamedNode::new_unchecked(format!(
        "urn:trawler:{}:{}:{}",
        encoded(key.section.node.as_str()),
        encoded(key.section.section.as_str()),
        encoded(&key.id)
    ))
}

/// Names of one record's blank nodes.
struct BlankNames {
    prefix: String,
}

impl BlankNames {
    fn of(key: &RecordKey) -> Self {
        let section = &key.section;
        let mut bytes = Vec::new();
        for part in [section.node.as_str(), section.section.as_str(), &key.id] {
            bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part.as_bytes());
        }
        Self { prefix: format!("r{}", ContentHash::of(&bytes)) }
    }

    /// The node that the record's source, or its description, calls `label`.
    fn named(&self, label: &str) -> BlankNode {
        BlankNode::new(format!("{}-{label}", self.prefix)).unwrap_or_else(|_| {
            BlankNode::new_unchecked(format!("{}-{}", self.prefix, ContentHash::of(label.as_bytes())))
        })
    }
}
