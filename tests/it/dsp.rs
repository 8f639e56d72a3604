//! The DSP reader: versions, paging, nested catalogues, and the shapes that connectors in the field send.

use serde_json::{Value, json};
use trawler::protocol::dsp::DspReader;
use trawler::protocol::{
    DspSettings, DspVersion, Forgiven, Limited, NodeContext, Page, ProtocolSettings, ReadError, Reader, Request,
    Response,
};
use trawler::record::{LangString, Record};
use trawler::task::Task;

use crate::support::exchange::{Walk, answer, dsp_defaults, dsp_node, node, url, walk};
use crate::support::reader_contract::assert_same_content;

const ENDPOINT: &str = "https://acme.example/dsp";
const VERSIONS: &str = include_str!("../fixtures/dsp/versions-edc.json");
const CATALOG_2025: &str = include_str!("../fixtures/dsp/catalog-2025-1.json");
const CATALOG_2024: &str = include_str!("../fixtures/dsp/catalog-2024-1.json");
const CATALOG_08: &str = include_str!("../fixtures/dsp/catalog-0.8.json");
const CATALOG_EXPANDED: &str = include_str!("../fixtures/dsp/catalog-expanded.json");
const CATALOG_OF_CATALOGS: &str = include_str!("../fixtures/dsp/catalog-of-catalogs.json");

/// A node whose version is pinned.
fn pinned(version: DspVersion) -> NodeContext {
    let settings = DspSettings { version: Some(version), ..dsp_defaults() };
    node(ENDPOINT, ProtocolSettings::Dsp(settings))
}

fn not_found(request: &Request) -> Response {
    answer(request.url.as_str(), 404, "<html>Not Found</html>")
}

/// A connector that lists its versions below the endpoint and answers each catalogue request with `catalog`.
fn connector(catalog: &str) -> impl Fn(&Request) -> Response {
    move |request| match request.url.path() {
        "/dsp/.well-known/dspace-version" => answer(request.url.as_str(), 200, VERSIONS),
        path if path.ends_with("/catalog/request") => answer(request.url.as_str(), 200, catalog.to_owned()),
        _ => not_found(request),
    }
}

/// The task of the first page, once the version is known.
fn page_task(node: &NodeContext) -> Task {
    let reader = DspReader::new();
    let root = reader.root_task(node).unwrap();
    let versions = answer("https://acme.example/dsp/.well-known/dspace-version", 200, VERSIONS);
    reader.decode(node, &root, &versions).unwrap().feedback.remove(0)
}

/// The first page of a node, from this answer.
fn decode_with(node: &NodeContext, response: &Response) -> Result<Page, ReadError> {
    DspReader::new().decode(node, &page_task(node), response)
}

fn decode(body: impl Into<bytes::Bytes>) -> Result<Page, ReadError> {
    decode_with(&dsp_node(ENDPOINT), &answer("https://acme.example/dsp/2025-1/catalog/request", 200, body))
}

fn linked(body: &str, links: &[&str]) -> Response {
    let links = links.iter().map(|&link| link.to_owned()).collect();
    Response { links, ..answer("https://acme.example/dsp/2025-1/catalog/request", 200, body.to_owned()) }
}

fn without_raw(mut record: Record) -> Value {
    record.raw = None;
    record.offers.clear();
    serde_json::to_value(record).unwrap()
}

/// A catalogue with these datasets; each gets what the protocol demands.
fn catalog_of(ids: &[&str]) -> String {
    let dataset = |id: &&str| {
        json!({"@id": id, "@type": "Dataset", "hasPolicy": [{"@id": "o", "@type": "Offer"}],
            "distribution": [{"format": "HttpData-PULL", "accessService": "s"}]})
    };
    let datasets: Vec<_> = ids.iter().map(dataset).collect();
    json!({"@context": ["https://w3id.org/dspace/2025/1/context.jsonld"], "@id": "c", "@type": "Catalog",
        "participantId": "did:web:acme.example", "dataset": datasets})
    .to_string()
}

fn ids(page: &Page) -> Vec<&str> {
    page.records.iter().map(|record| record.id.as_str()).collect()
}

// Versions

#[test]
fn the_newest_version_known_is_spoken() {
    let walk = walk(&DspReader::new(), &dsp_node(ENDPOINT), connector(CATALOG_2025));
    assert_eq!(
        walk.requests,
        [
            "GET https://acme.example/dsp/.well-known/dspace-version",
            "POST https://acme.example/dsp/2025-1/catalog/request",
        ]
    );
    assert_eq!(walk.last().protocol, "DSP 2025-1");
    assert_eq!(walk.last().records.len(), 3);
}

