//! Making it so: the only writes of a pass, but for the status.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::runtime::events::EventType;
use tracing::{debug, info};

use super::super::error::OperatorError;
use super::super::jobs::{CrawlerJobInput, MAX_SECRETS, build_job, job_name};
use super::super::world::World;
use super::end;
use super::observe::{Begun, node_references, share_of};
use crate::api::CrawlRun;
use crate::flow::RunConfig;
use crate::planner::{
    CrawlerState, CrewPlan, CrewSnapshot, ExecutionPlan, Leave, NodeBrief, RunBrief, RunSnapshot, SpentObservation,
    Step, Verdict, demand, plan_crew, plan_run, run_config,
};
use crate::queue::{QueueError, ReleaseCause};
use crate::run::approvals;
use crate::run::briefs::Briefs;
use crate::run::observe::{Live, build_snapshot, observe_closed_origins, observe_spent};
use crate::run::{Report, RunInput};
use crate::task::{NodeName, Task};

/// Tasks are read from the store so many at a time.
const SEED_BATCH: usize = 10_000;

/// After a change of crawlers a run is looked at again soon: the caches know of it by then.
const SOON: Duration = Duration::from_millis(500);

/// What a pass did.
pub(super) struct Applied {
    pub(super) plan: ExecutionPlan,
    pub(super) share: u32,
    /// Crawler Jobs of the run, those made just now too.
    pub(super) held: u32,
    /// The queue was lost and is made anew.
    pub(super) was_lost: bool,
    /// Why crawlers that are wanted were not made: no token is free.
    pub(super) waits_for_token: bool,
    /// What it came to, if it has ended, and with which verdict.
    pub(super) ended: Option<Box<Report>>,
    pub(super) look_again: Option<Duration>,
}

/// Plans, and does what is planned.
pub(super) async fn apply(run: &CrawlRun, world: &World, begun: &Begun) -> Result<Applied, OperatorError> {
    let input = live_input(run, begun);
    let first_look = snapshot(&input, begun, 0, None);
    let share = share_of(run, begun, demand(&first_look), world);
    let crew = plan_crew(&CrewSnapshot {
        now: begun.now,
        owner: &begun.uid,
        tokens: world.settings.tokens,
        share,
        jobs: &begun.jobs,
        orphans: &begun.orphans,
        holders: &begun.holders,
    });
    let free = if crew.not_before.is_some() { Vec::new() } else { crew.free.clone() };
    let mut snapshot = snapshot(&input, begun, share, Some(free));
    let held = begun.jobs.iter().filter(|job| job.owner == begun.uid && !job.fate.has_ended()).count();
    let is_lost = begun.queue.is_none() && run.status.as_ref().is_some_and(|status| status.started_at.is_some());
    if begun.queue.is_none() {
        snapshot.spent = spent(&input, is_lost, world).await?;
        snapshot.closed_origins = observe_closed_origins(world.store.as_ref(), begun.now).await?;
    }
    let plan = plan_run(&snapshot);
    let mut applied = Applied {
        share,
        held: u32::try_from(held).unwrap_or(u32::MAX),
        was_lost: is_lost,
        waits_for_token: false,
        ended: None,
        look_again: None,
        plan,
    };
    leave_queue(&crew, begun, world).await?;
    if begun.queue.is_some() {
        configure(&snapshot, begun, world).await?;
    }
    stop_surplus(&crew, begun, world).await?;
    let steps = applied.plan.steps.clone();
    for step in &steps {
        match step {
            Step::OpenQueue { .. } => open_queue(&snapshot, begun, world).await?,
            Step::SeedNodes { nodes } => drop(seed(nodes, begun, world).await?),
            Step::Freeze => world.queue.freeze(&begun.state.run).await?,
            Step::Thaw => world.queue.thaw(&begun.state.run).await?,
            Step::StartCrawler { token, group } => {
                if !start_crawler(run, begun, *token, group, &snapshot, world).await? {
                    applied.look_again = Some(SOON);
                    break;
                }
                applied.held += 1;
            }
            Step::StopCrawlers => stop_all(begun, world).await?,
            Step::FinishRun { verdict: Verdict::Drained } if seed(&applied.plan.nodes, begun, world).await? > 0 => {
                // Tasks that only the store knew: the run goes on.
                applied.look_again = Some(SOON);
            }
            Step::FinishRun { verdict } => {
                let report = end::conclude(begun, &input, &applied.plan, *verdict, world).await?;
                applied.ended = Some(Box::new(report));
            }
        }
    }
    let starts = steps.iter().any(|step| matches!(step, Step::StartCrawler { .. }));
    applied.waits_for_token =
        applied.held == 0 && !starts && demand(&snapshot) > 0 && crew.free.is_empty() && crew.not_before.is_none();
    if begun.queue.is_none() {
        applied.look_again = Some(SOON);
    }
    Ok(applied)
}

