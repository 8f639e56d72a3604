//! What only the store in Redis promises: many processes at once, sessions, and servers that forget.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::join_all;
use trawler::finding::TaskFailure;
use trawler::redis::RedisSettings;
use trawler::store::landing::{FailedTry, Landing as _};
use trawler::store::memory::MemoryStore;
use trawler::store::redis::{RedisLanding, RedisStore, Session};
use trawler::store::*;
use trawler::task::{CatalogName, RunId, Task, TaskId};

use super::harness::*;
use crate::redis_server::{FORGETS, KEEPS, Server, new_instance, shared};

fn catalog() -> CatalogName {
    "mobility".into()
}

async fn open(settings: &RedisSettings, session: Session) -> RedisStore {
    RedisStore::open(settings, session).await.unwrap()
}

/// A handle of another process in the same session.
async fn another(settings: &RedisSettings, store: &RedisStore) -> RedisStore {
    open(settings, Session::Of(store.session().clone())).await
}

async fn begin(store: &dyn Store) -> RunId {
    store.begin_run(start(&catalog(), Mode::Full)).await.unwrap().run
}

async fn traversal(store: &dyn Store, run: &RunId) -> Traversal {
    match store.open_traversal(run, &root("acme")).await.unwrap() {
        Opened::Open { traversal, .. } => traversal,
        other => panic!("not open: {other:?}"),
    }
}

/// A page with so many records of its own, and one that all pages have.
fn own_page(number: u8, records: usize) -> TaskEffects {
    let ids: Vec<String> = (0..records).map(|record| format!("p{number:02}r{record:02}")).collect();
    let mut effects = page(number, &ids.iter().map(String::as_str).collect::<Vec<_>>());
    effects.records.push(record("common", "1"));
    effects
}

/// What can be read of a store, as text.
async fn read(store: &dyn Store, run: &RunId) -> String {
    let all = store.records(&catalog(), &RecordFilter::default(), None, usize::MAX).await.unwrap();
    let changes = store.changes(&catalog(), 0, usize::MAX).await.unwrap();
    let sections = store.sections(&catalog(), &"acme".into()).await.unwrap();
    let nodes = store.nodes(&catalog()).await.unwrap();
    let reports = store.reports(run).await.map_err(|error| error.to_string());
    let unfinished = store.unfinished_run(&catalog()).await.unwrap();
    format!("{all:#?}\n{changes:#?}\n{sections:#?}\n{nodes:#?}\n{reports:#?}\n{unfinished:#?}")
}

