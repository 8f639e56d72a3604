//! Paged feeds that are asked for what changed: `modified_since`, as ckanext-dcat understands it, and servers that don't.

use jiff::Timestamp;
use trawler::protocol::dcat::DcatReader;
use trawler::protocol::{Checkpoint, InFull, NodeContext, Reader, Reading, Request, Response};
use trawler::task::TaskKind;

use crate::support::dcat::{answer, node, root_task};
use crate::support::exchange::{Walk, walk};
use crate::support::paged_feed::{Server, answer_of};
use crate::support::reader_contract::contract;

const FEED: &str = "https://data.harbour.example/catalog.ttl";
const NOW: &str = "2026-05-05T00:00:00Z";
const CHECKPOINT: &str = "2026-05-03T04:05:06Z";

/// Datasets with the dates at which their descriptions were modified.
const DATASETS: [(&str, &str); 5] = [
    ("a", "2020-01-01T00:00:00"),
    ("b", "2026-05-04T00:00:00"),
    ("c", "2020-01-01T00:00:00"),
    ("d", "2026-05-02T12:00:00"),
    ("e", "2026-05-04T12:00:00"),
];

/// The feed's answer at this moment.
fn feed(server: Server, datasets: &[(&str, &str)], request: &Request) -> Response {
    let url = request.url.as_str();
    let response = match answer_of(server, datasets, &request.url) {
        Some(body) => answer(url, "text/turtle", body),
        None => Response { status: 400, ..answer(url, "text/html", "<html>What?") },
    };
    Response { date: Some(NOW.parse().unwrap()), ..response }
}

fn with_checkpoint(endpoint: &str) -> NodeContext {
    NodeContext { checkpoint: Some(Checkpoint(CHECKPOINT.to_owned())), ..node(endpoint) }
}

fn since() -> Reading {
    Reading::Since("2026-05-02T04:05:06Z".parse().unwrap())
}

/// The query of each request, in order.
fn queries(walk: &Walk) -> Vec<&str> {
    walk.requests.iter().map(|request| request.split_once('?').map_or("", |(_, query)| query)).collect()
}

fn readings(walk: &Walk) -> Vec<Option<Reading>> {
    walk.pages.iter().map(|page| page.as_ref().unwrap().reading).collect()
}

fn titles(walk: &Walk) -> Vec<&str> {
    let records = walk.pages.iter().flat_map(|page| &page.as_ref().unwrap().records);
    records.map(|record| &record.title[0].value[..1]).collect()
}

/// The checkpoint that counts: the last one given.
fn checkpoint(walk: &Walk) -> Option<String> {
    let mut given = walk.pages.iter().filter_map(|page| page.as_ref().unwrap().checkpoint.as_ref());
    given.next_back().map(|checkpoint| checkpoint.0.clone())
}

#[test]
fn a_paged_feed_leaves_the_servers_date_as_its_checkpoint() {
    let walk = walk(&DcatReader::new(), &node(FEED), |request| feed(Server::Knows, &DATASETS, request));
    assert_eq!(titles(&walk), ["a", "b", "c", "d", "e"]);
    assert_eq!(readings(&walk), [Some(Reading::Full); 3]);
    assert_eq!(checkpoint(&walk).as_deref(), Some(NOW));
}

#[test]
fn a_single_document_leaves_none_because_it_is_asked_for_by_its_validators() {
    let walk = walk(&DcatReader::new(), &node(FEED), |request| feed(Server::Knows, &DATASETS[..2], request));
    assert_eq!(readings(&walk), [Some(Reading::FullBecause(InFull::OneDocument))]);
    assert_eq!(checkpoint(&walk), None);
}

#[test]
fn without_the_servers_date_a_feed_leaves_none() {
    let walk = walk(&DcatReader::new(), &node(FEED), |request| Response {
        date: None,
        ..feed(Server::Knows, &DATASETS, request)
    });
    assert_eq!(checkpoint(&walk), None);
}

#[test]
fn a_feed_that_knows_the_question_gives_only_what_changed_page_by_page() {
    let node = with_checkpoint(FEED);
    let walk = walk(&DcatReader::new(), &node, |request| feed(Server::Knows, &DATASETS, request));
    // A day before the checkpoint, without zone: ckanext-dcat adds the `Z` itself.
    let first = "modified_since=2026-05-02T04%3A05%3A06";
    assert_eq!(queries(&walk), [first, "modified_since=2026-05-02T04:05:06&page=2"]);
    assert_eq!(titles(&walk), ["b", "d", "e"]);
    assert_eq!(readings(&walk), [Some(since()); 2]);
    assert_eq!(checkpoint(&walk).as_deref(), Some(NOW));
}

#[test]
fn a_question_is_never_conditional_and_its_refusal_is_an_answer() {
    let reader = DcatReader::new();
    let node = with_checkpoint(FEED);
    let request = reader.request(&node, &root_task(&node)).unwrap();
    assert_eq!((request.conditional, request.decodes_client_errors), (false, true));
}

#[test]
fn a_feed_in_which_nothing_changed_keeps_its_checkpoint() {
    let node = with_checkpoint(FEED);
    let walk = walk(&DcatReader::new(), &node, |request| feed(Server::Knows, &DATASETS[..1], request));
    assert_eq!((titles(&walk), readings(&walk)), (Vec::new(), vec![Some(since())]));
    // An outage can look the same: what it hides is asked for again.
    assert_eq!(checkpoint(&walk).as_deref(), Some(CHECKPOINT));
}

