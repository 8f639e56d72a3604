//! What can happen in a history, and the run that it happens to.

use std::time::Duration;

use proptest::prelude::*;
use trawler::queue::{BudgetConfig, NodeConfig, OriginProtection, ReleaseCause, RunConfig, Unit};
use trawler::task::{ItemStatus, NodeName, SectionKey, Task, TaskKind};

use crate::contract::scene::{budget, config, even, limit, node, origin_of};

pub(super) const NODES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
pub(super) const TOKENS: u32 = 3;
pub(super) const ORIGIN_CAP: usize = 3;
pub(super) const BUDGET_CAP: usize = 4;
pub(super) const LEASE_MS: i64 = 5_000;
pub(super) const MAX_BACK_OFF_MS: i64 = 4_000;
pub(super) const MAX_CHARGES: u32 = 2;
/// Shared by a and b: calls and documents in a second. Of c: evenly. Of the others: none.
pub(super) const CALLS: u64 = 5;
pub(super) const DOCUMENTS: u64 = 40;
pub(super) const EVEN_CALLS: u64 = 10;
pub(super) const PERIOD_MS: i64 = 1_000;

#[derive(Debug, Clone)]
pub(super) enum Step {
    Push { node: usize, number: u32, count: u32 },
    Join { token: u32 },
    Claim { token: u32, max: usize },
    Settle { pick: usize, how: How },
    SettleStale { pick: usize },
    Permit { pick: usize, elsewhere: bool },
    Renew { pick: usize },
    Pushback { pick: usize, retry_after_ms: Option<u16> },
    Release { token: u32, cause: ReleaseCause },
    Suspend { node: usize, suspended: bool },
    Freeze(bool),
    Configure { calls: u64 },
    Pass { ms: u64 },
    PassUntilWoken,
}

#[derive(Debug, Clone)]
pub(super) enum How {
    Done { feedback: u32, documents: u64 },
    Retry { ms: u64 },
    Dead,
    Dropped,
    Released,
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let pick = || any::<usize>();
    let cause = prop_oneof![Just(ReleaseCause::Crashed), Just(ReleaseCause::Disrupted), Just(ReleaseCause::Finished)];
    let how = prop_oneof![
        6 => (0..4_u32, 0..30_u64).prop_map(|(feedback, documents)| How::Done { feedback, documents }),
        2 => (0..3_000_u64).prop_map(|ms| How::Retry { ms }),
        1 => Just(How::Dead),
        1 => Just(How::Dropped),
        2 => Just(How::Released),
    ];
    let retry_after = prop_oneof![Just(None), (0..9_000_u16).prop_map(Some)];
    prop_oneof![
        8 => (0..NODES.len(), 0..200_u32, 1..15_u32).prop_map(|(node, number, count)| Step::Push { node, number, count }),
        4 => (0..TOKENS + 1).prop_map(|token| Step::Join { token }),
        20 => (0..TOKENS, 0..8_usize).prop_map(|(token, max)| Step::Claim { token, max }),
        16 => (pick(), how).prop_map(|(pick, how)| Step::Settle { pick, how }),
        2 => pick().prop_map(|pick| Step::SettleStale { pick }),
        4 => (pick(), any::<bool>()).prop_map(|(pick, elsewhere)| Step::Permit { pick, elsewhere }),
        2 => pick().prop_map(|pick| Step::Renew { pick }),
        2 => (pick(), retry_after).prop_map(|(pick, retry_after_ms)| Step::Pushback { pick, retry_after_ms }),
        1 => (0..TOKENS, cause).prop_map(|(token, cause)| Step::Release { token, cause }),
        2 => (0..NODES.len(), any::<bool>()).prop_map(|(node, suspended)| Step::Suspend { node, suspended }),
        1 => proptest::bool::weighted(0.3).prop_map(Step::Freeze),
        1 => (1..CALLS + 1).prop_map(|calls| Step::Configure { calls }),
        8 => prop_oneof![Just(1), Just(20), Just(100), Just(600), Just(2_000), Just(6_000)].prop_map(|ms| Step::Pass { ms }),
        6 => Just(Step::PassUntilWoken),
    ]
}

pub(super) fn run_config(calls: u64) -> RunConfig {
    let shared = [limit(Unit::ApiCalls, calls, 1_000), limit(Unit::Documents, DOCUMENTS, 1_000)];
    RunConfig {
        max_holders: TOKENS,
        lease: Duration::from_millis(LEASE_MS.unsigned_abs()),
        max_charges: MAX_CHARGES,
        nodes: vec![
            node("a", "shared"),
            NodeConfig { api_calls_per_document: 1, priority: 3, ..node("b", "shared") },
            node("c", "even"),
            NodeConfig { group: "other".into(), ..node("d", "open") },
            node("e", "open"),
            node("f", "free"),
        ],
        budgets: vec![
            BudgetConfig { max_concurrent: u32::try_from(BUDGET_CAP).ok(), ..budget("shared", &shared) },
            budget("even", &[even(EVEN_CALLS, 1_000)]),
            budget("open", &[]),
            budget("free", &[]),
        ],
        origin_protection: OriginProtection {
            max_concurrent: u32::try_from(ORIGIN_CAP).unwrap(),
            initial_backoff: Duration::from_millis(500),
            max_backoff: Duration::from_millis(MAX_BACK_OFF_MS.unsigned_abs()),
        },
        ..config(&[])
    }
}

pub(super) fn task(node: usize, number: u32) -> Task {
    let name = NODES[node];
    // Every second task asks an origin that all nodes share.
    let origin = if number.is_multiple_of(2) { origin_of("shared") } else { origin_of(name) };
    let status = [ItemStatus::Error, ItemStatus::NewItem, ItemStatus::Accepted][number as usize % 5 % 3];
    let section = SectionKey::root_of(NodeName::from(name));
    Task { status, ..Task::new(section, TaskKind::Page, origin, number.to_string()) }
}
