//! Runs, tasks, and who may write.

use trawler::store::*;
use trawler::task::TaskId;

use super::contract;
use super::harness::*;

contract!(
    runs_of_a_catalog_are_numbered,
    an_unfinished_run_must_end_before_the_next_begins,
    an_unfinished_run_is_found_by_the_next_process,
    a_finished_run_is_written_to_no_more,
    a_task_that_is_committed_again_changes_nothing,
    seeded_tasks_are_pending_until_they_are_settled,
    pending_tasks_are_paged,
    feedback_is_recorded_with_what_its_task_found,
    known_feedback_is_not_recorded_again,
    a_page_link_that_leads_back_makes_the_traversal_partial,
    a_page_link_that_leads_back_is_excused_when_the_total_was_given,
    a_resumed_run_keeps_the_number_and_raises_the_attempt,
    a_resumed_traversal_says_what_it_has_come_to,
    two_workers_of_one_process_share_an_attempt,
    an_attempt_that_was_taken_over_is_superseded,
    a_traversal_of_an_earlier_run_is_refused,
    closing_twice_gives_the_same_report,
    a_closed_traversal_takes_no_more_commits,
    a_closed_section_stays_closed_for_the_run,
    a_run_that_is_cut_short_closes_what_is_open,
    finishing_a_run_closes_what_is_open_as_partial,
    reports_are_those_of_the_run_in_order_of_their_sections,
);

async fn runs_of_a_catalog_are_numbered(subject: Subject) {
    for number in 1..=3 {
        let state = subject.store().begin_run(start(&subject.catalog, Mode::Full)).await.unwrap();
        let expected = RunState {
            run: format!("mobility-{number}").into(),
            number,
            catalog: subject.catalog.clone(),
            mode: Mode::Full,
            spec: "[]".to_owned(),
            started_at: at(0),
        };
        assert_eq!(state, expected);
        subject.finish(&state.run).await;
    }
    assert_eq!(subject.for_catalog("energy").begin().await.as_str(), "energy-1");
}

async fn an_unfinished_run_must_end_before_the_next_begins(subject: Subject) {
    let run = subject.begin().await;
    let refused = subject.store().begin_run(start(&subject.catalog, Mode::Full)).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "run mobility-1 of Catalog mobility is unfinished; resume it, or abandon it with --restart"
    );
    subject.finish(&run).await;
    assert_eq!(subject.begin().await.as_str(), "mobility-2");
}

async fn an_unfinished_run_is_found_by_the_next_process(mut subject: Subject) {
    assert_eq!(subject.store().unfinished_run(&subject.catalog).await.unwrap(), None);
    let begun = subject.store().begin_run(start(&subject.catalog, Mode::Incremental)).await.unwrap();
    subject.next_process();
    assert_eq!(subject.store().unfinished_run(&subject.catalog).await.unwrap(), Some(begun.clone()));
    assert_eq!(subject.store().unfinished_run(&"energy".into()).await.unwrap(), None);
    subject.finish(&begun.run).await;
    assert_eq!(subject.store().unfinished_run(&subject.catalog).await.unwrap(), None);
}

async fn a_finished_run_is_written_to_no_more(subject: Subject) {
    let run = subject.begin().await;
    let traversal = subject.open(&run, &root("acme")).await;
    subject.finish(&run).await;
    let store = subject.store();
    let refused = [
        store.seed(&run, &[]).await.unwrap_err(),
        store.open_traversal(&run, &root("acme")).await.unwrap_err(),
        store.commit(&traversal, page(1, &["a"])).await.unwrap_err(),
        store.close_traversal(&traversal, closing()).await.unwrap_err(),
        store.finish_run(&run, "{}").await.unwrap_err(),
        store.pending_tasks(&run, None, 1).await.unwrap_err(),
        store.finish_run(&"never-1".into(), "{}").await.unwrap_err(),
    ];
    for error in refused {
        assert!(matches!(error, StoreError::NoSuchRun { .. }), "{error:?}");
    }
    assert_eq!(subject.list().await, [""; 0]);
}

