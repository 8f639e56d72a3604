//! A crawler that knows nothing but what its arguments and the queue tell it: how it works, and how it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use trawler::api::{RetrySpec, RunMode};
use trawler::clock::{Clock, SystemClock};
use trawler::crawler::http::HttpConfig;
use trawler::local::crawl::{CrawlExit, CrawlOptions, CrawlOutcome, crawl};
use trawler::local::secrets::SecretSources;
use trawler::planner::{NodeBrief, ORIGIN_PROTECTION, RunBrief};
use trawler::protocol::registry::Readers;
use trawler::protocol::{CkanSettings, NodeContext, ProtocolSettings};
use trawler::queue::memory::MemoryQueue;
use trawler::queue::{BudgetConfig, BudgetId, JoinRequest, Ledger, NodeConfig, Queue, QueueError, RunConfig};
use trawler::store::landing::StoreLanding;
use trawler::store::memory::MemoryStore;
use trawler::store::{Mode, RecordFilter, RunStart, Store};
use trawler::task::RunId;

use crate::support::http_server::{HttpServer, Reply};
use crate::support::moody_queue::MoodyQueue;

const PAGES: usize = 10;

pub(super) const GROUP: &str = "default";

/// What happens once so many requests have arrived.
type Event = Box<dyn Fn(&Stage) + Send + Sync>;

/// What a crawler works on, and who else can reach it.
struct Stage {
    queue: Arc<MemoryQueue>,
    moody: Arc<MoodyQueue>,
    run: RunId,
    stop: CancellationToken,
}

struct Scene {
    stage: Arc<Stage>,
    store: Arc<MemoryStore>,
    server: HttpServer,
}

/// How a scene differs from the usual one.
#[derive(Default)]
struct Differs {
    deadline: Option<Timestamp>,
    credential: Option<&'static str>,
    /// This many requests have arrived when the event comes.
    event: Option<(usize, Event)>,
    brief: Option<&'static str>,
}

fn page(target: &str) -> Vec<u8> {
    let start: usize = target.split("start=").nth(1).and_then(|rest| rest.split('&').next()?.parse().ok()).unwrap_or(0);
    let results = [json!({"id": format!("d-{start:03}"), "title": "A dataset"})];
    json!({"success": true, "result": {"count": PAGES, "results": results}}).to_string().into_bytes()
}

/// What a run tells its crawlers.
pub(super) fn brief(deadline: Option<Timestamp>) -> RunBrief {
    RunBrief {
        owner: "test".to_owned(),
        mode: RunMode::Full,
        retries: RetrySpec::default(),
        deletion_max_percent: 30,
        deletion_min_records: 50,
        approved_deletions: Vec::new(),
        concurrency: 4,
        deadline,
    }
}

pub(super) fn node_config(name: &str, brief: Arc<str>) -> NodeConfig {
    NodeConfig {
        name: name.into(),
        budget: BudgetId("any".into()),
        group: GROUP.to_owned(),
        priority: 0,
        suspended: false,
        api_calls_per_document: 1,
        brief,
    }
}

/// A run of these nodes under one budget without limits.
pub(super) fn config_of(run: &RunId, nodes: Vec<NodeConfig>, brief: Arc<str>) -> RunConfig {
    RunConfig {
        run: run.clone(),
        weight: 1,
        max_holders: 4,
        lease: Duration::from_mins(1),
        max_charges: 3,
        nodes,
        budgets: vec![BudgetConfig {
            id: BudgetId("any".into()),
            limits: Vec::new(),
            max_concurrent: None,
            adaptive_floor_percent: None,
            open_hours: None,
            spent: Vec::new(),
            short_windows_start_spent: false,
        }],
        origin_protection: ORIGIN_PROTECTION,
        closed_origins: Vec::new(),
        brief,
    }
}

