//! What is remembered between runs of a node, and of its documents.

use std::collections::BTreeMap;

use trawler::finding::{Checkpoint, Limited, Validators};
use trawler::record::ContentHash;
use trawler::store::*;

use super::contract;
use super::harness::*;

contract!(
    a_node_remembers_its_successes_and_failures,
    a_node_is_missing_since_the_latest_failures_that_prove_it,
    a_jump_of_the_clock_is_no_outage,
    failures_of_a_node_that_was_described_differently_do_not_count,
    a_node_that_is_recorded_again_in_a_run_counts_once,
    validators_take_effect_when_one_task_was_the_whole_traversal,
    validators_of_an_unchanged_document_are_kept,
    validators_do_not_outlive_a_partial_traversal_that_wrote,
    validators_are_forgotten_while_a_sweep_is_held,
    a_checkpoint_takes_effect_when_the_traversal_is_complete,
    a_checkpoint_is_for_incremental_runs_only,
);

/// Runs over one node, each with how it was read, when, and the spec it was crawled with; what is remembered after each.
async fn remembered_after(subject: &Subject, runs: &[(NodeReading, i64, &str)]) -> Vec<NodeState> {
    let mut states = Vec::new();
    for (reading, second, spec) in runs {
        let run = subject.begin().await;
        let outcome = NodeOutcome { spec_hash: ContentHash::of(spec.as_bytes()), ..outcome(*reading, *second) };
        subject.store().record_node(&run, &"acme".into(), outcome).await.unwrap();
        subject.finish(&run).await;
        let nodes = subject.store().nodes(&subject.catalog).await.unwrap();
        assert_eq!(nodes.len(), 1);
        states.extend(nodes.into_values());
    }
    states
}

/// What is remembered of a node whose last run is over.
fn state(succeeded: i64, read: i64, crawled: i64, failing: Option<(u32, i64)>, spec: &str) -> NodeState {
    NodeState {
        last_succeeded_at: Some(at(succeeded)),
        last_read_at: Some(at(read)),
        last_crawled_at: Some(at(crawled)),
        failures_in_row: failing.map_or(0, |(count, _)| count),
        failing_since: failing.map(|(_, since)| at(since)),
        missing_since: failing.map(|(_, since)| at(since)),
        spec_hash: Some(ContentHash::of(spec.as_bytes())),
        records: 2,
    }
}

async fn a_node_remembers_its_successes_and_failures(subject: Subject) {
    use NodeReading::{Complete, Nothing, Partial};
    subject.crawl(&root("acme"), page(1, &["a", "b"])).await;
    let runs = [Complete, Nothing, Nothing, Partial, Nothing, Complete];
    let runs: Vec<_> =
        runs.into_iter().zip((10..).step_by(10)).map(|(reading, second)| (reading, second, "")).collect();
    let expected = [
        state(10, 10, 10, None, ""),
        state(10, 10, 20, Some((1, 20)), ""),
        state(10, 10, 30, Some((2, 20)), ""),
        state(10, 40, 40, None, ""),
        state(10, 40, 50, Some((1, 50)), ""),
        state(60, 60, 60, None, ""),
    ];
    assert_eq!(remembered_after(&subject, &runs).await, expected);
}

async fn a_node_is_missing_since_the_latest_failures_that_prove_it(subject: Subject) {
    use NodeReading::{Complete, Inconclusive, Nothing};
    subject.crawl(&root("acme"), page(1, &["a", "b"])).await;
    let readings = [Complete, Inconclusive, Nothing, Nothing, Inconclusive, Nothing, Complete];
    let runs: Vec<_> = readings.into_iter().zip(1..).map(|(reading, second)| (reading, second, "")).collect();
    let states = remembered_after(&subject, &runs).await;
    let failures: Vec<_> = states.iter().map(|state| (state.failures_in_row, state.missing_since)).collect();
    let missing = |second| Some(at(second));
    assert_eq!(
        failures,
        [(0, None), (1, None), (2, missing(3)), (3, missing(3)), (4, None), (5, missing(6)), (0, None)]
    );
}

async fn a_jump_of_the_clock_is_no_outage(subject: Subject) {
    use NodeReading::Nothing;
    const MONTH: i64 = 31 * 24 * 3600;
    // Forward by decades, on by as much as a pause may last, and back.
    let decades = 1_800_000_000;
    let seconds = [1, 2, decades, decades + MONTH, decades + 2 * MONTH + 1, 5, 6];
    let runs: Vec<_> = seconds.into_iter().map(|second| (Nothing, second, "")).collect();
    let states = remembered_after(&subject, &runs).await;
    let since: Vec<_> = states.iter().map(|state| (state.failing_since, state.missing_since)).collect();
    let expected = [(1, 1), (1, 1), (1, decades), (1, decades), (1, decades + 2 * MONTH + 1), (1, 5), (1, 5)];
    assert_eq!(since, expected.map(|(failing, missing)| (Some(at(failing)), Some(at(missing)))));
    let first_in_the_future = [(Nothing, 9, "mended"), (Nothing, 3, "mended")];
    let states = remembered_after(&subject, &first_in_the_future).await;
    assert_eq!((states[1].failing_since, states[1].missing_since), (Some(at(3)), Some(at(3))));
}

