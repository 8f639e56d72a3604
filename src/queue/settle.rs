//! What a holder tells: how tasks went, what servers said; and how holders end.

use std::time::Duration;

use serde::Serialize;

use super::LeaseRef;
use crate::task::Task;

/// How a lease ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// The lease.
    pub lease: LeaseRef,
    /// How it went.
    pub result: SettleResult,
    /// Records got, against `Documents` budgets.
    pub documents: u64,
    /// Decoded bytes got, against `Bytes` budgets.
    pub bytes: u64,
}

/// How a task went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettleResult {
    /// Done; these follow.
    Done {
        /// Discovered tasks.
        feedback: Vec<Task>,
    },
    /// Try again, not before this long from now.
    Retry {
        /// The delay.
        delay: Duration,
        /// Why, for people.
        why: String,
    },
    /// Will not succeed.
    Dead {
        /// Why, for people.
        why: String,
    },
    /// No longer wanted (a limit was reached, a section was skipped).
    Dropped,
    /// Not done and not tried: back to where it was, uncharged.
    Released,
}

/// What became of one settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Accepted; so many feedback tasks were new and so many had been seen.
    Accepted(Pushed),
    /// The lease was no longer the caller's: nothing was changed.
    Fenced,
}

/// What became of pushed tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pushed {
    /// Queued.
    pub new: u64,
    /// Seen before in this run.
    pub duplicates: u64,
}

/// A server's wish to be left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pushback {
    /// What it did.
    pub kind: PushbackKind,
    /// `Retry-After`, if it gave one.
    pub retry_after: Option<Duration>,
}

/// How a server pushed back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum PushbackKind {
    /// 429.
    TooManyRequests,
    /// 503.
    Unavailable,
    /// No answer in time.
    Timeout,
}

/// Why a holder's leases are freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseCause {
    /// It ended by itself and in order.
    Finished,
    /// It crashed or ran out of memory: the tasks being worked on are charged.
    Crashed,
    /// Eviction, preemption, node loss: nobody's fault.
    Disrupted,
}

/// What releasing a holder did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Released {
    /// Tasks put back.
    pub requeued: u64,
    /// Tasks that reached the limit of charges.
    pub dead: u64,
}
