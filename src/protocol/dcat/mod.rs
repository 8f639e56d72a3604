//! DCAT and DCAT-AP: catalogues as RDF, in one document or in pages.
//!
//! A task's cursor is the address to ask, or for a dataset that a catalogue only links, the dataset's IRI.
//!
//! - Record id: the dataset's IRI, as written. A dataset without one: see [`identity`].
//! - Datasets that are only linked are fetched from the endpoint's host only, and by the endpoint's scheme.
//! - A document is asked for on condition that it changed, a paged feed for what changed: see [`changes`].
//! - Catalogues that are only linked (`dct:hasPart`, `dcat:catalog`) are not followed.
//! - What the content hash leaves out: see [`canonical`]; which triples belong to a dataset: see [`description`].

mod canonical;
mod changes;
mod datasets;
mod description;
mod format;
mod graph;
mod guard_json;
mod guard_xml;
mod identity;
mod jsonld_context;
mod linked;
mod paging;
mod parse;
mod record;
mod text;
mod vocabulary;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use url::Url;

use self::changes::Signs;
use self::datasets::Nodes;
use self::graph::Graph;
use self::identity::Refusal;
use self::paging::Next;
use self::parse::Document;
use super::{
    DcatSettings, Forgiven, InFull, Limited, NodeContext, Page, ProtocolSettings, RdfFormat, ReadError, Reader,
    Reading, Rejected, Request, Response, normalised_endpoint, origin_of, quoted_start,
};
use crate::task::{MAX_CURSOR_BYTES, SectionKey, Task, TaskKind};

/// The most page links of one document that are followed.
const MAX_NEXT_LINKS: usize = 16;
/// All raw triples of a page: shared descriptions are repeated in each record, but not without end.
const MAX_RAW_GROWTH: u64 = 16;
const RAW_FREE_BYTES: u64 = 4 << 20;

/// Reads DCAT documents and feeds.
#[derive(Debug, Default)]
pub struct DcatReader;

impl DcatReader {
    /// A reader; it keeps no state.
    pub fn new() -> Self {
        Self
    }
}

/// What a document that speaks of catalogues or datasets is called (`DCAT (Turtle)`); why it isn't one, otherwise.
pub(crate) fn recognise(response: &Response) -> Result<&'static str, ReadError> {
    let mut page = Page::default();
    let text = text::decode_text(&response.body, response.content_type.as_deref(), &mut page.forgiven);
    let format = choose_format(None, response, &text, &mut page)?;
    let document = Document { text: &text, url: &response.url, format };
    let graph = parse::parse(document, &mut page.forgiven)?;
    let nodes = datasets::find(&graph, &mut page.forgiven);
    if nodes.boundaries.is_empty() {
        return Err(document.not_rdf("it is RDF that speaks of no catalogue and no dataset"));
    }
    Ok(format::name_of(format))
}

impl Reader for DcatReader {
    fn root_task(&self, node: &NodeContext) -> Result<Task, ReadError> {
        if node.endpoint.host_str().is_none() {
            return Err(ReadError::BadEndpoint { url: node.endpoint.to_string(), why: "it names no host".to_owned() });
        }
        Ok(page_task(node, &node.endpoint))
    }

    fn request(&self, node: &NodeContext, task: &Task) -> Result<Request, ReadError> {
        let mut url = Url::parse(&task.cursor).map_err(|_| ReadError::BadCursor { cursor: task.cursor.to_string() })?;
        if task.kind == TaskKind::Dataset {
            url = linked::on_own_origin(&url, &node.endpoint)
                .ok_or_else(|| ReadError::BadCursor { cursor: task.cursor.to_string() })?;
        }
        url.set_fragment(None);
        let accept = accept(settings_of(node).format);
        let is_root = task.kind == TaskKind::Root;
        Ok(match changes::since(node, task).filter(|_| is_root) {
            Some(since) => {
                Request { decodes_client_errors: true, ..Request::get(changes::address(url, since), accept) }
            }
            None => Request { conditional: is_root, ..Request::get(url, accept) },
        })
    }

