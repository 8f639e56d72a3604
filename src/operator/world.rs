//! What all drivers are given.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::runtime::events::{Event, EventType, Recorder};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::caches::{Caches, Change};
use super::conditions::shortened;
use super::error::OperatorError;
use super::metrics::Metrics;
use super::settings::Settings;
use crate::api::HeldDeletion;
use crate::api::names::{API_VERSION, FIELD_MANAGER};
use crate::clock::SharedClock;
use crate::flow::RunConfig;
use crate::planner::RunDemand;
use crate::queue::{LaneStatus, Patience, SharedQueue};
use crate::run::seeds::Seeds;
use crate::run::{NodeResult, Report};
use crate::store::{NodeState, SharedStore, StoreError};
use crate::task::{CatalogName, NodeName};

/// What all drivers are given.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) instance: String,
    pub(crate) settings: Settings,
    pub(crate) caches: Caches,
    pub(crate) queue: SharedQueue,
    pub(crate) store: SharedStore,
    pub(crate) seeds: Seeds,
    pub(crate) clock: SharedClock,
    pub(crate) patience: Patience,
    pub(crate) metrics: Metrics,
    pub(crate) recorder: Recorder,
    pub(crate) leads: Arc<AtomicBool>,
    /// Cancelled when the store is another one than this process began with: it can do nothing any more.
    pub(crate) store_lost: CancellationToken,
    pub(crate) memory: Mutex<Memory>,
    pub(crate) changes: UnboundedSender<Change>,
}

/// What can be derived again, and is kept so that a reconcile costs what has changed.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// What active runs could use, by the uid of their CrawlRun.
    pub(crate) demands: BTreeMap<String, RunDemand>,
    /// What the queue of a run was configured with last.
    pub(crate) configured: HashMap<String, RunConfig>,
    /// When the status of an object was written last.
    pub(crate) written: HashMap<String, Timestamp>,
    /// Failures in a row, by object.
    pub(crate) failures: HashMap<String, u32>,
    /// What the store knows of the nodes of a Catalog.
    pub(crate) nodes: BTreeMap<CatalogName, Arc<BTreeMap<NodeName, NodeState>>>,
    /// Sweeps of a Catalog that wait for a person.
    pub(crate) held: BTreeMap<CatalogName, Vec<HeldDeletion>>,
    /// The lanes of active runs, by the uid of their CrawlRun, as they were looked at last.
    pub(crate) lanes: BTreeMap<String, Vec<LaneStatus>>,
    /// What the last run of this process said of each node.
    pub(crate) notes: BTreeMap<NodeName, NodeNote>,
}

/// What a run said of a node.
#[derive(Debug, Clone)]
pub(crate) struct NodeNote {
    pub(crate) crawl_run: String,
    pub(crate) protocol: String,
    pub(crate) message: Option<String>,
}

impl World {
    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Nothing is written any more when somebody else may lead.
    pub(crate) fn check_leads(&self) -> Result<(), OperatorError> {
        if self.leads.load(Ordering::Acquire) { Ok(()) } else { Err(OperatorError::NotLeading) }
    }

    /// Puts this status in the place of the object's.
    pub(crate) async fn write_status<K>(&self, name: &str, status: &impl Serialize) -> Result<(), OperatorError>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + DeserializeOwned + Clone + std::fmt::Debug,
    {
        self.check_leads()?;
        let patch = json!({
            "apiVersion": API_VERSION, "kind": K::kind(&()), "metadata": {"name": name}, "status": status,
        });
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        match self.api::<K>().patch_status(name, &parameters, &Patch::Apply(&patch)).await {
            Ok(_) => {
                self.memory().written.insert(format!("{}/{name}", K::kind(&())), self.clock.now());
                Ok(())
            }
            // It was deleted meanwhile.
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Tells people of something that happened to an object. That it can't be told spoils nothing.
    pub(crate) async fn tell<K>(&self, object: &K, type_: EventType, reason: &str, note: &str)
    where
        K: Resource<DynamicType = ()>,
    {
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(shortened(note)),
            action: reason.to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &object.object_ref(&())).await {
            debug!(reason, "an event could not be told: {error}");
        }
    }

    /// Counts a failure of an object, and says how many there were in a row.
    pub(crate) fn note_failure(&self, kind: &'static str, name: &str, error: &OperatorError) -> u32 {
        self.metrics.reconcile_failed(kind);
        if matches!(error, OperatorError::Store(StoreError::Lost { .. } | StoreError::SessionOver { .. })) {
            self.store_lost.cancel();
        }
        let mut memory = self.memory();
        let failures = memory.failures.entry(format!("{kind}/{name}")).or_default();
        *failures = failures.saturating_add(1);
        if !matches!(error, OperatorError::NotLeading) {
            warn!(
                kind,
                name,
                failures = *failures,
                reason = error.reason(),
                "a reconcile failed and is repeated: {error}"
            );
        }
        *failures - 1
    }

    pub(crate) fn note_success(&self, kind: &'static str, name: &str) {
        self.memory().failures.remove(&format!("{kind}/{name}"));
    }

    /// Remembers how the lanes of a run stand. Policies that have just come into use are looked at.
    pub(crate) fn note_lanes(&self, uid: &str, lanes: Vec<LaneStatus>) {
        let before = self.memory().lanes.insert(uid.to_owned(), lanes);
        if before.is_none() {
            // Nobody listens any more when the operator ends.
            drop(self.changes.send(Change::Budgets));
        }
    }

    /// A run has ended: what is known of its Catalog is read anew.
    pub(crate) fn note_end(&self, crawl_run: &str, report: &Report) {
        let mut memory = self.memory();
        memory.nodes.remove(&report.catalog);
        memory.held.remove(&report.catalog);
        for node in report.nodes.iter().filter(|node| node.state != NodeResult::Skipped) {
            let note = NodeNote {
                crawl_run: crawl_run.to_owned(),
                protocol: node.protocol.clone(),
                message: node.message.as_deref().map(shortened),
            };
            memory.notes.insert(node.name.clone(), note);
        }
        drop(memory);
        // Nobody listens any more when the operator ends.
        drop(self.changes.send(Change::Catalog(report.catalog.to_string())));
        for node in &report.nodes {
            drop(self.changes.send(Change::CatalogNode(node.name.to_string())));
        }
    }

    /// What the store knows of a Catalog's nodes, as it was after the last run that ended.
    pub(crate) async fn known_nodes(
        &self,
        catalog: &CatalogName,
    ) -> Result<Arc<BTreeMap<NodeName, NodeState>>, OperatorError> {
        if let Some(known) = self.memory().nodes.get(catalog) {
            return Ok(known.clone());
        }
        let known = Arc::new(self.store.nodes(catalog).await?);
        self.memory().nodes.insert(catalog.clone(), known.clone());
        Ok(known)
    }
}
