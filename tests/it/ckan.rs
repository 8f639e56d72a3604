//! The CKAN reader: paging over a list that changes, errors in every form, and the shapes that portals send.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};
use trawler::protocol::ckan::CkanReader;
use trawler::protocol::{
    Checkpoint, CkanSettings, Forgiven, InFull, Limited, NodeContext, Page, ProtocolSettings, ReadError, Reader,
    Reading, Request, Response,
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

// Incremental traversals

/// What a portal says at this moment of its own clock.
fn at(date: &str, response: Response) -> Response {
    Response { date: Some(date.parse().unwrap()), ..response }
}

/// A portal whose clock stands at `now`, with one package a page: number and date of each.
fn dated_portal(now: &str, dates: &[&str]) -> impl Fn(&Request) -> Response {
    move |request| {
        let at_row = start(request);
        let package = json!({"id": format!("p{at_row}"), "metadata_modified": dates.get(at_row)});
        let results = if at_row < dates.len() { json!([package]) } else { json!([]) };
        let body = json!({"success": true, "result": {"count": dates.len(), "results": results}});
        at(now, answer(request.url.as_str(), 200, body.to_string()))
    }
}

/// What a full traversal of a portal with these dates leaves as its checkpoint.
fn left_by(now: &str, dates: &[&str]) -> Option<String> {
    let walk = walk_with(1, dated_portal(now, dates));
    let (last, before) = walk.pages.split_last().unwrap();
    assert!(before.iter().all(|page| page.as_ref().unwrap().checkpoint.is_none()), "only the last page gives one");
    last.as_ref().unwrap().checkpoint.clone().map(|checkpoint| checkpoint.0)
}

fn with_checkpoint(moment: &str, filter: Option<&str>) -> NodeContext {
    let settings = CkanSettings { page_size: 2, filter: filter.map(str::to_owned) };
    let checkpoint = Some(Checkpoint(moment.to_owned()));
    NodeContext { checkpoint, ..node(PORTAL, ProtocolSettings::Ckan(settings)) }
}

#[test]
fn the_checkpoint_is_the_newest_date_that_the_portal_wrote() {
    let dates = ["2026-02-03T04:05:06.000007", "2026-05-03T04:05:06", "2025-01-01T00:00:00"];
    assert_eq!(left_by("2026-11-30T00:00:00Z", &dates).as_deref(), Some("2026-05-03T04:05:06Z"));
    // A package of another system's, with a zone.
    let dates = ["2026-05-03T04:05:06", "2026-05-03T05:05:06+02:00"];
    assert_eq!(left_by("2026-11-30T00:00:00Z", &dates).as_deref(), Some("2026-05-03T04:05:06Z"));
}

#[test]
fn a_date_in_the_portals_future_does_not_become_the_checkpoint() {
    let dates = ["2026-05-03T04:05:06", "2099-01-01T00:00:00"];
    assert_eq!(left_by("2026-11-30T00:00:00Z", &dates).as_deref(), Some("2026-05-03T04:05:06Z"));
    assert_eq!(left_by("2026-11-30T00:00:00Z", &["2099-01-01T00:00:00"]), None);
}

#[test]
fn an_edit_made_while_the_pages_are_read_comes_again() {
    // The portal's clock goes on; package p1 is edited after the first page was answered.
    let walk = walk_with(1, |request| {
        let now = ["2026-05-03T10:00:00Z", "2026-05-05T10:00:00Z"][start(request).min(1)];
        dated_portal(now, &["2026-05-03T09:00:00", "2026-05-05T09:59:59"])(request)
    });
    assert_eq!(walk.last().checkpoint, Some(Checkpoint("2026-05-03T09:00:00Z".to_owned())));
}

#[test]
fn a_portal_whose_application_is_slower_than_its_web_server_is_asked_by_the_dates_it_writes() {
    // Its packages' clock is a week behind its Date.
    let left = left_by("2026-05-10T12:00:00Z", &["2026-05-03T11:59:59", "2026-05-01T00:00:00"]);
    assert_eq!(left.as_deref(), Some("2026-05-03T11:59:59Z"));
}

#[test]
fn without_the_portals_date_or_dates_there_is_no_checkpoint() {
    let walk = walk_with(1, |request| Response {
        date: None,
        ..dated_portal("2026-11-30T00:00:00Z", &["2026-05-03T04:05:06"])(request)
    });
    assert_eq!(walk.last().checkpoint, None);
    assert_eq!(left_by("2026-11-30T00:00:00Z", &["", "2026 TO *] OR *:*"]), None);
}

#[test]
fn an_incremental_traversal_asks_for_what_was_modified_since_with_a_day_of_overlap() {
    let node = with_checkpoint("2026-05-03T04:05:06.7Z", None);
    let reader = CkanReader::new();
    let request = reader.request(&node, &reader.root_task(&node).unwrap()).unwrap();
    assert_eq!(query(&request, "fq").unwrap(), "metadata_modified:[2026-05-02T04:05:06Z TO *]");
    assert_eq!(query(&request, "q"), None);
    assert!(request.decodes_client_errors, "a refusal is an answer");
}

/// Solr finds nothing for a query that only excludes, unless it stands alone.
#[test]
fn the_nodes_own_filter_stays_a_query_of_its_own() {
    let node = with_checkpoint("2026-05-03T04:05:06Z", Some("-organization:city"));
    let reader = CkanReader::new();
    let request = reader.request(&node, &reader.root_task(&node).unwrap()).unwrap();
    assert_eq!(query(&request, "fq").unwrap(), "-organization:city");
    assert_eq!(query(&request, "q").unwrap(), "metadata_modified:[2026-05-02T04:05:06Z TO *]");
}

#[test]
fn every_page_of_a_list_of_changes_asks_for_the_same_changes() {
    let dates = ["2026-05-02T05:00:00", "2026-05-03T05:00:00", "2026-05-04T05:00:00"];
    let reader = CkanReader::new();
    let walk =
        walk(&reader, &with_checkpoint("2026-05-03T04:05:06Z", None), dated_portal("2026-05-05T00:00:00Z", &dates));
    let filtered = "fq=metadata_modified%3A%5B2026-05-02T04%3A05%3A06Z+TO+*%5D";
    assert_eq!(walk.requests.iter().filter(|request| request.ends_with(filtered)).count(), 3, "{:?}", walk.requests);
    let since: Timestamp = "2026-05-02T04:05:06Z".parse().unwrap();
    for page in &walk.pages {
        assert_eq!(page.as_ref().unwrap().reading, Some(Reading::Since(since)));
    }
    assert_eq!(walk.last().checkpoint, Some(Checkpoint("2026-05-04T05:00:00Z".to_owned())));
}

/// A page of an interrupted traversal asks as its first page did, though nobody remembers the checkpoint any more.
#[test]
fn a_later_page_does_not_depend_on_the_checkpoint() {
    let node = with_checkpoint("2026-05-03T04:05:06Z", None);
    let reader = CkanReader::new();
    let root = reader.root_task(&node).unwrap();
    let page =
        reader.decode(&node, &root, &at("2026-05-05T00:00:00Z", answer(SEARCH, 200, page_of(9, &[1, 2])))).unwrap();
    let forgetful = NodeContext { checkpoint: None, ..node.clone() };
    assert_eq!(reader.request(&forgetful, &page.feedback[0]), reader.request(&node, &page.feedback[0]));
}

#[test]
fn a_checkpoint_is_not_moved_backwards_by_what_the_overlap_brings_again() {
    let node = with_checkpoint("2026-05-03T04:05:06Z", None);
    let walk = walk(&CkanReader::new(), &node, dated_portal("2026-05-05T00:00:00Z", &["2026-05-02T05:00:00"]));
    assert_eq!(walk.last().checkpoint, node.checkpoint);
}

/// What an incremental traversal does if the portal answers its question so: the requests' filters, and the readings.
fn after(question: &Response) -> (Vec<bool>, Vec<Option<Reading>>, Walk) {
    let node = with_checkpoint("2026-05-03T04:05:06Z", None);
    let everything = dated_portal("2026-05-05T00:00:00Z", &["2020-01-01T00:00:00", "2026-05-04T05:00:00"]);
    let walk = walk(&CkanReader::new(), &node, |request| {
        let is_question = query(request, "fq").is_some();
        if is_question { Response { url: request.url.clone(), ..question.clone() } } else { everything(request) }
    });
    let asks: Vec<_> = walk.requests.iter().map(|request| request.contains("metadata_modified")).collect();
    let readings = walk.pages.iter().map(|page| page.as_ref().unwrap().reading).collect();
    (asks, readings, walk)
}

#[test]
fn a_portal_that_refuses_the_question_is_read_in_full() {
    let error = include_str!("../fixtures/ckan/error-validation.json");
    for refusal in [answer(SEARCH, 409, error), answer(SEARCH, 400, "<html>Bad request"), answer(SEARCH, 200, error)] {
        let (asks, readings, walk) = after(&refusal);
        assert_eq!(asks, [true, false, false]);
        assert_eq!(readings, [Some(Reading::FullBecause(InFull::Refused)), Some(Reading::Full), Some(Reading::Full)]);
        assert_eq!(walk.ids(), ["/p0", "/p1"]);
        assert_eq!(walk.last().checkpoint, Some(Checkpoint("2026-05-04T05:00:00Z".to_owned())));
    }
}

#[test]
fn a_portal_that_does_not_hear_the_question_is_read_in_full() {
    let dates = ["2020-01-01T00:00:00", "2026-05-04T05:00:00"];
    let deaf = dated_portal("2026-05-05T00:00:00Z", &dates)(&Request::get(
        format!("{SEARCH}?start=0").parse().unwrap(),
        "application/json",
    ));
    let (asks, readings, walk) = after(&deaf);
    assert_eq!(asks, [true, false, false]);
    assert_eq!(readings[0], Some(Reading::FullBecause(InFull::Ignored)));
    assert_eq!(walk.ids(), ["/p0", "/p1"], "what came instead of an answer is not taken in");
}

#[test]
fn a_portal_whose_clock_was_put_back_is_read_in_full() {
    let (asks, readings, walk) = after(&at("2026-05-01T00:00:00Z", answer(SEARCH, 200, page_of(0, &[]))));
    assert_eq!(asks, [true, false, false]);
    assert_eq!(readings[0], Some(Reading::FullBecause(InFull::ClockPutBack)));
    assert_eq!(walk.ids(), ["/p0", "/p1"]);
}

#[test]
fn a_portal_that_lists_no_change_not_even_the_one_of_the_checkpoint_is_read_in_full() {
    for nothing in [page_of(0, &[]), page_of(2, &[]), r#"{"success":true,"result":{"results":[]}}"#.to_owned()] {
        let (asks, readings, walk) = after(&at("2026-07-01T00:00:00Z", answer(SEARCH, 200, nothing)));
        assert_eq!(asks, [true, false, false]);
        assert_eq!(readings, [Some(Reading::FullBecause(InFull::Forgotten)), Some(Reading::Full), Some(Reading::Full)]);
        assert_eq!(walk.ids(), ["/p0", "/p1"]);
        assert_eq!(walk.last().checkpoint, Some(Checkpoint("2026-05-04T05:00:00Z".to_owned())));
    }
}

#[test]
fn a_list_of_changes_whose_total_fell_moves_no_checkpoint() {
    // After the first page p0 and p1 go and another one comes, so that one row more slips by than the total tells.
    let (before, now) = (["p0", "p1", "p2", "p3", "p4", "p5"].as_slice(), ["p2", "p3", "p4", "p5", "p6"].as_slice());
    let list = |request: &Request| {
        let listed = if start(request) == 0 { before } else { now };
        let packages = listed.iter().skip(start(request)).take(2);
        let packages: Vec<_> =
            packages.map(|id| json!({"id": id, "metadata_modified": "2026-05-04T05:00:00"})).collect();
        let body = json!({"success": true, "result": {"count": listed.len(), "results": packages}});
        at("2026-05-05T00:00:00Z", answer(request.url.as_str(), 200, body.to_string()))
    };
    let checkpoint = Some(Checkpoint("2026-05-03T04:05:06Z".to_owned()));
    let changes = walk(&CkanReader::new(), &with_checkpoint("2026-05-03T04:05:06Z", None), list);
    assert!(!changes.ids().contains(&"/p2".to_owned()), "it slipped by: {:?}", changes.ids());
    assert_eq!(changes.last().checkpoint, checkpoint);
    assert!(last_is_whole(&changes));
}

#[test]
fn rows_that_leave_a_list_of_changes_while_it_is_read_hide_none() {
    // p1 is deleted after the first page; p2 moves up to a place that has been read.
    let node = with_checkpoint("2026-05-03T04:05:06Z", None);
    let walk = walk(&CkanReader::new(), &node, |request| {
        let all: Vec<usize> = if start(request) == 0 { (0..5).collect() } else { vec![0, 2, 3, 4] };
        at("2026-05-05T00:00:00Z", portal(&all, 2)(request))
    });
    let ids: BTreeSet<_> = walk.ids().into_iter().collect();
    assert_eq!(ids.len(), 5, "{ids:?}");
    assert!(last_is_whole(&walk));
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
