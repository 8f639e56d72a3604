//! Time as an argument: the only module that reads the system's clocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;

/// Where "now" comes from. Decisions take a [`Timestamp`]; shells ask a clock for it.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// A shared clock.
pub type SharedClock = Arc<dyn Clock>;

/// The system's clock, made monotonic: it starts at the wall clock's reading and advances with the monotonic
/// clock, so that a stepped wall clock can neither reopen nor close a rate window.
#[derive(Debug)]
pub struct SystemClock {
    started_at: Timestamp,
    started: Instant,
}

impl SystemClock {
    /// A clock that reads the present wall-clock time once, now.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the system's clocks")]
    pub fn new() -> Self {
        Self { started_at: Timestamp::now(), started: Instant::now() }
    }

    /// The same, shared.
    pub fn shared() -> SharedClock {
        Arc::new(Self::new())
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        self.started_at.checked_add(self.started.elapsed()).unwrap_or(Timestamp::MAX)
    }
}

/// A clock that moves only when told to, for tests and simulations.
#[derive(Debug)]
pub struct ManualClock {
    unix_ms: AtomicI64,
}

impl ManualClock {
    /// A clock that stands at this moment.
    pub fn at(now: Timestamp) -> Self {
        Self { unix_ms: AtomicI64::new(now.as_millisecond()) }
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let by_ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.unix_ms.fetch_add(by_ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.unix_ms.load(Ordering::SeqCst)).unwrap_or(Timestamp::MAX)
    }
}

/// Measures elapsed time for durations that are only shown or logged, never decided on.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the system's clocks")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
