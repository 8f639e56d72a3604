//! Which protocol an endpoint speaks: what is asked, what answers mean, and how a crawl goes on from there.

use std::collections::BTreeMap;
use std::sync::Arc;

use trawler::protocol::ckan::CkanReader;
use trawler::protocol::dcat::DcatReader;
use trawler::protocol::detect::{DetectReader, Detected, Protocol, Readers, Verdict, judge, probes};
use trawler::protocol::dsp::DspReader;
use trawler::protocol::{Method, NodeContext, Page, ProtocolSettings, ReadError, Reader, Request, Response, origin_of};
use trawler::task::{SectionKey, Task, TaskKind};
use url::Url;

use crate::support::dcat::{answer, fixture, node};
use crate::support::{exchange, reader_contract};

/// Servers as maps from address to status, content type, body; everything else is a 404.
type Site = BTreeMap<&'static str, (u16, &'static str, Vec<u8>)>;

fn site(pages: impl IntoIterator<Item = (&'static str, u16, &'static str, &'static str)>) -> Site {
    let page =
        |(url, status, content_type, body): (_, _, _, &str)| (url, (status, content_type, body.as_bytes().to_vec()));
    pages.into_iter().map(page).collect()
}

fn ask(site: &Site, request: &Request) -> Response {
    let missing = (404, "text/html", b"<html>404</html>".to_vec());
    let (status, content_type, body) = site.get(request.url.as_str()).cloned().unwrap_or(missing);
    Response { status, ..answer(request.url.as_str(), content_type, body) }
}

/// Asks as `trawler init` does: what was found, or what each probe was answered.
fn detect(site: &Site, endpoint: &str) -> Result<Detected, Vec<String>> {
    let endpoint = url(endpoint);
    let mut answers = Vec::new();
    for probe in probes(&endpoint) {
        match judge(&endpoint, &probe, &ask(site, &probe.request)) {
            Verdict::Found(detected) => return Ok(detected),
            Verdict::No(answer) => answers.push(answer),
        }
    }
    Err(answers)
}

fn url(text: &str) -> Url {
    Url::parse(text).expect("a test address is a URL")
}

/// Asserts what is found at an endpoint: protocol, the endpoint to use, evidence.
#[track_caller]
fn assert_found(site: &Site, asked: &str, protocol: Protocol, endpoint: &str, evidence: &str) {
    let found = Detected { protocol, endpoint: url(endpoint), evidence: evidence.to_owned() };
    assert_eq!(detect(site, asked), Ok(found), "{asked}");
}

const VERSIONS: &str = r#"{"protocolVersions":[{"version":"v0.8","path":"/","binding":"HTTPS"},
    {"version":"2025-1","path":"/2025-1","binding":"HTTPS"}]}"#;
const CATALOG: &str = "<https://a.example/> a <http://www.w3.org/ns/dcat#Catalog> .";

#[test]
fn probes_are_few_and_ask_only_for_what_is_there_to_be_read() {
    let shown = |endpoint: &str| -> Vec<String> {
        let probes = probes(&Url::parse(endpoint).unwrap());
        assert!(probes.iter().all(|probe| probe.request.decodes_client_errors && !probe.request.conditional));
        probes
            .iter()
            .map(|probe| {
                format!("{} {}", if probe.request.method == Method::Get { "GET" } else { "POST" }, probe.request.url)
            })
            .collect()
    };
    assert_eq!(
        shown("https://a.example/api/dsp/#x"),
        [
            "GET https://a.example/api/dsp/",
            "GET https://a.example/api/dsp/.well-known/dspace-version",
            "GET https://a.example/.well-known/dspace-version",
            "GET https://a.example/api/dsp/api/3/action/package_search?rows=0",
            "GET https://a.example/api/3/action/package_search?rows=0",
            "POST https://a.example/api/dsp/catalog/request",
            "GET https://a.example/api/dsp/catalog.ttl",
            "GET https://a.example/api/dsp/catalog.jsonld",
            "GET https://a.example/api/dsp/catalog.rdf",
        ]
    );
    assert_eq!(
        shown("https://a.example"),
        [
            "GET https://a.example/api/3/action/package_search?rows=0",
            "GET https://a.example/",
            "GET https://a.example/.well-known/dspace-version",
            "POST https://a.example/catalog/request",
            "GET https://a.example/catalog.ttl",
            "GET https://a.example/catalog.jsonld",
            "GET https://a.example/catalog.rdf",
        ]
    );
}

