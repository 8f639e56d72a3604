//! Nodes that fail over runs: left alone for ever longer, named in the report, and their records let go of in the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use trawler::local::{NodeHealth, NodeResult, Report, RunOutcome};

use crate::support::http_server::{HttpServer, Reply};
use crate::support::local_run::{LocalRuns, node};
use crate::support::trawler::{Workplace, manifests};

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// So many datasets has a portal that lets nobody in.
const LOCKED: usize = usize::MAX;

/// A CKAN portal that can be switched off.
struct Portal {
    server: HttpServer,
    /// How many datasets it has; 0: it is out of order.
    datasets: Arc<AtomicUsize>,
}

impl Portal {
    async fn start(datasets: usize) -> Self {
        let datasets = Arc::new(AtomicUsize::new(datasets));
        let left = datasets.clone();
        let server = HttpServer::start(move |_| match left.load(Ordering::SeqCst) {
            0 => Reply::status(502),
            LOCKED => Reply::status(401),
            count => Reply::ok(page(count)),
        })
        .await;
        Self { server, datasets }
    }

    fn set(&self, datasets: usize) {
        self.datasets.store(datasets, Ordering::SeqCst);
    }

    fn asked(&self) -> usize {
        self.server.seen().len()
    }
}

fn page(count: usize) -> Vec<u8> {
    let results: Vec<Value> = (0..count).map(|id| json!({"id": format!("d-{id:03}"), "title": "A dataset"})).collect();
    json!({"success": true, "result": {"count": count, "results": results}}).to_string().into_bytes()
}

/// A Catalog of these portals, whose tasks are tried once.
fn catalog(portals: &[(&str, &Portal)], spec: &str) -> String {
    let urls: Vec<String> = portals.iter().map(|(_, portal)| portal.server.url("/").to_string()).collect();
    let nodes: Vec<(&str, &str, &str)> =
        portals.iter().zip(&urls).map(|((name, _), url)| (*name, url.as_str(), "  protocol: CKAN\n")).collect();
    manifests(&nodes).replace("{limit: 1,", "{limit: 0,").replace("  runTemplate:", &format!("{spec}  runTemplate:"))
}