async fn a_task_that_is_committed_again_changes_nothing(subject: Subject) {
    let run = subject.begin().await;
    let acme = root("acme");
    let traversal = subject.open(&run, &acme).await;
    let effects = |records: &[&str]| TaskEffects { bytes: 7, requests: 1, ..page(1, records) };
    subject.commit(&traversal, effects(&["a"])).await;
    let again = subject.commit(&traversal, effects(&["a@2", "b"])).await;
    assert_eq!(again, Committed { already_settled: true, seen: 1, bytes: 7, ..Committed::default() });
    let expected = SectionReport { added: 1, requests: 1, bytes: 7, ..report(&acme, 1) };
    assert_eq!(subject.close(&traversal).await, expected);
    assert_eq!(subject.list().await, ["acme/a=a@1"]);
}

async fn seeded_tasks_are_pending_until_they_are_settled(mut subject: Subject) {
    let run = subject.begin().await;
    let (acme, beta) = (root("acme"), root("beta"));
    let mut tasks = vec![task(&acme, "1"), task(&acme, "2"), task(&beta, "1")];
    subject.store().seed(&run, &tasks).await.unwrap();
    subject.store().seed(&run, &tasks).await.unwrap();
    tasks.sort_by_key(|task| task.id);
    subject.next_process();
    assert_eq!(subject.store().pending_tasks(&run, None, 10).await.unwrap(), tasks);
    let traversal = subject.open(&run, &acme).await;
    let settle = |cursor| TaskEffects { task: task(&acme, cursor).id, ..page(0, &[]) };
    assert_eq!(subject.commit(&traversal, settle("1")).await.pending, 1);
    assert_eq!(subject.commit(&traversal, settle("2")).await.pending, 0);
    assert_eq!(subject.store().pending_tasks(&run, None, 10).await.unwrap(), [task(&beta, "1")]);
    subject.store().seed(&run, &tasks).await.unwrap();
    assert_eq!(subject.store().pending_tasks(&run, None, 10).await.unwrap(), [task(&beta, "1")]);
}

async fn pending_tasks_are_paged(subject: Subject) {
    let run = subject.begin().await;
    let mut tasks: Vec<_> = (0..7).map(|n| task(&root("acme"), &n.to_string())).collect();
    subject.store().seed(&run, &tasks).await.unwrap();
    tasks.sort_by_key(|task| task.id);
    let mut found = Vec::new();
    let mut after: Option<TaskId> = None;
    loop {
        let some = subject.store().pending_tasks(&run, after, 3).await.unwrap();
        let Some(last) = some.last() else { break };
        after = Some(last.id);
        found.extend(some);
    }
    assert_eq!(found, tasks);
}

async fn feedback_is_recorded_with_what_its_task_found(mut subject: Subject) {
    let run = subject.begin().await;
    let (acme, sub) = (root("acme"), nested("acme", "sub"));
    let first = task(&acme, "1");
    subject.store().seed(&run, std::slice::from_ref(&first)).await.unwrap();
    let traversal = subject.open(&run, &acme).await;
    let mut feedback = vec![task(&acme, "2"), task(&sub, "1")];
    let effects = TaskEffects { task: first.id, feedback: feedback.clone(), ..page(0, &["a"]) };
    assert_eq!(subject.commit(&traversal, effects).await.pending, 1);
    subject.next_process();
    feedback.sort_by_key(|task| task.id);
    assert_eq!(subject.store().pending_tasks(&run, None, 10).await.unwrap(), feedback);
}

async fn known_feedback_is_not_recorded_again(subject: Subject) {
    let run = subject.begin().await;
    let acme = root("acme");
    let tasks = [task(&acme, "1"), task(&acme, "2")];
    subject.store().seed(&run, &tasks).await.unwrap();
    let traversal = subject.open(&run, &acme).await;
    for task in &tasks {
        let effects = TaskEffects { task: task.id, feedback: tasks.to_vec(), ..page(0, &[]) };
        subject.commit(&traversal, effects).await;
    }
    assert_eq!(subject.store().pending_tasks(&run, None, 10).await.unwrap(), []);
}

