//! Finding the versions a connector speaks, and the address of the best one.
//!
//! The version document is asked for at the endpoint, above its version path if it ends in one, and at the host's
//! root. Where there is none, a pinned version is asked for at the endpoint itself; without a pin each version is
//! tried there, the newest first. A pin is the root's: nested catalogues are other connectors and speak what they
//! speak, the pinned version if they can.

use url::Url;

use super::cursor::{PageStep, Step};
use super::terms::get;
use super::{ACCEPT, address, page};
use crate::protocol::json::Json;
use crate::protocol::text::text_of;
use crate::protocol::{DspSettings, DspVersion, NodeContext, Page, ReadError, Request, Response, origin_of};
use crate::task::{Task, TaskKind};

/// Newest first: the order of preference.
const VERSIONS: [DspVersion; 3] = [DspVersion::V2025_1, DspVersion::V2024_1, DspVersion::V08];

/// Below a connector's root: where its versions are listed.
const VERSION_DOCUMENT: &str = ".well-known/dspace-version";

/// Asks for the version document at the `attempt`-th place.
pub(super) fn request(endpoint: &Url, attempt: usize) -> Request {
    let places = places(endpoint);
    let root = places.get(attempt).unwrap_or(endpoint);
    Request { decodes_client_errors: true, ..Request::get(address::join(root, VERSION_DOCUMENT), ACCEPT) }
}

/// The roots below which the version document may be, each once.
fn places(endpoint: &Url) -> Vec<Url> {
    let mut host = endpoint.clone();
    host.set_path("/");
    let mut places = vec![endpoint.clone()];
    places.extend(address::without_version(endpoint));
    places.push(host);
    places.dedup_by(|a, b| address::join(a, "") == address::join(b, ""));
    places
}

/// What the answer to [`request`] leads to: the first page, or the next place to ask at.
pub(super) fn decode(
    settings: &DspSettings,
    task: &Task,
    endpoint: &Url,
    attempt: usize,
    response: &Response,
) -> Result<Page, ReadError> {
    let places = places(endpoint);
    let root = places.get(attempt).unwrap_or(endpoint);
    let offers = if (200..300).contains(&response.status) { offers(&response.body) } else { None };
    let next = match offers {
        Some(offers) => match choose(settings, task, &offers, root, endpoint) {
            Some(first) => Step::Page(first),
            None if may_be_elsewhere(&offers) => elsewhere(settings, task, endpoint, attempt, places.len()),
            None => return Err(no_known_version(response, &offers)),
        },
        None => elsewhere(settings, task, endpoint, attempt, places.len()),
    };
    Ok(Page { feedback: vec![follow(task, &next)?], protocol: "DSP".into(), ..Page::default() })
}

/// A version that the document lists: its name and its path.
#[derive(Debug)]
struct Offer {
    name: String,
    path: String,
}

/// The versions a document lists for HTTP; `None` if it is no version document.
fn offers(body: &[u8]) -> Option<Vec<Offer>> {
    let text = String::from_utf8_lossy(body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body));
    let document = Json::parse(&text).ok()?;
    let listed = get(&document, "protocolVersions")?.items();
    let offer = |entry: &Json<'_>| {
        let binding = get(entry, "binding").and_then(text_of).unwrap_or("HTTPS");
        let name = get(entry, "version").and_then(text_of)?.to_owned();
        let path = get(entry, "path").and_then(text_of).unwrap_or("/").to_owned();
        binding.to_ascii_uppercase().starts_with("HTTP").then_some(Offer { name, path })
    };
    Some(listed.iter().filter_map(offer).collect())
}

/// The pinned version; else the one that the endpoint names; else the newest one. A node's pin is kept to where it is
/// not listed, too: what does not speak it then says so.
fn choose(settings: &DspSettings, task: &Task, offers: &[Offer], root: &Url, endpoint: &Url) -> Option<PageStep> {
    let connector = address::without_version(endpoint).unwrap_or_else(|| endpoint.clone());
    let find = |version: DspVersion| {
        offers.iter().filter(|offer| version_named(&offer.name) == Some(version)).find_map(|offer| {
            let base = address::join(root, &offer.path);
            are_related(&base, &connector).then(|| PageStep::first(version, base))
        })
    };
    if let Some(first) = settings.version.and_then(find) {
        return Some(first);
    }
    match settings.version.filter(|_| task.section.section.is_root()) {
        Some(pinned) => VERSIONS.into_iter().any(|version| find(version).is_some()).then(|| {
            PageStep::first(pinned, endpoint.clone())
        }),
        None => address::version_of(endpoint).into_iter().chain(VERSIONS).find_map(find),
    }
}

