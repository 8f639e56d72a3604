//! One local run: observe, plan, apply, until the plan says that it is finished; then the report.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tracing::info;

use super::LocalError;
use super::apply::Crew;
use super::conclude::{Conclusion, conclude};
use super::display::Display;
use super::export::Format;
use super::launch::{self, CrawlerProcesses, InProcess, Launcher};
use super::manifests::ManifestSet;
use super::nodes::{build_crawl_node, read_ca, read_secrets, retry_policy};
use super::result_files::ResultFiles;
use super::secrets::SecretSources;
use super::supervise::Supervision;
use crate::api::RunMode;
use crate::clock::SharedClock;
use crate::crawler::http::{HttpClient, HttpConfig};
use crate::crawler::{CrawlContext, CrawlNode, Nodes, Progress};
use crate::planner::{ExecutionPlan, NodeBrief, RunBrief, RunSnapshot, Step, Verdict, plan_run};
use crate::protocol::registry::Readers;
use crate::queue::memory::MemoryQueue;
use crate::queue::redis::open as open_redis;
use crate::queue::{Patience, RunConfig, SharedQueue};
use crate::run::Report;
use crate::run::approvals;
use crate::run::briefs::Briefs;
use crate::run::observe::{Live, RunInput, build_snapshot, observe_closed_origins, observe_remembered, observe_spent};
use crate::store::files::{FileStore, identity};
use crate::store::landing::StoreLanding;
use crate::store::{DeletionGuard, Mode, RunStart, RunState, SectionReport, SharedStore, SoFar, Store};
use crate::task::{NodeName, RunId};

/// The report's name in the output directory.
pub const REPORT_FILE: &str = "report.json";

/// How a run is to be done.
#[derive(Debug)]
pub struct RunOptions {
    /// Where records, report and state go.
    pub dir: PathBuf,
    /// How records are written.
    pub format: Format,
    /// Say what would change; write nothing.
    pub dry_run: bool,
    /// Abandon an unfinished run.
    pub restart: bool,
    /// The client's settings.
    pub http: HttpConfig,
    /// Where Secrets come from, beside the manifests.
    pub secrets: SecretSources,
    /// The manifests, for their Secrets and ConfigMaps: their content is read anew even if a run is resumed.
    pub manifests: ManifestSet,
    /// What is shown while it goes on.
    pub display: Display,
    /// Crawlers as processes, over a queue in Redis. `None`: as tasks of this process, over a queue in memory.
    pub crawlers: Option<CrawlerProcesses>,
    /// Cancelled to ask for an orderly end.
    pub interrupt: CancellationToken,
    /// Time.
    pub clock: SharedClock,
}

/// How a run ended.
#[derive(Debug)]
pub enum RunEnd {
    /// It came to an end; the report says to which.
    Finished {
        /// What it came to.
        report: Box<Report>,
        /// The file with the records; none for a dry run.
        records: Option<PathBuf>,
    },
    /// It was interrupted.
    Interrupted {
        /// The next run goes on with it.
        can_be_resumed: bool,
    },
}

/// What a run works with. [`run()`] takes the real ones; a test may take others.
#[derive(Debug)]
pub struct Adapters {
    /// Where records land, and what is remembered between runs.
    pub store: SharedStore,
    /// Work in flight. New for every run.
    pub queue: SharedQueue,
    /// The one client.
    pub http: Arc<HttpClient>,
}

/// Does a run, or goes on with the unfinished one, with the state in the output directory.
pub async fn run(input: RunInput, options: RunOptions) -> Result<RunEnd, LocalError> {
    refuse_foreign_files(&options)?;
    let queue: SharedQueue = match &options.crawlers {
        Some(processes) => open_redis(&processes.redis, options.clock.clone()).map_err(LocalError::Settings)?,
        None => Arc::new(MemoryQueue::new(options.clock.clone())),
    };
    let store = if options.dry_run { FileStore::open_dry_run(&options.dir) } else { FileStore::open(&options.dir) };
    let http = HttpClient::new(options.http.clone(), options.clock.clone());
    let adapters = Adapters {
        store: Arc::new(store.map_err(LocalError::Output)?),
        queue,
        http: Arc::new(http.map_err(|error| LocalError::Http(error.to_string()))?),
    };
    run_with(adapters, input, options).await
}