/// Page 2 leads back to page 1.
async fn looping(subject: &Subject, total: Option<u64>) -> SectionReport {
    let run = subject.begin().await;
    let acme = root("acme");
    let (first, second) = (task(&acme, "1"), task(&acme, "2"));
    subject.store().seed(&run, std::slice::from_ref(&first)).await.unwrap();
    let traversal = subject.open(&run, &acme).await;
    let forth = TaskEffects { task: first.id, feedback: vec![second.clone()], total, ..page(0, &["a"]) };
    let back = TaskEffects { task: second.id, feedback: vec![first], total, ..page(0, &["b"]) };
    subject.commit(&traversal, forth).await;
    assert_eq!(subject.commit(&traversal, back).await.pending, 0);
    subject.close(&traversal).await
}

async fn a_page_link_that_leads_back_makes_the_traversal_partial(subject: Subject) {
    let partial = Some("a page link led to a page already read".to_owned());
    assert_eq!(looping(&subject, None).await, SectionReport { added: 2, partial, ..report(&root("acme"), 1) });
}

async fn a_page_link_that_leads_back_is_excused_when_the_total_was_given(subject: Subject) {
    let expected = SectionReport { added: 2, total: Some(2), ..report(&root("acme"), 1) };
    assert_eq!(looping(&subject, Some(2)).await, expected);
}

async fn a_resumed_run_keeps_the_number_and_raises_the_attempt(mut subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page(1, &["gone"])).await;
    let run = subject.begin().await;
    let first = subject.open(&run, &acme).await;
    assert_eq!((first.number, first.attempt), (2, 1));
    subject.commit(&first, page(1, &["a"])).await;
    subject.next_process();
    let second = subject.open(&run, &acme).await;
    assert_eq!((second.number, second.attempt), (2, 2));
    let committed = subject.commit(&second, page(2, &["a", "b"])).await;
    assert_eq!(committed, Committed { added: 1, repeated: 1, seen: 2, ..Committed::default() });
    assert_eq!(subject.close(&second).await, SectionReport { added: 2, deleted: 1, ..report(&acme, 2) });
}

async fn a_resumed_traversal_says_what_it_has_come_to(mut subject: Subject) {
    let acme = root("acme");
    let run = subject.begin().await;
    let so_far = |opened| match opened {
        Opened::Open { so_far, .. } => so_far,
        other => panic!("not open: {other:?}"),
    };
    let opened = subject.store().open_traversal(&run, &acme).await.unwrap();
    assert_eq!(so_far(opened), SoFar::default());
    let first = subject.open(&run, &acme).await;
    subject.commit(&first, TaskEffects { requests: 2, bytes: 70, total: Some(9), ..page(1, &["a", "b"]) }).await;
    subject.next_process();
    let opened = subject.store().open_traversal(&run, &acme).await.unwrap();
    assert_eq!(so_far(opened), SoFar { records: 2, requests: 2, bytes: 70, total: Some(9) });
}

async fn two_workers_of_one_process_share_an_attempt(subject: Subject) {
    let run = subject.begin().await;
    let first = subject.open(&run, &root("acme")).await;
    assert_eq!(subject.open(&run, &root("acme")).await, first);
}

async fn an_attempt_that_was_taken_over_is_superseded(mut subject: Subject) {
    let run = subject.begin().await;
    let old = subject.open(&run, &root("acme")).await;
    subject.next_process();
    let new = subject.open(&run, &root("acme")).await;
    let refused = subject.store().commit(&old, page(1, &["a"])).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "traversal 1 (attempt 1) of acme was taken over; this crawler must stop writing to it"
    );
    let refused = subject.store().close_traversal(&old, closing()).await.unwrap_err();
    assert!(matches!(refused, StoreError::Superseded { .. }), "{refused:?}");
    assert_eq!(subject.list().await, [""; 0]);
    subject.commit(&new, page(1, &["a"])).await;
}

async fn a_traversal_of_an_earlier_run_is_refused(subject: Subject) {
    let acme = root("acme");
    let run = subject.begin().await;
    let old = subject.open(&run, &acme).await;
    subject.finish(&run).await;
    let run = subject.begin().await;
    subject.open(&run, &acme).await;
    let forged = Traversal { run, ..old };
    let refused = subject.store().commit(&forged, page(1, &["a"])).await.unwrap_err();
    assert!(matches!(refused, StoreError::Superseded { number: 1, .. }), "{refused:?}");
}

