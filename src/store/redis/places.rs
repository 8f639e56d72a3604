//! Where payloads go: places that nobody else gives away, without asking anybody.

use std::sync::atomic::{AtomicU64, Ordering};

use super::super::StoreError;
use super::super::engine::rows::Place;
use super::link::random;

/// 64 random bits of the process, and a count.
#[derive(Debug)]
pub(super) struct Places {
    start: u64,
    given: AtomicU64,
}

impl Places {
    pub(super) fn new() -> Result<Self, StoreError> {
        let random = random()?;
        let start = random.first_chunk().map(|start| u64::from_be_bytes(*start)).unwrap_or_default();
        Ok(Self { start, given: AtomicU64::new(0) })
    }

    pub(super) fn next(&self, length: usize) -> Place {
        let given = self.given.fetch_add(1, Ordering::Relaxed);
        let [high, low] = [given >> 32, given & u64::from(u32::MAX)];
        Place {
            segment: u32::try_from(low).unwrap_or_default(),
            offset: self.start.wrapping_add(high),
            len: u32::try_from(length).unwrap_or(u32::MAX),
        }
    }
}
