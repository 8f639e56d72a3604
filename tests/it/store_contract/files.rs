//! What only the store in files promises: the lock, the schema, crashes, dry runs, compaction.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use futures_util::future::join_all;
use tempfile::TempDir;
use trawler::store::files::FileStore;
use trawler::store::*;
use trawler::task::CatalogName;

use super::harness::*;

fn state(dir: &Path) -> PathBuf {
    dir.join(".trawler")
}

fn segment(dir: &Path, number: u32) -> PathBuf {
    state(dir).join(format!("segments/{number:06}.jsonl"))
}

/// Every file under a directory, with its bytes.
fn files_of(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.append(&mut files_of(&path));
        } else {
            files.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    files
}

/// The directory as a crash at this moment would leave it.
fn crash(dir: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for (path, bytes) in files_of(dir) {
        let to = copy.path().join(path.strip_prefix(dir).unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(to, bytes).unwrap();
    }
    copy
}

async fn list(store: &FileStore) -> Vec<String> {
    let catalog = CatalogName::from("mobility");
    let records = store.records(&catalog, &RecordFilter::default(), None, usize::MAX).await.unwrap();
    records.into_iter().map(|record| String::from_utf8(record.payload.to_vec()).unwrap()).collect()
}

async fn reopened(dir: &Path) -> Vec<String> {
    list(&FileStore::open(dir).unwrap()).await
}

#[tokio::test]
async fn a_second_process_is_told_at_once_that_the_directory_is_in_use() {
    let subject = Subject::files();
    let state = state(subject.dir());
    for refused in [FileStore::open(subject.dir()), FileStore::open_read_only(subject.dir())] {
        let expected = format!(
            "{} is in use by another trawler process; wait for it to end, or choose another directory with -d",
            state.display()
        );
        assert_eq!(refused.unwrap_err().to_string(), expected);
    }
}

#[test]
fn a_state_from_a_newer_version_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(FileStore::open(dir.path()).unwrap());
    fs::write(state(dir.path()).join("schema"), "2\n").unwrap();
    let expected = format!(
        "the state in {} can't be used: a newer trawler wrote it (schema 2; this one knows 1); \
         move it away to start afresh, which crawls everything again",
        state(dir.path()).display()
    );
    for refused in
        [FileStore::open(dir.path()), FileStore::open_read_only(dir.path()), FileStore::open_dry_run(dir.path())]
    {
        assert_eq!(refused.unwrap_err().to_string(), expected);
    }
}

#[test]
fn an_index_that_is_no_database_is_refused_with_its_path() {
    let dir = tempfile::tempdir().unwrap();
    drop(FileStore::open(dir.path()).unwrap());
    let index = state(dir.path()).join("index.redb");
    fs::write(&index, vec![b'x'; 8192]).unwrap();
    let refused = FileStore::open(dir.path()).unwrap_err().to_string();
    assert!(refused.contains(&index.display().to_string()), "{refused}");
}

#[test]
fn a_directory_that_cannot_be_made_is_named_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("out"), "a file").unwrap();
    let refused = FileStore::open(&dir.path().join("out")).unwrap_err();
    let StoreError::Io { doing, path, .. } = &refused else { panic!("{refused:?}") };
    assert_eq!((*doing, path.as_str()), ("create", dir.path().join("out/.trawler/segments").to_str().unwrap()));
}

#[tokio::test]
async fn a_state_of_a_version_that_knew_fewer_tables_is_read() {
    let subject = Subject::files();
    subject.crawl(&root("acme"), page(1, &["a"])).await;
    let copy = crash(subject.dir());
    let index = redb::Database::open(state(copy.path()).join("index.redb")).unwrap();
    let transaction = index.begin_write().unwrap();
    assert!(transaction.delete_table(redb::TableDefinition::<&[u8], &[u8]>::new("spendings")).unwrap());
    transaction.commit().unwrap();
    drop(index);
    let store = FileStore::open_read_only(copy.path()).unwrap();
    assert_eq!((list(&store).await, store.spendings(at(0)).await.unwrap()), (vec!["a@1".to_owned()], vec![]));
}