#[test]
fn a_pinned_version_is_spoken_at_the_path_that_discovery_names() {
    for (version, path) in [(DspVersion::V08, "/dsp"), (DspVersion::V2024_1, "/dsp/2024/1")] {
        let walk = walk(&DspReader::new(), &pinned(version), connector(CATALOG_2025));
        assert_eq!(walk.requests[1], format!("POST https://acme.example{path}/catalog/request"));
    }
}

#[test]
fn a_pinned_version_needs_no_discovery() {
    let walk = walk(&DspReader::new(), &pinned(DspVersion::V08), |request| match request.url.path() {
        "/dsp/catalog/request" => answer(request.url.as_str(), 200, CATALOG_08),
        _ => not_found(request),
    });
    assert_eq!(walk.ids(), ["/sensor-log"]);
    assert_eq!(walk.requests.len(), 3, "endpoint, host, page: {:?}", walk.requests);
}

#[test]
fn versions_are_found_at_the_hosts_root() {
    let walk = walk(&DspReader::new(), &dsp_node(ENDPOINT), |request| match request.url.path() {
        "/.well-known/dspace-version" => answer(
            request.url.as_str(),
            200,
            r#"{"protocolVersions":[{"version":"2025-1","path":"/other/2025-1","binding":"HTTPS"},
                {"version":"2025-1","path":"/dsp/2025-1/","binding":"HTTPS"}]}"#,
        ),
        "/dsp/2025-1/catalog/request" => answer(request.url.as_str(), 200, CATALOG_2025),
        _ => not_found(request),
    });
    assert_eq!(walk.last().records.len(), 3, "the entry of another connector is passed over: {:?}", walk.requests);
}

#[test]
fn an_endpoint_may_end_in_the_catalogues_path_or_in_the_version_to_speak() {
    for (endpoint, spoken) in [
        ("/dsp/", "/dsp/2025-1"),
        ("/dsp/2025-1/catalog/request", "/dsp/2025-1"),
        ("/dsp/2025-1", "/dsp/2025-1"),
        ("/dsp/2024/1", "/dsp/2024/1"),
    ] {
        let node = dsp_node(&format!("https://acme.example{endpoint}"));
        let walk = walk(&DspReader::new(), &node, connector(CATALOG_2025));
        let asked = format!("POST https://acme.example{spoken}/catalog/request");
        assert_eq!(walk.requests.last(), Some(&asked), "{endpoint}");
    }
}

