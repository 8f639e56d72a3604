//! The CKAN reader: paging over a list that changes, errors in every form, and the shapes that portals send.

use serde_json::{Value, json};
use trawler::protocol::ckan::CkanReader;
use trawler::protocol::{
    Checkpoint, CkanSettings, Forgiven, Limited, NodeContext, Page, ProtocolSettings, ReadError, Reader, Request,
    Response,
};
use trawler::record::{ContentHash, LangString, Record};

use crate::support::exchange::{Walk, answer, ckan_node, node, walk};
use crate::support::reader_contract::assert_same_content;

const PORTAL: &str = "https://portal.acme.example";
const SEARCH: &str = "https://portal.acme.example/api/3/action/package_search";
const PACKAGES: &str = include_str!("../fixtures/ckan/package-search.json");

fn decode(body: impl Into<bytes::Bytes>) -> Result<Page, ReadError> {
    let node = ckan_node(PORTAL);
    let reader = CkanReader::new();
    reader.decode(&node, &reader.root_task(&node).unwrap(), &answer(SEARCH, 200, body))
}

fn ids(page: &Page) -> Vec<&str> {
    page.records.iter().map(|record| record.id.as_str()).collect()
}

fn without_raw(mut record: Record) -> Value {
    record.raw = None;
    serde_json::to_value(record).unwrap()
}

fn query(request: &Request, name: &str) -> Option<String> {
    request.url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

fn start(request: &Request) -> usize {
    query(request, "start").unwrap().parse().unwrap()
}

/// A page of packages with these numbers for ids.
fn page_of(count: usize, ids: &[usize]) -> String {
    let packages: Vec<_> = ids.iter().map(|id| json!({"id": format!("p{id:03}"), "title": "x"})).collect();
    json!({"success": true, "result": {"count": count, "results": packages}}).to_string()
}

/// A portal with these packages that never gives more than `clamp` rows.
fn portal(packages: &[usize], clamp: usize) -> impl Fn(&Request) -> Response {
    move |request| {
        let rows: usize = query(request, "rows").unwrap().parse().unwrap();
        let page: Vec<_> = packages.iter().copied().skip(start(request)).take(rows.min(clamp)).collect();
        answer(request.url.as_str(), 200, page_of(packages.len(), &page))
    }
}

fn walk_with(rows: u32, respond: impl Fn(&Request) -> Response) -> Walk {
    let node = node(PORTAL, ProtocolSettings::Ckan(CkanSettings { page_size: rows, filter: None }));
    walk(&CkanReader::new(), &node, respond)
}

fn last_is_whole(walk: &Walk) -> bool {
    walk.pages.iter().all(|page| page.as_ref().unwrap().limited.is_none())
}

// Paging

/// "Inputs that broke other harvesters", 2.
#[test]
fn a_stable_order_is_asked_for_and_nothing_private() {
    let settings = CkanSettings { page_size: 250, filter: Some("organization:city".to_owned()) };
    let node = node(PORTAL, ProtocolSettings::Ckan(settings));
    let reader = CkanReader::new();
    let request = reader.request(&node, &reader.root_task(&node).unwrap()).unwrap();
    let asked =
        "https://portal.acme.example/api/3/action/package_search?sort=id+asc&rows=250&start=0&fq=organization%3Acity";
    assert_eq!(request.url.as_str(), asked);
}

#[test]
fn a_page_with_all_that_is_counted_is_the_last() {
    let walk = walk_with(100, portal(&[1, 2, 3], 1000));
    assert_eq!(walk.ids(), ["/p001", "/p002", "/p003"]);
    assert_eq!((walk.requests.len(), walk.last().total), (1, Some(3)));
    assert!(walk.last().forgiven.is_empty());
}

/// "Inputs that broke other harvesters", 3.
#[test]
fn rows_that_are_clamped_in_silence_cost_no_record() {
    let packages: Vec<_> = (0..25).collect();
    let walk = walk_with(5000, portal(&packages, 10));
    assert_eq!(walk.ids().len(), 25);
    assert_eq!(walk.requests.len(), 3);
    assert_eq!(walk.pages[0].as_ref().unwrap().forgiven[&Forgiven::ClampedPageSize], 1);
    assert!(last_is_whole(&walk));
}

#[test]
fn a_count_that_shrinks_hides_no_package() {
    // Package 1 is deleted after the first page; what was at offset 4 is then at 3, which has been read already.
    let walk = walk_with(4, |request| {
        let packages: Vec<usize> =
            if start(request) == 0 { (0..9).collect() } else { (0..9).filter(|n| *n != 1).collect() };
        portal(&packages, 4)(request)
    });
    let mut ids = walk.ids();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 9, "{ids:?}");
    assert!(walk.pages.iter().any(|page| page.as_ref().unwrap().forgiven.contains_key(&Forgiven::TotalMismatch)));
    assert!(last_is_whole(&walk));
}

