//! What a server asked for outlives the process: what it saw over a kill, and over runs in a row.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use trawler::local::RunOutcome;

use crate::support::http_server::{HttpServer, Reply};
use crate::support::local_run::LocalRuns;
use crate::support::trawler::{Workplace, manifests};

/// A portal with one dataset that answers its first request with 429, and notes when it is asked.
async fn busy_portal(retry_after: &'static str) -> (HttpServer, Arc<Mutex<Vec<Instant>>>) {
    let times: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let (log, asked) = (times.clone(), AtomicUsize::new(0));
    let server = HttpServer::start(move |_| {
        log.lock().unwrap().push(now());
        if asked.fetch_add(1, Ordering::SeqCst) == 0 {
            return Reply::status(429).field("Retry-After", retry_after);
        }
        let result = json!({"count": 1, "results": [{"id": "a", "title": "A dataset"}]});
        Reply::ok(json!({"success": true, "result": result}).to_string())
    })
    .await;
    (server, times)
}

#[expect(clippy::disallowed_methods, reason = "a server of the tests looks at its own clock")]
fn now() -> Instant {
    Instant::now()
}

fn catalog(server: &HttpServer) -> String {
    manifests(&[("portal", server.url("/").as_str(), "  protocol: CKAN\n")])
}

const RUN: &str = "run -q -f in.yaml -d out --allow-private 127.0.0.0/8";

/// Starts a run, and kills it when it says that it has been turned away.
fn run_until_turned_away(place: &Workplace) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_trawler"))
        .args(RUN.split(' '))
        .args(["--log", "trawler::crawler=debug"])
        .current_dir(place.root())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let turned_away = lines.map_while(Result::ok).any(|line| line.contains("task failed, will be retried"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(turned_away, "the run ended before it was turned away");
}

/// How long the server was left alone when a run that it had turned away was killed, and one was started with these options.
async fn left_alone_before(options: &'static [&'static str]) -> Duration {
    let (server, times) = busy_portal("3").await;
    let text = catalog(&server);
    let ended = tokio::task::spawn_blocking(move || {
        let place = Workplace::new();
        place.write("in.yaml", &text);
        run_until_turned_away(&place);
        place.trawler(&RUN.split(' ').chain(options.iter().copied()).collect::<Vec<_>>())
    });
    let ended = ended.await.unwrap();
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    let times = times.lock().unwrap();
    times[1] - times[0]
}

/// The server's own clock and ours need not start a second at the same instant.
const ASKED_FOR: Duration = Duration::from_millis(2_990);

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_left_alone_as_it_asked_by_a_run_that_is_resumed_after_a_kill() {
    let pause = left_alone_before(&[]).await;
    assert!(pause >= ASKED_FOR, "{pause:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_left_alone_as_it_asked_by_a_run_that_is_begun_anew_after_a_kill() {
    let pause = left_alone_before(&["--restart"]).await;
    assert!(pause >= ASKED_FOR, "{pause:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_left_alone_as_it_asked_by_a_dry_run_after_a_kill() {
    let pause = left_alone_before(&["--dry-run"]).await;
    assert!(pause >= ASKED_FOR, "{pause:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_left_alone_as_it_asked_over_runs_in_a_row() {
    let (server, _) = busy_portal("600").await;
    let text = catalog(&server).replace("      retries:", "      deadline: 1s\n      retries:");
    let runs = LocalRuns::new();
    let mut seen = Vec::new();
    for minutes in [0, 0, 9, 2] {
        runs.advance(Duration::from_mins(minutes));
        let before = server.seen().len();
        let outcome = runs.run(&text).await.outcome;
        seen.push((outcome, server.seen().len() - before));
    }
    let waited = RunOutcome::DeadlineExceeded;
    let (last, requests) = seen.pop().unwrap();
    assert_eq!(seen, [(waited, 1), (waited, 0), (waited, 0)]);
    assert_eq!((last, requests > 0), (RunOutcome::Complete, true));
}
