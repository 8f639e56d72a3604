//! From a `CatalogNode` to what a crawler needs of it.

use std::sync::Arc;

use super::manifests::ManifestSet;
use super::secrets::SecretSources;
use crate::api::names::CA_KEY;
use crate::api::{CatalogNodeSpec, RetrySpec};
use crate::crawler::credential::Credential;
use crate::crawler::http::NodeAccess;
use crate::crawler::{CrawlNode, NodeBuilder, NodeLimits, RetryPolicy};
use crate::planner::NodeBrief;
use crate::protocol::registry::Readers;
use crate::protocol::{NodeContext, origin_of};
use crate::run::seeds::{parse_endpoint, settings_of};
use crate::task::NodeName;

/// What a node refers to, read.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeSecrets {
    pub(super) credential: Option<Arc<Credential>>,
    pub(super) ca_pem: Option<Arc<str>>,
}

/// Reads what a node refers to. `Err` is a sentence for the person who runs the command.
pub(super) fn read_secrets(
    spec: &CatalogNodeSpec,
    sources: &SecretSources,
    manifests: &ManifestSet,
) -> Result<NodeSecrets, String> {
    let endpoint = parse_endpoint(spec)?;
    let credential = match &spec.credential_ref {
        Some(secret) => Some(sources.resolve(&secret.name, &endpoint, manifests).map_err(|error| error.to_string())?),
        None => None,
    };
    Ok(NodeSecrets { credential: credential.map(Arc::new), ca_pem: read_ca(spec, manifests)? })
}

/// The certificates that a node refers to.
pub(super) fn read_ca(spec: &CatalogNodeSpec, manifests: &ManifestSet) -> Result<Option<Arc<str>>, String> {
    let Some(config_map) = &spec.ca_ref else { return Ok(None) };
    let found = manifests.config_map(&config_map.name).and_then(|map| map.data.get(CA_KEY));
    let missing = || format!("spec.caRef: ConfigMap {} with key {CA_KEY} is not in the input; add it", config_map.name);
    Ok(Some(Arc::from(found.ok_or_else(missing)?.as_str())))
}

/// How failures are retried.
pub(super) fn retry_policy(retries: &RetrySpec) -> RetryPolicy {
    RetryPolicy { limit: retries.limit, initial_delay: retries.initial_delay.get(), max_delay: retries.max_delay.get() }
}

/// Builds a crawler's nodes from what the run's queue says of them. Secrets are looked up here; what is missing is a problem
/// of its node.
#[derive(Debug)]
pub(super) struct FromBriefs {
    pub(super) secrets: SecretSources,
    pub(super) readers: Readers,
    pub(super) max_answer_bytes: u64,
}

impl NodeBuilder for FromBriefs {
    fn build(&self, name: &NodeName, brief: &str) -> Result<CrawlNode, String> {
        let NodeBrief { spec, ca_pem, problem } = NodeBrief::read(brief)?;
        if let Some(problem) = problem {
            return Err(problem);
        }
        let without_ca = CatalogNodeSpec { ca_ref: None, ..spec.clone() };
        let mut secrets = read_secrets(&without_ca, &self.secrets, &ManifestSet::default())?;
        secrets.ca_pem = ca_pem;
        build_crawl_node(name.clone(), &spec, secrets, &self.readers, self.max_answer_bytes)
    }
}

/// Builds a crawler's view of a node. `Err` is a sentence for the person who wrote the node.
pub(super) fn build_crawl_node(
    name: NodeName,
    spec: &CatalogNodeSpec,
    secrets: NodeSecrets,
    readers: &Readers,
    max_answer_bytes: u64,
) -> Result<CrawlNode, String> {
    let endpoint = parse_endpoint(spec)?;
    let settings = settings_of(spec);
    let access = NodeAccess {
        credential: secrets.credential,
        credential_origins: vec![origin_of(&endpoint)],
        ca_pem: secrets.ca_pem,
        request_timeout: Some(spec.limits.request_timeout.get()),
        // One answer: what all nodes may send, and never more than this one may send in all.
        max_decoded_bytes: Some(spec.limits.max_bytes.get().min(max_answer_bytes)),
    };
    Ok(CrawlNode {
        reader: readers.for_settings(&settings),
        context: NodeContext { name, endpoint, settings, checkpoint: None },
        access: Arc::new(access),
        limits: NodeLimits {
            max_pages: spec.limits.max_pages,
            max_records: spec.limits.max_records,
            max_bytes: spec.limits.max_bytes.get(),
        },
        api_calls_per_document: spec.api_calls_per_document,
    })
}
