//! Runs over what changed: what they may delete, what they leave for the next one, and how they say what was read.

use jiff::Timestamp;
use trawler::finding::{Checkpoint, InFull, Limited, Reading, Validators};
use trawler::store::*;
use trawler::task::SectionKey;

use super::contract;
use super::harness::*;

contract!(
    a_section_that_an_incremental_run_read_whole_is_swept,
    a_list_of_changes_sweeps_nothing_not_even_in_a_full_run,
    a_traversal_with_a_list_of_changes_in_it_is_not_whole,
    a_whole_but_partial_reading_sweeps_nothing_in_an_incremental_run,
    an_empty_whole_answer_is_held_in_an_incremental_run_too,
    an_unlisted_section_goes_when_an_incremental_run_read_its_parent_whole,
    a_list_of_changes_leaves_what_is_held_to_the_next_whole_reading,
    a_32_what_an_incremental_run_saw_is_not_swept_by_an_older_full_one,
    a_36_a_checkpoint_counts_only_when_its_traversal_is_complete,
    a_list_of_changes_whose_total_fell_leaves_the_checkpoint_where_it_was,
    a_36_a_traversal_that_leaves_no_checkpoint_takes_the_old_one_away,
    a_36_a_document_that_was_not_modified_keeps_its_checkpoint,
    a_37_a_checkpoint_of_a_run_that_was_killed_is_kept_with_its_page,
    a_39_a_run_waits_for_the_one_before_whatever_their_modes,
    validators_take_effect_though_questions_led_to_the_document,
    a_report_says_how_each_section_was_read,
);

fn reading(reading: Reading, effects: TaskEffects) -> TaskEffects {
    TaskEffects { reading: Some(reading), ..effects }
}

fn since() -> Reading {
    Reading::Since(moment())
}

fn moment() -> Timestamp {
    at(-86_400)
}

fn whole() -> Reading {
    Reading::FullBecause(InFull::NoWayToAsk)
}

fn checkpoint(text: &str) -> Checkpoint {
    Checkpoint(text.to_owned())
}

/// A whole run over one section.
async fn crawl_as(subject: &Subject, mode: Mode, section: &SectionKey, effects: TaskEffects) -> SectionReport {
    let run = subject.begin_as(mode).await;
    let report = subject.traverse(&run, section, effects).await;
    subject.finish(&run).await;
    report
}

/// What the next incremental run would start from.
async fn next_start(subject: &Subject) -> Option<String> {
    let run = subject.begin_as(Mode::Incremental).await;
    let opened = subject.store().open_traversal(&run, &root("acme")).await.unwrap();
    subject.finish(&run).await;
    match opened {
        Opened::Open { checkpoint, .. } => checkpoint.map(|checkpoint| checkpoint.0),
        other => panic!("not open: {other:?}"),
    }
}

async fn a_section_that_an_incremental_run_read_whole_is_swept(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page(1, &["a", "b"])).await;
    let report = crawl_as(&subject, Mode::Incremental, &acme, reading(whole(), page(1, &["b"]))).await;
    assert_eq!((report.unchanged, report.deleted, report.kept_unseen), (1, 1, 0));
    assert_eq!(subject.list().await, ["acme/b=b@1"]);
}

async fn a_list_of_changes_sweeps_nothing_not_even_in_a_full_run(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page(1, &["a", "b"])).await;
    for mode in [Mode::Incremental, Mode::Full] {
        let effects = TaskEffects { total: Some(9), ..page(1, &["b"]) };
        let report = crawl_as(&subject, mode, &acme, reading(since(), effects)).await;
        assert_eq!((report.unchanged, report.deleted, report.kept_unseen, report.partial), (1, 0, 0, None), "{mode:?}");
    }
    assert_eq!(subject.list().await, ["acme/a=a@1", "acme/b=b@1"]);
}

