//! The run that histories happen to: who is in it, and how it can be changed while it goes on.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;
use trawler::queue::{BudgetConfig, BudgetId, NodeConfig, OpenInterval, OriginProtection, RunConfig, Unit};
use trawler::task::{ItemStatus, NodeName, OriginKey, RunId, SectionKey, Task, TaskKind};

use crate::contract::scene::{budget, config, even, limit, node, origin_of};

pub(super) const NODES: [&str; 9] = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
pub(super) const BUDGETS: [&str; 5] = ["shared", "even", "open", "adaptive", "hours"];
pub(super) const GROUPS: [&str; 2] = ["default", "other"];
/// Each node has an origin of its own, all have one in common, and some requests go to a login.
pub(super) const ORIGINS: [&str; 11] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "hub", "login"];
const HUB: usize = 9;

/// When every history begins.
pub(super) const START: Timestamp = Timestamp::constant(1_800_000_000, 0);

pub(super) const TOKENS: u32 = 4;
pub(super) const LEASE_MS: i64 = 5_000;
pub(super) const INITIAL_BACK_OFF_MS: i64 = 500;
pub(super) const MAX_BACK_OFF_MS: i64 = 4_000;
pub(super) const MAX_CHARGES: u32 = 2;

/// What differs from history to history.
#[derive(Debug, Clone, Copy)]
pub(crate) struct World {
    calls: u64,
    budget_cap: u32,
    origin_cap: u32,
}

pub(super) fn world() -> impl Strategy<Value = World> {
    let origin_cap = prop_oneof![2 => Just(2_u32), 2 => Just(6), 3 => Just(100)];
    let budget_cap = prop_oneof![Just(3_u32), Just(50)];
    (3..20_u64, budget_cap, origin_cap).prop_map(|(calls, budget_cap, origin_cap)| World {
        calls,
        budget_cap,
        origin_cap,
    })
}

/// How a live configuration differs from the one before.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Calls {
        budget: usize,
        amount: u64,
    },
    Period {
        budget: usize,
        ms: u64,
    },
    BudgetCap(Option<u32>),
    OriginCap(u32),
    Remove {
        node: usize,
    },
    Restore {
        node: usize,
    },
    Move {
        node: usize,
        budget: usize,
    },
    Regroup {
        node: usize,
        group: usize,
    },
    Priority {
        node: usize,
        priority: i32,
    },
    Cost {
        node: usize,
        calls: u32,
    },
    Holders(u32),
    /// The hours of their budget, in seconds after the start of the history; `None`: always open.
    Hours(Option<[u64; 4]>),
}

pub(super) fn change() -> impl Strategy<Value = Change> {
    let node = || 0..NODES.len();
    prop_oneof![
        4 => (prop_oneof![Just(0_usize), Just(1), Just(3)], 2..16_u64)
            .prop_map(|(budget, amount)| Change::Calls { budget, amount }),
        1 => (prop_oneof![Just(1_usize), Just(3)], prop_oneof![Just(500_u64), Just(1_000), Just(3_000)])
            .prop_map(|(budget, ms)| Change::Period { budget, ms }),
        1 => proptest::option::of(2..6_u32).prop_map(Change::BudgetCap),
        1 => prop_oneof![Just(1_u32), Just(3), Just(100)].prop_map(Change::OriginCap),
        2 => node().prop_map(|node| Change::Remove { node }),
        4 => node().prop_map(|node| Change::Restore { node }),
        3 => (node(), 0..BUDGETS.len()).prop_map(|(node, budget)| Change::Move { node, budget }),
        2 => (node(), 0..GROUPS.len()).prop_map(|(node, group)| Change::Regroup { node, group }),
        1 => (node(), -1..4_i32).prop_map(|(node, priority)| Change::Priority { node, priority }),
        2 => (node(), 1..8_u32).prop_map(|(node, calls)| Change::Cost { node, calls }),
        1 => (2..=TOKENS).prop_map(Change::Holders),
        2 => proptest::option::weighted(0.8, (1..40_u64, 1..40_u64, 1..40_u64))
            .prop_map(|lengths| Change::Hours(lengths.map(|(first, second, third)| {
                [first, first + second, first + second + third, 1_000_000]
            }))),
    ]
}

