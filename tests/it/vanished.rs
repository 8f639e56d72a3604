//! A crawler process that is killed, and nobody tells the queue: what it had is handed out again once its leases lapse.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use trawler::clock::{Clock, SystemClock};
use trawler::planner::NodeBrief;
use trawler::protocol::registry::Readers;
use trawler::protocol::{CkanSettings, NodeContext, ProtocolSettings};
use trawler::queue::redis::{RedisSettings, open};
use trawler::queue::{Claim, JoinRequest, NodeConfig, RunConfig, SettleResult, Settlement, SharedQueue};
use trawler::store::landing::StoreLanding;
use trawler::store::landing::served::LandingServer;
use trawler::store::memory::MemoryStore;
use trawler::store::{Mode, RunStart, Store};
use trawler::task::{RunId, Task};

use crate::crawl_role::{GROUP, brief, config_of};
use crate::redis_server::new_instance;
use crate::support::http_server::{HttpServer, Reply};

const NODES: usize = 3;
const LEASE: Duration = Duration::from_secs(3);
/// A lease that was renewed so long ago is not renewed for a while.
const RENEWED_BEFORE: Duration = Duration::from_millis(600);

/// A run of portals that keep every answer to themselves, and the store that its crawlers land in.
struct Scene {
    server: HttpServer,
    redis: RedisSettings,
    queue: SharedQueue,
    store: LandingServer,
    run: RunId,
}

impl Scene {
    async fn new() -> Self {
        let server = HttpServer::start(|_| Reply::status(200).field("Content-Length", "100").then_hang()).await;
        let store = Arc::new(MemoryStore::new());
        let start = RunStart {
            catalog: "test".into(),
            mode: Mode::Full,
            spec: String::new(),
            started_at: SystemClock::new().now(),
        };
        let run = store.begin_run(start).await.unwrap().run;
        let (nodes, roots): (Vec<NodeConfig>, Vec<Task>) = (0..NODES).map(|node| node_of(&server, node)).unzip();
        store.seed(&run, &roots).await.unwrap();
        let redis = new_instance(false);
        let queue = open(&redis, SystemClock::shared()).unwrap();
        let config = RunConfig { lease: LEASE, ..config_of(&run, nodes, brief(None).to_text()) };
        queue.open(config).await.unwrap();
        queue.push(&run, roots).await.unwrap();
        let store = LandingServer::start(Arc::new(StoreLanding::new(store))).unwrap();
        Self { server, redis, queue, store, run }
    }

    /// Without a parent who would see its end.
    fn start_crawler(&self) -> Child {
        Command::new(env!("CARGO_BIN_EXE_trawler"))
            .args(["crawl", "--run", self.run.as_str(), "--token", "0", "--uid", "vanishes"])
            .args(["--redis", &self.redis.url, "--instance", &self.redis.instance])
            .args(["--store", self.store.address(), "--allow-private", "127.0.0.0/8"])
            .env_clear()
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// It works on all there is, and its leases were not renewed just now.
    async fn is_at_work(&self) -> bool {
        let holders = self.queue.holders(&self.run).await.unwrap();
        let Some(lapses) = holders.first().and_then(|holder| holder.next_lapse) else { return false };
        let all = NODES as u64;
        let latest = SystemClock::new().now() + LEASE - RENEWED_BEFORE;
        holders[0].leased == all && self.server.seen().len() == NODES && lapses <= latest
    }

    /// Takes, as another crawler, what becomes free, until it has had all.
    async fn take_all(&self) {
        let request = JoinRequest { run: self.run.clone(), token: 1, uid: "other".into(), group: GROUP.into() };
        let holder = self.queue.join(request).await.unwrap();
        let mut taken = BTreeSet::new();
        while taken.len() < NODES {
            match self.queue.claim(&holder, NODES).await.unwrap() {
                Claim::Tasks(tasks) => {
                    taken.extend(tasks.iter().map(|leased| leased.task.id));
                    let done = SettleResult::Done { feedback: Vec::new() };
                    let settled = |lease| Settlement { lease, result: done.clone(), documents: 0, bytes: 0 };
                    let settlements = tasks.iter().map(|leased| settled(leased.lease)).collect();
                    self.queue.settle(&holder, settlements).await.unwrap();
                }
                Claim::Wait { until, sequence } => {
                    self.queue.wait(&self.run, sequence, until).await.unwrap();
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

fn node_of(server: &HttpServer, node: usize) -> (NodeConfig, Task) {
    let name = format!("portal-{node}");
    let endpoint = server.url(&format!("/{name}/"));
    let spec = serde_json::json!({"endpoint": endpoint, "protocol": "CKAN"});
    let brief = NodeBrief::of(&serde_json::from_value(spec).unwrap(), None).to_text();
    let settings = ProtocolSettings::Ckan(CkanSettings { page_size: 1, filter: None });
    let endpoint = endpoint.as_str().parse().unwrap();
    let context = NodeContext { name: name.as_str().into(), endpoint, settings, checkpoint: None };
    let root = Readers::new().for_settings(&context.settings).root_task(&context).unwrap();
    (crate::crawl_role::node_config(&name, brief), root)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_crawler_had_is_handed_out_again_within_the_lease_time_though_nobody_released_it() {
    let scene = Scene::new().await;
    let mut crawler = scene.start_crawler();
    while !scene.is_at_work().await {
        assert!(crawler.try_wait().unwrap().is_none(), "it works on what is never answered");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    crawler.kill().unwrap();
    crawler.wait().unwrap();
    let killed = tokio::time::Instant::now();
    tokio::time::timeout(Duration::from_mins(1), scene.take_all()).await.unwrap();
    let took = killed.elapsed();
    assert!((LEASE / 2..=LEASE).contains(&took), "it took {took:?}");
    let ledger = scene.queue.ledger(&scene.run).await.unwrap();
    assert_eq!((ledger.discovered, ledger.done), (NODES as u64, NODES as u64), "{ledger:?}");
}
