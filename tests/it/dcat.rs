//! The DCAT reader on documents written for this project, with the shapes and quirks of real ones.

use std::collections::BTreeMap;

use trawler::protocol::dcat::DcatReader;
use trawler::protocol::{
    DcatSettings, Forgiven, Limited, Page, ProtocolSettings, RdfFormat, ReadError, Reader, Rejected, Request,
};
use trawler::record::{Agent, Distribution, LangString};
use trawler::task::TaskKind;
use url::Url;

use crate::support::dcat::{answer, cursors, fixture, node, read_root, root_task};
use crate::support::{exchange, reader_contract};

const HARBOUR: &str = "https://data.harbour.example/catalog";

fn ids(page: &Page) -> Vec<&str> {
    page.records.iter().map(|record| record.id.as_str()).collect()
}

fn ids_and_hashes(page: &Page) -> BTreeMap<String, String> {
    page.records.iter().map(|record| (record.id.clone(), record.content_hash.to_string())).collect()
}

fn text(value: &str, lang: &str) -> LangString {
    LangString { value: value.to_owned(), lang: (!lang.is_empty()).then(|| lang.to_owned()) }
}

#[test]
fn a_record_holds_what_the_dataset_says() {
    let page = read_root(HARBOUR, "text/turtle", fixture("harbour.ttl")).unwrap();
    assert_eq!(page.protocol, "DCAT (Turtle)");
    assert_eq!(page.forgiven, BTreeMap::new());
    assert_eq!(page.rejected, []);
    let record = page.records.iter().find(|r| r.id == "https://data.harbour.example/dataset/tides").unwrap();
    assert_eq!(record.title, [text("Gezeiten", "de"), text("Tide levels", "en")]);
    assert_eq!(record.description, [text("Every ten minutes, since 1994.", "en")]);
    assert_eq!(record.keywords, [text("sea level", "en"), text("tide", "en")]);
    assert_eq!(record.themes, ["http://publications.europa.eu/resource/authority/data-theme/ENVI"]);
    assert_eq!(record.issued.as_deref(), Some("1994-02-01"));
    assert_eq!(record.modified.as_deref(), Some("2026-11-30T04:10:00"));
    assert_eq!(record.license.as_deref(), Some("http://creativecommons.org/licenses/by/4.0/"));
    assert_eq!(
        record.publisher,
        Some(Agent {
            id: Some("https://data.harbour.example/org/port-authority".to_owned()),
            name: Some("Port Authority".to_owned())
        })
    );
    assert_eq!(
        record.offers.iter().map(|o| o.get()).collect::<Vec<_>>(),
        ["\"https://data.harbour.example/policy/open\""]
    );
    assert_eq!(
        record.distributions,
        [
            Distribution {
                title: vec![text("Live", "")],
                access_url: Some("https://api.harbour.example/tides".to_owned()),
                ..Distribution::default()
            },
            Distribution {
                id: Some("https://data.harbour.example/dataset/tides/csv".to_owned()),
                title: vec![],
                format: Some("CSV".to_owned()),
                media_type: Some("https://www.iana.org/assignments/media-types/text/csv".to_owned()),
                access_url: Some("https://data.harbour.example/dataset/tides/about".to_owned()),
                download_url: Some("https://data.harbour.example/files/tides.csv".to_owned()),
            },
        ]
    );
    let raw = record.raw_triples.as_deref().unwrap();
    assert!(raw.lines().is_sorted(), "{raw}");
    assert!(raw.contains("_:b0 <http://www.w3.org/2006/vcard/ns#fn> \"Tide desk\" .\n"), "{raw}");
    assert!(!raw.contains("dcat#Catalog>"), "{raw}");
}

#[test]
fn the_same_data_has_the_same_ids_and_hashes_in_every_serialisation() {
    let turtle = read_root(HARBOUR, "text/turtle", fixture("harbour.ttl")).unwrap();
    let xml = read_root(HARBOUR, "application/rdf+xml", fixture("harbour.rdf")).unwrap();
    let json = read_root(HARBOUR, "application/ld+json", fixture("harbour.jsonld")).unwrap();
    assert_eq!((xml.protocol.as_ref(), json.protocol.as_ref()), ("DCAT (RDF/XML)", "DCAT (JSON-LD)"));
    assert_eq!(ids_and_hashes(&turtle), ids_and_hashes(&xml));
    assert_eq!(ids_and_hashes(&turtle), ids_and_hashes(&json));
    let n_triples =
        turtle.records.iter().filter_map(|r| r.raw_triples.as_deref()).collect::<String>().replace("_:b", "_:x");
    let again = read_root(HARBOUR, "application/n-triples", n_triples.into_bytes()).unwrap();
    assert_eq!(again.protocol, "DCAT (N-Triples)");
    // Both records bring blank nodes of the same names, but only one has any.
    assert_eq!(ids_and_hashes(&turtle), ids_and_hashes(&again));
}

