//! What deletes records, and above all what doesn't.

use trawler::finding::{Limited, Reading, Rejected};
use trawler::store::*;
use trawler::task::{OriginKey, RunId, Task, TaskKind};

use super::contract;
use super::harness::*;

contract!(
    a_traversal_with_a_failed_task_sweeps_nothing,
    a_limited_traversal_sweeps_nothing,
    a_traversal_that_gave_fewer_records_than_the_total_sweeps_nothing,
    a_total_that_shrank_while_pages_were_read_sweeps_nothing_unless_the_reader_heeds_it,
    a_traversal_that_was_cut_short_sweeps_nothing,
    a_traversal_with_dropped_or_pending_tasks_sweeps_nothing,
    twenty_failures_are_named_with_what_went_before_and_all_are_counted,
    a_list_of_several_pages_is_looked_at_again_before_anything_is_deleted,
    a_second_look_is_gone_on_with_by_the_next_process_and_is_not_made_twice,
    a_list_that_is_shorter_than_its_total_or_lacks_nothing_new_is_looked_at_once,
    a_sweep_over_the_guard_is_held_and_deletes_nothing,
    a_sweep_at_the_guards_limit_is_made,
    a_section_below_the_guards_minimum_is_swept,
    an_empty_answer_over_a_section_with_records_is_held_however_small_it_is,
    an_approved_sweep_is_made_by_the_next_complete_traversal,
    an_approval_of_another_traversal_changes_nothing,
    a_held_sweep_keeps_its_number_while_nothing_more_is_missing,
    a_held_sweep_gets_a_new_number_when_something_more_is_missing,
    an_empty_answer_that_is_held_without_records_keeps_its_number,
    a_held_sweep_that_becomes_a_removal_gets_a_new_number,
    an_approval_does_not_cover_what_was_lost_since,
    an_approval_waits_while_traversals_are_partial,
    a_held_sweep_is_forgotten_when_the_records_come_back,
    the_sources_word_deletes_without_guard_or_complete_traversal,
    an_incremental_traversal_never_sweeps_by_absence,
    a_rejected_record_that_is_known_counts_as_seen,
    rejected_records_count_towards_the_total,
    an_unreadable_entry_may_be_any_record_so_none_is_deleted,
    a_sweep_of_thousands_names_each_in_the_feed,
    an_expired_node_loses_its_records_and_is_remembered,
    an_expired_node_over_the_guard_waits_under_one_number_until_it_is_approved,
    a_node_that_comes_back_after_it_was_held_as_expired_keeps_its_records,
);

async fn a_traversal_with_a_failed_task_sweeps_nothing(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page(1, &["a", "b"])).await;
    let run = subject.begin().await;
    let traversal = subject.open(&run, &acme).await;
    subject.commit(&traversal, page(1, &["a"])).await;
    subject.commit(&traversal, failed(2, "https://acme.example/?page=2 answered 500")).await;
    let expected = SectionReport {
        unchanged: 1,
        kept_unseen: 1,
        partial: Some("a request failed: https://acme.example/?page=2 answered 500".to_owned()),
        failures: vec![failed_task("https://acme.example/?page=2 answered 500")],
        failed_tasks: 1,
        ..report(&acme, 2)
    };
    assert_eq!(subject.close(&traversal).await, expected);
    assert_eq!(subject.list().await, ["acme/a=a@1", "acme/b=b@1"]);
    let state = SectionState { section: acme.clone(), number: 2, last_complete: 1, records: 2, held: None };
    assert_eq!(subject.section(&acme).await, state);
}

async fn a_limited_traversal_sweeps_nothing(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page(1, &["a", "b"])).await;
    let effects = TaskEffects { limited: Some(Limited::MaxRecords), ..page(1, &["a"]) };
    let expected = SectionReport {
        unchanged: 1,
        kept_unseen: 1,
        partial: Some("spec.limits.maxRecords was reached".to_owned()),
        ..report(&acme, 2)
    };
    assert_eq!(subject.crawl(&acme, effects).await, expected);
    assert_eq!(subject.feed(2).await, [""; 0]);
}

