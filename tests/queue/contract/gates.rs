//! What must be open for a request to be sent.

use std::time::Duration;

use trawler::queue::{BudgetId, Gate, MAX_CLAIM_TASKS, NodeConfig, Permit, RunConfig, Unit};
use trawler::task::ItemStatus;

use super::scene::{
    MakeQueue, Scene, budget, config, dataset, done, even, limit, limited, names, node, open_at, origin_of, page_at,
    pages, retry_after_ms,
};

pub(super) async fn no_window_holds_more_calls_than_allowed(make: MakeQueue) {
    let limits = [limit(Unit::ApiCalls, 5, 1_000), limit(Unit::ApiCalls, 12, 10_000)];
    let scene = Scene::open(make, limited(&["a"], &limits)).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 100)).await;
    assert_eq!(scene.claim(&holder, 3).await.len(), 3);
    scene.pass_ms(600);
    assert_eq!(scene.claim(&holder, 10).await.len(), 2, "five in a second");
    assert_eq!(scene.until(&holder).await, scene.after_ms(400), "the first three leave the window");
    scene.pass_ms(400);
    assert_eq!(scene.claim(&holder, 10).await.len(), 3);
    scene.pass_ms(1_000);
    assert_eq!(scene.claim(&holder, 10).await.len(), 4, "twelve in ten seconds");
    assert_eq!(scene.until(&holder).await, scene.after_ms(8_000));
}

pub(super) async fn even_pacing_spreads_calls_over_the_period(make: MakeQueue) {
    let scene = Scene::open(make, limited(&["a"], &[even(10, 1_000)])).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 100)).await;
    for _ in 0..30 {
        assert_eq!(scene.claim(&holder, 10).await.len(), 1);
        assert_eq!(scene.until(&holder).await, scene.after_ms(100));
        scene.pass_ms(100);
    }
    scene.pass_ms(60_000);
    assert_eq!(scene.claim(&holder, 10).await.len(), 1, "idle time earns no burst");
    assert_eq!(scene.until(&holder).await, scene.after_ms(100));
}

pub(super) async fn a_latecomer_still_has_his_even_slot(make: MakeQueue) {
    let scene = Scene::open(make, limited(&["a"], &[even(10, 1_000)])).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 100)).await;
    assert_eq!(scene.claim(&holder, 1).await.len(), 1);
    scene.pass_ms(115);
    assert_eq!(scene.claim(&holder, 10).await.len(), 1);
    assert_eq!(scene.until(&holder).await, scene.after_ms(85), "a late timer costs no rate");
}

pub(super) async fn a_dataset_costs_what_its_node_says(make: MakeQueue) {
    let nodes = vec![NodeConfig { api_calls_per_document: 3, ..node("a", "open") }];
    let config = RunConfig { nodes, ..limited(&["a"], &[limit(Unit::ApiCalls, 10, 1_000)]) };
    let scene = Scene::open(make, config).await;
    let holder = scene.join(0).await;
    scene.push((0..9).map(|number| dataset("a", number, ItemStatus::NewItem))).await;
    scene.push(pages("a", 3)).await;
    assert_eq!(scene.claim(&holder, 10).await.len(), 3);
    assert_eq!(scene.until(&holder).await, scene.after_ms(1_000));
}

pub(super) async fn documents_may_overshoot_once_and_are_then_paid(make: MakeQueue) {
    let scene = Scene::open(make, limited(&["a"], &[limit(Unit::Documents, 100, 1_000)])).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 10)).await;
    let leased = scene.claim(&holder, 2).await;
    scene.charge(&holder, &leased[0], 60, 0).await;
    assert_eq!(scene.claim(&holder, 1).await.len(), 1, "60 of 100 are spent");
    scene.charge(&holder, &leased[1], 240, 0).await;
    assert_eq!(scene.until(&holder).await, scene.after_ms(3_000), "300 are paid in three periods");
    scene.pass_ms(2_999);
    assert_eq!(scene.claim(&holder, 1).await.len(), 0);
    scene.pass_ms(1);
    assert_eq!(scene.claim(&holder, 1).await.len(), 1);
}