#[test]
fn the_order_of_triples_and_the_names_of_blank_nodes_do_not_show() {
    let turtle = read_root(HARBOUR, "text/turtle", fixture("harbour.ttl")).unwrap();
    let triples: String = turtle.records.iter().filter_map(|record| record.raw_triples.as_deref()).collect();
    let mut lines: Vec<&str> = triples.lines().collect();
    let read = |lines: &[&str], b0: &str, b1: &str| {
        let text = lines.join("\n").replace("_:b0", b0).replace("_:b1", b1);
        read_root(HARBOUR, "application/n-triples", text.into_bytes()).unwrap()
    };
    let forward = read(&lines, "_:n7f3", "_:n01c");
    lines.reverse();
    let backward = read(&lines, "_:b1x", "_:zz");
    assert_eq!(ids_and_hashes(&forward), ids_and_hashes(&backward));
    let raw = |page: &Page| {
        let mut raw: Vec<_> = page.records.iter().filter_map(|record| record.raw_triples.clone()).collect();
        raw.sort();
        raw
    };
    assert_eq!(raw(&forward), raw(&backward));
}

#[test]
fn a_changed_value_behind_a_blank_node_changes_the_hash() {
    let before = read_root(HARBOUR, "text/turtle", fixture("harbour.ttl")).unwrap();
    let changed = String::from_utf8(fixture("harbour.ttl")).unwrap().replace("Tide desk", "Tide office");
    let after = read_root(HARBOUR, "text/turtle", changed).unwrap();
    let changed: Vec<String> = ids_and_hashes(&before)
        .into_iter()
        .filter(|(id, hash)| ids_and_hashes(&after).get(id) != Some(hash))
        .map(|(id, _)| id)
        .collect();
    assert_eq!(changed, ["https://data.harbour.example/dataset/tides"]);
}

#[test]
fn ckan_pages_by_strings_on_a_node_that_nothing_links() {
    let page = read_root("https://portal.example/catalog.ttl", "text/turtle", fixture("portal-page-1.ttl")).unwrap();
    assert_eq!(ids(&page), ["https://portal.example/dataset/1", "https://portal.example/dataset/2"]);
    assert_eq!(page.total, Some(3));
    assert_eq!(cursors(&page.feedback), ["https://portal.example/catalog.ttl?page=2"]);
    assert_eq!((page.feedback[0].kind, page.feedback[0].page), (TaskKind::Page, 1));
    assert_eq!(page.limited, None);
}

#[test]
fn a_last_page_as_a_bare_array_without_context_has_no_next() {
    let url = "https://portal.example/catalog.jsonld?page=2";
    let page = read_root(url, "application/ld+json", fixture("portal-page-2.jsonld")).unwrap();
    assert_eq!(ids(&page), ["https://portal.example/dataset/3"]);
    assert_eq!((page.total, page.feedback.len()), (Some(3), 0));
    assert_eq!(page.forgiven, BTreeMap::new());
}

#[test]
fn a_partial_collection_view_pages_by_relative_iri_and_a_remote_context_is_read_without() {
    let page = read_root("https://hub.example/datasets", "application/ld+json", fixture("hub-view.jsonld")).unwrap();
    assert_eq!(ids(&page), ["https://hub.example/set/a"]);
    assert_eq!(page.records[0].distributions[0].access_url.as_deref(), Some("https://hub.example/a.zip"));
    assert_eq!(page.total, Some(250));
    assert_eq!(cursors(&page.feedback), ["https://hub.example/datasets?offset=100"]);
    assert_eq!(page.forgiven, BTreeMap::from([(Forgiven::RemoteContext, 1)]));
}

#[test]
fn the_link_header_pages_where_the_document_does_not() {
    let node = node("https://ldp.example/catalog");
    let mut response = answer("https://ldp.example/catalog", "text/turtle", fixture("catalogue-records.ttl"));
    response.links = vec!["<http://www.w3.org/ns/ldp#Page>; rel=\"type\", <?p=2>; rel=\"next\"".to_owned()];
    let page = DcatReader::new().decode(&node, &root_task(&node), &response).unwrap();
    assert_eq!(cursors(&page.feedback), ["https://ldp.example/catalog?p=2"]);
}

