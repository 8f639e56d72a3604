//! The questions that tell which protocol an endpoint speaks, and what their answers mean. Pure: `trawler init` asks
//! them one by one, a crawler as tasks.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

use crate::protocol::{ReadError, Request, Response, dcat};

/// A protocol that can be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Dataspace Protocol.
    Dsp,
    /// CKAN's Action API.
    Ckan,
    /// DCAT as RDF.
    Dcat,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detected {
    /// The protocol.
    pub protocol: Protocol,
    /// The endpoint to give to its reader; not always the one that was asked about.
    pub endpoint: Url,
    /// What told, as a sentence for a person.
    pub evidence: String,
}

/// A question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The request.
    pub request: Request,
    asks: Asks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asks {
    /// The endpoint itself: what is there?
    Endpoint,
    /// DSP's version document.
    DspVersions,
    /// CKAN's `package_search`.
    CkanSearch,
    /// A DSP catalogue.
    DspCatalog,
    /// An RDF document.
    Rdf,
}

/// What an answer means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// This is it.
    Found(Detected),
    /// No, and what was answered instead (`404`, `200, but it is an HTML page`).
    No(String),
}

const ACCEPT_ANY: &str =
    "text/turtle, application/ld+json;q=0.9, application/rdf+xml;q=0.8, application/json;q=0.7, */*;q=0.1";
const ACCEPT_JSON: &str = "application/json";
const CATALOG_REQUEST: &str =
    r#"{"@context":["https://w3id.org/dspace/2025/1/context.jsonld"],"@type":"CatalogRequestMessage"}"#;

/// What to ask an endpoint, in this order, until one answer is [`Verdict::Found`]. Only reading requests; the one POST
/// is DSP's way to read a catalogue.
pub fn probes(endpoint: &Url) -> Vec<Probe> {
    let root = host_root(endpoint);
    let get = |url: Url, accept, asks| Probe { request: question(Request::get(url, accept)), asks };
    let versions = |base: &Url| get(below(base, ".well-known/dspace-version"), ACCEPT_JSON, Asks::DspVersions);
    let search = |base: &Url| {
        let mut url = below(base, "api/3/action/package_search");
        url.set_query(Some("rows=0"));
        get(url, ACCEPT_JSON, Asks::CkanSearch)
    };
    let mut endpoint_itself = endpoint.clone();
    endpoint_itself.set_fragment(None);
    let catalog = Request::post_json(
        below(endpoint, "catalog/request"),
        ACCEPT_JSON,
        Bytes::from_static(CATALOG_REQUEST.as_bytes()),
    );
    let mut probes = vec![get(endpoint_itself, ACCEPT_ANY, Asks::Endpoint), versions(endpoint), versions(&root)];
    if endpoint.path() == "/" {
        // CKAN's front page is also a DCAT catalogue to those who accept RDF; its API says more, in fewer requests.
        probes.insert(0, search(&root));
    }
    probes.extend([search(endpoint), search(&root)]);
    probes.push(Probe { request: question(catalog), asks: Asks::DspCatalog });
    for name in ["catalog.ttl", "catalog.jsonld", "catalog.rdf"] {
        probes.push(get(below(endpoint, name), ACCEPT_ANY, Asks::Rdf));
    }
    let mut unique: Vec<Probe> = Vec::new();
    for probe in probes {
        if !unique.iter().any(|earlier| earlier.request.url == probe.request.url) {
            unique.push(probe);
        }
    }
    unique
}

/// What the answer to a probe of this endpoint means. Takes any status.
pub fn judge(endpoint: &Url, probe: &Probe, response: &Response) -> Verdict {
    let json =
        || serde_json::from_slice::<Value>(response.body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&response.body)).ok();
    let is_success = (200..300).contains(&response.status);
    let found = match probe.asks {
        Asks::Endpoint => json()
            .filter(|_| is_success)
            .and_then(|json| by_json(endpoint, &json, response))
            .or_else(|| by_rdf(probe, response).filter(|_| is_success)),
        Asks::DspVersions => json().filter(|_| is_success).and_then(|json| by_versions(endpoint, &json, response)),
        Asks::CkanSearch => json().and_then(|json| by_search(probe, &json, response)),
        Asks::DspCatalog => json().and_then(|json| by_catalog(endpoint, &json, response)),
        Asks::Rdf => by_rdf(probe, response).filter(|_| is_success),
    };
    found.map_or_else(|| Verdict::No(what_was_answered(response)), Verdict::Found)
}