/// Asserts that the pages `0..pages` are there, each once, and are told so.
async fn assert_exact(store: &dyn Store, counts: &[Committed], pages: usize, records: usize) {
    let added: u64 = counts.iter().map(|count| count.added).sum();
    let repeated: u64 = counts.iter().map(|count| count.repeated).sum();
    assert_eq!((added, repeated), ((pages * records + 1) as u64, (pages - 1) as u64));
    let changes = store.changes(&catalog(), 0, usize::MAX).await.unwrap();
    let sequences: Vec<u64> = changes.iter().map(|change| change.sequence).collect();
    assert_eq!(sequences, (1..=added).collect::<Vec<_>>());
    let told: BTreeSet<&str> = changes.iter().map(|change| change.key.id.as_str()).collect();
    let all = store.records(&catalog(), &RecordFilter::default(), None, usize::MAX).await.unwrap();
    let kept: BTreeSet<&str> = all.iter().map(|record| record.key.id.as_str()).collect();
    assert_eq!((told.len(), &told), (changes.len(), &kept));
    assert_eq!(kept.len() as u64, added);
    assert_eq!(counts.iter().map(|count| count.seen).max(), Some(added));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_that_commit_to_one_section_at_once_lose_and_double_nothing() {
    let settings = new_instance(false);
    let one = open(&settings, Session::New).await;
    let other = another(&settings, &one).await;
    let run = begin(&one).await;
    let traversals = [traversal(&one, &run).await, traversal(&other, &run).await];
    assert_eq!(traversals[0], traversals[1]);
    let stores = [&one, &other];
    let commits = (0..20).map(|number| {
        let place = usize::from(number) % 2;
        stores[place].commit(&traversals[place], own_page(number, 10))
    });
    let counts: Vec<Committed> = join_all(commits).await.into_iter().map(Result::unwrap).collect();
    assert_exact(&one, &counts, 20, 10).await;

    let report = other.close_traversal(&traversals[1], closing()).await.unwrap();
    assert_eq!((report.added, report.partial.as_deref()), (201, None));
    assert_eq!(one.close_traversal(&traversals[0], closing()).await.unwrap(), report);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_commits_to_one_section_by_sixteen_processes_ends() {
    let settings = new_instance(false);
    let owner = open(&settings, Session::New).await;
    let run = begin(&owner).await;
    let of_run = traversal(&owner, &run).await;
    let crawlers = join_all((0..16).map(|_| another(&settings, &owner))).await;
    let commits = crawlers.iter().zip(0_u8..).map(async |(crawler, number)| {
        let mut counts = Vec::new();
        for page in 0..3 {
            counts.push(crawler.commit(&of_run, own_page(number * 3 + page, 5)).await.unwrap());
        }
        counts
    });
    let counts = join_all(commits).await.concat();
    assert_exact(&owner, &counts, 48, 5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn crawlers_of_an_earlier_session_are_refused_once_a_later_one_has_come_to_the_run() {
    let settings = new_instance(false);
    let owner = open(&settings, Session::New).await;
    let crawler = another(&settings, &owner).await;
    let run = begin(&owner).await;
    let before = traversal(&crawler, &run).await;
    crawler.commit(&before, page(1, &["a"])).await.unwrap();

    let taken_over = open(&settings, Session::New).await;
    // Nothing was written by it yet.
    crawler.commit(&before, page(2, &["b"])).await.unwrap();
    let after = traversal(&taken_over, &run).await;
    assert_eq!((before.attempt, after.attempt), (1, 2));
    let refused = crawler.commit(&before, page(3, &["c"])).await.unwrap_err();
    assert!(matches!(refused, StoreError::Superseded { attempt: 1, .. }), "{refused}");
    let refused = crawler.open_traversal(&run, &root("acme")).await.unwrap_err();
    assert!(matches!(refused, StoreError::SessionOver { session: 1, newer: 2 }), "{refused}");
    let refused = crawler.open_traversal(&run, &root("beta")).await.unwrap_err();
    assert!(matches!(refused, StoreError::SessionOver { session: 1, newer: 2 }), "{refused}");

    taken_over.commit(&after, page(3, &["c"])).await.unwrap();
    let all = taken_over.records(&catalog(), &RecordFilter::default(), None, 9).await.unwrap();
    assert_eq!(all.iter().map(|record| record.key.id.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_is_slow_to_end_a_run_does_not_end_the_next_one() {
    let settings = new_instance(false);
    let one = open(&settings, Session::New).await;
    let other = another(&settings, &one).await;
    for _ in 0..4 {
        let run = begin(&one).await;
        let sections = (0..600).map(|number| task(&nested("acme", &number.to_string()), "1"));
        one.seed(&run, &sections.collect::<Vec<_>>()).await.unwrap();
        let end_and_begin = async |store: &RedisStore| {
            store.finish_run(&run, "{}").await?;
            Ok::<_, StoreError>(begin(store).await)
        };
        let next = match tokio::join!(end_and_begin(&one), end_and_begin(&other)) {
            (Ok(next), Err(StoreError::NoSuchRun { .. })) | (Err(StoreError::NoSuchRun { .. }), Ok(next)) => next,
            ended => panic!("one of them ends it: {ended:?}"),
        };
        let unfinished = one.unfinished_run(&catalog()).await.unwrap();
        assert_eq!(unfinished.map(|state| state.run).as_ref(), Some(&next));
        other.finish_run(&next, "{}").await.unwrap();
    }
}

/// So many records take five portions to sweep.
const MANY: usize = 1_200;

fn many(number: u8, ids: std::ops::Range<usize>) -> TaskEffects {
    let ids: Vec<String> = ids.map(|id| format!("r{id:05}")).collect();
    page(number, &ids.iter().map(String::as_str).collect::<Vec<_>>())
}

fn unguarded() -> CloseTraversal {
    CloseTraversal { guard: DeletionGuard { max_percent: 100, min_records: 0 }, ..closing() }
}

/// A section with many records, and a run under way that has seen ten of them.
async fn about_to_sweep(store: &dyn Store) -> (RunId, Traversal) {
    let run = begin(store).await;
    let first = traversal(store, &run).await;
    store.commit(&first, many(1, 0..MANY)).await.unwrap();
    store.close_traversal(&first, unguarded()).await.unwrap();
    store.finish_run(&run, "{}").await.unwrap();
    let run = begin(store).await;
    let second = traversal(store, &run).await;
    (run, second)
}

#[derive(Debug, Clone, Copy)]
enum Step {
    CommitThatCloses,
    Close,
    RemoveNode,
    Finish,
}

async fn take(store: &dyn Store, step: Step, run: &RunId, traversal: &Traversal) -> Result<(), StoreError> {
    let ten = || many(1, 0..10);
    match step {
        Step::CommitThatCloses => {
            let effects = TaskEffects { close_when_drained: Some(unguarded()), ..ten() };
            store.commit(traversal, effects).await.map(drop)
        }
        Step::Close => {
            store.commit(traversal, ten()).await?;
            store.close_traversal(traversal, unguarded()).await.map(drop)
        }
        Step::RemoveNode => store.sweep_removed_node(run, &"acme".into(), unguarded()).await.map(drop),
        Step::Finish => {
            store.commit(traversal, ten()).await?;
            store.finish_run(run, "done").await
        }
    }
}

async fn a_crash_between_any_two_writes_leaves_what_repeating_makes_whole(step: Step) {
    let memory = MemoryStore::new();
    let (run, of_run) = about_to_sweep(&memory).await;
    take(&memory, step, &run, &of_run).await.unwrap();
    let undisturbed = read(&memory, &run).await;
    for writes in 0.. {
        let settings = new_instance(false);
        let store = open(&settings, Session::New).await;
        let (run, of_run) = about_to_sweep(&store).await;
        store.die_after(writes);
        let taken = take(&store, step, &run, &of_run).await;
        let next = another(&settings, &store).await;
        if taken.is_err() {
            take(&next, step, &run, &of_run).await.unwrap();
        }
        assert!(read(&next, &run).await == undisturbed, "{step:?} was stopped after {writes} writes");
        if taken.is_ok() {
            let is_in_portions = !matches!(step, Step::Finish);
            assert!(writes > if is_in_portions { 2 } else { 1 });
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_commit_that_closes_and_is_interrupted_is_ended_by_the_next_one() {
    a_crash_between_any_two_writes_leaves_what_repeating_makes_whole(Step::CommitThatCloses).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_sweep_that_is_interrupted_is_ended_by_closing_again() {
    a_crash_between_any_two_writes_leaves_what_repeating_makes_whole(Step::Close).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_removed_nodes_sweep_that_is_interrupted_is_ended_by_repeating_it() {
    a_crash_between_any_two_writes_leaves_what_repeating_makes_whole(Step::RemoveNode).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_run_whose_end_is_interrupted_is_ended_by_repeating_it() {
    a_crash_between_any_two_writes_leaves_what_repeating_makes_whole(Step::Finish).await;
}

/// A run whose only section was judged and half swept when its process died, and a handle of the next session.
async fn half_swept() -> (RedisStore, RunId) {
    let settings = new_instance(false);
    let store = open(&settings, Session::New).await;
    let (run, of_run) = about_to_sweep(&store).await;
    store.die_after(3);
    assert!(take(&store, Step::Close, &run, &of_run).await.is_err());
    let next = open(&settings, Session::New).await;
    let left = next.sections(&catalog(), &"acme".into()).await.unwrap()[0].records;
    assert!(left > 10 && left < MANY as u64, "{left} records are left: it was not stopped in the middle");
    (next, run)
}

/// It was carried out as it was judged.
async fn assert_swept(store: &RedisStore, report: Option<&SectionReport>) {
    let told = report.map(|report| (report.unchanged, report.deleted, report.partial.as_deref()));
    assert!(told.is_none_or(|told| told == (10, MANY as u64 - 10, None)), "{told:?}");
    let state = store.sections(&catalog(), &"acme".into()).await.unwrap().remove(0);
    assert_eq!((state.records, state.last_complete, state.held), (10, 2, None));
    let deleted = store.changes(&catalog(), MANY as u64, usize::MAX).await.unwrap();
    let of_kind = deleted.iter().filter(|change| change.kind == ChangeKind::Deleted).count();
    assert_eq!((of_kind, deleted.len()), (MANY - 10, MANY - 10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_was_judged_is_carried_out_by_whoever_opens_the_traversal_next() {
    let (store, run) = half_swept().await;
    let Opened::Closed { report } = store.open_traversal(&run, &root("acme")).await.unwrap() else { panic!("open") };
    assert_swept(&store, Some(&report)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_was_judged_is_carried_out_when_the_run_is_cut_short() {
    let (store, run) = half_swept().await;
    store.cut_short(&run, closing()).await.unwrap();
    assert_swept(&store, store.reports(&run).await.unwrap().first()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_was_judged_is_carried_out_when_the_run_ends() {
    let (store, run) = half_swept().await;
    store.finish_run(&run, "{}").await.unwrap();
    assert_swept(&store, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_server_that_was_emptied_is_noticed() {
    let server = Server::start(&FORGETS);
    let settings = server.settings_as("owner", "i");
    let store = open(&settings, Session::New).await;
    let run = begin(&store).await;
    let of_run = traversal(&store, &run).await;
    let crawler = another(&server.settings_as("crawler", "i"), &store).await;
    crawler.commit(&of_run, page(1, &["a"])).await.unwrap();
    let _: String = server.ask(&["FLUSHALL"]);
    let _: String = server.ask(&["FUNCTION", "FLUSH"]);
    let lost = crawler.commit(&of_run, page(2, &["b"])).await.unwrap_err();
    let sentence = format!(
        "the store in the Redis at 127.0.0.1:{} is not as this process left it: the server has nothing of it any more: it was \
         emptied; this process stops, and what is missing will be fetched again",
        server.port
    );
    assert_eq!(lost.to_string(), sentence);
    let lost = store.close_traversal(&of_run, closing()).await.unwrap_err();
    assert_eq!(lost.to_string(), sentence);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_server_that_was_rolled_back_is_noticed_by_all() {
    let mut server = Server::start(&FORGETS);
    let settings = server.settings("i");
    let store = open(&settings, Session::New).await;
    let run = begin(&store).await;
    let of_run = traversal(&store, &run).await;
    let (one, other) = (another(&settings, &store).await, another(&settings, &store).await);
    one.commit(&of_run, page(1, &["a"])).await.unwrap();
    let _: String = server.ask(&["SAVE"]);
    one.commit(&of_run, page(2, &["b"])).await.unwrap();
    server.kill();
    server.run();
    let lost = one.commit(&of_run, page(3, &["c"])).await.unwrap_err();
    assert!(matches!(&lost, StoreError::Lost { why, .. } if why.contains("rolled back")), "{lost}");
    let lost = other.close_traversal(&of_run, closing()).await.unwrap_err();
    assert!(matches!(&lost, StoreError::Lost { .. }), "{lost}");
    let again = open(&settings, Session::New).await;
    assert_eq!(again.unfinished_run(&catalog()).await.unwrap().map(|state| state.run), Some(run));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_store_outlives_its_server() {
    let mut server = Server::start(&KEEPS);
    let settings = server.settings("i");
    let store = open(&settings, Session::New).await;
    let run = begin(&store).await;
    let of_run = traversal(&store, &run).await;
    store.commit(&of_run, page(1, &["a"])).await.unwrap();
    server.kill();
    server.run();
    let committed = store.commit(&of_run, page(2, &["b"])).await.unwrap();
    assert_eq!((committed.added, committed.seen), (1, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_crawlers_user_does_all_that_landing_takes() {
    let (server, instance) = shared(false);
    let owner = open(&server.settings_as("owner", &instance), Session::New).await;
    let run = begin(&owner).await;
    let section = root("acme");
    let (first, second) = (task(&section, "1"), task(&section, "2"));
    owner.seed(&run, std::slice::from_ref(&first)).await.unwrap();

    let crawler = another(&server.settings_as("crawler", &instance), &owner).await;
    let landing = RedisLanding::new(Arc::new(crawler), run.clone());
    landing.note_try(failed_try(first.id)).await.unwrap();
    let Opened::Open { traversal, .. } = landing.open_traversal(&run, &section).await.unwrap() else { panic!("open") };
    let effects = TaskEffects { task: first.id, feedback: vec![second.clone()], ..page(1, &["a"]) };
    assert_eq!(landing.commit(&traversal, effects).await.unwrap().pending, 1);
    let origin = ClosedOrigin { origin: "https://acme.example:443".into(), until: at(9) };
    landing.close_origins(vec![origin.clone()]).await.unwrap();
    let effects = TaskEffects { task: second.id, close_when_drained: Some(closing()), ..page(2, &["b"]) };
    assert!(landing.commit(&traversal, effects).await.unwrap().closed);

    assert_eq!(owner.closed_origins(at(0), at(99)).await.unwrap(), [origin]);
    let reports = owner.reports(&run).await.unwrap();
    assert_eq!(reports.iter().map(|report| (report.added, report.requests)).collect::<Vec<_>>(), [(2, 3)]);
}

fn failed_try(task: TaskId) -> FailedTry {
    let failure = Some(TaskFailure { at: at(1), why: "no answer in time".to_owned() });
    FailedTry { task, requests: 3, spending: Spending { calls: 3, ..Spending::none("acme".into(), at(1)) }, failure }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_tasks_went_through_and_what_followed_from_them_outlives_the_crawler_and_ends_with_the_run() {
    let (server, instance) = shared(false);
    let settings = server.settings_as("owner", &instance);
    let owner = open(&settings, Session::New).await;
    let run = begin(&owner).await;
    let of_run = traversal(&owner, &run).await;
    let crawler = async || RedisLanding::new(Arc::new(another(&settings, &owner).await), run.clone());
    let following: Vec<Task> = ["2", "3"].into_iter().map(|cursor| task(&root("acme"), cursor)).collect();

    crawler().await.note_try(failed_try(TaskId([1; 16]))).await.unwrap();
    let effects = TaskEffects { feedback: following.clone(), ..failed(1, "given up") };
    let first = crawler().await.commit(&of_run, effects).await.unwrap();
    assert_eq!((first.pending, first.followed), (2, None));
    // The second time something else follows, which nobody waits for.
    let effects = TaskEffects { feedback: vec![task(&root("acme"), "other")], ..page(1, &["a"]) };
    let again = crawler().await.commit(&of_run, effects).await.unwrap();
    assert_eq!((again.already_settled, again.pending, again.followed), (true, 2, Some(following)));

    let kept =
        |what: &str| -> i64 { server.ask(&["EXISTS", &format!("trawler:{{{instance}}}:store:1:h:{what}:{run}")]) };
    assert_eq!((kept("tries"), kept("followed")), (0, 1));
    owner.cut_short(&run, closing()).await.unwrap();
    let report = owner.reports(&run).await.unwrap().remove(0);
    assert_eq!((report.requests, report.failures[0].earlier.len()), (3, 1));
    crawler().await.note_try(failed_try(TaskId([9; 16]))).await.unwrap();
    assert_eq!((kept("tries"), kept("followed")), (1, 1));
    owner.finish_run(&run, "{}").await.unwrap();
    assert_eq!((kept("tries"), kept("followed"), kept("pending")), (0, 0, 0));
}

/// A write to the instance `i` as its functions are told it: the lane's write before, this one, and a field to put.
fn write(server: &Server, before: u64, this: u64, field: &str) -> String {
    let libraries: Vec<Vec<::redis::Value>> = server.ask(&["FUNCTION", "LIST", "LIBRARYNAME", "trawler_store_*"]);
    let name: String = ::redis::from_redis_value(libraries[0][1].clone()).unwrap();
    let epoch: String = server.ask(&["HGET", "trawler:{i}:store:1:i", "epoch"]);
    let (before, this) = (before.to_string(), this.to_string());
    let (function, prefix) = (format!("{name}_write"), "trawler:{i}:");
    let head = ["FCALL", &function, "1", prefix, &epoch, "handle", "0", &before, &this, "", "1"];
    let put = ["put", "h:meta", "2", field, "x"];
    let answer: Vec<String> = server.ask(&[head.as_slice(), &put].concat());
    answer[0].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_write_that_is_asked_for_twice_is_done_once_and_one_that_was_forgotten_is_noticed() {
    let server = Server::start(&FORGETS);
    let store = open(&server.settings("i"), Session::New).await;
    let has = |field: &str| -> bool { server.ask(&["HEXISTS", "trawler:{i}:store:1:h:meta", field]) };
    assert_eq!(write(&server, 0, 5, "a"), "ok");
    assert_eq!((write(&server, 0, 5, "again").as_str(), has("a"), has("again")), ("ok", true, false));
    assert_eq!((write(&server, 5, 9, "b").as_str(), has("b")), ("ok", true));
    // The first asking for what was answered comes last.
    assert_eq!((write(&server, 5, 7, "late").as_str(), has("late")), ("ok", false));
    begin(&store).await;
    let _: i64 = server.ask(&["HSET", "trawler:{i}:store:1:w:handle", "0", "5"]);
    assert_eq!((write(&server, 9, 12, "c").as_str(), has("c")), ("rolled back", false));
    let lost = store.unfinished_run(&catalog()).await.unwrap_err();
    assert!(matches!(lost, StoreError::Lost { .. }), "{lost}");
}
