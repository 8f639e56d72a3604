//! At most `amount` calls in any window of `period`, and spread over it where a limit says so.
//!
//! Permits are what is limited, arrivals are what is seen, and a request arrives at most [`ON_ITS_WAY`] after its permit.
//! So what arrives within `period - ON_ITS_WAY` was permitted within `period`: at most `amount` of it. That is stricter
//! than "`amount` and what arrives within [`ON_ITS_WAY`], in any `period`", which follows from it.

use super::{at, called, seconds};
use crate::log::{Seen, micros};
use crate::rules::{Budget, Limit, ON_ITS_WAY, Unit};
use crate::verdict::{Law, Verdict};

pub(super) fn judge(budget: &Budget, seen: &[&Seen], start: i64, verdict: &mut Verdict) {
    for limit in budget.limits.iter().filter(|limit| limit.unit == Unit::ApiCalls) {
        judge_window(budget, limit, seen, start, verdict);
        if limit.even {
            judge_spread(budget, limit, seen, start, verdict);
        }
    }
}

fn judge_window(budget: &Budget, limit: &Limit, seen: &[&Seen], start: i64, verdict: &mut Verdict) {
    let amount = usize::try_from(limit.amount).unwrap_or(usize::MAX - 1);
    let span = |pair: &[&Seen]| pair[amount].arrived - pair[0].arrived;
    let Some(worst) = seen.windows(amount + 1).min_by_key(|pair| span(pair)) else { return };
    let late = micros(limit.period) - span(worst);
    verdict.late_ms = verdict.late_ms.max(seconds(late) * 1e3);
    if late > micros(ON_ITS_WAY) {
        let sentence = format!(
            "{}: {} requests arrived within {:.3} s from {} on; at most {amount} are allowed in any {:.3} s, of which \
             {:.3} s are forgiven for the way from permit to server",
            called(budget),
            amount + 1,
            seconds(span(worst)),
            at(worst[0].arrived, start),
            limit.period.as_secs_f64(),
            ON_ITS_WAY.as_secs_f64(),
        );
        verdict.add(Law::Window, sentence);
    }
}

/// Spread calls follow a row of slots, one per `period / amount`. Whoever is late by up to half a gap keeps his slot, and
/// a request may be on its way: so much may a row of requests be shorter than its slots, and no more.
fn judge_spread(budget: &Budget, limit: &Limit, seen: &[&Seen], start: i64, verdict: &mut Verdict) {
    let gap = micros(limit.period) / i64::try_from(limit.amount.max(1)).unwrap_or(i64::MAX);
    let forgiven = gap / 2 + micros(ON_ITS_WAY);
    let (mut row_start, mut slot, mut latest) = (0, 0, i64::MIN);
    for (number, seen) in seen.iter().enumerate() {
        // How much later it came than an unbroken row of slots from the start of the history would have it.
        let delay = seen.arrived - start - gap * i64::try_from(number).unwrap_or(i64::MAX);
        if delay > latest {
            (latest, row_start, slot) = (delay, seen.arrived, number);
        }
        if latest - delay > forgiven {
            let sentence = format!(
                "{}: {} requests arrived within {:.3} s from {} on; they are to be {:.3} s apart",
                called(budget),
                number - slot + 1,
                seconds(seen.arrived - row_start),
                at(row_start, start),
                seconds(gap),
            );
            verdict.add(Law::Spread, sentence);
            return;
        }
    }
}