#[test]
fn a_count_that_collapses_is_no_whole_list() {
    let walk = walk_with(4, |request| {
        let packages: Vec<usize> = if start(request) == 0 { (0..40).collect() } else { Vec::new() };
        portal(&packages, 4)(request)
    });
    assert_eq!(walk.last().limited, Some(Limited::FewerThanTotal));
    assert_eq!(walk.ids().len(), 4);
}

#[test]
fn an_empty_page_before_the_count_is_no_whole_list() {
    let walk = walk_with(4, |request| {
        let page: &[usize] = if start(request) == 0 { &[1, 2, 3, 4] } else { &[] };
        answer(request.url.as_str(), 200, page_of(10, page))
    });
    assert_eq!(walk.requests.len(), 2);
    assert_eq!(walk.last().limited, Some(Limited::FewerThanTotal));
}

#[test]
fn without_a_count_the_list_ends_at_an_empty_page() {
    let walk = walk_with(4, |request| {
        let results = if start(request) == 0 { json!([{"id": "a"}]) } else { json!([]) };
        answer(request.url.as_str(), 200, json!({"success": true, "result": {"results": results}}).to_string())
    });
    assert_eq!((walk.ids().len(), walk.requests.len()), (1, 2));
    assert!(last_is_whole(&walk));
}

#[test]
fn the_same_package_twice_in_a_page_is_one_record() {
    let page = decode(page_of(3, &[1, 2, 1])).unwrap();
    assert_eq!(ids(&page), ["p001", "p002"]);
    assert_eq!(page.forgiven[&Forgiven::DuplicateRecord], 1);
}

#[test]
fn the_last_page_says_what_an_incremental_traversal_starts_from() {
    let dates = ["2026-02-03T04:05:06.000007", "2026-05-03T04:05:06", "2025-01-01T00:00:00"];
    let walk = walk_with(1, |request| {
        let at = start(request);
        let package = json!({"id": at.to_string(), "metadata_modified": dates[at]});
        answer(
            request.url.as_str(),
            200,
            json!({"success": true, "result": {"count": 3, "results": [package]}}).to_string(),
        )
    });
    let checkpoints: Vec<_> = walk.pages.into_iter().map(|page| page.unwrap().checkpoint).collect();
    assert_eq!(checkpoints, [None, None, Some(Checkpoint(dates[1].to_owned()))]);
}

#[test]
fn an_incremental_traversal_asks_for_what_was_modified_since_with_a_day_of_overlap() {
    let checkpoint = Checkpoint("2026-05-03T04:05:06".to_owned());
    let node = NodeContext { checkpoint: Some(checkpoint.clone()), ..ckan_node(PORTAL) };
    let reader = CkanReader::new();
    let root = reader.root_task(&node).unwrap();
    let request = reader.request(&node, &root).unwrap();
    assert_eq!(query(&request, "fq").unwrap(), "metadata_modified:[2026-05-03T04:05:06Z-1DAY TO *]");
    let nothing = reader.decode(&node, &root, &answer(SEARCH, 200, page_of(0, &[]))).unwrap();
    assert_eq!(nothing.checkpoint, Some(checkpoint), "nothing new moves nothing");
}

#[test]
fn a_date_that_is_none_becomes_no_part_of_a_query() {
    let package = json!({"id": "a", "metadata_modified": "2026 TO *] OR *:*"});
    let page = decode(json!({"success": true, "result": {"count": 1, "results": [package]}}).to_string()).unwrap();
    assert_eq!(page.checkpoint, None);
}

// Shapes

#[test]
fn packages_are_read_whole() {
    let page = decode(PACKAGES).unwrap();
    assert!(page.forgiven.is_empty() && page.rejected.is_empty(), "{page:?}");
    insta::assert_json_snapshot!(page.records.into_iter().map(without_raw).collect::<Vec<_>>());
}

