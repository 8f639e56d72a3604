//! Origins that are to be left alone, so that what servers asked for outlives the process.

use std::ops::ControlFlow;

use jiff::Timestamp;

use super::{Read, Table, Write};
use crate::store::{ClosedOrigin, MAX_CLOSED_ORIGINS, StoreError};
use crate::task::OriginKey;

/// How many there are.
const COUNT: &[u8] = b"closed_origins";

/// Remembers origins, each until the latest moment that was said of it.
pub(in crate::store) fn close_origins(tables: &mut impl Write, closed: &[ClosedOrigin]) -> Result<(), StoreError> {
    let count = tables.get(Table::Meta, COUNT, |bytes| bytes.try_into().map_or(0, u64::from_be_bytes))?;
    let mut count = count.unwrap_or(0);
    for ClosedOrigin { origin, until } in closed {
        let key = origin.as_str().as_bytes();
        match tables.get(Table::ClosedOrigins, key, decode)? {
            Some(Some(known)) if known >= *until => continue,
            Some(_) => {}
            None if count < MAX_CLOSED_ORIGINS as u64 => count += 1,
            None => count = forget_half(tables)? + 1,
        }
        tables.put(Table::ClosedOrigins, key, &until.as_microsecond().to_be_bytes())?;
    }
    save_count(tables, count)
}

/// What has not passed yet; forgets the rest, and shortens what lasts too long.
pub(in crate::store) fn closed_origins(
    tables: &mut impl Write,
    now: Timestamp,
    latest: Timestamp,
) -> Result<Vec<ClosedOrigin>, StoreError> {
    let mut left = Vec::new();
    for ClosedOrigin { origin, until } in all(tables)? {
        let key = origin.as_str().as_bytes();
        if until <= now {
            tables.remove(Table::ClosedOrigins, key)?;
            continue;
        }
        if until > latest {
            tables.put(Table::ClosedOrigins, key, &latest.as_microsecond().to_be_bytes())?;
        }
        left.push(ClosedOrigin { origin, until: until.min(latest) });
        tables.pause()?;
    }
    save_count(tables, left.len() as u64)?;
    Ok(left)
}

/// Makes room: those whose back-off ends first go. Half of them, so that this is seldom done. Returns how many are left.
fn forget_half(tables: &mut impl Write) -> Result<u64, StoreError> {
    let mut known = all(tables)?;
    known.sort_by_key(|closed| closed.until);
    let kept = known.split_off(known.len() / 2);
    for closed in known {
        tables.remove(Table::ClosedOrigins, closed.origin.as_str().as_bytes())?;
    }
    Ok(kept.len() as u64)
}

fn all(tables: &impl Read) -> Result<Vec<ClosedOrigin>, StoreError> {
    let mut found = Vec::new();
    tables.scan(Table::ClosedOrigins, &[], None, &mut |key, value| {
        // What can't be read has passed.
        let until = decode(value).unwrap_or(Timestamp::MIN);
        let origin = std::str::from_utf8(key).map_err(|_| tables.damaged("an origin that is closed can't be read"))?;
        found.push(ClosedOrigin { origin: OriginKey::from(origin), until });
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

fn save_count(tables: &mut impl Write, count: u64) -> Result<(), StoreError> {
    tables.put(Table::Meta, COUNT, &count.to_be_bytes())
}

/// `None` if these bytes are no moment.
fn decode(bytes: &[u8]) -> Option<Timestamp> {
    Timestamp::from_microsecond(i64::from_be_bytes(bytes.try_into().ok()?)).ok()
}
