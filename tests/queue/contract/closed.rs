//! Origins that were to be left alone before a run was opened.

use std::time::Duration;

use jiff::Timestamp;
use trawler::queue::{ClosedOrigin, Gate, Pushback, PushbackKind, RunConfig, Waiting};
use trawler::task::OriginKey;

use super::scene::{MakeQueue, Scene, config, names, origin_of, page, pages};

fn closed(node: &str, until: Timestamp) -> ClosedOrigin {
    ClosedOrigin { origin: origin_of(node), until }
}

/// The gate that each origin waits for.
async fn waiting(scene: &Scene) -> Vec<(OriginKey, Option<Waiting>)> {
    let lanes = scene.queue.lanes(&scene.run, 10).await.unwrap();
    let mut waiting: Vec<_> = lanes.into_iter().map(|lane| (lane.origin, lane.waiting)).collect();
    waiting.sort_by(|(a, _), (b, _)| a.cmp(b));
    waiting
}

pub(super) async fn an_origin_that_is_closed_from_the_start_hands_out_nothing_until_then(make: MakeQueue) {
    let scene = Scene::new(make);
    let day = scene.after_ms(86_400_000);
    let closed_origins =
        vec![closed("a", scene.after_ms(7_000)), closed("b", day), closed("c", scene.now() - Duration::from_secs(1))];
    let config = RunConfig { closed_origins, lease: Duration::from_hours(1), ..config(&["a", "b", "c"]) };
    scene.queue.open(config.clone()).await.unwrap();
    let holder = scene.join(0).await;
    scene.push(["a", "b", "c"].map(|name| page(name, 0))).await;
    assert_eq!(names(&scene.claim(&holder, 10).await), ["c page=0"], "what has passed closes nothing");
    let backs_off = |node: &str, until| {
        let origin = origin_of(node);
        (origin.clone(), Some(Waiting { gate: Gate::OriginBackOff { origin }, until }))
    };
    let longest = scene.after_ms(60_000);
    let expected = [backs_off("a", scene.after_ms(7_000)), backs_off("b", longest), (origin_of("c"), None)];
    assert_eq!(waiting(&scene).await, expected, "no origin is closed for longer than its protection allows");
    assert_eq!(scene.until(&holder).await, scene.after_ms(7_000));
    scene.pass_ms(7_000);
    assert_eq!(names(&scene.claim(&holder, 10).await), ["a page=0"]);
    scene.pass_until(longest);
    scene.queue.configure(config).await.unwrap();
    assert_eq!(names(&scene.claim(&holder, 10).await), ["b page=0"], "a later configuration closes nothing again");
}

pub(super) async fn an_origin_is_left_alone_until_the_latest_moment_that_is_known(make: MakeQueue) {
    let first = Scene::open(make, config(&["a"])).await;
    let holder = first.join(0).await;
    first.push(pages("a", 2)).await;
    first.pushback(&holder, &origin_of("a"), Some(15_000)).await;
    for (run, ms, expected_ms) in [("run-2", 5_000, 15_000), ("run-3", 20_000, 20_000)] {
        let closed_origins = vec![closed("a", first.after_ms(ms))];
        let other = first.open_also(run, RunConfig { closed_origins, ..config(&["a"]) }).await;
        other.push(pages("a", 1)).await;
        for scene in [&first, &other] {
            let until = waiting(scene).await.remove(0).1.map(|waiting| waiting.until);
            assert_eq!(until, Some(first.after_ms(expected_ms)), "{run}");
        }
    }
    first.pass_ms(15_000);
    assert_eq!(first.until(&holder).await, first.after_ms(5_000));
    first.pass_ms(5_000);
    assert_eq!(first.claim(&holder, 10).await.len(), 2);
}

pub(super) async fn a_pushback_tells_until_when_the_origin_is_left_alone(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 3)).await;
    assert_eq!(scene.claim(&holder, 2).await.len(), 2);
    let push_back = async |seconds: Option<u64>| {
        let pushback = Pushback { kind: PushbackKind::Unavailable, retry_after: seconds.map(Duration::from_secs) };
        scene.queue.pushback(&holder, &origin_of("a"), pushback).await
    };
    assert_eq!(push_back(None).await, Ok(Some(scene.after_ms(1_000))));
    assert_eq!(push_back(Some(7)).await, Ok(Some(scene.after_ms(7_000))));
    assert_eq!(push_back(Some(3)).await, Ok(Some(scene.after_ms(7_000))), "it stays closed for longer");
    assert_eq!(push_back(Some(86_400)).await, Ok(Some(scene.after_ms(60_000))), "as the queue has capped it");
    scene.pass_ms(60_000);
    assert_eq!(push_back(None).await, Ok(None), "the answer to a request from before says nothing new");
}
