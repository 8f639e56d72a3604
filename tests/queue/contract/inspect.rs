//! What people look at and put right: runs, holders, single tasks, the dead.

use std::sync::Arc;
use std::time::Duration;

use trawler::queue::{
    Claim, DeadTask, Gate, Holder, HolderStatus, Leased, Ledger, NodeConfig, Pushed, QueueError, QueuedTask,
    ReleaseCause, RunConfig, RunStatus, SettleResult, TaskFailure, TaskState, Woken,
};
use trawler::task::{ItemStatus, NodeName, RunId, Task, TaskId};

use super::scene::{
    MakeQueue, Scene, config, dataset, done, names, node, origin_of, page, page_at, pages, retry_after_ms, settlement,
};

/// The longest that a wait which must end may take before the test gives up.
const PATIENCE: Duration = Duration::from_secs(10);

fn dies(why: &str) -> SettleResult {
    SettleResult::Dead { why: why.into() }
}

/// A look at everything, which must come node by node; inside a node put in order for comparing.
async fn peek(scene: &Scene) -> Vec<QueuedTask> {
    let mut tasks = scene.queue.peek(&scene.run, 1_000).await.unwrap();
    let mut nodes: Vec<NodeName> = tasks.iter().map(|peeked| peeked.task.section.node.clone()).collect();
    nodes.dedup();
    let rows = nodes.len();
    nodes.sort_unstable();
    nodes.dedup();
    assert_eq!(nodes.len(), rows, "a node's tasks stand together: {tasks:?}");
    tasks.sort_by_key(|peeked| (peeked.task.section.node.clone(), peeked.task.cursor.clone()));
    tasks
}

fn untried(task: Task) -> QueuedTask {
    QueuedTask { task, state: TaskState::Queued, attempts: 0, charges: 0 }
}

fn ids(tasks: &[Task]) -> Vec<TaskId> {
    tasks.iter().map(|task| task.id).collect()
}

/// Hands out tasks until none is eligible, and lets each die of this.
async fn kill_all(scene: &Scene, holder: &Holder, why: &str) {
    for leased in scene.claim(holder, 100).await {
        scene.settle(holder, &leased, dies(why)).await;
    }
}

async fn audited(scene: &Scene) {
    assert_eq!(scene.queue.audit(&scene.run).await, Ok(Vec::new()));
    scene.ledger().await;
}

pub(super) async fn runs_are_listed_in_the_order_of_their_ids_with_their_accounts(make: MakeQueue) {
    let first = Scene::new(make);
    assert_eq!(first.queue.runs().await, Ok(Vec::new()));
    let second = first.open_also("run-2", RunConfig { weight: 7, max_holders: 9, ..config(&["a"]) }).await;
    first.queue.open(config(&["a"])).await.unwrap();
    first.push(pages("a", 3)).await;
    let holder = first.join(3).await;
    let leased = first.claim(&holder, 2).await;
    first.settle(&holder, &leased[0], done()).await;
    second.queue.freeze(&second.run).await.unwrap();

    let ledger = Ledger { discovered: 3, queued: 1, leased: 1, done: 1, ..Ledger::default() };
    let busy = RunStatus { run: RunId::from("run-1"), frozen: false, weight: 1, holders: 1, max_holders: 4, ledger };
    let frozen = RunStatus {
        run: RunId::from("run-2"),
        frozen: true,
        weight: 7,
        holders: 0,
        max_holders: 9,
        ledger: Ledger::default(),
    };
    assert_eq!(first.queue.runs().await, Ok(vec![busy, frozen.clone()]));
    first.queue.close(&first.run).await.unwrap();
    second.queue.thaw(&second.run).await.unwrap();
    assert_eq!(first.queue.runs().await, Ok(vec![RunStatus { frozen: false, ..frozen }]));
}

pub(super) async fn a_run_that_is_configured_anew_is_listed_so(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    scene.queue.configure(RunConfig { weight: 2, max_holders: 11, ..config(&["a"]) }).await.unwrap();
    let expected = RunStatus {
        run: scene.run.clone(),
        frozen: false,
        weight: 2,
        holders: 0,
        max_holders: 11,
        ledger: Ledger::default(),
    };
    assert_eq!(scene.queue.runs().await, Ok(vec![expected]));
}