pub(super) async fn bytes_close_the_gate_of_their_budget_alone(make: MakeQueue) {
    let config = RunConfig {
        nodes: vec![node("a", "small"), node("b", "open")],
        budgets: vec![budget("small", &[limit(Unit::Bytes, 1_000, 60_000)]), budget("open", &[])],
        ..config(&[])
    };
    let scene = Scene::open(make, config).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 5)).await;
    let first = scene.claim_one(&holder).await;
    scene.charge(&holder, &first, 0, 1_000).await;
    scene.push(pages("b", 1)).await;
    assert_eq!(names(&scene.claim(&holder, 10).await), ["b page=0"]);
    let waiting = scene.queue.lanes(&scene.run, 1).await.unwrap().remove(0).waiting.unwrap();
    assert_eq!(waiting.gate, Gate::Budget { budget: BudgetId("small".into()), unit: Unit::Bytes });
    assert_eq!(waiting.until, scene.after_ms(60_000));
}

pub(super) async fn a_budgets_cap_on_requests_under_way_holds_until_one_is_settled(make: MakeQueue) {
    let mut config = config(&["a", "b"]);
    config.budgets[0].max_concurrent = Some(3);
    let scene = Scene::open(make, config).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 12)).await;
    scene.push(pages("b", 12)).await;
    let leased = scene.claim(&holder, 10).await;
    assert_eq!(leased.len(), 3);
    assert_eq!(scene.claim(&holder, 10).await.len(), 0);
    scene.settle(&holder, &leased[0], done()).await;
    scene.settle(&holder, &leased[1], retry_after_ms(1_000)).await;
    assert_eq!(scene.claim(&holder, 10).await.len(), 2);
    assert_eq!(scene.claim(&holder, 10).await.len(), 0);
}

pub(super) async fn an_origins_cap_holds_over_all_budgets(make: MakeQueue) {
    let names: Vec<String> = (0..100).map(|number| format!("n{number}")).collect();
    let mut config = config(&[]);
    config.nodes = names.iter().map(|name| node(name, name)).collect();
    config.budgets = names.iter().map(|name| budget(name, &[])).collect();
    config.origin_protection.max_concurrent = 2;
    let scene = Scene::open(make, config).await;
    let holder = scene.join(0).await;
    let shared = origin_of("shared");
    scene.push(names.iter().map(|name| page_at(&shared, name, 0))).await;
    for _ in 0..50 {
        let leased = scene.claim(&holder, 10).await;
        assert_eq!(leased.len(), 2);
        assert_eq!(scene.claim(&holder, 10).await.len(), 0);
        scene.done(&holder, &leased).await;
    }
    assert!(scene.ledger().await.is_drained());
}

pub(super) async fn a_lane_that_cannot_use_an_open_origin_does_not_keep_others_from_it(make: MakeQueue) {
    let mut config = config(&[]);
    config.nodes = vec![node("a", "tight"), node("b", "open")];
    config.budgets = vec![budget("tight", &[limit(Unit::ApiCalls, 1, 3_600_000)]), budget("open", &[])];
    config.origin_protection.max_concurrent = 1;
    let scene = Scene::open(make, config).await;
    let holder = scene.join(0).await;
    let shared = origin_of("shared");
    scene.push((0..5).map(|number| page_at(&shared, "a", number))).await;
    scene.push((0..5).map(|number| page_at(&shared, "b", number))).await;
    for _ in 0..6 {
        let leased = scene.claim(&holder, 10).await;
        assert_eq!(leased.len(), 1);
        scene.done(&holder, &leased).await;
    }
    assert_eq!(scene.until(&holder).await, scene.after_ms(3_600_000));
}

