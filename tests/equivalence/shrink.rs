//! From a history that fails to a smaller one that does: people have to read it.

use crate::drive::Stage;
use crate::history::{History, RunPlan};
use crate::tampered::Defect;

/// Histories tried, at most.
const TRIES: usize = 300;

/// A smaller history that fails too, and how; `None` if there is none.
pub(crate) async fn shrink(stage: &Stage, history: &History, defect: Option<Defect>) -> Option<(History, String)> {
    let mut smallest: Option<(History, String)> = None;
    let mut tries = 0;
    loop {
        let start = smallest.as_ref().map_or(history, |(history, _)| history).clone();
        let mut found = None;
        for candidate in smaller(&start) {
            tries += 1;
            if tries > TRIES {
                return smallest;
            }
            if let Err(why) = stage.play(&candidate, defect).await {
                found = Some((candidate, why));
                break;
            }
        }
        match found {
            Some(found) => smallest = Some(found),
            None => return smallest,
        }
    }
}

/// The histories that have one thing less.
fn smaller(history: &History) -> Vec<History> {
    let told = history.to_string();
    let mut all = Vec::new();
    let mut with = |change: &dyn Fn(&mut History)| {
        let mut less = history.clone();
        change(&mut less);
        if less.to_string() != told {
            all.push(less);
        }
    };
    for run in 0..history.runs.len() {
        with(&|history| {
            history.runs.remove(run);
        });
        let RunPlan { before, during, faults, kills, .. } = &history.runs[run];
        for at in 0..before.len() {
            with(&|history| {
                history.runs[run].before.remove(at);
            });
        }
        for at in 0..during.len() {
            with(&|history| {
                history.runs[run].during.remove(at);
            });
        }
        for at in 0..faults.len() {
            with(&|history| {
                history.runs[run].faults.remove(at);
            });
        }
        for at in 0..kills.len() {
            with(&|history| {
                history.runs[run].kills.remove(at);
            });
        }
        with(&|history| history.runs[run].down.clear());
        with(&|history| history.runs[run].absent.clear());
        with(&|history| history.runs[run].limits.clear());
        with(&|history| history.runs[run].approves = false);
        with(&|history| history.runs[run].incremental = false);
    }
    if history.nodes.len() > 1 {
        with(&|history| history.nodes.truncate(history.nodes.len() - 1));
    }
    for node in 0..history.nodes.len() {
        if history.nodes[node].sections.len() > 1 {
            let left = history.nodes[node].sections.len() - 1;
            with(&|history| history.nodes[node].sections.truncate(left));
        }
        for section in 0..history.nodes[node].sections.len() {
            if history.nodes[node].sections[section] > 1 {
                with(&|history| history.nodes[node].sections[section] /= 2);
            }
        }
    }
    if history.in_files {
        with(&|history| history.in_files = false);
    }
    if history.crawlers > 1 || history.concurrency > 1 {
        with(&|history| (history.crawlers, history.concurrency) = (1, 1));
    }
    all
}
