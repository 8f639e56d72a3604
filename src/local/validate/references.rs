//! What objects say of each other: every name must lead somewhere, every selector must select something.

use std::collections::BTreeMap;

use url::Url;

use super::values::endpoint_fault;
use crate::api::LabelSelector;
use crate::api::names::{ALLOWED_ORIGINS_ANNOTATION, CA_KEY};
use crate::local::finding::{Finding, Severity, has_errors};
use crate::local::manifests::{Kind, ManifestSet, Manifests, Object};
use crate::local::secrets::{SecretError, SecretSources};
use crate::local::suggest::closest;

pub(super) fn check(manifests: &Manifests, set: &ManifestSet, secrets: &SecretSources) -> Vec<Finding> {
    let index = Index::new(manifests);
    let mut findings = Vec::new();
    for object in &manifests.objects {
        match object.kind {
            Kind::CatalogNode => {
                findings.extend(index.missing(object, "throttlePolicyRef", Kind::ThrottlePolicy));
                findings.extend(credential_finding(&index, object, set, secrets));
                findings.extend(ca_finding(&index, object, set));
            }
            Kind::Catalog => {
                // What could not be read may be the very node that is missing.
                if let Some(selector) = selector_of(object).filter(|_| !has_errors(&manifests.faults)) {
                    findings.extend(index.unmatched(object, &selector, None));
                    let subset =
                        Subset { object, catalog: object, whole: &selector, at: &["spec", "runTemplate", "spec"] };
                    findings.extend(subset_findings(&index, &subset));
                }
                findings.extend(store_secret_finding(&index, object));
            }
            Kind::CrawlRun => findings.extend(run_findings(&index, object)),
            Kind::ThrottlePolicy | Kind::Secret | Kind::ConfigMap => {}
        }
    }
    findings
}

/// All objects by kind and name, whether or not they could be typed.
struct Index<'m> {
    objects: BTreeMap<(Kind, &'m str), &'m Object>,
}

impl<'m> Index<'m> {
    fn new(manifests: &'m Manifests) -> Self {
        let mut objects = BTreeMap::new();
        for object in &manifests.objects {
            objects.entry((object.kind, object.name.as_str())).or_insert(object);
        }
        Self { objects }
    }

    fn object(&self, kind: Kind, name: &str) -> Option<&'m Object> {
        self.objects.get(&(kind, name)).copied()
    }

    fn nodes(&self) -> impl Iterator<Item = &'m Object> + '_ {
        self.objects.values().copied().filter(|object| object.kind == Kind::CatalogNode)
    }

    /// A finding if the reference in this field of the spec leads nowhere.
    fn missing(&self, from: &Object, reference: &str, kind: Kind) -> Option<Finding> {
        self.absent(from, &format!("spec.{reference}.name"), kind, referred(from, reference)?)
    }

    fn absent(&self, from: &Object, field: &str, kind: Kind, name: &str) -> Option<Finding> {
        if self.object(kind, name).is_some() {
            return None;
        }
        let fix = format!("add it, or correct the name{}", self.near(kind, name));
        Some(from.finding(field, format!("there is no {kind} {name:?}"), fix))
    }

    /// ", to X", if a name much like this one exists.
    fn near(&self, kind: Kind, name: &str) -> String {
        let names: Vec<&str> =
            self.objects.keys().filter(|(of, _)| *of == kind).map(|(_, name)| *name).take(1000).collect();
        closest(name, &names).map(|near| format!(" to {near}")).unwrap_or_default()
    }

    /// A finding if the selector selects no node (of those that `within` selects, if given).
    fn unmatched(&self, from: &Object, selector: &LabelSelector, within: Option<&LabelSelector>) -> Option<Finding> {
        let selects = |node: &Object| {
            let labels = node.labels();
            selector.matches(&labels) && within.is_none_or(|within| within.matches(&labels))
        };
        if self.nodes().any(selects) {
            return None;
        }
        let count = self.nodes().count();
        let problem = match count {
            0 => "selects nothing, since there is no CatalogNode in the input".to_owned(),
            1 => "does not select the one CatalogNode in the input".to_owned(),
            _ => format!("selects none of the {count} CatalogNodes in the input"),
        };
        let fix = match selector.match_labels.iter().next() {
            Some((key, value)) => format!("label the nodes that are meant with {key}: {value}"),
            None => "correct the selector, or the labels of the nodes".to_owned(),
        };
        Some(from.finding("spec.catalogNodeSelector", problem, fix))
    }
}

