//! Runs: opened, configured, suspended, frozen, closed.

use std::time::Duration;

use trawler::queue::{
    BudgetId, Claim, Gate, Ledger, NodeConfig, OriginProtection, Permit, Pushed, QueueError, RunConfig, Settled,
    Waiting,
};
use trawler::task::{NodeName, RunId};

use super::scene::{
    MakeQueue, Scene, budget, config, done, done_with, limit, limited, node, open_at, origin_of, page, page_at, pages,
    retry_after_ms, rows, settlement,
};
use trawler::queue::Unit;

pub(super) async fn a_run_opens_once(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    scene.push(pages("a", 2)).await;
    let again = scene.queue.open(config(&["a"])).await;
    assert_eq!(again, Err(QueueError::RunExists { run: scene.run.clone() }));
    assert_eq!(scene.ledger().await.queued, 2);
}

pub(super) async fn an_unknown_run_is_refused_by_name(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let holder = scene.join(0).await;
    scene.queue.close(&scene.run).await.unwrap();
    let error = QueueError::NoSuchRun { run: scene.run.clone() };
    assert_eq!(scene.queue.push(&scene.run, Vec::new()).await, Err(error.clone()));
    assert_eq!(scene.queue.claim(&holder, 1).await, Err(error.clone()));
    assert_eq!(scene.queue.settle(&holder, Vec::new()).await, Err(error.clone()));
    assert_eq!(scene.queue.ledger(&scene.run).await, Err(error.clone()));
    assert_eq!(scene.queue.configure(config(&["a"])).await, Err(error.clone()));
    assert_eq!(scene.queue.wait(&scene.run, 0, scene.now()).await, Err(error.clone()));
    assert_eq!(scene.try_join(0, "default").await, Err(error));
}

pub(super) async fn closing_a_run_twice_is_fine_and_it_can_be_opened_anew(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    scene.push(pages("a", 2)).await;
    scene.queue.close(&scene.run).await.unwrap();
    scene.queue.close(&scene.run).await.unwrap();
    scene.queue.open(config(&["a"])).await.unwrap();
    assert_eq!(scene.ledger().await, Ledger::default());
}

/// Its queue was lost, say, and made anew from the store: whoever worked for the old one must join again.
pub(super) async fn a_holder_of_a_closed_run_has_no_place_in_one_of_the_same_name(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    scene.push(pages("a", 2)).await;
    let of_the_old = scene.join(0).await;
    let leased = scene.claim_one(&of_the_old).await;
    scene.queue.close(&scene.run).await.unwrap();
    scene.queue.open(config(&["a"])).await.unwrap();
    scene.push(pages("a", 2)).await;
    let holder = scene.join(0).await;
    let again = scene.claim_one(&holder).await;
    assert_ne!((of_the_old.fence, leased.lease), (holder.fence, again.lease));
    let fenced = QueueError::Fenced { run: scene.run.clone(), token: 0 };
    assert_eq!(scene.queue.claim(&of_the_old, 1).await, Err(fenced.clone()));
    let settlement = settlement(leased.lease, done());
    assert_eq!(scene.queue.settle(&of_the_old, vec![settlement]).await, Err(fenced));
}

pub(super) async fn runs_do_not_see_each_other(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let other = RunId::from("run-2");
    scene.queue.open(RunConfig { run: other.clone(), ..config(&["a"]) }).await.unwrap();
    assert_eq!(scene.push(pages("a", 2)).await, Pushed { new: 2, duplicates: 0 });
    scene.queue.freeze(&scene.run).await.unwrap();
    assert_eq!(scene.queue.push(&other, pages("a", 3)).await, Ok(Pushed { new: 3, duplicates: 0 }));
    assert_eq!(scene.ledger().await.queued, 2);
}