impl Change {
    pub(super) fn apply(&self, config: &mut RunConfig) {
        let found =
            |config: &RunConfig, node: usize| config.nodes.iter().position(|known| known.name.as_str() == NODES[node]);
        let mut edit = |node: usize, edit: &dyn Fn(&mut NodeConfig)| {
            if let Some(position) = found(config, node) {
                edit(&mut config.nodes[position]);
            }
        };
        match *self {
            Self::Calls { budget, amount } => config.budgets[budget].limits[0].amount = amount,
            Self::Period { budget, ms } => config.budgets[budget].limits[0].period = Duration::from_millis(ms),
            Self::BudgetCap(max) => config.budgets[0].max_concurrent = max,
            Self::OriginCap(max) => config.origin_protection.max_concurrent = max,
            Self::Remove { node } => config.nodes.retain(|known| known.name.as_str() != NODES[node]),
            Self::Restore { node } => {
                if found(config, node).is_none() {
                    config.nodes.push(node_config(node));
                }
            }
            Self::Move { node, budget } => edit(node, &|known| known.budget = BudgetId(BUDGETS[budget].into())),
            Self::Regroup { node, group } => edit(node, &|known| known.group = GROUPS[group].into()),
            Self::Priority { node, priority } => edit(node, &|known| known.priority = priority),
            Self::Cost { node, calls } => edit(node, &|known| known.api_calls_per_document = calls),
            Self::Holders(max) => config.max_holders = max,
            Self::Hours(hours) => config.budgets[4].open_hours = hours.map(open_hours),
        }
    }
}

/// Whether the configuration contradicts itself: a dataset that costs more than its budget ever allows at once.
pub(super) fn is_sound(config: &RunConfig) -> bool {
    config.nodes.iter().all(|node| {
        let budget = config.budgets.iter().find(|budget| budget.id == node.budget);
        budget.is_some_and(|budget| {
            let calls = budget.limits.iter().filter(|limit| limit.unit == Unit::ApiCalls);
            calls.map(|limit| limit.amount).min().unwrap_or(u64::MAX) >= node.api_calls_per_document.into()
        })
    })
}

fn node_config(index: usize) -> NodeConfig {
    let plain = node(NODES[index], BUDGETS[[0, 0, 1, 0, 2, 2, 2, 3, 4][index]]);
    match index {
        0 | 2 => NodeConfig { api_calls_per_document: 2, ..plain },
        1 => NodeConfig { priority: 3, ..plain },
        3 => NodeConfig { group: GROUPS[1].into(), ..plain },
        5 => NodeConfig { priority: -1, ..plain },
        _ => plain,
    }
}

pub(super) fn run_config(world: World, run: RunId) -> RunConfig {
    let shared = [
        limit(Unit::ApiCalls, world.calls, 1_000),
        limit(Unit::ApiCalls, world.calls * 3, 5_000),
        limit(Unit::Documents, 40, 1_000),
        limit(Unit::Bytes, 60, 1_500),
    ];
    let ms = |ms: i64| Duration::from_millis(ms.unsigned_abs());
    RunConfig {
        run,
        max_holders: TOKENS,
        lease: ms(LEASE_MS),
        max_charges: MAX_CHARGES,
        nodes: (0..NODES.len()).map(node_config).collect(),
        budgets: vec![
            BudgetConfig { max_concurrent: Some(world.budget_cap), ..budget(BUDGETS[0], &shared) },
            budget(BUDGETS[1], &[even(10, 1_000)]),
            budget(BUDGETS[2], &[]),
            BudgetConfig { adaptive_floor_percent: Some(20), ..budget(BUDGETS[3], &[limit(Unit::ApiCalls, 8, 1_000)]) },
            BudgetConfig { open_hours: Some(open_hours([2, 9, 20, 1_000_000])), ..budget(BUDGETS[4], &[]) },
        ],
        origin_protection: OriginProtection {
            max_concurrent: world.origin_cap,
            initial_backoff: ms(INITIAL_BACK_OFF_MS),
            max_backoff: ms(MAX_BACK_OFF_MS),
        },
        ..config(&[])
    }
}

/// Two spans: from, until, from, until.
fn open_hours(seconds: [u64; 4]) -> Arc<[OpenInterval]> {
    let at = |second: u64| START.checked_add(Duration::from_secs(second)).unwrap();
    let [from, until, from_again, until_again] = seconds.map(at);
    Arc::from([OpenInterval { from, until }, OpenInterval { from: from_again, until: until_again }])
}

/// A node's task. Every second one asks the origin that all nodes have in common, every third is a dataset.
pub(super) fn task(node: usize, number: u32) -> Task {
    let origin = ORIGINS[if number.is_multiple_of(2) { HUB } else { node }];
    let kind = if number.is_multiple_of(3) { TaskKind::Dataset } else { TaskKind::Page };
    let status = [ItemStatus::Error, ItemStatus::NewItem, ItemStatus::Accepted][number as usize % 5 % 3];
    let section = SectionKey::root_of(NodeName::from(NODES[node]));
    Task { status, ..Task::new(section, kind, origin_key(origin), number.to_string()) }
}

pub(super) fn origin_key(name: &str) -> OriginKey {
    origin_of(name)
}

pub(super) fn position(names: &[&str], name: &str) -> usize {
    names.iter().position(|known| *known == name).expect("a name that the world has")
}