/// Does a run, or goes on with the unfinished one, with these adapters.
pub async fn run_with(adapters: Adapters, input: RunInput, options: RunOptions) -> Result<RunEnd, LocalError> {
    let Adapters { store, queue, http } = adapters;
    let Begun { mut input, state, resumed, abandoned } = begin(store.as_ref(), input, &options).await?;
    if let Some(processes) = &options.crawlers {
        input.spec.settings.tokens = processes.count.unwrap_or(input.spec.settings.tokens);
    }
    let now = options.clock.now();
    let spent = observe_spent(store.as_ref(), &input, now).await?;
    let closed_origins = observe_closed_origins(store.as_ref(), now).await?;
    let first_look = Live {
        now,
        queue: None,
        crawlers: Vec::new(),
        token_share: None,
        free_tokens: None,
        interrupted: false,
        spent,
        closed_origins,
    };
    let snapshot = build_snapshot(&input, &state, first_look);
    let plan = plan_run(&snapshot);
    for skipped in &plan.skipped {
        info!(node = %skipped.node, "node left out: {}", skipped.reason);
    }
    let BuiltNodes { nodes, problems } = build_nodes(&input, &plan, &options);
    let briefs = options.crawlers.as_ref().map(|_| tell_crawlers(&snapshot, &problems, &options));
    let briefs = briefs.transpose()?;
    let context = Arc::new(build_context(&input, &state, &options, &store, queue, http, nodes));
    if resumed {
        count_closed_sections(&context, store.as_ref()).await?;
    }
    options.display.begin(&input, &state, &context.progress, queue_config(&plan), resumed);
    for (node, problem) in &problems {
        info!(node = %node, "node can't be crawled: {problem}");
    }
    let launcher = launcher(&context, &input, &options)?;
    let instance = options.crawlers.as_ref().map(|processes| processes.redis.instance.clone()).unwrap_or_default();
    let mut crew = Crew::new(context.clone(), store.clone(), state.clone(), resumed, problems, launcher)
        .with_briefs(briefs, instance);
    if let Some(abandoned) = abandoned {
        match crew.close_left_over(&abandoned).await {
            // It was never in this queue: somebody else's is.
            Ok(()) | Err(LocalError::ForeignRun { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let (nodes, skipped) = (plan.nodes.clone(), plan.skipped.clone());
    let ended = Supervision { crew: &mut crew, input: &input, options: &options }.go_on(plan).await;
    options.display.end();
    let verdict = match ended {
        Ok(verdict) => verdict,
        Err(error) => {
            crew.end_crawlers().await;
            crew.close_queue().await;
            return Err(error);
        }
    };
    store.end_spending().await?;
    if verdict == Verdict::Interrupted {
        info!(run = %state.run, "interrupted");
        crew.close_queue().await;
        return Ok(RunEnd::Interrupted { can_be_resumed: !options.dry_run });
    }
    conclude(Conclusion { input, state, options, context, store, crew, nodes, skipped, verdict }).await
}

/// Where the run's crawlers run.
fn launcher(
    context: &Arc<CrawlContext>,
    input: &RunInput,
    options: &RunOptions,
) -> Result<Box<dyn Launcher>, LocalError> {
    Ok(match &options.crawlers {
        None => Box::new(InProcess::new(context.clone())),
        Some(processes) => launch::processes(context, input, processes, options)?,
    })
}

/// The directory may hold files of other people under the names that are to be written.
fn refuse_foreign_files(options: &RunOptions) -> Result<(), LocalError> {
    let files = ResultFiles::of(&options.dir)?;
    let taken = [options.format.file_name(), REPORT_FILE.to_owned()]
        .into_iter()
        .find(|name| options.dir.join(name).exists() && !files.are_ours(name));
    match taken {
        Some(name) if !options.dry_run => {
            Err(LocalError::ForeignFile { path: options.dir.join(name).display().to_string() })
        }
        _ => Ok(()),
    }
}

/// A run that goes on from here.
struct Begun {
    input: RunInput,
    state: RunState,
    resumed: bool,
    /// The run that it takes the place of.
    abandoned: Option<RunId>,
}

/// Finds the unfinished run, or begins one. An unfinished run goes on with what it was started with.
async fn begin(store: &dyn Store, input: RunInput, options: &RunOptions) -> Result<Begun, LocalError> {
    let mut input = input.without_crawler_classes();
    let catalog = input.catalog_name();
    let mut abandoned = None;
    if let Some(state) = store.unfinished_run(&catalog).await? {
        if !options.restart && !options.dry_run {
            let frozen: RunInput = serde_json::from_str(&state.spec)
                .map_err(|error| LocalError::UnreadableInput { run: state.run.clone(), why: error.to_string() })?;
            info!(run = %state.run, "resuming the unfinished run");
            if asks_otherwise(&frozen, &input) {
                options.display.note(
                    "The run goes on with what it was begun with: the manifests ask for something else now. Finish it, \
                     or abandon it with --restart, and they hold.",
                );
            }
            return Ok(Begun { input: frozen, state, resumed: true, abandoned });
        }
        store.finish_run(&state.run, "").await?;
        abandoned = Some(state.run).filter(|_| !options.dry_run);
    }
    let mode = match input.spec.settings.mode {
        RunMode::Full => Mode::Full,
        RunMode::Incremental => Mode::Incremental,
    };
    input.remembered = observe_remembered(store, &catalog).await?;
    let spec = serde_json::to_string(&input).unwrap_or_default();
    let start = RunStart { catalog, mode, spec, started_at: options.clock.now() };
    let state = store.begin_run(start).await?;
    // The store keeps it; here it would only take memory.
    Ok(Begun { input, state: RunState { spec: String::new(), ..state }, resumed: false, abandoned })
}

/// Whether manifests ask for something else than when the run was begun.
fn asks_otherwise(frozen: &RunInput, now: &RunInput) -> bool {
    RunInput { remembered: Arc::default(), ..frozen.clone() } != RunInput { remembered: Arc::default(), ..now.clone() }
}

/// What the queue is opened with.
fn queue_config(plan: &ExecutionPlan) -> Option<&RunConfig> {
    plan.steps.iter().find_map(|step| match step {
        Step::OpenQueue { config } => Some(config.as_ref()),
        _ => None,
    })
}

/// Progress goes on where it was: sections that the run has closed are not opened again.
async fn count_closed_sections(context: &CrawlContext, store: &dyn Store) -> Result<(), LocalError> {
    for closed in store.reports(&context.run).await? {
        if let Some(progress) = context.progress.node(&closed.section.node) {
            let records = closed.added + closed.updated + closed.unchanged;
            let SectionReport { requests, bytes, total, .. } = closed;
            progress.add_earlier(SoFar { records, requests, bytes, total });
        }
    }
    Ok(())
}

fn build_context(
    input: &RunInput,
    state: &RunState,
    options: &RunOptions,
    store: &SharedStore,
    queue: SharedQueue,
    http: Arc<HttpClient>,
    nodes: BTreeMap<NodeName, CrawlNode>,
) -> CrawlContext {
    let settings = &input.spec.settings;
    let deletion = &input.catalog.spec.deletion;
    CrawlContext {
        run: state.run.clone(),
        queue,
        landing: Arc::new(StoreLanding::new(store.clone())),
        http,
        progress: Arc::new(Progress::new(nodes.keys().cloned())),
        nodes: Nodes::all(nodes),
        retries: retry_policy(&settings.retries),
        guard: DeletionGuard { max_percent: deletion.max_percent, min_records: deletion.min_records },
        approved_deletions: approvals::of_catalog(&input.catalog),
        incremental: state.mode == Mode::Incremental,
        concurrency: settings.crawler.concurrency as usize,
        clock: options.clock.clone(),
        patience: Patience::default().until(options.interrupt.clone()),
    }
}

/// The nodes of a run, and those that can't be built, each with a sentence.
struct BuiltNodes {
    nodes: BTreeMap<NodeName, CrawlNode>,
    problems: BTreeMap<NodeName, String>,
}

/// Builds the nodes of the run. One that can't be built is a problem of its own and stops no other.
fn build_nodes(input: &RunInput, plan: &ExecutionPlan, options: &RunOptions) -> BuiltNodes {
    let readers = Readers::new();
    let mut nodes = BTreeMap::new();
    let mut problems = BTreeMap::new();
    let by_name = input.nodes_by_name();
    for name in &plan.nodes {
        let Some(node) = by_name.get(name.as_str()) else { continue };
        let built = read_secrets(&node.spec, &options.secrets, &options.manifests).and_then(|secrets| {
            build_crawl_node(name.clone(), &node.spec, secrets, &readers, options.http.max_decoded_bytes)
        });
        match built {
            Ok(node) => {
                nodes.insert(name.clone(), node);
            }
            Err(problem) => {
                problems.insert(name.clone(), problem);
            }
        }
    }
    BuiltNodes { nodes, problems }
}

/// What crawlers of other processes are told. Of a node that can't be crawled they are told why: a run that is resumed may
/// have tasks of it.
fn tell_crawlers(
    snapshot: &RunSnapshot,
    problems: &BTreeMap<NodeName, String>,
    options: &RunOptions,
) -> Result<Briefs, LocalError> {
    let owner = identity(&options.dir, options.dry_run).map_err(LocalError::Output)?;
    let run = RunBrief::of(snapshot, owner, approvals::of_catalog(&snapshot.catalog));
    let nodes = snapshot.nodes.iter().filter_map(|node| {
        let name = NodeName::from(node.metadata.name.as_deref()?);
        let problem = problems.get(&name).cloned();
        let ca_pem = read_ca(&node.spec, &options.manifests).ok().flatten();
        let brief = NodeBrief::of(&node.spec, ca_pem);
        let text = NodeBrief { problem: problem.or(brief.problem.clone()), ..brief }.to_text();
        Some((name, text))
    });
    Ok(Briefs::new(run, nodes.collect()))
}