pub(super) async fn a_configuration_that_contradicts_itself_is_refused(make: MakeQueue) {
    let good = || config(&["a"]);
    let bad_protection = OriginProtection { max_concurrent: 0, ..good().origin_protection };
    let cases = [
        RunConfig { max_holders: 0, ..good() },
        RunConfig { max_charges: 0, ..good() },
        RunConfig { lease: Duration::ZERO, ..good() },
        RunConfig { weight: 0, ..good() },
        RunConfig { budgets: vec![open_at("open", &[(0, 10), (5, 20)])], ..good() },
        RunConfig { budgets: vec![open_at("open", &[(20, 30), (0, 10)])], ..good() },
        RunConfig { budgets: vec![open_at("open", &[(10, 10)])], ..good() },
        RunConfig { origin_protection: bad_protection, ..good() },
        RunConfig { nodes: vec![node("a", "missing")], ..good() },
        RunConfig { budgets: vec![budget("open", &[]), budget("open", &[])], ..good() },
        RunConfig { nodes: vec![node("a", "open"), node("a", "open")], ..good() },
        RunConfig { nodes: vec![NodeConfig { api_calls_per_document: 0, ..node("a", "open") }], ..good() },
        limited(&["a"], &[limit(Unit::ApiCalls, 0, 1000)]),
        limited(&["a"], &[limit(Unit::Bytes, 1, 0)]),
        RunConfig {
            nodes: vec![NodeConfig { api_calls_per_document: 11, ..node("a", "open") }],
            ..limited(&["a"], &[limit(Unit::ApiCalls, 10, 1000)])
        },
    ];
    let scene = Scene::new(make);
    for case in cases {
        let refused = scene.queue.open(case.clone()).await;
        assert!(matches!(refused, Err(QueueError::BadConfig { .. })), "{case:?} gave {refused:?}");
    }
    scene.queue.open(good()).await.unwrap();
    let refused = scene.queue.configure(RunConfig { lease: Duration::ZERO, ..good() }).await;
    assert!(matches!(refused, Err(QueueError::BadConfig { .. })));
}

pub(super) async fn pushing_to_a_node_that_the_run_lacks_pushes_nothing(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let refused = scene.queue.push(&scene.run, vec![page("a", 1), page("stranger", 1)]).await;
    let node = NodeName::from("stranger");
    assert_eq!(refused, Err(QueueError::NoSuchNode { run: scene.run.clone(), node }));
    assert_eq!(scene.ledger().await, Ledger::default());
    assert_eq!(scene.push([page("a", 1)]).await, Pushed { new: 1, duplicates: 0 });
}

pub(super) async fn a_suspended_node_is_passed_over_until_it_is_resumed(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a", "b"])).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 3)).await;
    scene.push(pages("b", 3)).await;
    let a = NodeName::from("a");
    scene.queue.suspend_node(&scene.run, &a, true).await.unwrap();
    let only_b = scene.claim(&holder, 10).await;
    assert_eq!(rows(&only_b), [("b".to_owned(), 3)]);
    scene.done(&holder, &only_b).await;
    assert!(matches!(scene.queue.claim(&holder, 1).await, Ok(Claim::Wait { .. })));
    scene.queue.suspend_node(&scene.run, &a, false).await.unwrap();
    assert_eq!(rows(&scene.claim(&holder, 10).await), [("a".to_owned(), 3)]);
    let stranger = scene.queue.suspend_node(&scene.run, &NodeName::from("stranger"), true).await;
    assert!(matches!(stranger, Err(QueueError::NoSuchNode { .. })));
}

