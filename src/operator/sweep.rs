//! What no pass over an object would clear away: queues of runs whose CrawlRun is gone. And what is counted over all objects.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::ResourceExt as _;
use tracing::{info, warn};

use super::crawl_run::is_final;
use super::error::OperatorError;
use super::world::World;
use crate::api::CatalogNodeHealth;
use crate::api::times::moment_of;
use crate::planner::RunBrief;
use crate::queue::QueueError;

/// How often it is looked for.
const EVERY: Duration = Duration::from_secs(30);

/// Nodes of which the age of their last complete crawl is told.
const OLDEST: usize = 50;

/// Closes queues whose CrawlRun does not exist any more, again and again. There are no finalizers: a CrawlRun may be deleted, and
/// its namespace too, while no operator is there.
pub(super) async fn collect(world: &World) {
    loop {
        if let Err(error) = collect_once(world).await {
            warn!("queues without a CrawlRun can't be looked for: {error}");
        }
        tokio::time::sleep(EVERY).await;
    }
}

async fn collect_once(world: &World) -> Result<(), OperatorError> {
    let existing: BTreeSet<String> = world.caches.runs.state().iter().filter_map(|run| run.uid()).collect();
    for status in world.queue.runs().await? {
        let brief = match world.queue.brief(&status.run).await {
            Ok(brief) => brief,
            Err(QueueError::NoSuchRun { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        // A run of somebody who says no owner is not ours.
        let Some(owner) = RunBrief::owner_of(&brief).filter(|owner| !existing.contains(owner)) else { continue };
        world.check_leads()?;
        world.queue.close(&status.run).await?;
        info!(run = %status.run, owner, "the queue of a run whose CrawlRun is gone is closed");
    }
    Ok(())
}

/// Counts for metrics.
pub(super) fn count(world: &World) {
    let caches = &world.caches;
    let runs = caches.runs.state();
    let active = runs.iter().filter(|run| !is_final(run)).count();
    world.metrics.set_runs("active", active);
    world.metrics.set_runs("finished", runs.len() - active);
    let (jobs, _) = caches.crawlers();
    world.metrics.set_tokens("budget", world.settings.tokens as usize);
    world.metrics.set_tokens("used", jobs.iter().filter(|job| !job.fate.has_ended()).count());
    let ledgers = runs.iter().filter(|run| !is_final(run)).filter_map(|run| Some((run, &run.status.as_ref()?.ledger)));
    world.metrics.set_tasks(ledgers.flat_map(|(run, ledger)| {
        let catalog = run.spec.catalog_ref.name.as_str();
        [
            ("queued", ledger.queued),
            ("delayed", ledger.delayed),
            ("leased", ledger.leased),
            ("done", ledger.done),
            ("dead", ledger.dead),
            ("dropped", ledger.dropped),
        ]
        .map(|(state, count)| (catalog, state, count))
    }));
    let now = world.clock.now();
    let nodes = caches.nodes.state();
    let mut ages: Vec<(String, f64)> = Vec::new();
    let (mut online, mut offline, mut dead, mut stale) = (0, 0, 0, 0);
    for node in &nodes {
        let Some(status) = &node.status else { continue };
        match status.health {
            Some(CatalogNodeHealth::Online) => online += 1,
            Some(CatalogNodeHealth::Offline) => offline += 1,
            Some(CatalogNodeHealth::Dead) => dead += 1,
            None => {}
        }
        stale += usize::from(status.stale);
        if let Some(complete) = &status.last_complete_at {
            ages.push((node.name_any(), now.duration_since(moment_of(complete)).as_secs_f64().max(0.0)));
        }
    }
    for (state, count) in [("online", online), ("offline", offline), ("dead", dead), ("stale", stale)] {
        world.metrics.set_nodes(state, count);
    }
    ages.sort_by(|a, b| b.1.total_cmp(&a.1));
    ages.truncate(OLDEST);
    world.metrics.set_freshness(ages.iter().map(|(name, age)| (name.as_str(), *age)));
}