#[tokio::test]
async fn a_state_opened_read_only_is_read_and_not_written() {
    let subject = Subject::files();
    subject.crawl(&root("acme"), page(1, &["a"])).await;
    let copy = crash(subject.dir());
    drop(subject);
    drop(FileStore::open(copy.path()).unwrap());
    let before = files_of(copy.path());
    let store = FileStore::open_read_only(copy.path()).unwrap();
    let other = FileStore::open_read_only(copy.path()).unwrap();
    assert_eq!((list(&store).await, list(&other).await), (vec!["a@1".to_owned()], vec!["a@1".to_owned()]));
    let refused = store.begin_run(start(&"mobility".into(), Mode::Full)).await.unwrap_err();
    assert!(matches!(refused, StoreError::Io { doing: "write", .. }), "{refused:?}");
    assert!(matches!(FileStore::open(copy.path()), Err(StoreError::Locked { .. })));
    drop((store, other));
    assert!(files_of(copy.path()) == before);
}

#[test]
fn reading_a_directory_without_state_makes_none() {
    let dir = tempfile::tempdir().unwrap();
    let refused = FileStore::open_read_only(dir.path()).unwrap_err();
    assert!(matches!(refused, StoreError::Io { doing: "open", .. }), "{refused:?}");
    assert!(files_of(dir.path()).is_empty());
}

#[tokio::test]
async fn a_killed_process_leaves_a_state_that_can_be_read() {
    let subject = Subject::files();
    subject.crawl(&root("acme"), page(1, &["a"])).await;
    let copy = crash(subject.dir());
    assert_eq!(list(&FileStore::open_read_only(copy.path()).unwrap()).await, ["a@1"]);
}

#[tokio::test]
async fn a_dry_run_counts_truly_and_writes_nothing() {
    let subject = Subject::files();
    let acme = root("acme");
    subject.crawl(&acme, page(1, &["a", "b", "c"])).await;
    let copy = crash(subject.dir());
    let before = files_of(copy.path());
    let store = FileStore::open_dry_run(copy.path()).unwrap();
    let run = store.begin_run(start(&"mobility".into(), Mode::Full)).await.unwrap().run;
    let Opened::Open { traversal, .. } = store.open_traversal(&run, &acme).await.unwrap() else { panic!("not open") };
    store.commit(&traversal, page(1, &["a", "b@2", "d"])).await.unwrap();
    let expected = SectionReport { added: 1, updated: 1, unchanged: 1, deleted: 1, ..report(&acme, 2) };
    assert_eq!(store.close_traversal(&traversal, closing()).await.unwrap(), expected);
    assert_eq!(list(&store).await, ["a@1", "b@2", "d@1"]);
    store.compact().await.unwrap();
    assert_eq!(list(&store).await, ["a@1", "b@2", "d@1"]);
    drop(store);
    assert!(files_of(copy.path()) == before);
}

#[tokio::test]
async fn a_dry_run_where_nothing_is_makes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileStore::open_dry_run(&dir.path().join("out")).unwrap();
    let run = store.begin_run(start(&"mobility".into(), Mode::Full)).await.unwrap();
    assert_eq!(run.number, 1);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_crash_between_any_two_steps_leaves_the_steps_before_it() {
    let subject = Subject::files();
    let acme = root("acme");
    subject.crawl(&acme, page(1, &["a@1", "b@1", "old@1"])).await;
    let run = subject.begin().await;
    let traversal = subject.open(&run, &acme).await;
    let mut crashes = vec![crash(subject.dir())];
    subject.commit(&traversal, page(1, &["a@2"])).await;
    crashes.push(crash(subject.dir()));
    subject.commit(&traversal, page(2, &["b@1", "c@1"])).await;
    crashes.push(crash(subject.dir()));
    subject.close(&traversal).await;
    crashes.push(crash(subject.dir()));
    let mut found = Vec::new();
    for crash in &crashes {
        found.push(reopened(crash.path()).await.join(" "));
    }
    assert_eq!(found, ["a@1 b@1 old@1", "a@2 b@1 old@1", "a@2 b@1 c@1 old@1", "a@2 b@1 c@1"]);
}

