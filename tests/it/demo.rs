//! The federation inside the binary, asked as a crawler would ask it.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use trawler::demo::{DemoChange, DemoFederation, DemoOptions};

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("the body is JSON")
    }

    fn link(&self, rel: &str) -> Option<String> {
        let ending = format!("; rel=\"{rel}\"");
        self.head.lines().find_map(|line| {
            let value = line.strip_prefix("link: ")?.strip_suffix(&ending)?;
            Some(value.trim_matches(['<', '>']).to_owned())
        })
    }
}

async fn ask(address: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    let mut stream = TcpStream::connect(address).await.expect("the node listens");
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.expect("it takes the request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("it answers in UTF-8");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an HTTP answer");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

async fn get(address: SocketAddr, path: &str) -> Answer {
    ask(address, "GET", path, "", "").await
}

async fn start() -> DemoFederation {
    DemoFederation::start(DemoOptions::default()).await.expect("loopback has free ports")
}

fn address_of(federation: &DemoFederation, name: &str) -> SocketAddr {
    federation.nodes().into_iter().find(|node| node.name == name).expect("a node of that name").address
}

fn records_of(federation: &DemoFederation, name: &str) -> u64 {
    federation.nodes().into_iter().find(|node| node.name == name).expect("a node of that name").records
}

const MESSAGE_2025: &str =
    r#"{"@context":["https://w3id.org/dspace/2025/1/context.jsonld"],"@type":"CatalogRequestMessage"}"#;
const MESSAGE_2024: &str =
    r#"{"@context":"https://w3id.org/dspace/2024/1/context.json","@type":"dspace:CatalogRequestMessage"}"#;

/// The datasets of each page of the harbour, first to last.
async fn harbour_pages(address: SocketAddr) -> Vec<Vec<Value>> {
    let mut path = "/api/dsp/2025-1/catalog/request".to_owned();
    let mut pages = Vec::new();
    loop {
        let answer = ask(address, "POST", &path, "", MESSAGE_2025).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        pages.push(answer.json()["dataset"].as_array().cloned().unwrap_or_default());
        let Some(next) = answer.link("next") else { return pages };
        path = String::from(next.strip_prefix(&format!("http://{address}")).expect("a link to itself"));
    }
}

#[tokio::test]
async fn harbour_pages_by_link_and_ends_with_an_empty_page() {
    let federation = start().await;
    let pages = harbour_pages(address_of(&federation, "harbour")).await;
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [20, 20, 20, 20, 20, 20, 0]);
    let ids: BTreeSet<_> = pages.iter().flatten().map(|dataset| dataset["@id"].to_string()).collect();
    assert_eq!(ids.len() as u64, records_of(&federation, "harbour"));
}

#[tokio::test]
async fn harbour_makes_up_offer_ids_in_every_answer() {
    let federation = start().await;
    let address = address_of(&federation, "harbour");
    let (first, second) = (harbour_pages(address).await, harbour_pages(address).await);
    assert_ne!(first[0][0]["hasPolicy"], second[0][0]["hasPolicy"]);
    assert_eq!(first[0][0]["distribution"], second[0][0]["distribution"]);
}

#[tokio::test]
async fn connectors_refuse_what_is_not_a_catalogue_request() {
    let federation = start().await;
    let address = address_of(&federation, "harbour");
    let path = "/api/dsp/2025-1/catalog/request";
    assert_eq!(get(address, path).await.status, 405);
    assert_eq!(ask(address, "POST", path, "", MESSAGE_2024).await.status, 400);
    assert_eq!(ask(address, "POST", &format!("{path}?continuationToken=rubbish"), "", MESSAGE_2025).await.status, 400);
    assert_eq!(ask(address, "POST", path, "", &" ".repeat(100_000)).await.status, 413);
}

#[tokio::test]
async fn shipyard_and_dry_dock_list_each_other() {
    let federation = start().await;
    let address = address_of(&federation, "shipyard");
    let mut datasets = 0;
    for (base, nested) in [("/api/dsp", "/drydock"), ("/drydock", "/api/dsp")] {
        let versions = get(address, &format!("{base}/.well-known/dspace-version")).await.json();
        assert_eq!(versions["protocolVersions"][0]["path"], "/2024/1");
        let catalog = ask(address, "POST", &format!("{base}/2024/1/catalog/request"), "", MESSAGE_2024).await.json();
        datasets += catalog["dcat:dataset"].as_array().expect("a list").len() as u64;
        let service = &catalog["dcat:catalog"]["dcat:distribution"]["dcat:accessService"];
        assert_eq!(service["dcat:endpointURL"], format!("http://{address}{nested}"));
    }
    assert_eq!(datasets, records_of(&federation, "shipyard"));
}

