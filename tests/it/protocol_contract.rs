//! The contract of `src/protocol/mod.rs`, over every reader.

use trawler::protocol::ckan::CkanReader;
use trawler::protocol::dsp::DspReader;
use trawler::protocol::{Checkpoint, NodeContext, Reader, Response};

use crate::support::exchange::{answer, ckan_node, dsp_node};
use crate::support::reader_contract::contract;

#[test]
fn the_dsp_reader_keeps_the_contract() {
    let reader = DspReader::new();
    let node = dsp_node("https://acme.example/dsp");
    let root = reader.root_task(&node).unwrap();
    let from = "https://acme.example/dsp/2025-1/catalog/request";
    let versions = answer(
        "https://acme.example/dsp/.well-known/dspace-version",
        200,
        include_str!("../fixtures/dsp/versions-edc.json"),
    );
    let page = reader.decode(&node, &root, &versions).unwrap().feedback.remove(0);
    let catalogs = [
        include_str!("../fixtures/dsp/catalog-2025-1.json"),
        include_str!("../fixtures/dsp/catalog-2024-1.json"),
        include_str!("../fixtures/dsp/catalog-0.8.json"),
        include_str!("../fixtures/dsp/catalog-expanded.json"),
        include_str!("../fixtures/dsp/catalog-of-catalogs.json"),
    ];
    let links = vec![r#"<?continuationToken=1>; rel="next""#.to_owned()];
    let mut exchanges = vec![(root, versions)];
    exchanges.extend(catalogs.map(|body| (page.clone(), Response { links: links.clone(), ..answer(from, 200, body) })));
    contract(&reader, &node, &exchanges);
}

#[test]
fn the_ckan_reader_keeps_the_contract() {
    let reader = CkanReader::new();
    let node = ckan_node("https://portal.acme.example");
    let root = reader.root_task(&node).unwrap();
    let response = answer("https://portal.acme.example/", 200, include_str!("../fixtures/ckan/package-search.json"));
    contract(&reader, &node, &[(root.clone(), response.clone())]);
    for checkpoint in ["2010-01-01T00:00:00Z", "2099-01-01T00:00:00Z"] {
        let node = NodeContext { checkpoint: Some(Checkpoint(checkpoint.to_owned())), ..node.clone() };
        contract(&reader, &node, &[(root.clone(), response.clone())]);
    }
}
