//! What a document is: one of the kinds that Trawler reads, or a finding that says why not.

use std::fmt;
use std::sync::Arc;

use super::node::{Content, Node};
use super::{Finding, Object, Severity};
use crate::api::names::API_VERSION;
use crate::local::validate::suggest::closest;

/// A kind of object that manifests may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `trawler.dev/v1alpha1` Catalog.
    Catalog,
    /// `trawler.dev/v1alpha1` CatalogNode.
    CatalogNode,
    /// `trawler.dev/v1alpha1` CrawlRun.
    CrawlRun,
    /// `trawler.dev/v1alpha1` ThrottlePolicy.
    ThrottlePolicy,
    /// `v1` Secret.
    Secret,
    /// `v1` ConfigMap.
    ConfigMap,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Catalog, Self::CatalogNode, Self::CrawlRun, Self::ThrottlePolicy, Self::Secret, Self::ConfigMap];

    /// The name, as `kind` has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Catalog => "Catalog",
            Self::CatalogNode => "CatalogNode",
            Self::CrawlRun => "CrawlRun",
            Self::ThrottlePolicy => "ThrottlePolicy",
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
        }
    }

    /// The `apiVersion` of the kind.
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::Secret | Self::ConfigMap => "v1",
            _ => API_VERSION,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Reads apiVersion, kind and name.
pub(super) fn identify(file: &Arc<str>, root: Node) -> Result<Object, Box<Finding>> {
    let fault = |field: &str, severity, problem: String, fix: String| {
        Err(Box::new(Finding {
            severity,
            file: file.to_string(),
            line: Some(root.line_of(field)),
            object: None,
            field: Some(field.to_owned()).filter(|field| !field.is_empty()),
            problem,
            fix,
        }))
    };
    let error = |field: &str, problem: String, fix: String| fault(field, Severity::Error, problem, fix);
    if !matches!(root.content, Content::Map(_)) {
        let fix = "start with apiVersion, kind, metadata and spec".to_owned();
        return error("", "is not a Kubernetes object".to_owned(), fix);
    }
    let text_at = |field| root.get(field).and_then(Node::as_str);
    let Some(kind) = text_at("kind") else {
        let fix = format!("write one of {}", kind_names().join(", "));
        return error("kind", "the object has no kind".to_owned(), fix);
    };
    let Some(api_version) = text_at("apiVersion") else {
        return error("apiVersion", format!("the {kind} has no apiVersion"), format!("write {API_VERSION}"));
    };
    let Some(known) = Kind::ALL.into_iter().find(|known| known.as_str() == kind) else {
        let near = closest(kind, &kind_names());
        if near.is_none() && !api_version.starts_with("trawler.dev/") {
            let problem = format!("{kind} ({api_version}) is not a kind that Trawler reads, and is skipped");
            return fault("kind", Severity::Warning, problem, "leave it out to silence this".to_owned());
        }
        let fix =
            near.map_or_else(|| format!("write one of {}", kind_names().join(", ")), |near| format!("write {near}"));
        return error("kind", format!("there is no kind {kind:?}"), fix);
    };
    if api_version != known.api_version() {
        let problem = format!("{kind} has no version {api_version:?}");
        return error("apiVersion", problem, format!("write {}", known.api_version()));
    }
    let metadata = |field| root.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Node::as_str);
    let Some(name) = metadata("name") else {
        return error("metadata.name", format!("the {kind} has no name"), "write metadata: {name: …}".to_owned());
    };
    if !is_object_name(name) {
        let problem = format!("{name:?} can't be the name of an object");
        let fix = "use at most 253 lower-case letters, digits, - and ., and begin and end with a letter or digit";
        return error("metadata.name", problem, fix.to_owned());
    }
    let (name, namespace) = (name.to_owned(), metadata("namespace").map(str::to_owned));
    Ok(Object { file: file.clone(), kind: known, namespace, name, root })
}

fn kind_names() -> Vec<&'static str> {
    Kind::ALL.into_iter().map(Kind::as_str).collect()
}

/// Whether Kubernetes takes this as a name (a DNS subdomain). Also makes it safe as the name of a directory.
pub(crate) fn is_object_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        label.bytes().all(|b| alphanumeric(b) || b == b'-')
            && label.bytes().next().is_some_and(alphanumeric)
            && label.bytes().last().is_some_and(alphanumeric)
    };
    name.len() <= 253 && name.split('.').all(is_label)
}