#[test]
fn a_pin_is_kept_to_where_discovery_does_not_list_it() {
    let walk = walk(&DspReader::new(), &pinned(DspVersion::V2024_1), |request| match request.url.path() {
        "/dsp/.well-known/dspace-version" => {
            answer(request.url.as_str(), 200, r#"{"protocolVersions":[{"version":"2025-1","path":"/2025-1"}]}"#)
        }
        "/dsp/catalog/request" => answer(request.url.as_str(), 200, CATALOG_2024),
        _ => not_found(request),
    });
    assert_eq!(walk.last().protocol, "DSP 2024-1");
    assert_eq!(walk.ids(), ["/urn:example:moulds"]);
}

#[test]
fn without_discovery_each_version_is_tried_the_newest_first() {
    let walk = walk(&DspReader::new(), &dsp_node(ENDPOINT), |request| {
        let body =
            request.body.as_ref().map(|(_, body)| String::from_utf8_lossy(body).into_owned()).unwrap_or_default();
        if body.contains("dspace/v0.8/") { answer(request.url.as_str(), 200, CATALOG_08) } else { not_found(request) }
    });
    assert_eq!(walk.requests[2..], ["POST https://acme.example/dsp/catalog/request"; 3]);
    assert_eq!(walk.ids(), ["/sensor-log"]);
    assert_eq!(walk.last().protocol, "DSP 0.8");
}

#[test]
fn a_host_that_speaks_no_version_is_said_to() {
    let walk = walk(&DspReader::new(), &dsp_node(ENDPOINT), not_found);
    let error = walk.pages.last().unwrap().as_ref().unwrap_err();
    assert!(matches!(error, ReadError::NoProtocolFound { .. }));
    assert!(error.to_string().contains("status 404"), "{error}");
}

#[test]
fn a_host_that_speaks_only_unknown_versions_is_said_to() {
    let walk = walk(&DspReader::new(), &dsp_node(ENDPOINT), |request| {
        answer(request.url.as_str(), 200, r#"{"protocolVersions":[{"version":"2031-1","path":"/","binding":"HTTPS"}]}"#)
    });
    let error = walk.pages[0].as_ref().unwrap_err().to_string();
    assert!(error.contains("2031-1") && error.contains("2025-1"), "{error}");
}

#[test]
fn missing_credentials_are_no_missing_version() {
    let refusal = r#"{"@type":"CatalogError","code":"401","reason":["Unauthorized."]}"#;
    let walk = walk(&DspReader::new(), &dsp_node(ENDPOINT), |request| match request.url.path() {
        "/dsp/catalog/request" => answer(request.url.as_str(), 401, refusal),
        _ => not_found(request),
    });
    let Err(ReadError::ErrorAnswer { message, .. }) = walk.pages.last().unwrap() else { panic!("{:?}", walk.pages) };
    assert_eq!(message, "401: Unauthorized.");
    assert_eq!(walk.requests.len(), 4, "asked once more as a plain page: {:?}", walk.requests);
}

#[test]
fn each_version_has_its_message() {
    let messages = [DspVersion::V2025_1, DspVersion::V2024_1, DspVersion::V08].map(|version| {
        [None, Some(200)].map(|page_size| {
            let settings = DspSettings { version: Some(version), page_size, ..dsp_defaults() };
            let node = node(ENDPOINT, ProtocolSettings::Dsp(settings));
            let request = DspReader::new().request(&node, &page_task(&node)).unwrap();
            serde_json::from_slice::<Value>(&request.body.unwrap().1).unwrap()
        })
    });
    let query = json!({"@type": "QuerySpec", "offset": 0, "limit": 200});
    let mut prefixed_query = query.clone();
    prefixed_query["@context"] = json!({"@vocab": "https://w3id.org/edc/v0.0.1/ns/"});
    let context = "https://w3id.org/dspace/2025/1/context.jsonld";
    let context_2024 = "https://w3id.org/dspace/2024/1/context.json";
    let context_08 = json!({"dspace": "https://w3id.org/dspace/v0.8/"});
    let kind = "dspace:CatalogRequestMessage";
    assert_eq!(
        messages,
        [
            [
                json!({"@context": [context], "@type": "CatalogRequestMessage"}),
                json!({"@context": [context, "https://w3id.org/edc/dspace/v0.0.1"], "@type": "CatalogRequestMessage", "filter": [query]}),
            ],
            [
                json!({"@context": context_2024, "@type": kind}),
                json!({"@context": context_2024, "@type": kind, "dspace:filter": prefixed_query}),
            ],
            [
                json!({"@context": context_08, "@type": kind}),
                json!({"@context": context_08, "@type": kind, "dspace:filter": prefixed_query})
            ],
        ]
    );
}

// Shapes

#[test]
fn a_catalogue_of_2025_1_is_read_whole() {
    let page = decode(CATALOG_2025).unwrap();
    let records: Vec<_> = page.records.into_iter().map(without_raw).collect();
    insta::assert_json_snapshot!(records);
}

#[test]
fn a_catalogue_of_2024_1_is_read_whole() {
    let page = decode(CATALOG_2024).unwrap();
    insta::assert_json_snapshot!(page.records.into_iter().map(without_raw).collect::<Vec<_>>());
    assert!(page.forgiven.is_empty(), "{:?}", page.forgiven);
}

#[test]
fn a_catalogue_of_0_8_is_read_whole() {
    let page = decode(CATALOG_08).unwrap();
    insta::assert_json_snapshot!(page.records.into_iter().map(without_raw).collect::<Vec<_>>());
}

#[test]
fn an_expanded_catalogue_is_read_by_its_full_iris() {
    let page = decode(CATALOG_EXPANDED).unwrap();
    let record = without_raw(page.records.into_iter().next().unwrap());
    assert_eq!(record["id"], "paint");
    assert_eq!(record["title"], json!([{"value": "Lacke", "lang": "de"}]));
    assert_eq!(record["publisher"], json!({"id": "BPNL0000000PLANTD"}));
    assert_eq!(
        record["distributions"],
        json!([{"format": "HttpData-PULL", "accessUrl": "https://plant-d.example/dsp"}])
    );
}

#[test]
fn the_raw_document_and_the_offers_are_kept_verbatim() {
    let body = r#"{"@context":[],"@type":"Catalog","dataset":[{ "@id":"a" , "size":10.0,
        "hasPolicy":[{"@id" : "o1","@type":"Offer"}, {"@id":"o2"}],"distribution":[{}]}]}"#;
    let page = decode(body).unwrap();
    let record = &page.records[0];
    assert!(record.raw.as_ref().unwrap().get().starts_with(r#"{ "@id":"a" , "size":10.0,"#));
    let offers: Vec<_> = record.offers.iter().map(|offer| offer.get()).collect();
    assert_eq!(offers, [r#"{"@id" : "o1","@type":"Offer"}"#, r#"{"@id":"o2"}"#]);
}

/// "Inputs that broke other harvesters", 7.
#[test]
fn an_object_means_the_same_as_a_list_of_one() {
    let listed = decode(
        CATALOG_08
            .replace("\"dcat:dataset\": {", "\"dcat:dataset\": [{")
            .replace("\"id\": \"sensor-log\"\n },", "\"id\": \"sensor-log\"\n }],"),
    );
    let [single, listed] = [decode(CATALOG_08).unwrap(), listed.unwrap()];
    let [single_record, listed_record] = [&single, &listed].map(|page| page.records[0].clone());
    assert_eq!(single_record.content_hash, listed_record.content_hash);
    assert_eq!(without_raw(single_record.clone()), without_raw(listed_record));
    assert_eq!(single_record.offers.len(), 1);
    assert_eq!(single.forgiven[&Forgiven::ObjectForList], 3, "dataset, service, and the dataset's own");
    assert_eq!(listed.forgiven[&Forgiven::ObjectForList], 2);
}

/// "Inputs that broke other harvesters", 11.
#[test]
fn one_dataset_without_id_or_with_a_fault_costs_no_other() {
    let deep = format!("{}1{}", "[".repeat(3000), "]".repeat(3000));
    let body = format!(
        r#"{{"@type":"Catalog","@context":[],"dataset":[{{"@id":"a"}},{{"title":"no id"}},7,{{"@id":"deep","x":{deep}}},
            {{"@id":"huge","x":1e999}},{{"@id":"b"}},{{"@id":""}},{{"id":"c"}}]}}"#
    );
    let page = decode(body).unwrap();
    assert_eq!(ids(&page), ["a", "b", "c"]);
    let rejected: Vec<_> = page.rejected.iter().map(|rejected| rejected.what.as_str()).collect();
    assert_eq!(rejected, ["dataset[1]", "dataset[2]", "dataset[3]", "dataset[4]", "dataset[6]"]);
    assert_eq!(page.rejected[0].why, "it has no @id");
    assert!(page.rejected[2].why.contains("recursion limit"), "{}", page.rejected[2].why);
}

