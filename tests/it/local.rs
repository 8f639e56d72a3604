//! Whole runs, as a person makes them: the command against servers on loopback.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};
use trawler::demo::{DemoFederation, DemoOptions};

use crate::support::http_server::{HttpServer, Reply};
use crate::support::trawler::{Ended, Workplace, manifests};

const LOOPBACK: &str = "127.0.0.0/8";

fn run(place: &Workplace, more: &[&str]) -> Ended {
    let mut arguments = vec!["run", "-f", "in.yaml", "-d", "out", "--allow-private", LOOPBACK, "-o", "json"];
    arguments.extend(more);
    place.trawler(&arguments)
}

fn totals(report: &Value) -> [u64; 4] {
    ["added", "updated", "unchanged", "deleted"].map(|name| report["totals"][name].as_u64().unwrap())
}

/// State and message of a node.
fn node(report: &Value, name: &str) -> (String, String) {
    let nodes = report["nodes"].as_array().unwrap();
    let node = nodes.iter().find(|node| node["name"] == name).unwrap();
    (node["state"].as_str().unwrap().to_owned(), node["message"].as_str().unwrap_or_default().to_owned())
}

fn ckan_page(ids: &[&str], count: usize) -> Vec<u8> {
    let results: Vec<Value> =
        ids.iter().map(|id| json!({"id": id, "name": id, "title": format!("Title of {id}")})).collect();
    json!({"success": true, "result": {"count": count, "results": results}}).to_string().into_bytes()
}

/// A portal with a few datasets that answers any page in one.
async fn portal(ids: &'static [&'static str]) -> HttpServer {
    HttpServer::start(move |_| Reply::ok(ckan_page(ids, ids.len())).field("Content-Type", "application/json")).await
}

async fn in_background(work: impl FnOnce() -> Ended + Send + 'static) -> Ended {
    tokio::task::spawn_blocking(work).await.unwrap()
}

