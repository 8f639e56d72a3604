//! Two DCAT feeds: one Turtle document with an `ETag`, and JSON-LD in Hydra pages.

use std::fmt::Write;

use hyper::header::ETAG;
use serde_json::{Value, json};

use super::collection::{self, Dataset, Text};
use super::server::{Answer, Ask};

/// The fisheries' datasets a page.
const PAGE_SIZE: usize = 20;

/// One document at `/catalog.ttl`.
pub(super) fn coastal_survey(ask: &Ask) -> Answer {
    if ask.path != "/catalog.ttl" {
        return Answer::html(404, "Not Found");
    }
    let document = turtle(ask.generation);
    let etag = format!("\"{}\"", &blake3::hash(document.as_bytes()).to_hex()[..16]);
    let answer = if ask.if_none_match.as_deref() == Some(&etag) {
        Answer::new(304, "text/turtle", "")
    } else {
        Answer::new(200, "text/turtle; charset=utf-8", document)
    };
    answer.with(ETAG, etag)
}

fn turtle(generation: u64) -> String {
    let host = collection::COAST.host;
    let mut out = format!(
        "@base <https://{host}/> .\n\
         @prefix dcat: <http://www.w3.org/ns/dcat#> .\n\
         @prefix dct: <http://purl.org/dc/terms/> .\n\
         @prefix foaf: <http://xmlns.com/foaf/0.1/> .\n\
         @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n\n\
         <catalog> a dcat:Catalog ;\n  dct:title \"Coastal survey\"@en, \"Küstenvermessung\"@de .\n\
         <office> a foaf:Agent ; foaf:name {} .\n",
        quoted(collection::COAST.publisher)
    );
    for dataset in collection::COAST.datasets(generation) {
        // Writing to a String can't fail.
        let _written = write_turtle(&mut out, &dataset);
    }
    out
}

fn write_turtle(out: &mut String, dataset: &Dataset) -> std::fmt::Result {
    let slug = &dataset.slug;
    writeln!(out, "\n<catalog> dcat:dataset <dataset/{slug}> .")?;
    // The record about the description: not a dataset, though it has dates and a title too.
    writeln!(out, "<record/{slug}> a dcat:CatalogRecord ; foaf:primaryTopic <dataset/{slug}> .")?;
    writeln!(out, "<dataset/{slug}> a dcat:Dataset ;")?;
    for title in &dataset.titles {
        writeln!(out, "  dct:title {} ;", tagged(title))?;
    }
    writeln!(out, "  dct:description {} ;", tagged(&dataset.description))?;
    for keyword in &dataset.keywords {
        writeln!(out, "  dcat:keyword {}@en ;", quoted(keyword))?;
    }
    // Three datasets share each identifier: it is the series', not the dataset's.
    writeln!(out, "  dct:identifier \"series-{}\" ;", dataset.index / 3)?;
    writeln!(out, "  dcat:theme <http://publications.europa.eu/resource/authority/data-theme/ENVI> ;")?;
    writeln!(out, "  dct:issued \"{}\"^^xsd:date ;", dataset.issued)?;
    writeln!(out, "  dct:modified \"{}T12:00:00\"^^xsd:dateTime ;", dataset.modified)?;
    for which in 0..dataset.distributions {
        let (format, media_type) = [("tif", "image/tiff"), ("zip", "application/zip")][usize::from(which > 0)];
        writeln!(
            out,
            "  dcat:distribution [ a dcat:Distribution ; dcat:downloadURL <files/{slug}.{format}> ; \
             dcat:mediaType <https://www.iana.org/assignments/media-types/{media_type}> ; \
             dct:license <https://creativecommons.org/licenses/by/4.0/> ] ;"
        )?;
    }
    writeln!(out, "  dct:publisher <office> .")
}

