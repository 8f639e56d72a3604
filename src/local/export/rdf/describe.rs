//! A record that was read from JSON, in DCAT terms.

use oxrdf::vocab::rdf;
use oxrdf::{NamedNode, NamedNodeRef, NamedOrBlankNode, Term, Triple};

use super::vocabulary::{dcat, dct, foaf, odrl};
use super::{BlankNames, Statements, own_iri, terms};
use crate::record::{Agent, Distribution, LangString, Record};
use crate::store::RecordKey;

/// What the record's properties say.
pub(super) fn statements(key: &RecordKey, record: &Record, names: &BlankNames) -> Statements {
    let subject = NamedNode::new(key.id.as_str()).unwrap_or_else(|_| own_iri(key));
    let mut description = Description { names, triples: Vec::new() };
    description.dataset(&NamedOrBlankNode::from(subject.clone()), record);
    Statements { subject, triples: description.triples, left_out: 0 }
}

struct Description<'a> {
    names: &'a BlankNames,
    triples: Vec<Triple>,
}

impl Description<'_> {
    fn dataset(&mut self, dataset: &NamedOrBlankNode, record: &Record) {
        self.say(dataset, rdf::TYPE, dcat::DATASET);
        self.texts(dataset, dct::TITLE, &record.title);
        self.texts(dataset, dct::DESCRIPTION, &record.description);
        self.texts(dataset, dcat::KEYWORD, &record.keywords);
        for theme in &record.themes {
            self.say(dataset, dcat::THEME, terms::iri_or_text(theme));
        }
        for (predicate, value) in [(dct::ISSUED, &record.issued), (dct::MODIFIED, &record.modified)] {
            if let Some(value) = value {
                self.say(dataset, predicate, terms::date(value));
            }
        }
        self.iri_or_text(dataset, dct::LICENSE, record.license.as_deref());
        for offer in &record.offers {
            self.say(dataset, odrl::HAS_POLICY, terms::json(offer));
        }
        let publisher = record.publisher.as_ref().map(|agent| (self.node(agent.id.as_deref(), "publisher"), agent));
        if let Some((node, _)) = &publisher {
            self.say(dataset, dct::PUBLISHER, node.clone());
        }
        let distributions: Vec<_> = (1..)
            .zip(&record.distributions)
            .map(|(number, d): (u64, _)| (self.node(d.id.as_deref(), &format!("distribution{number}")), d))
            .collect();
        for (node, _) in &distributions {
            self.say(dataset, dcat::DISTRIBUTION, node.clone());
        }
        if let Some((node, agent)) = publisher {
            self.agent(&node, agent);
        }
        for (node, distribution) in distributions {
            self.distribution(&node, distribution);
        }
    }

    fn agent(&mut self, node: &NamedOrBlankNode, agent: &Agent) {
        self.say(node, rdf::TYPE, foaf::AGENT);
        if let Some(name) = &agent.name {
            self.say(node, foaf::NAME, terms::plain(name));
        }
        self.identifier(node, agent.id.as_deref());
    }

    fn distribution(&mut self, node: &NamedOrBlankNode, distribution: &Distribution) {
        self.say(node, rdf::TYPE, dcat::DISTRIBUTION_CLASS);
        self.identifier(node, distribution.id.as_deref());
        self.texts(node, dct::TITLE, &distribution.title);
        self.iri_or_text(node, dct::FORMAT, distribution.format.as_deref());
        self.iri_or_text(node, dcat::MEDIA_TYPE, distribution.media_type.as_deref());
        self.iri_or_text(node, dcat::ACCESS_URL, distribution.access_url.as_deref());
        self.iri_or_text(node, dcat::DOWNLOAD_URL, distribution.download_url.as_deref());
    }

    fn say(&mut self, subject: &NamedOrBlankNode, predicate: NamedNodeRef<'_>, object: impl Into<Term>) {
        self.triples.push(Triple::new(subject.clone(), predicate.into_owned(), object));
    }

    fn texts(&mut self, subject: &NamedOrBlankNode, predicate: NamedNodeRef<'_>, texts: &[LangString]) {
        for text in texts {
            self.say(subject, predicate, terms::in_language(text));
        }
    }

    fn iri_or_text(&mut self, subject: &NamedOrBlankNode, predicate: NamedNodeRef<'_>, value: Option<&str>) {
        if let Some(value) = value {
            self.say(subject, predicate, terms::iri_or_text(value));
        }
    }

    /// An id that could not be the node's IRI.
    fn identifier(&mut self, node: &NamedOrBlankNode, id: Option<&str>) {
        if let (NamedOrBlankNode::BlankNode(_), Some(id)) = (node, id) {
            self.say(node, dct::IDENTIFIER, terms::plain(id));
        }
    }

    fn node(&self, id: Option<&str>, label: &str) -> NamedOrBlankNode {
        match id.and_then(terms::iri) {
            Some(iri) => iri.into(),
            None => self.names.named(label).into(),
        }
    }
}
