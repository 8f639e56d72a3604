//! Limits over a minute, kept and used by real crawls in real time. They take two minutes, most of it asleep.

use crate::place::{Policy, calls};
use crate::throttle::judge_policy;
use crate::watched::Layout;

fn judge_minutes(nodes: usize, servers: usize, pages: usize, policy: &Policy) {
    judge_policy(Layout { nodes, servers, datasets_per_node: pages, page_size: 1 }, policy, 100.0);
}

#[test]
fn one_node_keeps_to_sixty_calls_a_minute_spread_evenly() {
    judge_minutes(1, 1, 124, &Policy::of(calls(60, 60, true)));
}

#[test]
fn ten_nodes_share_forty_calls_a_minute_that_burst() {
    judge_minutes(10, 10, 11, &Policy::of(calls(40, 60, false)));
}

#[test]
fn a_thousand_nodes_share_a_thousand_calls_a_minute_spread_evenly() {
    judge_minutes(1000, 100, 1, &Policy::of(calls(1000, 60, true)));
}
