//! The federation that crawlers are measured with: it must be right before a figure from it can be.

use std::collections::BTreeSet;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::federation::{StubFederation, StubOptions};

fn options(nodes: usize, datasets_per_node: usize, page_size: usize) -> StubOptions {
    StubOptions { nodes, datasets_per_node, page_size, request_log: None }
}

fn addresses(federation: &StubFederation) -> Vec<String> {
    let manifests = federation.manifests();
    let address =
        |line: &str| Some(line.trim().strip_prefix("endpoint: http://")?.strip_suffix("/api/dsp")?.to_owned());
    manifests.lines().filter_map(address).collect()
}

fn post(target: &str) -> String {
    format!("POST {target} HTTP/1.1\r\nhost: stub\r\ncontent-length: 2\r\n\r\n{{}}")
}

/// Reads one answer: its head and its body.
async fn read_answer(stream: &mut TcpStream) -> (String, String) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("an answer"));
    }
    let head = String::from_utf8(head).expect("an ASCII head");
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).expect("a length");
    let mut body = vec![0; length.parse().expect("a number")];
    stream.read_exact(&mut body).await.expect("all of the body");
    (head, String::from_utf8(body).expect("UTF-8"))
}

async fn ask(stream: &mut TcpStream, request: &str) -> (String, String) {
    stream.write_all(request.as_bytes()).await.expect("it takes the request");
    read_answer(stream).await
}

/// The sizes of a node's pages and the ids in them, read over one connection.
async fn walk(address: &str) -> (Vec<usize>, BTreeSet<String>) {
    let mut stream = TcpStream::connect(address).await.expect("the node listens");
    let (mut sizes, mut ids) = (Vec::new(), BTreeSet::new());
    let mut target = "/api/dsp/2025-1/catalog/request".to_owned();
    loop {
        let (head, body) = ask(&mut stream, &post(&target)).await;
        let page: Value = serde_json::from_str(&body).expect("JSON");
        let datasets = page["dataset"].as_array().map_or(&[] as &[Value], Vec::as_slice);
        sizes.push(datasets.len());
        ids.extend(datasets.iter().map(|dataset| dataset["@id"].as_str().expect("an id").to_owned()));
        let link = head.lines().find_map(|line| line.strip_prefix("Link: <")?.strip_suffix(">; rel=\"next\""));
        let Some(link) = link else { return (sizes, ids) };
        target = String::from(link.strip_prefix(&format!("http://{address}")).expect("a link to itself"));
    }
}

#[tokio::test]
async fn every_node_lists_its_own_datasets_page_by_page() {
    let federation = StubFederation::start(&options(3, 100, 50)).await.expect("loopback has free ports");
    let mut all = BTreeSet::new();
    for address in addresses(&federation) {
        let (sizes, ids) = walk(&address).await;
        assert_eq!(sizes, [50, 50, 0]);
        all.extend(ids);
    }
    assert_eq!(all.len(), 300);
    assert_eq!(federation.requests(), 9);
}

#[tokio::test]
async fn last_page_that_is_not_full_ends_the_list() {
    let federation = StubFederation::start(&options(1, 120, 50)).await.expect("loopback has free ports");
    let (sizes, _) = walk(&addresses(&federation)[0]).await;
    assert_eq!(sizes, [50, 50, 20]);
}

#[tokio::test]
async fn a_dataset_has_the_size_that_the_benchmark_names() {
    let federation = StubFederation::start(&options(1, 100, 101)).await.expect("loopback has free ports");
    let (_, ids) = walk(&addresses(&federation)[0]).await;
    let average = federation.body_bytes() / ids.len() as u64;
    assert!((1150..1250).contains(&average), "{average} bytes");
}

#[tokio::test]
async fn pipelined_and_torn_requests_are_answered_in_order() {
    let federation = StubFederation::start(&options(1, 10, 10)).await.expect("loopback has free ports");
    let mut stream = TcpStream::connect(&addresses(&federation)[0]).await.expect("the node listens");
    let versions = "GET /api/dsp/.well-known/dspace-version HTTP/1.1\r\nhost: stub\r\n\r\n";
    let requests = format!("{versions}{}", post("/api/dsp/2025-1/catalog/request?continuationToken=rubbish"));
    let (first, second) = requests.split_at(versions.len() + 20);
    let (_, body) = ask(&mut stream, first).await;
    assert!(body.contains("\"2025-1\""), "{body}");
    let (head, _) = ask(&mut stream, second).await;
    assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
}

#[tokio::test]
async fn request_log_names_node_and_target() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let log = directory.path().join("requests.tsv");
    let options = StubOptions { request_log: Some(log.clone()), ..options(2, 10, 20) };
    let federation = StubFederation::start(&options).await.expect("loopback has free ports");
    walk(&addresses(&federation)[1]).await;
    federation.flush_log().expect("a writable log");
    let lines = std::fs::read_to_string(log).expect("a readable log");
    let fields: Vec<&str> = lines.trim_end().split('\t').collect();
    assert!(fields[0].parse::<i64>().is_ok_and(|us| us > 1_700_000_000_000_000), "{lines}");
    assert_eq!(fields[1..], ["0001", "POST /api/dsp/2025-1/catalog/request"]);
}