async fn closing_twice_gives_the_same_report(subject: Subject) {
    let run = subject.begin().await;
    let traversal = subject.open(&run, &root("acme")).await;
    subject.commit(&traversal, page(1, &["a"])).await;
    let report = subject.close(&traversal).await;
    let cut_short = CloseTraversal { cut_short: Some("late".to_owned()), ..closing() };
    assert_eq!(subject.store().close_traversal(&traversal, cut_short).await.unwrap(), report);
}

async fn a_closed_traversal_takes_no_more_commits(subject: Subject) {
    let run = subject.begin().await;
    let traversal = subject.open(&run, &root("acme")).await;
    subject.close(&traversal).await;
    let committed = subject.commit(&traversal, page(1, &["a"])).await;
    assert_eq!(committed, Committed { already_settled: true, ..Committed::default() });
    assert_eq!(subject.list().await, [""; 0]);
}

async fn a_closed_section_stays_closed_for_the_run(mut subject: Subject) {
    let run = subject.begin().await;
    let acme = root("acme");
    let traversal = subject.open(&run, &acme).await;
    let report = subject.close(&traversal).await;
    subject.next_process();
    let opened = subject.store().open_traversal(&run, &acme).await.unwrap();
    assert_eq!(opened, Opened::Closed { report: Box::new(report) });
    // A link back to it from elsewhere makes no work that nobody would do.
    subject.store().seed(&run, &[task(&acme, "late")]).await.unwrap();
    assert_eq!(subject.store().pending_tasks(&run, None, 10).await.unwrap(), []);
}

async fn a_run_that_is_cut_short_closes_what_is_open(subject: Subject) {
    let run = subject.begin().await;
    let (acme, beta) = (root("acme"), root("beta"));
    let done = subject.traverse(&run, &acme, page(1, &["a"])).await;
    let gamma = root("gamma");
    subject.store().seed(&run, &[task(&gamma, "1")]).await.unwrap();
    let traversal = subject.open(&run, &beta).await;
    subject.commit(&traversal, page(2, &["b"])).await;
    let close = CloseTraversal { cut_short: Some("the deadline passed".to_owned()), ..closing() };
    subject.store().cut_short(&run, close).await.unwrap();
    let partial = Some("the deadline passed".to_owned());
    let cut = SectionReport { added: 1, partial: partial.clone(), ..report(&beta, 1) };
    let never_opened = SectionReport { partial, protocol: String::new(), ..report(&gamma, 0) };
    assert_eq!(subject.store().reports(&run).await.unwrap(), [done, cut, never_opened]);
}

async fn finishing_a_run_closes_what_is_open_as_partial(subject: Subject) {
    let acme = root("acme");
    subject.crawl(&acme, page(1, &["a", "b"])).await;
    let run = subject.begin().await;
    let traversal = subject.open(&run, &acme).await;
    subject.commit(&traversal, page(1, &["a"])).await;
    subject.finish(&run).await;
    let state = SectionState { section: acme.clone(), number: 2, last_complete: 1, records: 2, held: None };
    assert_eq!(subject.section(&acme).await, state);
    assert_eq!(subject.crawl(&acme, page(1, &["a"])).await.number, 3);
}

async fn reports_are_those_of_the_run_in_order_of_their_sections(subject: Subject) {
    subject.crawl(&root("old"), page(1, &["a"])).await;
    let run = subject.begin().await;
    let mut expected = Vec::new();
    for (number, section) in [root("beta"), nested("acme", "x"), root("acme")].iter().enumerate() {
        expected.push(subject.traverse(&run, section, page(u8::try_from(number).unwrap(), &["a"])).await);
    }
    expected.extend(subject.store().sweep_removed_node(&run, &"old".into(), closing()).await.unwrap());
    expected.sort_by(|a, b| a.section.cmp(&b.section));
    assert_eq!(subject.store().reports(&run).await.unwrap(), expected);
    assert_eq!(expected.len(), 4);
}
