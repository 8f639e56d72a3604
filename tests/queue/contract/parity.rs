//! Parity with the systems that came before: reservation of indexing queues and the token-bounded
//! reactor (C-01 to C-09). Where the letter differs, the test says how.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::runtime::Handle;
use trawler::queue::{
    Claim, Ledger, MAX_CLAIM_TASKS, Pushed, QueueError, ReleaseCause, Released, SettleResult, Settled,
};
use trawler::task::{ItemStatus, NodeName};

use super::scene::{
    MakeQueue, Scene, config, dataset, done, done_with, names, page, pages, retry_after_ms, settlement,
};

pub(super) async fn a_18_claims_at_once_never_overlap(make: MakeQueue) {
    let mut config = config(&["a"]);
    config.max_holders = 8;
    let scene = Arc::new(Scene::open(make, config).await);
    scene.push(pages("a", 1_000)).await;
    let claimers = (0..8).map(|token| {
        let scene = Arc::clone(&scene);
        // Each on a thread of its own, so that they really are at once.
        tokio::task::spawn_blocking(move || {
            Handle::current().block_on(async {
                let holder = scene.join(token).await;
                let mut ids = Vec::new();
                loop {
                    let leased = scene.claim(&holder, 7).await;
                    if leased.is_empty() {
                        return ids;
                    }
                    ids.extend(leased.iter().map(|leased| leased.task.id));
                    std::thread::yield_now();
                }
            })
        })
    });
    let mut ids = Vec::new();
    for claimer in claimers.collect::<Vec<_>>() {
        ids.extend(claimer.await.unwrap());
    }
    assert_eq!((ids.len(), ids.iter().collect::<HashSet<_>>().len()), (1_000, 1_000));
}

/// A claim takes no filter: status is the order, so that what is urgent comes first and nothing is left behind. A
/// claim is bounded by what the crawler can send at once, at most a thousand.
pub(super) async fn a_19_a_claim_is_bounded_and_goes_by_status(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let holder = scene.join(0).await;
    scene.push((0..1_500).map(|number| dataset("a", number, ItemStatus::NewItem))).await;
    scene.push((2_000..2_100).map(|number| dataset("a", number, ItemStatus::Error))).await;
    assert_eq!(scene.claim(&holder, 20).await.len(), 20);
    let claimed = scene.claim(&holder, 5_000).await;
    assert_eq!(claimed.len(), MAX_CLAIM_TASKS);
    assert!(claimed[..80].iter().all(|leased| leased.task.status == ItemStatus::Error));
}

/// A reservation is a lease of the length the run was given, renewed by the crawler that is alive, not of 4 h.
pub(super) async fn a_20_a_lease_lapses_and_the_task_is_handed_out_again(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let (first, second) = (scene.join(0).await, scene.join(1).await);
    scene.push([page("a", 0)]).await;
    let leased = scene.claim_one(&first).await;
    scene.pass_ms(59_999);
    assert_eq!(scene.claim(&second, 1).await.len(), 0);
    scene.pass_ms(1);
    let again = scene.claim_one(&second).await;
    assert_eq!((again.task.id, again.attempt), (leased.task.id, 1));
    assert_ne!(again.lease, leased.lease);
    assert_eq!(scene.settle(&first, &leased, done()).await, Settled::Fenced);
    assert_eq!(scene.settle(&second, &again, done()).await, Settled::Accepted(Pushed::default()));
}

pub(super) async fn a_21_success_retry_failure_release_and_lapse_each_end_a_lease(make: MakeQueue) {
    let results = [
        (done(), Ledger { done: 1, ..Ledger::default() }),
        (retry_after_ms(5), Ledger { delayed: 1, ..Ledger::default() }),
        (retry_after_ms(0), Ledger { queued: 1, ..Ledger::default() }),
        (SettleResult::Dead { why: "404".into() }, Ledger { dead: 1, ..Ledger::default() }),
        (SettleResult::Dropped, Ledger { dropped: 1, ..Ledger::default() }),
        (SettleResult::Released, Ledger { queued: 1, ..Ledger::default() }),
    ];
    for (result, expected) in results {
        let scene = Scene::open(make, config(&["a"])).await;
        let holder = scene.join(0).await;
        scene.push([page("a", 0)]).await;
        let leased = scene.claim_one(&holder).await;
        scene.settle(&holder, &leased, result).await;
        assert_eq!(scene.ledger().await, Ledger { discovered: 1, ..expected });
        assert_eq!(scene.queue.renew(&holder, &[leased.lease]).await, Ok(vec![leased.lease]));
    }
    let scene = Scene::open(make, config(&["a"])).await;
    let holder = scene.join(0).await;
    scene.push([page("a", 0)]).await;
    scene.claim_one(&holder).await;
    scene.pass_ms(60_000);
    assert_eq!(scene.ledger().await, Ledger { discovered: 1, queued: 1, ..Ledger::default() });
}