#[tokio::test]
async fn a_torn_tail_is_cut_off_and_written_over() {
    let mut subject = Subject::files();
    subject.crawl(&root("acme"), page(1, &["a"])).await;
    let copy = crash(subject.dir());
    let path = segment(copy.path(), 1);
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"half a li").unwrap();
    assert_eq!(reopened(copy.path()).await, ["a@1"]);
    assert_eq!(fs::read(&path).unwrap(), b"a@1\n");
    subject.next_process();
    subject.crawl(&root("beta"), page(1, &["b"])).await;
    assert_eq!(fs::read(segment(subject.dir(), 1)).unwrap(), b"a@1\nb@1\n");
}

#[tokio::test]
async fn a_segment_that_lost_its_end_is_reported_and_not_guessed_at() {
    let subject = Subject::files();
    subject.crawl(&root("acme"), page(1, &["a", "b"])).await;
    let copy = crash(subject.dir());
    let path = segment(copy.path(), 1);
    fs::write(&path, b"a@1\n").unwrap();
    let refused = FileStore::open(copy.path()).unwrap_err().to_string();
    let expected = format!("{} has lost its last 4 bytes", path.display());
    assert!(refused.contains(&expected), "{refused}");
}

#[tokio::test]
async fn what_a_crash_left_over_is_removed() {
    let subject = Subject::files();
    subject.crawl(&root("acme"), page(1, &["a"])).await;
    let copy = crash(subject.dir());
    let leftovers = [segment(copy.path(), 2), state(copy.path()).join("segments/tmp")];
    for path in &leftovers {
        fs::write(path, "left over").unwrap();
    }
    assert_eq!(reopened(copy.path()).await, ["a@1"]);
    assert_eq!(leftovers.map(|path| path.exists()), [false, false]);
}

#[tokio::test]
async fn a_failed_write_is_told_with_its_path_and_leaves_no_half_commit() {
    let subject = Subject::files();
    let acme = root("acme");
    let run = subject.begin().await;
    let traversal = subject.open(&run, &acme).await;
    let segments = state(subject.dir()).join("segments");
    fs::remove_dir(&segments).unwrap();
    let refused = subject.store().commit(&traversal, page(1, &["a"])).await.unwrap_err();
    let StoreError::Io { doing, path, .. } = &refused else { panic!("{refused:?}") };
    assert_eq!((*doing, path.as_str()), ("create", segments.join("000001.jsonl").to_str().unwrap()));
    assert_eq!(subject.list().await, [""; 0]);
    // Once the fault is mended, the same task is committed as if nothing had been.
    fs::create_dir(&segments).unwrap();
    let committed = subject.commit(&traversal, page(1, &["a"])).await;
    assert_eq!(committed, Committed { added: 1, seen: 1, ..Committed::default() });
    assert_eq!(subject.list().await, ["acme/a=a@1"]);
}

#[tokio::test]
async fn commits_made_at_the_same_time_are_each_kept_or_refused_on_their_own() {
    let mut subject = Subject::files();
    let run = subject.begin().await;
    let mut stale = Vec::new();
    for number in 0..20_u8 {
        stale.push(subject.open(&run, &root(&format!("node-{number}"))).await);
    }
    subject.next_process();
    // Every other one is opened again; the rest presents an attempt that is open, but whose store is gone.
    let mut current = Vec::new();
    for (number, traversal) in stale.into_iter().enumerate() {
        current.push(if number % 2 == 0 {
            subject.open(&run, &traversal.section).await
        } else {
            subject.open(&run, &traversal.section).await;
            traversal
        });
    }
    let commits = current.iter().enumerate().map(|(number, traversal)| {
        subject.store().commit(traversal, page(u8::try_from(number).unwrap(), &["a", "b", "c"]))
    });
    let results = join_all(commits).await;
    let kept: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(kept, (0..20).map(|number| number % 2 == 0).collect::<Vec<_>>());
    assert_eq!(subject.list().await.len(), 30);
    assert_eq!(subject.feed(0).await.len(), 30);
}

