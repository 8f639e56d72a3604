//! The driver of CatalogNodes: whether a node can be crawled, how it was when it was crawled last, and which policy holds for it.

use std::sync::Arc;

use kube::ResourceExt as _;
use kube::runtime::controller::Action;
use kube::runtime::reflector::ObjectRef;

use super::conditions::{Holds, Said, conditions};
use super::credentials::credential_problem;
use super::error::OperatorError;
use super::world::{NodeNote, World};
use crate::api::conditions::{READY, STALLED, ready};
use crate::api::times::time_of;
use crate::api::{Catalog, CatalogNode, CatalogNodeHealth, CatalogNodeStatus, LastCrawl};
use crate::planner::{Health, health, policy_name_of, unusable};
use crate::run::health::observation_of;
use crate::store::NodeState;
use crate::task::{CatalogName, NodeName};

pub(crate) const KIND: &str = "CatalogNode";

/// One pass over a node.
pub(crate) async fn reconcile(node: Arc<CatalogNode>, world: Arc<World>) -> Result<Action, OperatorError> {
    world.check_leads()?;
    let started = crate::clock::Stopwatch::start();
    let action = pass(&node, &world).await;
    world.metrics.reconciled(KIND, started.elapsed(), action.is_ok());
    if action.is_ok() {
        world.note_success(KIND, &node.name_any());
    }
    action
}

async fn pass(node: &CatalogNode, world: &World) -> Result<Action, OperatorError> {
    if node.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let before = node.status.clone().unwrap_or_default();
    let generation = node.metadata.generation;
    let (known, sections) = observe(node, world).await?;
    let said = judge(node, world);
    let health = known.as_ref().map(|known| known.health(node, world));
    let said_of_it = world.memory().notes.get(&NodeName::from(node.name_any().as_str())).cloned();
    let policies = world.caches.policies.state();
    let status = CatalogNodeStatus {
        observed_generation: generation,
        conditions: conditions(&before.conditions, &said, generation, world.clock.now()),
        protocol: said_of_it
            .as_ref()
            .map(|note| note.protocol.clone())
            .filter(|protocol| !protocol.is_empty())
            .or(before.protocol.clone()),
        health: health.map(|health| match health {
            Health::Online => CatalogNodeHealth::Online,
            Health::Offline(_) => CatalogNodeHealth::Offline,
            Health::Dead(_) => CatalogNodeHealth::Dead,
        }),
        failures_in_row: known.as_ref().map_or(0, |known| known.state.failures_in_row.into()),
        next_try_at: health.and_then(|health| health.outage()).map(|outage| time_of(outage.next_try)),
        last_complete_at: known.as_ref().and_then(|known| known.state.last_succeeded_at).map(time_of),
        stale: known.as_ref().is_some_and(|known| known.state.records > 0 && known.state.failures_in_row > 0),
        records: known.as_ref().map_or(0, |known| i64::try_from(known.state.records).unwrap_or(i64::MAX)),
        sections,
        throttle_policy: policy_name_of(node, policies.iter().map(AsRef::as_ref)),
        last_crawl: known.and_then(|known| known.last_crawl(said_of_it.as_ref(), before.last_crawl.as_ref())),
    };
    if status != before {
        world.write_status::<CatalogNode>(&node.name_any(), &status).await?;
    }
    Ok(Action::await_change())
}

/// What the store knows of a node, by the Catalog that read it last.
struct Known {
    catalog: CatalogName,
    state: NodeState,
}

impl Known {
    /// As the Catalog that read it last judges it.
    fn health(&self, node: &CatalogNode, world: &World) -> Health {
        let catalog = world.caches.catalogs.get(&ObjectRef::new(self.catalog.as_str()).within(&world.namespace));
        let settings = catalog.map(|catalog| catalog.spec.node_health.clone()).unwrap_or_default();
        health(&observation_of(&self.state), &node.spec, &settings)
    }

    /// The last crawl. Which run it was the store does not know: a run of this process has told, or the status before did.
    fn last_crawl(&self, note: Option<&NodeNote>, before: Option<&LastCrawl>) -> Option<LastCrawl> {
        let finished_at = time_of(self.state.last_crawled_at?);
        let before = before.filter(|before| before.finished_at == finished_at);
        let crawl_run =
            note.map(|note| note.crawl_run.clone()).or_else(|| before.map(|before| before.crawl_run.clone()));
        let message =
            note.map_or_else(|| before.and_then(|before| before.message.clone()), |note| note.message.clone());
        Some(LastCrawl {
            crawl_run: crawl_run.unwrap_or_default(),
            finished_at,
            complete: self.state.last_succeeded_at == self.state.last_crawled_at,
            message,
        })
    }
}

async fn observe(node: &CatalogNode, world: &World) -> Result<(Option<Known>, i64), OperatorError> {
    let name = NodeName::from(node.name_any().as_str());
    let unlabelled = std::collections::BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&unlabelled);
    let selects = |catalog: &Catalog| catalog.spec.catalog_node_selector.matches(labels);
    let mut latest: Option<Known> = None;
    for catalog in world.caches.catalogs.state_filter(selects) {
        let catalog = CatalogName::from(catalog.name_any().as_str());
        let known = world.known_nodes(&catalog).await?;
        let Some(state) = known.get(&name) else { continue };
        let is_later = latest.as_ref().is_none_or(|latest| latest.state.last_crawled_at < state.last_crawled_at);
        if is_later {
            latest = Some(Known { catalog, state: state.clone() });
        }
    }
    let Some(known) = latest else { return Ok((None, 0)) };
    let sections = world.store.sections(&known.catalog, &name).await?.len();
    Ok((Some(known), i64::try_from(sections).unwrap_or(i64::MAX)))
}

/// Whether it can be crawled.
fn judge(node: &CatalogNode, world: &World) -> Vec<Said> {
    let secret = |wanted: &str| {
        let found = world.caches.secrets.get(&ObjectRef::new(wanted).within(&world.namespace));
        found.map(|secret| secret.metadata.clone())
    };
    let fault = |reason: &str, why: String| {
        vec![Said::new(READY, Holds::False, reason, &why), Said::new(STALLED, Holds::True, reason, why)]
    };
    if let Some(why) = unusable(node) {
        return fault(ready::INVALID_SPEC, why);
    }
    if let Some(why) = credential_problem(node, secret) {
        return fault(ready::UNUSABLE_CREDENTIAL, why);
    }
    if let Some(policy) = &node.spec.throttle_policy_ref
        && world.caches.policies.get(&ObjectRef::new(&policy.name).within(&world.namespace)).is_none()
    {
        let why = format!(
            "spec.throttlePolicyRef: there is no ThrottlePolicy {} in this namespace; make it. Until then another policy or the \
             polite default holds",
            policy.name
        );
        return fault(ready::REFERENCE_NOT_FOUND, why);
    }
    if node.spec.suspend {
        return vec![Said::new(READY, Holds::False, ready::SUSPENDED, "spec.suspend is set: runs leave it out")];
    }
    vec![Said::new(READY, Holds::True, ready::READY, "it can be crawled")]
}
