//! Holders and leases: joined, fenced, released, expired.

use std::time::Duration;

use trawler::queue::{
    Claim, DeadTask, Gate, LeaseRef, Ledger, MAX_DEAD_KEPT, Permit, Pushback, PushbackKind, Pushed, QueueError,
    ReleaseCause, Released, SettleResult, Settled, TaskFailure, Waiting,
};
use trawler::task::NodeName;

use super::scene::{
    MakeQueue, Scene, config, done, done_with, names, origin_of, page, pages, retry_after_ms, settlement,
};

pub(super) async fn no_more_holders_join_than_the_run_has_tokens(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    for token in 0..4 {
        scene.join(token).await;
    }
    let refused = scene.try_join(4, "default").await;
    assert_eq!(refused, Err(QueueError::NoPlaceFree { run: scene.run.clone(), max: 4 }));
    scene.queue.release_holder(&scene.run, 2, ReleaseCause::Finished).await.unwrap();
    scene.join(4).await;
}

pub(super) async fn a_second_join_fences_the_first_and_frees_its_leases(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let first = scene.join(0).await;
    scene.push(pages("a", 2)).await;
    let leased = scene.claim_one(&first).await;
    let second = scene.join(0).await;
    assert!(second.fence > first.fence);

    let fenced = QueueError::Fenced { run: scene.run.clone(), token: 0 };
    let pushback = Pushback { kind: PushbackKind::Timeout, retry_after: None };
    assert_eq!(scene.queue.claim(&first, 1).await, Err(fenced.clone()));
    assert_eq!(scene.queue.permit(&first, &leased.lease, &origin_of("a")).await, Err(fenced.clone()));
    assert_eq!(scene.queue.settle(&first, vec![settlement(leased.lease, done())]).await, Err(fenced.clone()));
    assert_eq!(scene.queue.renew(&first, &[leased.lease]).await, Err(fenced.clone()));
    assert_eq!(scene.queue.pushback(&first, &origin_of("a"), pushback).await, Err(fenced));
    assert_eq!(scene.settle(&second, &leased, done()).await, Settled::Fenced);
    assert_eq!(names(&scene.claim(&second, 10).await), ["a page=0", "a page=1"]);
}

pub(super) async fn releasing_a_holder_frees_its_leases_at_once_and_fences_it(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let (first, second) = (scene.join(0).await, scene.join(1).await);
    scene.push(pages("a", 5)).await;
    let leased = scene.claim(&first, 3).await;
    let released = scene.queue.release_holder(&scene.run, 0, ReleaseCause::Disrupted).await;
    assert_eq!(released, Ok(Released { requeued: 3, dead: 0 }));
    assert!(matches!(scene.queue.claim(&first, 1).await, Err(QueueError::Fenced { .. })));
    let again = scene.claim(&second, 3).await;
    assert_eq!(names(&again), names(&leased));
    assert_eq!(again.iter().map(|leased| leased.attempt).collect::<Vec<_>>(), [0, 0, 0], "nobody tried and failed");
    let unknown = scene.queue.release_holder(&scene.run, 9, ReleaseCause::Crashed).await;
    assert_eq!(unknown, Ok(Released::default()));
}

pub(super) async fn a_task_that_crashed_as_often_as_allowed_is_dead(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    scene.push([page("a", 0)]).await;
    for crash in 1..=3 {
        let holder = scene.join(0).await;
        assert_eq!(scene.claim_one(&holder).await.attempt, crash - 1);
        let released = scene.queue.release_holder(&scene.run, 0, ReleaseCause::Crashed).await.unwrap();
        assert_eq!(released.dead, u64::from(crash == 3));
    }
    assert_eq!(scene.ledger().await, Ledger { discovered: 1, dead: 1, ..Ledger::default() });
}

