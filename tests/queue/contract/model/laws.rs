//! What no history may break.

use std::fmt::Debug;

/// One guarantee of the queue, so that a defect can be seen to be caught for the right reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Law {
    /// The ledger is balanced, and equal to the model's own account.
    Account,
    /// A task is accepted once in a run, whatever became of it.
    Once,
    /// A task has one live lease, with a number that never comes again.
    OneLease,
    /// Who was replaced, and a lease that ended, change nothing.
    Fenced,
    /// A place is taken by a join and freed by a release, and there are no more than the run has.
    Places,
    /// Nothing is handed out, permitted or pushed while frozen, and everything after the thaw.
    Frozen,
    /// A suspended node's tasks stay where they are.
    Suspended,
    /// A crawler gets its group's tasks only.
    Group,
    /// What was being worked on in a crash is handed out alone, to a holder that has nothing else.
    Alone,
    /// In any window of the period no more calls than the amount.
    Window,
    /// Calls that a waiting permit was promised are left to it.
    Reserved,
    /// A budget is closed outside of its hours.
    Hours,
    /// Calls keep their distance where they are to be spread.
    Pacing,
    /// Documents and bytes close the gate until they are paid.
    PostPaid,
    /// No more requests under way than the budget and the origin allow.
    Concurrency,
    /// An origin that asked to be left alone is left alone.
    BackOff,
    /// A retry waits out its delay.
    Delay,
    /// Inside a node by status, then by age.
    Order,
    /// A turn is 25 tasks.
    Turns,
    /// Who could go is overtaken by nobody for longer than their weights say.
    Starved,
    /// Nothing that may be sent stays behind while a crawler asks for it.
    NothingWaits,
    /// A wait ends no later than something becomes eligible, and is never "now" again and again.
    Moment,
    /// A call that makes something eligible ends the waits.
    Woken,
    /// Crashes charge, and only they; attempts are those that were made.
    Charges,
    /// The dead are listed with why they died.
    Dead,
    /// A call with a part that is refused changes nothing.
    Whole,
    /// The answer says what was done.
    Answer,
    /// A run that went through all this has nothing to repair.
    Sound,
}

/// What was broken, and by what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) law: Law,
    pub(crate) what: String,
}

pub(super) type Verdict = Result<(), Violation>;

pub(super) fn broken(law: Law, what: impl Into<String>) -> Verdict {
    Err(Violation { law, what: what.into() })
}

pub(super) fn demand(law: Law, holds: bool, what: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { broken(law, what()) }
}

pub(super) fn same<T: Debug + PartialEq>(law: Law, found: &T, expected: &T) -> Verdict {
    demand(law, found == expected, || format!("found {found:?}, expected {expected:?}"))
}