impl Scene {
    async fn new(differs: Differs) -> Self {
        let clock = SystemClock::shared();
        let queue = Arc::new(MemoryQueue::new(clock.clone()));
        let moody = Arc::new(MoodyQueue::new(queue.clone()));
        let store = Arc::new(MemoryStore::new());
        let start = RunStart { catalog: "test".into(), mode: Mode::Full, spec: String::new(), started_at: clock.now() };
        let run = store.begin_run(start).await.unwrap().run;
        let stage = Arc::new(Stage { queue, moody, run: run.clone(), stop: CancellationToken::new() });
        let (arrived, on_stage, event) = (AtomicUsize::new(0), stage.clone(), differs.event);
        let server = HttpServer::start(move |seen| {
            let count = arrived.fetch_add(1, Ordering::SeqCst) + 1;
            if let Some((_, event)) = event.as_ref().filter(|(at, _)| *at == count) {
                event(&on_stage);
            }
            Reply::ok(page(&seen.target))
        })
        .await;
        let mut spec = json!({"endpoint": server.url("/"), "protocol": "CKAN", "ckan": {"pageSize": 1}});
        if let Some(name) = differs.credential {
            spec["credentialRef"] = json!({"name": name});
        }
        let spec = serde_json::from_value(spec).unwrap();
        let nodes = vec![node_config("portal", NodeBrief::of(&spec, None).to_text())];
        let brief = differs.brief.map_or_else(|| brief(differs.deadline).to_text(), Arc::from);
        let config = config_of(&run, nodes, brief);
        let settings = ProtocolSettings::Ckan(CkanSettings { page_size: 1, filter: None });
        let endpoint = server.url("/").as_str().parse().unwrap();
        let node = NodeContext { name: "portal".into(), endpoint, settings, checkpoint: None };
        let root = Readers::new().for_settings(&node.settings).root_task(&node).unwrap();
        stage.queue.open(config).await.unwrap();
        store.seed(&run, std::slice::from_ref(&root)).await.unwrap();
        stage.queue.push(&run, vec![root]).await.unwrap();
        Self { stage, store, server }
    }

    async fn crawl(&self) -> CrawlOutcome {
        let options = CrawlOptions {
            run: self.stage.run.clone(),
            token: 0,
            uid: "this".to_owned(),
            group: GROUP.to_owned(),
            http: HttpConfig { allow_private: vec!["127.0.0.0/8".parse().unwrap()], ..HttpConfig::default() },
            secrets: SecretSources::default(),
            stop: self.stage.stop.clone(),
            linger: None,
            clock: SystemClock::shared(),
        };
        crawl(self.stage.moody.clone(), Arc::new(StoreLanding::new(self.store.clone())), options).await
    }

    async fn ledger(&self) -> Ledger {
        self.stage.queue.ledger(&self.stage.run).await.unwrap()
    }

    async fn records(&self) -> usize {
        self.store.records(&"test".into(), &RecordFilter::default(), None, 1000).await.unwrap().len()
    }

    /// Everything is there, and was asked for once.
    async fn assert_complete(&self, outcome: &CrawlOutcome) {
        assert_eq!(*outcome, CrawlOutcome { exit: CrawlExit::Drained, why: None });
        assert_eq!((self.records().await, self.server.seen().len()), (PAGES, PAGES));
        let report = &self.store.reports(&self.stage.run).await.unwrap()[0];
        assert_eq!((report.added, report.partial.as_deref()), (PAGES as u64, None));
    }
}

/// After so many requests.
fn after(requests: usize, event: impl Fn(&Stage) + Send + Sync + 'static) -> Differs {
    Differs { event: Some((requests, Box::new(event))), ..Differs::default() }
}

