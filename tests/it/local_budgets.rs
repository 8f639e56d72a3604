//! Budgets outlive the process: what the servers saw over runs in a row, and over kills.

use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use trawler::local::RunOutcome;

use crate::support::http_server::{HttpServer, Reply, Seen};
use crate::support::local_run::LocalRuns;
use crate::support::trawler::{Ended, Workplace, manifests};

const HOUR: Duration = Duration::from_hours(1);

/// A page of ten datasets of a portal that has a thousand.
fn page(seen: &Seen) -> Reply {
    let start: usize =
        seen.target.split("start=").nth(1).and_then(|rest| rest.split('&').next()?.parse().ok()).unwrap_or(0);
    let results: Vec<Value> =
        (start..start + 10).map(|id| json!({"id": id.to_string(), "title": "A dataset"})).collect();
    Reply::ok(json!({"success": true, "result": {"count": 1000, "results": results}}).to_string())
}

/// A Catalog of this portal under these limits, asked one request at a time, with this in the run's template.
fn catalog(server: &HttpServer, limits: &str, run: &str) -> String {
    let text = manifests(&[("portal", server.url("/").as_str(), "  protocol: CKAN\n")]);
    text.replace(
        "limits: [{unit: ApiCalls, amount: 10000, period: 1s, pacing: Burst}]",
        &format!("limits: [{limits}]\n  maxConcurrent: 1"),
    )
    .replace("      retries: {limit: 1,", &format!("{run}      retries: {{limit: 9,"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_days_documents_are_not_exceeded_by_runs_in_a_row() {
    let server = HttpServer::start(page).await;
    let limit = "{unit: Documents, amount: 25, period: 24h, pacing: Burst}";
    let text = catalog(&server, limit, "      deadline: 1s\n");
    let runs = LocalRuns::new();
    let mut pages = Vec::new();
    for hours in [0, 0, 20, 5, 0] {
        runs.advance(hours * HOUR);
        let before = server.seen().len();
        assert_eq!(runs.run(&text).await.outcome, RunOutcome::DeadlineExceeded);
        pages.push(server.seen().len() - before);
    }
    // Three pages hold more than 25, by less than one response; what is over is paid on the next day.
    assert_eq!(pages, [3, 0, 0, 2, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_days_calls_are_not_exceeded_by_runs_in_a_row_whatever_the_server_answers() {
    let server = HttpServer::start(|_| Reply::status(500)).await;
    let text = catalog(&server, "{unit: ApiCalls, amount: 5, period: 24h, pacing: Burst}", "      deadline: 1s\n");
    let runs = LocalRuns::new();
    let mut requests = Vec::new();
    for hours in [0, 0, 25] {
        runs.advance(hours * HOUR);
        let before = server.seen().len();
        runs.run(&text).await;
        requests.push(server.seen().len() - before);
    }
    assert_eq!(requests, [5, 0, 5]);
}

/// A portal that notes when it is asked.
async fn timed_portal() -> (HttpServer, Arc<Mutex<Vec<Instant>>>) {
    let times: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let log = times.clone();
    let server = HttpServer::start(move |seen| {
        log.lock().unwrap().push(now());
        page(seen)
    })
    .await;
    (server, times)
}

#[expect(clippy::disallowed_methods, reason = "a server of the tests looks at its own clock")]
fn now() -> Instant {
    Instant::now()
}

const RUN: &str = "run -q -f in.yaml -d out --allow-private 127.0.0.0/8 -o json";

fn start(place: &Workplace) -> Child {
    Command::new(env!("CARGO_BIN_EXE_trawler"))
        .args(RUN.split(' '))
        .current_dir(place.root())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Starts a run and kills it when the server has been asked so often.
async fn run_until_killed(place: &Arc<Workplace>, server: &HttpServer, requests: usize) {
    let mut child = start(place);
    while server.seen().len() < requests {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    child.kill().unwrap();
    tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
}

async fn trawler(place: &Arc<Workplace>, arguments: &str) -> Ended {
    let (place, arguments) = (place.clone(), arguments.to_owned());
    let run = move || place.trawler(&arguments.split(' ').collect::<Vec<_>>());
    tokio::task::spawn_blocking(run).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_seconds_is_not_exceeded_over_a_kill() {
    let (server, times) = timed_portal().await;
    let place = Arc::new(Workplace::new());
    let text = catalog(&server, "{unit: ApiCalls, amount: 5, period: 1s, pacing: Burst}", "");
    place.write("in.yaml", &text);
    for kill in 1..=4 {
        run_until_killed(&place, &server, 6 * kill).await;
    }
    let times = times.lock().unwrap().clone();
    // A permit is good for a quarter of a second.
    let crowded = times.windows(6).filter(|window| window[5] - window[0] < Duration::from_millis(750)).count();
    assert_eq!(crowded, 0, "{times:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_days_calls_are_not_exceeded_over_kills_and_restarts() {
    let (server, _) = timed_portal().await;
    let place = Arc::new(Workplace::new());
    let limits = "{unit: ApiCalls, amount: 12, period: 24h, pacing: Burst}";
    place.write("in.yaml", &catalog(&server, limits, "      deadline: 3s\n"));
    run_until_killed(&place, &server, 3).await;
    run_until_killed(&place, &server, 5).await;

    let ended = trawler(&place, &format!("{RUN} --restart")).await;

    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((report["run"].as_str(), report["outcome"].as_str()), (Some("test-2"), Some("DeadlineExceeded")));
    let asked = server.seen().len();
    assert!((9..=12).contains(&asked), "{asked} calls; each kill may cost the one that was under way");
    trawler(&place, RUN).await;
    assert_eq!(server.seen().len(), asked);
}
