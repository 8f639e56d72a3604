//! Histories made up to be judged: first one without fault, then each fault, and what the judge says of it.

use std::time::Duration;

use crate::faults::FAULTS;
use crate::laws::{Crawl, judge_traffic};
use crate::log::Seen;
use crate::rules::{Budget, Limit, Rules, Unit};
use crate::stored::{Key, Stored, Truth};
use crate::verdict::{Law, Verdict};

const START: i64 = 1_800_000_000_000_000;
const SECOND: i64 = 1_000_000;
const MS: i64 = 1000;

fn limit(unit: Unit, amount: u64, seconds: u64) -> Limit {
    Limit { unit, amount, period: Duration::from_secs(seconds), even: false }
}

fn rules(limits: &[Limit]) -> Rules {
    let nodes = ["a", "b"].map(str::to_owned).into();
    let budget = Budget { name: "gentle".into(), nodes, limits: limits.to_vec(), max_concurrent: Some(4) };
    Rules::new(vec![budget])
}

fn ten_a_second() -> Rules {
    rules(&[limit(Unit::ApiCalls, 10, 1)])
}

/// A request that is answered within 4 ms with a page of five.
fn asked(node: &str, page: u32, arrived: i64) -> Seen {
    Seen {
        arrived: START + arrived,
        answered: START + arrived + 4 * MS,
        origin: format!("{node}.example"),
        node: node.into(),
        request: format!("GET /?page={page}"),
        status: 200,
        records: 5,
        bytes: 1000,
        opens: u32::from(page + 1 < PAGES),
        retry_after: None,
    }
}

const PAGES: u32 = 30;

/// Two nodes of 30 pages, under one budget of ten calls a second, which are made as soon as they are allowed.
fn traffic() -> Vec<Seen> {
    let arrival = |number: u32| i64::from(number / 10) * SECOND + i64::from(number % 10) * 5 * MS;
    (0..2 * PAGES).map(|number| asked(["a", "b"][number as usize % 2], number / 2, arrival(number))).collect()
}

/// The second run: in each node records 0 to 9 were removed since the first, 10 was edited, and the last ten are new.
fn crawl() -> Crawl {
    let records = |ids: std::ops::Range<u32>, version: u32| {
        ["a", "b"].into_iter().flat_map(move |node| {
            ids.clone().map(move |id| {
                let content = format!("{{\"version\":{}}}", if id == 10 { version } else { 1 });
                (Key::new(node, &format!("{node}-{id:03}")), content)
            })
        })
    };
    let truth = Truth { now: records(10..160, 2).collect(), ever: records(0..160, 1).map(|(key, _)| key).collect() };
    let (before, after) = (Stored(records(0..150, 1).collect()), Stored(records(10..160, 2).collect()));
    Crawl { seen: traffic(), truth, before, after }
}

fn sentences(verdict: &Verdict) -> Vec<&str> {
    verdict.sentences()
}

#[test]
fn a_history_without_fault_is_clean_and_uses_what_is_allowed() {
    let verdict = crawl().judge(&ten_a_second());
    verdict.assert_clean();
    assert!(verdict.used[0].share > 0.95, "{verdict}");
    assert!(verdict.late_ms < 1.0, "{verdict}");
}

#[test]
fn every_seeded_fault_is_caught_for_its_reason_and_no_other() {
    for (name, fault, law) in FAULTS {
        let mut crawl = crawl();
        fault(&mut crawl);
        let verdict = crawl.judge(&ten_a_second());
        assert_eq!(verdict.broken(), [law], "{name}:\n{verdict}");
    }
}

#[test]
fn a_verdict_names_law_node_window_and_numbers() {
    let said: Vec<String> = FAULTS
        .iter()
        .flat_map(|(_, fault, _)| {
            let mut crawl = crawl();
            fault(&mut crawl);
            let verdict = crawl.judge(&ten_a_second());
            verdict.violations.into_iter().map(|violation| format!("{:?}: {}", violation.law, violation.sentence))
        })
        .collect();
    assert_eq!(
        said,
        [
            "Lost: node a: served and not held: 5 records, a-150 and others",
            "Doubled: node a: held more than once: a-010",
            "Stranger: node a: held, though no server ever had it: nobody's",
            "Stale: node a: held in another version than the one served: a-010",
            "Swept: node a: deleted, though it still exists: a-010",
            "KeptGone: node a: held, though a complete traversal did not see it: a-000",
            "Window: budget \"gentle\": 11 requests arrived within 0.000 s from 0.000 s on; at most 10 are allowed in any \
             1.000 s, of which 0.250 s are forgiven for the way from permit to server",
            "Use: budget \"gentle\": of what was allowed 62.4 % was used while work waited, for 8.0 s; at least 90 % is to be",
            "Concurrency: budget \"gentle\": 5 requests were under way at 0.020 s; at most 4 may be",
            "Pause: origin a.example: GET /?page=20 of node a arrived at 4.000 s, but 0.996 s before it had asked to be left \
             alone for 5.000 s",
        ]
    );
}

