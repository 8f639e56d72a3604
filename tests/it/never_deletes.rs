//! What can go wrong at a server, on the way or here, and must cost no record; and that what is gone goes in the end.
//! The command as a person uses it, for every protocol where the case has a meaning.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use trawler::clock::SystemClock;
use trawler::crawler::http::{HttpClient, HttpConfig};
use trawler::local::export::Format;
use trawler::local::manifests::{Input, load};
use trawler::local::secrets::SecretSources;
use trawler::local::validate::accept;
use trawler::local::{Adapters, Display, DisplayMode, RunEnd, RunInput, RunOptions, choose_run, run_with};
use trawler::queue::Queue as _;
use trawler::queue::memory::MemoryQueue;
use trawler::store::files::FileStore;
use trawler::store::memory::MemoryStore;
use trawler::store::{Mode, RunStart, Store as _};
use trawler::task::RunId;

use crate::support::http_server::{HttpServer, Reply, Seen};
use crate::support::trawler::{Ended, Workplace, manifests};

/// Entries on a page.
const PAGE: u32 = 10;

/// How a catalogue is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaks {
    Ckan,
    Dsp,
    /// Pages with a total.
    Feed,
    Document,
}

const ALL: [Speaks; 4] = [Speaks::Ckan, Speaks::Dsp, Speaks::Feed, Speaks::Document];
const PAGED: [Speaks; 3] = [Speaks::Ckan, Speaks::Dsp, Speaks::Feed];

impl Speaks {
    /// The answer to a request for a page of a catalogue that has these datasets.
    fn page(self, first: u32, ids: &[u32]) -> Reply {
        let end = if self == Self::Document { ids.len() } else { ids.len().min((first + PAGE) as usize) };
        let shown = ids.get(first as usize..end).unwrap_or_default();
        let next = (end < ids.len()).then_some(end);
        self.list(shown, next, ids.len())
    }

    fn list(self, ids: &[u32], next: Option<usize>, total: usize) -> Reply {
        let name = |id: &u32| format!("d-{id:05}");
        match self {
            Self::Ckan => {
                let results: Vec<Value> = ids.iter().map(|id| json!({"id": name(id), "title": name(id)})).collect();
                Reply::ok(json!({"success": true, "result": {"count": total, "results": results}}).to_string())
            }
            Self::Dsp => {
                let datasets: Vec<Value> = ids.iter().map(|id| json!({"@id": name(id), "@type": "Dataset"})).collect();
                let body =
                    json!({"@context": [], "@type": "Catalog", "participantId": "did:web:acme", "dataset": datasets});
                let reply = Reply::ok(body.to_string());
                match next {
                    Some(next) => reply.field("Link", format!("<?start={next}>; rel=\"next\"")),
                    None => reply,
                }
            }
            Self::Feed | Self::Document => {
                let prefixes =
                    "@prefix dcat: <http://www.w3.org/ns/dcat#> . @prefix hydra: <http://www.w3.org/ns/hydra/core#> .";
                let datasets: Vec<String> =
                    ids.iter().map(|id| format!("<urn:{}> a dcat:Dataset .", name(id))).collect();
                let datasets = datasets.join("\n");
                let next = next.map(|next| format!("; hydra:next <?start={next}>")).unwrap_or_default();
                let view = format!("<#view> a hydra:PartialCollectionView ; hydra:totalItems {total} {next} .");
                let view = if self == Self::Feed { view } else { "<urn:c> a dcat:Catalog .".to_owned() };
                Reply::ok(format!("{prefixes}\n{datasets}\n{view}")).field("Content-Type", "text/turtle")
            }
        }
    }

    fn protocol(self) -> &'static str {
        match self {
            Self::Ckan => "  protocol: CKAN\n  ckan: {pageSize: 10}\n",
            Self::Dsp => "  protocol: DSP\n",
            Self::Feed | Self::Document => "  protocol: DCAT\n",
        }
    }
}

/// What a page is answered with instead, by its number from 0.
type Twist = Box<dyn Fn(u32) -> Option<Reply> + Send>;