#[test]
fn a_connector_is_found_by_its_version_document() {
    let site = site([("https://a.example/api/dsp/.well-known/dspace-version", 200, "application/json", VERSIONS)]);
    let evidence = "https://a.example/api/dsp/.well-known/dspace-version lists the DSP versions v0.8, 2025-1";
    assert_found(&site, "https://a.example/api/dsp", Protocol::Dsp, "https://a.example/api/dsp", evidence);
    let given_itself = "https://a.example/api/dsp/.well-known/dspace-version";
    assert_found(&site, given_itself, Protocol::Dsp, "https://a.example/api/dsp", evidence);
}

#[test]
fn a_version_document_at_the_hosts_root_speaks_for_the_endpoint_only_if_it_lists_it() {
    let versions = r#"{"protocolVersions":[{"version":"2025-1","path":"/dsp/one/2025-1"}]}"#;
    let site = site([("https://a.example/.well-known/dspace-version", 200, "application/json", versions)]);
    let evidence = "https://a.example/.well-known/dspace-version lists the DSP versions 2025-1";
    assert_found(&site, "https://a.example/dsp/one", Protocol::Dsp, "https://a.example/dsp/one", evidence);
    assert_found(&site, "https://a.example/shop", Protocol::Dsp, "https://a.example/", evidence);
}

#[test]
fn a_connector_that_wants_a_credential_is_found_by_the_error_it_answers_with() {
    for error in [
        r#"{"@context":["https://w3id.org/dspace/2025/1/context.jsonld"],"@type":"CatalogError","code":"401"}"#,
        r#"{"@type":"dspace:CatalogError","dspace:code":"400","dspace:reason":"Bad request."}"#,
    ] {
        let site = site([("https://a.example/dsp/2025-1/catalog/request", 401, "application/json", error)]);
        let evidence =
            "https://a.example/dsp/2025-1/catalog/request answers with a message of the Dataspace Protocol, status 401";
        assert_found(&site, "https://a.example/dsp/2025-1", Protocol::Dsp, "https://a.example/dsp/2025-1", evidence);
    }
}

#[test]
fn a_portal_is_found_by_its_search_from_any_of_its_pages() {
    let result = r#"{"success":true,"result":{"count":260,"results":[]}}"#;
    let front = "<!DOCTYPE html><title>Portal</title>";
    let site = site([
        ("https://a.example/api/3/action/package_search?rows=0", 200, "application/json", result),
        ("https://a.example/", 200, "text/turtle", CATALOG),
        ("https://a.example/dataset/x", 200, "text/html", front),
    ]);
    let evidence = "https://a.example/api/3/action/package_search?rows=0 finds 260 datasets";
    for endpoint in ["https://a.example", "https://a.example/dataset/x"] {
        assert_found(&site, endpoint, Protocol::Ckan, "https://a.example/", evidence);
    }
}

#[test]
fn a_portal_is_found_by_an_answer_of_its_api_even_if_that_is_an_error() {
    let error = r#"{"success":false,"error":{"__type":"Authorization Error"}}"#;
    let site = site([("https://a.example/data/api/3/action/package_list", 200, "application/json", error)]);
    let endpoint = "https://a.example/data/api/3/action/package_list";
    let evidence = "https://a.example/data/api/3/action/package_list answers as CKAN's Action API does";
    assert_found(&site, endpoint, Protocol::Ckan, "https://a.example/data", evidence);
}

#[test]
fn a_feed_is_found_by_reading_it_whatever_its_content_type() {
    let site = site([("https://a.example/feed", 200, "text/plain", CATALOG)]);
    let evidence = "https://a.example/feed is DCAT (Turtle)";
    assert_found(&site, "https://a.example/feed", Protocol::Dcat, "https://a.example/feed", evidence);
}

