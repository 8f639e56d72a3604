//! Origins that are to be left alone are remembered between processes, as long as it matters.

use trawler::store::*;

use super::contract;
use super::harness::*;

contract!(
    closed_origins_outlive_the_run_and_the_process,
    an_origin_stays_closed_until_the_latest_moment_that_was_said,
    what_has_passed_is_forgotten,
    no_origin_stays_closed_for_longer_than_the_latest_moment_that_is_believed,
    of_too_many_closed_origins_those_that_open_first_are_forgotten,
);

/// Later than any moment that matters.
const EVER: i64 = 1_000_000;

fn closed(name: &str, second: i64) -> ClosedOrigin {
    ClosedOrigin { origin: format!("https://{name}.example:443").into(), until: at(second) }
}

async fn close(subject: &Subject, name: &str, second: i64) {
    subject.store().close_origins(vec![closed(name, second)]).await.unwrap();
}

async fn told(subject: &Subject, now: i64, latest: i64) -> Vec<ClosedOrigin> {
    subject.store().closed_origins(at(now), at(latest)).await.unwrap()
}

async fn closed_origins_outlive_the_run_and_the_process(mut subject: Subject) {
    let run = subject.begin().await;
    close(&subject, "beta", 20).await;
    subject.finish(&run).await;
    subject.next_process();
    let subject = subject.for_catalog("energy");
    close(&subject, "acme", 30).await;
    for _ in 0..2 {
        assert_eq!(told(&subject, 0, EVER).await, [closed("acme", 30), closed("beta", 20)]);
    }
}

async fn an_origin_stays_closed_until_the_latest_moment_that_was_said(subject: Subject) {
    for second in [10, 30, 20] {
        close(&subject, "acme", second).await;
    }
    assert_eq!(told(&subject, 0, EVER).await, [closed("acme", 30)]);
}

async fn what_has_passed_is_forgotten(subject: Subject) {
    for (name, second) in [("acme", 10), ("beta", 11), ("corp", 9)] {
        close(&subject, name, second).await;
    }
    assert_eq!(told(&subject, 10, EVER).await, [closed("beta", 11)]);
    assert_eq!(told(&subject, 0, EVER).await, [closed("beta", 11)]);
    close(&subject, "acme", 5).await;
    assert_eq!(told(&subject, 0, EVER).await, [closed("acme", 5), closed("beta", 11)], "and can be closed again");
}

/// A clock that was ahead and was set right must not close an origin at every start.
async fn no_origin_stays_closed_for_longer_than_the_latest_moment_that_is_believed(mut subject: Subject) {
    close(&subject, "acme", EVER).await;
    close(&subject, "beta", 3_000).await;
    assert_eq!(told(&subject, 0, 3_600).await, [closed("acme", 3_600), closed("beta", 3_000)]);
    subject.next_process();
    assert_eq!(told(&subject, 100, 3_700).await, [closed("acme", 3_600), closed("beta", 3_000)]);
    assert_eq!(told(&subject, 3_600, 7_200).await, []);
}

async fn of_too_many_closed_origins_those_that_open_first_are_forgotten(subject: Subject) {
    let kept = i64::try_from(MAX_CLOSED_ORIGINS).unwrap();
    let many = (1..=kept).map(|number| closed(&number.to_string(), number)).collect();
    subject.store().close_origins(many).await.unwrap();
    // Known ones take no room.
    close(&subject, "1", 1).await;
    close(&subject, "1", 2).await;
    assert_eq!(told(&subject, 0, EVER).await.len(), MAX_CLOSED_ORIGINS);
    close(&subject, "new", 1).await;
    let mut left: Vec<i64> = told(&subject, 0, EVER).await.into_iter().map(|closed| closed.until.as_second()).collect();
    left.sort_unstable();
    let expected: Vec<i64> =
        std::iter::once(1).chain(kept / 2 + 1..=kept).map(|number| at(number).as_second()).collect();
    assert_eq!(left, expected);
}
