//! One local run: observe, plan, apply, until the plan says that it is finished; then the report.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::info;

use super::LocalError;
use super::apply::Crew;
use super::approvals;
use super::conclude::{Conclusion, conclude};
use super::display::Display;
use super::export::Format;
use super::manifests::ManifestSet;
use super::nodes::{build_crawl_node, read_secrets};
use super::observe::{
    Live, RunInput, build_snapshot, observe_closed_origins, observe_queue, observe_remembered, observe_spent,
};
use super::report::Report;
use super::result_files::ResultFiles;
use super::secrets::SecretSources;
use crate::api::RunMode;
use crate::clock::{SharedClock, Stopwatch};
use crate::crawler::http::{HttpClient, HttpConfig};
use crate::crawler::{CrawlContext, CrawlNode, Progress, RetryPolicy, Traversals};
use crate::planner::{ExecutionPlan, Step, Verdict, plan_run};
use crate::protocol::registry::Readers;
use crate::queue::memory::MemoryQueue;
use crate::queue::{RunConfig, SharedQueue};
use crate::store::files::FileStore;
use crate::store::{DeletionGuard, Mode, RunStart, RunState, SectionReport, SharedStore, SoFar};
use crate::task::NodeName;

/// How often a run is looked at while it goes on: for the display, and for crawlers that should be started.
const TICK: Duration = Duration::from_millis(200);

/// Looking takes no more than one part in so many of the time, however many nodes there are.
const LOOKING_SHARE: u32 = 20;

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
    let store = if options.dry_run { FileStore::open_dry_run(&options.dir) } else { FileStore::open(&options.dir) };
    let http = HttpClient::new(options.http.clone(), options.clock.clone());
    let adapters = Adapters {
        store: Arc::new(store.map_err(LocalError::Output)?),
        queue: Arc::new(MemoryQueue::new(options.clock.clone())),
        http: Arc::new(http.map_err(|error| LocalError::Http(error.to_string()))?),
    };
    run_with(adapters, input, options).await
}

/// Does a run, or goes on with the unfinished one, with these adapters.
pub async fn run_with(adapters: Adapters, input: RunInput, options: RunOptions) -> Result<RunEnd, LocalError> {
    let Adapters { store, queue, http } = adapters;
    let (input, state, resumed) = begin(store.as_ref(), input.without_crawler_classes(), &options).await?;
    let now = options.clock.now();
    let spent = observe_spent(store.as_ref(), &input, now).await?;
    let closed_origins = observe_closed_origins(store.as_ref(), now).await?;
    let first_look =
        Live { now, queue: None, running_tokens: BTreeSet::new(), interrupted: false, spent, closed_origins };
    let mut plan = plan_run(&build_snapshot(&input, &state, first_look));
    for skipped in &plan.skipped {
        info!(node = %skipped.node, "node left out: {}", skipped.reason);
    }
    let (nodes, problems) = build_nodes(&input, &plan, &options);
    let context = Arc::new(build_context(&input, &state, &options, store.clone(), queue.clone(), http, nodes));
    if resumed {
        count_closed_sections(&context).await?;
    }
    options.display.begin(&input, &state, &context.progress, queue_config(&plan), resumed);
    for (node, problem) in &problems {
        info!(node = %node, "node can't be crawled: {problem}");
    }
    let mut crew = Crew::new(context.clone(), state.clone(), resumed, problems);
    let crawled = plan.nodes.clone();
    let skipped = plan.skipped.clone();
    let mut tick = TICK;
    let verdict = loop {
        if let Some(verdict) = crew.apply(&plan).await? {
            break verdict;
        }
        tokio::select! {
            ended = crew.crawler_ended() => ended?,
            () = tokio::time::sleep(tick) => {}
            () = options.interrupt.cancelled(), if !is_stopping(&plan) => {}
        }
        let looking = Stopwatch::start();
        let observed = observe_queue(queue.as_ref(), &state.run).await?;
        options.display.update(
            &context.progress,
            &observed.ledger,
            &queue.lanes(&state.run, 64).await?,
            options.clock.now(),
        );
        let live = Live {
            now: options.clock.now(),
            queue: Some(observed),
            running_tokens: crew.running_tokens(),
            interrupted: options.interrupt.is_cancelled(),
            spent: Arc::default(),
            closed_origins: Arc::default(),
        };
        plan = plan_run(&build_snapshot(&input, &state, live));
        tick = TICK.max(looking.elapsed() * LOOKING_SHARE);
    };
    options.display.end();
    store.end_spending().await?;
    if verdict == Verdict::Interrupted {
        info!(run = %state.run, "interrupted");
        return Ok(RunEnd::Interrupted { can_be_resumed: !options.dry_run });
    }
    let nodes = crawled;
    conclude(Conclusion { input, state, options, context, crew, nodes, skipped, verdict }).await
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

/// Finds the unfinished run, or begins one. An unfinished run goes on with what it was started with.
async fn begin(
    store: &dyn crate::store::Store,
    mut input: RunInput,
    options: &RunOptions,
) -> Result<(RunInput, RunState, bool), LocalError> {
    let catalog = input.catalog_name();
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
            return Ok((frozen, state, true));
        }
        store.finish_run(&state.run, "").await?;
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
    Ok((input, RunState { spec: String::new(), ..state }, false))
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
async fn count_closed_sections(context: &CrawlContext) -> Result<(), LocalError> {
    for closed in context.store.reports(&context.run).await? {
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
    store: SharedStore,
    queue: SharedQueue,
    http: Arc<HttpClient>,
    nodes: BTreeMap<NodeName, CrawlNode>,
) -> CrawlContext {
    let settings = &input.spec.settings;
    let deletion = &input.catalog.spec.deletion;
    CrawlContext {
        run: state.run.clone(),
        queue,
        store,
        http,
        progress: Arc::new(Progress::new(nodes.keys().cloned())),
        nodes,
        retries: RetryPolicy {
            limit: settings.retries.limit,
            initial_delay: settings.retries.initial_delay.get(),
            max_delay: settings.retries.max_delay.get(),
        },
        guard: DeletionGuard { max_percent: deletion.max_percent, min_records: deletion.min_records },
        approved_deletions: approvals::of_catalog(&input.catalog),
        incremental: state.mode == Mode::Incremental,
        concurrency: settings.crawler.concurrency as usize,
        clock: options.clock.clone(),
        traversals: Traversals::default(),
    }
}

/// Builds the nodes of the run. One that can't be built is a problem of its own and stops no other.
fn build_nodes(
    input: &RunInput,
    plan: &ExecutionPlan,
    options: &RunOptions,
) -> (BTreeMap<NodeName, CrawlNode>, BTreeMap<NodeName, String>) {
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
    (nodes, problems)
}

fn is_stopping(plan: &ExecutionPlan) -> bool {
    plan.steps.contains(&Step::StopCrawlers)
}