pub(super) async fn the_dead_are_kept_with_their_latest_failures(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    scene.push([page("a", 0)]).await;
    let holder = scene.join(0).await;
    for _ in 0..5 {
        let leased = scene.claim_one(&holder).await;
        scene.settle(&holder, &leased, retry_after_ms(100)).await;
        scene.pass_ms(100);
    }
    scene.claim_one(&holder).await;
    scene.queue.release_holder(&scene.run, 0, ReleaseCause::Crashed).await.unwrap();
    scene.pass_ms(100);
    let holder = scene.join(0).await;
    let leased = scene.claim_one(&holder).await;
    scene.settle(&holder, &leased, SettleResult::Dead { why: "é".repeat(1_000) }).await;

    let dead = scene.queue.dead(&scene.run, 10).await.unwrap();
    let failure = |ms: u64, why: &str| TaskFailure { at: scene.now() - Duration::from_millis(ms), why: why.into() };
    let server = "the server answered 500";
    let history = vec![
        failure(400, server),
        failure(300, server),
        failure(200, server),
        failure(100, "the crawler crashed while it worked on this task"),
        failure(0, &"é".repeat(256)),
    ];
    assert_eq!(dead, [DeadTask { task: leased.task, attempts: 7, charges: 1, history }]);
    assert_eq!(scene.queue.dead(&scene.run, 0).await, Ok(Vec::new()));
}

pub(super) async fn a_thousand_dead_are_kept_and_all_are_counted(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 1_001)).await;
    for _ in 0..1_001 {
        let leased = scene.claim_one(&holder).await;
        scene.settle(&holder, &leased, SettleResult::Dead { why: "410 Gone".into() }).await;
    }
    let dead = scene.queue.dead(&scene.run, usize::MAX).await.unwrap();
    assert_eq!((dead.len(), scene.ledger().await.dead), (MAX_DEAD_KEPT, 1_001));
    assert_eq!(dead[999].task.cursor.as_ref(), "page=999", "the first to die are kept");
}

pub(super) async fn disruptions_charge_nothing(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    scene.push([page("a", 0)]).await;
    for cause in [ReleaseCause::Disrupted, ReleaseCause::Finished].into_iter().cycle().take(20) {
        let holder = scene.join(0).await;
        scene.claim_one(&holder).await;
        let released = scene.queue.release_holder(&scene.run, 0, cause).await;
        assert_eq!(released, Ok(Released { requeued: 1, dead: 0 }));
    }
}

pub(super) async fn a_settled_lease_settles_no_second_time(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let holder = scene.join(0).await;
    scene.push([page("a", 0)]).await;
    let leased = scene.claim_one(&holder).await;
    let twice = vec![settlement(leased.lease, done()), settlement(leased.lease, done())];
    let settled = scene.queue.settle(&holder, twice).await.unwrap();
    assert_eq!(settled, [Settled::Accepted(trawler::queue::Pushed::default()), Settled::Fenced]);
    assert_eq!(scene.settle(&holder, &leased, retry_after_ms(1)).await, Settled::Fenced);
    assert_eq!(scene.ledger().await, Ledger { discovered: 1, done: 1, ..Ledger::default() });
}

pub(super) async fn settling_and_claiming_at_once_does_both_in_this_order(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a", "b"])).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 3)).await;
    let leased = scene.claim(&holder, 2).await;
    let foreign = LeaseRef { lease: leased[1].lease.lease + 1, ..leased[1].lease };
    let settlements = vec![
        settlement(leased[0].lease, done_with(vec![page("b", 0), page("a", 0)])),
        settlement(foreign, done()),
        settlement(leased[1].lease, SettleResult::Released),
    ];
    let (settled, claim) = scene.queue.settle_and_claim(&holder, settlements, 10).await.unwrap();
    let found = Pushed { new: 1, duplicates: 1 };
    assert_eq!(settled, [Settled::Accepted(found), Settled::Fenced, Settled::Accepted(Pushed::default())]);
    let Claim::Tasks(claimed) = claim else { panic!("tasks are eligible: {claim:?}") };
    assert_eq!(names(&claimed), ["a page=1", "a page=2", "b page=0"], "also what was put back and found just now");
    assert_eq!(scene.ledger().await, Ledger { discovered: 4, leased: 3, done: 1, ..Ledger::default() });

    scene.queue.freeze(&scene.run).await.unwrap();
    let last = claimed.iter().map(|leased| settlement(leased.lease, done())).collect();
    let frozen = scene.queue.settle_and_claim(&holder, last, 10).await.unwrap();
    assert_eq!(frozen, (vec![Settled::Accepted(Pushed::default()); 3], Claim::Frozen));
    scene.queue.thaw(&scene.run).await.unwrap();
    let drained = scene.queue.settle_and_claim(&holder, Vec::new(), 10).await.unwrap();
    assert_eq!(drained, (Vec::new(), Claim::Drained));
}

