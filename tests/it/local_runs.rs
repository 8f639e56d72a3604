//! Runs that end early, are held, or are asked for in other ways: the command as a person uses it.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::support::http_server::{HttpServer, Reply};
use crate::support::trawler::{Ended, Workplace, manifests};

fn page(ids: impl Iterator<Item = u32>, count: u32) -> Vec<u8> {
    let results: Vec<Value> =
        ids.map(|id| json!({"id": format!("d-{id:03}"), "title": format!("Dataset {id}")})).collect();
    json!({"success": true, "result": {"count": count, "results": results}}).to_string().into_bytes()
}

/// A CKAN portal of `count` datasets, `rows` a page.
async fn portal(count: u32, rows: u32) -> HttpServer {
    HttpServer::start(move |seen| {
        let start =
            seen.target.split("start=").nth(1).and_then(|rest| rest.split('&').next()?.parse().ok()).unwrap_or(0);
        Reply::ok(page(start..(start + rows).min(count), count))
    })
    .await
}

fn place_for(server: &HttpServer, more: &str) -> Arc<Workplace> {
    let place = Arc::new(Workplace::new());
    place.write("in.yaml", &manifests(&[("portal", server.url("/").as_str(), &format!("  protocol: CKAN\n{more}"))]));
    place
}

async fn trawler(place: &Arc<Workplace>, arguments: &'static str) -> Ended {
    let place = place.clone();
    let run = move || place.trawler(&arguments.split(' ').collect::<Vec<_>>());
    tokio::task::spawn_blocking(run).await.unwrap()
}

const RUN: &str = "run -q -f in.yaml -d out --allow-private 127.0.0.0/8 -o json";

fn totals(ended: &Ended) -> [u64; 4] {
    let report: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    ["added", "updated", "unchanged", "deleted"].map(|name| report["totals"][name].as_u64().unwrap())
}