#[tokio::test]
async fn single_datasets_are_answered_by_id() {
    let federation = start().await;
    let address = address_of(&federation, "harbour");
    let pages = harbour_pages(address).await;
    let id = pages[0][8]["@id"].as_str().expect("an id");
    assert!(id.contains(' '), "an id that must be encoded: {id}");
    let path = format!("/api/dsp/2025-1/catalog/datasets/{}", id.replace(' ', "%20"));
    assert_eq!(get(address, &path).await.json()["@id"], id);
    let unknown = get(address, "/api/dsp/2025-1/catalog/datasets/unknown").await;
    assert_eq!((unknown.status, &unknown.json()["@type"]), (404, &Value::from("CatalogError")));
}

#[tokio::test]
async fn portal_cuts_rows_and_counts_all() {
    let federation = start().await;
    let address = address_of(&federation, "city-open-data");
    let mut sizes = Vec::new();
    let mut ids = BTreeSet::new();
    loop {
        let path = format!("/api/3/action/package_search?rows=1000&start={}", ids.len());
        let result = get(address, &path).await.json()["result"].clone();
        assert_eq!(result["count"], records_of(&federation, "city-open-data"));
        let results = result["results"].as_array().expect("a list").clone();
        sizes.push(results.len());
        ids.extend(results.iter().map(|package| package["id"].to_string()));
        if results.is_empty() {
            break;
        }
    }
    assert_eq!(sizes, [50, 50, 30, 0]);
    assert_eq!(ids.len(), 130);
}

#[tokio::test]
async fn survey_is_valid_turtle_and_unchanged_under_its_etag() {
    let federation = start().await;
    let address = address_of(&federation, "coastal-survey");
    let answer = get(address, "/catalog.ttl").await;
    let datasets = oxttl::TurtleParser::new()
        .for_slice(answer.body.as_bytes())
        .map(|triple| triple.expect("valid Turtle"))
        .filter(|triple| triple.object.to_string() == "<http://www.w3.org/ns/dcat#Dataset>")
        .count();
    assert_eq!(datasets as u64, records_of(&federation, "coastal-survey"));

    let etag = answer.head.lines().find_map(|line| line.strip_prefix("etag: ")).expect("an ETag");
    let condition = format!("If-None-Match: {etag}\r\n");
    assert_eq!(ask(address, "GET", "/catalog.ttl", &condition, "").await.status, 304);
    federation.change();
    assert_eq!(ask(address, "GET", "/catalog.ttl", &condition, "").await.status, 200);
}

#[tokio::test]
async fn fisheries_pages_by_hydra_texts() {
    let federation = start().await;
    let address = address_of(&federation, "fisheries");
    let mut path = "/catalog.jsonld".to_owned();
    let mut datasets = 0;
    loop {
        let graph = get(address, &path).await.json();
        let nodes = graph.as_array().expect("a bare array");
        datasets += nodes.iter().filter(|node| node["@type"][0] == "http://www.w3.org/ns/dcat#Dataset").count() as u64;
        let next = nodes.iter().find_map(|node| node["http://www.w3.org/ns/hydra/core#next"][0]["@value"].as_str());
        let Some(next) = next else { break };
        path = String::from(next.strip_prefix(&format!("http://{address}")).expect("a link to itself"));
    }
    assert_eq!(datasets, records_of(&federation, "fisheries"));
}

#[tokio::test]
async fn change_adds_updates_and_deletes_everywhere() {
    let federation = start().await;
    let total = || federation.nodes().iter().map(|node| node.records).sum::<u64>();
    let before = total();
    assert_eq!(before, 390);
    assert_eq!(federation.change(), DemoChange { added: 18, updated: 24, deleted: 12 });
    assert_eq!(total(), before + 6);
}

#[tokio::test]
async fn manifests_name_every_node_where_it_listens() {
    let federation = start().await;
    let manifests = federation.manifests();
    for node in federation.nodes() {
        assert!(manifests.contains(&format!("name: {}\n", node.name)), "{}", node.name);
        assert!(manifests.contains(&format!("endpoint: http://{}", node.address)), "{}", node.name);
    }
    assert_eq!(manifests.matches("endpoint: http://127.0.0.1:").count(), federation.nodes().len());
}

#[tokio::test]
async fn taken_ports_are_replaced_by_free_ones() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let first_port = taken.local_addr().expect("bound").port();
    let options = DemoOptions { first_port, ..DemoOptions::default() };
    let federation = DemoFederation::start(options).await.expect("there are others");
    assert_ne!(address_of(&federation, "harbour").port(), first_port);
}

#[tokio::test]
async fn shutdown_frees_the_ports() {
    let federation = start().await;
    let address = address_of(&federation, "harbour");
    assert_eq!(get(address, "/").await.status, 404);
    assert_eq!(federation.requests(), 1);
    federation.shutdown().await;
    assert!(TcpStream::connect(address).await.is_err());
}
