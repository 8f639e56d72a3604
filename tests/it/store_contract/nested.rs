//! Sections inside sections, and nodes that go.

use trawler::finding::{Limited, Validators};
use trawler::store::*;
use trawler::task::{RunId, SectionKey};

use super::contract;
use super::harness::*;

contract!(
    not_modified_counts_all_records_and_listed_sections_as_seen,
    a_section_that_a_complete_parent_no_longer_lists_is_swept,
    an_unlisted_section_over_the_guard_is_held_until_it_is_approved,
    an_unlisted_section_is_kept_while_a_parent_is_partial,
    an_unlisted_section_is_kept_while_another_parent_lists_it,
    an_unlisted_branch_goes_with_its_cycle,
    a_listed_section_that_was_not_traversed_is_kept,
    a_root_that_suddenly_lists_nothing_keeps_its_sections,
    an_incremental_run_sweeps_no_unlisted_section,
    a_run_that_was_cut_short_sweeps_no_unlisted_section,
    a_section_that_comes_back_is_read_anew,
    a_cycle_of_sections_is_traversed_once_each,
    a_removed_node_is_swept_and_forgotten,
    a_removed_node_over_the_guard_is_held_until_it_is_approved,
    a_partial_sweeps_approval_does_not_cover_a_removal,
    a_node_that_fails_keeps_its_records,
);

fn listing(number: u8, records: &[&str], sections: &[&str]) -> TaskEffects {
    let listed_sections = sections.iter().map(|path| nested("acme", path)).collect();
    TaskEffects { listed_sections, ..page(number, records) }
}

/// Begins a run in which the root lists these sections, and each of them is traversed with what it lists.
async fn begin_tree(subject: &Subject, top: &[&str], nodes: &[(&str, &[&str])]) -> RunId {
    let run = subject.begin().await;
    subject.traverse(&run, &root("acme"), listing(0, &["r"], top)).await;
    for (number, (path, children)) in (1..).zip(nodes) {
        subject.traverse(&run, &nested("acme", path), listing(number, &[path], children)).await;
    }
    run
}

async fn tree(subject: &Subject, top: &[&str], nodes: &[(&str, &[&str])]) -> Vec<SectionReport> {
    let run = begin_tree(subject, top, nodes).await;
    let reports = sweep(subject, &run).await;
    subject.finish(&run).await;
    reports
}

async fn sweep(subject: &Subject, run: &RunId) -> Vec<SectionReport> {
    subject.store().sweep_unlisted(run, &"acme".into(), closing()).await.unwrap()
}

/// The report of a section that nothing was asked of.
fn gone(section: &SectionKey, number: u64) -> SectionReport {
    SectionReport { protocol: String::new(), ..report(section, number) }
}

async fn not_modified_counts_all_records_and_listed_sections_as_seen(subject: Subject) {
    let acme = root("acme");
    tree(&subject, &["x"], &[("x", &[])]).await;
    let run = subject.begin().await;
    let traversal = subject.open(&run, &acme).await;
    let effects = TaskEffects { result: TaskResult::NotModified, ..page(1, &[]) };
    assert_eq!(subject.commit(&traversal, effects).await, Committed { seen: 1, ..Committed::default() });
    let read_as = ReadAs { read: Some(ReadMode::NotModified), ..ReadAs::default() };
    assert_eq!(subject.close(&traversal).await, SectionReport { unchanged: 1, read_as, ..report(&acme, 2) });
    assert_eq!(sweep(&subject, &run).await, []);
    let marks: Vec<_> = subject.all().await.into_iter().map(|record| record.last_seen).collect();
    assert_eq!(marks, [2, 1]);
    subject.finish(&run).await;
    // The sighting counts against a later sweep only for the traversal that made it.
    let expected = SectionReport { added: 1, deleted: 1, ..report(&acme, 3) };
    assert_eq!(subject.crawl(&acme, page(1, &["new"])).await, expected);
}

async fn a_section_that_a_complete_parent_no_longer_lists_is_swept(subject: Subject) {
    tree(&subject, &["x", "y"], &[("x", &[]), ("y", &[])]).await;
    let run = begin_tree(&subject, &["y"], &[("y", &[])]).await;
    let x = nested("acme", "x");
    let expected = [SectionReport { deleted: 1, ..gone(&x, 1) }];
    assert_eq!(sweep(&subject, &run).await, expected);
    assert_eq!(subject.list().await, ["acme/r=r@1", "acme › y/y=y@1"]);
    assert_eq!(subject.feed(3).await, ["Deleted x"]);
    // Again, as a resumed run would.
    assert_eq!(sweep(&subject, &run).await, []);
    assert!(subject.store().reports(&run).await.unwrap().contains(&expected[0]));
}

