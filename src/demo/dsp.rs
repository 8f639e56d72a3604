//! Two connectors: one speaks DSP 2025-1 in pages, one DSP 2024-1 with a nested catalogue. Shaped after what an EDC
//! sends: new catalogue and offer ids in every answer, offers in any order, language tags lost, errors in HTML.

use data_encoding::BASE64;
use hyper::header::LINK;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::collection::{self, Collection, Dataset};
use super::server::{Answer, Ask};

/// The harbour's entries a page: its 120 datasets are six full pages, and so a seventh that is empty.
const PAGE_SIZE: usize = 20;

/// DSP 2025-1 at `/api/dsp/2025-1`.
pub(super) fn harbour(ask: &Ask) -> Answer {
    match ask.path.as_str() {
        "/api/dsp/.well-known/dspace-version" => versions("2025-1", "/2025-1"),
        "/api/dsp/2025-1/catalog/request" => match body_of_type(ask, "CatalogRequestMessage") {
            Err(refusal) => refusal,
            Ok(_) => harbour_page(ask),
        },
        path => dataset_by_id(ask, path, "/api/dsp/2025-1", collection::HARBOUR, dataset_2025),
    }
}

fn harbour_page(ask: &Ask) -> Answer {
    let offset = match ask.parameter("continuationToken").map(offset_of) {
        None => 0,
        Some(Some(offset)) => offset,
        Some(None) => return Answer::html(400, "Bad Request"),
    };
    let datasets: Vec<Value> = collection::HARBOUR
        .datasets(ask.generation)
        .skip(offset)
        .take(PAGE_SIZE)
        .map(|dataset| dataset_2025(&dataset, ask.serial))
        .collect();
    let is_full = datasets.len() == PAGE_SIZE;
    let mut catalog = json!({
        "@context": ["https://w3id.org/dspace/2025/1/context.jsonld", {"dcat": "http://www.w3.org/ns/dcat#", "dct": "http://purl.org/dc/terms/", "edc": "https://w3id.org/edc/v0.0.1/ns/"}],
        "@id": made_up_id("catalog", ask.serial),
        "@type": "Catalog",
        "participantId": "did:web:harbour.example",
        "service": [{"@id": "harbour-dsp", "@type": "DataService", "endpointURL": "https://harbour.example/api/dsp/2025-1"}],
    });
    // A list may not be empty in this version: it is left out.
    if !datasets.is_empty() {
        catalog["dataset"] = Value::Array(datasets);
    }
    let page = |offset: usize, rel: &str| {
        let token = BASE64.encode(format!("{{\"offset\":{offset},\"limit\":{PAGE_SIZE}}}").as_bytes());
        format!("<{}{}?continuationToken={token}>; rel=\"{rel}\"", ask.origin, ask.path)
    };
    let mut answer = Answer::json(&catalog);
    if is_full {
        answer = answer.with(LINK, page(offset + PAGE_SIZE, "next"));
    }
    if let Some(previous) = offset.checked_sub(PAGE_SIZE) {
        answer = answer.with(LINK, page(previous, "prev"));
    }
    answer
}

fn offset_of(token: &str) -> Option<usize> {
    let decoded = BASE64.decode(token.as_bytes()).ok()?;
    let position: Value = serde_json::from_slice(&decoded).ok()?;
    position["offset"].as_u64()?.try_into().ok()
}

fn dataset_2025(dataset: &Dataset, serial: u64) -> Value {
    let mut offers: Vec<Value> = (0..=dataset.index % 3)
        .map(|contract| {
            json!({
                "@id": offer_id(contract, &dataset.id, serial),
                "@type": "Offer",
                "permission": [{"action": "use", "constraint": constraint(contract)}],
            })
        })
        .collect();
    // Which offer comes first is left to chance.
    let rotation = usize::try_from(serial).unwrap_or_default() % offers.len().max(1);
    offers.rotate_left(rotation);
    let mut value = json!({
        "@id": dataset.id,
        "@type": "Dataset",
        "id": dataset.id,
        "description": dataset.description.1,
        "dct:modified": dataset.modified,
        "dcat:keyword": dataset.keywords,
        "hasPolicy": offers,
        "distribution": (0..dataset.distributions).map(|which| json!({
            "@type": "Distribution",
            "format": (["HttpData-PULL", "HttpData-PUSH"][usize::from(which > 0)]),
            "accessService": "harbour-dsp",
        })).collect::<Vec<_>>(),
    });
    match dataset.titles.as_slice() {
        [] => {}
        [(_, title)] => value["edc:name"] = json!(title),
        titles => value["dct:title"] = titles.iter().map(|(_, title)| json!(title)).collect(),
    }
    value
}

