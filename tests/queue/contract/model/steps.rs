//! What can happen in a history.

use proptest::prelude::*;
use trawler::queue::{PushbackKind, ReleaseCause};

use super::world::{Change, NODES, ORIGINS, TOKENS, change};

/// One step. Numbers called `pick` choose among what there is when the step is taken.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Push {
        node: usize,
        number: u32,
        count: u32,
    },
    PushOfAStranger,
    Join {
        token: u32,
    },
    Claim {
        token: u32,
        max: usize,
    },
    Settle {
        pick: usize,
        results: Vec<How>,
        stranger: bool,
        /// Claims so many in the same call.
        claims: Option<usize>,
    },
    Permit {
        pick: usize,
        elsewhere: Option<usize>,
    },
    /// The permit that was told to wait last is asked for again.
    PermitAgain,
    Renew {
        pick: usize,
    },
    Pushback {
        pick: usize,
        kind: PushbackKind,
        retry_after_ms: Option<u16>,
    },
    Release {
        token: u32,
        cause: ReleaseCause,
    },
    /// A crawler that works on what another crashed on crashes too.
    CrashAgain,
    /// A crawler falls silent: its leases run out.
    Stall {
        token: u32,
    },
    /// It works again, and may find that it was given up.
    Recover {
        token: u32,
    },
    /// A holder that was replaced, or a lease that ended, is used.
    Late {
        pick: usize,
        call: LateCall,
    },
    Suspend {
        node: usize,
        suspended: bool,
    },
    Freeze,
    Thaw,
    Configure(Change),
    CloseAndOpen,
    Lanes,
    Dead,
    Pass {
        ms: u64,
    },
    /// Until the moment that the last claim was told.
    PassUntilWoken,
}

/// What somebody who is late tries.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LateCall {
    Claim,
    Settle,
    Permit,
    Renew,
    Pushback,
}

#[derive(Debug, Clone)]
pub(crate) enum How {
    Done { feedback: u32, documents: u64, bytes: u64 },
    Retry { ms: u64 },
    Dead,
    Dropped,
    Released,
}

impl Step {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Push { .. } => "step: push",
            Self::PushOfAStranger => "step: push of a stranger",
            Self::Join { .. } => "step: join",
            Self::Claim { .. } => "step: claim",
            Self::Settle { .. } => "step: settle",
            Self::Permit { .. } => "step: permit",
            Self::PermitAgain => "step: permit again",
            Self::Renew { .. } => "step: renew",
            Self::Pushback { .. } => "step: pushback",
            Self::Release { .. } => "step: release",
            Self::CrashAgain => "step: crash again",
            Self::Stall { .. } => "step: stall",
            Self::Recover { .. } => "step: recover",
            Self::Late { .. } => "step: late call",
            Self::Suspend { .. } => "step: suspend",
            Self::Freeze => "step: freeze",
            Self::Thaw => "step: thaw",
            Self::Configure(_) => "step: configure",
            Self::CloseAndOpen => "step: close and open",
            Self::Lanes => "step: lanes",
            Self::Dead => "step: dead",
            Self::Pass { .. } | Self::PassUntilWoken => "step: pass",
        }
    }
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => push(),
        6 => (0..=TOKENS).prop_map(|token| Step::Join { token }),
        24 => (0..TOKENS, 0..30_usize).prop_map(|(token, max)| Step::Claim { token, max }),
        16 => settle(),
        10 => (any::<usize>(), proptest::option::of(0..ORIGINS.len()))
            .prop_map(|(pick, elsewhere)| Step::Permit { pick, elsewhere }),
        5 => Just(Step::PermitAgain),
        3 => any::<usize>().prop_map(|pick| Step::Renew { pick }),
        3 => pushback(),
        3 => (0..TOKENS, cause()).prop_map(|(token, cause)| Step::Release { token, cause }),
        2 => Just(Step::CrashAgain),
        1 => (0..TOKENS).prop_map(|token| Step::Stall { token }),
        1 => (0..TOKENS).prop_map(|token| Step::Recover { token }),
        4 => (any::<usize>(), late_call()).prop_map(|(pick, call)| Step::Late { pick, call }),
        3 => (0..NODES.len(), any::<bool>()).prop_map(|(node, suspended)| Step::Suspend { node, suspended }),
        1 => Just(Step::Freeze),
        8 => Just(Step::Thaw),
        3 => change().prop_map(Step::Configure),
        1 => Just(Step::PushOfAStranger),
        1 => Just(Step::Lanes),
        2 => Just(Step::Dead),
        1 => proptest::bool::weighted(0.1)
            .prop_map(|close| if close { Step::CloseAndOpen } else { Step::Lanes }),
        12 => prop_oneof![3 => Just(1), 3 => Just(20), 3 => Just(100), 2 => Just(600), 1 => Just(2_000), 1 => Just(6_000)]
            .prop_map(|ms| Step::Pass { ms }),
        8 => Just(Step::PassUntilWoken),
    ]
}

/// Mostly a few, at times more than is worked off soon.
fn push() -> impl Strategy<Value = Step> {
    let count = prop_oneof![9 => 1..15_u32, 1 => 60..120_u32];
    (0..NODES.len(), 0..200_u32, count).prop_map(|(node, number, count)| Step::Push { node, number, count })
}

fn settle() -> impl Strategy<Value = Step> {
    let how = prop_oneof![
        6 => (0..5_u32, 0..30_u64, 0..40_u64)
            .prop_map(|(feedback, documents, bytes)| How::Done { feedback, documents, bytes }),
        2 => prop_oneof![Just(0), 1..3_000_u64].prop_map(|ms| How::Retry { ms }),
        1 => Just(How::Dead),
        1 => Just(How::Dropped),
        2 => Just(How::Released),
    ];
    let claims = proptest::option::of(1..4_usize);
    (any::<usize>(), proptest::collection::vec(how, 1..5), proptest::bool::weighted(0.05), claims)
        .prop_map(|(pick, results, stranger, claims)| Step::Settle { pick, results, stranger, claims })
}

fn pushback() -> impl Strategy<Value = Step> {
    let kind =
        prop_oneof![Just(PushbackKind::TooManyRequests), Just(PushbackKind::Unavailable), Just(PushbackKind::Timeout)];
    let retry_after_ms = prop_oneof![2 => Just(None), 1 => Just(Some(0)), 2 => (1..9_000_u16).prop_map(Some)];
    (any::<usize>(), kind, retry_after_ms).prop_map(|(pick, kind, retry_after_ms)| Step::Pushback {
        pick,
        kind,
        retry_after_ms,
    })
}

fn cause() -> impl Strategy<Value = ReleaseCause> {
    prop_oneof![4 => Just(ReleaseCause::Crashed), 1 => Just(ReleaseCause::Disrupted), 1 => Just(ReleaseCause::Finished)]
}

fn late_call() -> impl Strategy<Value = LateCall> {
    prop_oneof![
        2 => Just(LateCall::Claim),
        4 => Just(LateCall::Settle),
        1 => Just(LateCall::Permit),
        1 => Just(LateCall::Renew),
        1 => Just(LateCall::Pushback),
    ]
}