async fn an_unlisted_section_over_the_guard_is_held_until_it_is_approved(subject: Subject) {
    let (acme, x) = (root("acme"), nested("acme", "x"));
    let run = subject.begin().await;
    subject.traverse(&run, &acme, listing(0, &["r"], &["x"])).await;
    subject.traverse(&run, &x, page_of(0..10)).await;
    subject.finish(&run).await;
    let held = SectionReport { held: Some(10), held_as: Some(1), kept_unseen: 10, ..gone(&x, 1) };
    assert_eq!(tree(&subject, &[], &[]).await, std::slice::from_ref(&held));
    assert_eq!(subject.section(&x).await.held, Some((1, 10)));
    let run = begin_tree(&subject, &[], &[]).await;
    assert_eq!(sweep(&subject, &run).await, [held]);
    let swept = subject.store().sweep_unlisted(&run, &"acme".into(), approving(&x, 1)).await.unwrap();
    assert_eq!(swept, [SectionReport { deleted: 10, ..gone(&x, 1) }]);
    assert_eq!(subject.section(&x).await.held, None);
}

async fn an_unlisted_section_is_kept_while_a_parent_is_partial(subject: Subject) {
    tree(&subject, &["x"], &[("x", &["y"]), ("y", &[])]).await;
    let run = subject.begin().await;
    subject.traverse(&run, &root("acme"), listing(0, &["r"], &["x"])).await;
    let limited = TaskEffects { limited: Some(Limited::MaxPages), ..listing(1, &["x"], &[]) };
    subject.traverse(&run, &nested("acme", "x"), limited).await;
    assert_eq!(sweep(&subject, &run).await, []);
    subject.finish(&run).await;
    // Once the parent is complete, it is swept.
    let reports = tree(&subject, &["x"], &[("x", &[])]).await;
    assert_eq!(reports, [SectionReport { deleted: 1, ..gone(&nested("acme", "y"), 1) }]);
}

async fn an_unlisted_section_is_kept_while_another_parent_lists_it(subject: Subject) {
    tree(&subject, &["x", "y"], &[("x", &["z"]), ("y", &["z"]), ("z", &[])]).await;
    assert_eq!(tree(&subject, &["x", "y"], &[("x", &[]), ("y", &["z"])]).await, []);
}

async fn an_unlisted_branch_goes_with_its_cycle(subject: Subject) {
    tree(&subject, &["x"], &[("x", &["y"]), ("y", &["x"])]).await;
    let reports = tree(&subject, &[], &[]).await;
    let swept = |path| SectionReport { deleted: 1, ..gone(&nested("acme", path), 1) };
    assert_eq!(reports, [swept("x"), swept("y")]);
    assert_eq!(subject.list().await, ["acme/r=r@1"]);
}

async fn a_listed_section_that_was_not_traversed_is_kept(subject: Subject) {
    tree(&subject, &["x"], &[("x", &["y"]), ("y", &[])]).await;
    assert_eq!(tree(&subject, &["x"], &[]).await, []);
    assert_eq!(subject.list().await.len(), 3);
}

async fn a_root_that_suddenly_lists_nothing_keeps_its_sections(subject: Subject) {
    let acme = root("acme");
    let run = subject.begin().await;
    subject.traverse(&run, &acme, listing(0, &[], &["x"])).await;
    subject.traverse(&run, &nested("acme", "x"), page(1, &["a"])).await;
    subject.finish(&run).await;
    // A broker has no records of its own; its outage looks like this.
    let run = subject.begin().await;
    let empty = subject.traverse(&run, &acme, page(0, &[])).await;
    assert_eq!(empty, SectionReport { held: Some(0), held_as: Some(2), ..report(&acme, 2) });
    assert_eq!(sweep(&subject, &run).await, []);
    subject.finish(&run).await;
    let run = subject.begin().await;
    subject.traverse_closing(&run, &acme, page(0, &[]), approving(&acme, 2)).await;
    assert_eq!(sweep(&subject, &run).await, [SectionReport { deleted: 1, ..gone(&nested("acme", "x"), 1) }]);
}

async fn an_incremental_run_sweeps_no_unlisted_section(subject: Subject) {
    tree(&subject, &["x"], &[("x", &[])]).await;
    let run = subject.begin_as(Mode::Incremental).await;
    subject.traverse(&run, &root("acme"), listing(0, &["r"], &[])).await;
    assert_eq!(sweep(&subject, &run).await, []);
    subject.finish(&run).await;
    assert_eq!(tree(&subject, &["x"], &[]).await, []);
}

async fn a_run_that_was_cut_short_sweeps_no_unlisted_section(subject: Subject) {
    tree(&subject, &["x"], &[("x", &[])]).await;
    let run = begin_tree(&subject, &[], &[]).await;
    let close = CloseTraversal { cut_short: Some("the deadline passed".to_owned()), ..closing() };
    assert_eq!(subject.store().sweep_unlisted(&run, &"acme".into(), close).await.unwrap(), []);
}