pub(super) async fn a_lease_is_its_holders_alone(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let (owner, other) = (scene.join(0).await, scene.join(1).await);
    scene.push([page("a", 0)]).await;
    let leased = scene.claim_one(&owner).await;
    let lost = QueueError::LeaseLost { run: scene.run.clone(), task: leased.task.id };
    assert_eq!(scene.settle(&other, &leased, done()).await, Settled::Fenced);
    assert_eq!(scene.queue.renew(&other, &[leased.lease]).await, Ok(vec![leased.lease]));
    assert_eq!(scene.queue.permit(&other, &leased.lease, &origin_of("a")).await, Err(lost));
    let forged = LeaseRef { lease: leased.lease.lease + 1, ..leased.lease };
    assert_eq!(scene.queue.renew(&owner, &[forged]).await, Ok(vec![forged]));
    assert_eq!(scene.permit(&owner, &leased, &origin_of("a")).await, Permit::Granted);
}

pub(super) async fn a_renewed_lease_lasts_longer(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let (holder, other) = (scene.join(0).await, scene.join(1).await);
    scene.push(pages("a", 2)).await;
    let leased = scene.claim(&holder, 2).await;
    scene.pass_ms(59_000);
    assert_eq!(scene.queue.renew(&holder, &[leased[0].lease]).await, Ok(Vec::new()));
    scene.pass_ms(1_000);
    assert_eq!(names(&scene.claim(&other, 10).await), ["a page=1"], "only what was not renewed expired");
    let both = [leased[0].lease, leased[1].lease];
    assert_eq!(scene.queue.renew(&holder, &both).await, Ok(vec![leased[1].lease]));
}

pub(super) async fn a_retry_comes_back_after_its_delay_behind_the_others(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 2)).await;
    let first = scene.claim_one(&holder).await;
    scene.settle(&holder, &first, retry_after_ms(500)).await;
    assert_eq!(scene.ledger().await, Ledger { discovered: 2, queued: 1, delayed: 1, ..Ledger::default() });
    scene.pass_ms(500);
    let claimed = scene.claim(&holder, 10).await;
    assert_eq!(names(&claimed), ["a page=1", "a page=0"]);
    assert_eq!((claimed[0].attempt, claimed[1].attempt), (0, 1));
}

pub(super) async fn a_wait_names_the_moment_a_delay_ends(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let holder = scene.join(0).await;
    scene.push([page("a", 0)]).await;
    let first = scene.claim_one(&holder).await;
    scene.settle(&holder, &first, retry_after_ms(700)).await;
    assert_eq!(scene.until(&holder).await, scene.after_ms(700));
    scene.pass_ms(699);
    assert_eq!(scene.until(&holder).await, scene.after_ms(1));
    scene.pass_ms(1);
    scene.claim_one(&holder).await;
}

pub(super) async fn what_was_released_untried_goes_back_to_its_place(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 4)).await;
    let leased = scene.claim(&holder, 3).await;
    for leased in &leased {
        scene.settle(&holder, leased, SettleResult::Released).await;
    }
    let again = scene.claim(&holder, 10).await;
    assert_eq!(names(&again), ["a page=0", "a page=1", "a page=2", "a page=3"]);
    assert!(again.iter().all(|leased| leased.attempt == 0));
}

pub(super) async fn dead_and_dropped_tasks_stay_in_the_account_and_never_return(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 2)).await;
    let leased = scene.claim(&holder, 2).await;
    scene.settle(&holder, &leased[0], SettleResult::Dead { why: "410 Gone".into() }).await;
    scene.settle(&holder, &leased[1], SettleResult::Dropped).await;
    assert_eq!(scene.push(pages("a", 2)).await.duplicates, 2);
    assert_eq!(scene.ledger().await, Ledger { discovered: 2, dead: 1, dropped: 1, ..Ledger::default() });
    assert_eq!(scene.queue.claim(&holder, 1).await, Ok(Claim::Drained));
}

