//! How long things may take, and when to try again.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timing {
    /// From looking up the name to the end of the greeting.
    pub(super) connect: Duration,
    /// From sending a call to its answer.
    pub(super) response: Duration,
    /// What was certainly not done is tried again for so long.
    pub(super) patience: Duration,
    /// The pause after the first failure. It doubles with each further one.
    pub(super) shortest_pause: Duration,
    /// No pause is longer.
    pub(super) longest_pause: Duration,
    /// One Sentinel's time to answer.
    pub(super) sentinel: Duration,
    /// How often a connection that only listens is tried.
    pub(super) ping: Duration,
}

impl Timing {
    pub(super) const NORMAL: Self = Self {
        connect: Duration::from_secs(5),
        response: Duration::from_secs(10),
        patience: Duration::from_secs(10),
        shortest_pause: Duration::from_millis(50),
        longest_pause: Duration::from_secs(4),
        sentinel: Duration::from_secs(1),
        ping: Duration::from_secs(10),
    };

    /// For a person who waits.
    pub(super) const IMPATIENT: Self =
        Self { connect: Duration::from_secs(2), patience: Duration::from_secs(3), ..Self::NORMAL };

    /// The pause after so many failures in a row: somewhere in the upper half, so that many clients don't come together.
    pub(super) fn pause(&self, failures: u32) -> Duration {
        let doubled = self.shortest_pause.saturating_mul(1 << failures.min(16)).min(self.longest_pause);
        let spread = RandomState::new().hash_one(failures) % 1000;
        doubled / 2 + doubled.mul_f64(spread as f64 / 2000.0)
    }
}
