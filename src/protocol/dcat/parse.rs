//! From text to a graph, with limits. Parsers run in their lenient mode (an IRI with a blank in it costs no record);
//! whatever they still call an error ends the document: half a document must not pass for a whole one.

use std::collections::BTreeMap;

use oxjsonld::{JsonLdParseError, JsonLdParser, JsonLdRemoteDocument};
use oxrdf::{NamedNode, Term};
use oxrdfxml::RdfXmlParser;
use oxttl::{NTriplesParser, TurtleParser};
use url::Url;

use super::format::name_of;
use super::graph::{Graph, GraphBuilder};
use super::jsonld_context::context_for;
use super::{guard_json, guard_xml};
use crate::protocol::{Forgiven, RdfFormat, ReadError, quoted_start};

/// The most triples that one document may have.
const MAX_TRIPLES: u64 = 2_000_000;
/// The longest literal and the longest IRI that are kept; longer values are left out.
const MAX_LITERAL_BYTES: usize = 1 << 20;
const MAX_IRI_BYTES: usize = 8 << 10;
/// Prefixes and base IRIs make triples longer than the text they come from, but not by more than this.
const MAX_GROWTH: u64 = 32;
const GROWTH_FREE_BYTES: u64 = 8 << 20;

/// The text of a document, and where it came from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Document<'a> {
    /// Its text.
    pub(super) text: &'a str,
    /// The base of its relative IRIs.
    pub(super) url: &'a Url,
    /// How to parse it.
    pub(super) format: RdfFormat,
}

impl Document<'_> {
    /// The error for a document that can't be parsed.
    pub(super) fn not_rdf(&self, why: &str) -> ReadError {
        ReadError::NotTheProtocol {
            url: self.url.to_string(),
            expected: name_of(self.format),
            // A parser's message quotes the input, which can be long and hold anything.
            why: why.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect(),
            start: quoted_start(self.text.trim_start().as_bytes()),
        }
    }

    /// The error for a document that passes a limit.
    pub(super) fn over_limit(&self, what: impl Into<String>, limit: u64) -> ReadError {
        ReadError::OverLimit { url: self.url.to_string(), what: what.into(), limit }
    }
}

/// The document's graph.
pub(super) fn parse(document: Document<'_>, forgiven: &mut BTreeMap<Forgiven, u64>) -> Result<Graph, ReadError> {
    let mut sink = Sink { document, graph: GraphBuilder::default(), bytes: 0, oversized: 0 };
    let not_rdf = |error: &dyn std::fmt::Display| document.not_rdf(&error.to_string());
    let base = document.url.as_str();
    let Document { text, .. } = document;
    match document.format {
        RdfFormat::Turtle => {
            let parser = TurtleParser::new().lenient().with_base_iri(base).map_err(|e| not_rdf(&e))?;
            for triple in parser.for_slice(text) {
                let triple = triple.map_err(|e| not_rdf(&e))?;
                sink.add(triple.subject.into(), triple.predicate, triple.object)?;
            }
        }
        RdfFormat::NTriples => {
            for triple in NTriplesParser::new().lenient().for_slice(text) {
                let triple = triple.map_err(|e| not_rdf(&e))?;
                sink.add(triple.subject.into(), triple.predicate, triple.object)?;
            }
        }
        RdfFormat::RdfXml => {
            guard_xml::check(document)?;
            let parser = RdfXmlParser::new().lenient().with_base_iri(base).map_err(|e| not_rdf(&e))?;
            for triple in parser.for_slice(text) {
                let triple = triple.map_err(|e| not_rdf(&e))?;
                sink.add(triple.subject.into(), triple.predicate, triple.object)?;
            }
        }
        RdfFormat::JsonLd => {
            let contexts = guard_json::check(document)?;
            if contexts.remote > 0 {
                *forgiven.entry(Forgiven::RemoteContext).or_default() += contexts.remote;
            }
            let wrapped = contexts.missing.then(|| format!("{{\"@context\":\"missing:\",\"@graph\":{text}}}"));
            if wrapped.is_some() {
                *forgiven.entry(Forgiven::MissingContext).or_default() += 1;
            }
            let text = wrapped.as_deref().unwrap_or(text);
            let parser = JsonLdParser::new().lenient().with_base_iri(base).map_err(|e| not_rdf(&e))?;
            let quads = parser.for_slice(text).with_load_document_callback(|url, _| {
                Ok(JsonLdRemoteDocument {
                    document: context_for(url).as_bytes().to_vec(),
                    document_url: url.to_owned(),
                })
            });
            for quad in quads {
                match quad {
                    Ok(quad) => sink.add(quad.subject.into(), quad.predicate, quad.object)?,
                    // A code stands for a fault in the meaning: that value is lost, the rest is read.
                    Err(error) if error.code().is_some() => *forgiven.entry(Forgiven::UnexpectedType).or_default() += 1,
                    Err(error) => return Err(not_rdf(&JsonLdParseError::from(error))),
                }
            }
        }
    }
    if sink.graph.len() == 0 {
        return Err(document.not_rdf("it holds no triples"));
    }
    for (fault, times) in [
        (Forgiven::InvalidIri, sink.graph.invalid_iris),
        (Forgiven::MisnamedProperty, sink.graph.misnamed),
        (Forgiven::OversizedValue, sink.oversized),
    ] {
        if times > 0 {
            *forgiven.entry(fault).or_default() += times;
        }
    }
    Ok(sink.graph.finish())
}

/// Where triples go: counted, measured, then into the graph.
struct Sink<'a> {
    document: Document<'a>,
    graph: GraphBuilder,
    bytes: u64,
    oversized: u64,
}

impl Sink<'_> {
    fn add(&mut self, subject: Term, predicate: NamedNode, object: Term) -> Result<(), ReadError> {
        self.bytes += (text_of(&subject).len() + predicate.as_str().len() + text_of(&object).len()) as u64;
        let most_bytes = GROWTH_FREE_BYTES + MAX_GROWTH * self.document.text.len() as u64;
        if self.bytes > most_bytes {
            return Err(self
                .document
                .over_limit("longer than its text by far once its prefixes are written out", most_bytes));
        }
        if self.graph.len() as u64 >= MAX_TRIPLES {
            return Err(self.document.over_limit("of more triples than one document may have", MAX_TRIPLES));
        }
        if !has_scheme(predicate.as_str()) {
            // A JSON key without a meaning (`__comment`), which the lenient mode lets through.
            return Ok(());
        }
        if [&subject, &object].iter().any(|term| matches!(term, Term::NamedNode(iri) if !has_scheme(iri.as_str()))) {
            self.graph.invalid_iris += 1;
            return Ok(());
        }
        if is_oversized(&subject) || predicate.as_str().len() > MAX_IRI_BYTES || is_oversized(&object) {
            self.oversized += 1;
            return Ok(());
        }
        self.graph.add(subject, predicate, object);
        Ok(())
    }
}

fn text_of(term: &Term) -> &str {
    match term {
        Term::NamedNode(iri) => iri.as_str(),
        Term::BlankNode(node) => node.as_str(),
        Term::Literal(literal) => literal.value(),
    }
}

/// Whether an IRI is absolute.
fn has_scheme(iri: &str) -> bool {
    iri.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    })
}

fn is_oversized(term: &Term) -> bool {
    text_of(term).len() > if matches!(term, Term::Literal(_)) { MAX_LITERAL_BYTES } else { MAX_IRI_BYTES }
}