pub(super) async fn holders_are_listed_by_token_with_what_they_work_on_and_when_it_lapses(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    assert_eq!(scene.queue.holders(&scene.run).await, Ok(Vec::new()));
    scene.push(pages("a", 5)).await;
    let idle = scene.try_join(2, "mtls").await.unwrap();
    let busy = scene.join(0).await;
    let first = scene.claim_one(&busy).await;
    scene.pass_ms(1_000);
    scene.claim(&busy, 2).await;
    let status = |token: u32, group: &str| HolderStatus {
        token,
        uid: format!("job-{token}"),
        group: group.to_owned(),
        leased: 0,
        is_alone: false,
        next_lapse: None,
    };
    let working = |leased, ms| HolderStatus { leased, next_lapse: Some(scene.after_ms(ms)), ..status(0, "default") };
    let looked = async || scene.queue.holders(&scene.run).await.unwrap();
    assert_eq!(looked().await, [working(3, 59_000), status(2, "mtls")]);

    scene.queue.renew(&busy, &[first.lease]).await.unwrap();
    assert_eq!(looked().await, [working(3, 60_000), status(2, "mtls")]);
    scene.settle(&busy, &first, done()).await;
    assert_eq!(looked().await, [working(2, 60_000), status(2, "mtls")]);
    scene.pass_ms(60_000);
    assert_eq!(looked().await, [status(0, "default"), status(2, "mtls")], "both leases have lapsed");
    scene.queue.release_holder(&scene.run, idle.token, ReleaseCause::Finished).await.unwrap();
    assert_eq!(looked().await, [status(0, "default")]);
}

pub(super) async fn a_holder_that_works_on_a_suspect_is_listed_as_alone(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let holder = scene.join(0).await;
    scene.push([page("a", 0)]).await;
    scene.claim_one(&holder).await;
    scene.queue.release_holder(&scene.run, 0, ReleaseCause::Crashed).await.unwrap();
    let holder = scene.join(0).await;
    let suspect = scene.claim_one(&holder).await;
    let status = HolderStatus {
        token: 0,
        uid: "job-0".to_owned(),
        group: "default".to_owned(),
        leased: 1,
        is_alone: true,
        next_lapse: Some(scene.after_ms(60_000)),
    };
    assert_eq!(scene.queue.holders(&scene.run).await, Ok(vec![status.clone()]));
    scene.settle(&holder, &suspect, done()).await;
    let free = HolderStatus { leased: 0, is_alone: false, next_lapse: None, ..status };
    assert_eq!(scene.queue.holders(&scene.run).await, Ok(vec![free]));
}

pub(super) async fn a_peek_shows_where_each_task_stands(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a", "b"])).await;
    let (first, second) = (scene.join(0).await, scene.join(3).await);
    scene.push(pages("a", 5)).await;
    let leased = scene.claim(&first, 4).await;
    scene.settle(&first, &leased[0], retry_after_ms(5_000)).await;
    scene.settle(&first, &leased[1], done()).await;
    scene.settle(&first, &leased[3], dies("410 Gone")).await;
    scene.push([page("b", 0)]).await;
    scene.pass_ms(1_000);
    scene.queue.suspend_node(&scene.run, &NodeName::from("b"), true).await.unwrap();
    let others = scene.claim(&second, 1).await;

    let tried = |number, state| QueuedTask { state, attempts: 1, ..untried(page("a", number)) };
    let delayed = tried(0, TaskState::Delayed { until: scene.after_ms(4_000) });
    let of_first = tried(2, TaskState::Leased { token: 0, lapses: scene.after_ms(59_000) });
    let of_second = tried(4, TaskState::Leased { token: 3, lapses: scene.after_ms(60_000) });
    let expected = [delayed, of_first, of_second, untried(page("b", 0))];
    assert_eq!(peek(&scene).await, expected);

    scene.queue.freeze(&scene.run).await.unwrap();
    assert_eq!(peek(&scene).await, expected, "frozen or not");
    scene.queue.renew(&second, &[others[0].lease]).await.unwrap();
    assert_eq!(peek(&scene).await, expected);
}