/// Input 1 of those that broke other harvesters.
#[test]
fn page_one_pointing_to_page_two_and_back_is_a_repeated_task() {
    let reader = DcatReader::new();
    let node = node("https://a.example/c.ttl");
    let root = root_task(&node);
    let next = |url: &str, next: &str| {
        let body = format!("<{url}> <http://www.w3.org/ns/hydra/core#next> \"{next}\" .");
        reader.decode(&node, &root, &answer(url, "text/turtle", body)).unwrap().feedback
    };
    let second = next("https://a.example/c.ttl", "https://a.example/c.ttl?page=2");
    let back = next("https://a.example/c.ttl?page=2", "https://a.example/c.ttl");
    assert_ne!(second[0].id, root.id);
    assert_eq!(back[0].id, root.id, "a link back to the endpoint is the root task");
    let to_itself = next("https://a.example/c.ttl?page=2", "https://a.example/c.ttl?page=2");
    assert_eq!(to_itself[0].id, second[0].id);
}

#[test]
fn a_page_link_to_an_internal_host_with_the_same_path_is_followed_on_the_nodes_origin() {
    let body = "<#v> <http://www.w3.org/ns/hydra/core#next> \"http://ckan:5000/catalog.ttl?page=2\" .";
    let page = read_root("https://portal.example/catalog.ttl", "text/turtle", body).unwrap();
    assert_eq!(cursors(&page.feedback), ["https://portal.example/catalog.ttl?page=2"]);
    assert_eq!(page.forgiven, BTreeMap::from([(Forgiven::ForeignPageLink, 1)]));
    assert_eq!(page.limited, None);
}

#[test]
fn a_page_link_to_elsewhere_is_not_followed_and_the_traversal_is_limited() {
    for target in ["http://metadata.internal/latest", "file:///etc/passwd", "javascript:alert(1)"] {
        let body = format!("<#v> <http://www.w3.org/ns/hydra/core#next> \"{target}\" .");
        let page = read_root("https://portal.example/catalog.ttl", "text/turtle", body).unwrap();
        assert_eq!((page.feedback.len(), page.limited), (0, Some(Limited::ForeignPageLink)), "{target}");
    }
}

/// Input 4 of those that broke other harvesters.
#[test]
fn html_with_status_200_is_an_error_that_quotes_its_start() {
    let error = read_root("https://a.example/c", "text/turtle", "<!DOCTYPE html>\n<title>Sorry</title>").unwrap_err();
    assert_eq!(
        error,
        ReadError::NotTheProtocol {
            url: "https://a.example/c".to_owned(),
            expected: "a DCAT document",
            why: "it is an HTML page".to_owned(),
            start: "<!DOCTYPE html> <title>Sorry</title>".to_owned(),
        }
    );
}

/// Input 5 of those that broke other harvesters.
#[test]
fn a_body_that_starts_with_a_byte_order_mark_is_read_normally() {
    for (name, content_type) in [
        ("harbour.ttl", "text/turtle"),
        ("harbour.rdf", "application/rdf+xml"),
        ("harbour.jsonld", "application/ld+json"),
    ] {
        let page = read_root(HARBOUR, content_type, [b"\xEF\xBB\xBF".as_slice(), &fixture(name)].concat()).unwrap();
        assert_eq!(page.records.len(), 2, "{name}");
        assert_eq!(page.forgiven, BTreeMap::from([(Forgiven::ByteOrderMark, 1)]), "{name}");
    }
}

/// Input 6 of those that broke other harvesters.
#[test]
fn rdf_xml_and_json_ld_are_recognised_whatever_the_media_type_says() {
    for (name, content_type, forgiven) in [
        ("harbour.rdf", "text/xml", None),
        ("harbour.rdf", "application/octet-stream", None),
        ("harbour.rdf", "", None),
        ("harbour.rdf", "text/plain", Some(1)),
        ("harbour.rdf", "text/html; charset=utf-8", Some(1)),
        ("harbour.jsonld", "application/json", None),
        ("harbour.jsonld", "text/plain", Some(1)),
        ("harbour.jsonld", "text/turtle", Some(1)),
        ("harbour.ttl", "application/ld+json", Some(1)),
    ] {
        let page = read_root(HARBOUR, content_type, fixture(name)).unwrap();
        assert_eq!(page.records.len(), 2, "{name} as {content_type}");
        assert_eq!(page.forgiven.get(&Forgiven::ContentTypeMismatch).copied(), forgiven, "{name} as {content_type}");
    }
}

