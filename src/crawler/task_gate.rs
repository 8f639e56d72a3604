//! A task at the gates: leave for its further requests, and what a server's answer says of the gate.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::context::CrawlContext;
use super::http::{Failure, FetchError, GateClosed, RequestGate};
use crate::queue::{Holder, LeaseRef, Permit, Pushback, PushbackKind, QueueError};
use crate::task::OriginKey;

/// How long a further request of a task (a redirect, a token) waits at a gate before the task is put back.
const MAX_GATE_WAIT: Duration = Duration::from_secs(30);

/// Between two tries to reach a queue that is away.
const AWAY_PAUSE: Duration = Duration::from_millis(500);

/// How the server pushed back, if it did.
pub(super) fn pushback_of(error: &FetchError) -> Option<Pushback> {
    let kind = match &error.failure {
        _ if !error.is_pushback() => return None,
        Failure::Status(status) if status.status == 429 => PushbackKind::TooManyRequests,
        Failure::Status(_) => PushbackKind::Unavailable,
        _ => PushbackKind::Timeout,
    };
    Some(Pushback { kind, retry_after: error.retry_after() })
}

/// Asks the queue for the further requests of one task.
pub(super) struct TaskGate<'a> {
    pub(super) context: &'a CrawlContext,
    pub(super) holder: &'a Holder,
    pub(super) lease: &'a LeaseRef,
    /// Until when the permit that came with the claim may be used.
    pub(super) permit_lasts_until: Timestamp,
}

#[async_trait]
impl RequestGate for TaskGate<'_> {
    fn first_permit_lasts_until(&self) -> Timestamp {
        self.permit_lasts_until
    }

    async fn permit(&self, origin: &OriginKey) -> Result<(), GateClosed> {
        let context = self.context;
        let give_up_at = context.clock.now() + MAX_GATE_WAIT;
        loop {
            match context.queue.permit(self.holder, self.lease, origin).await {
                Ok(Permit::Granted) => return Ok(()),
                Ok(Permit::Wait { until, .. }) if until <= give_up_at => {
                    let wait = until.duration_since(context.clock.now());
                    tokio::time::sleep(Duration::try_from(wait).unwrap_or_default()).await;
                }
                Ok(Permit::Wait { until, .. }) => {
                    return Err(GateClosed { until: Some(until), why: "its gate opens only later".into() });
                }
                // Whether it was given is not known. Charged twice, it costs us time and no server anything.
                Err(QueueError::Unreachable { .. }) if context.clock.now() + AWAY_PAUSE < give_up_at => {
                    tokio::time::sleep(AWAY_PAUSE).await;
                }
                Ok(Permit::Frozen) => return Err(GateClosed { until: None, why: "the run is frozen".into() }),
                Err(error) => return Err(GateClosed { until: None, why: error.to_string().into() }),
            }
        }
    }
}