async fn a_section_that_comes_back_is_read_anew(subject: Subject) {
    let x = nested("acme", "x");
    let validators = Some(Validators { etag: Some("one".to_owned()), ..Validators::default() });
    let run = subject.begin().await;
    subject.traverse(&run, &root("acme"), listing(0, &["r"], &["x"])).await;
    subject.traverse(&run, &x, TaskEffects { validators, ..page(1, &["a"]) }).await;
    subject.finish(&run).await;
    tree(&subject, &[], &[]).await;
    let run = subject.begin().await;
    let Opened::Open { traversal, validators, .. } = subject.store().open_traversal(&run, &x).await.unwrap() else {
        panic!("not open");
    };
    assert_eq!((traversal.number, validators), (2, None));
}

async fn a_cycle_of_sections_is_traversed_once_each(subject: Subject) {
    let run = subject.begin().await;
    let (acme, x) = (root("acme"), nested("acme", "x"));
    let (top, sub) = (task(&acme, "root"), task(&x, "root"));
    subject.store().seed(&run, std::slice::from_ref(&top)).await.unwrap();
    for (section, id, next) in [(&acme, top.id, &sub), (&x, sub.id, &top)] {
        let traversal = subject.open(&run, section).await;
        let listed_sections = vec![next.section.clone()];
        let effects = TaskEffects { task: id, feedback: vec![next.clone()], listed_sections, ..page(0, &["a"]) };
        assert_eq!(subject.commit(&traversal, effects).await.pending, 0);
        let closed = subject.close(&traversal).await;
        assert_eq!((closed.added, closed.partial), (1, None));
    }
    assert_eq!(subject.store().pending_tasks(&run, None, 10).await.unwrap(), []);
    assert_eq!(sweep(&subject, &run).await, []);
}

async fn a_removed_node_is_swept_and_forgotten(subject: Subject) {
    tree(&subject, &["x"], &[("x", &[])]).await;
    let run = subject.begin().await;
    let outcome = outcome(NodeReading::Complete, 1);
    subject.store().record_node(&run, &"acme".into(), outcome).await.unwrap();
    let reports = subject.store().sweep_removed_node(&run, &"acme".into(), closing()).await.unwrap();
    let swept = |section: SectionKey| SectionReport { deleted: 1, ..gone(&section, 1) };
    assert_eq!(reports, [swept(root("acme")), swept(nested("acme", "x"))]);
    assert_eq!(subject.store().nodes(&subject.catalog).await.unwrap().len(), 0);
    subject.finish(&run).await;
    // Its traversals' numbers go on if it is selected again.
    assert_eq!(
        subject.crawl(&root("acme"), page(1, &["r"])).await,
        SectionReport { added: 1, ..report(&root("acme"), 2) }
    );
}

async fn a_removed_node_over_the_guard_is_held_until_it_is_approved(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page_of(0..10)).await;
    let run = subject.begin().await;
    let reports = subject.store().sweep_removed_node(&run, &"acme".into(), closing()).await.unwrap();
    assert_eq!(reports, [SectionReport { held: Some(10), held_as: Some(1), kept_unseen: 10, ..gone(&acme, 1) }]);
    subject.finish(&run).await;
    assert_eq!(subject.store().nodes(&subject.catalog).await.unwrap()[&"acme".into()].records, 10);
    let run = subject.begin().await;
    let reports = subject.store().sweep_removed_node(&run, &"acme".into(), approving(&acme, 1)).await.unwrap();
    assert_eq!(reports, [SectionReport { deleted: 10, ..gone(&acme, 1) }]);
}

async fn a_partial_sweeps_approval_does_not_cover_a_removal(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page_of(0..20)).await;
    subject.crawl(&acme, page_of(0..12)).await;
    assert_eq!(subject.section(&acme).await.held, Some((2, 8)));
    let run = subject.begin().await;
    let reports = subject.store().sweep_removed_node(&run, &"acme".into(), approving(&acme, 2)).await.unwrap();
    assert_eq!(reports, [SectionReport { held: Some(20), held_as: Some(3), kept_unseen: 20, ..gone(&acme, 3) }]);
    subject.finish(&run).await;
    // Nor in the run after, when as many wait as are there.
    let run = subject.begin().await;
    let reports = subject.store().sweep_removed_node(&run, &"acme".into(), approving(&acme, 2)).await.unwrap();
    assert_eq!(reports, [SectionReport { held: Some(20), held_as: Some(3), kept_unseen: 20, ..gone(&acme, 3) }]);
}

async fn a_node_that_fails_keeps_its_records(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page(1, &["a"])).await;
    for number in 2..5 {
        let report = subject.crawl(&acme, failed(1, "acme.example does not answer")).await;
        assert_eq!((report.number, report.kept_unseen, report.deleted), (number, 1, 0));
    }
    assert_eq!(subject.list().await, ["acme/a=a@1"]);
}