async fn run_in(place: &Arc<Workplace>, more: &'static [&'static str]) -> Ended {
    let place = place.clone();
    in_background(move || run(&place, more)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_federation_is_crawled_completely_and_a_second_run_says_unchanged() {
    let federation = DemoFederation::start(DemoOptions::default()).await.unwrap();
    let expected: u64 = federation.nodes().iter().map(|node| node.records).sum();
    let place = Arc::new(Workplace::new());
    place.write("in.yaml", &federation.manifests());

    let first = run_in(&place, &[]).await;
    assert_eq!((first.code, first.stderr.as_str()), (0, "Crawling Catalog demo (5 nodes), run 1\n"));
    assert_eq!(totals(&place.report("out")), [expected, 0, 0, 0]);
    assert_eq!(place.read("out/records.jsonl").lines().count() as u64, expected);

    let second = run_in(&place, &[]).await;
    assert_eq!(second.code, 0);
    assert_eq!(totals(&place.report("out")), [0, 0, expected, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_added_updated_and_deleted_between_two_runs_is_told_apart() {
    let federation = DemoFederation::start(DemoOptions::default()).await.unwrap();
    let before: u64 = federation.nodes().iter().map(|node| node.records).sum();
    let place = Arc::new(Workplace::new());
    place.write("in.yaml", &federation.manifests());
    run_in(&place, &[]).await;

    let change = federation.change();
    let dry = run_in(&place, &["--dry-run"]).await;
    assert_eq!(totals(&place.report("out")), [before, 0, 0, 0], "a dry run writes nothing");
    let real = run_in(&place, &[]).await;

    let unchanged = before - change.updated - change.deleted;
    let expected = [change.added, change.updated, unchanged, change.deleted];
    for (name, ended) in [("dry", dry), ("real", real)] {
        let report: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!((name, totals(&report)), (name, expected));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_node_is_named_with_its_reason_and_the_others_are_crawled() {
    let good = portal(&["a", "b", "c"]).await;
    let html =
        HttpServer::start(|_| Reply::ok("<!doctype html><title>Parked</title>").field("Content-Type", "text/html"))
            .await;
    let unauthorised = HttpServer::start(|_| Reply::status(401)).await;
    let missing = HttpServer::start(|_| Reply::status(404)).await;
    let broken = HttpServer::start(|_| Reply::status(500)).await;
    let truncated = HttpServer::start(|_| Reply::ok("{\"success\": true, \"result\": {\"count\": 1, \"resu")).await;
    let place = Arc::new(Workplace::new());
    let urls = [&good, &html, &unauthorised, &missing, &broken, &truncated].map(|server| server.url("/").to_string());
    let names = ["good", "html", "unauthorised", "missing", "broken", "truncated"];
    let nodes: Vec<(&str, &str, &str)> =
        names.iter().zip(&urls).map(|(name, url)| (*name, url.as_str(), "  protocol: CKAN\n")).collect();
    place.write(
        "in.yaml",
        &manifests(&nodes).replace("spec:\n      retries", "spec:\n      maxFailedNodesPercent: 90\n      retries"),
    );

    let ended = run_in(&place, &[]).await;

    assert_eq!(ended.code, 3, "{}", ended.stderr);
    let report = place.report("out");
    assert_eq!(node(&report, "good"), ("Complete".to_owned(), String::new()));
    assert_eq!(totals(&report), [3, 0, 0, 0]);
    for (name, part) in [
        ("html", "<!doctype html>"),
        ("unauthorised", "answered 401 Unauthorized; name a Secret in credentialRef"),
        ("missing", "answered 404 Not Found; check the endpoint"),
        ("broken", "answered 500 Internal Server Error"),
        ("truncated", "EOF"),
    ] {
        let (state, message) = node(&report, name);
        assert_eq!(state, "Failed", "{name}");
        assert!(message.contains(part), "{name}: {message:?} does not say {part:?}");
        assert_eq!(message.lines().count(), 1, "{name}: more than a sentence");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn when_every_node_failed_the_run_failed() {
    let broken = HttpServer::start(|_| Reply::status(500)).await;
    let place = Arc::new(Workplace::new());
    place.write("in.yaml", &manifests(&[("broken", broken.url("/").as_str(), "  protocol: CKAN\n")]));
    let ended = run_in(&place, &[]).await;
    assert_eq!(ended.code, 1);
    assert_eq!(place.report("out")["outcome"], "Failed");
    assert_eq!(broken.seen().len(), 2, "one try and one retry");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_fails_keeps_its_records_and_is_stale() {
    let down = Arc::new(AtomicBool::new(false));
    let is_down = down.clone();
    let server = HttpServer::start(move |_| {
        if is_down.load(Ordering::SeqCst) { Reply::status(502) } else { Reply::ok(ckan_page(&["a", "b"], 2)) }
    })
    .await;
    let place = Arc::new(Workplace::new());
    place.write("in.yaml", &manifests(&[("portal", server.url("/").as_str(), "  protocol: CKAN\n")]));
    run_in(&place, &[]).await;
    down.store(true, Ordering::SeqCst);

    run_in(&place, &[]).await;

    let report = place.report("out");
    assert_eq!(report["nodes"][0]["stale"], true);
    assert_eq!(report["nodes"][0]["records"], 2);
    assert_eq!(place.read("out/records.jsonl").lines().count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_page_chain_ends_at_the_limit_and_says_so() {
    let page = Arc::new(AtomicUsize::new(0));
    let server = HttpServer::start(move |_| {
        let number = page.fetch_add(1, Ordering::SeqCst);
        let body = format!(
            "@prefix dcat: <http://www.w3.org/ns/dcat#> . @prefix hydra: <http://www.w3.org/ns/hydra/core#> .
             <http://example.org/d/{number}> a dcat:Dataset .
             <?page={number}> a hydra:PartialCollectionView ; hydra:next <?page={}> .",
            number + 1
        );
        Reply::ok(body).field("Content-Type", "text/turtle")
    })
    .await;
    let place = Arc::new(Workplace::new());
    let more = "  protocol: DCAT\n  limits: {maxPages: 7}\n";
    place.write("in.yaml", &manifests(&[("endless", server.url("/catalog").as_str(), more)]));

    let ended = run_in(&place, &[]).await;

    assert_eq!(ended.code, 3, "{}", ended.stderr);
    assert_eq!(server.seen().len(), 7);
    let report = place.report("out");
    let (state, message) = node(&report, "endless");
    assert_eq!(state, "Partial");
    assert!(message.contains("maxPages"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_of_new_addresses_with_the_same_page_ends_at_the_first_repeat() {
    let page = Arc::new(AtomicUsize::new(0));
    let server = HttpServer::start(move |_| {
        let number = page.fetch_add(1, Ordering::SeqCst);
        let body = format!(
            "@prefix dcat: <http://www.w3.org/ns/dcat#> . @prefix hydra: <http://www.w3.org/ns/hydra/core#> .
             <http://example.org/d/1> a dcat:Dataset .
             <?page={number}> a hydra:PartialCollectionView ; hydra:next <?page={}> .",
            number + 1
        );
        Reply::ok(body).field("Content-Type", "text/turtle")
    })
    .await;
    let place = Arc::new(Workplace::new());
    place.write("in.yaml", &manifests(&[("endless", server.url("/catalog").as_str(), "  protocol: DCAT\n")]));

    let ended = run_in(&place, &[]).await;

    assert_eq!((ended.code, server.seen().len()), (3, 2), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_that_lead_in_a_circle_are_read_once_each() {
    let server = HttpServer::start(|seen| {
        let (this, next) = if seen.target.contains("page=2") { (2, 1) } else { (1, 2) };
        let body = format!(
            "@prefix dcat: <http://www.w3.org/ns/dcat#> . @prefix hydra: <http://www.w3.org/ns/hydra/core#> .
             <http://example.org/d/{this}> a dcat:Dataset .
             <?page={this}> a hydra:PagedCollection ; hydra:nextPage \"?page={next}\" ."
        );
        Reply::ok(body).field("Content-Type", "text/turtle")
    })
    .await;
    let place = Arc::new(Workplace::new());
    place.write("in.yaml", &manifests(&[("circle", server.url("/catalog?page=1").as_str(), "  protocol: DCAT\n")]));

    let ended = run_in(&place, &[]).await;

    assert_eq!(server.asked(), ["GET /catalog?page=1", "GET /catalog?page=2"], "{}", ended.stderr);
    assert_eq!(totals(&place.report("out"))[0], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn loopback_is_refused_unless_it_is_allowed() {
    let server = portal(&["a"]).await;
    let place = Arc::new(Workplace::new());
    place.write("in.yaml", &manifests(&[("portal", server.url("/").as_str(), "  protocol: CKAN\n")]));
    let there = place.clone();
    let ended = in_background(move || there.trawler(&["run", "-f", "in.yaml", "-d", "out", "-o", "json"])).await;
    assert_eq!((ended.code, server.seen().len()), (1, 0));
    assert!(
        node(&place.report("out"), "portal").1.contains("--allow-private"),
        "{:?}",
        node(&place.report("out"), "portal")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_secret_fails_its_node_alone() {
    let server = portal(&["a"]).await;
    let place = Arc::new(Workplace::new());
    let endpoint = server.url("/").to_string();
    place.write(
        "in.yaml",
        &manifests(&[
            ("locked", &endpoint, "  protocol: CKAN\n  credentialRef: {name: token}\n"),
            ("open", &endpoint, "  protocol: CKAN\n"),
        ]),
    );
    // A directory where a file belongs can't be read, also not by root.
    std::fs::create_dir_all(place.path("secrets/token/token")).unwrap();
    let ended = run_in(&place, &["--secrets-dir", "secrets"]).await;
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    let report = place.report("out");
    assert_eq!(node(&report, "locked").0, "Failed");
    assert!(node(&report, "locked").1.contains("secrets/token/token"), "{}", node(&report, "locked").1);
    assert_eq!(node(&report, "open").0, "Complete");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_is_sent_and_never_written() {
    let server = portal(&["a"]).await;
    let place = Arc::new(Workplace::new());
    let endpoint = server.url("/").to_string();
    place.write("in.yaml", &manifests(&[("portal", &endpoint, "  protocol: CKAN\n  credentialRef: {name: token}\n")]));
    place.write("secrets/token/token", "canary-7f3a\n");
    let ended = run_in(&place, &["--secrets-dir", "secrets", "--log", "trace"]).await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(server.seen()[0].field("authorization"), Some("Bearer canary-7f3a"));
    assert!(!ended.stdout.contains("canary-7f3a") && !ended.stderr.contains("canary-7f3a"));
    let mut files = vec![place.path("out")];
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let bytes = std::fs::read(&path).unwrap();
            assert!(!bytes.windows(11).any(|part| part == b"canary-7f3a"), "{}", path.display());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_the_catalog_no_longer_selects_loses_its_records_under_the_guard() {
    let (keep, leave) = (portal(&["a"]).await, portal(&["b"]).await);
    let place = Arc::new(Workplace::new());
    let (keep, leave) = (keep.url("/").to_string(), leave.url("/").to_string());
    let ckan = "  protocol: CKAN\n";
    place.write("in.yaml", &manifests(&[("keep", &keep, ckan), ("leave", &leave, ckan)]));
    run_in(&place, &[]).await;
    place.write("in.yaml", &manifests(&[("keep", &keep, ckan)]));

    let ended = run_in(&place, &[]).await;

    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let report = place.report("out");
    assert_eq!(node(&report, "leave").0, "Removed");
    assert_eq!(totals(&report), [0, 0, 1, 1]);
}