pub(super) async fn a_peek_is_of_the_present_moment(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 2)).await;
    let leased = scene.claim(&holder, 2).await;
    scene.settle(&holder, &leased[0], retry_after_ms(60_000)).await;
    scene.pass_ms(60_000);
    let tried = |number| QueuedTask { attempts: 1, ..untried(page("a", number)) };
    assert_eq!(peek(&scene).await, [tried(0), tried(1)], "the delay has ended, the lease has lapsed");
}

pub(super) async fn a_peek_tells_what_was_in_a_crash(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    scene.push(pages("a", 2)).await;
    for _ in 0..2 {
        let holder = scene.join(0).await;
        scene.claim_one(&holder).await;
        scene.queue.release_holder(&scene.run, 0, ReleaseCause::Crashed).await.unwrap();
    }
    let crashed = QueuedTask { attempts: 2, charges: 2, ..untried(page("a", 0)) };
    assert_eq!(peek(&scene).await, [crashed, untried(page("a", 1))]);
}

pub(super) async fn a_peek_shows_no_more_than_was_asked_for(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    scene.push(pages("a", 5)).await;
    assert_eq!(scene.queue.peek(&scene.run, 3).await.unwrap().len(), 3);
    assert_eq!(scene.queue.peek(&scene.run, 0).await, Ok(Vec::new()));
    assert_eq!(scene.queue.peek(&scene.run, usize::MAX).await.unwrap().len(), 5);
}

pub(super) async fn dead_tasks_that_are_put_back_begin_anew_behind_the_others(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let holder = scene.join(0).await;
    scene.push([page("a", 0)]).await;
    let leased = scene.claim_one(&holder).await;
    scene.settle(&holder, &leased, retry_after_ms(0)).await;
    scene.claim_one(&holder).await;
    scene.queue.release_holder(&scene.run, 0, ReleaseCause::Crashed).await.unwrap();
    let holder = scene.join(0).await;
    kill_all(&scene, &holder, "410 Gone").await;
    scene.push([page("a", 1), page("a", 2)]).await;

    assert_eq!(scene.queue.retry_dead(&scene.run, None).await, Ok(1));
    assert_eq!(scene.ledger().await, Ledger { discovered: 3, queued: 3, ..Ledger::default() });
    assert_eq!(scene.queue.dead(&scene.run, 10).await, Ok(Vec::new()));
    assert_eq!(peek(&scene).await, [0, 1, 2].map(|number| untried(page("a", number))));
    let claimed = scene.claim(&holder, 10).await;
    assert_eq!(names(&claimed), ["a page=1", "a page=2", "a page=0"], "it is no suspect any more");
    assert_eq!(claimed[2].attempt, 0);

    scene.settle(&holder, &claimed[2], dies("it died again")).await;
    let history = vec![TaskFailure { at: scene.now(), why: "it died again".into() }];
    let again = DeadTask { task: page("a", 0), attempts: 1, charges: 0, history };
    assert_eq!(scene.queue.dead(&scene.run, 10).await, Ok(vec![again]));
    assert_eq!(scene.queue.retry_dead(&scene.run, None).await, Ok(1), "as often as people like");
    audited(&scene).await;
}

pub(super) async fn a_dead_task_that_is_put_back_keeps_its_status(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let holder = scene.join(0).await;
    let urgent = dataset("a", 0, ItemStatus::Error);
    scene.push([urgent]).await;
    kill_all(&scene, &holder, "410 Gone").await;
    scene.push([dataset("a", 1, ItemStatus::Error), dataset("a", 2, ItemStatus::Modified)]).await;
    assert_eq!(scene.queue.retry_dead(&scene.run, None).await, Ok(1));
    assert_eq!(names(&scene.claim(&holder, 10).await), ["a dataset=1", "a dataset=0", "a dataset=2"]);
}