pub(super) async fn a_lane_whose_budget_closed_while_it_waited_leaves_the_origin_to_the_next(make: MakeQueue) {
    let mut config = config(&[]);
    config.nodes = vec![node("a", "tight"), node("a2", "tight"), node("b", "open")];
    config.budgets = vec![budget("tight", &[limit(Unit::ApiCalls, 2, 3_600_000)]), budget("open", &[])];
    config.origin_protection.max_concurrent = 1;
    let scene = Scene::open(make, config).await;
    let holder = scene.join(0).await;
    let shared = origin_of("shared");
    scene.push((0..5).map(|number| page_at(&shared, "a", number))).await;
    let first = scene.claim(&holder, 10).await;
    assert_eq!(names(&first), ["a page=0"]);
    scene.push([page_at(&shared, "b", 0)]).await;
    assert_eq!(scene.claim(&holder, 10).await.len(), 0, "both wait at the origin");
    scene.push(pages("a2", 2)).await;
    assert_eq!(names(&scene.claim(&holder, 10).await), ["a2 page=0"], "which spends what their budget allows");
    scene.done(&holder, &first).await;
    assert_eq!(names(&scene.claim(&holder, 10).await), ["b page=0"]);
}

pub(super) async fn when_a_back_off_ends_every_lane_of_the_origin_goes_on(make: MakeQueue) {
    let mut config = config(&[]);
    config.nodes = ["a", "b", "c"].map(|name| node(name, name)).to_vec();
    config.budgets = ["a", "b", "c"].map(|name| budget(name, &[])).to_vec();
    let scene = Scene::open(make, config).await;
    let holder = scene.join(0).await;
    let shared = origin_of("shared");
    scene.push(["a", "b", "c"].map(|name| page_at(&shared, name, 0))).await;
    scene.pushback(&holder, &shared, Some(2_000)).await;
    assert_eq!(scene.until(&holder).await, scene.after_ms(2_000));
    scene.pass_ms(2_000);
    assert_eq!(names(&scene.claim(&holder, 10).await), ["a page=0", "b page=0", "c page=0"]);
}

pub(super) async fn retry_after_is_honoured_and_capped(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 10)).await;
    let leased = scene.claim_one(&holder).await;
    scene.pushback(&holder, &origin_of("a"), Some(7_000)).await;
    scene.settle(&holder, &leased, retry_after_ms(1)).await;
    assert_eq!(scene.until(&holder).await, scene.after_ms(1), "the retry's delay ends first");
    scene.pass_ms(1);
    assert_eq!(scene.until(&holder).await, scene.after_ms(6_999));
    scene.pass_ms(6_999);
    let leased = scene.claim_one(&holder).await;
    scene.pushback(&holder, &origin_of("a"), Some(86_400_000)).await;
    scene.done(&holder, &[leased]).await;
    assert_eq!(scene.until(&holder).await, scene.after_ms(60_000), "no server parks us for a day");
}

pub(super) async fn back_off_doubles_with_each_event_to_its_cap_and_success_resets_it(make: MakeQueue) {
    let mut config = config(&["a"]);
    config.lease = Duration::from_hours(1);
    let scene = Scene::open(make, config).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 100)).await;
    let push_back = async || {
        scene.pass_ms(1);
        let leased = scene.claim_one(&holder).await;
        scene.pushback(&holder, &origin_of("a"), Some(0)).await;
        scene.settle(&holder, &leased, trawler::queue::SettleResult::Dropped).await;
        let until = scene.until(&holder).await;
        let pause = until.duration_since(scene.now()).as_millis();
        scene.pass_ms(u64::try_from(pause).unwrap());
        pause
    };
    for expected in [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000] {
        assert_eq!(push_back().await, expected);
    }
    scene.pass_ms(1);
    let leased = scene.claim_one(&holder).await;
    scene.done(&holder, &[leased]).await;
    assert_eq!(push_back().await, 1_000);
}