    fn decode(&self, node: &NodeContext, task: &Task, response: &Response) -> Result<Page, ReadError> {
        let since = changes::since(node, task);
        if since.is_some() && task.kind == TaskKind::Root && changes::is_refusal(response) {
            return Ok(changes::ask_in_full(node, task, InFull::Refused));
        }
        let mut page = Page::default();
        let text = text::decode_text(&response.body, response.content_type.as_deref(), &mut page.forgiven);
        let document = Document {
            text: &text,
            url: &response.url,
            format: choose_format(settings_of(node).format, response, &text, &mut page)?,
        };
        page.protocol = Cow::Borrowed(format::name_of(document.format));
        let graph = parse::parse(document, &mut page.forgiven)?;
        let nodes = datasets::find(&graph, &mut page.forgiven);
        if task.kind == TaskKind::Dataset {
            linked::decode_one(&graph, &nodes, &task.cursor, &mut page);
            return Ok(page);
        }
        let next = paging::next_pages(&graph, &response.links, &response.url, &node.endpoint);
        let signs = Signs {
            next: &next.iter().filter_map(Next::url).collect::<Vec<_>>(),
            pages: &paging::pages(&graph, &response.url),
            has_datasets: !(nodes.described.is_empty() && nodes.linked.is_empty()),
            date: response.date,
        };
        if let Some(why) = since.and_then(|since| signs.contradict(since)) {
            return Ok(changes::ask_in_full(node, task, why));
        }
        page.reading = Some(match since {
            Some(since) => Reading::Since(since),
            None if task.kind == TaskKind::Root && next.is_empty() => Reading::FullBecause(InFull::OneDocument),
            None => Reading::Full,
        });
        if changes::is_first(node, task) {
            page.checkpoint = signs.checkpoint(node, since);
        }
        read_records(document, &graph, &nodes, &mut page)?;
        add_linked(node, task, &graph, &nodes, &mut page);
        add_next_pages(node, task, next, document, &mut page)?;
        page.total = paging::total(&graph);
        Ok(page)
    }
}

fn settings_of(node: &NodeContext) -> DcatSettings {
    match &node.settings {
        ProtocolSettings::Dcat(settings) => settings.clone(),
        _ => DcatSettings { format: None, follow_linked_datasets: true },
    }
}

fn accept(format: Option<RdfFormat>) -> &'static str {
    match format {
        None => {
            "text/turtle, application/ld+json;q=0.9, application/rdf+xml;q=0.8, application/n-triples;q=0.8, */*;q=0.1"
        }
        Some(RdfFormat::Turtle) => "text/turtle, */*;q=0.1",
        Some(RdfFormat::JsonLd) => "application/ld+json, application/json;q=0.5, */*;q=0.1",
        Some(RdfFormat::NTriples) => "application/n-triples, */*;q=0.1",
        Some(RdfFormat::RdfXml) => "application/rdf+xml, application/xml;q=0.5, */*;q=0.1",
    }
}

fn choose_format(
    from_settings: Option<RdfFormat>,
    response: &Response,
    text: &str,
    page: &mut Page,
) -> Result<RdfFormat, ReadError> {
    let not_rdf = |why: &str| ReadError::NotTheProtocol {
        url: response.url.to_string(),
        expected: "a DCAT document",
        why: why.to_owned(),
        start: quoted_start(text.trim_start().as_bytes()),
    };
    let look = format::look_of(text);
    if look == format::Look::Html {
        return Err(not_rdf("it is an HTML page"));
    }
    if text.trim().is_empty() {
        return Err(not_rdf("it is empty"));
    }
    let content_type = response.content_type.as_deref();
    if let Some(format) = from_settings {
        return Ok(format);
    }
    let choice = format::choose_format(look, content_type, response.url.path())
        .ok_or_else(|| not_rdf("neither its type nor its text nor its address is that of an RDF document"))?;
    if choice.contradicts_content_type {
        *page.forgiven.entry(Forgiven::ContentTypeMismatch).or_default() += 1;
    }
    Ok(choice.format)
}