pub(super) async fn only_the_dead_that_are_named_are_put_back(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 3)).await;
    kill_all(&scene, &holder, "410 Gone").await;
    scene.push([page("a", 3), page("a", 4)]).await;
    let leased = scene.claim_one(&holder).await;
    let named = ids(&[page("a", 1), page("a", 1), page("a", 4), leased.task.clone(), page("a", 99)]);

    assert_eq!(scene.queue.retry_dead(&scene.run, Some(&named)).await, Ok(1));
    assert_eq!(scene.queue.retry_dead(&scene.run, Some(&named)).await, Ok(0), "it lives already");
    assert_eq!(scene.queue.retry_dead(&scene.run, Some(&[])).await, Ok(0), "nobody is named");
    let expected = Ledger { discovered: 5, queued: 2, leased: 1, dead: 2, ..Ledger::default() };
    assert_eq!(scene.ledger().await, expected);
    let dead = scene.queue.dead(&scene.run, 10).await.unwrap();
    assert_eq!(dead.into_iter().map(|dead| dead.task).collect::<Vec<_>>(), [page("a", 0), page("a", 2)]);
    assert_eq!(names(&scene.claim(&holder, 10).await), ["a page=4", "a page=1"]);
    audited(&scene).await;
}

pub(super) async fn the_dead_of_a_removed_node_are_dropped_when_they_are_put_back(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a", "b"])).await;
    let holder = scene.join(0).await;
    scene.push([page("a", 0), page("a", 1), page("b", 0)]).await;
    kill_all(&scene, &holder, "410 Gone").await;
    scene.queue.configure(config(&["b"])).await.unwrap();
    let named = ids(&[page("a", 0)]);
    assert_eq!(scene.queue.retry_dead(&scene.run, Some(&named)).await, Ok(0));
    assert_eq!(scene.ledger().await, Ledger { discovered: 3, dead: 2, dropped: 1, ..Ledger::default() });
    assert_eq!(scene.queue.retry_dead(&scene.run, None).await, Ok(1));
    assert_eq!(scene.ledger().await, Ledger { discovered: 3, queued: 1, dropped: 2, ..Ledger::default() });
    assert_eq!(scene.queue.dead(&scene.run, 10).await, Ok(Vec::new()));
    assert_eq!(names(&scene.claim(&holder, 10).await), ["b page=0"]);
    audited(&scene).await;
}

/// A node that is back with another budget, group and all takes its dead with it.
pub(super) async fn the_dead_of_a_node_that_moved_are_put_back_where_it_is_now(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let holder = scene.join(0).await;
    let other = scene.try_join(1, "other").await.unwrap();
    scene.push([page("a", 0)]).await;
    kill_all(&scene, &holder, "410 Gone").await;
    scene.queue.configure(config(&["b"])).await.unwrap();
    let nodes = vec![NodeConfig { group: "other".into(), ..node("a", "open") }];
    scene.queue.configure(RunConfig { nodes, ..config(&[]) }).await.unwrap();
    assert_eq!(scene.queue.retry_dead(&scene.run, None).await, Ok(1));
    assert_eq!(scene.claim(&holder, 10).await, []);
    assert_eq!(names(&scene.claim(&other, 10).await), ["a page=0"]);
}

pub(super) async fn what_is_put_back_waits_while_its_run_is_frozen_or_its_node_suspended(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let holder = scene.join(0).await;
    scene.push([page("a", 0)]).await;
    kill_all(&scene, &holder, "410 Gone").await;
    scene.queue.suspend_node(&scene.run, &NodeName::from("a"), true).await.unwrap();
    scene.queue.freeze(&scene.run).await.unwrap();
    assert_eq!(scene.queue.retry_dead(&scene.run, None).await, Ok(1), "a person may");
    assert_eq!(scene.ledger().await, Ledger { discovered: 1, queued: 1, ..Ledger::default() });
    assert_eq!(scene.queue.claim(&holder, 10).await, Ok(Claim::Frozen));
    scene.queue.thaw(&scene.run).await.unwrap();
    assert_eq!(scene.claim(&holder, 10).await, []);
    let lane = scene.queue.lanes(&scene.run, 10).await.unwrap().remove(0);
    assert_eq!(lane.waiting.map(|waiting| waiting.gate), Some(Gate::NodeSuspended { node: NodeName::from("a") }));
    scene.queue.suspend_node(&scene.run, &NodeName::from("a"), false).await.unwrap();
    assert_eq!(names(&scene.claim(&holder, 10).await), ["a page=0"]);
}