#[tokio::test]
async fn compaction_keeps_everything_readable_and_shrinks() {
    let mut subject = Subject::files();
    let acme = root("acme");
    for version in 1..=8 {
        let ids: Vec<String> = (0..50).map(|id| format!("{id:02}@{version}")).collect();
        subject.crawl(&acme, page(1, &ids.iter().map(String::as_str).collect::<Vec<_>>())).await;
    }
    let before = subject.all().await;
    let bytes =
        |subject: &Subject| -> usize { files_of(&state(subject.dir()).join("segments")).values().map(Vec::len).sum() };
    assert_eq!(bytes(&subject), 8 * 50 * 5);
    subject.store().compact().await.unwrap();
    assert_eq!(bytes(&subject), 50 * 5);
    assert_eq!(subject.all().await, before);
    // Nothing is left to gain, and nothing is moved.
    let files = files_of(&state(subject.dir()).join("segments"));
    subject.store().compact().await.unwrap();
    assert!(files_of(&state(subject.dir()).join("segments")) == files);
    subject.next_process();
    assert_eq!(subject.all().await, before);
    subject.crawl(&acme, page(1, &["00@8"])).await;
}

#[tokio::test]
async fn a_crash_before_old_segments_are_removed_costs_nothing() {
    let subject = Subject::files();
    let acme = root("acme");
    subject.crawl(&acme, page(1, &["a@1", "b@1", "c@1"])).await;
    subject.crawl(&acme, page(1, &["a@2", "b@2", "c@1"])).await;
    subject.crawl(&acme, page(1, &["a@3", "b@3", "c@1"])).await;
    let old = fs::read(segment(subject.dir(), 1)).unwrap();
    subject.store().compact().await.unwrap();
    let copy = crash(subject.dir());
    fs::write(segment(copy.path(), 1), old).unwrap();
    assert_eq!(reopened(copy.path()).await, ["a@3", "b@3", "c@1"]);
    assert!(!segment(copy.path(), 1).exists());
}

/// How many records each commit of the process to be killed has.
const RECORDS_PER_COMMIT: usize = 40;
/// Makes the test below do its work: it stands in the working directory.
const MARK: &str = "commit-until-killed";

/// Not a test by itself: the process that the next one kills. Says which commits were acknowledged.
#[tokio::test]
async fn a_process_that_commits_until_it_is_killed() {
    if !Path::new(MARK).exists() {
        return;
    }
    let store = FileStore::open(Path::new(".")).unwrap();
    let catalog = CatalogName::from("mobility");
    let run = match store.unfinished_run(&catalog).await.unwrap() {
        Some(run) => run.run,
        None => store.begin_run(start(&catalog, Mode::Full)).await.unwrap().run,
    };
    let Opened::Open { traversal, .. } = store.open_traversal(&run, &root("acme")).await.unwrap() else {
        panic!("not open")
    };
    let known = list(&store).await.len() / RECORDS_PER_COMMIT;
    for commit in known.. {
        let ids: Vec<String> = (0..RECORDS_PER_COMMIT).map(|id| format!("{commit:05}-{id:02}")).collect();
        let mut effects = page(0, &ids.iter().map(String::as_str).collect::<Vec<_>>());
        effects.task.0[..8].copy_from_slice(&commit.to_be_bytes());
        store.commit(&traversal, effects).await.unwrap();
        println!("acknowledged {}", commit + 1);
    }
}

#[tokio::test]
async fn a_process_killed_at_any_instant_loses_no_acknowledged_commit_and_leaves_no_half_one() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(MARK), "").unwrap();
    let mut acknowledged = 0;
    for round in 1..=8 {
        let test = "store_contract::files::a_process_that_commits_until_it_is_killed";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .current_dir(dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut seen = 0;
        for line in lines {
            if let Some((_, number)) = line.split_once("acknowledged ") {
                acknowledged = number.parse::<usize>().unwrap();
                seen += 1;
                if seen == round * 3 {
                    // What it acknowledges from here on until it is dead is read all the same.
                    child.kill().unwrap();
                }
            }
        }
        child.wait().unwrap();
        let kept = list(&FileStore::open(dir.path()).unwrap()).await;
        assert_eq!(kept.len() % RECORDS_PER_COMMIT, 0, "a commit was torn");
        let commits = kept.len() / RECORDS_PER_COMMIT;
        assert!(commits >= acknowledged, "{acknowledged} were acknowledged, {commits} are there");
        let expected =
            (0..commits).flat_map(|commit| (0..RECORDS_PER_COMMIT).map(move |id| format!("{commit:05}-{id:02}@1")));
        assert!(kept.into_iter().eq(expected));
    }
}
