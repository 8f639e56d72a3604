//! Everything that one pass over a run looks at. The only reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::runtime::reflector::ObjectRef;

use super::super::credentials::credential_problem;
use super::super::error::OperatorError;
use super::super::fates::{Trouble, trouble};
use super::super::world::{Memory, World};
use super::begin::{Begin, FrozenRun, find_or_begin};
use crate::api::names::CA_KEY;
use crate::api::times::moment_of;
use crate::api::{CatalogNode, CrawlRun, ThrottlePolicy};
use crate::planner::{CrawlerJob, InstanceSnapshot, QueueObservation, RunDemand, plan_shares};
use crate::queue::{LaneStatus, QueueError};
use crate::run::observe::next_opening;
use crate::store::RunState;
use crate::task::{NodeName, RunId};

/// Lanes that a look at a queue is told of: for the reason to wait.
const LANES: usize = 64;

/// How a run stands.
pub(super) enum Standing {
    /// It can't begin yet.
    Waits(Waits),
    /// It is in the store.
    Begun(Box<Begun>),
}

/// Why a run can't begin.
pub(super) struct Waits {
    pub(super) reason: &'static str,
    pub(super) message: String,
    /// A person must act.
    pub(super) is_fault: bool,
    /// What it waits for is watched.
    pub(super) comes_by_itself: bool,
    pub(super) position: Option<i64>,
}

/// A run that was begun, and everything around it.
pub(super) struct Begun {
    pub(super) now: Timestamp,
    pub(super) uid: String,
    pub(super) state: RunState,
    pub(super) frozen: FrozenRun,
    /// The nodes it was begun with; what may change while it goes on is as it is now.
    pub(super) nodes: Arc<[CatalogNode]>,
    /// Those that are suspended now.
    pub(super) suspended: BTreeSet<NodeName>,
    pub(super) policies: Arc<[ThrottlePolicy]>,
    pub(super) queue: Option<QueueObservation>,
    pub(super) lanes: Vec<LaneStatus>,
    /// Who has joined the queue: token, and uid of the Job.
    pub(super) holders: Vec<(u32, String)>,
    pub(super) jobs: Vec<CrawlerJob>,
    pub(super) orphans: BTreeSet<String>,
    pub(super) troubles: Vec<Trouble>,
}

/// Looks.
pub(super) async fn observe(run: &CrawlRun, world: &World) -> Result<Standing, OperatorError> {
    let catalog_name = &run.spec.catalog_ref.name;
    let Some(catalog) = world.caches.catalogs.get(&ObjectRef::new(catalog_name).within(&world.namespace)) else {
        let message = match world.caches.fault_of("Catalog", catalog_name) {
            Some(why) => format!("Catalog {catalog_name} can't be read: {why}"),
            None => format!("there is no Catalog {catalog_name} in this namespace; make it, or delete this run"),
        };
        return Ok(Standing::Waits(Waits {
            reason: "CatalogNotFound",
            message,
            is_fault: true,
            comes_by_itself: true,
            position: None,
        }));
    };
    if catalog.spec.store.postgres.is_some() {
        return Ok(Standing::Waits(Waits {
            reason: "StoreNotSupported",
            message: format!(
                "Catalog {catalog_name} asks for PostgreSQL, which this version does not support; set spec.store.redis"
            ),
            is_fault: true,
            comes_by_itself: true,
            position: None,
        }));
    }
    if run.spec.settings.dry_run {
        return Ok(Standing::Waits(Waits {
            reason: "DryRunNotSupported",
            message: "spec.dryRun is not supported in a cluster by this version; use `trawler run --dry-run`"
                .to_owned(),
            is_fault: true,
            comes_by_itself: true,
            position: None,
        }));
    }
    let (state, frozen) = match find_or_begin(run, &catalog, world).await? {
        Begin::Begun(state, frozen) => (state, *frozen),
        Begin::Another(other) => {
            let position = place_in_line(run, world);
            return Ok(Standing::Waits(Waits {
                reason: "AnotherRun",
                message: format!("run {other} of Catalog {catalog_name} goes on; one at a time"),
                is_fault: false,
                comes_by_itself: false,
                position: Some(position),
            }));
        }
    };
    let uid = run.uid().unwrap_or_default();
    let (queue, lanes, holders) = observe_queue(&state, world).await?;
    let (jobs, orphans) = world.caches.crawlers();
    let pods = world.caches.pods_of(&uid);
    let (nodes, suspended) = live_nodes(&frozen, world);
    let policies = world.caches.policies.state().iter().map(|policy| policy.as_ref().clone()).collect();
    Ok(Standing::Begun(Box::new(Begun {
        now: world.clock.now(),
        uid,
        nodes,
        suspended,
        policies,
        queue,
        lanes,
        holders,
        jobs,
        orphans,
        troubles: pods.iter().filter_map(|pod| trouble(pod)).collect(),
        state,
        frozen,
    })))
}