async fn a_traversal_with_a_list_of_changes_in_it_is_not_whole(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page(1, &["a", "b", "c"])).await;
    for readings in [[since(), whole()], [whole(), since()]] {
        let run = subject.begin_as(Mode::Incremental).await;
        let traversal = subject.open(&run, &acme).await;
        subject.commit(&traversal, reading(readings[0], page(1, &["a"]))).await;
        subject.commit(&traversal, reading(readings[1], page(2, &["b"]))).await;
        let report = subject.close(&traversal).await;
        assert_eq!((report.deleted, report.read_as.read), (0, Some(ReadMode::Incremental)), "{readings:?}");
        subject.finish(&run).await;
    }
    assert_eq!(subject.list().await.len(), 3);
}

async fn a_whole_but_partial_reading_sweeps_nothing_in_an_incremental_run(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page(1, &["a", "b"])).await;
    let partial = TaskEffects { limited: Some(Limited::MaxPages), ..page(1, &["a"]) };
    let fewer = TaskEffects { total: Some(2), ..page(1, &["a"]) };
    for effects in [partial, fewer] {
        let report = crawl_as(&subject, Mode::Incremental, &acme, reading(whole(), effects)).await;
        assert_eq!((report.partial.is_some(), report.deleted, report.kept_unseen), (true, 0, 1));
    }
}

async fn an_empty_whole_answer_is_held_in_an_incremental_run_too(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page(1, &["a"])).await;
    let report = crawl_as(&subject, Mode::Incremental, &acme, reading(whole(), page(1, &[]))).await;
    assert_eq!((report.held, report.deleted), (Some(1), 0));
    assert_eq!(subject.section(&acme).await.held, Some((2, 1)));
}

async fn an_unlisted_section_goes_when_an_incremental_run_read_its_parent_whole(subject: Subject) {
    let (acme, x) = (root("acme"), nested("acme", "x"));
    let run = subject.begin().await;
    subject.traverse(&run, &acme, TaskEffects { listed_sections: vec![x.clone()], ..page(1, &["r"]) }).await;
    subject.traverse(&run, &x, page(2, &["n"])).await;
    subject.finish(&run).await;
    for (read, left) in [(since(), 2), (whole(), 1)] {
        let run = subject.begin_as(Mode::Incremental).await;
        subject.traverse(&run, &acme, reading(read, page(1, &["r"]))).await;
        subject.store().sweep_unlisted(&run, &"acme".into(), closing()).await.unwrap();
        subject.finish(&run).await;
        assert_eq!(subject.list().await.len(), left, "{read:?}");
    }
}

async fn a_list_of_changes_leaves_what_is_held_to_the_next_whole_reading(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page_of(0..10)).await;
    subject.crawl(&acme, page_of(0..5)).await;
    let run = subject.begin_as(Mode::Incremental).await;
    let changes = reading(since(), page(1, &["r00@2"]));
    let report = subject.traverse_closing(&run, &acme, changes, approving(&acme, 2)).await;
    subject.finish(&run).await;
    assert_eq!((report.updated, report.deleted), (1, 0), "an approval is for a whole reading");
    assert_eq!(subject.section(&acme).await.held, Some((2, 5)));
}

async fn a_32_what_an_incremental_run_saw_is_not_swept_by_an_older_full_one(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page_of(0..20)).await;
    subject.crawl(&acme, page_of(0..10)).await;
    // One of the ten that are held comes back, and four are new. The next full run misses all five.
    let changes = page(1, &["new1", "new2", "new3", "new4", "r19"]);
    crawl_as(&subject, Mode::Incremental, &acme, reading(since(), changes)).await;
    let report = subject.crawl_closing(&acme, page_of(0..10), approving(&acme, 2)).await;
    assert_eq!((report.deleted, report.held), (9, Some(5)), "the approval covers what the older full run missed");
    assert_eq!(subject.list().await.len(), 15);
}