async fn a_traversal_that_gave_fewer_records_than_the_total_sweeps_nothing(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page(1, &["a", "b"])).await;
    let expected = SectionReport {
        unchanged: 1,
        kept_unseen: 1,
        total: Some(2),
        partial: Some("the pages gave 1 of the 2 records that the server says it has".to_owned()),
        ..report(&acme, 2)
    };
    assert_eq!(subject.crawl(&acme, TaskEffects { total: Some(2), ..page(1, &["a"]) }).await, expected);
    let expected = SectionReport { unchanged: 1, deleted: 1, total: Some(1), ..report(&acme, 3) };
    assert_eq!(subject.crawl(&acme, TaskEffects { total: Some(1), ..page(1, &["a"]) }).await, expected);
}

async fn a_total_that_shrank_while_pages_were_read_sweeps_nothing_unless_the_reader_heeds_it(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page(1, &["a", "b", "c"])).await;
    let why = "the server's total fell by 2 while its pages were read, so that records may have slipped by".to_owned();
    let slipped =
        SectionReport { unchanged: 1, kept_unseen: 2, partial: Some(why), total: Some(1), ..report(&acme, 2) };
    let looked_for = SectionReport { unchanged: 1, deleted: 2, total: Some(1), ..report(&acme, 3) };
    for (heeds_total, expected) in [(false, slipped), (true, looked_for)] {
        let run = subject.begin().await;
        let traversal = subject.open(&run, &acme).await;
        subject.commit(&traversal, TaskEffects { total: Some(3), heeds_total, ..page(1, &["a"]) }).await;
        subject.commit(&traversal, TaskEffects { total: Some(1), heeds_total, ..page(2, &[]) }).await;
        assert_eq!(subject.close(&traversal).await, expected);
        subject.finish(&run).await;
    }
}

async fn a_traversal_that_was_cut_short_sweeps_nothing(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page(1, &["a", "b"])).await;
    let close = CloseTraversal { cut_short: Some("the deadline passed".to_owned()), ..closing() };
    let expected = SectionReport {
        unchanged: 1,
        kept_unseen: 1,
        partial: Some("the deadline passed".to_owned()),
        ..report(&acme, 2)
    };
    assert_eq!(subject.crawl_closing(&acme, page(1, &["a"]), close).await, expected);
}

async fn a_traversal_with_dropped_or_pending_tasks_sweeps_nothing(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page(1, &["a", "b", "c"])).await;
    let run = subject.begin().await;
    subject.store().seed(&run, &[task(&acme, "p2")]).await.unwrap();
    let traversal = subject.open(&run, &acme).await;
    subject.commit(&traversal, page(1, &["a"])).await;
    subject.commit(&traversal, TaskEffects { result: TaskResult::Dropped, ..page(2, &[]) }).await;
    let expected = SectionReport {
        unchanged: 1,
        kept_unseen: 2,
        partial: Some("2 requests were not made".to_owned()),
        ..report(&acme, 2)
    };
    assert_eq!(subject.close(&traversal).await, expected);
}

async fn twenty_failures_are_named_with_what_went_before_and_all_are_counted(subject: Subject) {
    let run = subject.begin().await;
    let traversal = subject.open(&run, &root("acme")).await;
    for number in 1..=25 {
        subject.commit(&traversal, failed(number, &format!("reason {number}"))).await;
    }
    let report = subject.close(&traversal).await;
    let expected: Vec<FailedTask> = (1..=20).map(|number| failed_task(&format!("reason {number}"))).collect();
    assert_eq!((&report.failures, report.failed_tasks), (&expected, 25));
    assert_eq!(report.partial.as_deref(), Some("25 requests failed, the first because: reason 1"));
}

/// Listed as one page of several; the last one closes the traversal.
fn listed(task: &Task, records: &[&str]) -> TaskEffects {
    TaskEffects { task: task.id, reading: Some(Reading::Full), close_when_drained: Some(closing()), ..page(1, records) }
}

/// A list of two pages, its first one the root: read once, up to what comes of it.
async fn read_two_pages(subject: &Subject, run: &RunId, first: TaskEffects, second: &[&str]) -> Committed {
    let acme = root("acme");
    let [entry, next] = two_pages();
    subject.store().seed(run, std::slice::from_ref(&entry)).await.unwrap();
    let traversal = subject.open(run, &acme).await;
    subject.commit(&traversal, TaskEffects { feedback: vec![next.clone()], ..first }).await;
    subject.commit(&traversal, listed(&next, second)).await
}

fn two_pages() -> [Task; 2] {
    let acme = root("acme");
    let origin = OriginKey::from("https://acme.example:443");
    [Task::new(acme.clone(), TaskKind::Root, origin, "root"), task(&acme, "p2")]
}