async fn failures_of_a_node_that_was_described_differently_do_not_count(subject: Subject) {
    use NodeReading::{Complete, Nothing};
    subject.crawl(&root("acme"), page(1, &["a", "b"])).await;
    let runs =
        [(Complete, 1, "old"), (Nothing, 2, "old"), (Nothing, 3, "old"), (Nothing, 4, "new"), (Nothing, 5, "new")];
    let expected = [
        state(1, 1, 1, None, "old"),
        state(1, 1, 2, Some((1, 2)), "old"),
        state(1, 1, 3, Some((2, 2)), "old"),
        state(1, 1, 4, Some((1, 4)), "new"),
        state(1, 1, 5, Some((2, 4)), "new"),
    ];
    assert_eq!(remembered_after(&subject, &runs).await, expected);
}

async fn a_node_that_is_recorded_again_in_a_run_counts_once(mut subject: Subject) {
    let run = subject.begin().await;
    for (second, reading) in [(1, NodeReading::Nothing), (2, NodeReading::Complete), (3, NodeReading::Nothing)] {
        subject.store().record_node(&run, &"acme".into(), outcome(reading, second)).await.unwrap();
        subject.next_process();
    }
    let state = NodeState {
        last_crawled_at: Some(at(3)),
        failures_in_row: 1,
        failing_since: Some(at(3)),
        missing_since: Some(at(3)),
        spec_hash: Some(ContentHash::of(b"spec")),
        ..NodeState::default()
    };
    assert_eq!(subject.store().nodes(&subject.catalog).await.unwrap(), BTreeMap::from([("acme".into(), state)]));
}

fn etag(text: &str) -> Validators {
    Validators { etag: Some(text.to_owned()), ..Validators::default() }
}

/// What the next run would ask with.
async fn remembered(subject: &Subject, mode: Mode) -> (Option<Validators>, Option<Checkpoint>) {
    let run = subject.begin_as(mode).await;
    let opened = subject.store().open_traversal(&run, &root("acme")).await.unwrap();
    subject.finish(&run).await;
    match opened {
        Opened::Open { validators, checkpoint, .. } => (validators, checkpoint),
        other => panic!("not open: {other:?}"),
    }
}

async fn validators_take_effect_when_one_task_was_the_whole_traversal(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, TaskEffects { validators: Some(etag("one")), ..page(1, &["a"]) }).await;
    assert_eq!(remembered(&subject, Mode::Full).await.0, Some(etag("one")));
    let run = subject.begin().await;
    let traversal = subject.open(&run, &acme).await;
    subject.commit(&traversal, TaskEffects { validators: Some(etag("two")), ..page(1, &["a"]) }).await;
    subject.commit(&traversal, page(2, &["b"])).await;
    subject.close(&traversal).await;
    subject.finish(&run).await;
    assert_eq!(remembered(&subject, Mode::Full).await.0, None);
}

async fn validators_of_an_unchanged_document_are_kept(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, TaskEffects { validators: Some(etag("one")), ..page(1, &["a"]) }).await;
    subject.crawl(&acme, TaskEffects { result: TaskResult::NotModified, ..page(1, &[]) }).await;
    assert_eq!(remembered(&subject, Mode::Full).await.0, Some(etag("one")));
}

async fn validators_do_not_outlive_a_partial_traversal_that_wrote(subject: Subject) {
    let acme = root("acme");
    let limited = Some(Limited::MaxRecords);
    subject.crawl(&acme, TaskEffects { validators: Some(etag("one")), ..page(1, &["a"]) }).await;
    subject.crawl(&acme, failed(1, "no answer")).await;
    assert_eq!(remembered(&subject, Mode::Full).await.0, Some(etag("one")));
    subject.crawl(&acme, TaskEffects { validators: Some(etag("two")), limited, ..page(1, &["a@2"]) }).await;
    assert_eq!(remembered(&subject, Mode::Full).await.0, None);
}

async fn validators_are_forgotten_while_a_sweep_is_held(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, TaskEffects { validators: Some(etag("one")), ..page(1, &["a"]) }).await;
    // "Not modified" since this document would count the held record as seen.
    subject.crawl(&acme, TaskEffects { validators: Some(etag("empty")), ..page(1, &[]) }).await;
    assert_eq!(remembered(&subject, Mode::Full).await.0, None);
}

async fn a_checkpoint_takes_effect_when_the_traversal_is_complete(subject: Subject) {
    let acme = root("acme");
    let with = |text: &str| TaskEffects { checkpoint: Some(Checkpoint(text.to_owned())), ..page(1, &["a"]) };
    subject.crawl(&acme, with("monday")).await;
    subject.crawl(&acme, TaskEffects { limited: Some(Limited::MaxPages), ..with("tuesday") }).await;
    assert_eq!(remembered(&subject, Mode::Incremental).await.1, Some(Checkpoint("monday".to_owned())));
}

async fn a_checkpoint_is_for_incremental_runs_only(subject: Subject) {
    let checkpoint = Some(Checkpoint("monday".to_owned()));
    subject.crawl(&root("acme"), TaskEffects { checkpoint, ..page(1, &["a"]) }).await;
    assert_eq!(remembered(&subject, Mode::Full).await.1, None);
}
