//! From a dataset's node to a record. Lists are sorted, so that the order of triples does not show.

use oxrdf::Term;
use serde_json::value::RawValue;

use super::canonical::Canonical;
use super::graph::{Graph, TermId};
use super::vocabulary::{FOAF_NAME, LABELS, ODRL_HAS_POLICY, dcat, dct};
use crate::record::{Agent, Distribution, LangString, Record};

/// The record of a dataset.
pub(super) fn record_of(graph: &Graph, dataset: TermId, id: String, canonical: Canonical) -> Record {
    let mut record = Record::new(id, canonical.hash);
    record.raw_triples = Some(canonical.triples);
    record.title = lang_strings(graph, dataset, dct::TITLE);
    record.description = lang_strings(graph, dataset, dct::DESCRIPTION);
    record.publisher = graph.objects(dataset, dct::PUBLISHER).map(|agent| agent_of(graph, agent)).min_by_key(agent_key);
    record.keywords = lang_strings(graph, dataset, dcat::KEYWORD);
    record.themes = names(graph, dataset, dcat::THEME);
    record.issued = names(graph, dataset, dct::ISSUED).into_iter().next();
    record.modified = names(graph, dataset, dct::MODIFIED).into_iter().next_back();
    let nodes: Vec<TermId> = graph.objects(dataset, dcat::DISTRIBUTION).collect();
    let license_of = |node: &TermId| names(graph, *node, dct::LICENSE).into_iter().next();
    record.license = license_of(&dataset).or_else(|| nodes.iter().filter_map(license_of).min());
    record.distributions = nodes.iter().map(|node| distribution_of(graph, *node)).collect();
    record
        .distributions
        .sort_by_cached_key(|d| (d.id.clone(), d.download_url.clone(), d.access_url.clone(), d.format.clone()));
    record.offers = iris(graph, dataset, ODRL_HAS_POLICY).iter().filter_map(|iri| json_string(iri)).collect();
    record
}

fn distribution_of(graph: &Graph, node: TermId) -> Distribution {
    let first = |property| names(graph, node, property).into_iter().next();
    let endpoint = || {
        let services = graph.objects(node, dcat::ACCESS_SERVICE);
        services.filter_map(|service| names(graph, service, dcat::ENDPOINT_URL).into_iter().next()).min()
    };
    Distribution {
        id: iri_of(graph, node),
        title: lang_strings(graph, node, dct::TITLE),
        format: first(dct::FORMAT),
        media_type: first(dcat::MEDIA_TYPE),
        access_url: first(dcat::ACCESS_URL).or_else(endpoint),
        download_url: first(dcat::DOWNLOAD_URL),
    }
}

fn agent_of(graph: &Graph, node: TermId) -> Agent {
    if let Term::Literal(name) = graph.term(node) {
        return Agent { id: None, name: Some(name.value().to_owned()) };
    }
    // A name in English or in no language, where there is one: a federation has many languages, a name one place.
    let mut names = lang_strings(graph, node, FOAF_NAME);
    names.sort_by_key(|name| !matches!(name.lang.as_deref(), None | Some("en")));
    let name = names.into_iter().next().map(|name| name.value).or_else(|| label_of(graph, node));
    Agent { id: iri_of(graph, node), name }
}

fn agent_key(agent: &Agent) -> (bool, Option<String>, Option<String>) {
    (agent.id.is_none(), agent.id.clone(), agent.name.clone())
}

/// The literals of a property, sorted by language.
fn lang_strings(graph: &Graph, node: TermId, property: &str) -> Vec<LangString> {
    let mut texts: Vec<LangString> = graph
        .objects(node, property)
        .filter_map(|object| match graph.term(object) {
            Term::Literal(text) => {
                Some(LangString { value: text.value().to_owned(), lang: text.language().map(str::to_owned) })
            }
            Term::NamedNode(_) | Term::BlankNode(_) => None,
        })
        .collect();
    texts.sort_by(|a, b| (&a.lang, &a.value).cmp(&(&b.lang, &b.value)));
    texts
}

/// What a property's values are called, sorted: IRIs and literals as written, blank nodes by their label.
pub(super) fn names(graph: &Graph, node: TermId, property: &str) -> Vec<String> {
    let mut names: Vec<String> = graph
        .objects(node, property)
        .filter_map(|object| match graph.term(object) {
            Term::Literal(text) => Some(text.value().to_owned()),
            Term::NamedNode(_) | Term::BlankNode(_) => iri_of(graph, object).or_else(|| label_of(graph, object)),
        })
        .filter(|name| !name.is_empty())
        .collect();
    names.sort_unstable();
    names
}

fn iris(graph: &Graph, node: TermId, property: &str) -> Vec<String> {
    let mut iris: Vec<String> = graph.objects(node, property).filter_map(|object| iri_of(graph, object)).collect();
    iris.sort_unstable();
    iris
}

fn label_of(graph: &Graph, node: TermId) -> Option<String> {
    LABELS.iter().find_map(|property| lang_strings(graph, node, property).into_iter().next()).map(|label| label.value)
}

/// A node's IRI, if it has a lasting one.
pub(super) fn iri_of(graph: &Graph, node: TermId) -> Option<String> {
    match graph.term(node) {
        Term::NamedNode(iri) if !graph.is_blank(node) => Some(iri.as_str().to_owned()),
        _ => None,
    }
}

fn json_string(text: &str) -> Option<Box<RawValue>> {
    serde_json::value::to_raw_value(text).ok()
}
