//! Gates belong to the instance: runs that ask the same server, or name the same budget, share them.

use std::time::Duration;

use trawler::queue::{BudgetConfig, BudgetId, Claim, Gate, Holder, Leased, NodeConfig, Permit, RunConfig, Unit, Woken};
use trawler::task::ItemStatus;

use super::scene::{MakeQueue, Scene, budget, config, dataset, even, limit, limited, node, origin_of, page_at, pages};

/// Two runs of one instance with the same configuration but their weights, each with a holder and pages of its node.
async fn two_runs(make: MakeQueue, config: &RunConfig, weights: [u32; 2], count: u32) -> [(Scene, Holder); 2] {
    let first = Scene::open(make, RunConfig { weight: weights[0], ..config.clone() }).await;
    let second = first.open_also("run-2", RunConfig { weight: weights[1], ..config.clone() }).await;
    let (holder, other) = (first.join(0).await, second.join(0).await);
    first.push(pages("a", count)).await;
    second.push(pages("a", count)).await;
    [(first, holder), (second, other)]
}

/// Both claim as often as anything is found, and settle it; what each got.
async fn claim_all(runs: &[(Scene, Holder); 2], max: usize) -> [usize; 2] {
    let mut got = [0; 2];
    loop {
        let before = got;
        for ((scene, holder), got) in runs.iter().zip(&mut got) {
            let leased = scene.claim(holder, max).await;
            *got += leased.len();
            scene.done(holder, &leased).await;
        }
        if got == before {
            return got;
        }
    }
}

/// Each comes back when it was told to.
async fn claim_over_time(runs: &[(Scene, Holder); 2], max: usize, duration: Duration) -> [usize; 2] {
    let mut got = [0; 2];
    let end = runs[0].0.now() + duration;
    loop {
        let now = claim_all(runs, max).await;
        got = [got[0] + now[0], got[1] + now[1]];
        let until = runs[0].0.until(&runs[0].1).await.min(runs[1].0.until(&runs[1].1).await);
        if until >= end {
            return got;
        }
        runs[0].0.pass_until(until);
    }
}

pub(super) async fn runs_share_what_one_budget_allows(make: MakeQueue) {
    let config = limited(&["a"], &[limit(Unit::ApiCalls, 5, 1_000)]);
    let [(first, holder), (second, other)] = two_runs(make, &config, [1, 1], 10).await;
    assert_eq!(first.claim(&holder, 3).await.len(), 3);
    assert_eq!(second.claim(&other, 10).await.len(), 2);
    assert_eq!(second.until(&other).await, second.after_ms(1_000));
    assert_eq!(first.until(&holder).await, first.after_ms(1_000));
}

pub(super) async fn an_origins_protection_holds_over_runs(make: MakeQueue) {
    let mut config = config(&["a"]);
    config.origin_protection.max_concurrent = 2;
    let own = RunConfig { nodes: vec![node("a", "own")], budgets: vec![budget("own", &[])], ..config.clone() };
    let first = Scene::open(make, config).await;
    let second = first.open_also("run-2", own).await;
    let (holder, other) = (first.join(0).await, second.join(0).await);
    first.push(pages("a", 2)).await;
    second.push(pages("a", 2)).await;
    let leased = first.claim(&holder, 10).await;
    assert_eq!((leased.len(), second.claim(&other, 10).await.len()), (2, 0));
    first.pushback(&holder, &origin_of("a"), Some(5_000)).await;
    first.done(&holder, &leased).await;
    assert_eq!(second.until(&other).await, second.after_ms(5_000));
    let waiting = second.queue.lanes(&second.run, 1).await.unwrap().remove(0).waiting.unwrap();
    assert_eq!(waiting.gate, Gate::OriginBackOff { origin: origin_of("a") });
    second.pass_ms(5_000);
    assert_eq!(second.claim(&other, 10).await.len(), 2);
}

pub(super) async fn what_one_run_frees_wakes_another(make: MakeQueue) {
    let by_budget = {
        let mut config = config(&["a"]);
        config.budgets[0].max_concurrent = Some(1);
        config
    };
    let by_origin = {
        let mut config = config(&["a"]);
        config.origin_protection.max_concurrent = 1;
        config
    };
    for config in [by_budget, by_origin] {
        for ends in ["settled", "closed"] {
            let [(first, holder), (second, other)] = two_runs(make, &config, [1, 1], 1).await;
            let leased = first.claim_one(&holder).await;
            let Ok(Claim::Wait { sequence, .. }) = second.queue.claim(&other, 1).await else { panic!("must wait") };
            let wait = second.queue.wait(&second.run, sequence, second.after_ms(3_600_000));
            let end = async {
                match ends {
                    "settled" => first.done(&holder, &[leased]).await,
                    _ => first.queue.close(&first.run).await.unwrap(),
                }
            };
            let (waited, ()) = tokio::join!(tokio::time::timeout(Duration::from_secs(10), wait), end);
            assert_eq!(waited, Ok(Ok(Woken::Changed)), "{ends}");
            assert_eq!(second.claim(&other, 1).await.len(), 1, "{ends}");
        }
    }
}

