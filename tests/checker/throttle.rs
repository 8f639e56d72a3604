//! Limits over seconds, kept and used by real crawls in real time, judged by what the servers saw.

use std::time::Duration;

use crate::machine::judge_undisturbed;
use crate::place::{Per, Place, Policy, calls};
use crate::rules::{Limit, Rules, Unit};
use crate::verdict::Law;
use crate::watched::{Asked, Behaviour, Layout, RetryAfter, Watched};

/// Crawls a federation under a policy, and fails if anything is wrong with that; `busy_s`: for at least so long work must
/// have waited for each budget, else nothing was shown.
pub(crate) fn judge_policy(layout: Layout, policy: &Policy, busy_s: f64) {
    let rules = policy.rules(layout.nodes);
    let verdict = judge_undisturbed(|| {
        let federation = Watched::start(layout);
        Place::new(&federation, policy).crawl(&federation).judge(&rules)
    });
    println!("{verdict}");
    verdict.assert_clean();
    for used in &verdict.used {
        assert!(used.waited_s >= busy_s, "{verdict}");
    }
}

/// So many nodes with so many pages of one dataset each.
fn layout(nodes: usize, servers: usize, pages: usize) -> Layout {
    Layout { nodes, servers, datasets_per_node: pages, page_size: 1 }
}

#[test]
fn one_node_keeps_to_ten_calls_a_second_spread_evenly() {
    judge_policy(layout(1, 1, 110), &Policy::of(calls(10, 1, true)), 5.0);
}

#[test]
fn ten_nodes_share_twenty_calls_a_second_that_burst() {
    judge_policy(layout(10, 10, 20), &Policy::of(calls(20, 1, false)), 5.0);
}

#[test]
fn a_thousand_nodes_share_sixty_calls_a_second_that_burst() {
    judge_policy(layout(1000, 200, 1), &Policy::of(calls(60, 1, false)), 20.0);
}

#[test]
fn a_thousand_nodes_on_one_server_share_sixty_calls_a_second_spread_evenly() {
    let policy = Policy { per: Per::Connection { connections: 1 }, ..Policy::of(calls(60, 1, true)) };
    judge_policy(layout(1000, 1, 1), &policy, 20.0);
}

#[test]
fn each_node_has_its_own_budget_where_that_is_asked_for() {
    let policy = Policy { per: Per::Node, ..Policy::of(calls(4, 1, true)) };
    judge_policy(layout(10, 1, 40), &policy, 5.0);
}

#[test]
fn each_server_has_its_own_budget_where_nothing_else_is_asked_for() {
    let policy = Policy { per: Per::Connection { connections: 2 }, ..Policy::of(calls(10, 1, false)) };
    judge_policy(layout(10, 2, 20), &policy, 5.0);
}

#[test]
fn servers_under_one_connection_share_its_budget() {
    let policy = Policy { per: Per::Connection { connections: 2 }, ..Policy::of(calls(10, 1, true)) };
    judge_policy(layout(10, 10, 20), &policy, 5.0);
}

#[test]
fn of_two_limits_both_bind() {
    let policy = Policy { limits: vec![calls(10, 1, true), calls(60, 10, false)], ..Policy::of(calls(10, 1, true)) };
    judge_policy(layout(5, 5, 30), &policy, 5.0);
}

/// In any four seconds: what is under way between one answer and the next is little of it.
fn post_paid(unit: Unit, amount: u64) -> Policy {
    let limit = Limit { unit, amount, period: Duration::from_secs(4), even: false };
    Policy { max_concurrent: Some(4), ..Policy::of(limit) }
}

#[test]
fn documents_are_overshot_by_what_is_under_way_at_most_and_paid() {
    let layout = Layout { nodes: 10, servers: 10, datasets_per_node: 140, page_size: 7 };
    judge_policy(layout, &post_paid(Unit::Documents, 400), 8.0);
}

#[test]
fn bytes_are_overshot_by_what_is_under_way_at_most_and_paid() {
    let layout = Layout { nodes: 10, servers: 5, datasets_per_node: 120, page_size: 8 };
    judge_policy(layout, &post_paid(Unit::Bytes, 100_000), 8.0);
}

#[test]
fn no_more_are_under_way_than_a_policy_and_each_server_allow() {
    let layout = layout(20, 2, 10);
    let policy = Policy { max_concurrent: Some(10), ..Policy::of(calls(1000, 1, false)) };
    // What binds here is how many are under way, not the rate.
    let rules = Rules { must_use: false, ..policy.rules(layout.nodes) };
    let verdict = judge_undisturbed(|| {
        let federation = Watched::start_with(layout, |_| Behaviour::answers_after(Duration::from_millis(500)));
        let crawl = Place::new(&federation, &policy).crawl(&federation);
        let mut verdict = crawl.judge(&rules);
        let took = crawl.seen.last().unwrap().answered - crawl.seen[0].arrived;
        let at_best = i64::try_from(crawl.seen.len()).unwrap() * 500_000 / 10;
        if at_best * 10 < took * 9 {
            verdict.add(Law::Use, format!("it took {} ms, and could have taken {}", took / 1000, at_best / 1000));
        }
        verdict
    });
    verdict.assert_clean();
}

/// Now and then a server refuses six requests in a row, or what of them is sent.
fn stormy(status: u16, retry_after: RetryAfter) -> impl Fn(Asked) -> Behaviour + Send + Sync + 'static {
    move |asked| Behaviour {
        takes: Duration::from_millis(5),
        refuses: (asked.number % 40 >= 34).then_some((status, retry_after)),
    }
}

fn judge_storm(status: u16, retry_after: RetryAfter, adaptive: bool) {
    let layout = layout(12, 3, 15);
    let policy = Policy { adaptive, ..Policy::of(calls(30, 1, false)) };
    // Who slows down of his own accord leaves something of what is allowed.
    let rules = Rules { must_use: !adaptive, ..policy.rules(layout.nodes) };
    let verdict = judge_undisturbed(|| {
        let federation = Watched::start_with(layout, stormy(status, retry_after));
        let crawl = Place::new(&federation, &policy).crawl(&federation);
        let refused = crawl.seen.iter().filter(|seen| seen.is_pushback()).count();
        assert!(refused >= 6, "there was a storm");
        crawl.judge(&rules)
    });
    println!("{verdict}");
    verdict.assert_clean();
}

#[test]
fn a_storm_of_429_with_seconds_to_wait_is_waited_out() {
    judge_storm(429, RetryAfter::Seconds(1), false);
}

#[test]
fn a_storm_of_429_with_a_date_to_wait_for_is_waited_out() {
    judge_storm(429, RetryAfter::Date(1), false);
}

#[test]
fn a_storm_of_503_that_says_nothing_is_waited_out() {
    judge_storm(503, RetryAfter::None, false);
}

#[test]
fn who_slows_down_after_a_storm_keeps_to_every_limit_and_loses_nothing() {
    judge_storm(429, RetryAfter::Seconds(2), true);
}