/// What `unreserve(queue)` does after a connector's restart, `release_holder` does for one holder.
pub(super) async fn a_22_releasing_a_holder_frees_all_its_leases_and_only_its(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let (gone, other) = (scene.join(0).await, scene.join(1).await);
    scene.push(pages("a", 6)).await;
    scene.claim(&gone, 3).await;
    let kept = scene.claim(&other, 3).await;
    let released = scene.queue.release_holder(&scene.run, 0, ReleaseCause::Finished).await;
    assert_eq!(released, Ok(Released { requeued: 3, dead: 0 }));
    let again = scene.queue.release_holder(&scene.run, 0, ReleaseCause::Finished).await;
    assert_eq!(again, Ok(Released::default()));
    assert_eq!(scene.ledger().await, Ledger { discovered: 6, queued: 3, leased: 3, ..Ledger::default() });
    scene.done(&other, &kept).await;
    assert_eq!(scene.ledger().await.done, 3);
}

/// An empty claim also says whether to come back, when, or never.
pub(super) async fn a_23_an_empty_claim_is_a_normal_answer(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let (holder, other) = (scene.join(0).await, scene.join(1).await);
    assert_eq!(scene.queue.claim(&holder, 10).await, Ok(Claim::Drained));
    scene.push([page("a", 0)]).await;
    scene.claim_one(&holder).await;
    assert!(matches!(scene.queue.claim(&other, 10).await, Ok(Claim::Wait { .. })));
}

/// Tokens bound crawlers, and caps bound the requests of them all; pushing waits for neither.
pub(super) async fn c_01_what_is_in_process_is_bounded(make: MakeQueue) {
    let mut config = config(&["a"]);
    config.max_holders = 2;
    config.budgets[0].max_concurrent = Some(5);
    let scene = Scene::open(make, config).await;
    let (first, second) = (scene.join(0).await, scene.join(1).await);
    assert!(matches!(scene.try_join(2, "default").await, Err(QueueError::NoPlaceFree { max: 2, .. })));
    assert_eq!(scene.push(pages("a", 100)).await.new, 100);
    let claimed = scene.claim(&first, 3).await;
    assert_eq!((claimed.len(), scene.claim(&second, 10).await.len()), (3, 2));
    assert_eq!(scene.claim(&first, 10).await.len(), 0);
    scene.done(&first, &claimed[..2]).await;
    assert_eq!((scene.claim(&second, 10).await.len(), scene.ledger().await.leased), (2, 5));
}

pub(super) async fn c_02_feedback_enters_with_its_lease_and_takes_no_token(make: MakeQueue) {
    let mut config = config(&["a"]);
    config.max_holders = 1;
    let scene = Scene::open(make, config).await;
    let holder = scene.join(0).await;
    scene.push([page("a", 0)]).await;
    let leased = scene.claim_one(&holder).await;
    let settled = scene.settle(&holder, &leased, done_with(vec![page("a", 0), page("a", 1), page("a", 1)])).await;
    assert_eq!(settled, Settled::Accepted(Pushed { new: 1, duplicates: 2 }), "a page that links to itself ends there");
    let leased = scene.claim(&holder, 10).await;
    assert_eq!(names(&leased), ["a page=1"]);
    // With every place taken, and frozen: what is tracked may still bring what it found, and a stranger may not.
    scene.queue.freeze(&scene.run).await.unwrap();
    let settled = scene.settle(&holder, &leased[0], done_with(vec![page("a", 2)])).await;
    assert_eq!(settled, Settled::Accepted(Pushed { new: 1, duplicates: 0 }));
    assert_eq!(scene.settle(&holder, &leased[0], done_with(vec![page("a", 3)])).await, Settled::Fenced);
    assert_eq!(scene.ledger().await, Ledger { discovered: 3, done: 2, queued: 1, ..Ledger::default() });
}