/// Done before the answer is sent to which it belongs.
fn at_once(work: impl Future<Output = ()>) {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(work));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crawler_learns_from_the_queue_what_it_must_know() {
    let scene = Scene::new(Differs::default()).await;
    scene.assert_complete(&scene.crawl().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_away_for_a_while_costs_no_work() {
    let scene = Scene::new(after(3, |stage| stage.moody.away_for.store(5, Ordering::SeqCst))).await;
    scene.assert_complete(&scene.crawl().await).await;
    assert_eq!(scene.stage.moody.unanswered.load(Ordering::SeqCst), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_leased_by_a_claim_that_was_not_answered_is_done_at_once() {
    let scene = Scene::new(Differs::default()).await;
    scene.stage.moody.claims_unanswered.store(3, Ordering::SeqCst);
    // A lease lasts for a minute: nobody waits for it.
    let outcome = tokio::time::timeout(Duration::from_secs(30), scene.crawl()).await.unwrap();
    scene.assert_complete(&outcome).await;
    assert_eq!(scene.stage.moody.unanswered.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_away_for_a_minute_is_given_up() {
    let scene = Scene::new(Differs::default()).await;
    scene.stage.moody.away_for.store(u32::MAX, Ordering::SeqCst);
    let outcome = scene.crawl().await;
    assert_eq!(outcome, CrawlOutcome::because(CrawlExit::QueueLost, "connection refused"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_queue_ends_a_crawler() {
    let lost = |stage: &Stage| {
        let error = QueueError::Lost { run: stage.run.clone(), why: "it was emptied".to_owned() };
        *stage.moody.refuses.lock().unwrap() = Some(error);
    };
    let scene = Scene::new(after(3, lost)).await;
    let outcome = scene.crawl().await;
    assert_eq!(
        outcome,
        CrawlOutcome::because(CrawlExit::QueueLost, "the queue of run test-1 was lost: it was emptied")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_closed_ends_its_crawlers() {
    let close = |stage: &Stage| {
        let (queue, run) = (stage.queue.clone(), stage.run.clone());
        at_once(async move { queue.close(&run).await.unwrap() });
    };
    let scene = Scene::new(after(3, close)).await;
    let outcome = scene.crawl().await;
    assert_eq!(outcome.exit, CrawlExit::QueueLost, "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crawler_whose_place_is_taken_ends() {
    let take = |stage: &Stage| {
        let (queue, run) = (stage.queue.clone(), stage.run.clone());
        let request = JoinRequest { run, token: 0, uid: "other".to_owned(), group: "default".to_owned() };
        at_once(async move { drop(queue.join(request).await.unwrap()) });
    };
    let scene = Scene::new(after(3, take)).await;
    let outcome = scene.crawl().await;
    let why = "the token 0 of run test-1 was taken over by another crawler";
    assert_eq!(outcome, CrawlOutcome::because(CrawlExit::Fenced, why));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crawler_of_a_frozen_run_finishes_what_it_has_and_ends() {
    let freeze = |stage: &Stage| {
        let (queue, run) = (stage.queue.clone(), stage.run.clone());
        at_once(async move { queue.freeze(&run).await.unwrap() });
    };
    let scene = Scene::new(after(3, freeze)).await;
    assert_eq!(scene.crawl().await, CrawlOutcome { exit: CrawlExit::Frozen, why: None });
    let ledger = scene.ledger().await;
    assert!(ledger.leased == 0 && ledger.queued > 0, "{ledger:?}");
    assert_eq!(scene.records().await as u64, ledger.done);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crawler_that_is_told_to_end_settles_what_it_has() {
    let scene = Scene::new(after(3, |stage| stage.stop.cancel())).await;
    assert_eq!(scene.crawl().await, CrawlOutcome { exit: CrawlExit::Terminated, why: None });
    let ledger = scene.ledger().await;
    assert!(ledger.leased == 0 && ledger.queued > 0 && ledger.done >= 3, "{ledger:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crawler_ends_by_itself_when_its_runs_deadline_has_passed() {
    let deadline = Some(SystemClock::new().now() - Duration::from_secs(1));
    let scene = Scene::new(Differs { deadline, ..Differs::default() }).await;
    assert_eq!(scene.crawl().await, CrawlOutcome { exit: CrawlExit::Deadline, why: None });
    let ledger = scene.ledger().await;
    assert!(ledger.leased == 0 && ledger.queued > 0, "{ledger:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_secret_is_missing_here_fails_and_the_crawler_goes_on() {
    let scene = Scene::new(Differs { credential: Some("acme"), ..Differs::default() }).await;
    assert_eq!(scene.crawl().await, CrawlOutcome { exit: CrawlExit::Drained, why: None });
    assert_eq!(scene.server.seen().len(), 0);
    let report = &scene.store.reports(&scene.stage.run).await.unwrap()[0];
    let failure = &report.failures[0];
    assert!(failure.why.starts_with("there is no Secret \"acme\"; "), "{failure:?}");
    assert!(failure.may_be_ours, "the server is not to blame");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_version_wrote_is_not_guessed_at() {
    let scene = Scene::new(Differs { brief: Some(r#"{"version": 99}"#), ..Differs::default() }).await;
    let outcome = scene.crawl().await;
    assert_eq!(outcome.exit, CrawlExit::Configuration);
    assert!(outcome.why.unwrap().contains("another version of trawler (format 99; this one knows 1)"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_refuses_for_good_is_a_matter_of_configuration() {
    let scene = Scene::new(Differs::default()).await;
    let refusal = QueueError::Refused { why: "the password is wrong; correct it".to_owned() };
    *scene.stage.moody.refuses.lock().unwrap() = Some(refusal);
    let why = "the password is wrong; correct it";
    assert_eq!(scene.crawl().await, CrawlOutcome::because(CrawlExit::Configuration, why));
}

#[test]
fn exit_codes_are_read_as_they_are_written() {
    let codes: Vec<Value> = [0, 1, 2, 20, 21, 22, 23, 24, 143, 3, 137]
        .into_iter()
        .map(|code| json!(CrawlExit::from_code(code).map(CrawlExit::code)))
        .collect();
    assert_eq!(json!(codes), json!([0, 1, 2, 20, 21, 22, 23, 24, 143, null, null]));
}
