//! What lies in the output directory is of one instant, whenever the process ends.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use trawler::local::export::Format;

use crate::support::http_server::{HttpServer, Reply};
use crate::support::local_run::LocalRuns;
use crate::support::trawler::{Workplace, manifests};

/// A portal that has one dataset more each time that it is asked, so that no two runs have as many.
async fn growing_portal() -> (HttpServer, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let datasets = count.clone();
    let server = HttpServer::start(move |_| {
        let count = datasets.fetch_add(1, Ordering::SeqCst) + 1;
        let results: Vec<Value> =
            (0..count).map(|id| json!({"id": id.to_string(), "title": format!("Dataset {id} of {count}")})).collect();
        Reply::ok(json!({"success": true, "result": {"count": count, "results": results}}).to_string())
    })
    .await;
    (server, count)
}

fn catalog(server: &HttpServer) -> String {
    manifests(&[("portal", server.url("/").as_str(), "  protocol: CKAN\n")])
}

/// The names of the files in a directory, but the hidden ones.
fn files(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    names
}

/// If there is a report, there is one file with records beside it, with as many records as the report says. Returns how many.
fn records_of_report(dir: &Path) -> Option<usize> {
    let report: Value = serde_json::from_slice(&std::fs::read(dir.join("report.json")).ok()?).unwrap();
    let others: Vec<String> = files(dir).into_iter().filter(|name| name != "report.json").collect();
    assert_eq!(others.len(), 1, "{others:?}");
    let text = std::fs::read_to_string(dir.join(&others[0])).unwrap();
    // The first line of a table has the names of its columns.
    let found = text.lines().count() - usize::from(others[0] == "records.csv");
    assert_eq!(report["totals"]["records"].as_u64(), Some(found as u64), "{others:?}");
    Some(found)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_while_results_are_published_leaves_no_report_beside_records_of_another_run() {
    let (server, _) = growing_portal().await;
    let place = Arc::new(Workplace::new());
    place.write("in.yaml", &catalog(&server));
    let there = place.clone();
    let (killed, whole) = tokio::task::spawn_blocking(move || kill_while_publishing(&there)).await.unwrap();
    assert!(killed >= 6, "{killed} of 24 runs were killed, {whole} came to their end");
    let end = place.clone();
    let arguments = ["run", "-q", "-f", "in.yaml", "-d", "out", "--allow-private", "127.0.0.0/8"];
    let ended = tokio::task::spawn_blocking(move || end.trawler(&arguments)).await.unwrap();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(records_of_report(&place.path("out")).is_some());
    assert_eq!(files(&place.path("out")), ["records.jsonl", "report.json"]);
}

/// Starts runs in turn in one format and the other, and ends each a little after it has begun to write its results.
fn kill_while_publishing(place: &Workplace) -> (u32, u32) {
    let (mut killed, mut whole) = (0, 0);
    let out = place.path("out");
    for round in 0..24_u32 {
        let format = if (round / 3) % 2 == 0 { "jsonl" } else { "csv" };
        let mut child = Command::new(env!("CARGO_BIN_EXE_trawler"))
            .args(["run", "-q", "-f", "in.yaml", "-d", "out", "--allow-private", "127.0.0.0/8", "--format", format])
            .current_dir(place.root())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let records = out.join(format!("records.{format}"));
        let len = || std::fs::metadata(&records).ok().map(|data| data.len());
        let before = len();
        let is_publishing = || {
            if round % 2 == 0 {
                // The records have just been replaced: the report comes next.
                return len() != before;
            }
            let names = std::fs::read_dir(&out).into_iter().flatten().flatten().map(|entry| entry.file_name());
            names.into_iter().any(|name| name.to_string_lossy().ends_with(".partial"))
        };
        let is_over = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break Some(status);
            }
            if is_publishing() {
                break None;
            }
        };
        if is_over.is_none() {
            if round % 2 == 1 {
                // From the first temporary file to the end of the run: some ten milliseconds, in which all steps fall.
                std::thread::sleep(Duration::from_micros(u64::from(round * 7919 % 40) * 400));
            }
            child.kill().unwrap();
            child.wait().unwrap();
            killed += 1;
        } else {
            whole += 1;
        }
        records_of_report(&out);
    }
    (killed, whole)
}