/// Starts to wait, lets it settle down, does something, and expects the wait to end.
async fn ends_a_wait<T>(scene: &Scene, holder: &Holder, change: impl Future<Output = T>) -> T {
    let Claim::Wait { sequence, .. } = scene.queue.claim(holder, 1).await.unwrap() else { panic!("expected to wait") };
    let wait = scene.queue.wait(&scene.run, sequence, scene.after_ms(3_600_000));
    let (waited, changed) = tokio::join!(tokio::time::timeout(PATIENCE, wait), change);
    assert_eq!(waited, Ok(Ok(Woken::Changed)));
    changed
}

pub(super) async fn what_people_put_right_ends_a_wait(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 2)).await;
    let leased = scene.claim(&holder, 2).await;
    scene.settle(&holder, &leased[0], dies("410 Gone")).await;
    scene.settle(&holder, &leased[1], retry_after_ms(30_000)).await;
    assert_eq!(ends_a_wait(&scene, &holder, scene.queue.retry_dead(&scene.run, None)).await, Ok(1));
    let again = scene.claim(&holder, 10).await;
    assert_eq!(names(&again), ["a page=0"]);
    scene.done(&holder, &again).await;
    let delayed = [leased[1].task.id];
    assert_eq!(ends_a_wait(&scene, &holder, scene.queue.drop_tasks(&scene.run, &delayed)).await, Ok(1));
    assert_eq!(scene.queue.claim(&holder, 1).await, Ok(Claim::Drained));
}

/// A page in each state, by its number: 0 queued, 1 delayed, 2 leased, 3 done, 4 dead, 5 queued.
async fn in_every_state(make: MakeQueue) -> (Scene, Holder, Leased) {
    let scene = Scene::open(make, config(&["a"])).await;
    let holder = scene.join(0).await;
    scene.push((1..5).map(|number| page("a", number))).await;
    let mut leased = scene.claim(&holder, 4).await;
    scene.settle(&holder, &leased[0], retry_after_ms(5_000)).await;
    scene.settle(&holder, &leased[2], done()).await;
    scene.settle(&holder, &leased[3], dies("410 Gone")).await;
    scene.push([page("a", 0), page("a", 5)]).await;
    (scene, holder, leased.swap_remove(1))
}

pub(super) async fn tasks_that_are_queued_or_delayed_can_be_dropped_and_no_others(make: MakeQueue) {
    let (scene, holder, leased) = in_every_state(make).await;
    let named = ids(&[page("a", 0), page("a", 1), page("a", 2), page("a", 3), page("a", 4), page("a", 99)]);
    assert_eq!(scene.queue.drop_tasks(&scene.run, &[]).await, Ok(0));
    assert_eq!(scene.queue.drop_tasks(&scene.run, &named).await, Ok(2));
    let mut expected = Ledger { discovered: 6, queued: 1, leased: 1, done: 1, dead: 1, dropped: 2, delayed: 0 };
    assert_eq!(scene.ledger().await, expected);
    assert_eq!(scene.queue.drop_tasks(&scene.run, &named).await, Ok(0), "once");
    assert_eq!(scene.push(pages("a", 6)).await, Pushed { new: 0, duplicates: 6 }, "and for good");
    audited(&scene).await;

    scene.pass_ms(5_000);
    assert_eq!(names(&scene.claim(&holder, 10).await), ["a page=5"]);
    let settled = scene.settle(&holder, &leased, SettleResult::Released).await;
    assert_eq!(settled, trawler::queue::Settled::Accepted(Pushed::default()), "a lease is left to its holder");
    assert_eq!(names(&scene.claim(&holder, 10).await), ["a page=2"]);
    expected = Ledger { queued: 0, leased: 2, ..expected };
    assert_eq!(scene.ledger().await, expected);
}