pub(super) async fn who_finds_a_shared_budget_closed_wakes_nobody(make: MakeQueue) {
    let config = limited(&["a"], &[limit(Unit::ApiCalls, 1, 1_000)]);
    let [(first, holder), (second, other)] = two_runs(make, &config, [1, 1], 10).await;
    let third = first.open_also("run-3", config).await;
    let last = third.join(0).await;
    third.push(pages("a", 10)).await;
    assert_eq!(first.claim(&holder, 1).await.len(), 1);
    second.until(&other).await;
    // Makes way for the other one.
    let Ok(Claim::Wait { sequence, .. }) = first.queue.claim(&holder, 1).await else { panic!("must wait") };
    third.until(&last).await;
    assert_eq!(first.queue.wait(&first.run, sequence, first.now()).await, Ok(Woken::Moment));
}

pub(super) async fn leases_of_a_run_that_nobody_works_at_lapse_for_the_others(make: MakeQueue) {
    let mut config = config(&["a"]);
    config.budgets[0].max_concurrent = Some(1);
    let [(first, holder), (second, other)] = two_runs(make, &config, [1, 1], 1).await;
    first.claim_one(&holder).await;
    assert_eq!(second.until(&other).await, second.after_ms(60_000), "when the lease of the other run lapses");
    second.pass_ms(60_000);
    assert_eq!(second.claim(&other, 1).await.len(), 1);
    assert_eq!(first.ledger().await.queued, 1);
}

pub(super) async fn runs_go_by_their_weight_where_the_gate_lets_one_through_at_a_time(make: MakeQueue) {
    for limits in [limit(Unit::ApiCalls, 1, 100), even(10, 1_000)] {
        let runs = two_runs(make, &limited(&["a"], &[limits]), [3, 1], 1_000).await;
        assert_eq!(claim_over_time(&runs, 10, Duration::from_secs(40)).await, [300, 100]);
    }
}

pub(super) async fn runs_go_by_their_weight_in_bursts(make: MakeQueue) {
    let runs = two_runs(make, &limited(&["a"], &[limit(Unit::ApiCalls, 100, 1_000)]), [1, 3], 2_000).await;
    // At first nobody waits, and who comes takes what there is.
    claim_over_time(&runs, 16, Duration::from_secs(1)).await;
    let got = claim_over_time(&runs, 16, Duration::from_millis(10_900)).await;
    assert_eq!(got[0] + got[1], 1_000, "all that is allowed");
    assert!((240..=260).contains(&got[0]), "{got:?}");
}

pub(super) async fn runs_go_by_their_weight_for_places_under_way(make: MakeQueue) {
    let mut config = config(&["a"]);
    config.budgets[0].max_concurrent = Some(1);
    let runs = two_runs(make, &config, [3, 1], 1_000).await;
    let mut got = [0; 2];
    let mut held: Option<(usize, Vec<Leased>)> = None;
    for _ in 0..400 {
        // Whoever has the place asks first again: it must not keep it for that.
        let order = if held.as_ref().is_some_and(|(run, _)| *run == 1) { [1, 0] } else { [0, 1] };
        if let Some((run, leased)) = held.take() {
            runs[run].0.done(&runs[run].1, &leased).await;
        }
        for run in order {
            let leased = runs[run].0.claim(&runs[run].1, 1).await;
            if !leased.is_empty() {
                got[run] += 1;
                held = Some((run, leased));
            }
        }
    }
    assert!((297..=303).contains(&got[0]) && got[0] + got[1] >= 399, "{got:?}");
}

