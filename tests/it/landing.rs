//! A store's landing, served to crawlers of other processes: what they are told, and what becomes of it when they go.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use trawler::finding::{Checkpoint, Forgiven, Limited, Reading, Rejected, TaskFailure, Validators};
use trawler::record::ContentHash;
use trawler::store::landing::served::{LandingClient, LandingServer, SCHEME};
use trawler::store::landing::{FailedTry, Landing, StoreLanding};
use trawler::store::memory::MemoryStore;
use trawler::store::*;
use trawler::task::{RunId, SectionKey, Task, TaskId, TaskKind};

/// A store with a run, and the server before it.
struct Scene {
    store: Arc<MemoryStore>,
    run: RunId,
    server: LandingServer,
}

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn section() -> SectionKey {
    SectionKey::root_of("acme".into())
}

fn task(cursor: &str) -> Task {
    Task::new(section(), TaskKind::Page, "https://acme.example:443".into(), cursor)
}

fn record(id: &str) -> RecordWrite {
    let payload = format!("{{\"id\":{id:?},\"bytes\":\"\u{1F41F}\\u0000\"}}");
    RecordWrite { id: id.to_owned(), hash: ContentHash::of(id.as_bytes()), payload: payload.into() }
}

/// A page's effects: `feedback` follows, and the section closes with its last task.
fn page(cursor: &str, ids: &[&str], feedback: &[&str]) -> TaskEffects {
    TaskEffects {
        task: task(cursor).id,
        records: ids.iter().map(|id| record(id)).collect(),
        feedback: feedback.iter().map(|cursor| task(cursor)).collect(),
        reading: Some(Reading::Full),
        requests: 1,
        calls: 1,
        bytes: 1000,
        at: now(),
        close_when_drained: Some(closing()),
        ..TaskEffects::default()
    }
}

fn closing() -> CloseTraversal {
    let guard = DeletionGuard { max_percent: 30, min_records: 50 };
    CloseTraversal { cut_short: None, guard, approved: vec![(section(), 7)], at: now() }
}

impl Scene {
    async fn new() -> Self {
        let store = Arc::new(MemoryStore::new());
        let start = RunStart { catalog: "test".into(), mode: Mode::Full, spec: String::new(), started_at: now() };
        let run = store.begin_run(start).await.unwrap().run;
        store.seed(&run, &[task("1")]).await.unwrap();
        let server = LandingServer::start(Arc::new(StoreLanding::new(store.clone()))).unwrap();
        Self { store, run, server }
    }

    async fn crawler(&self, name: &str) -> LandingClient {
        LandingClient::connect(self.server.address(), name).await.unwrap()
    }

    async fn open(&self, landing: &dyn Landing) -> (Traversal, SoFar) {
        match landing.open_traversal(&self.run, &section()).await.unwrap() {
            Opened::Open { traversal, so_far, .. } => (traversal, so_far),
            other => panic!("not open: {other:?}"),
        }
    }

    fn socket(&self) -> PathBuf {
        Path::new(self.server.address().strip_prefix(SCHEME).unwrap()).to_owned()
    }

    async fn payloads(&self) -> Vec<String> {
        let all = self.store.records(&"test".into(), &RecordFilter::default(), None, 100).await.unwrap();
        all.into_iter().map(|record| String::from_utf8(record.payload.to_vec()).unwrap()).collect()
    }
}

