//! What decoding costs: nanoseconds a record for parsing, hashing and mapping together, and how that compares to
//! `serde_json` reading the same bytes into a `Value` on the same machine. Run with `cargo bench --bench decode`.

#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a bench is a program for the terminal")]
#![expect(clippy::disallowed_methods, reason = "a bench measures time")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use trawler::protocol::ckan::CkanReader;
use trawler::protocol::dsp::DspReader;
use trawler::protocol::{CkanSettings, DspSettings, DspVersion, NodeContext, ProtocolSettings, Reader, Response};
use trawler::task::Task;
use url::Url;

const RECORDS: usize = 100;
const ROUNDS: usize = 300;

fn main() {
    let dsp = DspSettings {
        version: Some(DspVersion::V2025_1),
        page_size: None,
        follow_nested: true,
        max_depth: 5,
        allow_cross_origin: false,
        participant_id: None,
    };
    let ckan = CkanSettings { page_size: 100, filter: None };
    let versions = br#"{"protocolVersions":[{"version":"2025-1","path":"/2025-1","binding":"HTTPS"}]}"#;
    let dsp_node = node(ProtocolSettings::Dsp(dsp));
    let reader = DspReader::new();
    let root = reader.root_task(&dsp_node).unwrap();
    let first = reader.decode(&dsp_node, &root, &answer(versions.to_vec())).unwrap().feedback.remove(0);
    measure("DSP 2025-1", &reader, &dsp_node, &first, &answer(dsp_page()));

    let ckan_node = node(ProtocolSettings::Ckan(ckan));
    let reader = CkanReader::new();
    let root = reader.root_task(&ckan_node).unwrap();
    measure("CKAN", &reader, &ckan_node, &root, &answer(ckan_page()));
}

fn node(settings: ProtocolSettings) -> NodeContext {
    let endpoint = Url::parse("https://acme.example/dsp").unwrap();
    NodeContext { name: "acme".into(), endpoint, settings, checkpoint: None }
}

fn answer(body: Vec<u8>) -> Response {
    Response {
        date: None,
        status: 200,
        url: Url::parse("https://acme.example/dsp/2025-1/catalog/request").unwrap(),
        content_type: Some("application/json".to_owned()),
        links: Vec::new(),
        etag: None,
        last_modified: None,
        body: body.into(),
    }
}

/// The fastest of several rounds: what the machine can do when nothing else runs.
fn measure(name: &str, reader: &dyn Reader, node: &NodeContext, task: &Task, response: &Response) {
    let found = reader.decode(node, task, response).unwrap().records.len();
    let decode = fastest(|| drop(black_box(reader.decode(node, task, response))));
    let value = fastest(|| drop(black_box(serde_json::from_slice::<Value>(&response.body))));
    let each = |total: Duration| total.as_nanos() / found as u128;
    println!(
        "{name}: {found} records of {} bytes; decode {} ns/record, Value {} ns/record, ratio {:.2}",
        response.body.len() / found,
        each(decode),
        each(value),
        decode.as_secs_f64() / value.as_secs_f64(),
    );
}

fn fastest(run: impl Fn()) -> Duration {
    let timed = || {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    (0..ROUNDS).map(|_| timed()).min().unwrap()
}

/// A page as EDC sends it: two offers and two distributions a dataset.
fn dsp_page() -> Vec<u8> {
    let service = json!({"@id": "580117d6-c580-4c42-b0c1-1207a65abcae", "@type": "DataService",
        "endpointDescription": "dspace:connector", "endpointURL": "https://acme.example/dsp/2025-1"});
    let base64 = |text: String| data_encoding::BASE64.encode(text.as_bytes());
    let dataset = |n: usize| {
        let offer = |definition: &str, permission: Value| {
            let fresh = base64(format!("{n:08}-ccdf-443e-b1ec-7c0a4d7a2a1f"));
            let id = format!("{}:{}:{fresh}", base64(definition.to_owned()), base64(format!("asset-{n:04}")));
            json!({"@id": id, "@type": "Offer", "permission": [permission]})
        };
        let region = json!({"leftOperand": "edc:region", "operator": "eq", "rightOperand": "eu"});
        let distribution = |format: &str| json!({"@type": "Distribution", "format": format, "accessService": service});
        json!({"@id": format!("asset-{n:04}"), "@type": "Dataset",
            "hasPolicy": [offer("cd-open", json!({"action": "use"})),
                offer("cd-open-eu", json!({"action": "use", "constraint": [region]}))],
            "distribution": [distribution("HttpData-PULL"), distribution("HttpData-PUSH")],
            "edc:version": "1.0", "edc:name": format!("Dataset {n}"),
            "description": format!("Generated dataset number {n}"), "id": format!("asset-{n:04}"),
            "edc:contenttype": "application/json", "edc:group": "open"})
    };
    let datasets: Vec<_> = (0..RECORDS).map(dataset).collect();
    json!({"@context": ["https://w3id.org/dspace/2025/1/context.jsonld"], "@id": "c", "@type": "Catalog",
        "participantId": "did:web:acme.example", "service": [service], "dataset": datasets})
    .to_string()
    .into_bytes()
}

fn ckan_page() -> Vec<u8> {
    let package = |n: usize| {
        let resource = |r: usize| {
            json!({"id": format!("r-{n}-{r}"), "position": r, "name": format!("File {r}"), "format": "CSV",
                "mimetype": null, "url": format!("https://data.acme.example/{n}/{r}.csv"), "hash": "", "size": null})
        };
        json!({"id": format!("p-{n:05}"), "name": format!("package-{n}"), "title": format!("Package {n}"),
            "notes": "What is in it, at some length, so that the text is as long as such texts are.",
            "metadata_created": "2024-01-02T03:04:05.000006", "metadata_modified": "2026-02-03T04:05:06.000007",
            "license_title": "CC BY", "license_url": "https://creativecommons.org/licenses/by/4.0/",
            "organization": {"id": "o", "name": "city", "title": "City"}, "private": false, "state": "active",
            "tags": [{"name": "air", "display_name": "air", "id": "t1"}, {"name": "no2", "display_name": "NO2", "id": "t2"}],
            "groups": [{"name": "environment"}], "extras": [], "resources": [resource(0), resource(1)]})
    };
    let packages: Vec<_> = (0..RECORDS).map(package).collect();
    json!({"success": true, "result": {"count": RECORDS, "results": packages}}).to_string().into_bytes()
}