/// The queue, if it is there: one that has lost the run is made anew.
async fn observe_queue(
    state: &RunState,
    world: &World,
) -> Result<(Option<QueueObservation>, Vec<LaneStatus>, Vec<(u32, String)>), OperatorError> {
    let run = &state.run;
    let look = async {
        let ledger = world.queue.ledger(run).await?;
        let lanes = world.queue.lanes(run, usize::MAX).await?;
        let ready = lanes.iter().filter(|lane| lane.waiting.is_none()).map(|lane| lane.queued).sum();
        let holders = world.queue.holders(run).await?;
        let frozen = world.queue.runs().await?.iter().any(|status| status.run == *run && status.frozen);
        let next_opening = next_opening(&lanes);
        let lanes = lanes.into_iter().take(LANES).collect();
        let holders = holders.into_iter().map(|holder| (holder.token, holder.uid)).collect();
        Ok((Some(QueueObservation { ledger, ready, frozen, next_opening }), lanes, holders))
    };
    match look.await {
        Ok(seen) => Ok(seen),
        Err(QueueError::NoSuchRun { .. } | QueueError::Lost { .. }) => Ok((None, Vec::new(), Vec::new())),
        Err(error) => Err(error.into()),
    }
}

/// A run's set of nodes is fixed when it begins, and so is where they are and how they are read. How politely, and whether at
/// all, follows what is said now.
fn live_nodes(frozen: &FrozenRun, world: &World) -> (Arc<[CatalogNode]>, BTreeSet<NodeName>) {
    let mut suspended = BTreeSet::new();
    let nodes = frozen.input.nodes.iter().map(|node| {
        let name = node.name_any();
        let Some(live) = world.caches.nodes.get(&ObjectRef::new(&name).within(&world.namespace)) else {
            return node.clone();
        };
        if live.spec.suspend {
            suspended.insert(NodeName::from(name.as_str()));
        }
        let mut merged = node.clone();
        merged.spec.throttle_policy_ref.clone_from(&live.spec.throttle_policy_ref);
        merged.spec.connection.clone_from(&live.spec.connection);
        merged.spec.priority = live.spec.priority;
        merged.spec.api_calls_per_document = live.spec.api_calls_per_document;
        merged
    });
    (nodes.collect(), suspended)
}

/// What the run may have of the instance's tokens, given what it and all others could use.
pub(super) fn share_of(run: &CrawlRun, begun: &Begun, wanted: u32, world: &World) -> u32 {
    let settings = &run.spec.settings;
    let at_work = begun.jobs.iter().filter(|job| job.owner == begun.uid && !job.fate.has_ended()).count();
    let mut memory = world.memory();
    let before = memory.demands.get(&begun.uid).and_then(|demand| demand.waiting_since);
    let demand = RunDemand {
        run: begun.state.run.clone(),
        wanted: wanted.max(u32::try_from(at_work).unwrap_or(0)).min(settings.tokens),
        weight: settings.weight,
        priority: settings.priority,
        waiting_since: (wanted > 0 && at_work == 0).then_some(before.unwrap_or(begun.now)),
    };
    memory.demands.insert(begun.uid.clone(), demand);
    let runs = demands_of_all(&mut memory, world);
    drop(memory);
    let shares = plan_shares(&InstanceSnapshot { now: begun.now, tokens: world.settings.tokens, runs });
    shares.get(&begun.state.run).copied().unwrap_or(0)
}

