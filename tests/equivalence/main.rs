//! Random federations that change between and during runs: after each run, store, report and difference are those of a
//! model that sees only what the servers said.
//!
//! `TRAWLER_HISTORIES=100000` plays more of them; `TRAWLER_SEED=17 TRAWLER_HISTORIES=1` plays one again.

#![allow(
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod compare;
mod drive;
mod history;
#[path = "../support/http_server.rs"]
#[expect(dead_code, reason = "other tests use the rest of it")]
mod http_server;
mod manifests;
mod model;
mod serve;
mod shrink;
mod tampered;
mod time;
mod traversal;
mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::drive::{Held, Stage};
use crate::history::History;
use crate::shrink::shrink;
use crate::tampered::Defect;

/// Histories played unless `TRAWLER_HISTORIES` says otherwise.
const HISTORIES: u64 = 2_000;

/// Histories in which a defect has to show.
const HISTORIES_PER_DEFECT: u64 = 150;

/// A history waits now and then (for disks and for the system), so there are more threads than cores.
const THREADS: usize = 8;

#[test]
fn store_report_and_difference_are_the_models_after_every_run() {
    let (first, count) = (number_from("TRAWLER_SEED", 1), number_from("TRAWLER_HISTORIES", HISTORIES));
    let played = Mutex::new(Vec::new());
    let failed = Mutex::new(None);
    let next = AtomicU64::new(first);
    on_all_threads(|| {
        on_a_stage(async |stage| {
            loop {
                let seed = next.fetch_add(1, Ordering::SeqCst);
                if seed >= first + count || failed.lock().unwrap().is_some() {
                    return;
                }
                let history = History::of(seed);
                match stage.play(&history, None).await {
                    Ok(held) => played.lock().unwrap().push(held),
                    Err(why) => drop(failed.lock().unwrap().get_or_insert((seed, history, why))),
                }
            }
        });
    });
    if let Some((seed, history, why)) = failed.into_inner().unwrap() {
        let mut told = format!("history {seed}, {history}\nwent another way than the model: {why}");
        on_a_stage(async |stage| {
            if let Some((smaller, why)) = shrink(stage, &history, None).await {
                told = format!("{told}\n\nSmaller: {smaller}\n{why}");
            }
        });
        panic!("{told}\n\nPlay it again with TRAWLER_SEED={seed} TRAWLER_HISTORIES=1");
    }
    let (all_three, told) = tell(&played.into_inner().unwrap());
    println!("{told}");
    assert!(count < 100 || all_three * 4 >= count, "too few histories hold a kill, a partial traversal and a deletion");
}

#[test]
fn every_seeded_defect_is_found() {
    let found_in = Mutex::new(Vec::new());
    let next = AtomicU64::new(0);
    on_all_threads(|| {
        on_a_stage(async |stage| {
            loop {
                let at = usize::try_from(next.fetch_add(1, Ordering::SeqCst)).unwrap();
                let Some(defect) = Defect::ALL.get(at) else { return };
                let mut found = None;
                for seed in 0..HISTORIES_PER_DEFECT {
                    if let Err(why) = stage.play(&History::of(seed), Some(*defect)).await {
                        found = Some((seed, why));
                        break;
                    }
                }
                found_in.lock().unwrap().push((*defect, found));
            }
        });
    });
    for (defect, found) in found_in.into_inner().unwrap() {
        let (seed, why) =
            found.unwrap_or_else(|| panic!("{defect:?} is not found in {HISTORIES_PER_DEFECT} histories"));
        println!("{defect:?} is found in history {seed}: {}", why.lines().next().unwrap_or_default());
    }
}

/// How many histories held a kill, a partial traversal and a deletion; and how many held what, in words.
fn tell(played: &[Held]) -> (u64, String) {
    let count = |holds: &dyn Fn(&Held) -> bool| played.iter().filter(|held| holds(held)).count() as u64;
    let sum = |part: &dyn Fn(&Held) -> u64| played.iter().map(part).sum::<u64>();
    let all_three = count(&|held| held.kills > 0 && held.partial > 0 && held.deleted > 0);
    let told = format!(
        "{} histories of {} runs with {} requests; {} hold a kill ({} in all), {} a partial traversal, {} a deletion ({} \
         records, {} of which had moved while the list was read), {all_three} all three",
        played.len(),
        sum(&|held| held.runs),
        sum(&|held| held.requests),
        count(&|held| held.kills > 0),
        sum(&|held| held.kills),
        count(&|held| held.partial > 0),
        count(&|held| held.deleted > 0),
        sum(&|held| held.deleted),
        sum(&|held| held.slipped),
    );
    (all_three, told)
}

fn on_all_threads(work: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(&work);
        }
    });
}

/// On one thread, so that a process that is killed is gone at once.
fn on_a_stage(work: impl AsyncFnOnce(&Stage)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { work(&Stage::new()).await });
}

fn number_from(variable: &str, default: u64) -> u64 {
    let given = std::env::vars().find(|(name, _)| name == variable);
    given.map_or(default, |(_, value)| value.parse().unwrap())
}