async fn a_list_of_several_pages_is_looked_at_again_before_anything_is_deleted(subject: Subject) {
    let acme = root("acme");
    let [entry, next] = two_pages();
    subject.crawl(&acme, page(1, &["a", "b", "c", "d"])).await;
    let run = subject.begin().await;
    let committed = read_two_pages(&subject, &run, listed(&entry, &["a"]), &["c"]).await;
    let again = entry.again();
    assert_eq!((committed.pending, committed.closed, committed.look_again), (1, false, Some(again.clone())));
    assert_eq!(subject.list().await.len(), 4);
    let traversal = subject.open(&run, &acme).await;
    let feedback = vec![next.clone().again()];
    subject.commit(&traversal, TaskEffects { feedback, ..listed(&again, &["a", "b"]) }).await;
    let committed = subject.commit(&traversal, listed(&next.again(), &["c"])).await;
    assert!(committed.closed && committed.look_again.is_none(), "{committed:?}");
    let read_as = ReadAs { read: Some(ReadMode::Full), ..ReadAs::default() };
    let expected = SectionReport { unchanged: 3, deleted: 1, read_as, ..report(&acme, 2) };
    assert_eq!(subject.close(&traversal).await, expected);
    assert_eq!(subject.list().await, ["acme/a=a@1", "acme/b=b@1", "acme/c=c@1"]);
}

async fn a_second_look_is_gone_on_with_by_the_next_process_and_is_not_made_twice(mut subject: Subject) {
    let acme = root("acme");
    let [entry, _] = two_pages();
    subject.crawl(&acme, page(1, &["a", "b", "c", "d"])).await;
    let run = subject.begin().await;
    read_two_pages(&subject, &run, listed(&entry, &["a"]), &["c"]).await;
    subject.next_process();
    let again = entry.again();
    assert_eq!(subject.store().pending_tasks(&run, None, 9).await.unwrap(), std::slice::from_ref(&again));
    let traversal = subject.open(&run, &acme).await;
    let committed = subject.commit(&traversal, listed(&again, &["a", "c"])).await;
    assert!(committed.closed && committed.look_again.is_none(), "{committed:?}");
    assert_eq!(subject.list().await, ["acme/a=a@1", "acme/c=c@1"]);
}

async fn a_list_that_is_shorter_than_its_total_or_lacks_nothing_new_is_looked_at_once(subject: Subject) {
    let [entry, _] = two_pages();
    subject.crawl(&root("acme"), page(1, &["a", "b", "c"])).await;
    let cases: [(Option<u64>, &[&str]); 3] = [(None, &["b", "c"]), (Some(3), &["b", "c"]), (Some(9), &["b"])];
    for (total, second) in cases {
        let run = subject.begin().await;
        let first = TaskEffects { total, ..listed(&entry, &["a"]) };
        let committed = read_two_pages(&subject, &run, first, second).await;
        assert!(committed.closed && committed.look_again.is_none(), "{total:?}: {committed:?}");
        subject.finish(&run).await;
    }
}

async fn a_sweep_over_the_guard_is_held_and_deletes_nothing(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page_of(0..10)).await;
    let expected = SectionReport { unchanged: 6, kept_unseen: 4, held: Some(4), held_as: Some(2), ..report(&acme, 2) };
    assert_eq!(subject.crawl(&acme, page_of(0..6)).await, expected);
    let state = SectionState { section: acme.clone(), number: 2, last_complete: 2, records: 10, held: Some((2, 4)) };
    assert_eq!(subject.section(&acme).await, state);
    assert_eq!(subject.feed(10).await, [""; 0]);
}

async fn a_sweep_at_the_guards_limit_is_made(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page_of(0..10)).await;
    let expected = SectionReport { unchanged: 7, deleted: 3, ..report(&acme, 2) };
    assert_eq!(subject.crawl(&acme, page_of(0..7)).await, expected);
}

async fn a_section_below_the_guards_minimum_is_swept(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page_of(0..9)).await;
    let expected = SectionReport { unchanged: 1, deleted: 8, ..report(&acme, 2) };
    assert_eq!(subject.crawl(&acme, page_of(0..1)).await, expected);
}

