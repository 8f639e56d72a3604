//! The objects of valid manifests, typed.

use std::collections::BTreeMap;
use std::sync::Arc;

use data_encoding::BASE64;
use serde::de::DeserializeOwned;

use super::{Finding, Kind, Manifests, Node, Object};
use crate::api::{Catalog, CatalogNode, CrawlRun, ThrottlePolicy};
use crate::crawler::credential::Secret;

/// An object and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Located<T> {
    /// The object.
    pub object: T,
    /// The file, as it was named.
    pub file: Arc<str>,
    /// The line that it starts on.
    pub line: u32,
}

/// Everything that valid manifests hold, each kind in the order read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ManifestSet {
    /// Catalogs.
    pub catalogs: Vec<Located<Catalog>>,
    /// Nodes.
    pub catalog_nodes: Vec<Located<CatalogNode>>,
    /// Runs.
    pub crawl_runs: Vec<Located<CrawlRun>>,
    /// Policies.
    pub throttle_policies: Vec<Located<ThrottlePolicy>>,
    /// Secrets.
    pub secrets: Vec<Located<SecretManifest>>,
    /// ConfigMaps.
    pub config_maps: Vec<Located<ConfigMapManifest>>,
}

/// A Secret of the manifests. Its values can't be printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecretManifest {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its values, decoded.
    pub values: BTreeMap<String, Secret>,
}

/// A ConfigMap of the manifests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigMapManifest {
    /// Its name.
    pub name: String,
    /// Its values.
    pub data: BTreeMap<String, String>,
}

impl ManifestSet {
    /// Types every object, with a finding for each that does not fit.
    pub(crate) fn from_manifests(manifests: &Manifests) -> (Self, Vec<Finding>) {
        let mut set = Self::default();
        let mut findings = Vec::new();
        for object in &manifests.objects {
            let added = match object.kind {
                Kind::Catalog => typed(object).map(|typed| set.catalogs.push(typed)),
                Kind::CatalogNode => typed(object).map(|typed| set.catalog_nodes.push(typed)),
                Kind::CrawlRun => typed(object).map(|typed| set.crawl_runs.push(typed)),
                Kind::ThrottlePolicy => typed(object).map(|typed| set.throttle_policies.push(typed)),
                Kind::Secret => secret(object).map(|secret| set.secrets.push(located(object, secret))),
                Kind::ConfigMap => {
                    set.config_maps.push(located(object, config_map(object)));
                    Ok(())
                }
            };
            findings.extend(added.err().map(|finding| *finding));
        }
        (set, findings)
    }

    /// The ConfigMap of this name.
    pub fn config_map(&self, name: &str) -> Option<&ConfigMapManifest> {
        self.config_maps.iter().map(|located| &located.object).find(|config_map| config_map.name == name)
    }

    /// The Secret of this name.
    pub fn secret(&self, name: &str) -> Option<&SecretManifest> {
        self.secrets.iter().map(|located| &located.object).find(|secret| secret.name == name)
    }
}

fn located<T>(object: &Object, value: T) -> Located<T> {
    Located { object: value, file: object.file.clone(), line: object.root.line }
}

fn typed<T: DeserializeOwned>(object: &Object) -> Result<Located<T>, Box<Finding>> {
    serde_json::from_value(object.root.to_json())
        .map(|value| located(object, value))
        .map_err(|error| Box::new(object.finding("", format!("can't be read: {error}"), "correct the field")))
}

fn secret(object: &Object) -> Result<SecretManifest, Box<Finding>> {
    Ok(SecretManifest {
        name: object.name.clone(),
        labels: object.labels(),
        annotations: object.texts("metadata", "annotations"),
        values: secret_values(object)?,
    })
}

/// The values of a Secret: `data` decoded, overruled by `stringData`, as on a cluster.
fn secret_values(object: &Object) -> Result<BTreeMap<String, Secret>, Box<Finding>> {
    let mut values = BTreeMap::new();
    for (key, encoded) in object.root.get("data").map(Node::texts).unwrap_or_default() {
        let decoded = BASE64.decode(encoded.trim().as_bytes()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let Some(decoded) = decoded else {
            let fix = "encode it, or write it under stringData as it is";
            return Err(Box::new(object.finding(&format!("data.{key}"), "is not text in base64", fix)));
        };
        values.insert(key, Secret::new(decoded));
    }
    let plain = object.root.get("stringData").map(Node::texts).unwrap_or_default();
    values.extend(plain.into_iter().map(|(key, value)| (key, Secret::new(value))));
    Ok(values)
}

fn config_map(object: &Object) -> ConfigMapManifest {
    ConfigMapManifest { name: object.name.clone(), data: object.root.get("data").map(Node::texts).unwrap_or_default() }
}
