//! What must be open for a request to be sent. Pure: every function takes `now`, none waits or reads a clock.
//!
//! | gate | file |
//! |---|---|
//! | at most so many in any window of a period | [`window`] |
//! | spread over the period | [`pacing`] |
//! | slower after a pushback | [`slowdown`] |
//! | a budget: all its limits, its concurrency, its slow-down | [`budget`] |
//! | an origin: its concurrency and its back-off | [`origin`] |

pub mod budget;
pub mod origin;
pub mod pacing;
pub mod slowdown;
pub mod window;

use std::time::Duration;

use jiff::Timestamp;

/// So long after its last event a gate that nobody asks any more still goes slowly.
const REMEMBERED: Duration = Duration::from_hours(1);

/// A moment in microseconds since 1970: small, and cheap to compare and to add to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Moment(pub i64);

impl Moment {
    /// This much later; never beyond the last moment.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(micros(by)))
    }

    /// How much later than `earlier` this is; zero if it is not later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl From<Timestamp> for Moment {
    fn from(timestamp: Timestamp) -> Self {
        Self(timestamp.as_microsecond())
    }
}

impl From<Moment> for Timestamp {
    fn from(moment: Moment) -> Self {
        Self::from_microsecond(moment.0).unwrap_or(Self::MAX)
    }
}

/// A duration in whole microseconds, as far as it can be told.
fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