#[tokio::test]
async fn what_a_crawler_of_another_process_brings_is_stored_as_if_it_were_of_this_one() {
    let effects = || TaskEffects {
        deleted_ids: vec!["gone".to_owned()],
        listed_sections: vec![section()],
        limited: Some(Limited::MaxDepth),
        total: Some(3),
        heeds_total: true,
        forgiven: BTreeMap::from([(Forgiven::Cycle, 2)]),
        rejected: vec![Rejected { what: "dataset[3]".to_owned(), why: "it has no id".to_owned() }],
        checkpoint: Some(Checkpoint("2027-01-01".to_owned())),
        validators: Some(Validators { question: "q".to_owned(), etag: Some("\"e\"".to_owned()), last_modified: None }),
        protocol: "DSP 2025-1".to_owned(),
        ..page("1", &["a", "b"], &["2"])
    };
    let mut seen = Vec::new();
    for is_served in [false, true] {
        let scene = Scene::new().await;
        let direct = StoreLanding::new(scene.store.clone());
        let client = scene.crawler("one").await;
        let landing: &dyn Landing = if is_served { &client } else { &direct };
        let opened = landing.open_traversal(&scene.run, &section()).await.unwrap();
        let (traversal, _) = scene.open(landing).await;
        let committed = landing.commit(&traversal, effects()).await.unwrap();
        let again = landing.commit(&traversal, effects()).await.unwrap();
        let last = landing.commit(&traversal, page("2", &["c"], &[])).await.unwrap();
        let closed = landing.open_traversal(&scene.run, &section()).await.unwrap();
        let origin = ClosedOrigin { origin: "https://acme.example:443".into(), until: now() };
        landing.close_origins(vec![origin]).await.unwrap();
        let origins = scene.store.closed_origins(Timestamp::MIN, Timestamp::MAX).await.unwrap();
        seen.push(format!(
            "{opened:?} {committed:?} {again:?} {last:?} {closed:?} {origins:?} {:?}",
            scene.payloads().await
        ));
    }
    assert_eq!(seen[0], seen[1]);
    assert!(seen[1].contains("already_settled: true") && seen[1].contains("Closed"), "{}", seen[1]);
}

#[tokio::test]
async fn crawlers_of_one_run_work_on_one_traversal_and_count_together() {
    let scene = Scene::new().await;
    let (one, other) = (scene.crawler("one").await, scene.crawler("other").await);

    let (traversal, so_far) = scene.open(&one).await;
    let (same, _) = scene.open(&other).await;
    assert_eq!((&traversal, so_far), (&same, SoFar::default()));

    one.commit(&traversal, page("1", &["a", "b"], &["2"])).await.unwrap();
    let (same, so_far) = scene.open(&other).await;
    assert_eq!((&same, so_far.records, so_far.bytes), (&traversal, 2, 1000));

    let last = other.commit(&traversal, page("2", &["c"], &[])).await.unwrap();
    assert!(last.closed, "{last:?}");
    let Opened::Closed { report } = one.open_traversal(&scene.run, &section()).await.unwrap() else { panic!("open") };
    assert_eq!((report.added, report.requests, report.partial), (3, 2, None));
}

#[tokio::test]
async fn crawlers_that_open_a_section_at_the_same_time_do_not_fence_each_other() {
    let scene = Scene::new().await;
    let mut crawlers = Vec::new();
    for name in 0..8 {
        crawlers.push(scene.crawler(&name.to_string()).await);
    }
    let opened = futures_util::future::join_all(crawlers.iter().map(|crawler| scene.open(crawler))).await;
    assert!(opened.iter().all(|(traversal, _)| *traversal == opened[0].0), "{opened:?}");
    for (number, crawler) in crawlers.iter().enumerate() {
        let cursor = (number + 1).to_string();
        let next = (number + 2).to_string();
        crawler.commit(&opened[0].0, page(&cursor, &[&cursor], &[&next])).await.unwrap();
    }
    assert_eq!(scene.payloads().await.len(), 8);
}

#[tokio::test]
async fn a_crawler_that_takes_over_a_run_opens_its_sections_anew_and_fences_the_one_before() {
    let scene = Scene::new().await;
    let crawler = scene.crawler("one").await;
    let (before, _) = scene.open(&crawler).await;

    let store = Arc::new(scene.store.another_process());
    let server = LandingServer::start(Arc::new(StoreLanding::new(store))).unwrap();
    let next = LandingClient::connect(server.address(), "next").await.unwrap();
    let (after, _) = scene.open(&next).await;
    assert_eq!((after.number, after.attempt), (before.number, before.attempt + 1));

    let late = crawler.commit(&before, page("1", &["a"], &[])).await.unwrap_err();
    assert!(matches!(late, StoreError::Superseded { number: 1, attempt: 1, .. }), "{late:?}");
}