/// Whether one address lies below the other: a host's document may list the connectors of others, too.
fn are_related(base: &Url, endpoint: &Url) -> bool {
    let path = |url: &Url| format!("{}/", url.path().trim_end_matches('/'));
    let (base, endpoint) = (path(base), path(endpoint));
    base.starts_with(&endpoint) || endpoint.starts_with(&base)
}

fn may_be_elsewhere(offers: &[Offer]) -> bool {
    offers.is_empty() || offers.iter().any(|offer| version_named(&offer.name).is_some())
}

fn no_known_version(response: &Response, offers: &[Offer]) -> ReadError {
    let names: Vec<_> = offers.iter().take(10).map(|offer| offer.name.chars().take(40).collect::<String>()).collect();
    let why = format!("it offers the versions {names:?} of the Dataspace Protocol; 2025-1, 2024-1 and 0.8 are known");
    ReadError::NoProtocolFound { url: response.url.to_string(), why }
}

/// The next place to ask at; after the last one, the catalogue itself.
fn elsewhere(settings: &DspSettings, task: &Task, endpoint: &Url, attempt: usize, places: usize) -> Step {
    if attempt + 1 < places {
        return Step::Discover { endpoint: endpoint.clone(), attempt: attempt + 1 };
    }
    let named = address::version_of(endpoint);
    let pinned = settings.version.filter(|_| task.section.section.is_root());
    let is_question = pinned.or(named).is_none();
    let version = pinned.or(named).unwrap_or(VERSIONS[0]);
    Step::Page(PageStep { is_question, ..PageStep::first(version, endpoint.clone()) })
}

/// The first page if it was answered, else the next older version.
pub(super) fn decode_question(
    node: &NodeContext,
    settings: &DspSettings,
    task: &Task,
    at: &PageStep,
    response: &Response,
) -> Result<Page, ReadError> {
    let next = match response.status {
        200..300 => match page::decode(node, settings, task, at, response) {
            Err(ReadError::NotTheProtocol { .. } | ReadError::ErrorAnswer { .. }) => older(at),
            page => return page,
        },
        // What is missing are credentials, not another version: asked again as a plain page, it fails as one.
        401 | 403 => Some(PageStep { is_question: false, ..at.clone() }),
        _ => older(at),
    };
    let Some(next) = next else {
        let status = response.status;
        let why = format!(
            "there is no {VERSION_DOCUMENT}, and no version of the Dataspace Protocol (2025-1, 2024-1, 0.8) is answered \
             at {}; the last answer has status {status}",
            at.url()
        );
        return Err(ReadError::NoProtocolFound { url: at.base.to_string(), why });
    };
    Ok(Page { feedback: vec![follow(task, &Step::Page(next))?], protocol: "DSP".into(), ..Page::default() })
}

fn older(at: &PageStep) -> Option<PageStep> {
    let version = VERSIONS.into_iter().find(|version| *version < at.version)?;
    Some(PageStep { version, ..at.clone() })
}

/// The task that goes on with a section at its beginning.
fn follow(task: &Task, step: &Step) -> Result<Task, ReadError> {
    let (Step::Discover { endpoint: asked, .. } | Step::Page(PageStep { base: asked, .. })) = step;
    let next = Task::new(task.section.clone(), TaskKind::Page, origin_of(asked), step.to_cursor()?);
    Ok(Task { depth: task.depth, provenance: task.provenance.clone(), ..next })
}

/// The version with this name: `2025-1`, `2024/1`, `v0.8`, and later editions of one (`2025-1-err1`).
pub(super) fn version_named(name: &str) -> Option<DspVersion> {
    let name = name.trim().trim_start_matches(['v', 'V']).replace('/', "-");
    let is = |version: &str| name.strip_prefix(version).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
    match () {
        () if is("2025-1") => Some(DspVersion::V2025_1),
        () if is("2024-1") => Some(DspVersion::V2024_1),
        () if is("0.8") => Some(DspVersion::V08),
        () => None,
    }
}