async fn a_36_a_checkpoint_counts_only_when_its_traversal_is_complete(subject: Subject) {
    let acme = root("acme");
    let with = |text: &str| TaskEffects { checkpoint: Some(checkpoint(text)), ..page(1, &["a"]) };
    subject.crawl(&acme, with("monday")).await;
    let run = subject.begin_as(Mode::Incremental).await;
    let traversal = subject.open(&run, &acme).await;
    subject.commit(&traversal, reading(since(), with("tuesday"))).await;
    subject.commit(&traversal, failed(2, "no answer")).await;
    subject.close(&traversal).await;
    subject.finish(&run).await;
    assert_eq!(next_start(&subject).await.as_deref(), Some("monday"));
    crawl_as(&subject, Mode::Incremental, &acme, reading(since(), with("wednesday"))).await;
    assert_eq!(next_start(&subject).await.as_deref(), Some("wednesday"));
}

async fn a_list_of_changes_whose_total_fell_leaves_the_checkpoint_where_it_was(subject: Subject) {
    let acme = root("acme");
    let with = |text: &str| TaskEffects { checkpoint: Some(checkpoint(text)), ..page(1, &["a"]) };
    subject.crawl(&acme, with("monday")).await;
    for (total_at_last, partial, expected) in [
        (
            2,
            Some("the server's total fell by 1 while its pages were read, so that records may have slipped by"),
            "monday",
        ),
        (3, None, "tuesday"),
    ] {
        let run = subject.begin_as(Mode::Incremental).await;
        let traversal = subject.open(&run, &acme).await;
        let first = TaskEffects { total: Some(3), ..with("tuesday") };
        subject.commit(&traversal, reading(since(), first)).await;
        let last = TaskEffects { total: Some(total_at_last), ..page(2, &["b"]) };
        subject.commit(&traversal, reading(since(), last)).await;
        let report = subject.close(&traversal).await;
        subject.finish(&run).await;
        assert_eq!((report.partial.as_deref(), next_start(&subject).await.as_deref()), (partial, Some(expected)));
    }
}

async fn a_36_a_traversal_that_leaves_no_checkpoint_takes_the_old_one_away(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, TaskEffects { checkpoint: Some(checkpoint("monday")), ..page(1, &["a"]) }).await;
    subject.crawl(&acme, page(1, &["a"])).await;
    assert_eq!(next_start(&subject).await, None);
}

async fn a_36_a_document_that_was_not_modified_keeps_its_checkpoint(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, TaskEffects { checkpoint: Some(checkpoint("monday")), ..page(1, &["a"]) }).await;
    subject.crawl(&acme, TaskEffects { result: TaskResult::NotModified, ..page(1, &[]) }).await;
    assert_eq!(next_start(&subject).await.as_deref(), Some("monday"));
}

async fn a_37_a_checkpoint_of_a_run_that_was_killed_is_kept_with_its_page(mut subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, TaskEffects { checkpoint: Some(checkpoint("monday")), ..page(1, &["a"]) }).await;
    let run = subject.begin_as(Mode::Incremental).await;
    let last = task(&acme, "2");
    let traversal = subject.open(&run, &acme).await;
    let first = TaskEffects { feedback: vec![last.clone()], ..page(1, &["a@2"]) };
    subject
        .commit(&traversal, reading(since(), TaskEffects { checkpoint: Some(checkpoint("tuesday")), ..first }))
        .await;
    subject.next_process();
    // The run goes on: it started from Monday, and its first page is not asked for again.
    let Opened::Open { traversal, checkpoint, .. } = subject.store().open_traversal(&run, &acme).await.unwrap() else {
        panic!("not open");
    };
    assert_eq!(checkpoint, Some(Checkpoint("monday".to_owned())));
    assert_eq!(subject.store().pending_tasks(&run, None, 9).await.unwrap(), std::slice::from_ref(&last));
    subject.commit(&traversal, reading(since(), TaskEffects { task: last.id, ..page(2, &["b"]) })).await;
    let report = subject.close(&traversal).await;
    assert_eq!((report.added, report.updated, report.partial), (1, 1, None));
    subject.finish(&run).await;
    assert_eq!(next_start(&subject).await.as_deref(), Some("tuesday"));
}

