//! Runs whose crawlers are processes that share a queue in a real Redis: the command as a person uses it.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use trawler::clock::SystemClock;
use trawler::crawler::http::HttpConfig;
use trawler::local::export::Format;
use trawler::local::secrets::SecretSources;
use trawler::local::{Display, DisplayMode, RunOptions, choose_run};
use trawler::queue::SharedQueue;
use trawler::queue::redis::RedisSettings;

use crate::redis_server::{FORGETS, KEEPS, Server, new_instance};
use crate::support::http_server::{HttpServer, Reply};
use crate::support::trawler::{Ended, Workplace, manifests};

const NODES: usize = 60;
const PAGES: usize = 3;
const ROWS: usize = 10;

/// A federation of portals on one server, an instance of a queue, and a directory.
struct Scene {
    server: HttpServer,
    redis: RedisSettings,
    place: Arc<Workplace>,
    crawlers: usize,
}

fn page(target: &str) -> Vec<u8> {
    let node = target.split('/').nth(1).unwrap();
    let start: usize = target.split("start=").nth(1).and_then(|rest| rest.split('&').next()?.parse().ok()).unwrap_or(0);
    let count = PAGES * ROWS;
    let results: Vec<Value> = (start..(start + ROWS).min(count))
        .map(|id| json!({"id": format!("{node}-{id:03}"), "title": format!("Dataset {id} of {node}")}))
        .collect();
    json!({"success": true, "result": {"count": count, "results": results}}).to_string().into_bytes()
}

impl Scene {
    /// Portals that may be asked so often in a second, all together.
    async fn new(calls_per_s: u32) -> Self {
        let answered = AtomicU32::new(0);
        let server = HttpServer::start(move |seen| {
            // Later with each answer: what follows from a page that is asked for again is another task then.
            let date =
                UNIX_EPOCH + Duration::from_secs(1_800_000_000 + u64::from(answered.fetch_add(1, Ordering::SeqCst)));
            Reply::ok(page(&seen.target)).field("Date", httpdate::fmt_http_date(date))
        })
        .await;
        Self::with_server(server, calls_per_s)
    }

    fn with_server(server: HttpServer, calls_per_s: u32) -> Self {
        let place = Arc::new(Workplace::new());
        place.write("in.yaml", &catalog_of(&server, calls_per_s));
        Self { server, redis: new_instance(false), place, crawlers: 3 }
    }

    fn arguments(&self, dir: &str) -> Vec<String> {
        let count = self.crawlers;
        let fixed = format!("run -q -f in.yaml -d {dir} --allow-private 127.0.0.0/8 -o json --crawlers {count}");
        let mut arguments: Vec<String> = fixed.split(' ').map(str::to_owned).collect();
        arguments.extend(["--redis".to_owned(), self.redis.url.clone()]);
        arguments.extend(["--instance".to_owned(), self.redis.instance.clone()]);
        arguments
    }

    async fn run(&self, dir: &str, more: &[&str]) -> Ended {
        let mut arguments = self.arguments(dir);
        arguments.extend(more.iter().map(|argument| (*argument).to_owned()));
        self.trawler(arguments).await
    }

    /// The same run in one process, without a Redis.
    async fn run_alone(&self, dir: &str) -> Ended {
        let arguments = format!("run -q -f in.yaml -d {dir} --allow-private 127.0.0.0/8 -o json");
        self.trawler(arguments.split(' ').map(str::to_owned).collect()).await
    }

    async fn trawler(&self, arguments: Vec<String>) -> Ended {
        let place = self.place.clone();
        let run = move || place.trawler(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        tokio::task::spawn_blocking(run).await.unwrap()
    }

    fn start(&self, dir: &str) -> Run {
        let child = Command::new(env!("CARGO_BIN_EXE_trawler"))
            .args(self.arguments(dir))
            .env_clear()
            .current_dir(self.place.root())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Run { child }
    }

    async fn asked_at_least(&self, count: usize) {
        until("enough was asked", || self.server.seen().len() >= count).await;
    }

    fn queue(&self) -> SharedQueue {
        trawler::queue::redis::open(&self.redis, SystemClock::shared()).unwrap()
    }

    /// How often each page was asked for.
    fn asked(&self) -> BTreeMap<String, usize> {
        let mut asked = BTreeMap::new();
        for seen in self.server.seen() {
            *asked.entry(seen.target).or_default() += 1;
        }
        asked
    }
}

/// A run under way.
struct Run {
    child: Child,
}

impl Run {
    /// The crawlers' process ids.
    fn crawlers(&self) -> Vec<u32> {
        children_of(self.child.id())
    }

    async fn crawlers_at_work(&self, count: usize) -> Vec<u32> {
        until("the crawlers are there", || self.crawlers().len() >= count).await;
        self.crawlers()
    }

