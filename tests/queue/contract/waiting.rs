//! Waiting without polling.

use std::time::Duration;

use trawler::queue::{Claim, Holder, QueueError, Woken};

use super::scene::{MakeQueue, Scene, config, done, limit, limited, page, pages};
use trawler::queue::Unit;

/// The longest that a wait which must end may take before the test gives up.
const PATIENCE: Duration = Duration::from_secs(10);

async fn sequence(scene: &Scene, holder: &Holder) -> u64 {
    match scene.queue.claim(holder, 1).await.unwrap() {
        Claim::Wait { sequence, .. } => sequence,
        other => panic!("expected to wait, got {other:?}"),
    }
}

/// Starts to wait, lets it settle down, does something, and expects the wait to end.
async fn ends_a_wait<T>(scene: &Scene, holder: &Holder, change: impl Future<Output = T>) {
    let seen = sequence(scene, holder).await;
    let until = scene.after_ms(3_600_000);
    let wait = scene.queue.wait(&scene.run, seen, until);
    let (waited, _) = tokio::join!(tokio::time::timeout(PATIENCE, wait), change);
    assert_eq!(waited, Ok(Ok(Woken::Changed)));
}

pub(super) async fn what_makes_work_claimable_ends_a_wait(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let (busy, idle) = (scene.join(0).await, scene.join(1).await);
    scene.push(pages("a", 2)).await;
    let leased = scene.claim(&busy, 2).await;
    ends_a_wait(&scene, &idle, scene.push([page("a", 7)])).await;
    let more = scene.claim(&idle, 10).await;
    assert_eq!(more.len(), 1);
    scene.done(&idle, &more).await;
    ends_a_wait(&scene, &idle, scene.settle(&busy, &leased[0], done())).await;
    ends_a_wait(&scene, &idle, scene.settle(&busy, &leased[1], done())).await;
    assert_eq!(scene.queue.claim(&idle, 1).await, Ok(Claim::Drained));
}

pub(super) async fn a_change_between_claim_and_wait_is_not_missed(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let (busy, idle) = (scene.join(0).await, scene.join(1).await);
    scene.push(pages("a", 1)).await;
    scene.claim(&busy, 1).await;
    let seen = sequence(&scene, &idle).await;
    scene.push([page("a", 7)]).await;
    let wait = scene.queue.wait(&scene.run, seen, scene.after_ms(3_600_000));
    assert_eq!(tokio::time::timeout(PATIENCE, wait).await, Ok(Ok(Woken::Changed)));
    let past = scene.queue.wait(&scene.run, seen, scene.now()).await;
    assert_eq!(past, Ok(Woken::Changed), "whether anything changed can be asked at any time");
}

pub(super) async fn a_wait_ends_at_its_moment(make: MakeQueue) {
    let scene = Scene::open(make, limited(&["a"], &[limit(Unit::ApiCalls, 1, 1_000)])).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 2)).await;
    scene.claim_one(&holder).await;
    let seen = sequence(&scene, &holder).await;
    let wait = scene.queue.wait(&scene.run, seen, scene.after_ms(5));
    assert_eq!(tokio::time::timeout(PATIENCE, wait).await, Ok(Ok(Woken::Moment)));
    let past = scene.queue.wait(&scene.run, seen, scene.now() - Duration::from_secs(9));
    assert_eq!(tokio::time::timeout(PATIENCE, past).await, Ok(Ok(Woken::Moment)));
}

pub(super) async fn closing_the_run_ends_a_wait(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 1)).await;
    scene.claim_one(&holder).await;
    let seen = sequence(&scene, &holder).await;
    let wait = scene.queue.wait(&scene.run, seen, scene.after_ms(3_600_000));
    let (waited, closed) = tokio::join!(tokio::time::timeout(PATIENCE, wait), scene.queue.close(&scene.run));
    assert_eq!((waited, closed), (Ok(Err(QueueError::NoSuchRun { run: scene.run.clone() })), Ok(())));
}