#[test]
fn a_feed_is_found_beside_the_endpoint() {
    let site = site([(
        "https://a.example/data/catalog.jsonld",
        200,
        "application/ld+json",
        "[{\"@id\":\"x:c\",\"@type\":[\"http://www.w3.org/ns/dcat#Catalog\"]}]",
    )]);
    let evidence = "https://a.example/data/catalog.jsonld is DCAT (JSON-LD)";
    let endpoint = "https://a.example/data/catalog.jsonld";
    assert_found(&site, "https://a.example/data/", Protocol::Dcat, endpoint, evidence);
}

#[test]
fn nothing_known_is_told_probe_by_probe() {
    let site = site([
        ("https://a.example/x", 200, "text/html", "<html>Hello</html>"),
        ("https://a.example/.well-known/dspace-version", 200, "application/json", "{\"a\":1}"),
        ("https://a.example/x/catalog.ttl", 403, "text/html", "<html>no</html>"),
        ("https://a.example/x/catalog.rdf", 200, "text/turtle", "<x:a> <x:b> <x:c> ."),
    ]);
    assert_eq!(
        detect(&site, "https://a.example/x"),
        Err([
            "200, but it is an HTML page",
            "404",
            "200, but it holds no triples",
            "404",
            "404",
            "404",
            "403 (it wants a credential)",
            "404",
            "200, but it is RDF that speaks of no catalogue and no dataset",
        ]
        .map(str::to_owned)
        .to_vec())
    );
}

