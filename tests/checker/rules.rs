//! The limits that a history is judged by, as a policy states them.

use std::collections::BTreeSet;
use std::time::Duration;

/// From a permit to the request's arrival: a permit is void after as long.
pub(crate) const ON_ITS_WAY: Duration = Duration::from_millis(250);

/// While work waits, the fullest limit of a budget must be this full on average.
pub(crate) const LEAST_SHARE: f64 = 0.9;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    ApiCalls,
    Documents,
    Bytes,
}

/// At most `amount` in any window of `period`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) unit: Unit,
    pub(crate) amount: u64,
    pub(crate) period: Duration,
    /// Spread over the period.
    pub(crate) even: bool,
}

/// A budget: all its limits bind all its nodes together.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    pub(crate) name: String,
    pub(crate) nodes: BTreeSet<String>,
    pub(crate) limits: Vec<Limit>,
    pub(crate) max_concurrent: Option<usize>,
}

/// What holds in a history.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) budgets: Vec<Budget>,
    /// Requests under way at one origin.
    pub(crate) max_per_origin: usize,
    /// How long an origin that pushed back without `Retry-After` is left alone at least.
    pub(crate) first_pause: Duration,
    /// Whether idling is a fault: not where a crawler was killed, or slows down of its own accord.
    pub(crate) must_use: bool,
}

impl Rules {
    /// What protects every server, with these budgets.
    pub(crate) fn new(budgets: Vec<Budget>) -> Self {
        Self { budgets, max_per_origin: 8, first_pause: Duration::from_secs(2), must_use: true }
    }
}
