//! Documents and bytes are known only afterwards. Such a limit may be overshot by the answers that are under way when it
//! is reached, never by more; and what was overshot is paid, so that the mean rate is the one allowed. An answer is under way
//! until its reader has stored it, which no server sees: [`STORED_WITHIN`] is granted for that.

use std::time::Duration;

use super::{at, called};
use crate::log::{Seen, micros};
use crate::rules::{Budget, Limit, ON_ITS_WAY, Unit};
use crate::verdict::{Law, Verdict};

/// From the first byte of an answer until it is read, stored and counted.
const STORED_WITHIN: Duration = Duration::from_millis(250);

/// Whatever was sent so long before a request arrived had been counted when that was permitted.
fn settled() -> i64 {
    micros(ON_ITS_WAY) + micros(STORED_WITHIN)
}

pub(super) fn judge(budget: &Budget, seen: &[&Seen], start: i64, verdict: &mut Verdict) {
    for limit in budget.limits.iter().filter(|limit| limit.unit != Unit::ApiCalls) {
        let answers = answers(limit, seen);
        let broken = sent_when_used_up(limit, &answers, seen, start).or_else(|| unpaid(limit, &answers, seen, start));
        if let Some(how) = broken {
            let (amount, period) = (limit.amount, limit.period.as_secs_f64());
            let sentence = format!("{}: {how}; {amount} {:?} are allowed in {period} s", called(budget), limit.unit);
            verdict.add(Law::PostPaid, sentence);
        }
    }
}

/// When what came, in order.
pub(super) fn answers(limit: &Limit, seen: &[&Seen]) -> Vec<(i64, u64)> {
    let mut answers: Vec<(i64, u64)> = seen
        .iter()
        .filter(|seen| seen.is_success())
        .map(|seen| (seen.answered, if limit.unit == Unit::Bytes { seen.bytes } else { seen.records }))
        .filter(|(_, count)| *count > 0)
        .collect();
    answers.sort_unstable();
    answers
}

/// In a window that begins with an answer, once the amount is reached, nothing arrives that was not under way.
fn sent_when_used_up(limit: &Limit, answers: &[(i64, u64)], seen: &[&Seen], start: i64) -> Option<String> {
    let (mut end, mut sum) = (0, 0);
    for (first, (opened, count)) in answers.iter().enumerate() {
        let closes = opened + micros(limit.period);
        end = end.max(first);
        while sum < limit.amount && end < answers.len() && answers[end].0 < closes {
            sum += answers[end].1;
            end += 1;
        }
        if sum >= limit.amount {
            let used_up = answers[end - 1].0;
            let from = seen.partition_point(|seen| seen.arrived <= used_up + settled());
            if let Some(late) = seen.get(from).filter(|seen| seen.arrived < closes) {
                return Some(format!(
                    "{} of node {} arrived at {}, though {sum} had come from {} to {}",
                    late.request,
                    late.node,
                    at(late.arrived, start),
                    at(*opened, start),
                    at(used_up, start),
                ));
            }
        }
        sum = sum.saturating_sub(*count);
    }
    None
}

/// Whatever has come before a request was sent fits the mean rate since the first answer.
fn unpaid(limit: &Limit, answers: &[(i64, u64)], seen: &[&Seen], start: i64) -> Option<String> {
    let first = answers.first()?.0;
    let (mut next, mut sum) = (0, 0_u64);
    seen.iter().find_map(|seen| {
        while answers.get(next).is_some_and(|(answered, _)| *answered < seen.arrived - settled()) {
            sum += answers[next].1;
            next += 1;
        }
        let elapsed = u128::try_from(seen.arrived - first).unwrap_or(0);
        let earned = u128::from(limit.amount) * elapsed / limit.period.as_micros().max(1);
        let allowed = earned + u128::from(limit.amount);
        (u128::from(sum) > allowed).then(|| {
            format!("{sum} had come when a request arrived at {}, {allowed} were earned", at(seen.arrived, start))
        })
    })
}
