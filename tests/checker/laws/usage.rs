//! What is allowed is used while work waits.
//!
//! A limit is as full as what it counted in the period that ends now, divided by its amount; a limit that spreads its
//! calls is one call per gap. Work waits while an answer has made a request possible that has not arrived, at an origin that
//! is not to be left alone and not full, in a budget that is not full. While it does, the fullest limit of the budget must
//! be full, on average at least to the share of [`LEAST_SHARE`]. (A limit that is overshot counts as fuller than full: that
//! is paid by being emptier later.) What a failed request leaves to be done does not count as waiting: when it is to be
//! tried again is nobody else's business.

use std::collections::{BTreeMap, BTreeSet};

use super::pause::pauses;
use super::{called, post_paid, seconds};
use crate::log::{Seen, micros};
use crate::rules::{Budget, LEAST_SHARE, Limit, Rules, Unit};
use crate::verdict::{Law, Used, Verdict};

pub(super) fn judge(budget: &Budget, seen: &[&Seen], rules: &Rules, verdict: &mut Verdict) {
    if !rules.must_use || budget.limits.is_empty() || seen.is_empty() {
        return;
    }
    let used = measure(budget, seen, rules);
    let shortest = budget.limits.iter().map(|limit| limit.period.as_secs_f64()).fold(f64::INFINITY, f64::min);
    // What waited for less than a period says nothing about a rate.
    if used.share < LEAST_SHARE && used.waited_s >= shortest {
        let sentence = format!(
            "{}: of what was allowed {:.1} % was used while work waited, for {:.1} s; at least {:.0} % is to be",
            called(budget),
            used.share * 100.0,
            used.waited_s,
            LEAST_SHARE * 100.0,
        );
        verdict.add(Law::Use, sentence);
    }
    verdict.used.push(used);
}

/// Something that changes what is allowed or what waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event<'a> {
    /// A limit forgets or counts so much.
    Count { limit: usize, change: i64 },
    /// An origin is to be left alone, or no longer.
    Paused { origin: &'a str, change: i64 },
    /// A request is no longer under way, or is.
    UnderWay { origin: &'a str, change: i64 },
    /// Requests became possible at an origin, or arrived there.
    Waiting { origin: &'a str, change: i64 },
}

fn measure(budget: &Budget, seen: &[&Seen], rules: &Rules) -> Used {
    let mut events = events(budget, seen, rules);
    events.sort_unstable();
    let last_arrival = seen.last().map_or(0, |seen| seen.arrived);
    let amounts: Vec<i64> =
        budget.limits.iter().map(|limit| i64::try_from(counted(limit).0).unwrap_or(i64::MAX)).collect();
    let mut state = State { counts: vec![0; amounts.len()], ..State::default() };
    let (mut waited, mut filled) = (0.0, 0.0);
    let mut since = events.first().map_or(0, |(when, _)| *when);
    for (when, event) in events.into_iter().take_while(|(when, _)| *when <= last_arrival) {
        if when > since && state.work_waits(budget.max_concurrent) {
            let span = seconds(when - since);
            waited += span;
            filled += span * state.fullest(&amounts);
        }
        since = when;
        state.apply(event, rules.max_per_origin);
    }
    let share = if waited > 0.0 { filled / waited } else { 1.0 };
    Used { budget: budget.name.clone(), waited_s: waited, share }
}

/// What a limit is counted by: so many in so many microseconds.
fn counted(limit: &Limit) -> (u64, i64) {
    let period = micros(limit.period);
    if limit.even && limit.unit == Unit::ApiCalls {
        return (1, period / i64::try_from(limit.amount.max(1)).unwrap_or(i64::MAX));
    }
    (limit.amount, period)
}

fn events<'a>(budget: &Budget, seen: &[&'a Seen], rules: &Rules) -> Vec<(i64, Event<'a>)> {
    let mut events = Vec::new();
    for (number, limit) in budget.limits.iter().enumerate() {
        let counts = match limit.unit {
            Unit::ApiCalls => seen.iter().map(|seen| (seen.arrived, 1)).collect(),
            Unit::Documents | Unit::Bytes => post_paid::answers(limit, seen),
        };
        for (when, count) in counts {
            let change = i64::try_from(count).unwrap_or(i64::MAX);
            events.push((when, Event::Count { limit: number, change }));
            events.push((when + counted(limit).1, Event::Count { limit: number, change: -change }));
        }
    }
    for (origin, pauses) in pauses(seen.iter().copied(), rules) {
        for pause in pauses {
            events.push((pause.from, Event::Paused { origin, change: 1 }));
            events.push((pause.at_most, Event::Paused { origin, change: -1 }));
        }
    }
    let start = seen.first().map_or(0, |seen| seen.arrived);
    let mut asked = BTreeSet::new();
    let mut known = BTreeSet::new();
    let mut answered = BTreeSet::new();
    for seen in seen {
        let origin = seen.origin.as_str();
        events.push((seen.arrived, Event::UnderWay { origin, change: 1 }));
        events.push((seen.answered, Event::UnderWay { origin, change: -1 }));
        if known.insert(&seen.node) {
            events.push((start, Event::Waiting { origin, change: 1 }));
        }
        if asked.insert((&seen.node, &seen.request)) {
            events.push((seen.arrived, Event::Waiting { origin, change: -1 }));
        }
        if seen.is_success() && answered.insert((&seen.node, &seen.request)) {
            events.push((seen.answered, Event::Waiting { origin, change: i64::from(seen.opens) }));
        }
    }
    events
}

#[derive(Debug, Default)]
struct State<'a> {
    counts: Vec<i64>,
    origins: BTreeMap<&'a str, Origin>,
    under_way: i64,
    /// Origins at which work waits that may be done.
    ready: i64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Origin {
    paused: i64,
    under_way: i64,
    waiting: i64,
}

impl Origin {
    fn is_ready(self, max: usize) -> bool {
        self.waiting > 0 && self.paused == 0 && self.under_way < i64::try_from(max).unwrap_or(i64::MAX)
    }
}

impl<'a> State<'a> {
    fn apply(&mut self, event: Event<'a>, max_per_origin: usize) {
        let (Event::Paused { origin, .. } | Event::UnderWay { origin, .. } | Event::Waiting { origin, .. }) = event
        else {
            if let Event::Count { limit, change } = event {
                self.counts[limit] += change;
            }
            return;
        };
        let state = self.origins.entry(origin).or_default();
        let was_ready = state.is_ready(max_per_origin);
        match event {
            Event::Paused { change, .. } => state.paused += change,
            Event::UnderWay { change, .. } => {
                state.under_way += change;
                self.under_way += change;
            }
            Event::Waiting { change, .. } => state.waiting += change,
            Event::Count { .. } => {}
        }
        self.ready += i64::from(state.is_ready(max_per_origin)) - i64::from(was_ready);
    }

    fn work_waits(&self, max_concurrent: Option<usize>) -> bool {
        let is_full = max_concurrent.is_some_and(|max| self.under_way >= i64::try_from(max).unwrap_or(i64::MAX));
        self.ready > 0 && !is_full
    }

    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn fullest(&self, amounts: &[i64]) -> f64 {
        let fills = self.counts.iter().zip(amounts).map(|(count, amount)| *count as f64 / (*amount).max(1) as f64);
        fills.fold(0.0, f64::max)
    }
}
