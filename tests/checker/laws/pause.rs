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
    /// At least so long.
    pub(super) until: i64,
    /// No longer than that: an origin that names no moment is left alone twice as long with each event, until a later
    /// request succeeds.
    pub(super) at_most: i64,
}

/// The pauses of each origin, in order. An answer to a request that was under way at the last pushback is the same event:
/// without `Retry-After` it asks for nothing more.
pub(super) fn pauses<'a>(seen: impl IntoIterator<Item = &'a Seen>, rules: &Rules) -> BTreeMap<&'a str, Vec<Pause>> {
    let mut answers: Vec<&Seen> = seen.into_iter().collect();
    answers.sort_by_key(|seen| seen.answered);
    let mut known: BTreeMap<&str, Known> = BTreeMap::new();
    for seen in answers {
        let Known { events, last_event, pauses } = known.entry(&seen.origin).or_default();
        let is_later = last_event.is_none_or(|event| seen.arrived > event + micros(ON_ITS_WAY));
        if !seen.is_pushback() {
            *events = if is_later && seen.is_success() { 0 } else { *events };
            continue;
        }
        if is_later {
            *events += 1;
            *last_event = Some(seen.answered);
        }
        let first = micros(rules.first_pause);
        let doubled = first << (*events - 1).clamp(0, 20);
        let from = seen.answered;
        if let Some(until) = seen.asks_until() {
            pauses.push(Pause { from, until, at_most: until });
        } else if is_later {
            pauses.push(Pause { from, until: from + first, at_most: from + doubled });
        }
    }
    known.into_iter().map(|(origin, known)| (origin, known.pauses)).collect()
}

#[derive(Debug, Default)]
struct Known {
    /// Events since the last success.
    events: i64,
    last_event: Option<i64>,
    pauses: Vec<Pause>,
}