pub(super) async fn pushbacks_of_one_moment_are_one_event(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 100)).await;
    let leased = scene.claim(&holder, 16).await;
    for _ in &leased {
        scene.pushback(&holder, &origin_of("a"), None).await;
        scene.pass_ms(10);
    }
    assert_eq!(scene.until(&holder).await, scene.after_ms(1_000 - 160), "not doubled sixteen times");
    scene.pass_ms(1_000);
    scene.pushback(&holder, &origin_of("a"), None).await;
    assert_eq!(scene.claim(&holder, 1).await.len(), 1, "the answer to a request from before says nothing new");
}

pub(super) async fn a_pushing_origin_slows_its_budget_once_and_success_speeds_it_up(make: MakeQueue) {
    let mut config = limited(&["a"], &[limit(Unit::ApiCalls, 10, 1_000)]);
    config.budgets[0].adaptive_floor_percent = Some(20);
    let scene = Scene::open(make, config).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 1_000)).await;
    let leased = scene.claim(&holder, 10).await;
    for _ in 0..10 {
        scene.pushback(&holder, &origin_of("a"), None).await;
    }
    for leased in &leased {
        scene.settle(&holder, leased, trawler::queue::SettleResult::Dropped).await;
    }
    scene.pass_ms(1_000);
    scene.claim_one(&holder).await;
    assert_eq!(scene.until(&holder).await, scene.after_ms(200), "half the rate, spread");
    for _ in 0..3 {
        scene.pass_ms(60_000);
        let leased = scene.claim_one(&holder).await;
        scene.pushback(&holder, &origin_of("a"), None).await;
        scene.settle(&holder, &leased, trawler::queue::SettleResult::Dropped).await;
    }
    scene.pass_ms(60_000);
    scene.claim_one(&holder).await;
    assert_eq!(scene.until(&holder).await, scene.after_ms(500), "never below a fifth");
    for _ in 0..40 {
        scene.pass_ms(1_000);
        let leased = scene.claim_one(&holder).await;
        scene.done(&holder, &[leased]).await;
    }
    scene.pass_ms(1_000);
    assert_eq!(scene.claim(&holder, 20).await.len(), 10, "the full rate, and bursts");
}

pub(super) async fn a_further_request_takes_its_own_permit_from_the_same_budget(make: MakeQueue) {
    let scene = Scene::open(make, limited(&["a"], &[limit(Unit::ApiCalls, 3, 1_000)])).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 10)).await;
    let leased = scene.claim_one(&holder).await;
    assert_eq!(scene.permit(&holder, &leased, &origin_of("a")).await, Permit::Granted);
    assert_eq!(scene.permit(&holder, &leased, &origin_of("login")).await, Permit::Granted);
    let gate = Gate::Budget { budget: BudgetId("open".into()), unit: Unit::ApiCalls };
    let wait = Permit::Wait { until: scene.after_ms(1_000), gate };
    assert_eq!(scene.permit(&holder, &leased, &origin_of("a")).await, wait);
    assert_eq!(scene.claim(&holder, 10).await.len(), 0);
}

pub(super) async fn a_request_to_another_origin_is_bound_by_that_origins_protection(make: MakeQueue) {
    let mut config = config(&["a", "b"]);
    config.origin_protection.max_concurrent = 2;
    let scene = Scene::open(make, config).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 2)).await;
    scene.push(pages("b", 1)).await;
    let leased = scene.claim(&holder, 10).await;
    assert_eq!(leased.len(), 3);
    let login = origin_of("login");
    assert_eq!(scene.permit(&holder, &leased[0], &login).await, Permit::Granted);
    assert_eq!(scene.permit(&holder, &leased[1], &login).await, Permit::Granted);
    assert_eq!(scene.permit(&holder, &leased[1], &login).await, Permit::Granted, "one lease, one place");
    let full = scene.permit(&holder, &leased[2], &login).await;
    assert!(matches!(full, Permit::Wait { gate: Gate::OriginConcurrency { .. }, .. }), "{full:?}");
    assert_eq!(scene.permit(&holder, &leased[0], &origin_of("a")).await, Permit::Granted, "it left the login");
    assert_eq!(scene.permit(&holder, &leased[2], &login).await, Permit::Granted);
    scene.done(&holder, &leased[1..2]).await;
    scene.pushback(&holder, &login, Some(5_000)).await;
    let gate = Gate::OriginBackOff { origin: login.clone() };
    let wait = Permit::Wait { until: scene.after_ms(5_000), gate };
    assert_eq!(scene.permit(&holder, &leased[0], &login).await, wait);
}

