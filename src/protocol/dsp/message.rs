//! The message that asks for a catalogue, in each version.

use serde_json::{Value, json};

use crate::protocol::DspVersion;

/// A `CatalogRequestMessage`; with EDC's query filter if a page size is wanted. Further pages are asked for with the
/// same message: the link's token wins over the filter.
pub(super) fn catalog_request(version: DspVersion, page_size: Option<u32>) -> String {
    let query = page_size.map(|limit| json!({"@type": "QuerySpec", "offset": 0, "limit": limit}));
    match version {
        DspVersion::V2025_1 => {
            let context = "https://w3id.org/dspace/2025/1/context.jsonld";
            match query {
                None => json!({"@context": [context], "@type": "CatalogRequestMessage"}),
                Some(query) => json!({
                    "@context": [context, "https://w3id.org/edc/dspace/v0.0.1"],
                    "@type": "CatalogRequestMessage",
                    "filter": [query],
                }),
            }
        }
        DspVersion::V2024_1 => prefixed(json!("https://w3id.org/dspace/2024/1/context.json"), query),
        DspVersion::V08 => prefixed(json!({"dspace": "https://w3id.org/dspace/v0.8/"}), query),
    }
    .to_string()
}

fn prefixed(context: Value, query: Option<Value>) -> Value {
    let mut message = json!({"@context": context, "@type": "dspace:CatalogRequestMessage"});
    if let Some(mut query) = query {
        query["@context"] = json!({"@vocab": "https://w3id.org/edc/v0.0.1/ns/"});
        message["dspace:filter"] = query;
    }
    message
}
