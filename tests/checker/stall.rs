//! A crawler that is held up between a claim and its requests: by a slow disk, by a machine that is too busy.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use trawler::clock::SystemClock;
use trawler::crawler::http::{HttpClient, HttpConfig, NodeAccess};
use trawler::crawler::{CrawlContext, CrawlEnd, CrawlNode, Crawler, NodeLimits, Nodes, Progress, RetryPolicy};
use trawler::protocol::registry::Readers;
use trawler::protocol::{DspSettings, NodeContext, Page, ProtocolSettings, ReadError, Reader, Request, Response};
use trawler::queue::Queue;
use trawler::queue::memory::MemoryQueue;
use trawler::store::landing::StoreLanding;
use trawler::store::memory::MemoryStore;
use trawler::store::{DeletionGuard, Mode, RunStart, Store};
use trawler::task::{CatalogName, Task};

use crate::day::policy_config;
use crate::laws::judge_traffic;
use crate::log;
use crate::machine::judge_undisturbed;
use crate::place::{Policy, calls};
use crate::rules::Rules;
use crate::verdict::Verdict;
use crate::watched::{Layout, Watched, node_name};

const NODES: usize = 10;
const STALL: Duration = Duration::from_millis(700);

/// Holds up the whole crawler before every fiftieth request, the first one included.
#[derive(Debug)]
struct Stalling {
    reader: trawler::protocol::SharedReader,
    asked: Arc<AtomicUsize>,
}

impl Reader for Stalling {
    fn root_task(&self, node: &NodeContext) -> Result<Task, ReadError> {
        self.reader.root_task(node)
    }

    fn request(&self, node: &NodeContext, task: &Task) -> Result<Request, ReadError> {
        if self.asked.fetch_add(1, Ordering::SeqCst).is_multiple_of(50) {
            std::thread::sleep(STALL);
        }
        self.reader.request(node, task)
    }

    fn decode(&self, node: &NodeContext, task: &Task, response: &Response) -> Result<Page, ReadError> {
        self.reader.decode(node, task, response)
    }
}

fn dsp() -> ProtocolSettings {
    ProtocolSettings::Dsp(DspSettings {
        version: None,
        page_size: None,
        follow_nested: false,
        max_depth: 1,
        allow_cross_origin: false,
        participant_id: None,
    })
}

fn nodes(federation: &Watched) -> BTreeMap<trawler::task::NodeName, CrawlNode> {
    let asked = Arc::new(AtomicUsize::new(0));
    (0..NODES)
        .map(|node| {
            let name = trawler::task::NodeName::from(node_name(node));
            let endpoint = federation.endpoint(node).parse().unwrap();
            let reader = Readers::new().for_settings(&dsp());
            let crawl_node = CrawlNode {
                context: NodeContext { name: name.clone(), endpoint, settings: dsp(), checkpoint: None },
                reader: Arc::new(Stalling { reader, asked: asked.clone() }),
                access: Arc::new(NodeAccess::default()),
                limits: NodeLimits { max_pages: 1000, max_records: 1000, max_bytes: 1 << 30 },
                api_calls_per_document: 1,
            };
            (name, crawl_node)
        })
        .collect()
}

/// Crawls in this process, on one thread, so that whatever holds up one task holds up all.
async fn crawl(federation: &Watched, policy: &Policy) {
    let clock = SystemClock::shared();
    let store = Arc::new(MemoryStore::new());
    let start =
        RunStart { catalog: CatalogName::from("test"), mode: Mode::Full, spec: String::new(), started_at: clock.now() };
    let run = store.begin_run(start).await.unwrap().run;
    let nodes = nodes(federation);
    let roots: Vec<Task> = nodes.values().map(|node| node.reader.root_task(&node.context).unwrap()).collect();
    let queue = Arc::new(MemoryQueue::new(clock.clone()));
    queue.open(trawler::queue::RunConfig { run: run.clone(), ..policy_config(policy, NODES) }).await.unwrap();
    store.seed(&run, &roots).await.unwrap();
    queue.push(&run, roots).await.unwrap();
    let config = HttpConfig { allow_private: vec!["127.0.0.0/8".parse().unwrap()], ..HttpConfig::default() };
    let context = CrawlContext {
        patience: trawler::queue::Patience::default(),
        run,
        queue,
        landing: Arc::new(StoreLanding::new(store)),
        http: Arc::new(HttpClient::new(config, clock.clone()).unwrap()),
        progress: Arc::new(Progress::new(nodes.keys().cloned())),
        nodes: Nodes::all(nodes),
        retries: RetryPolicy { limit: 0, initial_delay: Duration::ZERO, max_delay: Duration::ZERO },
        guard: DeletionGuard { max_percent: 100, min_records: 0 },
        approved_deletions: Vec::new(),
        incremental: false,
        concurrency: 16,
        clock,
    };
    let crawler = Crawler::new(Arc::new(context), CancellationToken::new());
    let end = crawler.run(0, "this".into(), "default".into()).await.unwrap();
    assert_eq!(end, CrawlEnd::Drained);
}

fn judge_stalls(policy: &Policy) -> Verdict {
    // What a stall took is not made up for.
    let rules = Rules { must_use: false, ..policy.rules(NODES) };
    judge_undisturbed(|| {
        let layout = Layout { nodes: NODES, servers: NODES, datasets_per_node: 10, page_size: 1 };
        let federation = Watched::start(layout);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(crawl(&federation, policy));
        let seen = log::parse(&federation.take_log()).unwrap();
        assert_eq!(seen.len(), NODES * 11);
        judge_traffic(&seen, &rules)
    })
}

#[test]
fn a_crawler_that_is_held_up_after_a_claim_keeps_to_its_limits() {
    judge_stalls(&Policy::of(calls(10, 1, false))).assert_clean();
    judge_stalls(&Policy::of(calls(20, 1, true))).assert_clean();
}
