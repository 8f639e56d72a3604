//! What the file store costs a record: a first crawl, an unchanged one, and an export, beside writing the same bytes to a
//! plain file. `cargo bench --bench store [sections] [records per section]`
//!
//! `cargo bench --bench store -- redis [sections] [records per section]`: the store in Redis, beside the same bytes put into hashes
//! of the same server by pipelined commands.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints, and stops at the first fault")]

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use trawler::clock::Stopwatch;
use trawler::record::ContentHash;
use trawler::redis::RedisSettings;
use trawler::store::files::FileStore;
use trawler::store::redis::{RedisStore, Session};
use trawler::store::{
    CloseTraversal, DeletionGuard, Mode, Opened, RecordFilter, RecordWrite, RunStart, Store, TaskEffects,
};
use trawler::task::{CatalogName, NodeName, SectionKey, TaskId};

#[path = "queue/server.rs"]
#[allow(dead_code, unreachable_pub, reason = "the bench of the queue needs more of it")]
mod server;

const PAYLOAD_BYTES: usize = 2000;
const RECORDS_PER_COMMIT: usize = 50;
const WORKERS: usize = 16;

fn main() {
    let mut sizes = std::env::args().skip(1).filter_map(|arg| arg.parse().ok());
    let sections: usize = sizes.next().unwrap_or(1000);
    let per_section: usize = sizes.next().unwrap_or(100);
    let records = sections * per_section;
    println!("{sections} sections of {per_section} records of {PAYLOAD_BYTES} bytes, {RECORDS_PER_COMMIT} a commit");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    if std::env::args().any(|arg| arg == "redis") {
        runtime.block_on(redis(sections, per_section));
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    runtime.block_on(async {
        let plain = measure("plain file", records, async { write_plain(dir.path(), records) }).await;
        let store: Arc<dyn Store> = Arc::new(FileStore::open(dir.path()).unwrap());
        let first = measure("first crawl", records, crawl(&store, sections, per_section)).await;
        let second = measure("unchanged crawl", records, crawl(&store, sections, per_section)).await;
        let export = measure("export", records, export(&store, records)).await;
        for (what, time) in [("first crawl", first), ("unchanged crawl", second), ("export", export)] {
            println!("{what}: {:.2} times the plain file", time.as_secs_f64() / plain.as_secs_f64());
        }
        println!("index: {} bytes", std::fs::metadata(dir.path().join(".trawler/index.redb")).unwrap().len());
    });
}

/// Prints what a step costs: wall time, and the processor time of the whole process.
async fn measure(what: &str, records: usize, work: impl Future<Output = ()>) -> Duration {
    let processor = processor_time();
    let watch = Stopwatch::start();
    work.await;
    let wall = watch.elapsed();
    let processor = processor_time().zip(processor).map(|(after, before)| after.saturating_sub(before));
    let per_record = |time: Duration| time.as_nanos() / records as u128;
    let cost = processor.map_or("?".to_owned(), |time| format!("{} ns", per_record(time)));
    let rate = records as f64 / wall.as_secs_f64();
    let peak = peak_memory().unwrap_or_default();
    println!(
        "{what:16} {rate:>9.0} records/s  {:>6} ns/record  processor {cost}/record  peak memory {peak}",
        per_record(wall)
    );
    wall
}

/// A first crawl, an unchanged one, an export, and a crawl that finds one record of each section.
async fn redis(sections: usize, per_section: usize) {
    let server = server::Server::start().await.unwrap();
    let records = sections * per_section;
    let settings =
        RedisSettings { url: server.url.clone(), password_file: None, ca_file: None, instance: "bench".to_owned() };
    server.flush().await.unwrap();
    let plain = of_server(&server, "pipelined HSET", records, put_plain(&server, sections, per_section)).await;
    server.flush().await.unwrap();
    let before = server.memory().await.unwrap();
    let store: Arc<dyn Store> = Arc::new(RedisStore::open(&settings, Session::New).await.unwrap());
    let first = of_server(&server, "first crawl", records, crawl(&store, sections, per_section)).await;
    let bytes = (server.memory().await.unwrap() - before) / records as f64;
    let second = of_server(&server, "unchanged crawl", records, crawl(&store, sections, per_section)).await;
    let export = of_server(&server, "export", records, export(&store, records)).await;
    let swept = of_server(&server, "all swept but 1", records, crawl(&store, sections, 1)).await;
    for (what, time) in [("first crawl", first), ("unchanged crawl", second), ("export", export), ("sweep", swept)] {
        println!("{what}: {:.2} times the pipelined HSET", time.as_secs_f64() / plain.as_secs_f64());
    }
    println!("{bytes:.0} bytes of the server a record");
    println!("longest calls: {}", server.longest_calls().await.unwrap());
}

async fn of_server(server: &server::Server, what: &str, records: usize, work: impl Future<Output = ()>) -> Duration {
    let before = server.cpu_us().await.unwrap();
    let wall = measure(what, records, work).await;
    let cost = (server.cpu_us().await.unwrap() - before) / records as f64;
    println!("{:16} server {cost:.1} us/record", "");
    wall
}

async fn put_plain(server: &server::Server, sections: usize, per_section: usize) {
    let connection = server.connect().await.unwrap();
    let next = Arc::new(AtomicUsize::new(0));
    let workers = (0..WORKERS).map(|_| {
        let (mut connection, next) = (connection.clone(), next.clone());
        tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= sections {
                    return;
                }
                for first in (0..per_section).step_by(RECORDS_PER_COMMIT) {
                    let mut put = redis::cmd("HSET");
                    put.arg(format!("section-{number}"));
                    for write in page(number, first..per_section.min(first + RECORDS_PER_COMMIT)).records {
                        put.arg(write.id).arg(&write.payload[..]);
                    }
                    put.query_async::<()>(&mut connection).await.unwrap();
                }
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
}

fn write_plain(dir: &Path, records: usize) {
    let mut file = std::io::BufWriter::with_capacity(256 << 10, std::fs::File::create(dir.join("plain")).unwrap());
    let mut line = vec![b'x'; PAYLOAD_BYTES];
    line.push(b'\n');
    for _ in 0..records {
        file.write_all(&line).unwrap();
    }
    file.flush().unwrap();
}

async fn crawl(store: &Arc<dyn Store>, sections: usize, per_section: usize) {
    let start = RunStart {
        catalog: CatalogName::from("bench"),
        mode: Mode::Full,
        spec: String::new(),
        started_at: Timestamp::UNIX_EPOCH,
    };
    let run = store.begin_run(start).await.unwrap().run;
    let next = Arc::new(AtomicUsize::new(0));
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let (store, run, next) = (store.clone(), run.clone(), next.clone());
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= sections {
                        return;
                    }
                    let section = SectionKey::root_of(NodeName::from(format!("node-{number:06}")));
                    let Opened::Open { traversal, .. } = store.open_traversal(&run, &section).await.unwrap() else {
                        return;
                    };
                    for first in (0..per_section).step_by(RECORDS_PER_COMMIT) {
                        let ids = first..per_section.min(first + RECORDS_PER_COMMIT);
                        store.commit(&traversal, page(number, ids)).await.unwrap();
                    }
                    let close = CloseTraversal {
                        cut_short: None,
                        guard: DeletionGuard { max_percent: 100, min_records: 50 },
                        approved: Vec::new(),
                        at: Timestamp::UNIX_EPOCH,
                    };
                    store.close_traversal(&traversal, close).await.unwrap();
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    store.finish_run(&run, "").await.unwrap();
}

fn page(section: usize, ids: std::ops::Range<usize>) -> TaskEffects {
    let mut task = [0; 16];
    task[..8].copy_from_slice(&section.to_le_bytes());
    task[8..].copy_from_slice(&ids.start.to_le_bytes());
    let task = TaskId(*blake3::hash(&task).as_bytes().first_chunk().unwrap());
    let payload = Bytes::from(vec![b'x'; PAYLOAD_BYTES]);
    let write = |id: usize| RecordWrite {
        id: format!("https://node-{section:06}.example/dataset/{id:08}"),
        hash: ContentHash([u8::try_from(id % 251).unwrap(); 16]),
        payload: payload.clone(),
    };
    TaskEffects { task, records: ids.map(write).collect(), ..TaskEffects::default() }
}

async fn export(store: &Arc<dyn Store>, expected: usize) {
    let (catalog, filter) = (CatalogName::from("bench"), RecordFilter::default());
    let mut after = None;
    let mut count = 0;
    loop {
        let records = store.records(&catalog, &filter, after.as_ref(), 1000).await.unwrap();
        count += records.len();
        match records.into_iter().last() {
            Some(last) => after = Some(last.key),
            None => break,
        }
    }
    assert_eq!(count, expected);
}

/// User and system time of this process, where the kernel tells (in ticks of 10 ms).
fn processor_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * 10))
}

fn peak_memory() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().to_owned())
}
