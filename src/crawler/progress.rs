//! Counters for people who watch: cheap to write, read by the progress display. Nothing is decided by them.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::store::SoFar;
use crate::task::{NodeName, SectionKey};

/// Per-node counters of one run, and where its time goes.
#[derive(Debug, Default)]
pub struct Progress {
    nodes: BTreeMap<NodeName, NodeProgress>,
    /// Sections that crawlers of this process are traversing.
    opened: Mutex<HashSet<SectionKey>>,
    stages: [AtomicU64; 4],
}

/// A stage of a task. Times are summed over all tasks, so with several under way they add up to more than the run took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// From the request to the last byte of the answer.
    Fetch,
    /// From bytes to records.
    Decode,
    /// From records to what is stored.
    Serialise,
    /// Until the store has it.
    Store,
}

/// Seconds spent in each stage, summed over all tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StageSeconds {
    /// From the request to the last byte of the answer.
    pub fetch: f64,
    /// From bytes to records.
    pub decode: f64,
    /// From records to what is stored.
    pub serialise: f64,
    /// Until the store has it.
    pub store: f64,
}

/// What one node has had so far.
#[derive(Debug, Default)]
pub struct NodeProgress {
    requests: AtomicU64,
    records: AtomicU64,
    bytes: AtomicU64,
    total: AtomicU64,
    failed_tasks: AtomicU64,
    open_sections: AtomicU64,
    earlier_requests: AtomicU64,
    earlier_records: AtomicU64,
    last_problem: Mutex<Option<String>>,
}

/// The counters at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Requests answered.
    pub requests: u64,
    /// Records found.
    pub records: u64,
    /// Decoded bytes received.
    pub bytes: u64,
    /// The server's own total; 0: not known.
    pub total: u64,
    /// Tasks given up.
    pub failed_tasks: u64,
    /// Sections being traversed.
    pub open_sections: u64,
    /// Requests that were answered before the run was resumed; counted in `requests` too.
    pub earlier_requests: u64,
    /// Records that were found before the run was resumed; counted in `records` too.
    pub earlier_records: u64,
    /// The latest problem, in one sentence.
    pub last_problem: Option<String>,
}

impl NodeCounts {
    /// Whether something was asked and nothing is under way any more.
    pub fn is_finished(&self) -> bool {
        self.open_sections == 0 && (self.requests > 0 || self.failed_tasks > 0)
    }

    /// Requests answered since the run began or was resumed.
    pub fn new_requests(&self) -> u64 {
        self.requests.saturating_sub(self.earlier_requests)
    }

    /// Records found since the run began or was resumed.
    pub fn new_records(&self) -> u64 {
        self.records.saturating_sub(self.earlier_records)
    }
}

impl Progress {
    /// Counters for these nodes.
    pub fn new(nodes: impl IntoIterator<Item = NodeName>) -> Self {
        Self { nodes: nodes.into_iter().map(|name| (name, NodeProgress::default())).collect(), ..Self::default() }
    }

    /// A crawler works on a section. Only the first one of this process counts; what the traversal had come to by then
    /// was got before the run was resumed.
    pub fn open_section(&self, section: &SectionKey, so_far: SoFar) {
        let is_first = self.opened.lock().is_ok_and(|mut opened| opened.insert(section.clone()));
        if let Some(node) = self.node(&section.node).filter(|_| is_first) {
            node.open_sections.fetch_add(1, Ordering::Relaxed);
            node.add_earlier(so_far);
        }
    }

    /// A section is traversed.
    pub fn close_section(&self, section: &SectionKey) {
        let was_open = self.opened.lock().is_ok_and(|mut opened| opened.remove(section));
        if let Some(node) = self.node(&section.node).filter(|_| was_open) {
            node.open_sections.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(super) fn add_time(&self, stage: Stage, spent: Duration) {
        let spent_ns = u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX);
        self.stages[stage as usize].fetch_add(spent_ns, Ordering::Relaxed);
    }

    /// Where the time went so far.
    pub fn stage_seconds(&self) -> StageSeconds {
        let seconds = |stage: Stage| self.stages[stage as usize].load(Ordering::Relaxed) as f64 / 1e9;
        StageSeconds {
            fetch: seconds(Stage::Fetch),
            decode: seconds(Stage::Decode),
            serialise: seconds(Stage::Serialise),
            store: seconds(Stage::Store),
        }
    }

    /// One node's counters.
    pub fn node(&self, name: &NodeName) -> Option<&NodeProgress> {
        self.nodes.get(name)
    }

    /// All nodes, in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&NodeName, NodeCounts)> {
        self.nodes.iter().map(|(name, node)| (name, node.counts()))
    }
}

impl NodeProgress {
    /// Requests were answered, with so many decoded bytes.
    pub fn add_answer(&self, requests: u64, bytes: u64) {
        self.requests.fetch_add(requests, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Records were found, and perhaps the server's own number of them.
    pub fn add_page(&self, records: u64, total: Option<u64>) {
        self.records.fetch_add(records, Ordering::Relaxed);
        if let Some(total) = total {
            self.total.fetch_max(total, Ordering::Relaxed);
        }
    }

    /// A task was given up.
    pub fn add_failure(&self) {
        self.failed_tasks.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts what the run had come to before it was resumed: no measure of how fast it is now.
    pub fn add_earlier(&self, so_far: SoFar) {
        self.earlier_requests.fetch_add(so_far.requests, Ordering::Relaxed);
        self.earlier_records.fetch_add(so_far.records, Ordering::Relaxed);
        self.add_answer(so_far.requests, so_far.bytes);
        self.add_page(so_far.records, so_far.total);
    }

    /// The latest problem, in one sentence.
    pub fn set_problem(&self, sentence: &str) {
        if let Ok(mut problem) = self.last_problem.lock() {
            *problem = Some(sentence.to_owned());
        }
    }

    /// The counters now.
    pub fn counts(&self) -> NodeCounts {
        NodeCounts {
            requests: self.requests.load(Ordering::Relaxed),
            records: self.records.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            total: self.total.load(Ordering::Relaxed),
            failed_tasks: self.failed_tasks.load(Ordering::Relaxed),
            open_sections: self.open_sections.load(Ordering::Relaxed),
            earlier_requests: self.earlier_requests.load(Ordering::Relaxed),
            earlier_records: self.earlier_records.load(Ordering::Relaxed),
            last_problem: self.last_problem.lock().ok().and_then(|problem| problem.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_that_several_crawlers_open_counts_once_with_what_it_had_before() {
        let section = SectionKey::root_of("acme".into());
        let progress = Progress::new([section.node.clone()]);
        progress.open_section(&section, SoFar { records: 10, requests: 2, bytes: 100, total: Some(30) });
        let node = progress.node(&section.node).unwrap();
        node.add_answer(1, 50);
        node.add_page(5, Some(30));
        progress.open_section(&section, SoFar { records: 15, requests: 3, bytes: 150, total: Some(30) });
        progress.close_section(&section);
        let expected = NodeCounts {
            requests: 3,
            records: 15,
            bytes: 150,
            total: 30,
            earlier_requests: 2,
            earlier_records: 10,
            ..NodeCounts::default()
        };
        assert_eq!(node.counts(), expected);
        assert_eq!((expected.new_requests(), expected.new_records()), (1, 5));
        assert!(expected.is_finished());
    }
}
