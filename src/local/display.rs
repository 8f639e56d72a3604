//! What a person sees while a run goes on: a bar per node on a terminal, plain lines elsewhere. Always on standard error,
//! so that standard output holds the result alone.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;

use super::summary::{NAME_WIDTH, Summary, counted, plural};
use super::text::shown;
use super::time_left::TimeLeft;
use super::waiting::{PROBLEM_WIDTH, why_it_waits};
use crate::clock::Stopwatch;
use crate::crawler::{NodeCounts, Progress};
use crate::queue::{LaneStatus, Ledger, RunConfig};
use crate::run::observe::RunInput;
use crate::store::RunState;
use crate::task::NodeName;

/// More nodes than this share one bar: a screen has so many lines.
const MAX_BARS: usize = 20;

/// Between two plain lines.
const PLAIN_INTERVAL: Duration = Duration::from_secs(5);

/// What is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisplayMode {
    /// Nothing.
    Quiet,
    /// A line now and then.
    Plain,
    /// Bars.
    Bars,
}

impl DisplayMode {
    /// Bars on a terminal, lines elsewhere.
    pub fn detect() -> Self {
        if io::stderr().is_terminal() { Self::Bars } else { Self::Plain }
    }
}

/// The display of one run.
#[derive(Debug, Clone)]
pub struct Display {
    mode: DisplayMode,
    screen: MultiProgress,
    drawn: Arc<Mutex<Drawn>>,
}

#[derive(Debug, Default)]
struct Drawn {
    bars: BTreeMap<NodeName, ProgressBar>,
    summary: Option<ProgressBar>,
    started: Option<Stopwatch>,
    time_left: TimeLeft,
    last_line: Option<Duration>,
}

impl Display {
    /// A display that shows nothing yet.
    pub fn new(mode: DisplayMode) -> Self {
        let screen = MultiProgress::new();
        if mode != DisplayMode::Bars {
            screen.set_draw_target(ProgressDrawTarget::hidden());
        }
        Self { mode, screen, drawn: Arc::default() }
    }

    /// Where log lines go so that they don't tear the bars.
    pub fn log_writer(&self) -> LogWriter {
        LogWriter { screen: self.screen.clone() }
    }

    pub(super) fn begin(
        &self,
        input: &RunInput,
        state: &RunState,
        progress: &Progress,
        queue: Option<&RunConfig>,
        resumed: bool,
    ) {
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        drawn.time_left = queue.map(TimeLeft::new).unwrap_or_default();
        drawn.started = Some(Stopwatch::start());
        let nodes: Vec<NodeName> = progress.iter().map(|(name, _)| name.clone()).collect();
        let verb = if resumed { "Resuming" } else { "Crawling" };
        let headline = format!(
            "{verb} Catalog {} ({}), run {}",
            input.catalog_name(),
            counted(nodes.len() as u64, "node"),
            state.number
        );
        match self.mode {
            DisplayMode::Quiet => {}
            DisplayMode::Plain => say(&headline),
            DisplayMode::Bars => {
                self.screen.println(&headline).unwrap_or_default();
                if nodes.len() <= MAX_BARS {
                    for name in nodes {
                        let bar = self.screen.add(ProgressBar::no_length().with_style(spinner_style()));
                        bar.set_prefix(shown(name.as_str(), NAME_WIDTH));
                        drawn.bars.insert(name, bar);
                    }
                }
                let style = ProgressStyle::with_template("{wide_msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
                let summary = self.screen.add(ProgressBar::no_length().with_style(style));
                // Redrawn by itself: a change that comes right after another one is not drawn.
                summary.enable_steady_tick(Duration::from_millis(100));
                drawn.summary = Some(summary);
            }
        }
    }

    /// Tells something that a person should know, whatever else is shown.
    pub(super) fn note(&self, sentence: &str) {
        match self.mode {
            DisplayMode::Bars => self.screen.println(sentence).unwrap_or_default(),
            DisplayMode::Quiet | DisplayMode::Plain => say(sentence),
        }
    }

    pub(super) fn update(&self, progress: &Progress, ledger: &Ledger, lanes: &[LaneStatus], now: Timestamp) {
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed = drawn.started.map_or(Duration::ZERO, |started| started.elapsed());
        if self.mode == DisplayMode::Quiet {
            return;
        }
        let nodes: Vec<(&NodeName, NodeCounts)> = progress.iter().collect();
        let time_left = drawn.time_left.look(elapsed, nodes.iter().map(|(name, counts)| (*name, counts)), lanes, now);
        let tasks_waiting = ledger.queued + ledger.delayed;
        let summary = Summary { nodes: &nodes, lanes, tasks_waiting, time_left, elapsed, now };
        match self.mode {
            DisplayMode::Quiet => {}
            DisplayMode::Plain => {
                if drawn.last_line.is_none_or(|last| elapsed >= last + PLAIN_INTERVAL) && elapsed >= PLAIN_INTERVAL {
                    drawn.last_line = Some(elapsed);
                    say(&summary.line());
                }
            }
            DisplayMode::Bars => {
                for (name, counts) in &nodes {
                    if let Some(bar) = drawn.bars.get(*name) {
                        draw_node(bar, counts, wait_of(name, counts, lanes, now));
                    }
                }
                if let Some(bar) = &drawn.summary {
                    bar.set_message(summary.line());
                }
            }
        }
    }

    pub(super) fn end(&self) {
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        for bar in std::mem::take(&mut drawn.bars).into_values() {
            bar.finish_and_clear();
        }
        if let Some(summary) = drawn.summary.take() {
            summary.finish_and_clear();
        }
        self.screen.clear().unwrap_or_default();
    }
}

fn draw_node(bar: &ProgressBar, counts: &NodeCounts, waits: Option<String>) {
    if (counts.total > 0 || counts.is_finished()) && bar.length().is_none() {
        bar.set_style(bar_style());
    }
    if counts.is_finished() {
        bar.set_length(counts.records.max(1));
    } else if counts.total > 0 {
        bar.set_length(counts.total.max(counts.records));
    }
    bar.set_position(counts.records);
    let state = if counts.is_finished() {
        if counts.failed_tasks > 0 { "failed".to_owned() } else { "done".to_owned() }
    } else if let Some(waits) = waits {
        waits
    } else if let Some(problem) = &counts.last_problem {
        format!("retrying: {}", shown(problem, PROBLEM_WIDTH))
    } else {
        String::new()
    };
    let (records, requests) = (counts.records, counts.requests);
    let (record, request) = (plural(records, "record"), plural(requests, "request"));
    bar.set_message(format!("{records:>6} {record:<7} {requests:>5} {request:<8}  {state}"));
}

fn wait_of(name: &NodeName, counts: &NodeCounts, lanes: &[LaneStatus], now: Timestamp) -> Option<String> {
    let lane = lanes.iter().find(|lane| lane.leased == 0 && lane.nodes.contains(name))?;
    Some(why_it_waits(lane.waiting.as_ref()?, counts.last_problem.as_deref(), now))
}

fn spinner_style() -> ProgressStyle {
    ProgressStyle::with_template("{prefix:24} {spinner}                      {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner())
}

fn bar_style() -> ProgressStyle {
    ProgressStyle::with_template("{prefix:24} [{bar:20.cyan}] {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}

/// Writes one line to standard error. A closed standard error is no reason to stop crawling.
fn say(line: &str) {
    writeln!(io::stderr(), "{line}").unwrap_or_default();
}

/// Writes log lines above the bars.
#[derive(Debug, Clone)]
pub struct LogWriter {
    screen: MultiProgress,
}

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.screen.suspend(|| io::stderr().write_all(line))?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