#[tokio::test]
async fn a_try_that_failed_in_one_crawler_counts_for_the_one_that_gives_up() {
    let scene = Scene::new().await;
    let (one, other) = (scene.crawler("one").await, scene.crawler("other").await);
    let (traversal, _) = scene.open(&one).await;
    let why = TaskFailure { at: now(), why: "it answered 502".to_owned() };
    let failed = FailedTry {
        task: task("1").id,
        requests: 2,
        spending: Spending { node: "acme".into(), at: now(), calls: 2, documents: 0, bytes: 0 },
        failure: Some(why.clone()),
    };
    one.note_try(failed).await.unwrap();

    let failed = FailedTask {
        kind: TaskKind::Page,
        page: 0,
        why: "it answered 502 again".to_owned(),
        earlier: Vec::new(),
        may_be_ours: false,
    };
    let effects = TaskEffects { result: TaskResult::Failed(failed.clone()), ..page("1", &[], &[]) };
    assert!(other.commit(&traversal, effects).await.unwrap().closed);

    let report = &scene.store.reports(&scene.run).await.unwrap()[0];
    assert_eq!((report.requests, &report.failures), (3, &vec![FailedTask { earlier: vec![why], ..failed }]));
    let spent: u64 = scene.store.spendings(Timestamp::MIN).await.unwrap().iter().map(|spending| spending.calls).sum();
    assert_eq!(spent, 3);
}

#[tokio::test]
async fn a_task_that_is_done_again_is_followed_by_what_followed_it_first() {
    let scene = Scene::new().await;
    let (one, other) = (scene.crawler("one").await, scene.crawler("other").await);
    let (traversal, _) = scene.open(&one).await;
    let first = one.commit(&traversal, page("1", &["a"], &["2 at noon"])).await.unwrap();
    assert_eq!((first.already_settled, first.followed), (false, None));
    let again = other.commit(&traversal, page("1", &["a"], &["2 at one"])).await.unwrap();
    assert_eq!((again.already_settled, again.followed), (true, Some(vec![task("2 at noon")])));
    let pending = scene.store.pending_tasks(&scene.run, None, 10).await.unwrap();
    assert_eq!(pending, [task("2 at noon")]);
}

#[tokio::test]
async fn refusals_are_told_as_what_they_are() {
    let scene = Scene::new().await;
    let crawler = scene.crawler("one").await;
    let stranger = RunId::from("test-9");
    let unknown = crawler.open_traversal(&stranger, &section()).await.unwrap_err();
    assert!(matches!(&unknown, StoreError::NoSuchRun { run } if *run == stranger), "{unknown:?}");

    let (traversal, _) = scene.open(&crawler).await;
    let late = Traversal { attempt: traversal.attempt + 1, ..traversal };
    let superseded = crawler.commit(&late, page("1", &[], &[])).await.unwrap_err();
    assert!(matches!(superseded, StoreError::Superseded { number: 1, attempt: 2, .. }), "{superseded:?}");
}

/// The frame that a crawler sends to have a page stored, as it goes over the wire.
async fn frame_of_a_commit(scene: &Scene) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tap.sock");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let (traversal, _) = scene.open(&scene.crawler("tapped").await).await;
    let connecting =
        tokio::spawn(async move { LandingClient::connect(&format!("{SCHEME}{}", path.display()), "tapped").await });
    let mut server = UnixStream::connect(scene.socket()).await.unwrap();
    let (mut tap, _) = listener.accept().await.unwrap();
    // The greeting and its answer pass through; what comes next is kept.
    let hello = read_frame(&mut tap).await;
    server.write_all(&hello).await.unwrap();
    let answer = read_frame(&mut server).await;
    tap.write_all(&answer).await.unwrap();
    let client = connecting.await.unwrap().unwrap();
    let asking = tokio::spawn(async move { client.commit(&traversal, page("1", &["a", "b"], &[])).await });
    let commit = read_frame(&mut tap).await;
    asking.abort();
    [hello, commit].concat()
}

async fn read_frame(stream: &mut UnixStream) -> Vec<u8> {
    let mut frame = vec![0; 4];
    stream.read_exact(&mut frame).await.unwrap();
    let length = u32::from_be_bytes(frame[..].try_into().unwrap()) as usize;
    frame.resize(4 + length, 0);
    stream.read_exact(&mut frame[4..]).await.unwrap();
    frame
}