/// Input 10 of those that broke other harvesters.
#[test]
fn catalogue_records_with_the_iris_of_datasets_are_not_counted_as_datasets() {
    let page = read_root("https://geo.example/", "text/turtle", fixture("catalogue-records.ttl")).unwrap();
    assert_eq!(ids(&page), ["https://geo.example/a", "https://geo.example/b"]);
    assert_eq!(page.forgiven, BTreeMap::from([(Forgiven::CatalogRecord, 1)]));
    assert_eq!(page.feedback, []);
}

/// Input 11 of those that broke other harvesters.
#[test]
fn a_dataset_without_identifier_is_reported_and_the_others_are_kept() {
    let page = read_root("https://open.example/", "text/turtle", fixture("nameless.ttl")).unwrap();
    let hash = page.records.iter().find(|r| r.title == [text("By content", "")]).unwrap().content_hash;
    let names: BTreeMap<&str, &str> =
        page.records.iter().map(|record| (record.title[0].value.as_str(), record.id.as_str())).collect();
    let by_content = format!("urn:hash:{hash}");
    assert_eq!(
        names,
        BTreeMap::from([
            ("By identifier", "alone"),
            ("By page", "https://open.example/page"),
            ("By file", "https://open.example/file.csv"),
            ("By content", by_content.as_str()),
            ("By IRI", "https://open.example/named"),
        ])
    );
    assert_eq!(
        page.rejected.iter().map(|rejected| rejected.why.as_str()).collect::<Vec<_>>(),
        ["it has neither an IRI nor an identifier nor anything else"]
    );
    assert_eq!(page.forgiven, BTreeMap::from([(Forgiven::MissingProperty, 1)]));
}

#[test]
fn a_catalogue_with_a_misspelt_class_lists_its_datasets() {
    let page = read_root("https://ms.example/c", "application/ld+json", fixture("misspelt.jsonld")).unwrap();
    assert_eq!(ids(&page), ["https://ms.example/bees"]);
    assert_eq!(page.forgiven, BTreeMap::from([(Forgiven::MisspeltClass, 1)]));
}

#[test]
fn prefixes_without_a_context_are_read_by_what_they_usually_mean() {
    let body = r#"{"@id": "https://a.example/1", "@type": "dcat:Dataset", "dct:title": "One"}"#;
    let page = read_root("https://a.example/c", "application/ld+json", body).unwrap();
    assert_eq!(page.records[0].title, [text("One", "")]);
    assert_eq!(page.forgiven, BTreeMap::from([(Forgiven::MissingContext, 1)]));
}

#[test]
fn linked_datasets_are_tasks_on_the_nodes_host_and_reported_elsewhere() {
    let page = read_root("https://fdp.example/catalog/genes", "text/turtle", fixture("links-only.ttl")).unwrap();
    assert_eq!(page.records.len(), 0);
    assert_eq!(cursors(&page.feedback), ["http://fdp.example/dataset/1", "http://fdp.example/dataset/2#it"]);
    assert!(
        page.feedback.iter().all(|t| t.kind == TaskKind::Dataset && t.origin.as_str() == "https://fdp.example:443")
    );
    let why = |id: &str| page.rejected.iter().find(|r| r.what == id).map(|r| r.why.as_str());
    assert_eq!(
        (why("https://elsewhere.example/dataset/3"), why("urn:uuid:00000000-0000-4000-8000-000000000004")),
        (
            Some("it is only linked, and lies on another server; make that server a CatalogNode of its own"),
            Some("it is only linked, and lies on another server; make that server a CatalogNode of its own")
        )
    );
}

#[test]
fn links_are_counted_but_not_followed_where_the_settings_say_so() {
    let mut node = node("https://fdp.example/catalog/genes");
    node.settings = ProtocolSettings::Dcat(DcatSettings { format: None, follow_linked_datasets: false });
    let response = answer("https://fdp.example/catalog/genes", "text/turtle", fixture("links-only.ttl"));
    let page = DcatReader::new().decode(&node, &root_task(&node), &response).unwrap();
    assert_eq!((page.feedback, page.rejected), (vec![], vec![]));
    assert_eq!(page.forgiven, BTreeMap::from([(Forgiven::MissingProperty, 4)]));
}

