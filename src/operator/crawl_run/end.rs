//! The end of a run: its books are closed, its report is made; later, what is left of it is cleared away.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::ResourceExt as _;
use kube::api::{DeleteParams, Preconditions};
use kube::runtime::controller::Action;
use tracing::info;

use super::super::error::OperatorError;
use super::super::world::World;
use super::begin::read;
use super::observe::Begun;
use crate::api::CrawlRun;
use crate::api::times::moment_of;
use crate::planner::{ExecutionPlan, Verdict};
use crate::run::books::Books;
use crate::run::{Concluded, Report, RunInput, StageSeconds, approvals, removed_nodes};
use crate::store::landing::StoreLanding;
use crate::store::{DeletionGuard, Mode};
use crate::task::CatalogName;

/// Closes the books and makes the report. The run stays unfinished in the store until its CrawlRun says how it ended: whoever
/// goes on after a crash finds it there, and comes to the same report.
pub(super) async fn conclude(
    begun: &Begun,
    input: &RunInput,
    plan: &ExecutionPlan,
    verdict: Verdict,
    world: &World,
) -> Result<Report, OperatorError> {
    world.check_leads()?;
    let store = world.store.as_ref();
    let catalog = input.catalog_name();
    let removed = removed_nodes(input, &store.nodes(&catalog).await?);
    let deletion = &input.catalog.spec.deletion;
    let approved = approvals::of_catalog(&input.catalog);
    let landing = StoreLanding::new(world.store.clone());
    let books = Books {
        input,
        state: &begun.state,
        store,
        landing: &landing,
        queue: Some(world.queue.as_ref()),
        patience: &world.patience,
        clock: world.clock.as_ref(),
        guard: DeletionGuard { max_percent: deletion.max_percent, min_records: deletion.min_records },
        approved: &approved,
        crawled: &plan.nodes,
        skipped: &plan.skipped,
        removed: &removed,
        incremental: begun.state.mode == Mode::Incremental,
        verdict,
    };
    let expired = books.close().await?;
    let concluded = Concluded {
        input,
        state: &begun.state,
        dry_run: input.spec.settings.dry_run,
        finished_at: world.clock.now(),
        verdict,
        crawled: &plan.nodes,
        skipped: plan.skipped.clone(),
        problems: BTreeMap::new(),
        expired,
        stage_seconds: StageSeconds::default(),
    };
    Ok(concluded.report(store).await?)
}

/// The CrawlRun says how the run ended: the store and the queue need not wait for it any more.
pub(super) async fn forget(begun: &Begun, report: &Report, world: &World) -> Result<(), OperatorError> {
    world.check_leads()?;
    world.patience.with(|| world.queue.close(&begun.state.run)).await?;
    // A report is numbers and texts, which always have a JSON form.
    let json = serde_json::to_string(report).unwrap_or_default();
    world.store.finish_run(&begun.state.run, &json).await?;
    world.note_end(&begun.frozen.crawl_run, report);
    info!(run = %begun.state.run, crawl_run = begun.frozen.crawl_run, outcome = ?report.outcome, "run ended");
    Ok(())
}

/// Clears away what a run that has ended left: in the store, in the queue, and at last itself.
pub(super) async fn tidy_up(run: &CrawlRun, world: &World) -> Result<Action, OperatorError> {
    let uid = run.uid().unwrap_or_default();
    let catalog = CatalogName::from(run.spec.catalog_ref.name.as_str());
    if let Some(state) = world.store.unfinished_run(&catalog).await?
        && read(&state).is_ok_and(|frozen| frozen.owner == uid)
    {
        world.check_leads()?;
        world.patience.with(|| world.queue.close(&state.run)).await?;
        world.store.finish_run(&state.run, "").await?;
        world.memory().nodes.remove(&catalog);
        info!(run = %state.run, crawl_run = run.name_any(), "run ended");
    }
    {
        let mut memory = world.memory();
        memory.demands.remove(&uid);
        memory.configured.remove(&uid);
        memory.lanes.remove(&uid);
    }
    let Some(ttl) = run.spec.settings.ttl_after_finished else { return Ok(Action::await_change()) };
    let finished = run.status.as_ref().and_then(|status| status.finished_at.as_ref()).map(moment_of);
    let Some(due) = finished.and_then(|finished| finished.checked_add(ttl.get()).ok()) else {
        return Ok(Action::await_change());
    };
    let left = Duration::try_from(due.duration_since(world.clock.now())).unwrap_or_default();
    if !left.is_zero() {
        return Ok(Action::requeue(left));
    }
    world.check_leads()?;
    let parameters = DeleteParams {
        preconditions: Some(Preconditions { uid: Some(uid), resource_version: None }),
        ..DeleteParams::background()
    };
    match world.api::<CrawlRun>().delete(&run.name_any(), &parameters).await {
        Ok(_) => Ok(Action::await_change()),
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(Action::await_change()),
        Err(error) => Err(error.into()),
    }
}