pub(super) async fn a_frozen_run_hands_out_nothing_permits_nothing_and_takes_only_feedback(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 3)).await;
    let [first, second] = scene.claim(&holder, 2).await.try_into().unwrap();
    scene.queue.freeze(&scene.run).await.unwrap();
    scene.queue.freeze(&scene.run).await.unwrap();

    assert_eq!(scene.queue.claim(&holder, 1).await, Ok(Claim::Frozen));
    assert_eq!(scene.permit(&holder, &first, &origin_of("a")).await, Permit::Frozen);
    let refused = scene.queue.push(&scene.run, vec![page("a", 9)]).await;
    assert_eq!(refused, Err(QueueError::Frozen { run: scene.run.clone() }));
    let settled = scene.settle(&holder, &first, done_with(vec![page("a", 10)])).await;
    assert_eq!(settled, Settled::Accepted(Pushed { new: 1, duplicates: 0 }));
    scene.settle(&holder, &second, retry_after_ms(10)).await;
    let expected = Ledger { discovered: 4, queued: 2, delayed: 1, done: 1, ..Ledger::default() };
    assert_eq!(scene.ledger().await, expected);
    scene.pass_ms(100_000);
    assert_eq!(scene.queue.claim(&holder, 1).await, Ok(Claim::Frozen));

    scene.queue.thaw(&scene.run).await.unwrap();
    scene.queue.thaw(&scene.run).await.unwrap();
    assert_eq!(scene.claim(&holder, 10).await.len(), 3);
}

pub(super) async fn a_node_moves_to_another_budget_with_its_tasks(make: MakeQueue) {
    let scene = Scene::open(make, limited(&["a"], &[limit(Unit::ApiCalls, 1, 60_000)])).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 3)).await;
    assert_eq!(scene.claim(&holder, 10).await.len(), 1);
    let wider = RunConfig {
        nodes: vec![node("a", "wide")],
        budgets: vec![budget("open", &[limit(Unit::ApiCalls, 1, 60_000)]), budget("wide", &[])],
        ..config(&["a"])
    };
    scene.queue.configure(wider).await.unwrap();
    assert_eq!(scene.claim(&holder, 10).await.len(), 2);
}

pub(super) async fn what_was_spent_stays_spent_when_a_budget_is_changed(make: MakeQueue) {
    let scene = Scene::open(make, limited(&["a"], &[limit(Unit::ApiCalls, 5, 10_000)])).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 20)).await;
    assert_eq!(scene.claim(&holder, 20).await.len(), 5);
    scene.queue.configure(limited(&["a"], &[limit(Unit::ApiCalls, 7, 10_000)])).await.unwrap();
    assert_eq!(scene.claim(&holder, 20).await.len(), 2);
    scene.queue.configure(limited(&["a"], &[limit(Unit::ApiCalls, 3, 10_000)])).await.unwrap();
    assert_eq!(scene.until(&holder).await, scene.after_ms(10_000));
    scene.pass_ms(10_000);
    assert_eq!(scene.claim(&holder, 20).await.len(), 3);
}

pub(super) async fn what_a_removed_node_had_left_is_dropped(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a", "b"])).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 4)).await;
    let leased = scene.claim(&holder, 2).await;
    scene.settle(&holder, &leased[0], retry_after_ms(1000)).await;
    scene.queue.configure(config(&["b"])).await.unwrap();
    let expected = Ledger { discovered: 4, leased: 1, dropped: 3, ..Ledger::default() };
    assert_eq!(scene.ledger().await, expected);
    scene.settle(&holder, &leased[1], done_with(vec![page("a", 9)])).await;
    let expected = Ledger { discovered: 5, done: 1, dropped: 4, ..Ledger::default() };
    assert_eq!(scene.ledger().await, expected);
    assert_eq!(scene.queue.claim(&holder, 1).await, Ok(Claim::Drained));
}

