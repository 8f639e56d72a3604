//! JSON Lines: the payloads as they are kept. Nothing is parsed, so this runs as fast as memory is copied.

use super::{Encoder, ExportError};
use crate::store::StoredRecord;

pub(super) struct Jsonl;

impl Encoder for Jsonl {
    fn encode(&mut self, records: &[StoredRecord], out: &mut Vec<u8>) -> Result<(), ExportError> {
        out.reserve(records.iter().map(|record| record.payload.len() + 1).sum());
        for record in records {
            out.extend_from_slice(&record.payload);
            out.push(b'\n');
        }
        Ok(())
    }
}