fn read_records(document: Document<'_>, graph: &Graph, nodes: &Nodes, page: &mut Page) -> Result<(), ReadError> {
    let most_raw_bytes = RAW_FREE_BYTES + MAX_RAW_GROWTH * document.text.len() as u64;
    let mut raw_bytes = 0;
    let identities = identity::Identities::of(graph, nodes);
    let mut ids = HashSet::new();
    for (at, &dataset) in nodes.described.iter().enumerate() {
        let read = identities.record(graph, nodes, dataset);
        raw_bytes += match &read {
            Ok((record, _)) => record.raw_triples.as_ref().map_or(0, |triples| triples.len() as u64),
            // To find that out took as long as to read the longest description.
            Err(Refusal::TooLarge) => description::MAX_RECORD_TRIPLES as u64 * 64,
            Err(Refusal::SaysNothing) => 0,
        };
        if raw_bytes > most_raw_bytes {
            return Err(document.over_limit("whose datasets repeat the same descriptions too often", most_raw_bytes));
        }
        match read {
            Ok((record, has_own_id)) => {
                if !has_own_id {
                    *page.forgiven.entry(Forgiven::MissingProperty).or_default() += 1;
                }
                if ids.insert(record.id.clone()) {
                    page.records.push(record);
                } else {
                    *page.forgiven.entry(Forgiven::DuplicateRecord).or_default() += 1;
                }
            }
            Err(refusal) => {
                let what = record::iri_of(graph, dataset).unwrap_or_else(|| format!("dataset[{at}]"));
                page.rejected.push(Rejected { what, why: refusal.to_string() });
            }
        }
    }
    Ok(())
}

fn add_linked(node: &NodeContext, task: &Task, graph: &Graph, nodes: &Nodes, page: &mut Page) {
    if !settings_of(node).follow_linked_datasets {
        if !nodes.linked.is_empty() {
            *page.forgiven.entry(Forgiven::MissingProperty).or_default() += nodes.linked.len() as u64;
        }
        return;
    }
    for &dataset in &nodes.linked {
        match linked::address_of(graph, dataset, &node.endpoint) {
            Ok((iri, url)) => page.feedback.push(Task {
                page: task.page,
                depth: task.depth,
                provenance: task.provenance.clone(),
                ..Task::new(task.section.clone(), TaskKind::Dataset, origin_of(&url), iri)
            }),
            Err(rejected) => page.rejected.push(rejected),
        }
    }
}

fn add_next_pages(
    node: &NodeContext,
    task: &Task,
    next: Vec<Next>,
    document: Document<'_>,
    page: &mut Page,
) -> Result<(), ReadError> {
    if next.len() > MAX_NEXT_LINKS {
        return Err(document.over_limit("linking to more next pages than it can have", MAX_NEXT_LINKS as u64));
    }
    for next in next {
        let url = match next {
            Next::Own(url) => url,
            Next::BehindProxy(url) => {
                *page.forgiven.entry(Forgiven::ForeignPageLink).or_default() += 1;
                url
            }
            Next::Foreign => {
                page.limited = Some(Limited::ForeignPageLink);
                continue;
            }
        };
        if url.as_str().len() > MAX_CURSOR_BYTES {
            return Err(document.over_limit("whose next page has too long an address", MAX_CURSOR_BYTES as u64));
        }
        page.feedback.push(Task {
            page: task.page + 1,
            depth: task.depth,
            provenance: task.provenance.clone(),
            ..page_task(node, &url)
        });
    }
    Ok(())
}

/// The task for a page. The endpoint itself is always the root, so that a link back to it is a repeat.
fn page_task(node: &NodeContext, url: &Url) -> Task {
    let mut url = url.clone();
    url.set_fragment(None);
    let mut endpoint = node.endpoint.clone();
    endpoint.set_fragment(None);
    let kind = if url == endpoint { TaskKind::Root } else { TaskKind::Page };
    let section = SectionKey::root_of(node.name.clone());
    let task = Task::new(section, kind, origin_of(&url), url.as_str());
    Task { provenance: Arc::from([normalised_endpoint(&node.endpoint)]), ..task }
}