pub(super) async fn a_run_is_drained_only_when_nobody_works_any_more(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let (busy, idle) = (scene.join(0).await, scene.join(1).await);
    scene.push([page("a", 0)]).await;
    let leased = scene.claim_one(&busy).await;
    assert_eq!(scene.until(&idle).await, scene.after_ms(60_000), "the lease may expire then");
    scene.done(&busy, &[leased]).await;
    assert_eq!(scene.queue.claim(&idle, 1).await, Ok(Claim::Drained));
}

pub(super) async fn only_crawlers_of_its_group_get_a_nodes_tasks(make: MakeQueue) {
    let mut config = config(&["a", "b"]);
    config.nodes[1].group = "mtls".into();
    let scene = Scene::open(make, config).await;
    let plain = scene.join(0).await;
    let mtls = scene.try_join(1, "mtls").await.unwrap();
    scene.push([page("a", 0), page("b", 0)]).await;
    assert_eq!(names(&scene.claim(&mtls, 10).await), ["b page=0"]);
    assert_eq!(names(&scene.claim(&plain, 10).await), ["a page=0"]);
}

pub(super) async fn what_was_being_worked_on_in_a_crash_is_handed_out_alone(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 4)).await;
    scene.claim(&holder, 2).await;
    scene.queue.release_holder(&scene.run, 0, ReleaseCause::Crashed).await.unwrap();
    let holder = scene.join(0).await;
    for suspect in ["a page=0", "a page=1"] {
        let leased = scene.claim(&holder, 10).await;
        assert_eq!(names(&leased), [suspect]);
        assert_eq!(scene.until(&holder).await, scene.after_ms(60_000), "nothing beside it");
        scene.done(&holder, &leased).await;
    }
    assert_eq!(names(&scene.claim(&holder, 10).await), ["a page=2", "a page=3"]);
}

/// A retry, an eviction and a lease that lapsed say nothing of what a task does to a crawler.
pub(super) async fn a_suspect_stays_one_until_it_is_settled(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let holder = scene.join(0).await;
    scene.push([page("a", 0)]).await;
    scene.claim_one(&holder).await;
    scene.queue.release_holder(&scene.run, 0, ReleaseCause::Crashed).await.unwrap();
    scene.push([page("a", 1)]).await;
    for returned in 0..4 {
        let holder = scene.join(0).await;
        let leased = scene.claim(&holder, 10).await;
        assert_eq!(names(&leased), ["a page=0"], "after {returned} returns");
        match returned {
            0 => drop(scene.settle(&holder, &leased[0], retry_after_ms(0)).await),
            1 => drop(scene.settle(&holder, &leased[0], SettleResult::Released).await),
            2 => drop(scene.queue.release_holder(&scene.run, 0, ReleaseCause::Disrupted).await),
            _ => scene.pass_ms(60_000),
        }
    }
}

pub(super) async fn one_busy_holder_is_kept_free_for_a_suspect_and_the_others_go_on(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let holders = [scene.join(0).await, scene.join(1).await, scene.join(2).await];
    scene.push([page("a", 0)]).await;
    scene.claim_one(&holders[0]).await;
    scene.push((1..10).map(|number| page("a", number))).await;
    let [second, third] = [scene.claim_one(&holders[1]).await, scene.claim_one(&holders[2]).await];
    scene.queue.release_holder(&scene.run, 0, ReleaseCause::Crashed).await.unwrap();

    assert_eq!(scene.claim(&holders[1], 10).await, []);
    let more = scene.claim(&holders[2], 1).await;
    assert_eq!(names(&more), ["a page=3"], "only one is kept free");
    scene.done(&holders[1], &[second]).await;
    let suspect = scene.claim(&holders[1], 10).await;
    assert_eq!(names(&suspect), ["a page=0"]);
    scene.done(&holders[2], &[third]).await;
    assert_eq!(scene.claim(&holders[2], 10).await.len(), 6);
    scene.done(&holders[1], &suspect).await;
    assert_eq!(scene.queue.audit(&scene.run).await, Ok(Vec::new()));
}