#[tokio::test(flavor = "multi_thread")]
async fn another_format_takes_the_place_of_the_one_before_and_of_no_file_of_somebody_else() {
    let (server, _) = growing_portal().await;
    let runs = LocalRuns::new();
    std::fs::write(runs.path("records.ttl"), "mine").unwrap();
    for (number, format) in (1..).zip([Format::Jsonl, Format::Csv, Format::Csv, Format::Jsonl]) {
        runs.run_as(&catalog(&server), format).await;
        std::fs::rename(runs.path("records.ttl"), runs.path(".mine")).unwrap();
        assert_eq!(records_of_report(&runs.path("")), Some(number));
        assert_eq!(files(&runs.path("")), [format.file_name(), "report.json".to_owned()]);
        std::fs::rename(runs.path(".mine"), runs.path("records.ttl")).unwrap();
    }
    assert_eq!(std::fs::read_to_string(runs.path("records.ttl")).unwrap(), "mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_somebody_else_is_not_taken_for_the_records_of_the_run_before() {
    let (server, count) = growing_portal().await;
    let place = Arc::new(Workplace::new());
    place.write("in.yaml", &catalog(&server));
    let run = async |format: &'static str| {
        let place = place.clone();
        let arguments =
            ["run", "-q", "-f", "in.yaml", "-d", "out", "--allow-private", "127.0.0.0/8", "--format", format];
        tokio::task::spawn_blocking(move || place.trawler(&arguments)).await.unwrap()
    };
    assert_eq!(run("csv").await.code, 0);
    count.store(0, Ordering::SeqCst);
    place.write("out/records.jsonl", "mine");
    let refused = run("jsonl").await;
    assert_eq!((refused.code, place.read("out/records.jsonl").as_str()), (2, "mine"));
    assert!(refused.stderr.contains("no run of trawler wrote it"), "{}", refused.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_abandoned_deletes_nothing_and_the_next_one_is_numbered_on() {
    let gone = Arc::new(AtomicUsize::new(0));
    let is_gone = gone.clone();
    let server = HttpServer::start(move |seen| {
        let is_second = seen.target.contains("start=10");
        let results: Vec<Value> = match (is_gone.load(Ordering::SeqCst), is_second) {
            (0, _) => {
                (0..10).map(|id| json!({"id": format!("{}", id + 10 * usize::from(is_second)), "title": "A"})).collect()
            }
            // The first half is gone, and the second page never comes.
            (_, false) => (30..40).map(|id| json!({"id": id.to_string(), "title": "New"})).collect(),
            (_, true) => return Reply::ok("").then_hang(),
        };
        Reply::ok(json!({"success": true, "result": {"count": 20, "results": results}}).to_string())
    })
    .await;
    let place = Arc::new(Workplace::new());
    place.write("in.yaml", &catalog(&server));
    let run = async |more: &'static str| {
        let place = place.clone();
        let arguments = format!("run -q -f in.yaml -d out --allow-private 127.0.0.0/8 -o json{more}");
        let run = move || place.trawler(&arguments.split(' ').collect::<Vec<_>>());
        serde_json::from_str::<Value>(&tokio::task::spawn_blocking(run).await.unwrap().stdout).unwrap()
    };
    let totals = |report: &Value| {
        ["added", "updated", "unchanged", "deleted"].map(|name| report["totals"][name].as_u64().unwrap())
    };
    let first = run("").await;
    assert_eq!((first["run"].as_str(), totals(&first)), (Some("test-1"), [20, 0, 0, 0]));
    gone.store(1, Ordering::SeqCst);
    let mut child = Command::new(env!("CARGO_BIN_EXE_trawler"))
        .args(["run", "-q", "-f", "in.yaml", "-d", "out", "--allow-private", "127.0.0.0/8"])
        .current_dir(place.root())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while server.seen().len() < 4 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    child.kill().unwrap();
    tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
    gone.store(0, Ordering::SeqCst);

    let restarted = run(" --restart").await;

    // What the abandoned run saw stays until a complete traversal does not see it.
    assert_eq!((restarted["run"].as_str(), totals(&restarted)), (Some("test-3"), [0, 0, 20, 10]), "{restarted}");
    let after = run("").await;
    assert_eq!((after["run"].as_str(), totals(&after)), (Some("test-4"), [0, 0, 20, 0]));
}
