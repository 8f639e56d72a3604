//! At most so many requests at a time: from arrival to the first byte of the answer.

use std::collections::BTreeMap;

use super::{at, called};
use crate::log::Seen;
use crate::rules::{Budget, Rules};
use crate::verdict::{Law, Verdict};

pub(super) fn judge_budget(budget: &Budget, seen: &[&Seen], start: i64, verdict: &mut Verdict) {
    if let Some(max) = budget.max_concurrent {
        judge(&called(budget), max, seen, start, verdict);
    }
}

pub(super) fn judge_origins(seen: &[Seen], rules: &Rules, start: i64, verdict: &mut Verdict) {
    let mut by_origin: BTreeMap<&str, Vec<&Seen>> = BTreeMap::new();
    for seen in seen {
        by_origin.entry(&seen.origin).or_default().push(seen);
    }
    for (origin, seen) in by_origin {
        judge(&format!("origin {origin}"), rules.max_per_origin, &seen, start, verdict);
    }
}

fn judge(who: &str, max: usize, seen: &[&Seen], start: i64, verdict: &mut Verdict) {
    if let Some((when, count)) = first_above(max, seen) {
        let when = at(when, start);
        verdict
            .add(Law::Concurrency, format!("{who}: {count} requests were under way at {when}; at most {max} may be"));
    }
}

/// When more than `max` were under way for the first time, and how many.
fn first_above(max: usize, seen: &[&Seen]) -> Option<(i64, usize)> {
    // An answer that is sent at the moment of an arrival is out of the way.
    let ends = seen.iter().map(|seen| (seen.answered, false));
    let mut events: Vec<(i64, bool)> = seen.iter().map(|seen| (seen.arrived, true)).chain(ends).collect();
    events.sort_unstable();
    let mut under_way = 0_i64;
    for (when, begins) in events {
        under_way += if begins { 1 } else { -1 };
        let count = usize::try_from(under_way).unwrap_or(0);
        if count > max {
            return Some((when, count));
        }
    }
    None
}