async fn a_39_a_run_waits_for_the_one_before_whatever_their_modes(subject: Subject) {
    for (first, second) in [(Mode::Full, Mode::Incremental), (Mode::Incremental, Mode::Full)] {
        for then in [first, second] {
            let run = subject.begin_as(first).await;
            let refused = subject.store().begin_run(start(&subject.catalog, then)).await.unwrap_err();
            assert!(matches!(refused, StoreError::RunUnfinished { run: unfinished, .. } if unfinished == run));
            subject.finish(&run).await;
        }
    }
}

async fn validators_take_effect_though_questions_led_to_the_document(subject: Subject) {
    let acme = root("acme");
    let validators = Some(Validators { etag: Some("one".to_owned()), ..Validators::default() });
    let run = subject.begin().await;
    let traversal = subject.open(&run, &acme).await;
    subject.commit(&traversal, page(1, &[])).await;
    subject
        .commit(&traversal, reading(Reading::Full, TaskEffects { validators: validators.clone(), ..page(2, &["a"]) }))
        .await;
    subject.close(&traversal).await;
    subject.finish(&run).await;
    let run = subject.begin().await;
    let opened = subject.store().open_traversal(&run, &acme).await.unwrap();
    assert!(matches!(&opened, Opened::Open { validators: kept, .. } if *kept == validators), "{opened:?}");
}

async fn a_report_says_how_each_section_was_read(subject: Subject) {
    let acme = root("acme");
    let full = |because: Option<&str>| ReadAs {
        read: Some(ReadMode::Full),
        since: None,
        in_full_because: because.map(str::to_owned),
    };
    let changes = ReadAs { read: Some(ReadMode::Incremental), since: Some(moment()), in_full_because: None };
    let cases = [
        (Mode::Full, Some(whole()), full(None)),
        (Mode::Full, None, ReadAs::default()),
        (Mode::Incremental, Some(since()), changes),
        (Mode::Incremental, Some(Reading::Full), full(Some("no earlier run left a date to start from"))),
        (Mode::Incremental, Some(whole()), full(Some("its protocol has no way to ask for changes"))),
        (Mode::Incremental, Some(Reading::FullBecause(InFull::OneDocument)), full(Some("it is one document"))),
        (
            Mode::Incremental,
            Some(Reading::FullBecause(InFull::Refused)),
            full(Some("the server refused to be asked for changes")),
        ),
        (
            Mode::Incremental,
            Some(Reading::FullBecause(InFull::Ignored)),
            full(Some("the server was asked for changes and answered with everything")),
        ),
        (
            Mode::Incremental,
            Some(Reading::FullBecause(InFull::Forgotten)),
            full(Some("the server was asked for changes and left out even one that it had named before")),
        ),
        (
            Mode::Incremental,
            Some(Reading::FullBecause(InFull::ClockPutBack)),
            full(Some("the server's clock was put back")),
        ),
    ];
    for (mode, reading, expected) in cases {
        let report = crawl_as(&subject, mode, &acme, TaskEffects { reading, ..page(1, &["a"]) }).await;
        assert_eq!(report.read_as, expected, "{mode:?} {reading:?}");
    }
    for mode in [Mode::Full, Mode::Incremental] {
        let unchanged = TaskEffects { result: TaskResult::NotModified, ..page(1, &[]) };
        let report = crawl_as(&subject, mode, &acme, unchanged).await;
        assert_eq!(report.read_as, ReadAs { read: Some(ReadMode::NotModified), ..ReadAs::default() }, "{mode:?}");
    }
}
