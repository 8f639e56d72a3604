//! How fast a federation of many connectors is crawled, and with how much memory: `trawler run` as a process, against a
//! stub federation in another, on the same machine. The yardstick, in the same run: a loop over bare sockets that reads
//! the same answers and throws them away.
//!
//! `cargo bench --bench crawl -- [--nodes 1000] [--datasets 100] [--page-size 100] [--rounds 3]`
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints its figures and stops at any fault")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

mod bare;
mod stub;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Parser;
use serde_json::Value;

#[derive(Debug, Parser)]
struct Arguments {
    /// Connectors
    #[arg(long, default_value_t = 1000)]
    nodes: usize,
    /// Datasets of each connector, of about 1.2 kB
    #[arg(long, default_value_t = 100)]
    datasets: usize,
    /// Datasets a page
    #[arg(long, default_value_t = 100)]
    page_size: usize,
    /// How often everything is measured
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Be the stub, and write manifests here
    #[arg(long, hide = true)]
    serve: Option<PathBuf>,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let arguments = Arguments::parse();
    match &arguments.serve {
        Some(manifests) => stub::serve(arguments.nodes, arguments.datasets, arguments.page_size, manifests).unwrap(),
        None => measure(&arguments),
    }
}

fn measure(arguments: &Arguments) {
    let place = tempfile::tempdir().unwrap();
    let manifests = place.path().join("manifests.yaml");
    let mut stub = start_stub(arguments, &manifests);
    let endpoints = bare::endpoints(&std::fs::read_to_string(&manifests).unwrap());
    let records = (arguments.nodes * arguments.datasets) as f64;
    println!(
        "{} nodes with {} datasets each, {} a page, {} cores",
        arguments.nodes,
        arguments.datasets,
        arguments.page_size,
        std::thread::available_parallelism().map_or(0, usize::from)
    );
    for round in 1..=arguments.rounds {
        let started = Instant::now();
        let bare_bytes = bare::read_all(&endpoints);
        let bare_rate = records / started.elapsed().as_secs_f64();
        println!("round {round}: bare sockets  {bare_rate:>9.0} records/s  ({} MB)", bare_bytes / 1_000_000);
        let out = place.path().join(format!("out-{round}"));
        for name in ["first crawl", "second crawl"] {
            let crawl = crawl(&manifests, &out);
            let rate = records / crawl.wall.as_secs_f64();
            let crawl_seconds = crawl.seconds();
            println!(
                "round {round}: {name:12}  {:>9.0} records/s crawling ({:.2} s), {rate:.0} the whole command ({:.2} s), ratio {:.2}, \
                 peak {} MiB, {} requests, {} MB",
                records / crawl_seconds,
                crawl_seconds,
                crawl.wall.as_secs_f64(),
                records / crawl_seconds / bare_rate,
                crawl.peak_kib / 1024,
                crawl.report["totals"]["requests"],
                crawl.report["totals"]["bytes"].as_u64().unwrap_or(0) / 1_000_000,
            );
            println!(
                "         added {} unchanged {}; seconds in stages (summed over tasks): {}",
                crawl.report["totals"]["added"], crawl.report["totals"]["unchanged"], crawl.report["stageSeconds"]
            );
        }
        std::fs::remove_dir_all(out).unwrap();
    }
    drop(stub.stdin.take());
    stub.wait().unwrap();
}

fn start_stub(arguments: &Arguments, manifests: &Path) -> Child {
    let mut stub = Command::new(std::env::current_exe().unwrap())
        .args(["--nodes", &arguments.nodes.to_string(), "--datasets", &arguments.datasets.to_string()])
        .args(["--page-size", &arguments.page_size.to_string(), "--serve"])
        .arg(manifests)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(stub.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    stub
}

struct Crawl {
    wall: Duration,
    peak_kib: u64,
    report: Value,
}

impl Crawl {
    /// From the beginning of the run to the last record stored and judged: without reading the manifests before, and
    /// without writing the result after.
    fn seconds(&self) -> f64 {
        let at = |field: &str| -> jiff::Timestamp { self.report[field].as_str().unwrap().parse().unwrap() };
        at("finishedAt").duration_since(at("startedAt")).as_secs_f64()
    }
}

/// Runs the command and samples its highest resident size, which the kernel keeps for it.
fn crawl(manifests: &Path, out: &Path) -> Crawl {
    let started = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_trawler"))
        .args(["run", "--quiet", "--allow-private", "127.0.0.0/8", "-f"])
        .arg(manifests)
        .arg("-d")
        .arg(out)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak_kib = 0;
    let ended = loop {
        if let Some(line) = std::fs::read_to_string(&status).ok().as_deref().and_then(high_water_mark) {
            peak_kib = peak_kib.max(line);
        }
        if let Some(ended) = child.try_wait().unwrap() {
            break ended;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let wall = started.elapsed();
    assert!(ended.success(), "the crawl ended with {ended}");
    let report = serde_json::from_slice(&std::fs::read(out.join("report.json")).unwrap()).unwrap();
    Crawl { wall, peak_kib, report }
}

fn high_water_mark(status: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok())
}
