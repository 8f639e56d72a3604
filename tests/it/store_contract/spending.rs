//! What was spent is remembered between processes, and grows with neither time nor requests.

use trawler::store::*;

use super::contract;
use super::harness::*;

contract!(
    what_a_task_cost_is_remembered_with_its_effects,
    what_is_spent_in_one_minute_counts_as_of_its_last_moment,
    a_task_that_is_settled_already_has_cost_something_all_the_same,
    spendings_outlive_the_run_and_are_those_of_all_catalogs,
    only_spendings_after_a_moment_are_told,
    old_spendings_are_told_by_the_hour_then_by_the_day_then_no_more,
    spendings_of_a_node_that_is_asked_for_a_month_take_few_rows,
    spendings_from_a_clock_that_was_set_back_count_as_now,
    a_process_that_did_not_end_in_order_is_noticed_by_the_next,
);

fn spending(node: &str, second: i64, calls: u64) -> Spending {
    Spending { calls, ..Spending::none(node.into(), at(second)) }
}

async fn told(subject: &Subject, after: i64) -> Vec<Spending> {
    subject.store().spendings(at(after)).await.unwrap()
}

async fn spend(subject: &Subject, node: &str, second: i64, calls: u64) {
    subject.store().spend(vec![spending(node, second, calls)]).await.unwrap();
}

async fn what_a_task_cost_is_remembered_with_its_effects(mut subject: Subject) {
    let run = subject.begin().await;
    let traversal = subject.open(&run, &root("acme")).await;
    let effects = TaskEffects { calls: 3, requests: 2, bytes: 70, at: at(5), ..page(1, &["a", "b"]) };
    subject.commit(&traversal, effects).await;
    subject.next_process();
    let expected = Spending { documents: 2, bytes: 70, ..spending("acme", 5, 3) };
    assert_eq!(told(&subject, 0).await, [expected]);
}

async fn what_is_spent_in_one_minute_counts_as_of_its_last_moment(subject: Subject) {
    // The minute that starts at 0 is a minute of the clock.
    for second in [0, 59, 30, 60] {
        spend(&subject, "acme", second, 1).await;
    }
    spend(&subject, "beta", 7, 5).await;
    spend(&subject, "beta", 8, 0).await;
    let expected = [spending("beta", 7, 5), spending("acme", 59, 3), spending("acme", 60, 1)];
    assert_eq!(told(&subject, -1).await, expected);
}

async fn a_task_that_is_settled_already_has_cost_something_all_the_same(subject: Subject) {
    let run = subject.begin().await;
    let traversal = subject.open(&run, &root("acme")).await;
    let effects = || TaskEffects { calls: 1, at: at(5), ..page(1, &["a"]) };
    subject.commit(&traversal, effects()).await;
    assert!(subject.commit(&traversal, effects()).await.already_settled);
    assert_eq!(told(&subject, 0).await, [Spending { documents: 2, ..spending("acme", 5, 2) }]);
}

async fn spendings_outlive_the_run_and_are_those_of_all_catalogs(subject: Subject) {
    let spend = async |subject: &Subject| {
        let run = subject.begin().await;
        let traversal = subject.open(&run, &root("acme")).await;
        subject.commit(&traversal, TaskEffects { calls: 1, at: at(5), ..page(1, &[]) }).await;
        subject.finish(&run).await;
    };
    spend(&subject).await;
    let subject = subject.for_catalog("energy");
    spend(&subject).await;
    assert_eq!(told(&subject, 0).await, [spending("acme", 5, 2)]);
}

async fn only_spendings_after_a_moment_are_told(subject: Subject) {
    for second in [10, 100, 200, 300] {
        spend(&subject, "acme", second, 1).await;
    }
    assert_eq!(told(&subject, 100).await, [spending("acme", 200, 1), spending("acme", 300, 1)]);
    assert_eq!(told(&subject, 300).await, []);
}

async fn old_spendings_are_told_by_the_hour_then_by_the_day_then_no_more(subject: Subject) {
    let (hour, day) = (3600, 24 * 3600);
    // 1,800,000,000 is 8:00 of a day.
    for second in [10, 100, hour + 10] {
        spend(&subject, "acme", second, 1).await;
    }
    let tell_at = async |now: i64| {
        subject.store().begin_spending(at(now)).await.unwrap();
        told(&subject, -day).await
    };
    let minutes = [spending("acme", 10, 1), spending("acme", 100, 1), spending("acme", hour + 10, 1)];
    assert_eq!(tell_at(hour + 20).await, minutes);
    let hours = [spending("acme", 100, 2), spending("acme", hour + 10, 1)];
    assert_eq!(tell_at(3 * hour).await, hours);
    assert_eq!(tell_at(40 * hour).await, hours);
    let days = [spending("acme", hour + 10, 3)];
    assert_eq!(tell_at(4 * day).await, days);
    assert_eq!(tell_at(31 * day).await, days);
    assert_eq!(tell_at(34 * day).await, []);
}

async fn spendings_of_a_node_that_is_asked_for_a_month_take_few_rows(subject: Subject) {
    let minutes = 31 * 24 * 60;
    for minute in (0..minutes).step_by(20) {
        spend(&subject, "acme", minute * 60, 1).await;
        if minute % 240 == 0 {
            subject.store().begin_spending(at(minute * 60)).await.unwrap();
        }
    }
    let told = told(&subject, -1).await;
    assert_eq!(told.iter().map(|spending| spending.calls).sum::<u64>(), 31 * 24 * 3);
    assert!(told.len() < 120, "{} rows", told.len());
}

async fn spendings_from_a_clock_that_was_set_back_count_as_now(subject: Subject) {
    spend(&subject, "acme", 1_000_000, 4).await;
    spend(&subject, "acme", 90, 1).await;
    subject.store().begin_spending(at(100)).await.unwrap();
    assert_eq!(told(&subject, 0).await, [spending("acme", 100, 5)]);
}

async fn a_process_that_did_not_end_in_order_is_noticed_by_the_next(mut subject: Subject) {
    let mut was_under_way = Vec::new();
    for ends_in_order in [true, false, false, true, true] {
        was_under_way.push(subject.store().begin_spending(at(0)).await.unwrap());
        if ends_in_order {
            subject.store().end_spending().await.unwrap();
        }
        subject.next_process();
    }
    assert_eq!(was_under_way, [false, false, true, true, false]);
}
