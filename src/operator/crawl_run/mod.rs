//! The driver of CrawlRuns: observe → validate → plan → apply → report.
//!
//! Everything is derived anew in each pass: whether the run was begun from the store, how it stands from its queue, who works on
//! it from Jobs and pods. So a pass may end anywhere, and the next one goes on.

mod apply;
mod begin;
mod end;
mod observe;
mod report;

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt as _;
use kube::runtime::controller::Action;

use super::error::OperatorError;
use super::world::World;
use crate::api::CrawlRun;
use crate::api::conditions::SUCCEEDED;

/// An active run is looked at so often: its queue does not tell the API server what happens in it.
const TICK: Duration = Duration::from_secs(2);

/// A run that waits for another one is looked at so often, beside when that one ends.
const WAITING_TICK: Duration = Duration::from_secs(30);

pub(crate) const KIND: &str = "CrawlRun";

/// One pass over a run.
pub(crate) async fn reconcile(run: Arc<CrawlRun>, world: Arc<World>) -> Result<Action, OperatorError> {
    world.check_leads()?;
    let started = crate::clock::Stopwatch::start();
    let action = pass(&run, &world).await;
    world.metrics.reconciled(KIND, started.elapsed(), action.is_ok());
    if action.is_ok() {
        world.note_success(KIND, &run.name_any());
    }
    action
}

async fn pass(run: &CrawlRun, world: &World) -> Result<Action, OperatorError> {
    if run.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    if is_final(run) {
        return end::tidy_up(run, world).await;
    }
    let standing = observe::observe(run, world).await?;
    match standing {
        observe::Standing::Waits(waits) => {
            report::report_waiting(run, world, &waits).await?;
            Ok(if waits.comes_by_itself { Action::await_change() } else { Action::requeue(WAITING_TICK) })
        }
        observe::Standing::Begun(begun) => {
            world.note_lanes(&begun.uid, begun.lanes.clone());
            let applied = apply::apply(run, world, &begun).await?;
            let look_again = applied.look_again;
            report::report_progress(run, world, &begun, &applied).await?;
            if let Some(report) = &applied.ended {
                end::forget(&begun, report, world).await?;
            }
            Ok(Action::requeue(look_again.unwrap_or(TICK)))
        }
    }
}

/// The run has ended, well or badly: nothing is begun for it any more.
pub(crate) fn is_final(run: &CrawlRun) -> bool {
    let conditions = run.status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|condition| condition.type_ == SUCCEEDED && condition.status != "Unknown")
}