/// What all active runs could use. One that was not looked at yet may want all that it may have.
fn demands_of_all(memory: &mut Memory, world: &World) -> Vec<RunDemand> {
    let active =
        world.caches.runs.state_filter(|run| !super::is_final(run) && run.metadata.deletion_timestamp.is_none());
    let uids: BTreeSet<String> = active.iter().filter_map(|run| run.uid()).collect();
    memory.demands.retain(|uid, _| uids.contains(uid));
    memory.lanes.retain(|uid, _| uids.contains(uid));
    let unknown = active.iter().filter_map(|run| {
        let uid = run.uid().filter(|uid| !memory.demands.contains_key(uid))?;
        let settings = &run.spec.settings;
        Some(RunDemand {
            run: RunId::from(uid.as_str()),
            wanted: if settings.suspend { 0 } else { settings.tokens },
            weight: settings.weight,
            priority: settings.priority,
            waiting_since: None,
        })
    });
    let unknown: Vec<RunDemand> = unknown.collect();
    memory.demands.values().cloned().chain(unknown).collect()
}

/// A run that can't begin wants nothing.
pub(super) fn wants_nothing(run: &CrawlRun, world: &World) {
    let Some(uid) = run.uid() else { return };
    let settings = &run.spec.settings;
    let demand = RunDemand {
        run: RunId::from(uid.as_str()),
        wanted: 0,
        weight: settings.weight,
        priority: settings.priority,
        waiting_since: None,
    };
    world.memory().demands.insert(uid, demand);
}

/// Among the runs of the Catalog that wait: the oldest is next.
fn place_in_line(run: &CrawlRun, world: &World) -> i64 {
    let age = |run: &CrawlRun| (run.metadata.creation_timestamp.as_ref().map(moment_of), run.name_any());
    let own = age(run);
    let others = world.caches.runs.state_filter(|other| {
        other.spec.catalog_ref == run.spec.catalog_ref && !super::is_final(other) && age(other) < own
    });
    // The first of them is the one that goes on.
    i64::try_from(others.len().max(1)).unwrap_or(i64::MAX)
}

/// What crawlers can't do for their nodes, each with a sentence, and the certificates that nodes refer to.
pub(super) async fn node_references(
    begun: &Begun,
    world: &World,
) -> Result<(BTreeMap<NodeName, String>, BTreeMap<NodeName, Arc<str>>), OperatorError> {
    let (mut problems, mut certificates) = (BTreeMap::new(), BTreeMap::new());
    let mut config_maps: BTreeMap<String, Option<Arc<str>>> = BTreeMap::new();
    for node in begun.nodes.iter() {
        let name = NodeName::from(node.name_any().as_str());
        let secret = |wanted: &str| {
            let secrets = &world.caches.secrets;
            secrets.get(&ObjectRef::new(wanted).within(&world.namespace)).map(|secret| secret.metadata.clone())
        };
        if let Some(problem) = credential_problem(node, secret) {
            problems.insert(name.clone(), problem);
        }
        let Some(reference) = &node.spec.ca_ref else { continue };
        if !config_maps.contains_key(&reference.name) {
            let found = world.api::<ConfigMap>().get_opt(&reference.name).await?;
            let pem = found.and_then(|map| map.data?.get(CA_KEY).map(|pem| Arc::from(pem.as_str())));
            config_maps.insert(reference.name.clone(), pem);
        }
        if let Some(pem) = config_maps.get(&reference.name).cloned().flatten() {
            certificates.insert(name, pem);
        } else {
            let (config_map, key) = (&reference.name, CA_KEY);
            let why =
                format!("spec.caRef: there is no ConfigMap {config_map} with the key {key} in this namespace; make it");
            problems.entry(name).or_insert(why);
        }
    }
    Ok((problems, certificates))
}
