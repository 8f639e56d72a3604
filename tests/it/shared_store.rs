//! Crawlers as processes that share a store in Redis: nobody stands between them and it.
#![cfg(unix)]

use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::json;
use trawler::clock::{Clock, SystemClock};
use trawler::planner::NodeBrief;
use trawler::protocol::registry::Readers;
use trawler::protocol::{CkanSettings, NodeContext, ProtocolSettings};
use trawler::queue::redis::{RedisSettings, open};
use trawler::queue::{NodeConfig, RunConfig, SharedQueue};
use trawler::store::redis::{RedisStore, Session};
use trawler::store::{Mode, RecordFilter, RunStart, Store as _};
use trawler::task::{RunId, Task};

use crate::crawl_role::{brief, config_of, node_config};
use crate::redis_server::shared;
use crate::support::http_server::{HttpServer, Reply};

const NODES: usize = 4;
const PAGES: usize = 12;

struct Scene {
    server: HttpServer,
    /// As crawlers get in.
    redis: RedisSettings,
    queue: SharedQueue,
    store: RedisStore,
    run: RunId,
}

impl Scene {
    /// A run of portals of several pages, each answered after so long.
    async fn new(each: Duration) -> Self {
        let server = HttpServer::start(move |seen| {
            tokio::task::block_in_place(|| std::thread::sleep(each));
            Reply::ok(page(&seen.target))
        })
        .await;
        let (redis_server, instance) = shared(false);
        let owner = redis_server.settings_as("owner", &instance);
        let redis = redis_server.settings_as("crawler", &instance);
        let store = RedisStore::open(&owner, Session::New).await.unwrap();
        let started_at = SystemClock::new().now();
        let start = RunStart { catalog: "test".into(), mode: Mode::Full, spec: String::new(), started_at };
        let run = store.begin_run(start).await.unwrap().run;
        let (nodes, roots): (Vec<NodeConfig>, Vec<Task>) = (0..NODES).map(|node| node_of(&server, node)).unzip();
        store.seed(&run, &roots).await.unwrap();
        let queue = open(&owner, SystemClock::shared()).unwrap();
        let lease = Duration::from_secs(2);
        queue.open(RunConfig { lease, ..config_of(&run, nodes, brief(None).to_text()) }).await.unwrap();
        queue.push(&run, roots).await.unwrap();
        Self { server, redis, queue, store, run }
    }

    fn crawler(&self, token: u32, store: &[&str]) -> Child {
        Command::new(env!("CARGO_BIN_EXE_trawler"))
            .args(["crawl", "--run", self.run.as_str(), "--token", &token.to_string()])
            .args(["--uid", &format!("crawler-{token}"), "--allow-private", "127.0.0.0/8"])
            .args(["--redis", &self.redis.url, "--instance", &self.redis.instance])
            .args(store)
            .env_clear()
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    async fn ended(&self, crawlers: Vec<Child>) -> Vec<Output> {
        let waiting = || crawlers.into_iter().map(|crawler| crawler.wait_with_output().unwrap()).collect();
        tokio::task::spawn_blocking(waiting).await.unwrap()
    }

    async fn assert_whole(&self) {
        let all = self.store.records(&"test".into(), &RecordFilter::default(), None, 1000).await.unwrap();
        assert_eq!(all.len(), NODES * PAGES);
        let reports = self.store.reports(&self.run).await.unwrap();
        let told: Vec<_> = reports.iter().map(|report| (report.added, report.partial.as_deref())).collect();
        assert_eq!(told, [(PAGES as u64, None); NODES]);
        let changes = self.store.changes(&"test".into(), 0, 1000).await.unwrap();
        let sequences: Vec<u64> = changes.iter().map(|change| change.sequence).collect();
        assert_eq!(sequences, (1..=(NODES * PAGES) as u64).collect::<Vec<_>>());
        let ledger = self.queue.ledger(&self.run).await.unwrap();
        assert_eq!(ledger.discovered, ledger.done, "{ledger:?}");
        assert_eq!(self.store.pending_tasks(&self.run, None, 9).await.unwrap(), []);
    }
}

fn node_of(server: &HttpServer, node: usize) -> (NodeConfig, Task) {
    let name = format!("portal-{node}");
    let endpoint = server.url(&format!("/{name}/"));
    let spec = json!({"endpoint": endpoint, "protocol": "CKAN", "ckan": {"pageSize": 1}});
    let brief = NodeBrief::of(&serde_json::from_value(spec).unwrap(), None).to_text();
    let settings = ProtocolSettings::Ckan(CkanSettings { page_size: 1, filter: None });
    let endpoint = endpoint.as_str().parse().unwrap();
    let context = NodeContext { name: name.as_str().into(), endpoint, settings, checkpoint: None };
    let root = Readers::new().for_settings(&context.settings).root_task(&context).unwrap();
    (node_config(&name, brief), root)
}

fn page(target: &str) -> Vec<u8> {
    let start: usize = target.split("start=").nth(1).and_then(|rest| rest.split('&').next()?.parse().ok()).unwrap_or(0);
    let results = [json!({"id": format!("d-{start:03}"), "title": "A dataset"})];
    json!({"success": true, "result": {"count": PAGES, "results": results}}).to_string().into_bytes()
}

fn assert_drained(ended: &[Output]) {
    for output in ended {
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn crawlers_of_a_run_land_in_the_queues_redis_and_lose_nothing() {
    let scene = Scene::new(Duration::ZERO).await;
    let session = scene.store.session().to_string();
    let crawlers = vec![
        scene.crawler(0, &["--store", "redis", "--store-session", &session]),
        scene.crawler(1, &["--store", &scene.redis.url]),
    ];
    assert_drained(&scene.ended(crawlers).await);
    scene.assert_whole().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_crawler_had_is_done_by_the_other_one() {
    let scene = Scene::new(Duration::from_millis(20)).await;
    let mut killed = scene.crawler(0, &["--store", "redis"]);
    let other = scene.crawler(1, &["--store", "redis"]);
    while scene.server.seen().len() < NODES * PAGES / 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_drained(&scene.ended(vec![other]).await);
    scene.assert_whole().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crawler_of_another_session_or_without_a_store_is_told_so() {
    let scene = Scene::new(Duration::ZERO).await;
    let swapped = scene.crawler(0, &["--store", "redis", "--store-session", "1.other"]);
    let nonsense = scene.crawler(1, &["--store", "nowhere"]);
    let ended = scene.ended(vec![swapped, nonsense]).await;
    let told: Vec<_> = ended.iter().map(|output| (output.status.code(), said(output))).collect();
    assert_eq!(told[0].0, Some(24), "{told:?}");
    assert!(told[0].1.contains("another store has taken its place"), "{told:?}");
    assert_eq!(told[1].0, Some(2), "{told:?}");
    assert!(told[1].1.contains("--store can't be used: it reads redis, redis://HOST, or unix:///PATH"), "{told:?}");
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ")
}