#[test]
fn after_a_partial_traversal_nothing_may_be_missing() {
    let mut crawl = crawl();
    crawl.seen.pop();
    crawl.after = Stored(
        crawl
            .before
            .0
            .iter()
            .chain(&crawl.after.0)
            .cloned()
            .collect::<std::collections::BTreeMap<_, _>>()
            .into_iter()
            .collect(),
    );
    // Node b's last page was not read: what it held before must be kept, gone or not; node a was read to its end.
    crawl.after.0.retain(|(key, _)| crawl.truth.now.contains_key(key) || key.node == "b");
    crawl.judge(&ten_a_second()).assert_clean();
    crawl.after.0.retain(|(key, _)| key.id != "b-000");
    assert_eq!(
        sentences(&crawl.judge(&ten_a_second())),
        ["node b: deleted, though the traversal was not complete: b-000"]
    );
    crawl.after.0.retain(|(key, _)| key.node == "a");
    crawl.before.0.clear();
    assert_eq!(sentences(&crawl.judge(&ten_a_second())), ["node b: 145 records were served, 0 are held"]);
}

#[test]
fn calls_that_are_to_be_spread_may_not_burst() {
    let even = Rules { must_use: false, ..rules(&[Limit { even: true, ..limit(Unit::ApiCalls, 10, 1) }]) };
    assert_eq!(judge_traffic(&traffic(), &even).broken(), [Law::Spread]);
    let spread: Vec<Seen> = (0..60).map(|number| asked("a", number, i64::from(number) * 100 * MS)).collect();
    judge_traffic(&spread, &even).assert_clean();
}

/// Pages of five documents, at most 20 a second: four requests each second, and one that was under way.
#[test]
fn documents_may_be_overshot_by_what_is_under_way_and_must_be_paid() {
    let rules = rules(&[limit(Unit::Documents, 20, 1)]);
    let four_each = |period: i64| -> Vec<Seen> {
        (0..40)
            .map(|number| asked("a", number, i64::from(number / 4) * period + i64::from(number % 4) * 10 * MS))
            .collect()
    };
    judge_traffic(&four_each(SECOND + 35 * MS), &rules).assert_clean();

    let mut late = four_each(SECOND + 35 * MS);
    late.insert(4, Seen { request: "GET /?page=late".into(), opens: 0, ..asked("a", 0, 800 * MS) });
    assert_eq!(judge_traffic(&late, &rules).broken(), [Law::PostPaid]);

    let five_each = |period: i64| -> Vec<Seen> {
        (0..50)
            .map(|number| asked("a", number, i64::from(number / 5) * period + i64::from(number % 5) * 5 * MS))
            .collect()
    };
    judge_traffic(&five_each(1250 * MS), &rules).assert_clean();
    assert_eq!(judge_traffic(&five_each(1035 * MS), &rules).broken(), [Law::PostPaid]);
}

#[test]
fn a_limit_that_another_one_covers_need_not_be_used() {
    let both = rules(&[limit(Unit::ApiCalls, 10, 1), limit(Unit::ApiCalls, 1000, 1)]);
    judge_traffic(&traffic(), &both).assert_clean();
    let wider = rules(&[limit(Unit::ApiCalls, 20, 1)]);
    assert_eq!(judge_traffic(&traffic(), &wider).broken(), [Law::Use]);
}

#[test]
fn a_pushback_without_retry_after_asks_for_a_pause_too() {
    let mut seen = traffic();
    seen[20] = Seen { status: 503, opens: 0, ..seen[20].clone() };
    let rules = Rules { must_use: false, ..ten_a_second() };
    assert_eq!(judge_traffic(&seen, &rules).broken(), [Law::Pause]);
    // Node a's server is left alone for two seconds; node b's need not be.
    let pause = START + 2 * SECOND..START + 4 * SECOND + 10 * MS;
    seen.retain(|seen| seen.node == "b" || seen.status == 503 || !pause.contains(&seen.arrived));
    judge_traffic(&seen, &rules).assert_clean();
}
