//! What a person sees while a run goes on: a bar per node on a terminal, plain lines elsewhere. Always on standard error,
//! so that standard output holds the result alone.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;

use super::observe::RunInput;
use super::text::shown;
use super::time_left::{Estimate, TimeLeft};
use super::waiting::why_it_waits;
use crate::clock::Stopwatch;
use crate::crawler::{NodeCounts, Progress};
use crate::queue::{BudgetId, LaneStatus, Ledger};
use crate::store::RunState;
use crate::task::NodeName;

/// More nodes than this share one bar: a screen has so many lines.
const MAX_BARS: usize = 20;

/// Between two plain lines.
const PLAIN_INTERVAL: Duration = Duration::from_secs(5);

/// The widest name of a node that is shown whole.
const NAME_WIDTH: usize = 24;

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
        budgets: BTreeMap<NodeName, BudgetId>,
        resumed: bool,
    ) {
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        drawn.time_left = TimeLeft::new(budgets);
        drawn.started = Some(Stopwatch::start());
        let nodes: Vec<NodeName> = progress.iter().map(|(name, _)| name.clone()).collect();
        let verb = if resumed { "Resuming" } else { "Crawling" };
        let headline = format!(
            "{verb} Catalog {} ({} node{}), run {}",
            input.catalog_name(),
            nodes.len(),
            if nodes.len() == 1 { "" } else { "s" },
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
        let time_left = drawn.time_left.look(elapsed, nodes.iter().map(|(name, counts)| (*name, counts)), lanes);
        let line = || summary_line(&nodes, ledger, lanes, time_left, elapsed, now);
        match self.mode {
            DisplayMode::Quiet => {}
            DisplayMode::Plain => {
                if drawn.last_line.is_none_or(|last| elapsed >= last + PLAIN_INTERVAL) && elapsed >= PLAIN_INTERVAL {
                    drawn.last_line = Some(elapsed);
                    say(&line());
                }
            }
            DisplayMode::Bars => {
                for (name, counts) in &nodes {
                    if let Some(bar) = drawn.bars.get(*name) {
                        draw_node(bar, counts, wait_of(name, lanes, now));
                    }
                }
                if let Some(summary) = &drawn.summary {
                    summary.set_message(line());
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
        format!("retrying: {}", shown(problem, 60))
    } else {
        String::new()
    };
    bar.set_message(format!("{:>6} records {:>5} requests  {state}", counts.records, counts.requests));
}

fn wait_of(name: &NodeName, lanes: &[LaneStatus], now: Timestamp) -> Option<String> {
    let lane = lanes.iter().find(|lane| lane.leased == 0 && lane.nodes.contains(name))?;
    Some(why_it_waits(lane.waiting.as_ref()?, now))
}

/// One line about everything: what was got, how fast, how long it will still take, what waits and why.
fn summary_line(
    nodes: &[(&NodeName, NodeCounts)],
    ledger: &Ledger,
    lanes: &[LaneStatus],
    time_left: Option<Estimate>,
    elapsed: Duration,
    now: Timestamp,
) -> String {
    let (mut records, mut requests, mut finished) = (0, 0, 0);
    for (_, counts) in nodes {
        records += counts.records;
        requests += counts.requests;
        finished += usize::from(counts.is_finished());
    }
    let nodes = nodes.len();
    let seconds = elapsed.as_secs_f64().max(0.001);
    let mut line = format!(
        "{:.0} s: {records} records ({:.0}/s), {requests} requests, {finished} of {nodes} nodes done, {} tasks waiting",
        seconds,
        records as f64 / seconds,
        ledger.queued + ledger.delayed
    );
    if let Some(time_left) = time_left {
        line = format!("{line}, {}", time_left.text());
    }
    let waiting = lanes.iter().filter(|lane| lane.leased == 0).find_map(|lane| Some((lane, lane.waiting.as_ref()?)));
    if let Some((lane, waiting)) = waiting {
        let who = lane.nodes.first().map(|node| shown(node.as_str(), NAME_WIDTH)).unwrap_or_default();
        line = format!("{line}; {who} {}", why_it_waits(waiting, now));
    }
    line
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
