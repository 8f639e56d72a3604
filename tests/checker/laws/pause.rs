//! An origin that answers 429 or 503 is left alone: until the moment that `Retry-After` names, or for the first pause
//! where it names none. What was under way or [`ON_ITS_WAY`] when it answered may still come.

use std::collections::BTreeMap;

use super::{at, seconds};
use crate::log::{Seen, micros};
use crate::rules::{ON_ITS_WAY, Rules};
use crate::verdict::{Law, Verdict};

pub(super) fn judge(seen: &[Seen], rules: &Rules, start: i64, verdict: &mut Verdict) {
    for (origin, pauses) in pauses(seen, rules) {
        let own = || seen.iter().filter(|seen| seen.origin == origin);
        let inside = pauses.iter().find_map(|pause| {
            let from = pause.from + micros(ON_ITS_WAY);
            own().find(|seen| seen.arrived > from && seen.arrived < pause.until).map(|seen| (pause, seen))
        });
        if let Some((pause, seen)) = inside {
            let sentence = format!(
                "origin {origin}: {} of node {} arrived at {}, but {:.3} s before it had asked to be left alone for {:.3} s",
                seen.request,
                seen.node,
                at(seen.arrived, start),
                seconds(seen.arrived - pause.from),
                seconds(pause.until - pause.from),
            );
            verdict.add(Law::Pause, sentence);
        }
    }
}

/// A time in which an origin is to be left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pause {
    pub(super) from: i64,
    pub(super) until: i64,
}

/// The pauses of each origin, in order. An answer to a request from before the last pushback is the same event: without
/// `Retry-After` it asks for nothing more.
pub(super) fn pauses<'a>(seen: impl IntoIterator<Item = &'a Seen>, rules: &Rules) -> BTreeMap<&'a str, Vec<Pause>> {
    let mut pushbacks: Vec<&Seen> = seen.into_iter().filter(|seen| seen.is_pushback()).collect();
    pushbacks.sort_by_key(|seen| seen.answered);
    let mut last_event: BTreeMap<&str, i64> = BTreeMap::new();
    let mut pauses: BTreeMap<&str, Vec<Pause>> = BTreeMap::new();
    for seen in pushbacks {
        let origin = seen.origin.as_str();
        let is_new = last_event.get(origin).is_none_or(|event| seen.arrived > *event);
        let unasked = || is_new.then(|| seen.answered + micros(rules.first_pause));
        if let Some(until) = seen.asks_until().or_else(unasked) {
            pauses.entry(origin).or_default().push(Pause { from: seen.answered, until });
        }
        if is_new {
            last_event.insert(origin, seen.answered);
        }
    }
    pauses
}
