//! Settlements as they are sent, and what comes of them.

use std::collections::HashSet;

use super::claims::{PORTION, nonce_of, write_tasks};
use super::wire::{MOST, Reader, Unreadable, Writer};
use crate::queue::{Pushed, SettleResult, Settled, Settlement, TaskFailure};

/// Feedback beyond this goes ahead of its settlement.
pub(super) const MAX_FEEDBACK: usize = 50;

/// Settlements that one call takes: not too many, not too much feedback with them, and no task twice.
pub(super) fn portions_of(settlements: &[Settlement]) -> impl Iterator<Item = &[Settlement]> {
    let mut rest = settlements;
    std::iter::from_fn(move || {
        let (mut weight, mut seen) = (0, HashSet::new());
        let fits = |settlement: &&Settlement| {
            weight += 1 + feedback_of(settlement).min(MAX_FEEDBACK);
            weight <= PORTION && seen.insert(settlement.lease.task)
        };
        let length = rest.iter().take_while(fits).count().max(1).min(rest.len());
        let (portion, left) = rest.split_at(length);
        rest = left;
        (!portion.is_empty()).then_some(portion)
    })
}

fn feedback_of(settlement: &Settlement) -> usize {
    match &settlement.result {
        SettleResult::Done { feedback } => feedback.len(),
        _ => 0,
    }
}

/// How many values settlements are.
pub(super) const SETTLEMENTS: usize = 4;

/// Ids, joined; nonce and result of each, or once if they are the same; documents and bytes of each; what the results need, with
/// the position of each.
pub(super) fn write_settlements(request: &mut Writer, settlements: &[Settlement]) {
    let (mut ids, mut results, mut amounts) = (Vec::new(), Vec::new(), Vec::new());
    for Settlement { lease, result, documents, bytes } in settlements {
        ids.extend(lease.task.0);
        results.extend(nonce_of(*lease));
        results.push(code_of(result));
        amounts.extend(seven_bytes(*documents));
        amounts.extend(seven_bytes(*bytes));
    }
    if results.chunks(RESULT).all(|result| results.starts_with(result)) {
        results.truncate(RESULT);
    }
    request.bytes(&ids).bytes(&results).bytes(&amounts);
    let is_listed = |result: &SettleResult| match result {
        SettleResult::Done { feedback } => !feedback.is_empty(),
        SettleResult::Retry { .. } | SettleResult::Dead { .. } => true,
        SettleResult::Dropped | SettleResult::Released => false,
    };
    request.array(2 * settlements.iter().filter(|settlement| is_listed(&settlement.result)).count());
    for (position, settlement) in (1_u64..).zip(settlements) {
        if is_listed(&settlement.result) {
            request.uint(position);
            write_detail(request, &settlement.result);
        }
    }
}

/// How long a nonce and a result are.
const RESULT: usize = 9;

fn code_of(result: &SettleResult) -> u8 {
    match result {
        SettleResult::Done { .. } => 0,
        SettleResult::Retry { .. } => 1,
        SettleResult::Dead { .. } => 2,
        SettleResult::Dropped => 3,
        SettleResult::Released => 4,
    }
}

fn write_detail(request: &mut Writer, result: &SettleResult) {
    match result {
        SettleResult::Done { feedback } => write_tasks(request, &feedback[..feedback.len().min(MAX_FEEDBACK)]),
        SettleResult::Retry { delay, why } => {
            let delay_us = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX).min(1 << 50);
            request.array(2).uint(delay_us).text(&shortened(why));
        }
        SettleResult::Dead { why } => {
            request.text(&shortened(why));
        }
        SettleResult::Dropped | SettleResult::Released => {}
    }
}

/// New tasks and duplicates of each settlement, with those that were fed ahead; less than none: fenced. Just `true`: all were
/// taken, and nothing was found.
pub(super) fn read_settled(reader: &mut Reader<'_>, fed: &[Pushed]) -> Result<Vec<Settled>, Unreadable> {
    if reader.is_true() {
        return Ok(fed.iter().map(|fed| Settled::Accepted(*fed)).collect());
    }
    if reader.array()? != 2 * fed.len() {
        return Err(Unreadable);
    }
    let mut settled = Vec::with_capacity(fed.len());
    for fed in fed {
        let (new, duplicates) = (reader.int()?, reader.int()?);
        settled.push(match (u64::try_from(new), u64::try_from(duplicates)) {
            (Ok(new), Ok(duplicates)) => {
                Settled::Accepted(Pushed { new: new + fed.new, duplicates: duplicates + fed.duplicates })
            }
            _ => Settled::Fenced,
        });
    }
    Ok(settled)
}

/// A number that Lua holds exactly, as `I7`.
fn seven_bytes(number: u64) -> [u8; 7] {
    let [_, bytes @ ..] = number.min(MOST).to_be_bytes();
    bytes
}

/// As much of a reason as is kept.
fn shortened(why: &str) -> String {
    why.chars().take(TaskFailure::MAX_WHY_CHARS).collect()
}