    async fn end(self) -> Output {
        tokio::task::spawn_blocking(move || self.child.wait_with_output().unwrap()).await.unwrap()
    }
}

fn children_of(pid: u32) -> Vec<u32> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let of_task =
        |task: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(task.ok()?.path().join("children")).ok();
    let children: Vec<String> = tasks.filter_map(of_task).collect();
    children.iter().flat_map(|children| children.split_whitespace()).map(|pid| pid.parse().unwrap()).collect()
}

fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

fn is_alive(pid: u32) -> bool {
    // What has ended and was not waited for has no command line any more.
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waited = tokio::time::timeout(Duration::from_mins(1), async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "it never came to this: {what}");
}

fn catalog_of(server: &HttpServer, calls_per_s: u32) -> String {
    let endpoints: Vec<(String, String)> =
        (0..NODES).map(|node| (format!("n{node:02}"), server.url(&format!("/n{node:02}/")).to_string())).collect();
    let more = format!("  protocol: CKAN\n  ckan: {{pageSize: {ROWS}}}\n");
    let nodes: Vec<(&str, &str, &str)> =
        endpoints.iter().map(|(name, endpoint)| (name.as_str(), endpoint.as_str(), more.as_str())).collect();
    manifests(&nodes).replace(
        "limits: [{unit: ApiCalls, amount: 10000, period: 1s, pacing: Burst}]",
        &format!("limits: [{{unit: ApiCalls, amount: {calls_per_s}, period: 1s, pacing: Burst}}]"),
    )
}

/// The records, without when they were fetched.
fn records(place: &Workplace, dir: &str) -> Vec<Value> {
    let text = place.read(&format!("{dir}/records.jsonl"));
    let mut records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for record in &mut records {
        assert!(record.as_object_mut().unwrap().remove("fetchedAt").is_some(), "{record}");
    }
    records
}

fn totals(report: &Value) -> [u64; 4] {
    ["added", "updated", "unchanged", "deleted"].map(|name| report["totals"][name].as_u64().unwrap())
}

const ALL: u64 = (NODES * PAGES * ROWS) as u64;