fn tagged((language, text): &Text) -> String {
    format!("{}@{language}", quoted(text))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// Pages at `/catalog.jsonld?page=N`: a bare array in expanded form, as ckanext-dcat writes it.
pub(super) fn fisheries(ask: &Ask) -> Answer {
    if ask.path != "/catalog.jsonld" {
        return Answer::html(404, "Not Found");
    }
    let page = ask.number("page", 1);
    if page == 0 {
        return Answer::html(409, "Page number must be positive");
    }
    let all: Vec<Dataset> = collection::FISHERIES.datasets(ask.generation).collect();
    let datasets: Vec<&Dataset> = all.iter().skip((page - 1) * PAGE_SIZE).take(PAGE_SIZE).collect();
    let mut graph = vec![json!({
        "@id": format!("https://{}/", collection::FISHERIES.host),
        "@type": ["http://www.w3.org/ns/dcat#Catalog"],
        "http://purl.org/dc/terms/title": [{"@value": "Fisheries 🐟"}],
        "http://www.w3.org/ns/dcat#dataset": datasets.iter().map(|dataset| json!({"@id": iri(dataset)})).collect::<Vec<_>>(),
    })];
    graph.push(hydra_page(ask, page, all.len()));
    graph.extend(datasets.into_iter().flat_map(expanded));
    Answer::new(200, "application/ld+json", Value::Array(graph).to_string())
}

/// The page's description. The catalogue doesn't link to it, and its links are texts.
fn hydra_page(ask: &Ask, page: usize, total: usize) -> Value {
    let last = total.div_ceil(PAGE_SIZE);
    let link = |page: usize| json!([{"@value": format!("{}/catalog.jsonld?page={page}", ask.origin)}]);
    let hydra = |term: &str| format!("http://www.w3.org/ns/hydra/core#{term}");
    let mut node = json!({
        "@id": format!("{}/catalog.jsonld?page={page}", ask.origin),
        "@type": [hydra("PagedCollection")],
    });
    node[hydra("totalItems")] = json!([{"@value": total}]);
    node[hydra("itemsPerPage")] = json!([{"@value": PAGE_SIZE}]);
    node[hydra("first")] = link(1);
    node[hydra("last")] = link(last);
    if page < last {
        node[hydra("next")] = link(page + 1);
        node[hydra("nextPage")] = link(page + 1);
    }
    if page > 1 {
        node[hydra("previous")] = link(page - 1);
    }
    node
}

fn iri(dataset: &Dataset) -> String {
    format!("https://{}/dataset/{}", collection::FISHERIES.host, dataset.slug)
}

fn dct(term: &str) -> String {
    format!("http://purl.org/dc/terms/{term}")
}

fn dcat(term: &str) -> String {
    format!("http://www.w3.org/ns/dcat#{term}")
}

/// The nodes that describe a dataset: itself and its distributions.
fn expanded(dataset: &Dataset) -> Vec<Value> {
    let text = |(language, value): &Text| json!({"@language": language, "@value": value});
    let distribution = |which: u64| format!("{}/resource/{which}", iri(dataset));
    let mut node = json!({"@id": iri(dataset), "@type": [dcat("Dataset")]});
    if !dataset.titles.is_empty() {
        node[dct("title")] = dataset.titles.iter().map(text).collect();
    }
    node[dct("description")] = json!([text(&dataset.description)]);
    node[dct("identifier")] = json!([{"@value": dataset.id}]);
    node[dct("modified")] = json!([{"@type": "http://www.w3.org/2001/XMLSchema#dateTime", "@value": format!("{}T00:00:00", dataset.modified)}]);
    node[dct("publisher")] = json!([{"@id": format!("https://{}/directorate", collection::FISHERIES.host)}]);
    node[dcat("keyword")] = dataset.keywords.iter().map(|keyword| json!({"@value": keyword})).collect();
    if dataset.distributions > 0 {
        node[dcat("distribution")] =
            (0..dataset.distributions).map(|which| json!({"@id": distribution(which)})).collect();
    }
    let mut nodes = vec![node];
    nodes.extend((0..dataset.distributions).map(|which| {
        let mut node = json!({"@id": distribution(which), "@type": [dcat("Distribution")]});
        node[dcat("accessURL")] =
            json!([{"@id": format!("https://{}/files/{}/{which}", collection::FISHERIES.host, dataset.slug)}]);
        node[dct("format")] = json!([{"@value": (["CSV", "XLSX"][usize::from(which > 0)])}]);
        node
    }));
    nodes
}