/// A reader that shows in its cursors what it was given.
#[derive(Debug)]
struct EchoReader(&'static str);

impl Reader for EchoReader {
    fn root_task(&self, node: &NodeContext) -> Result<Task, ReadError> {
        let cursor = format!("{} at {}", self.0, node.endpoint);
        Ok(Task::new(SectionKey::root_of(node.name.clone()), TaskKind::Root, origin_of(&node.endpoint), cursor))
    }

    fn request(&self, node: &NodeContext, task: &Task) -> Result<Request, ReadError> {
        assert!(task.cursor.starts_with(self.0), "{task:?}");
        let mut echo = node.endpoint.clone();
        echo.set_path("/echo");
        Ok(Request::get(echo, self.0))
    }

    fn decode(&self, node: &NodeContext, task: &Task, _: &Response) -> Result<Page, ReadError> {
        assert!(!matches!(node.settings, ProtocolSettings::Auto(_)));
        let next = Task::new(task.section.clone(), TaskKind::Page, task.origin.clone(), format!("{} page 2", self.0));
        Ok(Page { feedback: vec![Task { page: 1, depth: 3, ..next }], protocol: self.0.into(), ..Page::default() })
    }

    fn describe_error(&self, response: &Response) -> Option<String> {
        (self.0 == "ckan" && response.status == 409).then(|| "CKAN says no".to_owned())
    }
}

fn reader() -> DetectReader {
    let (dsp, ckan) = (Arc::new(EchoReader("dsp")), Arc::new(EchoReader("ckan")));
    DetectReader::new(Readers { dsp, ckan, dcat: Arc::new(DcatReader::new()) })
}

fn auto(endpoint: &str) -> NodeContext {
    NodeContext { settings: ProtocolSettings::Auto(Box::default()), ..node(endpoint) }
}

/// Walks from the root task as a crawler does, one task at a time, until something else than one task comes back.
fn walk(site: &Site, node: &NodeContext) -> (u32, Result<Page, ReadError>) {
    let reader = reader();
    let mut task = reader.root_task(node).expect("a test endpoint has a root task");
    for requests in 1..20 {
        let request = reader.request(node, &task).expect("a task of the reader's own");
        let read = reader.decode(node, &task, &ask(site, &request));
        match read {
            Ok(page) if page.records.is_empty() && page.feedback.len() == 1 && page.protocol == "Auto" => {
                task = page.feedback[0].clone();
            }
            read => return (requests, read),
        }
    }
    unreachable!("probes come to an end")
}

#[test]
fn a_crawl_of_a_feed_goes_from_probe_to_records() {
    let mut site = site([]);
    site.insert("https://portal.example/catalog.ttl", (200, "text/turtle", fixture("portal-page-1.ttl")));
    let (requests, page) = walk(&site, &auto("https://portal.example/catalog.ttl"));
    let page = page.unwrap();
    assert_eq!((requests, page.records.len(), page.protocol.as_ref()), (2, 2, "DCAT (Turtle)"));
    let request = reader().request(&auto("https://portal.example/catalog.ttl"), &page.feedback[0]).unwrap();
    assert_eq!(request.url.as_str(), "https://portal.example/catalog.ttl?page=2");
}

#[test]
fn a_crawl_hands_over_to_the_reader_of_what_was_found_with_the_endpoint_that_was_found() {
    let result = r#"{"success":true,"result":{"count":1}}"#;
    let site = site([("https://a.example/api/3/action/package_search?rows=0", 200, "application/json", result)]);
    let node = auto("https://a.example/dataset");
    let (requests, page) = walk(&site, &node);
    let page = page.unwrap();
    assert_eq!((requests, page.protocol.as_ref()), (6, "ckan"));
    let next = &page.feedback[0];
    assert_eq!((next.kind, next.page, next.depth), (TaskKind::Page, 1, 3));
    assert_eq!(reader().request(&node, next).unwrap().url.as_str(), "https://a.example/echo");
}

#[test]
fn a_crawl_that_finds_nothing_says_what_each_probe_was_answered() {
    let (_, page) = walk(&site([]), &auto("https://a.example/x"));
    let Err(ReadError::NoProtocolFound { url, why }) = page else { panic!("{page:?}") };
    assert_eq!(url, "https://a.example/x");
    assert!(why.starts_with("/x answered 404; /x/.well-known/dspace-version answered 404; "), "{why}");
    assert!(why.ends_with("/x/catalog.rdf answered 404"), "{why}");
}

#[test]
fn tasks_are_the_same_when_made_again() {
    let node = auto("https://a.example/x");
    assert_eq!(reader().root_task(&node).unwrap(), reader().root_task(&node).unwrap());
}

#[test]
fn a_cursor_of_another_reader_and_an_endpoint_that_is_no_web_address_are_refused() {
    let node = auto("https://a.example/x");
    let foreign = Task::new(SectionKey::root_of(node.name.clone()), TaskKind::Page, origin_of(&node.endpoint), "{}");
    assert_eq!(reader().request(&node, &foreign), Err(ReadError::BadCursor { cursor: "{}".to_owned() }));
    assert!(matches!(reader().root_task(&auto("ftp://a.example/x")), Err(ReadError::BadEndpoint { .. })));
}

#[test]
fn errors_are_described_by_whichever_reader_knows_their_format() {
    let response = Response { status: 409, ..answer("https://a.example/", "application/json", "{}") };
    assert_eq!(reader().describe_error(&response).as_deref(), Some("CKAN says no"));
}

#[test]
fn the_reader_keeps_the_contract() {
    let node = auto("https://portal.example/catalog.ttl");
    let reader = DetectReader::new(Readers {
        dsp: Arc::new(DspReader::new()),
        ckan: Arc::new(CkanReader::new()),
        dcat: Arc::new(DcatReader::new()),
    });
    let page = answer("https://portal.example/catalog.ttl", "text/turtle", fixture("portal-page-1.ttl"));
    let root = reader.root_task(&node).unwrap();
    let first_page = reader.decode(&node, &root, &page).unwrap().feedback.remove(0);
    reader_contract::contract(&reader, &node, &[(root, page.clone()), (first_page, page)]);
}

#[test]
fn a_connector_is_crawled_from_its_version_document_to_its_datasets() {
    let reader = DetectReader::new(Readers {
        dsp: Arc::new(DspReader::new()),
        ckan: Arc::new(CkanReader::new()),
        dcat: Arc::new(DcatReader::new()),
    });
    let catalog = r#"{"@context":["https://w3id.org/dspace/2025/1/context.jsonld"],"@id":"c","@type":"Catalog",
        "participantId":"did:web:a.example","dataset":[{"@id":"engines","@type":"Dataset",
        "hasPolicy":[{"@id":"o","@type":"Offer"}],"distribution":[]}]}"#;
    let site = site([
        ("https://a.example/dsp/.well-known/dspace-version", 200, "application/json", VERSIONS),
        ("https://a.example/dsp/2025-1/catalog/request", 200, "application/json", catalog),
    ]);
    let walk = exchange::walk(&reader, &auto("https://a.example/dsp"), |request| ask(&site, request));
    assert_eq!(walk.ids(), ["/engines"]);
    assert_eq!(walk.last().protocol, "DSP 2025-1");
}