fn credential_finding(
    index: &Index<'_>,
    object: &Object,
    set: &ManifestSet,
    secrets: &SecretSources,
) -> Option<Finding> {
    let name = referred(object, "credentialRef")?;
    let endpoint = object.root.get("spec")?.get("endpoint")?.as_str()?;
    if endpoint_fault(endpoint).is_some() {
        return None;
    }
    let endpoint = Url::parse(endpoint).ok()?;
    let error = secrets.resolve(name, &endpoint, set).err()?;
    let secret = index.object(Kind::Secret, name);
    let field = "spec.credentialRef.name";
    let (at, field) = match (&error, secret) {
        // It is there, but could not be decoded, which has its own finding.
        (SecretError::NotFound { .. }, Some(_)) => return None,
        (SecretError::NotFound { .. }, None) => {
            let fix = format!("{}{}", error.fix(), index.near(Kind::Secret, name).replace(" to ", ", or write "));
            return Some(object.finding(field, error.problem(), fix));
        }
        (SecretError::NotLabelled { .. }, Some(secret)) => (secret, "metadata.labels".to_owned()),
        (SecretError::OriginNotAllowed { .. }, Some(secret)) => {
            (secret, format!("metadata.annotations.{ALLOWED_ORIGINS_ANNOTATION}"))
        }
        (
            SecretError::MissingKey { .. } | SecretError::UnknownType { .. } | SecretError::BadValue { .. },
            Some(secret),
        ) => (secret, String::new()),
        (_, _) => (object, field.to_owned()),
    };
    Some(at.finding(&field, error.problem(), error.fix()))
}

fn ca_finding(index: &Index<'_>, object: &Object, set: &ManifestSet) -> Option<Finding> {
    let name = referred(object, "caRef")?;
    if let Some(missing) = index.missing(object, "caRef", Kind::ConfigMap) {
        return Some(missing);
    }
    let config_map = set.config_map(name)?;
    let certificates = config_map.data.get(CA_KEY).map(String::as_str).unwrap_or_default();
    if certificates.contains("-----BEGIN CERTIFICATE-----") {
        return None;
    }
    let fix = format!("put the certificates of the authorities under {CA_KEY}, in PEM");
    Some(index.object(Kind::ConfigMap, name)?.finding("data", format!("has no certificate under {CA_KEY}"), fix))
}

fn run_findings(index: &Index<'_>, object: &Object) -> Vec<Finding> {
    if let Some(missing) = index.missing(object, "catalogRef", Kind::Catalog) {
        return vec![missing];
    }
    let catalog = referred(object, "catalogRef").and_then(|name| index.object(Kind::Catalog, name));
    let Some((catalog, whole)) = catalog.and_then(|catalog| Some((catalog, selector_of(catalog)?))) else {
        return Vec::new();
    };
    subset_findings(index, &Subset { object, catalog, whole: &whole, at: &["spec"] })
}

/// Where a run names or selects some of its Catalog's nodes: in a CrawlRun, or in a Catalog's template.
struct Subset<'m, 's> {
    object: &'m Object,
    catalog: &'m Object,
    whole: &'s LabelSelector,
    at: &'static [&'static str],
}

fn subset_findings(index: &Index<'_>, subset: &Subset<'_, '_>) -> Vec<Finding> {
    let Subset { object, catalog, whole, at } = subset;
    let Some(spec) = at.iter().try_fold(&object.root, |node, field| node.get(field)) else { return Vec::new() };
    let mut findings = Vec::new();
    if let Some(selector) = spec.get("catalogNodeSelector").and_then(|node| serde_json::from_value(node.to_json()).ok())
    {
        let unmatched = index.unmatched(object, &selector, Some(whole));
        let field = format!("{}.catalogNodeSelector", at.join("."));
        findings.extend(unmatched.map(|finding| Finding { field: Some(field), ..finding }));
    }
    for (position, name) in spec.items("catalogNodeNames") {
        let Some(name) = name.as_str() else { continue };
        let field = format!("{}.catalogNodeNames[{position}]", at.join("."));
        match index.object(Kind::CatalogNode, name) {
            None => findings.extend(index.absent(object, &field, Kind::CatalogNode, name)),
            Some(node) if whole.matches(&node.labels()) => {}
            Some(node) => {
                let problem = format!("{node} is not selected by {catalog}");
                findings.push(object.finding(&field, problem, "correct the node's labels, or leave the name out"));
            }
        }
    }
    findings
}

fn store_secret_finding(index: &Index<'_>, object: &Object) -> Option<Finding> {
    let name = object.root.get("spec")?.get("store")?.get("postgres")?.get("secretRef")?.get("name")?.as_str()?;
    let finding = index.absent(object, "spec.store.postgres.secretRef.name", Kind::Secret, name)?;
    // It may be in the cluster; a crawl on one machine does not use it.
    Some(Finding { severity: Severity::Warning, ..finding })
}

/// The name that a reference in the spec gives.
fn referred<'o>(object: &'o Object, reference: &str) -> Option<&'o str> {
    object.root.get("spec")?.get(reference)?.get("name")?.as_str()
}

/// The selector of a Catalog or a run, if it can be read as one.
fn selector_of(object: &Object) -> Option<LabelSelector> {
    let selector = object.root.get("spec")?.get("catalogNodeSelector")?;
    serde_json::from_value(selector.to_json()).ok()
}