async fn an_empty_answer_over_a_section_with_records_is_held_however_small_it_is(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page(1, &["a"])).await;
    let expected = SectionReport { kept_unseen: 1, held: Some(1), held_as: Some(2), ..report(&acme, 2) };
    assert_eq!(subject.crawl(&acme, page(1, &[])).await, expected);
    let approved = SectionReport { deleted: 1, ..report(&acme, 3) };
    assert_eq!(subject.crawl_closing(&acme, page(1, &[]), approving(&acme, 2)).await, approved);
    assert_eq!(subject.list().await, [""; 0]);
}

async fn an_approved_sweep_is_made_by_the_next_complete_traversal(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page_of(0..10)).await;
    subject.crawl(&acme, page_of(0..5)).await;
    let expected = SectionReport { unchanged: 5, deleted: 5, ..report(&acme, 3) };
    assert_eq!(subject.crawl_closing(&acme, page_of(0..5), approving(&acme, 2)).await, expected);
    let state = SectionState { section: acme.clone(), number: 3, last_complete: 3, records: 5, held: None };
    assert_eq!(subject.section(&acme).await, state);
}

async fn an_approval_of_another_traversal_changes_nothing(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page_of(0..10)).await;
    subject.crawl(&acme, page_of(0..5)).await;
    for (number, approved) in [(3, (acme.clone(), 1)), (4, (acme.clone(), 4)), (5, (root("beta"), 4))] {
        let close = CloseTraversal { approved: vec![approved], ..closing() };
        let expected =
            SectionReport { unchanged: 5, kept_unseen: 5, held: Some(5), held_as: Some(2), ..report(&acme, number) };
        assert_eq!(subject.crawl_closing(&acme, page_of(0..5), close).await, expected);
    }
}

async fn a_held_sweep_keeps_its_number_while_nothing_more_is_missing(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page_of(0..20)).await;
    // Ten are missing, then the same ten, then, because two came back, eight of them.
    for (number, seen) in [(2, 10), (3, 10), (4, 12)] {
        let missing = 20 - seen as u64;
        let held = SectionReport { held: Some(missing), held_as: Some(2), ..report(&acme, number) };
        let expected = SectionReport { unchanged: seen as u64, kept_unseen: missing, ..held };
        assert_eq!(subject.crawl(&acme, page_of(0..seen)).await, expected);
        assert_eq!(subject.section(&acme).await.held, Some((2, missing)));
    }
    let expected = SectionReport { unchanged: 12, deleted: 8, ..report(&acme, 5) };
    assert_eq!(subject.crawl_closing(&acme, page_of(0..12), approving(&acme, 2)).await, expected);
}

async fn a_held_sweep_gets_a_new_number_when_something_more_is_missing(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page_of(0..20)).await;
    // In the end the two that came back are missing again: that is more than the traversal before missed.
    for (seen, held) in [(10, (2, 10)), (9, (3, 11)), (11, (3, 9)), (9, (5, 11))] {
        subject.crawl(&acme, page_of(0..seen)).await;
        assert_eq!(subject.section(&acme).await.held, Some(held), "{seen}");
    }
    let report = subject.crawl_closing(&acme, page_of(0..9), approving(&acme, 3)).await;
    assert_eq!((report.deleted, report.held, report.held_as), (0, Some(11), Some(5)));
}

async fn an_empty_answer_that_is_held_without_records_keeps_its_number(subject: Subject) {
    let (acme, nested) = (root("acme"), nested("acme", "x"));
    let run = subject.begin().await;
    let listing = TaskEffects { listed_sections: vec![nested.clone()], ..page(1, &[]) };
    subject.traverse(&run, &acme, listing).await;
    subject.traverse(&run, &nested, page(2, &["a"])).await;
    subject.finish(&run).await;
    for number in [2, 3] {
        let expected = SectionReport { held: Some(0), held_as: Some(2), ..report(&acme, number) };
        assert_eq!(subject.crawl(&acme, page(1, &[])).await, expected);
    }
}

async fn a_held_sweep_that_becomes_a_removal_gets_a_new_number(subject: Subject) {
    let acme = root("acme");
    for count in [20, 10, 10] {
        subject.crawl(&acme, page_of(0..count)).await;
    }
    assert_eq!(subject.section(&acme).await.held, Some((2, 10)));
    let run = subject.begin().await;
    let reports = subject.store().sweep_removed_node(&run, &"acme".into(), approving(&acme, 2)).await.unwrap();
    let held = |report: &SectionReport| (report.deleted, report.held, report.held_as);
    assert_eq!(reports.iter().map(held).collect::<Vec<_>>(), [(0, Some(20), Some(3))]);
}