/// The server has seen that a connection ended when it has closed its own side.
async fn closed_by_server(mut stream: UnixStream) {
    stream.shutdown().await.unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
}

#[tokio::test]
async fn a_crawler_killed_in_the_middle_of_a_commit_leaves_nothing_of_it() {
    let scene = Scene::new().await;
    let frames = frame_of_a_commit(&scene).await;
    for missing in [1, 10, 100] {
        let mut stream = UnixStream::connect(scene.socket()).await.unwrap();
        stream.write_all(&frames[..frames.len() - missing]).await.unwrap();
        closed_by_server(stream).await;
        assert_eq!(scene.payloads().await, Vec::<String>::new());
    }
    let pending = scene.store.pending_tasks(&scene.run, None, 10).await.unwrap();
    assert_eq!(pending.iter().map(|task| task.id).collect::<Vec<TaskId>>(), [task("1").id]);
}

#[tokio::test]
async fn a_commit_that_was_sent_whole_is_made_although_its_crawler_is_gone() {
    let scene = Scene::new().await;
    let frames = frame_of_a_commit(&scene).await;
    let mut stream = UnixStream::connect(scene.socket()).await.unwrap();
    stream.write_all(&frames).await.unwrap();
    closed_by_server(stream).await;
    assert_eq!(scene.payloads().await.len(), 2);

    // Whoever does it again is told so.
    let next = scene.crawler("next").await;
    assert!(matches!(next.open_traversal(&scene.run, &section()).await.unwrap(), Opened::Closed { .. }));
}

#[tokio::test]
async fn a_crawler_is_told_when_the_process_that_holds_the_store_is_gone() {
    let scene = Scene::new().await;
    let crawler = scene.crawler("one").await;
    scene.open(&crawler).await;
    let Scene { server, run, .. } = scene;
    drop(server);
    let gone = crawler.gone().await.to_string();
    assert!(gone.contains("is gone: the process that holds it ended"), "{gone}");
    let later = crawler.open_traversal(&run, &section()).await.unwrap_err();
    assert!(matches!(later, StoreError::Gone { .. }), "{later:?}");
}

#[tokio::test]
async fn an_address_where_nobody_serves_is_named() {
    for address in ["unix:///nowhere/store.sock", "http://127.0.0.1"] {
        let error = LandingClient::connect(address, "one").await.unwrap_err();
        assert!(error.to_string().starts_with(&format!("the store at {address} is gone: ")), "{error}");
    }
}

#[tokio::test]
async fn nobody_else_of_the_machine_can_reach_the_socket_and_nothing_is_left_of_it() {
    let scene = Scene::new().await;
    let directory = scene.socket().parent().unwrap().to_owned();
    assert_eq!(std::fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
    drop(scene);
    assert!(!directory.exists());
}

#[tokio::test]
async fn whoever_does_not_speak_as_a_crawler_does_is_cut_off_and_disturbs_nobody() {
    let scene = Scene::new().await;
    let crawler = scene.crawler("one").await;
    let huge = [u32::MAX.to_be_bytes().as_slice(), b"x"].concat();
    let nonsense = [5_u32.to_be_bytes().as_slice(), b"hello"].concat();
    let commit_without_hello = frame_of_a_commit(&scene).await;
    let hello_length = 4 + u32::from_be_bytes(commit_without_hello[..4].try_into().unwrap()) as usize;
    for bytes in [&huge[..], &nonsense, &commit_without_hello[hello_length..]] {
        let mut stream = UnixStream::connect(scene.socket()).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        assert_eq!(scene.payloads().await, Vec::<String>::new());
    }
    scene.open(&crawler).await;
}

#[tokio::test]
async fn a_crawler_may_have_many_requests_under_way() {
    let scene = Scene::new().await;
    let crawler = scene.crawler("one").await;
    let opened = futures_util::future::join_all((0..1000).map(|_| scene.open(&crawler))).await;
    assert_eq!(opened.len(), 1000);
    assert!(scene.server.has_met("one") && !scene.server.has_met("other"));
}
