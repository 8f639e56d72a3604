//! Golden cases of the planner: `tests/golden/planner/NAME.yaml` (what was observed, then manifests) gives
//! `NAME.plan.yaml`. `UPDATE_GOLDEN=1 cargo test --test it planner` writes what the planner says now.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use trawler::api::{Catalog, CatalogNode, CrawlRun, CrawlRunSpec, ObjectRef, RunSettings, ThrottlePolicy};
use trawler::planner::{
    CrawlerState, InstanceSnapshot, NodeObservation, NodeSpending, QueueObservation, RunDemand, RunSnapshot,
    SpentObservation, plan_run, plan_shares, spec_hash, uncounted,
};
use trawler::queue::{ClosedOrigin, Ledger};
use trawler::task::{NodeName, RunId};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Observed {
    now: Timestamp,
    started_at: Timestamp,
    #[serde(default)]
    token_share: Option<u32>,
    #[serde(default)]
    interrupted: bool,
    #[serde(default)]
    queue: Option<ObservedQueue>,
    #[serde(default)]
    running_tokens: Vec<u32>,
    #[serde(default)]
    last_crawled_at: BTreeMap<String, Timestamp>,
    /// Nodes that failed: how often, since when, and when last.
    #[serde(default)]
    failing: BTreeMap<String, Failing>,
    /// What nodes have spent before.
    #[serde(default)]
    spendings: Vec<NodeSpending>,
    /// The process before did not end in order.
    #[serde(default)]
    crashed: bool,
    /// Origins that earlier processes were to leave alone.
    #[serde(default)]
    closed_origins: Vec<ClosedOrigin>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Failing {
    failures: u32,
    since: Timestamp,
    last: Timestamp,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ObservedQueue {
    ledger: Ledger,
    ready: u64,
    #[serde(default)]
    frozen: bool,
}

#[test]
fn every_golden_case_is_planned_as_written() {
    let cases = golden_cases();
    assert!(cases.len() >= 10, "only {} cases were found", cases.len());
    let wrong: Vec<String> = cases.iter().filter_map(|case| difference(case)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn planning_the_same_snapshot_twice_gives_the_same_plan() {
    for case in golden_cases() {
        let snapshot = read_case(&case);
        assert_eq!(plan_run(&snapshot), plan_run(&snapshot), "{}", case.display());
    }
}

#[test]
fn no_plan_starts_more_crawlers_than_tokens_or_one_token_twice() {
    for case in golden_cases() {
        let snapshot = read_case(&case);
        let running: Vec<u32> = snapshot.crawlers.iter().map(|crawler| crawler.token).collect();
        let mut tokens: Vec<u32> = plan_run(&snapshot)
            .steps
            .into_iter()
            .filter_map(|step| match step {
                trawler::planner::Step::StartCrawler { token, .. } => Some(token),
                _ => None,
            })
            .chain(running)
            .collect();
        let count = tokens.len();
        tokens.sort_unstable();
        tokens.dedup();
        assert_eq!(tokens.len(), count, "a token is given twice in {}", case.display());
        assert!(count <= snapshot.spec.settings.tokens as usize, "too many crawlers in {}", case.display());
    }
}

fn golden_cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/planner");
    let mut cases: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "yaml"))
        .filter(|path| !path.to_string_lossy().ends_with(".plan.yaml"))
        .collect();
    cases.sort();
    cases
}

fn difference(case: &Path) -> Option<String> {
    let planned = serde_saphyr::to_string(&plan_run(&read_case(case))).unwrap();
    let golden = case.with_extension("plan.yaml");
    if std::env::vars().any(|(name, _)| name == "UPDATE_GOLDEN") {
        std::fs::write(&golden, &planned).unwrap();
    }
    let expected = std::fs::read_to_string(&golden).unwrap_or_default();
    if planned == expected {
        return None;
    }
    let diff = similar::TextDiff::from_lines(&expected, &planned);
    Some(format!("{}:\n{}", golden.display(), diff.unified_diff().header("golden", "planned")))
}

fn read_case(path: &Path) -> RunSnapshot {
    let text = std::fs::read_to_string(path).unwrap();
    let mut documents = text.split("\n---\n").map(|document| {
        serde_saphyr::from_str::<serde_json::Value>(document)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    });
    let observed: Observed = typed(documents.next().unwrap(), path);
    let (mut catalog, mut run, mut nodes, mut policies) = (None, None, Vec::new(), Vec::new());
    for document in documents {
        match document["kind"].as_str() {
            Some("Catalog") => catalog = Some(typed::<Catalog>(document, path)),
            Some("CrawlRun") => run = Some(typed::<CrawlRun>(document, path).spec),
            Some("CatalogNode") => nodes.push(typed::<CatalogNode>(document, path)),
            Some("ThrottlePolicy") => policies.push(typed::<ThrottlePolicy>(document, path)),
            other => panic!("{}: kind {other:?}", path.display()),
        }
    }
    let catalog = catalog.unwrap();
    let spec = run.unwrap_or_else(|| CrawlRunSpec {
        catalog_ref: ObjectRef::from("federation"),
        settings: catalog.spec.run_template.spec.clone(),
    });
    let crawled = observed.last_crawled_at.iter().map(|(name, at)| {
        let observation = NodeObservation { last_crawled_at: Some(*at), ..NodeObservation::default() };
        (NodeName::from(name.as_str()), observation)
    });
    let failing = nodes.iter().filter_map(|node| {
        let name = node.metadata.name.as_deref()?;
        let Failing { failures, since, last } = *observed.failing.get(name)?;
        let observation = NodeObservation {
            last_crawled_at: Some(last),
            failures_in_row: failures,
            failing_since: Some(since),
            spec_hash: Some(spec_hash(&node.spec)),
        };
        Some((NodeName::from(name), observation))
    });
    let remembered: BTreeMap<NodeName, NodeObservation> = crawled.chain(failing).collect();
    RunSnapshot {
        now: observed.now,
        run: RunId::from("federation-1"),
        started_at: observed.started_at,
        token_share: observed.token_share.unwrap_or(spec.settings.tokens),
        free_tokens: None,
        starts_for_eligible_work_only: false,
        spec,
        catalog: Arc::new(catalog),
        nodes: nodes.into(),
        policies: policies.into(),
        remembered: remembered.into(),
        spent: Arc::new(SpentObservation { spendings: observed.spendings, ended_in_order: !observed.crashed }),
        closed_origins: observed.closed_origins.into(),
        queue: observed.queue.map(|queue| QueueObservation {
            ledger: queue.ledger,
            ready: queue.ready,
            frozen: queue.frozen,
            next_opening: None,
        }),
        crawlers: observed
            .running_tokens
            .into_iter()
            .map(|token| CrawlerState { token, group: "default".to_owned(), running: true })
            .collect(),
        interrupted: observed.interrupted,
    }
}

fn typed<T: DeserializeOwned>(document: serde_json::Value, path: &Path) -> T {
    serde_json::from_value(document).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn demand(name: &str, wanted: u32, weight: u32, priority: i32) -> RunDemand {
    RunDemand { run: RunId::from(name), wanted, weight, priority, waiting_since: None }
}

fn shares(tokens: u32, runs: Vec<RunDemand>) -> Vec<(String, u32)> {
    let now = "2026-11-30T12:00:00Z".parse().unwrap();
    let shares = plan_shares(&InstanceSnapshot { now, tokens, runs });
    shares.into_iter().map(|(run, share)| (run.to_string(), share)).collect()
}

#[test]
fn equal_runs_share_tokens_equally() {
    let runs = vec![demand("a", 9, 1, 0), demand("b", 9, 1, 0), demand("c", 9, 1, 0)];
    assert_eq!(shares(7, runs), [("a".into(), 3), ("b".into(), 2), ("c".into(), 2)]);
}

#[test]
fn tokens_follow_weights() {
    assert_eq!(
        shares(8, vec![demand("heavy", 9, 3, 0), demand("light", 9, 1, 0)]),
        [("heavy".into(), 6), ("light".into(), 2)]
    );
}

#[test]
fn nobody_gets_more_than_it_wants_and_nothing_is_left_idle() {
    assert_eq!(
        shares(10, vec![demand("big", 20, 1, 0), demand("small", 2, 1, 0)]),
        [("big".into(), 8), ("small".into(), 2)]
    );
}

#[test]
fn higher_priority_is_served_first() {
    assert_eq!(
        shares(4, vec![demand("high", 3, 1, 5), demand("low", 9, 1, 0)]),
        [("high".into(), 3), ("low".into(), 1)]
    );
}

#[test]
fn who_waits_long_enough_overtakes_a_higher_priority() {
    let now: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
    let mut old = demand("old", 2, 1, 0);
    old.waiting_since = Some(now - std::time::Duration::from_hours(1));
    assert_eq!(shares(2, vec![demand("high", 2, 1, 5), old]), [("high".into(), 0), ("old".into(), 2)]);
}

#[test]
fn as_many_requests_as_may_have_been_under_way_in_a_crash_count_for_each_budget() {
    let case =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/planner/after-a-crash-short-windows-start-spent.yaml");
    let RunSnapshot { now, nodes, policies, spec, .. } = read_case(&case);
    let spending = |node: &str, calls| NodeSpending { node: node.into(), at: now, calls, documents: 0, bytes: 0 };
    // acme shares a budget of three requests at a time, of which one may cost five calls; other has the default.
    let expected = [spending("other", 4), spending("acme", 15)];
    assert_eq!(uncounted(&nodes, &policies, &spec.settings, now), expected);
}

#[test]
fn a_crash_costs_no_more_than_the_origins_of_a_budget_are_asked_at_a_time() {
    let now: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
    let node = |name: &str, host: &str, policy: &str| -> CatalogNode {
        serde_json::from_value(serde_json::json!({
            "apiVersion": "trawler.dev/v1alpha1", "kind": "CatalogNode", "metadata": {"name": name},
            "spec": {"endpoint": format!("https://{host}.example/{name}"), "protocol": "CKAN",
                "throttlePolicyRef": {"name": policy}},
        }))
        .unwrap()
    };
    let policy = |name: &str, most: Option<u32>| -> ThrottlePolicy {
        serde_json::from_value(serde_json::json!({
            "apiVersion": "trawler.dev/v1alpha1", "kind": "ThrottlePolicy", "metadata": {"name": name},
            "spec": {"limits": [{"unit": "ApiCalls", "amount": 100, "period": "24h"}], "budgetPer": "Policy",
                "maxConcurrent": most},
        }))
        .unwrap()
    };
    let nodes = [
        node("a", "one", "open"),
        node("b", "one", "open"),
        node("c", "one", "wide"),
        node("d", "two", "wide"),
        node("e", "one", "huge"),
        node("f", "one", "narrow"),
    ];
    let policies = [policy("open", None), policy("wide", None), policy("huge", Some(500)), policy("narrow", Some(3))];
    let settings = RunSettings::default();
    let calls = |settings| -> BTreeMap<String, u64> {
        let spendings = uncounted(&nodes, &policies, settings, now).into_iter();
        spendings.map(|spending| (spending.node.to_string(), spending.calls)).collect()
    };
    let expected = |calls: [u64; 4]| ["a", "c", "e", "f"].map(str::to_owned).into_iter().zip(calls).collect();
    assert!(settings.tokens * settings.crawler.concurrency > 16);
    assert_eq!(calls(&settings), expected([8, 16, 8, 3]));
    let mut small = settings.clone();
    (small.tokens, small.crawler.concurrency) = (1, 5);
    assert_eq!(calls(&small), expected([5, 5, 5, 3]));
}