async fn an_approval_does_not_cover_what_was_lost_since(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page_of(0..20)).await;
    subject.crawl(&acme, page_of(0..10)).await;
    // Ten were approved to go; now nine of the other ten are missing too.
    let expected = SectionReport {
        unchanged: 1,
        deleted: 10,
        kept_unseen: 9,
        held: Some(9),
        held_as: Some(3),
        ..report(&acme, 3)
    };
    assert_eq!(subject.crawl_closing(&acme, page_of(0..1), approving(&acme, 2)).await, expected);
    assert_eq!(subject.section(&acme).await.held, Some((3, 9)));
}

async fn an_approval_waits_while_traversals_are_partial(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page_of(0..10)).await;
    subject.crawl(&acme, page_of(0..5)).await;
    let partial = TaskEffects { limited: Some(Limited::MaxPages), ..page_of(0..5) };
    let report = subject.crawl_closing(&acme, partial, approving(&acme, 2)).await;
    assert_eq!((report.deleted, report.kept_unseen), (0, 5));
    assert_eq!(subject.section(&acme).await.held, Some((2, 5)));
    let report = subject.crawl_closing(&acme, page_of(0..5), approving(&acme, 2)).await;
    assert_eq!((report.deleted, report.kept_unseen), (5, 0));
}

async fn a_held_sweep_is_forgotten_when_the_records_come_back(subject: Subject) {
    let acme = root("acme");
    for count in [10, 5, 10] {
        subject.crawl(&acme, page_of(0..count)).await;
    }
    let state = SectionState { section: acme.clone(), number: 3, last_complete: 3, records: 10, held: None };
    assert_eq!(subject.section(&acme).await, state);
    assert_eq!(subject.feed(10).await, [""; 0]);
}

async fn the_sources_word_deletes_without_guard_or_complete_traversal(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page(1, &["a", "b", "c"])).await;
    let run = subject.begin_as(Mode::Incremental).await;
    let traversal = subject.open(&run, &acme).await;
    let deleted = ["a", "c", "unknown"].map(str::to_owned).to_vec();
    subject.commit(&traversal, TaskEffects { deleted_ids: deleted, ..page(1, &[]) }).await;
    subject.commit(&traversal, failed(2, "no answer")).await;
    assert_eq!(subject.feed(3).await, ["Deleted a", "Deleted c"]);
    let report = subject.close(&traversal).await;
    assert_eq!((report.deleted, report.kept_unseen), (2, 0));
    assert_eq!(subject.list().await, ["acme/b=b@1"]);
}

async fn an_incremental_traversal_never_sweeps_by_absence(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page(1, &["a", "b"])).await;
    let run = subject.begin_as(Mode::Incremental).await;
    let effects = TaskEffects { total: Some(2), ..page(1, &["b@2"]) };
    let expected = SectionReport { updated: 1, total: Some(2), ..report(&acme, 2) };
    assert_eq!(subject.traverse(&run, &acme, effects).await, expected);
    assert_eq!(subject.list().await, ["acme/a=a@1", "acme/b=b@2"]);
}

async fn a_rejected_record_that_is_known_counts_as_seen(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page(1, &["a", "b"])).await;
    let rejected = vec![Rejected { what: "b".to_owned(), why: "its title is a number".to_owned() }];
    let effects = TaskEffects { rejected: rejected.clone(), ..page(1, &["a"]) };
    let expected = SectionReport { unchanged: 2, rejected, rejected_count: 1, ..report(&acme, 2) };
    assert_eq!(subject.crawl(&acme, effects).await, expected);
    assert_eq!(subject.list().await, ["acme/a=a@1", "acme/b=b@1"]);
}

async fn rejected_records_count_towards_the_total(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page(1, &["a", "b", "gone"])).await;
    let rejected = |what: &str| Rejected { what: what.to_owned(), why: "its title is a number".to_owned() };
    let effects = TaskEffects { total: Some(2), rejected: vec![rejected("b")], ..page(1, &["a"]) };
    let report = subject.crawl(&acme, effects).await;
    assert_eq!((report.partial, report.deleted), (None, 1));
}