pub(super) async fn a_run_that_does_not_come_in_time_keeps_nobody_waiting(make: MakeQueue) {
    let runs = two_runs(make, &limited(&["a"], &[limit(Unit::ApiCalls, 1, 1_000)]), [1, 1], 100).await;
    let [(first, holder), (second, other)] = &runs;
    assert_eq!(first.claim(holder, 1).await.len(), 1);
    second.until(other).await;
    first.until(holder).await;
    first.pass_ms(1_000);
    let until = first.until(holder).await;
    assert!(until > first.now() && until <= first.after_ms(50), "the other goes first, if it comes: {until}");
    first.pass_ms(50);
    assert_eq!(first.claim(holder, 1).await.len(), 1);
    for _ in 0..20 {
        first.pass_ms(1_000);
        assert_eq!(first.claim(holder, 1).await.len(), 1, "who asks no more has no right of way");
    }
}

/// A crawler that always asks and never comes back must not cost a twentieth of what is allowed.
pub(super) async fn a_run_that_never_comes_in_time_costs_ever_less(make: MakeQueue) {
    let runs = two_runs(make, &limited(&["a"], &[limit(Unit::ApiCalls, 10, 1_000)]), [1, 1], 10_000).await;
    let [(first, holder), (second, other)] = &runs;
    let mut got = 0;
    let end = first.after_ms(100_000);
    while first.now() < end {
        got += first.claim(holder, 10).await.len();
        second.until(other).await;
        let until = first.until(holder).await;
        first.pass_until(until);
    }
    assert!(got >= 475, "{got} of 1000, half of which are the other's");
}

pub(super) async fn a_run_that_is_frozen_or_closed_keeps_no_budget_from_others(make: MakeQueue) {
    for end in ["frozen", "closed"] {
        let runs = two_runs(make, &limited(&["a"], &[limit(Unit::ApiCalls, 1, 1_000)]), [1, 1], 10).await;
        let [(first, holder), (second, other)] = &runs;
        assert_eq!(first.claim(holder, 1).await.len(), 1);
        second.until(other).await;
        match end {
            "frozen" => second.queue.freeze(&second.run).await.unwrap(),
            _ => second.queue.close(&second.run).await.unwrap(),
        }
        first.pass_ms(1_000);
        assert_eq!(first.claim(holder, 1).await.len(), 1, "{end}");
    }
}

/// Three calls at once never fit if whoever needs one call takes every call that becomes free.
pub(super) async fn dear_requests_of_one_run_are_not_overtaken_for_ever_by_cheap_ones_of_another(make: MakeQueue) {
    let dear = NodeConfig { api_calls_per_document: 3, ..node("b", "open") };
    let mut config = limited(&["a"], &[limit(Unit::ApiCalls, 3, 1_000)]);
    config.nodes.push(dear);
    let first = Scene::open(make, config.clone()).await;
    let second = first.open_also("run-2", config).await;
    let (holder, other) = (first.join(0).await, second.join(0).await);
    first.push(pages("a", 1_000)).await;
    second.push((0..100).map(|number| dataset("b", number, ItemStatus::NewItem))).await;
    let mut got = [0; 2];
    for _ in 0..200 {
        got[0] += first.claim(&holder, 1).await.len();
        got[1] += second.claim(&other, 1).await.len();
        first.pass_ms(100);
    }
    assert!(got[0] >= 20 && got[1] >= 7, "sixty calls, half of them each: {got:?}");
}

pub(super) async fn the_latest_configuration_of_a_shared_budget_holds_and_what_was_spent_stays_spent(make: MakeQueue) {
    let tight = limited(&["a"], &[limit(Unit::ApiCalls, 3, 10_000)]);
    let [(first, holder), (second, other)] = two_runs(make, &tight, [1, 1], 20).await;
    assert_eq!(first.claim(&holder, 10).await.len(), 3);
    assert_eq!(second.until(&other).await, second.after_ms(10_000));
    first.queue.configure(limited(&["a"], &[limit(Unit::ApiCalls, 8, 10_000)])).await.unwrap();
    assert_eq!(second.claim(&other, 10).await.len(), 5);
    assert_eq!(second.until(&other).await, second.after_ms(10_000));
}