pub(super) async fn lanes_name_what_they_hold_and_the_gate_they_wait_for(make: MakeQueue) {
    let scene = Scene::open(make, limited(&["a", "b"], &[limit(Unit::ApiCalls, 1, 5_000)])).await;
    let holder = scene.join(0).await;
    let shared = origin_of("shared");
    scene.push([page_at(&shared, "a", 0), page_at(&shared, "b", 0)]).await;
    scene.claim_one(&holder).await;
    let lanes = scene.queue.lanes(&scene.run, 10).await.unwrap();
    let [lane] = lanes.as_slice() else { panic!("one lane, got {lanes:?}") };
    let waiting = lane.waiting.clone().unwrap();
    assert_eq!((&lane.origin, &lane.budget), (&shared, &BudgetId("open".into())));
    assert_eq!((lane.queued, lane.leased, &*lane.nodes), (1, 1, &[NodeName::from("b")][..]));
    let gate = Gate::Budget { budget: BudgetId("open".into()), unit: Unit::ApiCalls };
    assert_eq!((waiting.gate, waiting.until), (gate, scene.after_ms(5_000)));
    assert_eq!(scene.queue.lanes(&scene.run, 0).await, Ok(Vec::new()));
}

pub(super) async fn lanes_name_the_nodes_whose_failed_tasks_are_tried_again(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a", "b"])).await;
    let holder = scene.join(0).await;
    let shared = origin_of("shared");
    let lane = async || scene.queue.lanes(&scene.run, 1).await.unwrap().remove(0);
    scene.push([page_at(&shared, "a", 0), page_at(&shared, "b", 0)]).await;
    for leased in scene.claim(&holder, 2).await {
        let delay_ms = if leased.task.section.node == NodeName::from("a") { 9_000 } else { 4_000 };
        scene.settle(&holder, &leased, retry_after_ms(delay_ms)).await;
    }
    let only_retries = lane().await;
    assert_eq!((only_retries.queued, only_retries.leased), (2, 0));
    assert_eq!(only_retries.nodes, ["b", "a"].map(NodeName::from));
    let waiting = Waiting { gate: Gate::Delay, until: scene.after_ms(4_000) };
    assert_eq!(only_retries.waiting, Some(waiting));
    scene.push([page_at(&shared, "a", 1)]).await;
    let one_is_ready = lane().await;
    assert_eq!((one_is_ready.queued, one_is_ready.waiting), (3, None));
    assert_eq!(one_is_ready.nodes, ["a", "b"].map(NodeName::from), "what is ready is named first, and once");
}

pub(super) async fn lanes_say_how_fast_their_budget_is_at_present(make: MakeQueue) {
    let limits = [limit(Unit::ApiCalls, 10, 1_000), limit(Unit::ApiCalls, 120, 60_000), limit(Unit::Bytes, 1, 1_000)];
    let mut config = limited(&["a"], &limits);
    config.nodes.push(node("b", "free"));
    config.budgets[0].adaptive_floor_percent = Some(5);
    config.budgets.push(budget("free", &[limit(Unit::Documents, 5, 1_000)]));
    let scene = Scene::open(make, config).await;
    let holder = scene.join(0).await;
    scene.push([page("a", 0), page("a", 1), page("b", 0)]).await;
    let rates = async || {
        let mut lanes = scene.queue.lanes(&scene.run, 10).await.unwrap();
        lanes.sort_by_key(|lane| lane.origin.clone());
        lanes.into_iter().map(|lane| lane.calls_per_s).collect::<Vec<_>>()
    };
    assert_eq!(rates().await, [Some(2.0), None]);
    scene.claim_one(&holder).await;
    scene.pushback(&holder, &origin_of("a"), None).await;
    assert_eq!(rates().await, [Some(1.0), None]);
}

pub(super) async fn a_sound_run_has_nothing_to_repair(make: MakeQueue) {
    let scene = Scene::open(make, limited(&["a", "b"], &[limit(Unit::ApiCalls, 3, 5_000)])).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 4)).await;
    scene.push(pages("b", 4)).await;
    let leased = scene.claim(&holder, 5).await;
    scene.settle(&holder, &leased[0], done()).await;
    scene.settle(&holder, &leased[1], retry_after_ms(1_000)).await;
    assert_eq!(scene.queue.audit(&scene.run).await, Ok(Vec::new()));
}