pub(super) async fn c_03_a_token_is_freed_once_and_finishing_the_unknown_frees_nothing(make: MakeQueue) {
    let mut config = config(&["a"]);
    config.max_holders = 1;
    config.budgets[0].max_concurrent = Some(1);
    let scene = Scene::open(make, config).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 5)).await;
    let leased = scene.claim_one(&holder).await;
    assert_eq!(scene.settle(&holder, &leased, done()).await, Settled::Accepted(Pushed::default()));
    assert_eq!(scene.settle(&holder, &leased, done()).await, Settled::Fenced);
    let next = scene.claim(&holder, 10).await;
    assert_eq!(next.len(), 1, "one was finished, so one place is free");
    assert_eq!(scene.settle(&holder, &leased, done()).await, Settled::Fenced);
    assert_eq!(scene.claim(&holder, 10).await.len(), 0, "finishing it again frees none");
    scene.queue.release_holder(&scene.run, 7, ReleaseCause::Finished).await.unwrap();
    assert!(matches!(scene.try_join(1, "default").await, Err(QueueError::NoPlaceFree { .. })));
    scene.queue.release_holder(&scene.run, 0, ReleaseCause::Finished).await.unwrap();
    scene.queue.release_holder(&scene.run, 0, ReleaseCause::Finished).await.unwrap();
    scene.join(1).await;
    assert!(matches!(scene.try_join(2, "default").await, Err(QueueError::NoPlaceFree { .. })));
}

/// A duplicate is counted, not refused: a batch with one is no fault of the rest.
pub(super) async fn c_04_a_duplicate_or_a_stranger_costs_nothing(make: MakeQueue) {
    let mut config = config(&["a"]);
    config.budgets[0].max_concurrent = Some(1);
    let scene = Scene::open(make, config).await;
    let holder = scene.join(0).await;
    let expected = Pushed { new: 1, duplicates: 1 };
    assert_eq!(scene.push([page("a", 0), page("a", 0)]).await, expected);
    let stranger = scene.queue.push(&scene.run, vec![page("stranger", 0)]).await;
    assert!(matches!(stranger, Err(QueueError::NoSuchNode { .. })));
    let leased = scene.claim_one(&holder).await;
    assert_eq!(scene.push([page("a", 0)]).await.duplicates, 1, "leased");
    scene.settle(&holder, &leased, retry_after_ms(10)).await;
    assert_eq!(scene.push([page("a", 0)]).await.duplicates, 1, "delayed");
    scene.pass_ms(10);
    let leased = scene.claim_one(&holder).await;
    scene.done(&holder, &[leased]).await;
    assert_eq!(scene.push([page("a", 0)]).await.duplicates, 1, "done");
    assert_eq!(scene.ledger().await, Ledger { discovered: 1, done: 1, ..Ledger::default() });
    scene.push([page("a", 1)]).await;
    assert_eq!(scene.claim(&holder, 10).await.len(), 1, "the one place is still there");
}

pub(super) async fn c_05_feedback_of_the_unknown_is_refused_and_leaves_no_trace(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 2)).await;
    let leased = scene.claim(&holder, 2).await;
    let before = scene.ledger().await;

    let mut forged = leased[0].lease;
    forged.lease ^= 1 << 40;
    let from_nowhere = vec![settlement(forged, done_with(vec![page("a", 8)]))];
    assert_eq!(scene.queue.settle(&holder, from_nowhere).await, Ok(vec![Settled::Fenced]));

    let good = settlement(leased[0].lease, done_with(vec![page("a", 8)]));
    let bad = settlement(leased[1].lease, done_with(vec![page("stranger", 0)]));
    let refused = scene.queue.settle(&holder, vec![good, bad]).await;
    let node = NodeName::from("stranger");
    assert_eq!(refused, Err(QueueError::NoSuchNode { run: scene.run.clone(), node }));
    assert_eq!(scene.ledger().await, before, "all of a settlement or nothing");
    assert_eq!(scene.push([page("a", 8)]).await.new, 1);
}