/// Redirects may lead to an origin before any task asks it.
pub(super) async fn what_permits_did_at_an_origin_is_known_when_it_gets_tasks(make: MakeQueue) {
    let mut config = config(&["a", "b"]);
    config.origin_protection.max_concurrent = 2;
    let scene = Scene::open(make, config).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 2)).await;
    let leased = scene.claim(&holder, 2).await;
    for leased in &leased {
        assert_eq!(scene.permit(&holder, leased, &origin_of("b")).await, Permit::Granted);
    }
    scene.push(pages("b", 3)).await;
    assert_eq!(scene.claim(&holder, 10).await.len(), 0, "as many are under way there as may be");
    scene.pushback(&holder, &origin_of("b"), Some(5_000)).await;
    scene.done(&holder, &leased).await;
    assert_eq!(scene.until(&holder).await, scene.after_ms(5_000));
    scene.pass_ms(5_000);
    assert_eq!(scene.claim(&holder, 10).await.len(), 2);
}

pub(super) async fn one_claim_gives_no_more_than_a_thousand_tasks(make: MakeQueue) {
    let scene = Scene::open(make, RunConfig { ..config(&["a", "b"]) }).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 999)).await;
    scene.push(pages("b", 999)).await;
    assert_eq!(scene.claim(&holder, usize::MAX).await.len(), MAX_CLAIM_TASKS);
    assert_eq!(scene.claim(&holder, 0).await.len(), 0);
}

pub(super) async fn a_budget_is_closed_outside_of_its_hours(make: MakeQueue) {
    let config = RunConfig { budgets: vec![open_at("open", &[(10, 20), (100, 110)])], ..config(&["a"]) };
    let scene = Scene::open(make, config).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 10)).await;
    assert_eq!(scene.until(&holder).await, scene.after_ms(10_000));
    let waiting = scene.queue.lanes(&scene.run, 1).await.unwrap().remove(0).waiting.unwrap();
    let gate = Gate::Hours { budget: BudgetId("open".into()) };
    assert_eq!((waiting.gate, waiting.until), (gate.clone(), scene.after_ms(10_000)));
    scene.pass_ms(10_000);
    let leased = scene.claim_one(&holder).await;
    scene.pass_ms(10_000);
    assert_eq!(scene.until(&holder).await, scene.after_ms(50_000), "the lease lapses before it opens again");
    let wait = Permit::Wait { until: scene.after_ms(80_000), gate };
    assert_eq!(scene.permit(&holder, &leased, &origin_of("a")).await, wait);
    scene.done(&holder, &[leased]).await;
    assert_eq!(scene.until(&holder).await, scene.after_ms(80_000));
    scene.pass_ms(80_000);
    assert_eq!(scene.claim(&holder, 2).await.len(), 2);
}

pub(super) async fn after_its_last_hours_a_budget_stays_closed_until_it_is_configured(make: MakeQueue) {
    let config = RunConfig { budgets: vec![open_at("open", &[(-20, -10)])], ..config(&["a"]) };
    let scene = Scene::open(make, config.clone()).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 1)).await;
    assert_eq!(scene.until(&holder).await, scene.after_ms(86_400_000));
    let again = RunConfig { budgets: vec![open_at("open", &[(-20, -10), (0, 10)])], ..config };
    scene.queue.configure(again).await.unwrap();
    scene.claim_one(&holder).await;
}