/// DSP 2024-1 at `/api/dsp/2024/1`, and the dry dock's at `/drydock/2024/1`.
pub(super) fn shipyard(ask: &Ask) -> Answer {
    for (base, catalogue) in [("/api/dsp", Catalogue::Shipyard), ("/drydock", Catalogue::DryDock)] {
        let Some(path) = ask.path.strip_prefix(base) else { continue };
        return match path {
            "/.well-known/dspace-version" => versions("2024/1", "/2024/1"),
            "/2024/1/catalog/request" => match body_of_type(ask, "dspace:CatalogRequestMessage") {
                Err(refusal) => refusal,
                Ok(_) => Answer::json(&catalogue_2024(ask, catalogue)),
            },
            path => dataset_by_id(ask, path, "/2024/1", catalogue.collection(), dataset_2024),
        };
    }
    Answer::html(404, "Not Found")
}

#[derive(Clone, Copy, PartialEq)]
enum Catalogue {
    Shipyard,
    DryDock,
}

impl Catalogue {
    fn collection(self) -> Collection {
        match self {
            Self::Shipyard => collection::SHIPYARD,
            Self::DryDock => collection::DRYDOCK,
        }
    }
}

fn catalogue_2024(ask: &Ask, catalogue: Catalogue) -> Value {
    let collection = catalogue.collection();
    let datasets: Vec<Value> =
        collection.datasets(ask.generation).map(|dataset| dataset_2024(&dataset, ask.serial)).collect();
    // The nested entry names an endpoint without a version; the dry dock's leads back to the shipyard.
    let (participant, nested, endpoint) = match catalogue {
        Catalogue::Shipyard => ("BPNL00000SHIPYRD", "drydock-2", "/drydock"),
        Catalogue::DryDock => ("BPNL00000DRYDOCK", "shipyard", "/api/dsp"),
    };
    json!({
        "@id": made_up_id(collection.host, ask.serial),
        "@type": "dcat:Catalog",
        "dspace:participantId": {"@id": participant},
        "dcat:service": {
            "@id": "svc-dsp",
            "@type": "dcat:DataService",
            "dcat:endpointDescription": "dspace:connector",
            "dcat:endpointURL": format!("https://{}/api/dsp/2024/1", collection.host),
        },
        "dcat:dataset": one_or_many(datasets),
        "dcat:catalog": {
            "@id": nested,
            "@type": "dcat:Catalog",
            "isCatalog": true,
            "dcat:distribution": {
                "@type": "dcat:Distribution",
                "dct:format": {"@id": "HttpData"},
                "dcat:accessService": {
                    "@id": "svc-nested",
                    "@type": "dcat:DataService",
                    "dcat:endpointURL": format!("{}{endpoint}", ask.origin),
                },
            },
        },
        "@context": context_2024(),
    })
}

fn dataset_2024(dataset: &Dataset, serial: u64) -> Value {
    let offers = (0..=dataset.index % 2)
        .map(|contract| {
            json!({
                "@id": offer_id(contract, &dataset.id, serial),
                "@type": "odrl:Offer",
                "odrl:permission": {"odrl:action": {"@id": "odrl:use"}},
                "odrl:prohibition": [],
                "odrl:obligation": [],
            })
        })
        .collect();
    let distributions = (0..dataset.distributions)
        .map(|which| {
            json!({
                "@type": "dcat:Distribution",
                "dct:format": {"@id": (["HttpData-PULL", "AmazonS3-PUSH"][usize::from(which > 0)])},
                "dcat:accessService": {"@id": "svc-dsp", "@type": "dcat:DataService", "dcat:endpointURL": "https://shipyard.example/api/dsp/2024/1"},
            })
        })
        .collect();
    let mut value = json!({
        "@id": dataset.id,
        "@type": "dcat:Dataset",
        "id": dataset.id,
        "odrl:hasPolicy": one_or_many(offers),
        "dcat:distribution": one_or_many(distributions),
        "dct:description": {"@language": dataset.description.0, "@value": dataset.description.1},
        "dct:modified": dataset.modified,
    });
    let titles: Vec<Value> =
        dataset.titles.iter().map(|(language, title)| json!({"@language": language, "@value": title})).collect();
    if !titles.is_empty() {
        value["dct:title"] = one_or_many(titles);
    }
    value
}