#[tokio::test(flavor = "multi_thread")]
async fn three_processes_over_redis_come_to_what_one_process_comes_to() {
    let scene = Scene::new(10_000).await;
    let together = scene.run("together", &["--log", "info"]).await;
    let asked = scene.asked();
    let alone = scene.run_alone("alone").await;
    assert_eq!((together.code, alone.code), (0, 0), "{}\n{}", together.stderr, alone.stderr);
    for token in 0..3 {
        assert!(together.stderr.contains(&format!("crawler {token}: ")), "{}", together.stderr);
    }
    assert_eq!(records(&scene.place, "together"), records(&scene.place, "alone"));
    let (together, alone) = (scene.place.report("together"), scene.place.report("alone"));
    assert_eq!(totals(&together), [ALL, 0, 0, 0]);
    let without_times = |report: &Value| {
        let mut nodes = report["nodes"].clone();
        for node in nodes.as_array_mut().unwrap() {
            node.as_object_mut().unwrap().retain(|name, _| !name.ends_with("At"));
        }
        nodes
    };
    assert_eq!(without_times(&together), without_times(&alone));
    assert!(asked.len() == NODES * PAGES && asked.values().all(|times| *times == 1), "{asked:?}");
    assert_eq!(scene.queue().runs().await.unwrap(), []);

    let again = scene.run("together", &[]).await;
    assert_eq!((again.code, totals(&scene.place.report("together"))), (0, [0, 0, ALL, 0]), "{}", again.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crawler_that_is_killed_costs_nothing_but_the_requests_it_had_under_way() {
    let scene = Scene::new(60).await;
    let run = scene.start("out");
    let crawlers = run.crawlers_at_work(3).await;
    scene.asked_at_least(40).await;
    signal("-KILL", crawlers[1]);
    let ended = run.end().await;
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(totals(&scene.place.report("out")), [ALL, 0, 0, 0]);
    let asked = scene.asked();
    let again = asked.values().filter(|times| **times > 1).count();
    assert!(asked.len() == NODES * PAGES && again <= 16, "{again} pages were asked for again");
    let told = String::from_utf8(ended.stderr).unwrap();
    assert!(told.contains("crawler process ended: signal: 9 (SIGKILL); another one takes its place"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn crawlers_that_are_killed_all_at_once_lose_nothing_and_leave_nothing_partial() {
    let scene = Scene::new(60).await;
    let run = scene.start("out");
    // A task may be in two crashes and is given up after the third.
    for asked in [30, 90] {
        run.crawlers_at_work(3).await;
        scene.asked_at_least(asked).await;
        run.crawlers().into_iter().for_each(|pid| signal("-KILL", pid));
    }
    let ended = run.end().await;
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(totals(&scene.place.report("out")), [ALL, 0, 0, 0]);
    assert_eq!(scene.asked().len(), NODES * PAGES);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_parent_is_killed_is_resumed_and_its_crawlers_end_by_themselves() {
    let scene = Scene::new(60).await;
    let mut run = scene.start("out");
    let crawlers = run.crawlers_at_work(3).await;
    scene.asked_at_least(40).await;
    run.child.kill().unwrap();
    run.end().await;
    until("the crawlers ended", || !crawlers.iter().any(|pid| is_alive(*pid))).await;
    assert_eq!(scene.queue().runs().await.unwrap().len(), 1, "nobody closed the run's queue");

    let ended = scene.run("out", &[]).await;
    assert_eq!((ended.code, totals(&scene.place.report("out"))), (0, [ALL, 0, 0, 0]), "{}", ended.stderr);
    let asked = scene.asked();
    let again = asked.values().filter(|times| **times > 1).count();
    assert!(asked.len() == NODES * PAGES && again <= 48, "{again} pages were asked for again");
    assert_eq!(scene.queue().runs().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_run_ends_its_crawlers_in_order_and_the_next_one_goes_on() {
    let scene = Scene::new(60).await;
    let run = scene.start("out");
    let crawlers = run.crawlers_at_work(3).await;
    scene.asked_at_least(40).await;
    signal("-INT", run.child.id());
    let ended = run.end().await;
    assert_eq!(ended.status.code(), Some(130), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(!crawlers.iter().any(|pid| is_alive(*pid)));
    assert_eq!(scene.queue().runs().await.unwrap(), []);
    assert!(scene.server.seen().len() < NODES * PAGES, "it was interrupted in the middle");

    let ended = scene.run("out", &[]).await;
    assert_eq!((ended.code, totals(&scene.place.report("out"))), (0, [ALL, 0, 0, 0]), "{}", ended.stderr);
    let asked = scene.asked();
    assert!(asked.len() == NODES * PAGES && asked.values().all(|times| *times == 1), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_begun_with_the_state_of_another_directory_is_left_alone() {
    let scene = Scene::new(60).await;
    let mut run = scene.start("mine");
    run.crawlers_at_work(1).await;
    scene.asked_at_least(40).await;
    run.child.kill().unwrap();
    run.end().await;

    let refused = scene.run("other", &[]).await;
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    let instance = &scene.redis.instance;
    let told = format!(
        "trawler: run test-1 is in the queue already, and was not begun with the state in this directory; choose another \
         name for this one's with --instance (now {instance:?}), or close that run\n"
    );
    assert_eq!(refused.stderr, told);
    assert_eq!(scene.queue().runs().await.unwrap().len(), 1);

    let ended = scene.run("mine", &["--restart"]).await;
    let [added, updated, unchanged, deleted] = totals(&scene.place.report("mine"));
    assert_eq!((ended.code, added + unchanged, updated, deleted), (0, ALL, 0, 0), "{}", ended.stderr);
    assert_eq!(scene.queue().runs().await.unwrap(), [], "the abandoned run is closed too");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_queue_is_emptied_goes_on_from_its_store() {
    let redis = Server::start(&FORGETS);
    let scene = Scene { redis: redis.settings("emptied"), ..Scene::new(60).await };
    let run = scene.start("out");
    run.crawlers_at_work(3).await;
    scene.asked_at_least(40).await;
    redis.ask::<String>(&["FLUSHALL"]);
    let ended = run.end().await;
    let told = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{told}");
    assert!(told.contains("The queue was lost: "), "{told}");
    assert_eq!(totals(&scene.place.report("out")), [ALL, 0, 0, 0]);
    assert_eq!(scene.asked().len(), NODES * PAGES);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_redis_crashes_waits_for_it_and_goes_on() {
    let mut redis = Server::start(&KEEPS);
    let scene = Scene { redis: redis.settings("crashed"), ..Scene::new(60).await };
    let run = scene.start("out");
    run.crawlers_at_work(3).await;
    scene.asked_at_least(40).await;
    redis.kill();
    redis.run();
    let ended = run.end().await;
    let told = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{told}");
    assert!(!told.contains("The queue was lost"), "{told}");
    assert_eq!(totals(&scene.place.report("out")), [ALL, 0, 0, 0]);
    assert_eq!(scene.asked().len(), NODES * PAGES);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_frozen_by_hand_waits_until_it_is_thawed() {
    let scene = Scene::new(60).await;
    let run = scene.start("out");
    run.crawlers_at_work(1).await;
    scene.asked_at_least(40).await;
    let queue = scene.queue();
    queue.freeze(&"test-1".into()).await.unwrap();
    until("no crawler is left", || run.crawlers().is_empty()).await;
    let asked = scene.server.seen().len();
    assert!(asked < NODES * PAGES);
    queue.thaw(&"test-1".into()).await.unwrap();
    let ended = run.end().await;
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(totals(&scene.place.report("out")), [ALL, 0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_of_the_manifests_reach_the_crawlers_and_nobody_else() {
    let scene = Scene::new(10_000).await;
    let server = HttpServer::start(|seen| match seen.field("authorization") {
        Some("Bearer canary") => Reply::ok(page(&seen.target)),
        _ => Reply::status(401),
    })
    .await;
    let origin = server.url("/").to_string();
    let secret = format!(
        "---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: token\n  labels: {{trawler.dev/credential: \"true\"}}\n  \
         annotations: {{trawler.dev/allowed-origins: \"{origin}\"}}\nstringData: {{token: canary}}\n"
    );
    let manifests =
        catalog_of(&server, 60).replace("  protocol: CKAN\n", "  protocol: CKAN\n  credentialRef: {name: token}\n");
    scene.place.write("in.yaml", &(manifests + &secret));

    let run = scene.start("out");
    let crawlers = run.crawlers_at_work(3).await;
    until("enough was asked", || server.seen().len() >= 20).await;
    for pid in crawlers {
        for file in ["cmdline", "environ"] {
            let told = String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/{file}")).unwrap()).into_owned();
            assert!(told.contains(&scene.redis.instance) || file == "environ", "{told}");
            assert!(!told.contains("canary"), "{told}");
        }
    }
    let (queue, id) = (scene.queue(), "test-1".into());
    let briefs = queue.node_briefs(&id, &["n00".into()]).await.unwrap();
    let brief = briefs[0].as_ref().unwrap();
    assert!(brief.contains("token") && !brief.contains("canary"), "{brief}");
    let ended = run.end().await;
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(totals(&scene.place.report("out")), [ALL, 0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn crawlers_that_die_as_soon_as_they_are_started_end_the_run_with_what_they_said() {
    use trawler::local::manifests::{Input, load};
    use trawler::local::{CrawlerProcesses, LocalError};

    let scene = Scene::new(10_000).await;
    let script = scene.place.path("dies");
    scene.place.write("dies", "#!/bin/sh\necho started >> \"$0.log\"\necho 'trawler: it is broken' >&2\nexit 9\n");
    assert!(Command::new("chmod").arg("+x").arg(&script).status().unwrap().success());
    let accepted =
        trawler::local::validate::accept(&load(&[Input::Path(scene.place.path("in.yaml"))]), &SecretSources::default())
            .unwrap();
    let options = RunOptions {
        dir: scene.place.path("out"),
        format: Format::Jsonl,
        dry_run: false,
        restart: false,
        http: HttpConfig::default(),
        secrets: SecretSources::default(),
        manifests: accepted.set.clone(),
        display: Display::new(DisplayMode::Quiet),
        crawlers: Some(CrawlerProcesses {
            count: Some(1),
            redis: scene.redis.clone(),
            program: script,
            arguments: Vec::new(),
        }),
        interrupt: CancellationToken::new(),
        clock: SystemClock::shared(),
    };
    let error = trawler::local::run(choose_run(&accepted.set, None, None).unwrap(), options).await.unwrap_err();
    assert!(matches!(&error, LocalError::Crawlers { deaths: 5, .. }), "{error:?}");
    assert_eq!(error.to_string(), "5 crawlers in a row ended as soon as they were started: it is broken");
    assert_eq!(scene.place.read("dies.log").lines().count(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_kills_its_crawlers_is_given_up_by_name_and_costs_no_other_page() {
    let parent = Arc::new(AtomicU32::new(0));
    let of_run = parent.clone();
    let server = HttpServer::start(move |seen| {
        if seen.target.starts_with("/n07/") {
            for pid in children_of(of_run.load(Ordering::SeqCst)) {
                signal("-KILL", pid);
            }
        }
        Reply::ok(page(&seen.target))
    })
    .await;
    // One crawler, so that the one that dies is the one that asked.
    let scene = Scene { crawlers: 1, ..Scene::with_server(server, 10_000) };
    let run = scene.start("out");
    parent.store(run.child.id(), Ordering::SeqCst);
    let ended = run.end().await;
    let told = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(3), "{told}");
    let report = scene.place.report("out");
    assert_eq!(totals(&report), [ALL - (PAGES * ROWS) as u64, 0, 0, 0]);
    let bad: Vec<&Value> =
        report["nodes"].as_array().unwrap().iter().filter(|node| node["state"] != "Complete").collect();
    let told_of = [&bad[0]["name"], &bad[0]["state"], &bad[0]["message"]];
    assert_eq!(bad.len(), 1, "{told}");
    assert_eq!(told_of, ["n07", "Failed", "the crawler crashed while it worked on this task"]);
    assert_eq!(told.matches("signal: 9 (SIGKILL)").count(), 3, "{told}");
}