pub(super) async fn c_06_freeze_refuses_every_push_from_that_instant_and_can_be_lifted(make: MakeQueue) {
    let scene = Arc::new(Scene::open(make, config(&["a", "b"])).await);
    let holder = scene.join(0).await;
    scene.push(pages("b", 1)).await;
    let in_flight = scene.claim_one(&holder).await;
    let pushers: Vec<_> = (0..4_u32)
        .map(|pusher| {
            let scene = Arc::clone(&scene);
            tokio::spawn(async move {
                let mut accepted_after_refusal = false;
                let mut refused = false;
                for number in 0..100 {
                    let pushed = scene.queue.push(&scene.run, vec![page("a", pusher * 1_000 + number)]).await;
                    accepted_after_refusal |= refused && pushed.is_ok();
                    refused |= pushed.is_err();
                    tokio::task::yield_now().await;
                }
                accepted_after_refusal
            })
        })
        .collect();
    tokio::task::yield_now().await;
    scene.queue.freeze(&scene.run).await.unwrap();
    let frozen_at = scene.ledger().await;
    for pusher in pushers {
        assert!(!pusher.await.unwrap());
    }
    assert_eq!(scene.ledger().await, frozen_at);
    assert_eq!(scene.queue.claim(&holder, 1).await, Ok(Claim::Frozen));
    scene.settle(&holder, &in_flight, done_with(vec![page("b", 1)])).await;
    let Ledger { discovered, queued, .. } = frozen_at;
    let finished = Ledger { discovered: discovered + 1, queued: queued + 1, done: 1, ..Ledger::default() };
    assert_eq!(scene.ledger().await, finished, "what was in flight ends as ever");
    scene.queue.thaw(&scene.run).await.unwrap();
    assert_eq!(scene.push([page("a", 99_999)]).await.new, 1);
}

/// Stopping is every holder being released: all that was accepted is handed out to those that come after.
pub(super) async fn c_07_stop_loses_nothing_that_was_accepted(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    scene.push(pages("a", 100)).await;
    for token in 0..4 {
        let holder = scene.join(token).await;
        let leased = scene.claim(&holder, 13).await;
        scene.settle(&holder, &leased[0], done_with(vec![page("a", 1_000 + token)])).await;
        scene.settle(&holder, &leased[1], retry_after_ms(500)).await;
        scene.settle(&holder, &leased[2], SettleResult::Released).await;
    }
    for token in 0..4 {
        scene.queue.release_holder(&scene.run, token, ReleaseCause::Disrupted).await.unwrap();
    }
    let left = Ledger { discovered: 104, queued: 96, delayed: 4, done: 4, ..Ledger::default() };
    assert_eq!(scene.ledger().await, left);
    scene.pass_ms(500);
    let holder = scene.join(0).await;
    let leased = scene.claim(&holder, 1_000).await;
    let claimed: HashSet<_> = leased.iter().map(|leased| leased.task.id).collect();
    assert_eq!((leased.len(), claimed.len()), (100, 100), "all but the four that were done");
    scene.done(&holder, &leased).await;
    assert_eq!(scene.ledger().await, Ledger { discovered: 104, done: 104, ..Ledger::default() });
}

/// What is tracked is the ledger's account and the lanes' listing; they agree at any time.
pub(super) async fn c_08_what_is_tracked_can_be_listed_at_any_time(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a", "b"])).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 20)).await;
    scene.push(pages("b", 20)).await;
    for step in 0..30 {
        let leased = scene.claim_one(&holder).await;
        match step % 3 {
            0 => scene.done(&holder, &[leased]).await,
            1 => drop(scene.settle(&holder, &leased, retry_after_ms(10)).await),
            _ => {}
        }
        let ledger = scene.ledger().await;
        let lanes = scene.queue.lanes(&scene.run, 100).await.unwrap();
        let queued: u64 = lanes.iter().map(|lane| lane.queued).sum();
        let leased: u64 = lanes.iter().map(|lane| lane.leased).sum();
        assert_eq!((queued, leased), (ledger.queued + ledger.delayed, ledger.leased));
    }
}
