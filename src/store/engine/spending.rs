//! What was asked of nodes, in stretches that grow with age: minutes for an hour, hours for two days, days for a month.
//!
//! A node that is asked all the time has some 140 rows, however long it is asked. A window of a budget that is longer than
//! the youngest stretches counts them whole, as of their last moment, so it opens late by one stretch at most, never early.

use std::ops::ControlFlow;

use jiff::Timestamp;

use super::{CHUNK, Read, Table, Write, keys};
use crate::store::{Spending, StoreError};
use crate::task::NodeName;

/// How long a stretch is and how old it may get, in seconds. What outgrows the last level is forgotten: no budget has a
/// longer period than 31 days.
const LEVELS: [(i64, i64); 3] = [(60, 3600), (3600, 48 * 3600), (24 * 3600, 32 * 24 * 3600)];

/// Set while requests may be under way.
const UNDER_WAY: &[u8] = b"spending";

/// Adds to what was spent.
pub(in crate::store) fn spend(tables: &mut impl Write, spendings: &[Spending]) -> Result<(), StoreError> {
    spendings.iter().filter(|spending| !spending.is_none()).try_for_each(|spending| add(tables, 0, spending))
}

/// Marks that requests may be under way from now on, and brings order into the stretches. Returns whether that was marked
/// already: the process before did not end in order.
pub(in crate::store) fn begin_spending(tables: &mut impl Write, now: Timestamp) -> Result<bool, StoreError> {
    let was_under_way = tables.get(Table::Meta, UNDER_WAY, |_| ())?.is_some();
    tables.put(Table::Meta, UNDER_WAY, &[])?;
    for (level, (length, age)) in (0..).zip(LEVELS) {
        // A clock that was set back has left moments that are yet to come: they count as now, and age from now on.
        let next = now.as_second() - now.as_second().rem_euclid(length) + length;
        take(tables, level, Some(next), None, |tables, spending| add(tables, 0, &Spending { at: now, ..spending }))?;
        take(tables, level, None, Some(now.as_second() - age - length), |tables, spending| {
            if usize::from(level) + 1 < LEVELS.len() { add(tables, level + 1, &spending) } else { Ok(()) }
        })?;
    }
    Ok(was_under_way)
}

/// Marks that no request is under way any more.
pub(in crate::store) fn end_spending(tables: &mut impl Write) -> Result<(), StoreError> {
    tables.remove(Table::Meta, UNDER_WAY)?;
    Ok(())
}

/// What was spent after a moment.
pub(in crate::store) fn spendings(tables: &impl Read, after: Timestamp) -> Result<Vec<Spending>, StoreError> {
    let mut found = Vec::new();
    for (level, (length, _)) in (0..).zip(LEVELS) {
        let start = keys::spending_start(level, after.as_second() - length);
        tables.scan(Table::Spendings, &[level], Some(&start), &mut |key, value| {
            let spending = decode(key, value).ok_or_else(|| tables.damaged("what was spent can't be read"))?;
            found.extend(Some(spending).filter(|spending| spending.at > after));
            Ok(ControlFlow::Continue(()))
        })?;
    }
    found.sort_by(|a, b| (a.at, &a.node).cmp(&(b.at, &b.node)));
    Ok(found)
}

/// The row that what is spent at a moment adds to.
pub(super) fn row_of(node: &NodeName, at: Timestamp) -> Vec<u8> {
    let (length, _) = LEVELS[0];
    let second = at.as_second();
    keys::spending(0, second - second.rem_euclid(length), node)
}

fn add(tables: &mut impl Write, level: u8, spending: &Spending) -> Result<(), StoreError> {
    let (length, _) = LEVELS[usize::from(level)];
    let second = spending.at.as_second();
    let key = keys::spending(level, second - second.rem_euclid(length), &spending.node);
    let known = tables.get(Table::Spendings, &key, |value| decode(&key, value))?;
    let sum = match known {
        None => spending.clone(),
        Some(Some(known)) => known.plus(spending),
        Some(None) => return Err(tables.damaged("what was spent can't be read")),
    };
    tables.put(Table::Spendings, &key, &encode(&sum))
}

/// Removes the stretches of a level that start at `from` or later and before `before`, and does something else with each.
fn take<T: Write>(
    tables: &mut T,
    level: u8,
    from: Option<i64>,
    before: Option<i64>,
    mut pass_on: impl FnMut(&mut T, Spending) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let start = from.map(|from| keys::spending_start(level, from));
    let end = before.map(|before| keys::spending_start(level, before));
    loop {
        let mut found: Vec<(Vec<u8>, Spending)> = Vec::new();
        tables.scan(Table::Spendings, &[level], start.as_deref(), &mut |key, value| {
            if end.as_deref().is_some_and(|end| key >= end) || found.len() >= CHUNK {
                return Ok(ControlFlow::Break(()));
            }
            let spending = decode(key, value).ok_or_else(|| tables.damaged("what was spent can't be read"))?;
            found.push((key.to_vec(), spending));
            Ok(ControlFlow::Continue(()))
        })?;
        let is_last = found.len() < CHUNK;
        for (key, spending) in found {
            tables.remove(Table::Spendings, &key)?;
            pass_on(tables, spending)?;
        }
        tables.pause()?;
        if is_last {
            return Ok(());
        }
    }
}

fn encode(spending: &Spending) -> [u8; 32] {
    let mut bytes = [0; 32];
    let parts = [
        spending.at.as_millisecond().to_be_bytes(),
        spending.calls.to_be_bytes(),
        spending.documents.to_be_bytes(),
        spending.bytes.to_be_bytes(),
    ];
    for (place, part) in bytes.chunks_exact_mut(8).zip(parts) {
        place.copy_from_slice(&part);
    }
    bytes
}

fn decode(key: &[u8], value: &[u8]) -> Option<Spending> {
    let (parts, rest) = value.as_chunks::<8>();
    let [at, calls, documents, bytes] = parts else { return None };
    rest.is_empty().then_some(())?;
    Some(Spending {
        node: keys::parse_spending(key)?,
        at: Timestamp::from_millisecond(i64::from_be_bytes(*at)).ok()?,
        calls: u64::from_be_bytes(*calls),
        documents: u64::from_be_bytes(*documents),
        bytes: u64::from_be_bytes(*bytes),
    })
}