fn context_2024() -> Value {
    json!({
        "@vocab": "https://w3id.org/edc/v0.0.1/ns/",
        "dcat": "http://www.w3.org/ns/dcat#",
        "dct": "http://purl.org/dc/terms/",
        "odrl": "http://www.w3.org/ns/odrl/2/",
        "dspace": "https://w3id.org/dspace/2024/1/",
    })
}

/// Compacted JSON-LD without `@container`: a list of one is its element.
fn one_or_many(mut values: Vec<Value>) -> Value {
    if values.len() == 1 { values.remove(0) } else { Value::Array(values) }
}

fn versions(version: &str, path: &str) -> Answer {
    Answer::json(&json!({"protocolVersions": [{"version": version, "path": path, "binding": "HTTPS"}]}))
}

/// The request's body, if it is a message of this type; else what an EDC would answer.
fn body_of_type(ask: &Ask, expected: &str) -> Result<Value, Answer> {
    if !ask.is_post() {
        return Err(Answer::html(405, "Method Not Allowed"));
    }
    let body: Value = serde_json::from_slice(&ask.body)
        .map_err(|_| Answer::new(400, "text/plain", "Invalid JSON in the request body"))?;
    if body["@type"] != expected {
        return Err(dsp_error(400, &format!("expected a message of type {expected}")));
    }
    Ok(body)
}

fn dataset_by_id(
    ask: &Ask,
    path: &str,
    base: &str,
    collection: Collection,
    write: fn(&Dataset, u64) -> Value,
) -> Answer {
    let Some(id) = path.strip_prefix(base).and_then(|rest| rest.strip_prefix("/catalog/datasets/")) else {
        return Answer::html(404, "Not Found");
    };
    if id.contains("%2F") || id.contains("%2f") {
        return Answer::html(400, "Ambiguous URI path separator");
    }
    let id = percent_decode_str(id).decode_utf8_lossy();
    match collection.datasets(ask.generation).find(|dataset| dataset.id == id) {
        Some(dataset) => Answer::json(&write(&dataset, ask.serial)),
        None => dsp_error(404, "no such dataset"),
    }
}

fn dsp_error(status: u16, reason: &str) -> Answer {
    let body = json!({"@type": "CatalogError", "code": status.to_string(), "reason": [reason]});
    Answer { status, ..Answer::json(&body) }
}

fn constraint(contract: u64) -> Value {
    match contract {
        0 => json!([]),
        1 => json!([{"leftOperand": "purpose", "operator": "eq", "rightOperand": "port operations"}]),
        _ => json!([{"leftOperand": "dateTime", "operator": "lt", "rightOperand": "2030-01-01T00:00:00Z"}]),
    }
}

/// EDC's offer id: contract, asset and a new UUID, each in base64.
fn offer_id(contract: u64, asset: &str, serial: u64) -> String {
    let fresh = made_up_id(&format!("{contract}/{asset}"), serial);
    [format!("contract-{contract}").as_str(), asset, &fresh].map(|part| BASE64.encode(part.as_bytes())).join(":")
}

/// A UUID that nobody has seen before.
fn made_up_id(for_what: &str, serial: u64) -> String {
    let hash = blake3::hash(format!("{for_what}#{serial}").as_bytes()).to_hex();
    format!("{}-{}-4{}-a{}-{}", &hash[..8], &hash[8..12], &hash[12..15], &hash[15..18], &hash[18..30])
}
