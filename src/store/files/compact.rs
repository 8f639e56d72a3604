//! Giving back the space of payloads that are no longer live.
//!
//! Segments that are mostly waste are emptied: what is live in them is appended to the newest segment and its entry points
//! there from the same transaction on. Each transaction leaves a whole state that says the same, so a crash costs nothing.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::PoisonError;

use super::super::StoreError;
use super::super::engine::read::Found;
use super::super::engine::rows::Entry;
use super::super::engine::{Read as _, Table, Write as _};
use super::writer::WriteTables;
use super::{FileStore, errors};
use crate::store::RecordKey;
use crate::task::SectionKey;

/// Payloads moved in one transaction.
const MOVED_AT_ONCE: usize = 512;
/// Entries looked at in one transaction: other steps wait meanwhile.
const SCANNED_AT_ONCE: usize = 50_000;

pub(super) async fn compact(store: &FileStore) -> Result<(), StoreError> {
    let wasteful = store.write(|tables| tables.appender.retire_wasteful()).await?;
    if wasteful.is_empty() {
        return Ok(());
    }
    let mut after = Some(Vec::new());
    while let Some(from) = after {
        let (shared, wasteful) = (store.shared.clone(), wasteful.clone());
        after = store.write(move |tables| empty_some(tables, &shared.segments, &wasteful, &from)).await?;
    }
    let emptied = wasteful.clone();
    store
        .write(move |tables| {
            // The disk must not know an index that points into files that are gone.
            tables.sync();
            for segment in emptied {
                tables.appender.forget(segment);
            }
            Ok(())
        })
        .await?;
    store
        .blocking(move |shared| {
            let _nobody_reads = shared.removal.write().unwrap_or_else(PoisonError::into_inner);
            for segment in wasteful {
                let path = shared.segments.path(segment);
                std::fs::remove_file(&path).map_err(|source| errors::io("remove", &path, source))?;
            }
            Ok(())
        })
        .await
}

/// Moves payloads out of these segments. Returns where to go on, if there may be more.
fn empty_some(
    tables: &mut WriteTables<'_>,
    segments: &super::Segments,
    wasteful: &BTreeSet<u32>,
    from: &[u8],
) -> Result<Option<Vec<u8>>, StoreError> {
    let mut to_move: Vec<(Vec<u8>, Entry)> = Vec::new();
    let mut scanned = 0;
    let mut last = None;
    tables.scan(Table::Records, &[], Some(from), &mut |key, value| {
        let entry = Entry::decode(value).ok_or_else(|| tables.damaged("a record's entry can't be read"))?;
        if !entry.marks.deleted && wasteful.contains(&entry.place.segment) {
            to_move.push((key.to_vec(), entry));
        }
        scanned += 1;
        if to_move.len() < MOVED_AT_ONCE && scanned < SCANNED_AT_ONCE {
            return Ok(ControlFlow::Continue(()));
        }
        last = Some(key.to_vec());
        Ok(ControlFlow::Break(()))
    })?;
    let nowhere = RecordKey { section: SectionKey::root_of("".into()), id: String::new() };
    let found = to_move.iter().map(|(_, entry)| Found { key: nowhere.clone(), entry: *entry }).collect();
    for ((key, entry), record) in to_move.iter().zip(segments.read(found)?) {
        let place = tables.append(&record.payload)?;
        tables.release(entry.place)?;
        tables.put(Table::Records, key, &Entry { place, ..*entry }.encode())?;
    }
    Ok(last)
}