pub(super) async fn a_suspect_behind_a_closed_gate_keeps_nobody_from_working(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a", "b"])).await;
    let (first, second) = (scene.join(0).await, scene.join(1).await);
    scene.push([page("a", 0)]).await;
    scene.claim_one(&first).await;
    scene.pushback(&first, &origin_of("a"), Some(30_000)).await;
    scene.queue.release_holder(&scene.run, 0, ReleaseCause::Crashed).await.unwrap();
    scene.push(pages("b", 10)).await;
    assert_eq!(scene.claim(&second, 1).await.len(), 1);
    let leased = scene.claim(&second, 20).await;
    assert_eq!(leased.len(), 9);
    let third = scene.join(0).await;
    assert_eq!(scene.until(&third).await, scene.after_ms(30_000), "when the suspect's gate opens");
    scene.pass_ms(30_000);
    assert_eq!(scene.claim(&third, 20).await.len(), 1);
}

pub(super) async fn lanes_name_what_waits_for_a_holder_of_its_own(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let (first, second) = (scene.join(0).await, scene.join(1).await);
    scene.push(pages("a", 2)).await;
    scene.claim_one(&first).await;
    scene.claim_one(&second).await;
    scene.queue.release_holder(&scene.run, 0, ReleaseCause::Crashed).await.unwrap();
    let lane = scene.queue.lanes(&scene.run, 1).await.unwrap().remove(0);
    assert_eq!((lane.queued, lane.leased, &*lane.nodes), (1, 1, &[NodeName::from("a")][..]));
    let gate = Gate::CrashSuspect { node: NodeName::from("a") };
    assert_eq!(lane.waiting, Some(Waiting { gate, until: scene.after_ms(60_000) }));
}

pub(super) async fn suspects_are_suspended_dropped_and_moved_with_their_node(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a", "b"])).await;
    let holder = scene.join(0).await;
    scene.push([page("a", 0), page("b", 0)]).await;
    scene.claim(&holder, 2).await;
    scene.queue.release_holder(&scene.run, 0, ReleaseCause::Crashed).await.unwrap();
    let holder = scene.join(0).await;
    let other = scene.try_join(1, "other").await.unwrap();
    scene.queue.suspend_node(&scene.run, &NodeName::from("a"), true).await.unwrap();
    let mut moved = config(&["a", "b"]);
    moved.nodes[0].suspended = true;
    moved.nodes[1].group = "other".into();
    scene.queue.configure(moved).await.unwrap();
    assert_eq!(scene.claim(&holder, 10).await, []);
    assert_eq!(names(&scene.claim(&other, 10).await), ["b page=0"]);
    scene.queue.configure(config(&["b"])).await.unwrap();
    let expected = Ledger { discovered: 2, leased: 1, dropped: 1, ..Ledger::default() };
    assert_eq!(scene.ledger().await, expected);
    assert_eq!(scene.queue.audit(&scene.run).await, Ok(Vec::new()));
}

/// However often crawlers crash, a run ends: with one crawler or with several.
pub(super) async fn a_run_whose_crawlers_crash_again_and_again_is_worked_off(make: MakeQueue) {
    for crawlers in [1, 3] {
        let scene = Scene::open(make, config(&["a", "b"])).await;
        scene.push(pages("a", 20)).await;
        scene.push(pages("b", 20)).await;
        let mut holders = Vec::new();
        for token in 0..crawlers {
            holders.push(scene.join(token).await);
        }
        for round in 0..400_u32 {
            for token in 0..crawlers {
                let leased = scene.claim(&holders[token as usize], 4).await;
                let is_poisoned = leased.iter().any(|leased| leased.task.cursor.as_ref() == "page=3");
                if is_poisoned || (round < 5 && !leased.is_empty()) {
                    scene.queue.release_holder(&scene.run, token, ReleaseCause::Crashed).await.unwrap();
                    holders[token as usize] = scene.join(token).await;
                } else {
                    scene.done(&holders[token as usize], &leased).await;
                }
            }
        }
        let ledger = scene.ledger().await;
        assert!(ledger.is_drained(), "{crawlers} crawlers left {ledger:?}");
        let dead = scene.queue.dead(&scene.run, 100).await.unwrap();
        let poison = dead.iter().filter(|dead| dead.task.cursor.as_ref() == "page=3").count();
        assert_eq!(poison, 2, "of each node");
    }
}