#[test]
fn a_linked_dataset_is_asked_for_on_the_endpoints_scheme_and_yields_the_record_of_its_iri() {
    let reader = DcatReader::new();
    let node = node("https://fdp.example/catalog/genes");
    let root = answer("https://fdp.example/catalog/genes", "text/turtle", fixture("links-only.ttl"));
    let tasks = reader.decode(&node, &root_task(&node), &root).unwrap().feedback;
    let request = reader.request(&node, &tasks[1]).unwrap();
    assert_eq!((request.url.as_str(), request.conditional), ("https://fdp.example/dataset/2", false));
    let body = "@prefix dcat: <http://www.w3.org/ns/dcat#> . @prefix dct: <http://purl.org/dc/terms/> .
        <http://fdp.example/dataset/1> a dcat:Dataset ; dct:title \"1\" .
        <http://fdp.example/dataset/2#it> a dcat:Dataset ; dct:title \"2\" ; dcat:distribution <http://fdp.example/d> .";
    let page = reader.decode(&node, &tasks[1], &answer(request.url.as_str(), "text/turtle", body)).unwrap();
    assert_eq!(ids(&page), ["http://fdp.example/dataset/2#it"]);
    let other = answer(request.url.as_str(), "text/turtle", "<http://a.example/x> a <http://a.example/Y> .");
    let page = reader.decode(&node, &tasks[1], &other).unwrap();
    let why = "the document at its IRI says nothing about it".to_owned();
    assert_eq!(page.rejected, [Rejected { what: "http://fdp.example/dataset/2#it".to_owned(), why }]);
}

#[test]
fn the_root_is_a_conditional_get_of_the_endpoint_without_fragment() {
    let reader = DcatReader::new();
    let mut node = node("https://a.example/c.ttl?x=1#frag");
    let task = root_task(&node);
    node.settings =
        ProtocolSettings::Dcat(DcatSettings { format: Some(RdfFormat::Turtle), follow_linked_datasets: true });
    assert_eq!(
        reader.request(&node, &task).unwrap(),
        Request {
            conditional: true,
            ..Request::get(Url::parse("https://a.example/c.ttl?x=1").unwrap(), "text/turtle, */*;q=0.1")
        }
    );
}

#[test]
fn two_catalogues_in_one_document_and_one_inside_the_other_are_one_section() {
    let body = "@prefix dcat: <http://www.w3.org/ns/dcat#> . @prefix dct: <http://purl.org/dc/terms/> .
        <https://a.example/c> a dcat:Catalog ; dcat:catalog <https://a.example/inner> ; dct:hasPart <https://b.example/> .
        <https://a.example/inner> a dcat:Catalog ; dcat:dataset <https://a.example/1> .
        <https://a.example/other> a dcat:Catalog ; dcat:dataset <https://a.example/2>, <https://a.example/inner> .
        <https://a.example/1> a dcat:Dataset ; dct:identifier \"same\" ; dct:relation <https://a.example/2> .
        <https://a.example/2> a dcat:Dataset ; dct:identifier \"same\" .";
    let page = read_root("https://a.example/c", "text/turtle", body).unwrap();
    assert_eq!(ids(&page), ["https://a.example/1", "https://a.example/2"]);
    assert_eq!((page.feedback, page.rejected, page.listed_sections), (vec![], vec![], vec![]));
    let raw = page.records[0].raw_triples.as_deref().unwrap();
    assert_eq!(raw.lines().count(), 3, "the related dataset's triples are its own: {raw}");
}

#[test]
fn a_service_that_serves_many_datasets_does_not_change_each_of_them() {
    let body = |more: &str| {
        format!(
            "@prefix dcat: <http://www.w3.org/ns/dcat#> . @prefix dct: <http://purl.org/dc/terms/> .
            <https://a.example/1> a dcat:Dataset ; dcat:distribution [ dcat:accessService <https://a.example/api> ] .
            <https://a.example/2> a dcat:Dataset ; dct:title \"2\" .
            <https://a.example/api> a dcat:DataService ; dcat:endpointURL <https://a.example/v1> ;
              dcat:servesDataset <https://a.example/1>{more} ."
        )
    };
    let one = read_root("https://a.example/c", "text/turtle", body("")).unwrap();
    let two = read_root("https://a.example/c", "text/turtle", body(", <https://a.example/2>")).unwrap();
    assert_eq!(ids_and_hashes(&one), ids_and_hashes(&two));
    assert_eq!(one.records[0].distributions[0].access_url.as_deref(), Some("https://a.example/v1"));
}