/// "Inputs that broke other harvesters", 5.
#[test]
fn a_byte_order_mark_is_read_over() {
    let page = decode(format!("\u{feff}{CATALOG_2025}")).unwrap();
    assert_eq!(page.records.len(), 3);
    assert_eq!(page.forgiven[&Forgiven::ByteOrderMark], 1);
}

#[test]
fn bytes_that_are_no_utf_8_are_replaced() {
    let body =
        [&br#"{"@type":"Catalog","@context":[],"dataset":[{"@id":"a","title":"M"#[..], b"\xFC", br#"ll"}]}"#].concat();
    let page = decode(body).unwrap();
    assert_eq!(page.records[0].title, [LangString::plain("M\u{fffd}ll")]);
    assert_eq!(page.forgiven[&Forgiven::InvalidUtf8], 1);
}

#[test]
fn the_same_dataset_twice_in_a_page_is_one_record() {
    let page = decode(catalog_of(&["a", "b", "a"])).unwrap();
    assert_eq!(ids(&page), ["a", "b"]);
    assert_eq!(page.forgiven[&Forgiven::DuplicateRecord], 1);
}

/// "Inputs that broke other harvesters", 9: the section, which carries the node, tells them apart.
#[test]
fn one_id_at_two_nodes_is_two_records() {
    let root = |name: &str| {
        let node = NodeContext { name: name.into(), ..dsp_node(ENDPOINT) };
        DspReader::new().root_task(&node).unwrap()
    };
    assert_ne!(root("acme").section, root("plant-b").section);
    assert_ne!(root("acme").id, root("plant-b").id);
}

// What does not change when nothing changed

#[test]
fn a_dataset_stays_the_same_with_new_offer_ids_in_another_order() {
    let mut again: Value = serde_json::from_str(CATALOG_2025).unwrap();
    again["@id"] = json!("another");
    for dataset in again["dataset"].as_array_mut().unwrap() {
        let offers = dataset["hasPolicy"].as_array_mut().unwrap();
        offers.reverse();
        for offer in offers {
            let id = offer["@id"].as_str().unwrap();
            let lasting = &id[..=id.rfind(':').unwrap()];
            let fresh = data_encoding::BASE64.encode(b"99999999-9999-4999-8999-999999999999");
            offer["@id"] = json!(format!("{lasting}{fresh}"));
        }
    }
    again["dataset"].as_array_mut().unwrap().reverse();
    let node = dsp_node(ENDPOINT);
    let answers = [CATALOG_2025.to_owned(), again.to_string()].map(|body| answer(ENDPOINT, 200, body));
    assert_same_content(&DspReader::new(), &node, &page_task(&node), [&answers[0], &answers[1]]);
}

#[test]
fn a_dataset_changes_with_its_policy_its_title_and_its_offers_definition() {
    let hash = |body: &str| decode(body.to_owned()).unwrap().records[0].content_hash;
    let before = hash(CATALOG_2025);
    let definition = data_encoding::BASE64.encode(b"open");
    for (from, to) in [("\"eu\"", "\"us\""), ("Engine tests", "Engine test"), (&definition, "b3Blbi0y")] {
        let changed = CATALOG_2025.replacen(from, to, 1);
        assert_ne!(changed, CATALOG_2025, "{from} is in the fixture");
        assert_ne!(hash(&changed), before, "{from} → {to}");
    }
}

// Paging

/// "Inputs that broke other harvesters", 8, and EDC's empty last page.
#[test]
fn pages_are_followed_by_posting_the_same_message_until_no_next() {
    let pages = [&["a", "b"][..], &["c"], &[]];
    let walk = walk(&DspReader::new(), &dsp_node(ENDPOINT), |request| {
        if request.url.path() == "/dsp/.well-known/dspace-version" {
            return answer(request.url.as_str(), 200, VERSIONS);
        }
        let at =
            request.url.query().map_or(0, |query| query.trim_start_matches("continuationToken=")[..1].parse().unwrap());
        let links = match at {
            0 => vec![r#"</dsp/2025-1/catalog/request?continuationToken=1=>; rel="next""#.to_owned()],
            1 => vec![r#"<?continuationToken=0=>; rel="prev", <?continuationToken=2=>; rel="next""#.to_owned()],
            _ => vec![r#"<?continuationToken=1=>; rel="prev""#.to_owned()],
        };
        assert!(request.body.as_ref().unwrap().1.starts_with(b"{"), "the message is sent with each page");
        Response { links, ..answer(request.url.as_str(), 200, catalog_of(pages[at])) }
    });
    assert_eq!(walk.ids(), ["/a", "/b", "/c"]);
    assert_eq!(walk.requests.len(), 4);
    assert_eq!(walk.requests[3], "POST https://acme.example/dsp/2025-1/catalog/request?continuationToken=2=");
    assert_eq!(walk.tasks.iter().map(|task| task.page).collect::<Vec<_>>(), [0, 0, 1, 2]);
}

#[test]
fn a_link_that_names_an_inner_host_is_followed_on_the_nodes_own_origin() {
    for link in ["http://10.0.0.7:8282/dsp/2025-1/catalog/request?t=1", "http://edc:8282/2025-1/catalog/request?t=1"] {
        let page = decode_with(&dsp_node(ENDPOINT), &linked(CATALOG_2025, &[&format!("<{link}>; rel=next")])).unwrap();
        let request = DspReader::new().request(&dsp_node(ENDPOINT), &page.feedback[0]).unwrap();
        assert_eq!(request.url.as_str(), "https://acme.example/dsp/2025-1/catalog/request?t=1");
        assert_eq!(page.forgiven[&Forgiven::ForeignPageLink], 1);
        assert_eq!(page.limited, None);
    }
}

#[test]
fn a_link_to_another_server_is_refused() {
    for link in ["https://evil.example/collect?t=1", "ftp://acme.example/dsp/2025-1/catalog/request", "https://[::1"] {
        let page = decode_with(&dsp_node(ENDPOINT), &linked(CATALOG_2025, &[&format!("<{link}>; rel=next")])).unwrap();
        assert!(page.feedback.is_empty(), "{link}");
        assert_eq!(page.limited, Some(Limited::ForeignPageLink));
        assert_eq!(page.records.len(), 3, "the page itself is kept");
    }
}

#[test]
fn pages_that_lead_round_end_at_the_first_repeat() {
    let walk = walk(&DspReader::new(), &dsp_node(ENDPOINT), |request| {
        if request.url.path() == "/dsp/.well-known/dspace-version" {
            return answer(request.url.as_str(), 200, VERSIONS);
        }
        let next = if request.url.query().is_some() { "<?>" } else { "<?t=1>" };
        let link = format!("{next}; rel=next").replace("<?>", "</dsp/2025-1/catalog/request>");
        Response { links: vec![link], ..answer(request.url.as_str(), 200, catalog_of(&["a"])) }
    });
    assert_eq!(walk.requests.len(), 3, "{:?}", walk.requests);
}

#[test]
fn a_page_that_leads_to_itself_is_said_to() {
    let page =
        decode_with(&dsp_node(ENDPOINT), &linked(CATALOG_2025, &["</dsp/2025-1/catalog/request>; rel=next"])).unwrap();
    assert_eq!(page.feedback[0].id, page_task(&dsp_node(ENDPOINT)).id);
    assert_eq!(page.limited, Some(Limited::RepeatedPage));
}

#[test]
fn a_link_longer_than_a_cursor_is_an_error() {
    let link = format!("<?t={}>; rel=next", "x".repeat(20_000));
    let error = decode_with(&dsp_node(ENDPOINT), &linked(CATALOG_2025, &[&link])).unwrap_err();
    assert!(matches!(error, ReadError::OverLimit { .. }), "{error}");
}

// Nested catalogues

fn nested_paths(page: &Page) -> Vec<&str> {
    page.listed_sections
        .iter()
        .map(|key| key.section.as_str().trim_start_matches("https://acme.example/plants/"))
        .collect()
}

#[test]
fn nested_catalogues_are_sections_wherever_their_address_is_written() {
    let page = decode(CATALOG_OF_CATALOGS).unwrap();
    assert_eq!(
        nested_paths(&page),
        ["older", "by-id", "by-object", "outer", "service-only", "relative", "https://plant-z.example/dsp"]
    );
    assert_eq!(page.feedback.len(), 6, "all but the one on another origin");
    let task = &page.feedback[0];
    assert_eq!(task.provenance.as_ref(), [ENDPOINT, "https://acme.example/plants/older"]);
    assert_eq!(task.depth, 1);
    let request = DspReader::new().request(&dsp_node(ENDPOINT), task).unwrap();
    assert_eq!(request.url.as_str(), "https://acme.example/plants/older/.well-known/dspace-version");
}

#[test]
fn a_nested_catalogue_without_address_is_part_of_its_parent() {
    let page = decode(CATALOG_OF_CATALOGS).unwrap();
    assert_eq!(ids(&page), ["own", "inline-1"]);
    assert_eq!(page.records[1].publisher.as_ref().unwrap().id.as_deref(), Some("did:web:plant-i.example"));
    assert_eq!(page.forgiven[&Forgiven::NestedWithoutEndpoint], 1);
}

#[test]
fn a_catalogue_that_lists_itself_is_not_followed() {
    let page = decode(CATALOG_OF_CATALOGS).unwrap();
    assert_eq!(page.forgiven[&Forgiven::Cycle], 1, "with another version path, too");
    assert!(!nested_paths(&page).contains(&"https://acme.example/dsp/2024/1"));
}

/// A connector at each path, listing the others named in `lists`.
fn ring(settings: ProtocolSettings, lists: impl Fn(&str) -> Vec<String>) -> Walk {
    walk(&DspReader::new(), &node(ENDPOINT, settings), |request| {
        if request.url.path().ends_with("dspace-version") {
            return answer(
                request.url.as_str(),
                200,
                r#"{"protocolVersions":[{"version":"2025-1","path":"/2025-1","binding":"HTTPS"}]}"#,
            );
        }
        let own = request.url.path().trim_end_matches("/2025-1/catalog/request");
        let nested = |endpoint: String| json!({"@type": "Catalog", "service": [{"@id": "s", "endpointURL": endpoint}]});
        let nested: Vec<_> = lists(own).into_iter().map(nested).collect();
        let body = json!({"@context": [], "@type": "Catalog", "dataset": [{"@id": own}], "catalog": nested});
        answer(request.url.as_str(), 200, body.to_string())
    })
}

#[test]
fn a_ring_of_catalogues_is_walked_once() {
    let walk = ring(ProtocolSettings::Dsp(dsp_defaults()), |own| {
        let next = match own {
            "/dsp" => "/b",
            "/b" => "/c",
            _ => "/dsp/2025-1",
        };
        vec![format!("https://acme.example{next}")]
    });
    assert_eq!(walk.ids(), ["//dsp", "https://acme.example/b//b", "https://acme.example/c//c"]);
    assert_eq!(walk.last().forgiven[&Forgiven::Cycle], 1);
}

#[test]
fn a_catalogue_listed_by_two_parents_is_one_section() {
    let walk = ring(ProtocolSettings::Dsp(dsp_defaults()), |own| {
        let lists: &[&str] = if own == "/dsp" { &["/b", "/c"] } else { &["/shared"] };
        if own == "/shared" {
            vec![]
        } else {
            lists.iter().map(|path| format!("https://acme.example{path}/")).collect()
        }
    });
    assert_eq!(walk.ids().iter().filter(|id| id.ends_with("/shared")).count(), 1);
    assert_eq!(walk.requests.len(), 8, "two requests for each of four catalogues");
}

#[test]
fn catalogues_deeper_than_the_limit_are_not_followed_and_the_page_says_so() {
    let settings = DspSettings { max_depth: 2, ..dsp_defaults() };
    let walk = ring(ProtocolSettings::Dsp(settings), |own| vec![format!("https://acme.example{own}x")]);
    assert_eq!(walk.ids().len(), 3, "the root and two levels");
    let limits: Vec<_> = walk.pages.iter().map(|page| page.as_ref().unwrap().limited).collect();
    assert_eq!(limits, [None, None, None, None, None, Some(Limited::MaxDepth)]);
    assert_eq!(walk.last().listed_sections.len(), 1, "what is not followed is listed all the same");
}

#[test]
fn other_origins_are_followed_only_if_allowed_and_nothing_if_nothing_shall_be() {
    let count = |settings| {
        let node = node(ENDPOINT, ProtocolSettings::Dsp(settings));
        decode_with(&node, &answer(ENDPOINT, 200, CATALOG_OF_CATALOGS)).unwrap().feedback.len()
    };
    assert_eq!(count(DspSettings { allow_cross_origin: true, ..dsp_defaults() }), 7);
    assert_eq!(count(DspSettings { follow_nested: false, ..dsp_defaults() }), 0);
}

#[test]
fn a_catalogue_of_another_participant_than_the_node_names_is_refused() {
    let with = |participant: &str| {
        let participant_id = Some("did:web:acme.example".to_owned());
        let node = node(ENDPOINT, ProtocolSettings::Dsp(DspSettings { participant_id, ..dsp_defaults() }));
        let body = format!(r#"{{"@context":[],"@type":"Catalog","participantId":"{participant}","dataset":[]}}"#);
        decode_with(&node, &answer(ENDPOINT, 200, body))
    };
    assert!(with("did:web:acme.example").is_ok());
    assert_eq!(
        with("did:web:someone-else.example").unwrap_err(),
        ReadError::WrongParticipant {
            url: ENDPOINT.to_owned(),
            expected: "did:web:acme.example".to_owned(),
            found: "did:web:someone-else.example".to_owned(),
        }
    );
}

#[test]
fn catalogues_nested_in_one_document_are_read_only_so_deep() {
    let body = (0..200).fold(r#"{"@type":"Catalog"}"#.to_owned(), |inner, level| {
        format!(r#"{{"@type":"Catalog","@context":[],"dataset":[{{"@id":"d{level}"}}],"catalog":[{inner}]}}"#)
    });
    let page = decode(body).unwrap();
    assert_eq!(page.records.len(), 17);
    assert_eq!(page.rejected.len(), 1, "{:?}", page.rejected);
}

// Answers that are no catalogue

#[test]
fn the_protocols_own_error_is_an_error_whatever_its_status() {
    for (body, message) in [
        (
            include_str!("../fixtures/dsp/error-2025-1.json"),
            "K-7: The catalogue is closed on Sundays.; Sonntags geschlossen; 7",
        ),
        (include_str!("../fixtures/dsp/error-2024-1.json"), "401: Unauthorized."),
        (include_str!("../fixtures/dsp/error-0.8.json"), "400: Bad request."),
    ] {
        let error = decode(body).unwrap_err();
        assert!(matches!(&error, ReadError::ErrorAnswer { message: said, .. } if said == message), "{error}");
        let response = answer(ENDPOINT, 500, body);
        assert_eq!(DspReader::new().describe_error(&response).as_deref(), Some(message));
    }
}

/// "Inputs that broke other harvesters", 4.
#[test]
fn html_with_status_200_is_an_error_that_quotes_it() {
    let error = decode("<!doctype html>\n<title>Log in</title>").unwrap_err();
    let ReadError::NotTheProtocol { start, .. } = &error else { panic!("{error}") };
    assert_eq!(start, "<!doctype html> <title>Log in</title>");
    assert_eq!(DspReader::new().describe_error(&answer(ENDPOINT, 502, "<html>")), None);
}

#[test]
fn other_json_and_truncated_json_are_errors() {
    for body in ["", "null", "7", "[]", "{}", r#"{"ok":true}"#, &CATALOG_2025[..CATALOG_2025.len() / 2]] {
        assert!(matches!(decode(body.to_owned()), Err(ReadError::NotTheProtocol { .. })), "{body}");
    }
}

#[test]
fn a_catalogue_without_datasets_is_empty_and_no_error() {
    let page = decode(r#"{"@context":[],"@id":"c","@type":"Catalog","participantId":"p"}"#).unwrap();
    assert_eq!((page.records.len(), page.rejected.len()), (0, 0));
}

#[test]
fn a_document_deeper_than_the_limit_is_over_it() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let error = decode(format!(r#"{{"@type":"Catalog","service":{deep}}}"#)).unwrap_err();
    assert!(matches!(error, ReadError::OverLimit { limit: 128, .. }), "{error}");
}

#[test]
fn as_many_nested_catalogues_as_fit_are_read_in_time_that_grows_with_their_number() {
    let nested: Vec<_> = (0..20_000)
        .map(|n| format!(r#"{{"@type":"Catalog","service":{{"endpointURL":"https://acme.example/plants/{n}"}}}}"#))
        .collect();
    let page = decode(format!(r#"{{"@type":"Catalog","@context":[],"catalog":[{}]}}"#, nested.join(","))).unwrap();
    assert_eq!(page.feedback.len(), 20_000);
}

#[test]
fn an_offer_that_is_only_an_id_is_kept_and_is_content() {
    let with = |policy: &str| {
        let body = format!(r#"{{"@type":"Catalog","@context":[],"dataset":[{{"@id":"a","hasPolicy":{policy}}}]}}"#);
        decode(body).unwrap().records.remove(0)
    };
    assert_eq!(with(r#""offer-1""#).offers[0].get(), r#""offer-1""#);
    assert_ne!(with(r#""offer-1""#).content_hash, with(r#""offer-2""#).content_hash);
    assert_eq!(with(r#""offer-1""#).content_hash, with(r#"["offer-1"]"#).content_hash);
}

#[test]
fn a_page_of_more_entries_than_fit_is_over_the_limit() {
    let body = format!(r#"{{"@type":"Catalog","dataset":[{}1]}}"#, "1,".repeat(200_000));
    assert!(matches!(decode(body), Err(ReadError::OverLimit { limit: 100_000, .. })));
}

#[test]
fn a_misspelt_class_a_wrong_content_type_and_a_missing_context_are_forgiven() {
    let response = Response {
        content_type: Some("text/html; charset=utf-8".to_owned()),
        ..answer(ENDPOINT, 200, r#"{"@type":"dcat:Catalogue","dataset":[]}"#)
    };
    let page = decode_with(&dsp_node(ENDPOINT), &response).unwrap();
    let faults: Vec<_> = page.forgiven.into_keys().collect();
    assert_eq!(faults, [Forgiven::ContentTypeMismatch, Forgiven::MisspeltClass, Forgiven::MissingContext]);
}

#[test]
fn a_cursor_of_another_version_is_no_panic() {
    let node = dsp_node(ENDPOINT);
    let task = Task { cursor: "v0;page=3".into(), ..page_task(&node) };
    assert!(matches!(DspReader::new().request(&node, &task), Err(ReadError::BadCursor { .. })));
}

#[test]
fn credentials_in_the_endpoint_stay_out_of_the_cursor() {
    let root = DspReader::new().root_task(&dsp_node("https://user:hunter2@acme.example/dsp")).unwrap();
    assert!(!format!("{root:?}").contains("hunter2"), "{root:?}");
    assert_eq!(url("https://acme.example/dsp").as_str(), root.provenance[0]);
}
