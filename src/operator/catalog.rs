//! The driver of Catalogs: starts runs by schedule and on demand, prunes old ones, and says how the Catalog stands.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::controller::Action;
use kube::runtime::events::EventType;
use kube::{Resource as _, ResourceExt as _};
use tracing::info;

use super::conditions::{Holds, Said, conditions};
use super::crawl_run::is_final;
use super::error::OperatorError;
use super::world::World;
use crate::api::conditions::{DELETION_HELD, READY, STALLED, SUCCEEDED, abnormal, ready};
pub(crate) use crate::api::names::CATALOG_LABEL;
use crate::api::names::RUN_REQUESTED_AT_ANNOTATION;
use crate::api::times::{moment_of, time_of};
use crate::api::{
    Catalog, CatalogStatus, CrawlRun, CrawlRunSpec, HeldDeletion, ObjectRef, RunSettings, ScheduleStatus,
    SelectedCatalogNodes,
};
use crate::planner::{NewRun, RunObservation, SchedulePlan, ScheduleSnapshot, plan_schedules};
use crate::task::CatalogName;

/// Label on a run that a schedule made: the schedule's name.
pub(crate) const SCHEDULE_LABEL: &str = "trawler.dev/schedule";

pub(crate) const KIND: &str = "Catalog";

/// A Catalog is looked at so often at least.
const LOOK_AGAIN: Duration = Duration::from_mins(10);

/// A moment that waits for an active run to end is looked at so often.
const WAITING: Duration = Duration::from_secs(10);

const MAX_HELD: usize = 20;
const MAX_ACTIVE: usize = 20;

/// One pass over a Catalog.
pub(crate) async fn reconcile(catalog: Arc<Catalog>, world: Arc<World>) -> Result<Action, OperatorError> {
    world.check_leads()?;
    let started = crate::clock::Stopwatch::start();
    let action = pass(&catalog, &world).await;
    world.metrics.reconciled(KIND, started.elapsed(), action.is_ok());
    if action.is_ok() {
        world.note_success(KIND, &catalog.name_any());
    }
    action
}

async fn pass(catalog: &Catalog, world: &World) -> Result<Action, OperatorError> {
    if catalog.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let now = world.clock.now();
    let name = catalog.name_any();
    let runs = world.caches.runs.state_filter(|run| run.spec.catalog_ref.name == name);
    let observed: Vec<RunObservation> = runs.iter().map(|run| observation(run)).collect();
    let requested = catalog.annotations().get(RUN_REQUESTED_AT_ANNOTATION).map(String::as_str);
    let snapshot = ScheduleSnapshot { now, catalog, requested, runs: &observed };
    let plan = plan_schedules(&snapshot);
    if let Ok(plan) = &plan {
        apply(catalog, plan, world).await?;
    }
    report(catalog, &runs, plan.as_ref().map_err(ToString::to_string), world).await?;
    let Ok(plan) = plan else { return Ok(Action::await_change()) };
    let until_next = plan.next.and_then(|next| Duration::try_from(next.duration_since(now)).ok());
    let wait = until_next.map_or(LOOK_AGAIN, |wait| wait.min(LOOK_AGAIN) + Duration::from_millis(50));
    Ok(Action::requeue(if plan.waits { wait.min(WAITING) } else { wait }))
}

fn observation(run: &CrawlRun) -> RunObservation {
    let conditions = run.status.iter().flat_map(|status| &status.conditions);
    let succeeded = conditions.into_iter().find(|condition| condition.type_ == SUCCEEDED);
    RunObservation {
        name: run.name_any(),
        mode: run.spec.settings.mode,
        is_scheduled: run.labels().contains_key(SCHEDULE_LABEL),
        succeeded: succeeded.and_then(|condition| match condition.status.as_str() {
            "True" => Some(true),
            "False" => Some(false),
            _ => None,
        }),
        created_at: run.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, moment_of),
    }
}