pub(super) async fn what_a_closed_run_spent_and_was_told_is_remembered(make: MakeQueue) {
    let config = limited(&["a"], &[limit(Unit::ApiCalls, 3, 10_000)]);
    let first = Scene::open(make, config.clone()).await;
    let holder = first.join(0).await;
    first.push(pages("a", 2)).await;
    first.push([page_at(&origin_of("b"), "a", 7)]).await;
    first.claim(&holder, 10).await;
    first.pushback(&holder, &origin_of("b"), Some(15_000)).await;
    first.queue.close(&first.run).await.unwrap();

    let second = first.open_also("run-2", config).await;
    let other = second.join(0).await;
    second.push([page_at(&origin_of("b"), "a", 0)]).await;
    assert_eq!(second.until(&other).await, second.after_ms(15_000), "the origin asked for it");
    second.push([page_at(&origin_of("a"), "a", 1)]).await;
    assert_eq!(second.until(&other).await, second.after_ms(10_000), "the budget is spent");
    second.pass_ms(10_000);
    let leased = second.claim_one(&other).await;
    let wait = second.permit(&other, &leased, &origin_of("b")).await;
    assert_eq!(
        wait,
        Permit::Wait { until: second.after_ms(5_000), gate: Gate::OriginBackOff { origin: origin_of("b") } }
    );
}

pub(super) async fn what_earlier_processes_spent_counts_once(make: MakeQueue) {
    let limits = [limit(Unit::ApiCalls, 5, 60_000), limit(Unit::Documents, 100, 86_400_000)];
    let scene = Scene::new(make);
    let spent = |ago_s: u64, calls, documents| trawler::queue::Spent {
        at: scene.now() - Duration::from_secs(ago_s),
        calls,
        documents,
        bytes: 0,
    };
    // In any order; what left its window does not count.
    let earlier = vec![spent(10, 2, 10), spent(90_000, 50, 90), spent(30, 1, 60)];
    let budgets = vec![BudgetConfig { spent: earlier, ..budget("open", &limits) }];
    let config = RunConfig { budgets, ..config(&["a"]) };
    scene.queue.open(config.clone()).await.unwrap();
    let holder = scene.join(0).await;
    scene.push(pages("a", 20)).await;
    let leased = scene.claim(&holder, 10).await;
    assert_eq!(leased.len(), 2, "three of five are spent");
    assert_eq!(scene.until(&holder).await, scene.after_ms(30_000));
    scene.queue.configure(config.clone()).await.unwrap();
    let second = scene.open_also("run-2", config).await;
    scene.pass_ms(30_000);
    assert_eq!(scene.claim(&holder, 10).await.len(), 1, "counted when it became known, and never again");
    scene.charge(&holder, &leased[0], 30, 0).await;
    let other = second.join(0).await;
    second.push(pages("a", 1)).await;
    let waiting = second.queue.lanes(&second.run, 1).await.unwrap().remove(0).waiting.unwrap();
    assert_eq!(waiting.gate, Gate::Budget { budget: BudgetId("open".into()), unit: Unit::Documents });
    assert!(matches!(second.queue.claim(&other, 1).await, Ok(Claim::Wait { .. })));
}

pub(super) async fn what_was_spent_over_a_minute_closes_a_shorter_window_once(make: MakeQueue) {
    let limits =
        [limit(Unit::ApiCalls, 5, 1_000), limit(Unit::Documents, 50, 1_000), limit(Unit::ApiCalls, 400, 60_000)];
    let scene = Scene::new(make);
    let at = scene.now() - Duration::from_millis(400);
    let earlier = vec![trawler::queue::Spent { at, calls: 300, documents: 3_000, bytes: 0 }];
    let budgets = vec![BudgetConfig { spent: earlier, ..budget("open", &limits) }];
    scene.queue.open(RunConfig { budgets, ..config(&["a"]) }).await.unwrap();
    let holder = scene.join(0).await;
    scene.push(pages("a", 20)).await;
    assert_eq!(scene.until(&holder).await, scene.after_ms(600), "and not after the minute that it was spent in");
    scene.pass_ms(600);
    assert_eq!(scene.claim(&holder, 20).await.len(), 5);
}

pub(super) async fn after_a_crash_short_windows_start_spent_and_long_ones_as_they_were_left(make: MakeQueue) {
    let limits = [limit(Unit::ApiCalls, 10, 3_600_000), limit(Unit::ApiCalls, 100, 7_200_000)];
    let scene = Scene::new(make);
    let earlier = trawler::queue::Spent { at: scene.now() - Duration::from_mins(1), calls: 97, documents: 0, bytes: 0 };
    let budgets =
        vec![BudgetConfig { spent: vec![earlier], short_windows_start_spent: true, ..budget("open", &limits) }];
    scene.queue.open(RunConfig { budgets, ..config(&["a"]) }).await.unwrap();
    let holder = scene.join(0).await;
    scene.push(pages("a", 20)).await;
    assert_eq!(scene.until(&holder).await, scene.after_ms(3_600_000));
    scene.pass_ms(3_600_000);
    assert_eq!(scene.claim(&holder, 20).await.len(), 3);
}