pub(super) async fn a_dropped_task_named_twice_counts_once(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    scene.push(pages("a", 2)).await;
    let twice = [page("a", 0).id; 2];
    assert_eq!(scene.queue.drop_tasks(&scene.run, &twice).await, Ok(1));
    assert_eq!(scene.ledger().await, Ledger { discovered: 2, queued: 1, dropped: 1, ..Ledger::default() });
}

pub(super) async fn dropping_what_is_left_drains_the_run(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a", "b"])).await;
    let holder = scene.join(0).await;
    let tasks: Vec<Task> = pages("a", 25).into_iter().chain(pages("b", 1)).collect();
    scene.push(tasks.clone()).await;
    assert_eq!(scene.queue.drop_tasks(&scene.run, &ids(&tasks)).await, Ok(26));
    assert_eq!(scene.ledger().await, Ledger { discovered: 26, dropped: 26, ..Ledger::default() });
    assert_eq!(scene.queue.peek(&scene.run, 10).await, Ok(Vec::new()));
    assert_eq!(scene.queue.lanes(&scene.run, 10).await, Ok(Vec::new()));
    audited(&scene).await;
    assert_eq!(scene.queue.claim(&holder, 1).await, Ok(Claim::Drained));
    scene.push([page("a", 25)]).await;
    assert_eq!(names(&scene.claim(&holder, 10).await), ["a page=25"], "new work is handed out as before");
}

pub(super) async fn dropping_the_last_of_a_node_leaves_the_turns_to_the_others(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a", "b", "c"])).await;
    let holder = scene.join(0).await;
    let shared = origin_of("shared");
    let of = |name: &str| (0..30).map(|number| page_at(&shared, name, number)).collect::<Vec<_>>();
    scene.push(["a", "b", "c"].into_iter().flat_map(of)).await;
    assert_eq!(names(&scene.claim(&holder, 1).await), ["a page=0"]);
    assert_eq!(scene.queue.drop_tasks(&scene.run, &ids(&of("a"))).await, Ok(29), "in the middle of its turn");
    assert_eq!(super::scene::rows(&scene.claim(&holder, 40).await), [("b".to_owned(), 25), ("c".to_owned(), 15)]);
    assert_eq!(scene.queue.drop_tasks(&scene.run, &ids(&of("c"))).await, Ok(15));
    scene.push([page_at(&shared, "c", 50), page_at(&shared, "a", 50)]).await;
    audited(&scene).await;
    let rest: Vec<String> = names(&scene.claim(&holder, 100).await);
    assert_eq!(rest.len(), 7, "{rest:?}");
    assert_eq!(scene.ledger().await.queued, 0);
}

pub(super) async fn what_is_dropped_while_its_gate_is_closed_is_gone_when_it_opens(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a", "b"])).await;
    let holder = scene.join(0).await;
    let shared = origin_of("shared");
    scene.push([page_at(&shared, "a", 0), page_at(&shared, "a", 1), page_at(&shared, "b", 0)]).await;
    let leased = scene.claim_one(&holder).await;
    scene.pushback(&holder, &shared, Some(10_000)).await;
    scene.done(&holder, &[leased]).await;
    assert_eq!(scene.until(&holder).await, scene.after_ms(10_000));
    assert_eq!(scene.queue.drop_tasks(&scene.run, &ids(&[page("a", 1)])).await, Ok(1));
    audited(&scene).await;
    scene.pass_ms(10_000);
    assert_eq!(names(&scene.claim(&holder, 10).await), ["b page=0"]);
}