async fn an_unreadable_entry_may_be_any_record_so_none_is_deleted(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page(1, &["a", "b", "c"])).await;
    let rejected = vec![Rejected { what: "dataset[2]".to_owned(), why: "it has no id".to_owned() }];
    let report = subject.crawl(&acme, TaskEffects { rejected, ..page(1, &["a", "b"]) }).await;
    let partial = "1 entries could not be read and may be among the 1 records that were not seen".to_owned();
    assert_eq!((report.partial, report.deleted, report.kept_unseen), (Some(partial), 0, 1));
    let report = subject.crawl(&acme, page(1, &["a", "b"])).await;
    assert_eq!((report.partial, report.deleted), (None, 1));
}

async fn a_sweep_of_thousands_names_each_in_the_feed(subject: Subject) {
    let acme = root("acme");
    let ids: Vec<String> = (0..2500).map(|n| format!("{n:04}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    subject.crawl(&acme, page(1, &ids)).await;
    let close = CloseTraversal { guard: DeletionGuard { max_percent: 100, min_records: 0 }, ..closing() };
    let report = subject.crawl_closing(&acme, page(1, &ids[..10]), close).await;
    assert_eq!((report.unchanged, report.deleted), (10, 2490));
    let expected: Vec<_> = ids[10..].iter().map(|id| format!("Deleted {id}")).collect();
    assert_eq!(subject.feed(2500).await, expected);
}

/// A run in which nothing of acme could be read for longer than its records are kept.
async fn expire(subject: &Subject, close: CloseTraversal) -> Vec<SectionReport> {
    let run = subject.begin().await;
    subject.traverse(&run, &root("acme"), failed(1, "no answer")).await;
    subject.store().record_node(&run, &"acme".into(), outcome(NodeReading::Nothing, 9)).await.unwrap();
    subject.store().sweep_expired_node(&run, &"acme".into(), close).await.unwrap();
    let reports = subject.store().reports(&run).await.unwrap();
    subject.finish(&run).await;
    reports
}

/// What the traversal of a node that does not answer comes to.
fn unanswered(number: u64) -> SectionReport {
    SectionReport {
        partial: Some("a request failed: no answer".to_owned()),
        failures: vec![failed_task("no answer")],
        failed_tasks: 1,
        ..report(&root("acme"), number)
    }
}

async fn an_expired_node_loses_its_records_and_is_remembered(subject: Subject) {
    subject.crawl(&root("acme"), page(1, &["a", "b"])).await;
    subject.crawl(&root("beta"), page(1, &["b"])).await;
    assert_eq!(expire(&subject, closing()).await, [SectionReport { deleted: 2, ..unanswered(2) }]);
    assert_eq!(subject.list().await, ["beta/b=b@1"]);
    assert_eq!(subject.feed(3).await, ["Deleted a", "Deleted b"]);
    let nodes = subject.store().nodes(&subject.catalog).await.unwrap();
    assert_eq!((nodes[&"acme".into()].failures_in_row, nodes[&"acme".into()].records), (1, 0));
    // Should it come back, its records are new.
    let expected = SectionReport { added: 1, ..report(&root("acme"), 3) };
    assert_eq!(subject.crawl(&root("acme"), page(1, &["a"])).await, expected);
}

async fn an_expired_node_over_the_guard_waits_under_one_number_until_it_is_approved(subject: Subject) {
    subject.crawl(&root("acme"), page_of(0..10)).await;
    let held = |failures| SectionReport { held: Some(10), held_as: Some(2), kept_unseen: 10, ..failures };
    assert_eq!(expire(&subject, closing()).await, [held(unanswered(2))]);
    assert_eq!(expire(&subject, closing()).await, [held(unanswered(3))]);
    assert_eq!(expire(&subject, approving(&root("acme"), 2)).await, [SectionReport { deleted: 10, ..unanswered(4) }]);
    assert_eq!(subject.list().await, [""; 0]);
}

async fn a_node_that_comes_back_after_it_was_held_as_expired_keeps_its_records(subject: Subject) {
    subject.crawl(&root("acme"), page_of(0..10)).await;
    expire(&subject, closing()).await;
    let back = SectionReport { unchanged: 10, ..report(&root("acme"), 3) };
    assert_eq!(subject.crawl_closing(&root("acme"), page_of(0..10), approving(&root("acme"), 2)).await, back);
    assert_eq!(subject.section(&root("acme")).await.held, None);
}