async fn apply(catalog: &Catalog, plan: &SchedulePlan, world: &World) -> Result<(), OperatorError> {
    for name in &plan.delete {
        world.check_leads()?;
        match world.api::<CrawlRun>().delete(name, &DeleteParams::background()).await {
            Ok(_) => info!(catalog = catalog.name_any(), crawl_run = name, "run deleted"),
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
    for start in &plan.start {
        world.check_leads()?;
        let run = new_run(catalog, start, world);
        match world.api::<CrawlRun>().create(&PostParams::default(), &run).await {
            Ok(_) => {
                info!(catalog = catalog.name_any(), crawl_run = start.name, "run made");
                let why = start
                    .schedule
                    .as_ref()
                    .map_or_else(|| "on request".to_owned(), |name| format!("by schedule {name}"));
                world
                    .tell(catalog, EventType::Normal, "RunCreated", &format!("run {} was made {why}", start.name))
                    .await;
            }
            // It was made before, and its moment was not written down.
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(kube::Error::Api(status)) if status.is_invalid() => {
                let note = format!("run {} is refused: {}", start.name, status.message);
                world.tell(catalog, EventType::Warning, "RunRefused", &note).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
    for missed in &plan.missed {
        world.tell(catalog, EventType::Warning, "ScheduleMissed", missed).await;
    }
    Ok(())
}

fn new_run(catalog: &Catalog, start: &NewRun, world: &World) -> CrawlRun {
    let settings = RunSettings { mode: start.mode, ..catalog.spec.run_template.spec.clone() };
    let mut run = run_of(catalog, &start.name, settings);
    run.metadata.namespace = Some(world.namespace.clone());
    if let Some(schedule) = &start.schedule {
        run.labels_mut().insert(SCHEDULE_LABEL.to_owned(), schedule.clone());
    }
    run
}

/// A run of a Catalog: with its template's labels and annotations, and gone when the Catalog is.
pub(crate) fn run_of(catalog: &Catalog, name: &str, settings: RunSettings) -> CrawlRun {
    let template = &catalog.spec.run_template;
    let catalog_ref = ObjectRef { name: catalog.name_any() };
    let mut labels: BTreeMap<String, String> = template.metadata.labels.clone();
    labels.insert(CATALOG_LABEL.to_owned(), catalog_ref.name.clone());
    let annotations = Some(template.metadata.annotations.clone()).filter(|annotations| !annotations.is_empty());
    let mut run = CrawlRun::new(name, CrawlRunSpec { catalog_ref, settings });
    run.metadata = ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(labels),
        annotations,
        owner_references: catalog.controller_owner_ref(&()).map(|mut owner| {
            owner.block_owner_deletion = Some(false);
            vec![owner]
        }),
        ..ObjectMeta::default()
    };
    run
}

async fn report(
    catalog: &Catalog,
    runs: &[Arc<CrawlRun>],
    plan: Result<&SchedulePlan, String>,
    world: &World,
) -> Result<(), OperatorError> {
    let before = catalog.status.clone().unwrap_or_default();
    let generation = catalog.metadata.generation;
    let name = catalog.name_any();
    let selector = &catalog.spec.catalog_node_selector;
    let none = BTreeMap::new();
    let nodes =
        world.caches.nodes.state_filter(|node| selector.matches(node.metadata.labels.as_ref().unwrap_or(&none)));
    let suspended = nodes.iter().filter(|node| node.spec.suspend).count();
    let is_ready = |node: &crate::api::CatalogNode| {
        let conditions = node.status.iter().flat_map(|status| &status.conditions);
        conditions.into_iter().any(|condition| condition.type_ == READY && condition.status == "True")
    };
    let ready = nodes.iter().filter(|node| !node.spec.suspend && is_ready(node)).count();
    let known = world.known_nodes(&CatalogName::from(name.as_str())).await?;
    let held = held_deletions(catalog, &known, world).await?;

    let mut active: Vec<String> = runs.iter().filter(|run| !is_final(run)).map(|run| run.name_any()).collect();
    active.sort_unstable();
    active.truncate(MAX_ACTIVE);
    let ended =
        |run: &&Arc<CrawlRun>| run.status.as_ref().and_then(|status| status.finished_at.as_ref().map(moment_of));
    let last = runs.iter().filter(|run| ended(run).is_some()).max_by_key(|run| ended(run));
    let succeeded =
        runs.iter().filter(|run| observation(run).succeeded == Some(true)).filter_map(|run| ended(&run)).max();
    let mut said = Vec::new();
    match &plan {
        Err(why) => {
            said.push(Said::new(READY, Holds::False, ready::INVALID_SPEC, format!("spec.schedules: {why}")));
            said.push(Said::new(STALLED, Holds::True, ready::INVALID_SPEC, format!("spec.schedules: {why}")));
        }
        Ok(_) if nodes.is_empty() => {
            let why = "spec.catalogNodeSelector selects no CatalogNode; label some, or change it";
            said.push(Said::new(READY, Holds::False, ready::NO_CATALOG_NODES, why));
        }
        Ok(_) if catalog.spec.suspend => {
            said.push(Said::new(
                READY,
                Holds::False,
                ready::SUSPENDED,
                "spec.suspend is set: no run is started by schedule",
            ));
        }
        Ok(_) => said.push(Said::new(READY, Holds::True, ready::READY, format!("{} nodes", nodes.len()))),
    }
    if !held.is_empty() {
        let records: i64 = held.iter().map(|held| held.records).sum();
        said.push(Said::new(
            DELETION_HELD,
            Holds::True,
            abnormal::MAX_PERCENT_EXCEEDED,
            format!("{records} records of {} sections wait for a person; see status.heldDeletions", held.len()),
        ));
    }
    let (schedules, handled, next) = match &plan {
        Ok(plan) => {
            let schedules = plan
                .handled
                .iter()
                .map(|(name, at)| ScheduleStatus { name: name.clone(), last_schedule_time: Some(time_of(*at)) });
            (schedules.collect(), plan.handled_request.clone(), plan.next)
        }
        Err(_) => (before.schedules.clone(), before.last_handled_run_request.clone(), None),
    };
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let status = CatalogStatus {
        observed_generation: generation,
        conditions: conditions(&before.conditions, &said, generation, world.clock.now()),
        catalog_nodes: SelectedCatalogNodes {
            selected: count(nodes.len()),
            ready: count(ready),
            suspended: count(suspended),
        },
        records: i64::try_from(known.values().map(|state| state.records).sum::<u64>()).unwrap_or(i64::MAX),
        active_runs: active,
        last_run: last.map(|run| run.name_any()).or(before.last_run.clone()),
        last_successful_time: succeeded
            .into_iter()
            .chain(before.last_successful_time.as_ref().map(moment_of))
            .max()
            .map(time_of),
        next_schedule_time: next.map(time_of),
        schedules,
        last_handled_run_request: handled,
        held_deletions: held,
    };
    if status == before {
        return Ok(());
    }
    world.write_status::<Catalog>(&name, &status).await
}

/// Sweeps that wait for a person. Looked up only where the last run ended since.
async fn held_deletions(
    catalog: &Catalog,
    known: &BTreeMap<crate::task::NodeName, crate::store::NodeState>,
    world: &World,
) -> Result<Vec<HeldDeletion>, OperatorError> {
    let name = CatalogName::from(catalog.name_any().as_str());
    if let Some(held) = world.memory().held.get(&name) {
        return Ok(held.clone());
    }
    let mut held = Vec::new();
    for node in known.keys() {
        if held.len() >= MAX_HELD {
            break;
        }
        for section in world.store.sections(&name, node).await? {
            let Some((traversal, records)) = section.held else { continue };
            held.push(HeldDeletion {
                catalog_node: node.to_string(),
                section: section.section.section.to_string(),
                traversal: i64::try_from(traversal).unwrap_or(i64::MAX),
                records: i64::try_from(records).unwrap_or(i64::MAX),
                of: i64::try_from(section.records).unwrap_or(i64::MAX),
            });
        }
    }
    held.truncate(MAX_HELD);
    world.memory().held.insert(name, held.clone());
    Ok(held)
}