/// What a JSON answer of the endpoint itself tells.
fn by_json(endpoint: &Url, json: &Value, response: &Response) -> Option<Detected> {
    let base_before = |marker: &str| {
        let mut base = response.url.clone();
        let (path, _) = response.url.path().split_once(marker)?;
        base.set_path(path);
        base.set_query(None);
        Some(base)
    };
    if let Some(root) = base_before("/.well-known/dspace-version") {
        return by_versions(&root, json, response);
    }
    let is_ckan = json.get("success").is_some_and(Value::is_boolean)
        || (json.get("version").is_some_and(Value::is_number) && response.url.path().contains("/api"));
    if is_ckan && let Some(base) = base_before("/api") {
        let evidence = format!("{} answers as CKAN's Action API does", response.url);
        return Some(Detected { protocol: Protocol::Ckan, endpoint: base, evidence });
    }
    is_dsp_catalog(json).then(|| Detected {
        protocol: Protocol::Dsp,
        endpoint: endpoint.clone(),
        evidence: format!("{} answers with a message of the Dataspace Protocol", response.url),
    })
}

fn by_versions(endpoint: &Url, json: &Value, response: &Response) -> Option<Detected> {
    let versions = json.get("protocolVersions")?.as_array()?;
    let texts = |key: &'static str| versions.iter().filter_map(move |entry| entry.get(key)?.as_str());
    let names: Vec<String> = texts("version").take(10).map(|name| name.chars().take(20).collect()).collect();
    // A document at the host's root may list this endpoint among others; if not, it speaks for the host.
    let own_path = endpoint.path().trim_end_matches('/');
    let asked_at = response.url.path().strip_suffix("/.well-known/dspace-version");
    let is_own = asked_at.is_none_or(|at| at == own_path) || texts("path").any(|path| path.starts_with(own_path));
    Some(Detected {
        protocol: Protocol::Dsp,
        endpoint: if is_own { endpoint.clone() } else { host_root(endpoint) },
        evidence: format!("{} lists the DSP versions {}", response.url, names.join(", ")),
    })
}

fn by_search(probe: &Probe, json: &Value, response: &Response) -> Option<Detected> {
    json.get("success")?.as_bool()?;
    // After a redirect on the same host (to https, say) the API is where it led to; another host is another matter.
    let is_same_host = response.url.host() == probe.request.url.host();
    let mut endpoint = if is_same_host { response.url.clone() } else { probe.request.url.clone() };
    let path = endpoint.path().to_owned();
    endpoint.set_query(None);
    endpoint.set_path(path.strip_suffix("/api/3/action/package_search")?);
    let evidence = match json.get("result").and_then(|result| result.get("count")).and_then(Value::as_u64) {
        Some(count) => format!("{} finds {count} datasets", response.url),
        None => format!("{} answers as CKAN's Action API does, with status {}", response.url, response.status),
    };
    Some(Detected { protocol: Protocol::Ckan, endpoint, evidence })
}

fn by_catalog(endpoint: &Url, json: &Value, response: &Response) -> Option<Detected> {
    let evidence =
        format!("{} answers with a message of the Dataspace Protocol, status {}", response.url, response.status);
    is_dsp_catalog(json).then(|| Detected { protocol: Protocol::Dsp, endpoint: endpoint.clone(), evidence })
}

/// A DSP catalogue or catalogue error, of any version.
fn is_dsp_catalog(json: &Value) -> bool {
    let local = |text: &str| text.rsplit(['#', '/', ':']).next().unwrap_or_default().to_owned();
    let kind = match json.get("@type") {
        Some(Value::String(kind)) => local(kind),
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str).map(local).unwrap_or_default(),
        _ => return false,
    };
    let has_participant =
        || json.as_object().is_some_and(|object| object.keys().any(|key| local(key) == "participantId"));
    match kind.as_str() {
        "CatalogError" | "CatalogErrorMessage" => true,
        "Catalog" => has_participant(),
        _ => false,
    }
}

fn by_rdf(probe: &Probe, response: &Response) -> Option<Detected> {
    dcat::recognise(response).ok().map(|name| Detected {
        protocol: Protocol::Dcat,
        endpoint: probe.request.url.clone(),
        evidence: format!("{} is {name}", response.url),
    })
}

/// What was answered, in few words.
fn what_was_answered(response: &Response) -> String {
    match response.status {
        401 | 403 => return format!("{} (it wants a credential)", response.status),
        status if !(200..300).contains(&status) => return status.to_string(),
        _ => {}
    }
    match dcat::recognise(response) {
        Err(ReadError::NotTheProtocol { why, .. }) => format!("200, but {}", why.chars().take(80).collect::<String>()),
        Err(_) => "200, but it is over the limits".to_owned(),
        Ok(_) => "200, but with RDF where there should be JSON".to_owned(),
    }
}

fn question(request: Request) -> Request {
    Request { decodes_client_errors: true, ..request }
}

fn host_root(endpoint: &Url) -> Url {
    let mut root = endpoint.clone();
    root.set_path("/");
    root.set_query(None);
    root.set_fragment(None);
    root
}

/// An address below a base, without doubling slashes.
fn below(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_query(None);
    url.set_fragment(None);
    url.set_path(&format!("{}/{path}", base.path().trim_end_matches('/')));
    url
}