/// A catalogue that changes, and a directory that it is crawled into.
struct Site {
    speaks: Speaks,
    server: HttpServer,
    ids: Arc<Mutex<Vec<u32>>>,
    twist: Arc<Mutex<Twist>>,
    place: Arc<Workplace>,
}

impl Site {
    /// A catalogue with this many datasets, crawled once.
    async fn crawled(speaks: Speaks, count: u32) -> Self {
        let ids = Arc::new(Mutex::new((0..count).collect::<Vec<u32>>()));
        let twist: Arc<Mutex<Twist>> = Arc::new(Mutex::new(Box::new(|_| None)));
        let (has, twisted) = (ids.clone(), twist.clone());
        let server = HttpServer::start(move |seen| {
            if seen.target.contains("/.well-known/") {
                return Reply::ok(r#"{"protocolVersions": [{"version": "2025-1", "path": "/", "binding": "HTTPS"}]}"#);
            }
            let first = start_of(seen);
            let instead = twisted.lock().unwrap_or_else(PoisonError::into_inner)(first / PAGE);
            instead.unwrap_or_else(|| speaks.page(first, &has.lock().unwrap_or_else(PoisonError::into_inner)))
        })
        .await;
        let place = Arc::new(Workplace::new());
        let site = Self { speaks, server, ids, twist, place };
        site.asks_for("");
        let ended = site.crawl().await;
        assert_eq!(told(&ended), (0, [u64::from(count), 0, 0, 0]), "{speaks:?}: {}", ended.stderr);
        site
    }

    /// Writes the manifests, with more lines of the node's `spec`.
    fn asks_for(&self, more: &str) {
        let spec = format!("{}{more}", self.speaks.protocol());
        self.place.write("in.yaml", &manifests(&[("site", self.server.url("/c").as_str(), &spec)]));
    }

    fn has(&self, ids: impl IntoIterator<Item = u32>) {
        *self.ids.lock().unwrap() = ids.into_iter().collect();
    }

    fn answers(&self, twist: impl Fn(u32) -> Option<Reply> + Send + 'static) {
        *self.twist.lock().unwrap() = Box::new(twist);
    }

    async fn crawl(&self) -> Ended {
        let place = self.place.clone();
        tokio::task::spawn_blocking(move || place.trawler(&RUN.split(' ').collect::<Vec<_>>())).await.unwrap()
    }

    fn kept(&self) -> usize {
        self.place.read("out/records.jsonl").lines().count()
    }

    /// Crawls twice: once as things are now, which may lose nothing, and once when all is well again and three datasets are
    /// really gone, which then go.
    async fn loses_nothing(self, code: i32) {
        let speaks = self.speaks;
        let (before, count) = (self.kept(), self.ids.lock().unwrap().len());
        let ended = self.crawl().await;
        let (ended_with, [added, .., deleted]) = told(&ended);
        assert_eq!((ended_with, added, deleted, self.kept()), (code, 0, 0, before), "{speaks:?}: {}", ended.stderr);
        self.answers(|_| None);
        self.asks_for("");
        let left: Vec<u32> = self.ids.lock().unwrap().iter().copied().skip(3).collect();
        self.has(left);
        let ended = self.crawl().await;
        let all_that_is_gone = [0, 0, count as u64 - 3, (before - count + 3) as u64];
        assert_eq!(told(&ended), (0, all_that_is_gone), "{speaks:?}: {}", ended.stderr);
        assert_eq!(self.kept(), count - 3);
    }
}

const RUN: &str = "run -q -f in.yaml -d out --allow-private 127.0.0.0/8 -o json";

/// Exit code, and records added, updated, unchanged, deleted.
fn told(ended: &Ended) -> (i32, [u64; 4]) {
    let report: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    (ended.code, ["added", "updated", "unchanged", "deleted"].map(|name| report["totals"][name].as_u64().unwrap()))
}

/// The offset that a request asks for.
fn start_of(seen: &Seen) -> u32 {
    let query = seen.target.split_once('?').map_or("", |(_, query)| query);
    query.split('&').find_map(|pair| pair.strip_prefix("start=")?.parse().ok()).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_answered_as_an_empty_200_loses_nothing() {
    for speaks in ALL {
        let site = Site::crawled(speaks, 12).await;
        site.answers(move |_| Some(speaks.list(&[], None, 0)));
        site.loses_nothing(0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_answered_as_an_empty_200_is_told_as_a_deletion_that_is_held() {
    let site = Site::crawled(Speaks::Ckan, 2).await;
    site.has([]);
    let ended = site.crawl().await;
    assert!(ended.stderr.contains("2 records of site are no longer listed; deleting them is held"), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_missing_in_the_middle_loses_nothing() {
    for speaks in PAGED {
        for status in [404, 410] {
            let site = Site::crawled(speaks, 32).await;
            site.answers(move |page| (page == 1).then(|| Reply::status(status)));
            site.loses_nothing(3).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_page_in_the_middle_loses_nothing_where_there_is_a_total() {
    for speaks in [Speaks::Ckan, Speaks::Feed] {
        let site = Site::crawled(speaks, 32).await;
        site.answers(move |page| (page == 1).then(|| speaks.list(&[], None, 32)));
        site.loses_nothing(3).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_500_on_the_last_page_loses_nothing() {
    for speaks in PAGED {
        let site = Site::crawled(speaks, 32).await;
        site.answers(|page| (page == 3).then(|| Reply::status(500)));
        site.loses_nothing(3).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_total_that_shrinks_to_0_loses_nothing() {
    for speaks in [Speaks::Ckan, Speaks::Feed] {
        let site = Site::crawled(speaks, 32).await;
        site.answers(move |page| (page > 0).then(|| speaks.list(&[], None, 0)));
        site.loses_nothing(3).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_total_that_shrinks_while_pages_are_read_hides_nothing() {
    let site = Site::crawled(Speaks::Feed, 32).await;
    // Two of the first page are gone when the second is asked for: what was 11th and 12th is not shown any more.
    let without_two: Vec<u32> = (2..32).collect();
    site.answers(move |page| (page > 0).then(|| Speaks::Feed.page(page * PAGE, &without_two)));
    site.loses_nothing(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_package_removed_while_pages_are_read_leaves_no_page_unread() {
    let site = Site::crawled(Speaks::Ckan, 42).await;
    // One of the last is gone when the second page is asked for: nothing slipped by, and looking for it finds nothing new.
    let asked: Arc<Mutex<u32>> = Arc::default();
    let (ids, left) = ((0..42).collect::<Vec<u32>>(), (0..41).collect::<Vec<u32>>());
    site.has(left);
    site.answers(move |page| {
        let mut asked = asked.lock().unwrap();
        *asked += 1;
        (*asked == 1).then(|| Speaks::Ckan.page(page * PAGE, &ids))
    });
    let ended = site.crawl().await;
    assert_eq!(told(&ended), (0, [0, 0, 41, 1]), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_moves_while_it_is_read_loses_only_what_is_gone() {
    // As many come as go, so that no total tells; connectors have none anyway.
    for speaks in PAGED {
        let site = Site::crawled(speaks, 32).await;
        // The first is gone when the second page is asked for: what was 11th is on the page that was read already.
        let asked: Arc<Mutex<u32>> = Arc::default();
        site.has(1..33);
        site.answers(move |page| {
            let mut asked = asked.lock().unwrap();
            *asked += 1;
            let before: Vec<u32> = (0..32).collect();
            (*asked == 1).then(|| speaks.page(page * PAGE, &before))
        });
        let roots = usize::from(speaks == Speaks::Dsp);
        let before = site.server.seen().len();
        let ended = site.crawl().await;
        assert_eq!(told(&ended), (0, [1, 0, 32, 0]), "{speaks:?}: the first was seen in this run: {}", ended.stderr);
        assert_eq!(
            site.server.seen().len() - before,
            2 * (roots + 4),
            "{speaks:?}: a list that lacks something is read twice"
        );
        let ended = site.crawl().await;
        assert_eq!(told(&ended), (0, [0, 0, 32, 1]), "{speaks:?}: {}", ended.stderr);
        let before = site.server.seen().len();
        let ended = site.crawl().await;
        assert_eq!(told(&ended), (0, [0, 0, 32, 0]), "{speaks:?}: {}", ended.stderr);
        assert_eq!(
            site.server.seen().len() - before,
            roots + 4,
            "{speaks:?}: nothing is missing, so one look is enough"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_name_moved_to_a_parking_page_loses_nothing() {
    for speaks in ALL {
        let site = Site::crawled(speaks, 12).await;
        site.answers(|_| Some(Reply::ok("<!doctype html><title>For sale</title>").field("Content-Type", "text/html")));
        site.loses_nothing(1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_cuts_a_traversal_short_loses_nothing() {
    for speaks in PAGED {
        for limit in ["maxPages: 1", "maxRecords: 15"] {
            let site = Site::crawled(speaks, 32).await;
            site.asks_for(&format!("  limits: {{{limit}}}\n"));
            site.loses_nothing(3).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_pages_counts_pages_and_not_what_comes_before_them() {
    let site = Site::crawled(Speaks::Dsp, 32).await;
    site.asks_for("  limits: {maxPages: 2}\n");
    let ended = site.crawl().await;
    assert_eq!(told(&ended), (3, [0, 0, 20, 0]), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_catalogs_that_share_a_node_do_not_delete_each_others_records() {
    let site = Site::crawled(Speaks::Ckan, 12).await;
    let url = site.server.url("/c").to_string();
    let both = manifests(&[("site", &url, Speaks::Ckan.protocol()), ("spare", &url, Speaks::Ckan.protocol())]);
    let other = both.replace("metadata: {name: test}", "metadata: {name: other}");
    for (manifests, expected) in [
        (&both, [12, 0, 12, 0]),
        (&other, [24, 0, 0, 0]),
        // The other Catalog gives the node up, and loses its records.
        (&other.replace("name: site, labels: {in: test}", "name: site"), [0, 0, 12, 12]),
        (&both, [0, 0, 24, 0]),
    ] {
        site.place.write("in.yaml", manifests);
        let ended = site.crawl().await;
        assert_eq!(told(&ended), (0, expected), "{}", ended.stderr);
    }
    assert_eq!(site.kept(), 24);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_gone_goes_once_a_traversal_is_complete_again() {
    for speaks in PAGED {
        let site = Site::crawled(speaks, 32).await;
        site.has(3..32);
        site.answers(|page| (page == 2).then(|| Reply::status(500)));
        let partial = site.crawl().await;
        let (code, [.., deleted]) = told(&partial);
        assert_eq!((code, deleted, site.kept()), (3, 0, 32), "{speaks:?}: {}", partial.stderr);
        site.answers(|_| None);
        let complete = site.crawl().await;
        assert_eq!(told(&complete), (0, [0, 0, 29, 3]), "{speaks:?}: {}", complete.stderr);
        assert_eq!(site.kept(), 29);
    }
}

/// How many datasets a large catalogue has, and how many are left when it is crawled again.
const LARGE: (u32, u32) = (4_000, 3_000);

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_during_the_sweep_loses_nothing_and_leaves_nothing_behind() {
    let site = Site::crawled(Speaks::Document, LARGE.0).await;
    site.has(0..LARGE.1);
    let mut killed = 0;
    for delay_ms in [0, 30, 60, 120, 240] {
        let asked_before = site.server.seen().len();
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_trawler"))
            .args(RUN.split(' '))
            .current_dir(site.place.root())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // What follows the one answer is reading it, storing it and sweeping; a resumed run may have nothing to ask.
        for _ in 0..500 {
            if site.server.seen().len() > asked_before || child.try_wait().unwrap().is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        child.kill().unwrap();
        let ended = tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
        killed += u32::from(ended.code().is_none());
    }
    assert!(killed > 0, "no process was killed before it was done");
    let ended = site.crawl().await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(site.kept(), LARGE.1 as usize);
    let place = site.place.clone();
    let feed =
        move || place.trawler(&["records", "changes", "-d", "out", "--after", "0", "-o", "json", "--limit", "100000"]);
    let feed: Value = serde_json::from_str(&tokio::task::spawn_blocking(feed).await.unwrap().stdout).unwrap();
    let deleted = feed.as_array().unwrap().iter().filter(|change| change["kind"] == "deleted").count();
    assert_eq!(deleted, (LARGE.0 - LARGE.1) as usize, "each is told as deleted once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_frozen_and_thawed_loses_nothing_and_asks_for_no_page_twice() {
    for speaks in PAGED {
        let queue = Arc::new(MemoryQueue::new(SystemClock::shared()));
        let store = Arc::new(MemoryStore::new());
        let site = Site::crawled(speaks, 32).await;
        let input = input_of(&site);
        run_in(&site, input.clone(), store.clone(), Arc::new(MemoryQueue::new(SystemClock::shared()))).await;
        let asked_before = site.server.seen().len();
        let frozen = queue.clone();
        site.answers(move |page| {
            if page == 1 {
                frozen.freeze(&RunId::from("test-2")).now_or_never().unwrap().unwrap();
            }
            None
        });
        let (again, thawing) = (queue.clone(), store.clone());
        let thaw = async {
            let run = RunId::from("test-2");
            let is_frozen = async || {
                let runs = again.runs().await.unwrap();
                runs.iter().any(|known| known.run == run && known.frozen && known.ledger.leased == 0)
            };
            while !is_frozen().await {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            let asked = site.server.seen().len();
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert_eq!(site.server.seen().len(), asked, "nothing is asked for while frozen");
            again.thaw(&run).await.unwrap();
        };
        let (report, ()) = tokio::join!(run_in(&site, input, thawing, queue), thaw);
        assert_eq!((report.totals.unchanged, report.totals.deleted), (32, 0), "{speaks:?}");
        let mut asked: Vec<String> = site.server.asked().split_off(asked_before);
        let count = asked.len();
        asked.sort();
        asked.dedup();
        assert_eq!(asked.len(), count, "{speaks:?}: {asked:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_killed_before_its_nodes_were_recorded_crawls_them_when_it_is_resumed() {
    let site = Site::crawled(Speaks::Ckan, 12).await;
    let input = input_of(&site);
    let store = FileStore::open(&site.place.path("out")).unwrap();
    let spec = serde_json::to_string(&input).unwrap();
    let started_at = SystemClock::shared().now();
    store.begin_run(RunStart { catalog: "test".into(), mode: Mode::Full, spec, started_at }).await.unwrap();
    drop(store);
    let ended = site.crawl().await;
    assert_eq!(told(&ended), (0, [0, 0, 12, 0]), "{}", ended.stderr);
}

/// What the manifests of a site ask for.
fn input_of(site: &Site) -> RunInput {
    let read = load(&[Input::Path(site.place.path("in.yaml"))]);
    let accepted = accept(&read, &SecretSources::default()).unwrap();
    choose_run(&accepted.set, None, None).unwrap()
}

/// Crawls in this process, with this store and queue.
async fn run_in(
    site: &Site,
    input: RunInput,
    store: Arc<MemoryStore>,
    queue: Arc<MemoryQueue>,
) -> Box<trawler::local::Report> {
    let clock = SystemClock::shared();
    let http = HttpConfig { allow_private: vec!["127.0.0.0/8".parse().unwrap()], ..HttpConfig::default() };
    let adapters = Adapters { store, queue, http: Arc::new(HttpClient::new(http.clone(), clock.clone()).unwrap()) };
    let options = RunOptions {
        dir: site.place.path("out"),
        format: Format::Jsonl,
        dry_run: false,
        restart: false,
        http,
        secrets: SecretSources::default(),
        manifests: trawler::local::manifests::ManifestSet::default(),
        display: Display::new(DisplayMode::Quiet),
        crawlers: None,
        interrupt: CancellationToken::new(),
        clock,
    };
    match run_with(adapters, input, options).await.unwrap() {
        RunEnd::Finished { report, .. } => report,
        RunEnd::Interrupted { .. } => panic!("nobody interrupted it"),
    }
}