/// What the run was begun with, with what may change while it goes on as it is now.
fn live_input(run: &CrawlRun, begun: &Begun) -> RunInput {
    let frozen = &begun.frozen.input;
    let mut spec = frozen.spec.clone();
    let (settings, now) = (&mut spec.settings, &run.spec.settings);
    (settings.suspend, settings.tokens, settings.weight) = (now.suspend, now.tokens, now.weight);
    (settings.priority, settings.deadline) = (now.priority, now.deadline);
    RunInput {
        catalog: frozen.catalog.clone(),
        spec,
        nodes: begun.nodes.clone(),
        policies: begun.policies.clone(),
        remembered: frozen.remembered.clone(),
    }
}

fn snapshot(input: &RunInput, begun: &Begun, share: u32, free: Option<Vec<u32>>) -> RunSnapshot {
    let own = begun.jobs.iter().filter(|job| job.owner == begun.uid && !job.fate.has_ended());
    let crawlers = own.map(|job| CrawlerState { token: job.token, group: job.group.clone(), running: true });
    let live = Live {
        now: begun.now,
        queue: begun.queue,
        crawlers: crawlers.collect(),
        token_share: Some(share),
        free_tokens: free,
        interrupted: false,
        spent: Arc::default(),
        closed_origins: Arc::default(),
    };
    build_snapshot(input, &begun.state, live)
}

/// What was spent before the queue that is to be opened. After a loss the last requests are not known: short windows start as if
/// spent.
async fn spent(input: &RunInput, is_lost: bool, world: &World) -> Result<Arc<SpentObservation>, OperatorError> {
    let seen = observe_spent(world.store.as_ref(), input, world.clock.now()).await?;
    Ok(Arc::new(SpentObservation { ended_in_order: !is_lost, ..seen.as_ref().clone() }))
}

/// Frees places of crawlers that are gone.
async fn leave_queue(crew: &CrewPlan, begun: &Begun, world: &World) -> Result<(), OperatorError> {
    for (token, leave) in &crew.leaves {
        let (cause, shown) = match leave {
            Leave::Finished => (ReleaseCause::Finished, "finished"),
            Leave::Crashed => (ReleaseCause::Crashed, "crashed"),
            Leave::Disrupted => (ReleaseCause::Disrupted, "disrupted"),
        };
        world.check_leads()?;
        let released = world.queue.release_holder(&begun.state.run, *token, cause).await?;
        world.metrics.crawler_exit(shown);
        info!(run = %begun.state.run, token, cause = shown, requeued = released.requeued, dead = released.dead, "a crawler is gone");
    }
    Ok(())
}

/// Tells the queue of policies and nodes that have changed.
async fn configure(snapshot: &RunSnapshot, begun: &Begun, world: &World) -> Result<(), OperatorError> {
    let config = config_of(snapshot, begun);
    let is_known = world.memory().configured.get(&begun.uid).is_some_and(|known| is_alike(known, &config));
    if is_known {
        return Ok(());
    }
    let whole = with_briefs(config.clone(), snapshot, begun, world).await?;
    world.check_leads()?;
    world.queue.configure(whole).await?;
    debug!(run = %begun.state.run, "the queue is told of its nodes and gates");
    world.memory().configured.insert(begun.uid.clone(), config);
    Ok(())
}

/// Hours are worked out anew from each moment on: that alone is no change for a while.
fn is_alike(known: &RunConfig, now: &RunConfig) -> bool {
    let bare = |config: &RunConfig| {
        let mut config = config.clone();
        for budget in &mut config.budgets {
            budget.spent.clear();
        }
        config
    };
    bare(known) == bare(now)
}

fn config_of(snapshot: &RunSnapshot, begun: &Begun) -> RunConfig {
    let mut config = run_config(snapshot);
    for node in &mut config.nodes {
        node.suspended = begun.suspended.contains(&node.name);
    }
    config
}

async fn with_briefs(
    mut config: RunConfig,
    snapshot: &RunSnapshot,
    begun: &Begun,
    world: &World,
) -> Result<RunConfig, OperatorError> {
    let (problems, certificates) = node_references(begun, world).await?;
    let run = RunBrief::of(snapshot, begun.uid.clone(), approvals::of_catalog(&snapshot.catalog));
    let nodes: BTreeMap<NodeName, Arc<str>> = begun
        .nodes
        .iter()
        .map(|node| {
            let name = NodeName::from(node.name_any().as_str());
            let brief = NodeBrief::of(&node.spec, certificates.get(&name).cloned());
            let problem = problems.get(&name).cloned().or(brief.problem.clone());
            (name, NodeBrief { problem, ..brief }.to_text())
        })
        .collect();
    Briefs::new(run, nodes).write_into(&mut config);
    Ok(config)
}