#[test]
fn iris_that_servers_make_for_blank_nodes_are_blank_nodes() {
    let read = |genid: &str| {
        let body = format!(
            "<https://a.example/1> a <http://www.w3.org/ns/dcat#Dataset> ; <http://www.w3.org/ns/dcat#contactPoint> <{genid}> .
            <{genid}> <http://www.w3.org/2006/vcard/ns#fn> \"Desk\" ."
        );
        ids_and_hashes(&read_root("https://a.example/c", "text/turtle", body).unwrap())
    };
    assert_eq!(read("https://a.example/.well-known/genid/77a"), read("https://a.example/.well-known/genid/f01"));
}

#[test]
fn an_iri_with_a_blank_in_it_costs_no_record() {
    let body = r#"<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:dcat="http://www.w3.org/ns/dcat#">
        <dcat:Dataset rdf:about="https://a.example/a b"><dcat:landingPage rdf:resource="https://a.example/p|q"/></dcat:Dataset>
        </rdf:RDF>"#;
    let page = read_root("https://a.example/c", "application/rdf+xml", body).unwrap();
    assert_eq!(ids(&page), ["https://a.example/a%20b"]);
    assert_eq!(page.forgiven.get(&Forgiven::InvalidIri).map(|times| *times > 0), Some(true));
    let raw = page.records[0].raw_triples.as_deref().unwrap();
    assert!(raw.contains("<https://a.example/p%7Cq>"), "{raw}");
}

#[test]
fn an_empty_answer_and_json_that_is_not_rdf_are_errors_and_never_an_empty_catalogue() {
    for (body, content_type) in
        [("", "text/turtle"), (" \n", ""), ("{\"success\": true}", "application/json"), ("[]", "application/json")]
    {
        let read = read_root("https://a.example/c", content_type, body);
        assert!(matches!(read, Err(ReadError::NotTheProtocol { .. })), "{body:?}: {read:?}");
    }
}

#[test]
fn a_catalogue_without_datasets_is_read_as_empty() {
    let body = "<https://a.example/> a <http://www.w3.org/ns/dcat#Catalog> .";
    let page = read_root("https://a.example/c?page=9", "text/turtle", body).unwrap();
    assert_eq!((page.records.len(), page.feedback.len(), page.total), (0, 0, None));
}

#[test]
fn keys_without_a_meaning_are_passed_over() {
    let read = |comment: &str| {
        let body = format!(
            r#"[{{{comment}"@id": "https://a.example/1", "@type": ["http://www.w3.org/ns/dcat#Dataset"],
            "http://purl.org/dc/terms/title": [{{"@value": "One"}}]}}]"#
        );
        ids_and_hashes(&read_root("https://a.example/c", "application/ld+json", body).unwrap())
    };
    assert_eq!(read(""), read(r#""__comment": "(C) somebody","#));
}

#[test]
fn the_reader_keeps_the_contract() {
    let node = node(HARBOUR);
    let root = root_task(&node);
    let exchanges: Vec<_> = [
        ("harbour.ttl", "text/turtle"),
        ("harbour.rdf", "application/rdf+xml"),
        ("harbour.jsonld", "application/ld+json"),
        ("portal-page-1.ttl", "text/turtle"),
        ("hub-view.jsonld", "application/ld+json"),
        ("nameless.ttl", "text/turtle"),
    ]
    .into_iter()
    .map(|(name, content_type)| (root.clone(), answer(HARBOUR, content_type, fixture(name))))
    .collect();
    reader_contract::contract(&DcatReader::new(), &node, &exchanges);
}

#[test]
fn a_loop_of_pages_ends_at_the_first_repeat() {
    let node = node("https://a.example/c.ttl");
    let walk = exchange::walk(&DcatReader::new(), &node, |request| {
        let next = if request.url.query() == Some("page=2") { 1 } else { 2 };
        let body = format!(
            "<#v> <http://www.w3.org/ns/hydra/core#next> <?page={next}> .
            <x:{next}> a <http://www.w3.org/ns/dcat#Dataset> ; <http://purl.org/dc/terms/title> \"x\" ."
        );
        answer(request.url.as_str(), "text/turtle", body)
    });
    assert_eq!(
        walk.requests,
        ["GET https://a.example/c.ttl", "GET https://a.example/c.ttl?page=2", "GET https://a.example/c.ttl?page=1"]
    );
}