#[test]
fn the_raw_package_is_kept_verbatim() {
    let body = r#"{"success":true,"result":{"count":1,"results":[{ "id":"a", "n":1.0 }]}}"#;
    assert_eq!(decode(body).unwrap().records[0].raw.as_ref().unwrap().get(), r#"{ "id":"a", "n":1.0 }"#);
}

/// "Inputs that broke other harvesters", 11.
#[test]
fn one_package_without_id_or_with_a_fault_costs_no_other() {
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    let body = format!(
        r#"{{"success":true,"result":{{"count":5,"results":[{{"id":"a"}},{{"title":"x"}},"b",{{"id":"c","x":{deep}}},{{"id":7}}]}}}}"#
    );
    let page = decode(body).unwrap();
    assert_eq!(ids(&page), ["a", "7"]);
    let rejected: Vec<_> = page.rejected.iter().map(|rejected| rejected.what.as_str()).collect();
    assert_eq!(rejected, ["results[1]", "results[2]", "results[3]"]);
}

#[test]
fn a_deleted_package_is_reported_as_deleted() {
    let body = r#"{"success":true,"result":{"count":1,"results":[{"id":"a","state":"deleted"}]}}"#;
    let page = decode(body).unwrap();
    assert_eq!((page.records.len(), page.deleted_ids), (0, vec!["a".to_owned()]));
}

#[test]
fn a_backslash_that_escapes_nothing_costs_no_page() {
    let page = decode(r#"{"success":true,"result":{"count":1,"results":[{"id":"a","title":"C:\data"}]}}"#).unwrap();
    assert_eq!(page.records[0].title, [LangString::plain("C:\\data")]);
    assert_eq!(page.forgiven[&Forgiven::InvalidEscape], 1);
}

#[test]
fn a_package_stays_the_same_when_sets_are_shuffled_and_visits_are_counted() {
    let mut again: Value = serde_json::from_str(PACKAGES).unwrap();
    let packages = again["result"]["results"].as_array_mut().unwrap();
    packages.reverse();
    let package = &mut packages[2];
    package["tracking_summary"]["total"] = json!(13);
    for set in ["tags", "resources", "extras"] {
        package[set].as_array_mut().unwrap().reverse();
    }
    let node = ckan_node(PORTAL);
    let reader = CkanReader::new();
    let answers = [PACKAGES.to_owned(), again.to_string()].map(|body| answer(SEARCH, 200, body));
    assert_same_content(&reader, &node, &reader.root_task(&node).unwrap(), [&answers[0], &answers[1]]);
}

#[test]
fn a_package_changes_with_any_of_its_texts() {
    let hash = |body: &str| -> ContentHash { decode(body.to_owned()).unwrap().records[0].content_hash };
    assert_ne!(hash(PACKAGES), hash(&PACKAGES.replace("Hourly", "Daily")));
    assert_ne!(hash(PACKAGES), hash(&PACKAGES.replace("f1.csv", "f9.csv")));
}

// Answers that are no packages

#[test]
fn the_portals_own_error_is_an_error_whatever_its_status() {
    for (body, message) in [
        (include_str!("../fixtures/ckan/error-not-found.json"), "Not Found Error: Não encontrado"),
        (include_str!("../fixtures/ckan/error-validation.json"), "Validation Error: rows: Invalid integer"),
        (
            include_str!("../fixtures/ckan/error-unknown-action.json"),
            "Bad request - Action name not known: package_serch",
        ),
        (r#"{"success":false,"error":"down"}"#, "down"),
        (r#"{"success":false}"#, "no reason given"),
    ] {
        let error = decode(body).unwrap_err();
        assert!(matches!(&error, ReadError::ErrorAnswer { message: said, .. } if said == message), "{error}");
        let response = answer(SEARCH, 409, body);
        assert_eq!(CkanReader::new().describe_error(&response).as_deref(), Some(message));
    }
}

#[test]
fn an_error_in_the_middle_keeps_the_pages_before_it() {
    let walk = walk_with(2, |request| {
        if start(request) == 0 {
            portal(&[1, 2, 3], 10)(request)
        } else {
            answer(request.url.as_str(), 200, "<html>Busy</html>")
        }
    });
    assert_eq!(walk.ids(), ["/p001", "/p002"]);
    let error = walk.pages[1].as_ref().unwrap_err();
    assert!(matches!(error, ReadError::NotTheProtocol { start, .. } if start == "<html>Busy</html>"), "{error}");
}

#[test]
fn other_json_and_truncated_json_are_errors() {
    for body in [
        "",
        "null",
        "7",
        "[]",
        "{}",
        r#"{"success":true,"result":{"count":0}}"#,
        r#"{"success":true,"result":[]}"#,
        &PACKAGES[..900],
    ] {
        assert!(matches!(decode(body.to_owned()), Err(ReadError::NotTheProtocol { .. })), "{body}");
    }
}

/// "Inputs that broke other harvesters", 5.
#[test]
fn a_byte_order_mark_is_read_over() {
    let page = decode(format!("\u{feff}{PACKAGES}")).unwrap();
    assert_eq!((page.records.len(), page.forgiven[&Forgiven::ByteOrderMark]), (3, 1));
}