#[test]
fn one_page_of_changes_is_known_by_the_addresses_it_gives_to_pages() {
    let node = with_checkpoint(FEED);
    let walk = walk(&DcatReader::new(), &node, |request| feed(Server::Knows, &DATASETS[..2], request));
    assert_eq!((titles(&walk), readings(&walk)), (vec!["b"], vec![Some(since())]));
}

/// What happens at a server that does not do as asked.
fn walked_in_full(server: Server, datasets: &[(&str, &str)], why: InFull, pages: usize) -> Walk {
    let node = with_checkpoint(FEED);
    let walk = walk(&DcatReader::new(), &node, |request| feed(server, datasets, request));
    let ids: Vec<_> = datasets.iter().map(|(id, _)| *id).collect();
    assert_eq!(titles(&walk), ids, "everything, each once: {server:?}");
    let mut expected = vec![Some(Reading::Full); pages];
    expected.insert(0, Some(Reading::FullBecause(why)));
    assert_eq!(readings(&walk), expected, "{server:?}");
    assert!(queries(&walk)[1..].iter().all(|query| !query.contains("modified_since")), "{:?}", walk.requests);
    walk
}

#[test]
fn a_feed_that_refuses_the_question_is_read_in_full() {
    let walk = walked_in_full(Server::Refuses, &DATASETS, InFull::Refused, 3);
    assert_eq!(checkpoint(&walk).as_deref(), Some(NOW), "it may know it the next time");
}

#[test]
fn a_feed_that_ignores_the_question_is_read_in_full() {
    walked_in_full(Server::Ignores, &DATASETS, InFull::Ignored, 3);
    walked_in_full(Server::Ignores, &DATASETS[..2], InFull::Ignored, 1);
    walked_in_full(Server::Forgets, &DATASETS, InFull::Ignored, 3);
}

#[test]
fn a_feed_that_forgets_the_question_on_the_way_is_read_in_full_and_counts_as_a_part() {
    let node = with_checkpoint(FEED);
    let changed = DATASETS.map(|(id, _)| (id, "2026-05-04T00:00:00"));
    let walk = walk(&DcatReader::new(), &node, |request| feed(Server::ForgetsLater, &changed, request));
    assert_eq!(titles(&walk), ["a", "b", "a", "b", "c", "d", "e"]);
    let together = readings(&walk).into_iter().flatten().reduce(Reading::and);
    assert_eq!(together, Some(since()), "a traversal with a list of changes in it deletes nothing by absence");
}

#[test]
fn a_server_whose_clock_was_put_back_is_read_in_full() {
    let node = with_checkpoint(FEED);
    let walk = walk(&DcatReader::new(), &node, |request| Response {
        date: Some("2026-05-01T00:00:00Z".parse().unwrap()),
        ..feed(Server::Knows, &DATASETS, request)
    });
    assert_eq!(readings(&walk)[0], Some(Reading::FullBecause(InFull::ClockPutBack)));
    assert_eq!(checkpoint(&walk).as_deref(), Some("2026-05-01T00:00:00Z"));
}

/// What a person writes into the endpoint is what the node is.
#[test]
fn an_endpoint_that_asks_for_changes_itself_is_read_as_it_is() {
    let endpoint = format!("{FEED}?modified_since=2026-05-02T00:00:00");
    let node = with_checkpoint(&endpoint);
    let walk = walk(&DcatReader::new(), &node, |request| feed(Server::Knows, &DATASETS, request));
    assert_eq!(queries(&walk), ["modified_since=2026-05-02T00:00:00", "modified_since=2026-05-02T00:00:00&page=2"]);
    assert_eq!((titles(&walk), checkpoint(&walk)), (vec!["b", "d", "e"], None));
    assert_eq!(readings(&walk), [Some(Reading::Full); 2]);
}

#[test]
fn a_page_of_changes_that_is_fetched_after_a_crash_still_is_one() {
    let reader = DcatReader::new();
    let node = with_checkpoint(FEED);
    let first = reader.request(&node, &root_task(&node)).unwrap();
    let page = reader.decode(&node, &root_task(&node), &feed(Server::Knows, &DATASETS, &first)).unwrap();
    let (next, forgetful) = (&page.feedback[0], NodeContext { checkpoint: None, ..node.clone() });
    let request = reader.request(&forgetful, next).unwrap();
    let page = reader.decode(&forgetful, next, &feed(Server::Knows, &DATASETS, &request)).unwrap();
    assert_eq!((next.kind, page.reading), (TaskKind::Page, Some(since())));
}

#[test]
fn a_link_that_answers_another_question_is_no_answer_to_this_one() {
    let reader = DcatReader::new();
    let node = with_checkpoint(FEED);
    let request = reader.request(&node, &root_task(&node)).unwrap();
    let response = feed(Server::Knows, &DATASETS, &request);
    let other: Timestamp = "2026-05-04T00:00:00Z".parse().unwrap();
    let text = String::from_utf8(response.body.to_vec()).unwrap();
    let text = text.replace("2026-05-02T04:05:06", &other.strftime("%Y-%m-%dT%H:%M:%S").to_string());
    let page = reader.decode(&node, &root_task(&node), &Response { body: text.into(), ..response }).unwrap();
    assert_eq!(page.reading, Some(Reading::FullBecause(InFull::Ignored)));
}

#[test]
fn the_reader_keeps_the_contract_when_it_asks_for_changes() {
    let reader = DcatReader::new();
    let node = with_checkpoint(FEED);
    let request = reader.request(&node, &root_task(&node)).unwrap();
    let exchanges =
        [Server::Knows, Server::Ignores].map(|server| (root_task(&node), feed(server, &DATASETS, &request)));
    contract(&reader, &node, &exchanges);
}