fn state(report: &Report, name: &str) -> (NodeResult, NodeHealth, u32, bool) {
    let node = node(report, name);
    (node.state, node.health, node.failures_in_row, node.stale)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_node_is_asked_ever_more_rarely_and_one_success_makes_it_as_all_others() {
    use NodeHealth::{Dead, Offline, Online};
    use NodeResult::{Complete, Failed, Skipped};
    let (good, bad) = (Portal::start(2).await, Portal::start(3).await);
    let text = catalog(&[("bad", &bad), ("good", &good)], "");
    let runs = LocalRuns::new();
    assert_eq!(state(&runs.run(&text).await, "bad"), (Complete, Online, 0, false));
    bad.set(0);

    // A run every minute: three in vain, then it is left alone for a quarter of an hour.
    let mut asked = Vec::new();
    for _ in 0..20 {
        let before = bad.asked();
        let report = runs.run(&text).await;
        asked.push(bad.asked() - before);
        let (result, health, failures, stale) = state(&report, "bad");
        assert_eq!(report.outcome, RunOutcome::PartiallyComplete);
        assert_eq!(result, if bad.asked() > before { Failed } else { Skipped });
        assert_eq!((health == Offline, stale), (failures >= 3, true));
        runs.advance(MINUTE);
    }
    let tried: Vec<usize> = (0..20).filter(|minute| asked[*minute] > 0).collect();
    assert_eq!(tried, [0, 1, 2, 17]);
    assert!(asked.iter().all(|requests| *requests <= 1), "{asked:?}");
    assert_eq!(good.asked(), 21);

    // A run every twelve hours, for a month: dead after a week, then asked once a day, then less.
    let mut asked = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
    let mut health = Online;
    for week in &mut asked {
        for _ in 0..14 {
            runs.advance(12 * HOUR);
            let before = bad.asked();
            health = state(&runs.run(&text).await, "bad").1;
            week.push(bad.asked() - before);
        }
    }
    assert_eq!(health, Dead);
    assert_eq!(asked.map(|week| week.into_iter().sum::<usize>()), [14, 4, 3, 1]);

    bad.set(3);
    runs.advance(7 * DAY);
    assert_eq!(state(&runs.run(&text).await, "bad"), (Complete, Online, 0, false));
    bad.set(0);
    assert_eq!(state(&runs.run(&text).await, "bad"), (Failed, Online, 1, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offline_node_says_since_when_how_often_and_when_it_is_tried_again() {
    let (good, bad) = (Portal::start(2).await, Portal::start(3).await);
    let text = catalog(&[("bad", &bad), ("good", &good)], "");
    let runs = LocalRuns::new();
    let read_at = node(&runs.run(&text).await, "bad").last_read_at.unwrap();
    bad.set(0);
    runs.advance(MINUTE);
    let failing_since = node(&runs.run(&text).await, "bad").failing_since.unwrap();
    runs.run(&text).await;
    let third = runs.run(&text).await;
    let message = node(&third, "bad").message.clone().unwrap();
    assert!(message.contains("; 3 runs in a row failed, so it is offline and not tried before "), "{message}");

    let report = runs.run(&text).await;

    let bad = node(&report, "bad");
    let next_try = bad.next_try_at.unwrap();
    assert_eq!(Some(next_try), node(&third, "bad").next_try_at);
    assert!(next_try > runs.now() && next_try <= runs.now() + 15 * MINUTE, "{next_try}");
    assert_eq!((bad.last_read_at, bad.last_succeeded_at), (Some(read_at), Some(read_at)));
    assert_eq!((bad.failing_since, bad.failures_in_row, bad.totals.records), (Some(failing_since), 3, 3));
    let second = |moment: jiff::Timestamp| moment.round(jiff::Unit::Second).unwrap();
    let expected = format!(
        "offline since {}, 3 runs in a row failed; tried again at {}, or at once if it is named in spec.catalogNodeNames",
        second(failing_since),
        second(next_try)
    );
    assert_eq!(bad.message, Some(expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offline_node_is_tried_when_it_is_named_or_described_anew() {
    let (good, bad) = (Portal::start(2).await, Portal::start(0).await);
    let text = catalog(&[("bad", &bad), ("good", &good)], "");
    let runs = LocalRuns::new();
    for _ in 0..5 {
        runs.run(&text).await;
    }
    assert_eq!(bad.asked(), 3);
    let named = text.replace("      retries:", "      catalogNodeNames: [bad]\n      retries:");
    runs.run(&named).await;
    assert_eq!(bad.asked(), 4);
    let described_anew = text.replace(bad.server.url("/").as_str(), bad.server.url("/data").as_str());
    assert_eq!(state(&runs.run(&described_anew).await, "bad").2, 1);
    assert_eq!(bad.asked(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_nodes_are_all_offline_failed() {
    let bad = Portal::start(0).await;
    let text = catalog(&[("bad", &bad)], "");
    let runs = LocalRuns::new();
    let mut outcomes = Vec::new();
    for _ in 0..4 {
        outcomes.push(runs.run(&text).await.outcome);
    }
    assert_eq!((outcomes, bad.asked()), (vec![RunOutcome::Failed; 4], 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_cut_short_by_a_limit_is_not_failing() {
    let server = HttpServer::start(|seen| {
        let start = if seen.target.contains("start=0") { 0 } else { 2 };
        let results: Vec<Value> =
            (start..start + 2).map(|id| json!({"id": id.to_string(), "title": "A dataset"})).collect();
        Reply::ok(json!({"success": true, "result": {"count": 6, "results": results}}).to_string())
    })
    .await;
    let more = "  protocol: CKAN\n  limits: {maxRecords: 4}\n";
    let text = manifests(&[("portal", server.url("/").as_str(), more)]);
    let runs = LocalRuns::new();
    for _ in 0..4 {
        assert_eq!(state(&runs.run(&text).await, "portal"), (NodeResult::Partial, NodeHealth::Online, 0, false));
    }
}

const SWEEP: &str = "  deletion: {gracePeriod: 48h, afterGracePeriod: Sweep}\n";

/// Records in the file.
fn lines(runs: &LocalRuns) -> usize {
    std::fs::read_to_string(runs.path("records.jsonl")).unwrap().lines().count()
}

/// Runs every twelve hours while a portal of so many datasets is out of order; what is deleted in each.
async fn outage(runs: &LocalRuns, text: &str, portal: &Portal, hours: u32) -> Vec<u64> {
    portal.set(0);
    let mut deleted = Vec::new();
    for _ in (0..=hours).step_by(12) {
        deleted.push(runs.run(text).await.totals.deleted);
        runs.advance(12 * HOUR);
    }
    deleted
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_a_node_that_fails_for_longer_than_the_grace_period_are_swept_if_that_is_asked_for() {
    let (good, bad) = (Portal::start(2).await, Portal::start(3).await);
    let text = catalog(&[("bad", &bad), ("good", &good)], SWEEP);
    let runs = LocalRuns::new();
    runs.run(&text).await;

    let deleted = outage(&runs, &text, &bad, 48).await;

    assert_eq!(deleted, [0, 0, 0, 0, 3]);
    assert_eq!(lines(&runs), 2);
    // It comes back, and its records are new.
    bad.set(3);
    let back = runs.run(&text).await;
    assert_eq!((back.totals.added, back.totals.unchanged, lines(&runs)), (3, 2, 5));
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_kept_for_ever_if_nothing_else_is_asked_for() {
    let (good, bad) = (Portal::start(2).await, Portal::start(3).await);
    let text = catalog(&[("bad", &bad), ("good", &good)], "  deletion: {gracePeriod: 48h}\n");
    let runs = LocalRuns::new();
    runs.run(&text).await;
    assert_eq!(outage(&runs, &text, &bad, 96).await.into_iter().sum::<u64>(), 0);
    assert_eq!(lines(&runs), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_was_off_for_longer_than_the_grace_period_deletes_nothing() {
    let (good, bad) = (Portal::start(2).await, Portal::start(3).await);
    let text = catalog(&[("bad", &bad), ("good", &good)], SWEEP);
    let runs = LocalRuns::new();
    runs.run(&text).await;
    runs.advance(30 * DAY);
    assert_eq!(outage(&runs, &text, &bad, 36).await.into_iter().sum::<u64>(), 0);
    assert_eq!(lines(&runs), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_ones_own_deletes_nothing() {
    let (one, other) = (Portal::start(2).await, Portal::start(3).await);
    let text = catalog(&[("one", &one), ("other", &other)], SWEEP);
    let runs = LocalRuns::new();
    runs.run(&text).await;
    one.set(0);
    assert_eq!(outage(&runs, &text, &other, 96).await.into_iter().sum::<u64>(), 0);
    assert_eq!(lines(&runs), 5);
    // One comes back: from now on it is the other's own fault.
    one.set(2);
    assert_eq!(outage(&runs, &text, &other, 48).await, [0, 0, 0, 0, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_are_left_alone_after_an_outage_of_ones_own_keep_their_records() {
    let (one, other) = (Portal::start(2).await, Portal::start(3).await);
    let text = catalog(
        &[("one", &one), ("other", &other)],
        &format!("{SWEEP}  nodeHealth: {{offline: {{afterFailures: 2, initialRecrawlInterval: 4h}}}}\n"),
    );
    let runs = LocalRuns::new();
    runs.run(&text).await;
    one.set(0);
    other.set(0);
    runs.run(&text).await;
    runs.advance(49 * HOUR);
    runs.run(&text).await;
    let asked = (one.asked(), other.asked());
    assert_eq!(asked, (3, 3));

    let left_alone = runs.run(&text).await;

    assert_eq!((one.asked(), other.asked()), asked);
    assert_eq!((left_alone.totals.deleted, lines(&runs)), (0, 5));
    // Back is one only, and the other is not tried: that it failed during the outage says nothing of it.
    one.set(2);
    let named = text.replace("      retries:", "      catalogNodeNames: [one]\n      retries:");
    runs.run(&named).await;
    let back = runs.run(&text).await;
    assert_eq!((one.asked(), other.asked()), (5, 3));
    assert_eq!((back.totals.deleted, lines(&runs)), (0, 5));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_only_node_that_was_tried_of_several_keeps_its_records() {
    let (bad, slow) = (Portal::start(3).await, Portal::start(2).await);
    let text = catalog(&[("bad", &bad), ("slow", &slow)], SWEEP);
    let interval = format!("  endpoint: {}\n", slow.server.url("/"));
    assert!(text.contains(&interval), "{text}");
    let text = text.replace(&interval, &format!("{interval}  recrawlInterval: 720h\n"));
    let runs = LocalRuns::new();
    runs.run(&text).await;
    assert_eq!(outage(&runs, &text, &bad, 96).await.into_iter().sum::<u64>(), 0);
    assert_eq!((slow.asked(), lines(&runs)), (1, 5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_lets_us_in_no_more_keeps_its_records() {
    use NodeResult::Skipped;
    let (good, locked) = (Portal::start(2).await, Portal::start(3).await);
    let text = catalog(&[("good", &good), ("locked", &locked)], SWEEP);
    let runs = LocalRuns::new();
    runs.run(&text).await;
    locked.set(LOCKED);
    for _ in 0..9 {
        assert_eq!(runs.run(&text).await.totals.deleted, 0);
        runs.advance(12 * HOUR);
    }
    assert_eq!(lines(&runs), 5);
    // It counts as failed all the same, and is tried less often.
    runs.run(&text).await;
    assert_eq!(state(&runs.run(&text).await, "locked"), (Skipped, NodeHealth::Offline, 10, true));
    // What comes after the refusal counts from then on.
    assert_eq!(outage(&runs, &text, &locked, 48).await, [0, 0, 0, 0, 0]);
    assert_eq!(runs.run(&text).await.totals.deleted, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_over_other_nodes_sweeps_nothing_of_a_node_that_fails() {
    let (good, bad) = (Portal::start(2).await, Portal::start(3).await);
    let text = catalog(&[("bad", &bad), ("good", &good)], SWEEP);
    let runs = LocalRuns::new();
    runs.run(&text).await;
    outage(&runs, &text, &bad, 36).await;
    runs.advance(30 * DAY);
    let others = text.replace("      retries:", "      catalogNodeNames: [good]\n      retries:");
    assert_eq!(runs.run(&others).await.totals.deleted, 0);
    assert_eq!(lines(&runs), 5);
    assert_eq!(runs.run(&text).await.totals.deleted, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guard_holds_what_has_outlived_the_grace_period_until_a_person_lets_it_go() {
    let (good, bad) = (Portal::start(2).await, Portal::start(60).await);
    let text = catalog(&[("bad", &bad), ("good", &good)], SWEEP);
    let runs = LocalRuns::new();
    runs.run(&text).await;
    assert_eq!(outage(&runs, &text, &bad, 48).await.into_iter().sum::<u64>(), 0);
    let held = runs.run(&text).await;
    let message = node(&held, "bad").message.clone().unwrap();
    let (_, rest) = message.split_once("trawler.dev/approved-deletions: \"").unwrap_or_else(|| panic!("{message}"));
    let approval = rest.split_once('"').unwrap().0;
    assert!(message.contains("its records have outlived spec.deletion.gracePeriod"), "{message}");

    let annotation = format!("{{name: test, annotations: {{trawler.dev/approved-deletions: \"{approval}\"}}}}");
    let report = runs.run(&text.replace("{name: test}", &annotation)).await;

    assert_eq!((report.totals.deleted, lines(&runs)), (60, 2), "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_node_is_marked_in_the_summary_and_among_the_records() {
    let (good, bad) = (Portal::start(1).await, Portal::start(1).await);
    let text = catalog(&[("bad", &bad), ("good", &good)], "");
    let place = Arc::new(Workplace::new());
    place.write("in.yaml", &text);
    let trawler = async |arguments: &'static str| {
        let place = place.clone();
        let run = move || place.trawler(&arguments.split(' ').collect::<Vec<_>>());
        tokio::task::spawn_blocking(run).await.unwrap()
    };
    let run = "run -q -f in.yaml -d out --allow-private 127.0.0.0/8";
    trawler(run).await;
    bad.set(0);
    for (ending, state) in
        [("in vain", "failed (stale)"), ("in vain", "failed (stale)"), ("offline", "failed (offline, stale)")]
    {
        let ended = trawler(run).await;
        assert!((ended.code, ended.stdout.contains(state)) == (3, true), "{ending}: {}", ended.stdout);
    }
    let ended = trawler(run).await;
    assert!(ended.stdout.contains("skipped (offline, stale)"), "{}", ended.stdout);
    assert!(ended.stderr.contains("bad: offline since "), "{}", ended.stderr);

    let rows: Value = serde_json::from_str(&trawler("records ls -d out -o json").await.stdout).unwrap();
    let stale: Vec<&Value> = rows.as_array().unwrap().iter().map(|row| &row["stale"]).collect();
    assert_eq!(stale, [true, false]);
    let table = trawler("records ls -d out").await.stdout;
    assert!(table.contains("bad (stale)") && !table.contains("good (stale)"), "{table}");
    let sheet = trawler("records get -d out d-000 --node bad").await.stdout;
    assert!(sheet.contains("Stale since"), "{sheet}");
}
