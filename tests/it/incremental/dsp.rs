//! DSP connectors, which can't be asked for changes; and what a person sees of a run over several nodes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::{Place, in_full_because};
use crate::support::http_server::{HttpServer, Reply};
use crate::support::trawler::manifests;

/// A connector of 2025-1 that offers these datasets: ids with titles.
async fn connector(datasets: &Arc<Mutex<Vec<(&'static str, &'static str)>>>) -> HttpServer {
    let datasets = datasets.clone();
    HttpServer::start(move |seen| {
        let body = if seen.target.ends_with("/.well-known/dspace-version") {
            json!({"protocolVersions": [{"version": "2025-1", "path": "/2025-1", "binding": "HTTPS"}]})
        } else {
            let dataset = |(id, title): &(&str, &str)| {
                json!({"@id": id, "@type": "Dataset", "dct:title": title, "hasPolicy": [], "distribution": []})
            };
            let datasets = datasets.lock().unwrap();
            json!({
                "@context": ["https://w3id.org/dspace/2025/1/context.jsonld"], "@id": "c", "@type": "Catalog",
                "participantId": "did:web:acme.example",
                "dataset": datasets.iter().map(dataset).collect::<Vec<_>>(),
            })
        };
        Reply::ok(body.to_string()).field("Content-Type", "application/json")
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_38_a_connector_is_compared_with_what_is_known_and_says_so() {
    let datasets = Arc::new(Mutex::new(vec![("a", "A"), ("b", "B"), ("c", "C"), ("d", "D")]));
    let server = connector(&datasets).await;
    let why = "its protocol has no way to ask for changes";
    for protocol in ["DSP", "Auto"] {
        *datasets.lock().unwrap() = vec![("a", "A"), ("b", "B"), ("c", "C"), ("d", "D")];
        let place = Place::new(&server, "/", &format!("  protocol: {protocol}\n"));
        let first = place.run("Incremental", &server).await;
        assert_eq!((first.totals(), first.read()), ([4, 0, 0, 0], in_full_because(why)), "{protocol}");
        *datasets.lock().unwrap() = vec![("a", "A"), ("b", "B, corrected"), ("d", "D"), ("e", "E")];
        let second = place.run("Incremental", &server).await;
        assert_eq!((second.totals(), second.read()), ([1, 1, 2, 1], in_full_because(why)), "{protocol}");
        assert_eq!(place.titles(), ["A", "B, corrected", "D", "E"]);
    }
}

/// A connector that lists a nested catalogue at `/plant` while `is_listed`; each of the two has one dataset.
async fn nesting_connector(is_listed: &Arc<AtomicBool>) -> HttpServer {
    let is_listed = is_listed.clone();
    HttpServer::start(move |seen| {
        let body = if seen.target.ends_with("/.well-known/dspace-version") {
            json!({"protocolVersions": [{"version": "2025-1", "path": "/2025-1", "binding": "HTTPS"}]})
        } else {
            let id = if seen.target.starts_with("/plant") { "nested" } else { "own" };
            let plant = format!("http://{}/plant", seen.field("host").unwrap());
            let nested = json!([{
                "@id": "plant", "@type": "Catalog",
                "service": [{"@id": "s", "@type": "DataService", "endpointURL": plant}],
                "distribution": [{"@type": "Distribution", "format": "Catalog", "accessService": "s"}],
            }]);
            let lists = id == "own" && is_listed.load(Ordering::SeqCst);
            json!({
                "@context": ["https://w3id.org/dspace/2025/1/context.jsonld"], "@id": "c", "@type": "Catalog",
                "participantId": "did:web:acme.example",
                "dataset": [{"@id": id, "@type": "Dataset", "dct:title": id, "hasPolicy": [], "distribution": []}],
                "catalog": if lists { nested } else { json!([]) },
            })
        };
        Reply::ok(body.to_string()).field("Content-Type", "application/json")
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nested_catalogue_that_is_no_longer_listed_goes_in_an_incremental_run_too() {
    let is_listed = Arc::new(AtomicBool::new(true));
    let server = nesting_connector(&is_listed).await;
    let place = Place::new(&server, "/", "  protocol: DSP\n");
    assert_eq!(place.run("Incremental", &server).await.totals(), [2, 0, 0, 0]);
    is_listed.store(false, Ordering::SeqCst);
    assert_eq!(place.run("Incremental", &server).await.totals(), [0, 0, 1, 1]);
    assert_eq!(place.titles(), ["own"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_summary_says_how_each_node_was_read() {
    let connector = connector(&Arc::new(Mutex::new(vec![("a", "A")]))).await;
    let portal = HttpServer::start(|_| {
        let package = json!({"id": "p", "title": "P", "metadata_modified": "2026-05-03T04:05:06.123456"});
        let body = json!({"success": true, "result": {"count": 1, "results": [package]}}).to_string();
        Reply::ok(body).field("Date", "Tue, 05 May 2026 00:00:00 GMT")
    })
    .await;
    let document = HttpServer::start(|seen| {
        let reply = if seen.field("if-none-match").is_some() { Reply::status(304) } else { Reply::ok(DOCUMENT) };
        reply.field("ETag", "\"one\"").field("Content-Type", "text/turtle")
    })
    .await;
    let mut place = Place::new(&connector, "/", "");
    place.manifests = manifests(&[
        ("connector", connector.url("/").as_str(), "  protocol: DSP\n"),
        ("document", document.url("/c.ttl").as_str(), "  protocol: DCAT\n"),
        ("portal", portal.url("/").as_str(), "  protocol: CKAN\n"),
    ]);
    place.set_mode("Full");
    let run = "run -q -f in.yaml -d out --allow-private 127.0.0.0/8";
    assert!(!place.trawler(run).await.stdout.contains("READ"), "in a full run it goes without saying");
    place.set_mode("Incremental");
    let ended = place.trawler(run).await;
    let shown: Vec<_> = ended.stdout.lines().take_while(|line| !line.starts_with("Records")).collect();
    insta::assert_snapshot!(shown.join("\n"));
}

const DOCUMENT: &str = "@prefix dcat: <http://www.w3.org/ns/dcat#> . @prefix dct: <http://purl.org/dc/terms/> .
<https://d.example/1> a dcat:Dataset ; dct:title \"One\" .";
