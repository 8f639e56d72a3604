//! Waiting for a change.

use std::time::Duration;

use jiff::Timestamp;

use super::RedisQueue;
use super::calls::Caller;
use crate::queue::{QueueError, Woken};
use crate::task::RunId;

/// Whoever waits looks so often at first, and ever more rarely …
const FIRST_LOOK: Duration = Duration::from_millis(10);
/// … down to this.
const LAST_LOOK: Duration = Duration::from_millis(250);

impl RedisQueue {
    pub(super) async fn wait_for(&self, run: &RunId, seen: u64, until: Timestamp) -> Result<Woken, QueueError> {
        let left = until.duration_since(self.clock.now());
        let moment = tokio::time::Instant::now() + Duration::try_from(left).unwrap_or(Duration::ZERO);
        let mut pause = FIRST_LOOK;
        loop {
            let answer = self.calls.call("sequence", run, Caller::Owner, 0, |_| {}).await?;
            if answer.read(|reader| reader.uint::<u64>())? > seen {
                return Ok(Woken::Changed);
            }
            if tokio::time::Instant::now() >= moment {
                return Ok(Woken::Moment);
            }
            tokio::time::sleep_until(moment.min(tokio::time::Instant::now() + pause)).await;
            pause = (pause * 2).min(LAST_LOOK);
        }
    }
}