pub(super) async fn a_permit_that_waits_is_not_overtaken_by_claims(make: MakeQueue) {
    for limits in [limit(Unit::ApiCalls, 2, 1_000), even(2, 1_000)] {
        let scene = Scene::open(make, limited(&["a"], &[limits])).await;
        let (busy, eager) = (scene.join(0).await, scene.join(1).await);
        scene.push(pages("a", 100)).await;
        let leased = scene.claim_one(&busy).await;
        while !scene.claim(&eager, 1).await.is_empty() {}
        let Permit::Wait { until, .. } = scene.permit(&busy, &leased, &origin_of("a")).await else {
            panic!("the budget is spent")
        };
        scene.pass_until(until);
        let mut got = 0;
        while !scene.claim(&eager, 1).await.is_empty() {
            got += 1;
        }
        assert_eq!(scene.permit(&busy, &leased, &origin_of("a")).await, Permit::Granted, "behind {got} claims");
    }
}

/// Two calls at once never fit if whoever needs one call takes every call that becomes free.
pub(super) async fn a_dear_permit_that_waits_is_not_overtaken_for_ever_by_cheap_claims(make: MakeQueue) {
    let mut config = limited(&["a", "b"], &[limit(Unit::ApiCalls, 2, 1_000)]);
    config.nodes[1].api_calls_per_document = 2;
    let scene = Scene::open(make, config).await;
    let (busy, eager) = (scene.join(0).await, scene.join(1).await);
    scene.push([dataset("b", 0, ItemStatus::NewItem)]).await;
    let leased = scene.claim_one(&busy).await;
    scene.push(pages("a", 100)).await;
    let mut granted_after = None;
    for step in 0..40 {
        scene.pass_ms(250);
        scene.claim(&eager, 1).await;
        if scene.permit(&busy, &leased, &origin_of("b")).await == Permit::Granted {
            granted_after = Some(step);
            break;
        }
    }
    assert!(granted_after.is_some_and(|step| step < 10), "{granted_after:?}");
}

pub(super) async fn what_is_kept_for_a_permit_is_free_when_its_lease_ends_or_it_does_not_come(make: MakeQueue) {
    for ends in [true, false] {
        let scene = Scene::open(make, limited(&["a"], &[limit(Unit::ApiCalls, 1, 10_000)])).await;
        let (busy, eager) = (scene.join(0).await, scene.join(1).await);
        scene.push(pages("a", 10)).await;
        let leased = scene.claim_one(&busy).await;
        let wait = scene.permit(&busy, &leased, &origin_of("a")).await;
        assert!(matches!(wait, Permit::Wait { .. }));
        scene.pass_ms(10_000);
        assert_eq!(scene.until(&eager).await, scene.after_ms(1_000), "one call, which is kept");
        if ends {
            scene.done(&busy, &[leased]).await;
        } else {
            scene.pass_ms(1_000);
        }
        scene.claim_one(&eager).await;
    }
}

pub(super) async fn a_budget_that_counts_no_calls_slows_down_by_its_places(make: MakeQueue) {
    let mut config = limited(&["a"], &[limit(Unit::Documents, 1_000_000, 1_000)]);
    config.budgets[0].max_concurrent = Some(8);
    config.budgets[0].adaptive_floor_percent = Some(10);
    let scene = Scene::open(make, config).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 1_000)).await;
    let mut places = Vec::new();
    for _ in 0..5 {
        scene.pass_ms(60_000);
        let leased = scene.claim(&holder, 20).await;
        places.push(leased.len());
        scene.pushback(&holder, &origin_of("a"), None).await;
        for leased in &leased {
            scene.settle(&holder, leased, trawler::queue::SettleResult::Dropped).await;
        }
    }
    assert_eq!(places, [8, 4, 2, 1, 1]);
    for _ in 0..30 {
        scene.pass_ms(60_000);
        let leased = scene.claim(&holder, 1).await;
        scene.done(&holder, &leased).await;
    }
    assert_eq!(scene.claim(&holder, 20).await.len(), 8);
}
