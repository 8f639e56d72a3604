//! The one three-way answer to "it did not work": who has to act, and when to look again.

use std::time::Duration;

use jiff::Timestamp;

/// What follows from a failure. Decided once, where the failure is understood, and mapped to a settlement
/// (crawler) or to a condition and a requeue (operator) by one function each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A person must act; trying again changes nothing.
    Terminal,
    /// Nothing is wrong, but not before this moment.
    Wait {
        /// The earliest moment at which trying again makes sense.
        until: Timestamp,
    },
    /// Transient: try again with a growing delay, but never sooner than `at_least`.
    Retry {
        /// A lower bound given by the other side (`Retry-After`), if any.
        at_least: Option<Duration>,
    },
}

impl Outcome {
    /// A transient failure for which the other side named no delay.
    pub const RETRY: Self = Self::Retry { at_least: None };
}