fn start(place: &Workplace) -> Child {
    Command::new(env!("CARGO_BIN_EXE_trawler"))
        .args(RUN.split(' '))
        .current_dir(place.root())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

async fn seen_at_least(server: &HttpServer, count: usize) {
    while server.seen().len() < count {
        tokio::task::yield_now().await;
    }
}

/// Five calls a second: a run of ten pages takes long enough to be interrupted.
const SLOW: &str = "  throttlePolicyRef: {name: slow}\n";

fn slowed(place: &Workplace) {
    let text = place.read("in.yaml").replace("  throttlePolicyRef: {name: quick}\n", "");
    place.write(
        "in.yaml",
        &format!(
            "{text}---\napiVersion: trawler.dev/v1alpha1\nkind: ThrottlePolicy\nmetadata: {{name: slow}}\nspec:\n  \
             limits: [{{unit: ApiCalls, amount: 5, period: 1s, pacing: Burst}}]\n"
        ),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_run_exits_130_and_the_next_one_goes_on_where_it_was() {
    let server = portal(150, 10).await;
    let place = place_for(&server, SLOW);
    slowed(&place);
    let mut child = start(&place);
    seen_at_least(&server, 3).await;
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let code = tokio::task::spawn_blocking(move || child.wait().unwrap().code()).await.unwrap();
    assert_eq!(code, Some(130));
    assert!(!place.path("out/report.json").exists(), "an interrupted run has no report yet");
    let asked_before = server.seen().len();
    assert!(asked_before < 15, "it was interrupted in the middle");

    let ended = trawler(&place, RUN).await;

    assert_eq!((ended.code, totals(&ended)), (0, [150, 0, 0, 0]));
    assert_eq!(server.seen().len(), 15, "no page was asked for twice");
    assert_eq!(place.read("out/records.jsonl").lines().count(), 150);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_run_loses_nothing_and_restart_begins_anew() {
    let server = portal(100, 10).await;
    let place = place_for(&server, SLOW);
    slowed(&place);
    let mut child = start(&place);
    seen_at_least(&server, 3).await;
    child.kill().unwrap();
    tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
    let asked_before = server.seen().len();

    let ended = trawler(&place, "run -q -f in.yaml -d out --allow-private 127.0.0.0/8 -o json --restart").await;

    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((ended.code, report["run"].as_str()), (0, Some("test-2")));
    assert_eq!(server.seen().len(), asked_before + 10, "everything was asked for again");
    assert_eq!(place.read("out/records.jsonl").lines().count(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_past_its_deadline_fails_and_deletes_nothing() {
    let server = portal(500, 10).await;
    let place = place_for(&server, SLOW);
    slowed(&place);
    let text = place.read("in.yaml").replace("      retries:", "      deadline: 1s\n      retries:");
    place.write("in.yaml", &text);
    let ended = trawler(&place, RUN).await;
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((ended.code, report["outcome"].as_str()), (1, Some("DeadlineExceeded")));
    assert_eq!(report["nodes"][0]["message"], "the run's deadline passed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_run_is_refused() {
    let server = portal(10, 10).await;
    let place = place_for(&server, "");
    let text = place.read("in.yaml").replace("      retries:", "      suspend: true\n      retries:");
    place.write("in.yaml", &text);
    let ended = trawler(&place, RUN).await;
    assert_eq!((ended.code, server.seen().len()), (2, 0));
    assert!(ended.stderr.contains("spec.suspend"), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_deletion_says_how_to_approve_it_and_the_approval_lets_it_go() {
    let gone = Arc::new(AtomicBool::new(false));
    let is_gone = gone.clone();
    let server = HttpServer::start(move |_| {
        let left = if is_gone.load(Ordering::SeqCst) { 10 } else { 60 };
        Reply::ok(page(0..left, left))
    })
    .await;
    let place = place_for(&server, "");
    assert_eq!(totals(&trawler(&place, RUN).await), [60, 0, 0, 0]);
    gone.store(true, Ordering::SeqCst);

    let held = trawler(&place, RUN).await;
    assert_eq!((held.code, totals(&held)), (0, [0, 0, 10, 0]));
    let approval = "trawler.dev/approved-deletions: \"portal#2\"";
    assert!(held.stderr.contains(approval), "{}", held.stderr);
    assert_eq!(place.read("out/records.jsonl").lines().count(), 60);
    let held_again = trawler(&place, RUN).await;
    assert!(held_again.stderr.contains(approval), "the number stays: {}", held_again.stderr);

    let wrong = "trawler.dev/approved-deletions: \"portal#3 prtal#2 portal=2\"";
    let text = place.read("in.yaml");
    place.write("in.yaml", &text.replace("{name: test}", &format!("{{name: test, annotations: {{{wrong}}}}}")));
    let not_approved = trawler(&place, RUN).await;
    assert_eq!(totals(&not_approved), [0, 0, 10, 0]);
    for sentence in [
        "\"portal#3\" in trawler.dev/approved-deletions does not cover the 50 records of portal whose deletion is held \
         now; if they are really gone, write \"portal#2\" and run again",
        "\"prtal#2\" in trawler.dev/approved-deletions approves nothing: nothing is known of \"prtal\"",
        "warning: Catalog/test metadata.annotations.trawler.dev/approved-deletions: \"portal=2\" is no approval",
    ] {
        assert_eq!(not_approved.stderr.matches(sentence).count(), 1, "{sentence}\n{}", not_approved.stderr);
    }
    place.write("in.yaml", &text);

    let text = place.read("in.yaml").replace("{name: test}", &format!("{{name: test, annotations: {{{approval}}}}}"));
    place.write("in.yaml", &text);
    let approved = trawler(&place, RUN).await;
    assert_eq!((approved.code, totals(&approved)), (0, [0, 0, 10, 50]), "{}", approved.stderr);
    assert_eq!(place.read("out/records.jsonl").lines().count(), 10);
    let after = trawler(&place, RUN).await;
    assert!(!after.stderr.contains("approved-deletions"), "it may stay in the annotation: {}", after.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_init_prints_is_valid_and_can_be_run() {
    let server = HttpServer::start(|seen| {
        if seen.target.contains("/api/3/action/package_search") { Reply::ok(page(0..3, 3)) } else { Reply::status(404) }
    })
    .await;
    let place = Arc::new(Workplace::new());
    let url = server.url("/").to_string();
    let there = place.clone();
    let init = move || there.trawler(&["init", &url, "--allow-private", "127.0.0.0/8"]);
    let init = tokio::task::spawn_blocking(init).await.unwrap();
    assert_eq!(init.code, 0, "{}", init.stderr);
    place.write("in.yaml", &init.stdout);
    let valid = trawler(&place, "validate -f in.yaml").await;
    assert_eq!((valid.code, valid.stdout.as_str(), valid.stderr.as_str()), (0, "2 objects are valid\n", ""));
    assert_eq!(totals(&trawler(&place, RUN).await), [3, 0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn init_explains_itself_when_it_can_not_tell() {
    let server = HttpServer::start(|_| Reply::ok("<!doctype html><title>Hello</title>")).await;
    let place = Arc::new(Workplace::new());
    let url = server.url("/").to_string();
    let init = move || place.trawler(&["init", &url, "--allow-private", "127.0.0.0/8"]);
    let init = tokio::task::spawn_blocking(init).await.unwrap();
    assert_eq!((init.code, init.stdout.as_str()), (1, ""));
    assert!(init.stderr.contains("speaks none of the protocols known here"), "{}", init.stderr);
    assert!(init.stderr.contains("dspace-version"), "what was asked is listed: {}", init.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_format_replaces_the_file_and_files_of_others_are_left_alone() {
    let server = portal(3, 10).await;
    let place = place_for(&server, "");
    place.write("out/records.csv", "mine");
    assert_eq!(trawler(&place, RUN).await.code, 0);
    assert_eq!(place.read("out/records.csv"), "mine");

    let turtle = "run -q -f in.yaml -d other --allow-private 127.0.0.0/8 --format turtle";
    assert_eq!(trawler(&place, turtle).await.code, 0);
    assert!(place.read("other/records.ttl").contains("dcat:Dataset"));

    place.write("third/records.jsonl", "mine");
    let refused = trawler(&place, "run -q -f in.yaml -d third --allow-private 127.0.0.0/8").await;
    assert_eq!((refused.code, place.read("third/records.jsonl").as_str()), (2, "mine"));
    assert!(refused.stderr.contains("no run of trawler wrote it"), "{}", refused.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_listed_shown_exported_and_followed() {
    let server = portal(3, 10).await;
    let place = place_for(&server, "");
    trawler(&place, RUN).await;
    let rows: Value = serde_json::from_str(&trawler(&place, "records ls -d out -o json").await.stdout).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 3);
    let record: Value =
        serde_json::from_str(&trawler(&place, "records get -d out d-001 -o json").await.stdout).unwrap();
    assert_eq!(record["title"][0]["value"], "Dataset 1");
    assert_eq!(trawler(&place, "records export -d out").await.stdout, place.read("out/records.jsonl"));
    let changes = trawler(&place, "records changes -d out -o jsonl --after 1").await.stdout;
    assert_eq!(changes.lines().count(), 2, "{changes}");
    let unknown = trawler(&place, "records ls -d out --node nope").await;
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("it has portal"), "{}", unknown.stderr);
}

#[test]
fn plans_are_printed_for_programs_too() {
    let place = Workplace::new();
    place.write("in.yaml", &manifests(&[("portal", "https://portal.example", "")]));
    let json: Value = serde_json::from_str(&place.trawler(&["plan", "-f", "in.yaml", "-o", "json"]).stdout).unwrap();
    let yaml: Value = serde_saphyr::from_str(&place.trawler(&["plan", "-f", "in.yaml", "-o", "yaml"]).stdout).unwrap();
    assert_eq!((json["run"].as_str(), &json), (Some("test-1"), &yaml));
}

#[test]
fn generate_check_fails_on_a_stale_tree_and_names_the_command() {
    let place = Workplace::new();
    assert_eq!(place.trawler(&["generate", "crds"]).code, 0);
    assert_eq!(place.trawler(&["generate", "crds", "--check"]).code, 0);
    place.write("crds/extra.yaml", "x");
    let stale = place.trawler(&["generate", "crds", "--check"]);
    assert_eq!(stale.code, 1);
    assert!(stale.stdout.contains("extra.yaml") && stale.stdout.contains("generate crds"), "{}", stale.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn manifests_are_taken_from_standard_input() {
    let server = portal(3, 10).await;
    let place = place_for(&server, "");
    let there = place.clone();
    let run = move || {
        let text = there.read("in.yaml");
        there.trawler_with_input(&["run", "-q", "-f", "-", "-d", "out", "--allow-private", "127.0.0.0/8"], &text)
    };
    assert_eq!(tokio::task::spawn_blocking(run).await.unwrap().code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn records_beyond_the_limit_of_a_node_are_left_and_nothing_is_deleted() {
    let server = portal(100, 10).await;
    let place = place_for(&server, "  limits: {maxRecords: 30}\n");
    let ended = trawler(&place, RUN).await;
    assert_eq!((ended.code, totals(&ended), server.seen().len()), (3, [30, 0, 0, 0], 3));
    assert!(ended.stderr.contains("maxRecords"), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_can_not_be_read_keeps_what_was_not_seen() {
    let broken = Arc::new(AtomicBool::new(false));
    let is_broken = broken.clone();
    let server = HttpServer::start(move |_| {
        let text = String::from_utf8(page(0..20, 20)).unwrap();
        let text = if is_broken.load(Ordering::SeqCst) { text.replace("\"id\":\"d-003\",", "") } else { text };
        Reply::ok(text)
    })
    .await;
    let place = place_for(&server, "");
    assert_eq!(totals(&trawler(&place, RUN).await), [20, 0, 0, 0]);
    broken.store(true, Ordering::SeqCst);

    let ended = trawler(&place, RUN).await;

    assert_eq!((ended.code, totals(&ended)), (3, [0, 0, 19, 0]), "{}", ended.stderr);
    assert_eq!(place.read("out/records.jsonl").lines().count(), 20);
    broken.store(false, Ordering::SeqCst);
    assert_eq!(totals(&trawler(&place, RUN).await), [0, 0, 20, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_total_below_what_came_is_not_believed() {
    let lies = Arc::new(AtomicBool::new(false));
    let is_lying = lies.clone();
    let server = HttpServer::start(move |seen| {
        let start =
            seen.target.split("start=").nth(1).and_then(|rest| rest.split('&').next()?.parse().ok()).unwrap_or(0);
        let count = if is_lying.load(Ordering::SeqCst) { 9 } else { 30 };
        Reply::ok(page(start..(start + 10).min(30), count))
    })
    .await;
    let place = place_for(&server, "");
    assert_eq!(totals(&trawler(&place, RUN).await), [30, 0, 0, 0]);
    lies.store(true, Ordering::SeqCst);
    let ended = trawler(&place, RUN).await;
    assert_eq!((ended.code, totals(&ended)), (0, [0, 0, 30, 0]), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_that_a_server_echoes_is_not_shown_or_kept() {
    let server = HttpServer::start(|seen| {
        let sent = seen.field("authorization").unwrap_or_default();
        Reply::status(401).body(json!({"success": false, "error": {"message": format!("bad {sent}")}}).to_string())
    })
    .await;
    let place = place_for(&server, "  credentialRef: {name: token}\n");
    place.write("secrets/token/token", "canary-0815");
    let ended =
        trawler(&place, "run -f in.yaml -d out --allow-private 127.0.0.0/8 -o json --secrets-dir secrets --log trace")
            .await;
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("bad Bearer [redacted]"), "{}", ended.stderr);
    for text in [&ended.stdout, &ended.stderr, &place.read("out/report.json")] {
        assert!(!text.contains("canary-0815"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_over_the_size_limit_is_refused() {
    let server = HttpServer::start(|_| Reply::ok(vec![b' '; 2 << 20])).await;
    let place = place_for(&server, "");
    let ended =
        trawler(&place, "run -q -f in.yaml -d out --allow-private 127.0.0.0/8 -o json --max-response-mib 1").await;
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("answered more than 1048576 bytes"), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_failed_tries_are_counted() {
    for reply in [Reply::status(500), Reply::ok("<!doctype html>"), Reply::raw("")] {
        let server = HttpServer::start(move |_| reply.clone()).await;
        let place = place_for(&server, "");
        let ended = trawler(&place, RUN).await;
        let report: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(report["totals"]["requests"].as_u64(), Some(server.seen().len() as u64));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_over_some_of_the_nodes_counts_the_records_of_all() {
    let server = portal(20, 10).await;
    let place = Arc::new(Workplace::new());
    let url = server.url("/");
    let node = |name| (name, url.as_str(), "  protocol: CKAN\n");
    let run = "---\napiVersion: trawler.dev/v1alpha1\nkind: CrawlRun\nmetadata: {name: some}\nspec: {catalogRef: {name: \
               test}, catalogNodeNames: [one]}\n";
    let both = manifests(&[node("one"), node("two")]);
    place.write("in.yaml", &both);
    trawler(&place, RUN).await;
    place.write("in.yaml", &format!("{}\n{run}", both.trim_end()));
    let ended = trawler(&place, RUN).await;
    assert_eq!(totals(&ended), [0, 0, 20, 0], "{}", ended.stderr);
    assert_eq!(place.report("out")["totals"]["records"], 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resumed_run_says_that_the_manifests_ask_for_something_else_now() {
    let server = portal(100, 10).await;
    let place = place_for(&server, "");
    slowed(&place);
    let mut child = start(&place);
    seen_at_least(&server, 2).await;
    child.kill().unwrap();
    child.wait().unwrap();
    let resumed =
        trawler(&place, "run -q -f in.yaml -d out --allow-private 127.0.0.0/8 -o json --mode incremental").await;
    assert!(resumed.stderr.contains("the manifests ask for something else now"), "{}", resumed.stderr);
    assert_eq!(place.report("out")["mode"], "Full");
    let next = trawler(&place, "run -q -f in.yaml -d out --allow-private 127.0.0.0/8 -o json --mode incremental").await;
    assert!(!next.stderr.contains("ask for something else"), "{}", next.stderr);
    assert_eq!(place.report("out")["mode"], "Incremental");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_was_given_up_is_reported_with_what_it_went_through() {
    let server = HttpServer::start(|seen| {
        if seen.target.contains("start=10") { Reply::status(500) } else { Reply::ok(page(0..10, 30)) }
    })
    .await;
    let place = place_for(&server, "");
    trawler(&place, RUN).await;
    let report = place.report("out");
    let failure = &report["nodes"][0]["sections"][0]["failures"][0];
    assert_eq!((&failure["kind"], &failure["page"]), (&json!("Page"), &json!(1)), "{failure}");
    assert!(failure["why"].as_str().unwrap().contains("500"), "{failure}");
    let tries = server.asked().iter().filter(|target| target.contains("start=10")).count();
    let earlier = failure["earlier"].as_array().unwrap();
    assert_eq!(earlier.len() + 1, tries, "{failure}");
    assert!(earlier.iter().all(|earlier| earlier["why"] == failure["why"] && earlier["at"].is_string()), "{failure}");
}

#[tokio::test(flavor = "multi_thread")]
async fn records_without_their_index_are_no_fresh_start() {
    let server = portal(3, 10).await;
    let place = place_for(&server, "");
    trawler(&place, RUN).await;
    std::fs::remove_file(place.path("out/.trawler/index.redb")).unwrap();
    let ended = trawler(&place, RUN).await;
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.contains("its index is missing or empty"), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_self_signed_node_fails_alone_and_is_told_about_ca_ref() {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        )
        .unwrap();
    let (open, signed) = (portal(3, 10).await, HttpServer::start_tls(config, |_| Reply::ok(page(0..3, 3))).await);
    let place = Arc::new(Workplace::new());
    let (open, signed) = (open.url("/").to_string(), signed.url("/").to_string());
    place.write(
        "in.yaml",
        &manifests(&[("open", &open, "  protocol: CKAN\n"), ("signed", &signed, "  protocol: CKAN\n")]),
    );
    let ended = trawler(&place, RUN).await;
    assert_eq!((ended.code, totals(&ended)), (3, [3, 0, 0, 0]), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("signed: ") && ended.stderr.contains("name it in caRef"), "{}", ended.stderr);
}