async fn open_queue(snapshot: &RunSnapshot, begun: &Begun, world: &World) -> Result<(), OperatorError> {
    let config = config_of(snapshot, begun);
    let whole = with_briefs(config.clone(), snapshot, begun, world).await?;
    world.check_leads()?;
    match world.queue.open(whole).await {
        // Somebody was faster, or its answer was lost.
        Ok(()) | Err(QueueError::RunExists { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    world.memory().configured.insert(begun.uid.clone(), config);
    Ok(())
}

/// Puts in what is to be done: the root of each node, and what the store says is not settled. Done again it changes nothing.
/// Returns how much of it the queue did not know.
async fn seed(nodes: &[NodeName], begun: &Begun, world: &World) -> Result<u64, OperatorError> {
    let run = &begun.state.run;
    let by_name: BTreeMap<String, _> = begun.nodes.iter().map(|node| (node.name_any(), node)).collect();
    let mut roots: Vec<Task> = Vec::with_capacity(nodes.len());
    for name in nodes {
        let Some(node) = by_name.get(name.as_str()) else { continue };
        match world.seeds.root_task(name, &node.spec) {
            Ok(task) => roots.push(task),
            Err(why) => info!(run = %run, node = %name, "node can't be started: {why}"),
        }
    }
    world.check_leads()?;
    world.store.seed(run, &roots).await?;
    let (mut after, mut new) = (None, 0);
    loop {
        let tasks = world.store.pending_tasks(run, after, SEED_BATCH).await?;
        let Some(last) = tasks.last() else { return Ok(new) };
        after = Some(last.id);
        new += world.queue.push(run, tasks).await?.new;
    }
}

/// Makes a crawler's Job. False: its name is taken, and what was seen was old; another pass looks again.
async fn start_crawler(
    run: &CrawlRun,
    begun: &Begun,
    token: u32,
    group: &str,
    snapshot: &RunSnapshot,
    world: &World,
) -> Result<bool, OperatorError> {
    world.check_leads()?;
    let name = job_name(&world.instance, token);
    if let Some(ended) = begun.jobs.iter().find(|job| job.token == token) {
        delete_job(&name, &ended.uid, world).await?;
    }
    let secrets = secrets_of(group, begun);
    let settings = &run.spec.settings;
    let deadline = settings.deadline.and_then(|deadline| snapshot.started_at.checked_add(deadline.get()).ok());
    let job = build_job(&CrawlerJobInput {
        instance: &world.instance,
        namespace: &world.namespace,
        settings: &world.settings,
        token,
        run: &begun.state.run,
        crawl_run: (&run.name_any(), &begun.uid),
        group,
        resources: &settings.crawler.resources,
        secrets: &secrets,
        seconds_left: deadline.map(|deadline| deadline.duration_since(begun.now).as_secs()),
    });
    match world.api::<Job>().create(&PostParams::default(), &job).await {
        Ok(_) => {
            info!(run = %begun.state.run, job = name, group, "crawler started");
            Ok(true)
        }
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(false),
        Err(kube::Error::Api(status)) if status.is_forbidden() => {
            let note = format!("crawler Job {name} is refused: {}", status.message);
            world.tell(run, EventType::Warning, "CrawlerRefused", &note).await;
            Err(kube::Error::Api(status).into())
        }
        Err(error) => Err(error.into()),
    }
}

/// The Secrets that the nodes of a group name: as many as a pod may have.
fn secrets_of(group: &str, begun: &Begun) -> Vec<String> {
    let of_group = begun.nodes.iter().filter(|node| node.spec.crawler_class.as_deref().unwrap_or("default") == group);
    let mut names: Vec<String> =
        of_group.filter_map(|node| Some(node.spec.credential_ref.as_ref()?.name.clone())).collect();
    names.sort_unstable();
    names.dedup();
    names.truncate(MAX_SECRETS);
    names
}

/// Deletes exactly this Job: one of the same name that was made meanwhile stays.
async fn delete_job(name: &str, uid: &str, world: &World) -> Result<(), OperatorError> {
    let parameters = DeleteParams {
        preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
        ..DeleteParams::background()
    };
    match world.api::<Job>().delete(name, &parameters).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Who holds more than its share gives some back: its crawlers finish what they have, and end.
async fn stop_surplus(crew: &CrewPlan, begun: &Begun, world: &World) -> Result<(), OperatorError> {
    for token in &crew.stops {
        let Some(job) = begun.jobs.iter().find(|job| job.token == *token && job.owner == begun.uid) else { continue };
        world.check_leads()?;
        delete_job(&job_name(&world.instance, *token), &job.uid, world).await?;
        info!(run = %begun.state.run, token, "a crawler is told to end: others are to have its token");
    }
    Ok(())
}

/// Tells all crawlers of a run to end.
pub(super) async fn stop_all(begun: &Begun, world: &World) -> Result<(), OperatorError> {
    for job in begun.jobs.iter().filter(|job| job.owner == begun.uid && !job.fate.has_ended()) {
        world.check_leads()?;
        delete_job(&job_name(&world.instance, job.token), &job.uid, world).await?;
    }
    Ok(())
}