pub(super) async fn a_suspect_that_is_dropped_keeps_nobody_from_working(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let (first, second) = (scene.join(0).await, scene.join(1).await);
    scene.push(pages("a", 6)).await;
    let suspect = scene.claim_one(&first).await;
    let busy = scene.claim_one(&second).await;
    scene.queue.release_holder(&scene.run, 0, ReleaseCause::Crashed).await.unwrap();
    assert_eq!(scene.claim(&second, 10).await, [], "it is kept free for the suspect");

    assert_eq!(scene.queue.drop_tasks(&scene.run, &[suspect.task.id]).await, Ok(1));
    assert_eq!(scene.claim(&second, 1).await.len(), 1);
    let expected = Ledger { discovered: 6, queued: 3, leased: 2, dropped: 1, ..Ledger::default() };
    assert_eq!(scene.ledger().await, expected);
    scene.done(&second, &[busy]).await;
    assert_eq!(scene.claim(&second, 10).await.len(), 3);
    audited(&scene).await;
}

pub(super) async fn crawlers_are_told_what_the_run_and_its_nodes_say_to_them(make: MakeQueue) {
    let brief = |text: &str| -> Arc<str> { text.into() };
    let said = |name: &str, text: &str| NodeConfig { brief: brief(text), ..node(name, "open") };
    let first = RunConfig { brief: brief("of the run"), nodes: vec![said("a", "of a"), said("b", "")], ..config(&[]) };
    let scene = Scene::open(make, first).await;
    let asked = ["b", "nobody", "a", "a"].map(NodeName::from);
    let told = async || scene.queue.node_briefs(&scene.run, &asked).await.unwrap();
    assert_eq!(scene.queue.brief(&scene.run).await, Ok(brief("of the run")));
    assert_eq!(told().await, [Some(brief("")), None, Some(brief("of a")), Some(brief("of a"))]);
    assert_eq!(scene.queue.node_briefs(&scene.run, &[]).await, Ok(Vec::new()));

    let second = RunConfig { brief: brief("ünïcode \0 \n"), nodes: vec![said("b", "of b")], ..config(&[]) };
    scene.queue.configure(second).await.unwrap();
    assert_eq!(scene.queue.brief(&scene.run).await, Ok(brief("ünïcode \0 \n")));
    let removed = Some(brief("of a"));
    assert_eq!(told().await, [Some(brief("of b")), None, removed.clone(), removed], "who works on it still may ask");
}

pub(super) async fn looking_at_an_unknown_run_is_refused_by_name(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    scene.queue.close(&scene.run).await.unwrap();
    let error = QueueError::NoSuchRun { run: scene.run.clone() };
    assert_eq!(scene.queue.holders(&scene.run).await, Err(error.clone()));
    assert_eq!(scene.queue.peek(&scene.run, 1).await, Err(error.clone()));
    assert_eq!(scene.queue.lanes(&scene.run, 1).await, Err(error.clone()));
    assert_eq!(scene.queue.dead(&scene.run, 1).await, Err(error.clone()));
    assert_eq!(scene.queue.retry_dead(&scene.run, None).await, Err(error.clone()));
    assert_eq!(scene.queue.drop_tasks(&scene.run, &[]).await, Err(error.clone()));
    assert_eq!(scene.queue.audit(&scene.run).await, Err(error.clone()));
    assert_eq!(scene.queue.brief(&scene.run).await, Err(error.clone()));
    assert_eq!(scene.queue.node_briefs(&scene.run, &[]).await, Err(error));
}

/// More are dead than are kept: what is not kept stays dead.
pub(super) async fn of_the_dead_only_those_that_are_kept_are_put_back(make: MakeQueue) {
    let scene = Scene::open(make, config(&["a"])).await;
    let holder = scene.join(0).await;
    scene.push(pages("a", 1_001)).await;
    loop {
        let leased = scene.claim(&holder, 1_000).await;
        if leased.is_empty() {
            break;
        }
        let settlements = leased.iter().map(|leased| settlement(leased.lease, dies("410 Gone"))).collect();
        scene.queue.settle(&holder, settlements).await.unwrap();
    }
    assert_eq!(scene.queue.retry_dead(&scene.run, None).await, Ok(1_000));
    let expected = Ledger { discovered: 1_001, queued: 1_000, dead: 1, ..Ledger::default() };
    assert_eq!(scene.ledger().await, expected);
    assert_eq!(scene.queue.retry_dead(&scene.run, None).await, Ok(0));
    audited(&scene).await;
}
