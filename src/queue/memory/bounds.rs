//! What stays behind when runs are gone.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::MemoryQueue;
use crate::clock::{Clock, ManualClock};
use crate::queue::{
    BudgetConfig, BudgetId, BudgetLimit, Claim, JoinRequest, NodeConfig, OriginProtection, Pushback, PushbackKind,
    Queue, RunConfig, Unit,
};
use crate::task::{NodeName, OriginKey, RunId, SectionKey, Task, TaskKind};

const RUNS: u32 = 10_000;

fn config(run: &RunId, number: u32) -> RunConfig {
    let budget = BudgetId(format!("budget-{number}").into());
    RunConfig {
        run: run.clone(),
        weight: 1,
        max_holders: 1,
        lease: Duration::from_mins(1),
        max_charges: 3,
        nodes: vec![NodeConfig {
            name: NodeName::from("node"),
            budget: budget.clone(),
            group: "default".into(),
            priority: 0,
            suspended: false,
            api_calls_per_document: 1,
            brief: Arc::default(),
        }],
        budgets: vec![BudgetConfig {
            id: budget,
            limits: vec![BudgetLimit { unit: Unit::ApiCalls, amount: 10, period: Duration::from_secs(1), even: true }],
            max_concurrent: Some(2),
            adaptive_floor_percent: Some(5),
            open_hours: None,
            spent: Vec::new(),
            short_windows_start_spent: false,
        }],
        origin_protection: OriginProtection {
            max_concurrent: 8,
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_mins(1),
        },
        closed_origins: Vec::new(),
        brief: Arc::default(),
    }
}

/// Each has a budget and origins of its own, is pushed back, and is closed with work under way and waiting.
#[tokio::test]
async fn ten_thousand_runs_that_were_opened_and_closed_leave_little_behind() {
    let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
    let queue = MemoryQueue::new(clock.clone());
    for number in 0..RUNS {
        let run = RunId::from(format!("run-{number}"));
        queue.open(config(&run, number)).await.unwrap();
        let origin = OriginKey::from(format!("https://node-{number}.example:443"));
        let task = |page: u32| {
            let section = SectionKey::root_of(NodeName::from("node"));
            Task::new(section, TaskKind::Page, origin.clone(), page.to_string())
        };
        queue.push(&run, (0..3).map(task).collect()).await.unwrap();
        let request = JoinRequest { run: run.clone(), token: 0, uid: "uid".into(), group: "default".into() };
        let holder = queue.join(request).await.unwrap();
        let Ok(Claim::Tasks(leased)) = queue.claim(&holder, 1).await else { panic!("a task is eligible") };
        queue.claim(&holder, 1).await.unwrap();
        let login = OriginKey::from(format!("https://login-{number}.example:443"));
        clock.advance(Duration::from_millis(100));
        queue.permit(&holder, &leased[0].lease, &login).await.unwrap();
        let pushback = Pushback { kind: PushbackKind::Timeout, retry_after: None };
        queue.pushback(&holder, &login, pushback).await.unwrap();
        queue.close(&run).await.unwrap();
        clock.advance(Duration::from_secs(4));
    }
    let instance = queue.lock();
    let (runs, budgets, origins) = instance.sizes();
    // What was pushed back is remembered for an hour, which is 900 runs.
    assert!(runs == 0 && budgets <= 2_048 && origins <= 4_096, "{runs} runs, {budgets} budgets, {origins} origins");
}

#[tokio::test]
async fn what_must_be_remembered_of_runs_that_are_gone_is_bounded() {
    let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
    let queue = MemoryQueue::new(clock.clone());
    let run = RunId::from("run");
    let day = BudgetLimit { unit: Unit::ApiCalls, amount: 1, period: Duration::from_hours(24), even: false };
    let spent = crate::queue::Spent { at: clock.now(), calls: 1, documents: 0, bytes: 0 };
    let with_budgets = |numbers: std::ops::Range<u32>| {
        let mut config = config(&run, numbers.start);
        let budget = config.budgets.remove(0);
        config.budgets.extend(numbers.map(|number| {
            let id = BudgetId(format!("budget-{number}").into());
            BudgetConfig { id, limits: vec![day], spent: vec![spent], ..budget.clone() }
        }));
        config
    };
    for numbers in [0..80_000, 80_000..140_000] {
        queue.open(with_budgets(numbers)).await.unwrap();
        queue.close(&run).await.unwrap();
    }
    let (_, budgets, _) = queue.lock().sizes();
    assert!(budgets <= 65_536 + 60_000, "{budgets} budgets");
}
