//! What is on the screen: the latest sample, how fast runs are, what a person chose, and what went wrong.

use std::collections::{HashMap, VecDeque};

use jiff::Timestamp;

use super::sample::Sample;
use crate::local::queue::{AskError, Frozen};
use crate::queue::QueueError;
use crate::task::RunId;

/// Samples over which a run's speed is taken.
const SAMPLES: usize = 11;

/// What a person pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// Up, k.
    Up,
    /// Down, j.
    Down,
    /// A letter, or what else has a character.
    Char(char),
    /// Escape.
    Escape,
}

/// What follows from a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Nothing but another frame.
    Draw,
    /// Another run was selected: look at it now.
    Look,
    /// End.
    Quit,
    /// Freeze the run, or thaw it.
    SetFrozen {
        /// The run.
        run: RunId,
        /// Whether it is to be frozen.
        frozen: bool,
    },
}

/// What covers the frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Overlay {
    None,
    Help,
    /// Whether this run is to be frozen, or thawed.
    Confirm {
        run: RunId,
        frozen: bool,
    },
}

/// Everything that a frame shows.
#[derive(Debug, Clone)]
pub struct Screen {
    pub(super) instance: String,
    pub(super) server: String,
    pub(super) sample: Option<Sample>,
    pub(super) selected: Option<RunId>,
    pub(super) overlay: Overlay,
    pub(super) problem: Option<Problem>,
    pub(super) note: Option<String>,
    /// Tasks done, by run.
    done: VecDeque<(Timestamp, HashMap<RunId, u64>)>,
}

/// Why there is no newer sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) why: String,
    pub(super) since: Timestamp,
}

impl Screen {
    /// A screen on which nothing is known yet, with this run selected once it is there. `server` is shown, so it must hold no password.
    pub fn new(instance: &str, server: &str, run: Option<RunId>) -> Self {
        Self {
            instance: instance.to_owned(),
            server: server.to_owned(),
            sample: None,
            selected: run,
            overlay: Overlay::None,
            problem: None,
            note: None,
            done: VecDeque::new(),
        }
    }

    /// The run that is looked at.
    pub fn selected(&self) -> Option<&RunId> {
        self.selected.as_ref()
    }

    /// Whether another run was selected since the latest sample was asked for.
    pub fn lacks_details(&self) -> bool {
        self.selected.is_some() && self.sample.as_ref().is_some_and(|sample| sample.details.is_none())
    }

    /// Takes a new sample, or why there is none: the one before stays, with the reason.
    pub fn take(&mut self, sample: Result<Sample, AskError>, now: Timestamp) {
        match sample {
            Err(error) => {
                let since = self.problem.as_ref().map_or(now, |problem| problem.since);
                let why = match error {
                    // Of all runs.
                    AskError::Queue(QueueError::Lost { why, .. }) => format!("the queue was lost: {why}"),
                    error => error.to_string(),
                };
                self.problem = Some(Problem { why, since });
            }
            Ok(mut sample) => {
                self.problem = None;
                let done = sample.runs.iter().map(|run| (run.run.clone(), run.ledger.done)).collect();
                self.done.push_back((sample.at, done));
                if self.done.len() > SAMPLES {
                    self.done.pop_front();
                }
                let is_there = |run: &RunId| sample.runs.iter().any(|status| status.run == *run);
                if !self.selected.as_ref().is_some_and(is_there) {
                    self.selected = sample.runs.first().map(|status| status.run.clone());
                }
                // Another run was selected since this was asked for.
                sample.details = sample.details.filter(|details| Some(&details.run) == self.selected.as_ref());
                self.sample = Some(sample);
            }
        }
    }

    /// Takes what became of a freeze or thaw.
    pub fn acted(&mut self, done: &Result<Frozen, AskError>) {
        self.note = Some(match done {
            Ok(Frozen { run, frozen: true, .. }) => format!("{run} is frozen"),
            Ok(Frozen { run, frozen: false, .. }) => format!("{run} is not frozen"),
            Err(error) => error.to_string(),
        });
    }

    /// What follows from a key.
    pub fn press(&mut self, key: Key) -> Act {
        match (std::mem::replace(&mut self.overlay, Overlay::None), key) {
            (_, Key::Char('q')) => Act::Quit,
            (Overlay::Confirm { run, frozen }, Key::Char('y' | 'Y')) => Act::SetFrozen { run, frozen },
            (Overlay::None, Key::Up | Key::Char('k')) => self.select(|position| position.saturating_sub(1)),
            (Overlay::None, Key::Down | Key::Char('j')) => self.select(|position| position + 1),
            (Overlay::None, Key::Char('?' | 'h')) => {
                self.overlay = Overlay::Help;
                Act::Draw
            }
            (Overlay::None, Key::Char(key @ ('f' | 't'))) => {
                if let Some(run) = self.selected.clone() {
                    self.overlay = Overlay::Confirm { run, frozen: key == 'f' };
                }
                Act::Draw
            }
            // Whatever is pressed closes what covers the frame.
            _ => Act::Draw,
        }
    }

    fn select(&mut self, step: impl Fn(usize) -> usize) -> Act {
        self.note = None;
        let Some(sample) = &mut self.sample else { return Act::Draw };
        let position = sample.runs.iter().position(|status| Some(&status.run) == self.selected.as_ref());
        let position = step(position.unwrap_or_default()).min(sample.runs.len().saturating_sub(1));
        let chosen = sample.runs.get(position).map(|status| status.run.clone());
        if chosen == self.selected {
            return Act::Draw;
        }
        self.selected = chosen;
        sample.details = None;
        Act::Look
    }

    /// Tasks of a run done in a second, over the last samples; `None`: not known yet.
    pub(super) fn done_per_s(&self, run: &RunId) -> Option<f64> {
        let (last, done) = self.done.back().and_then(|(at, runs)| Some((*at, *runs.get(run)?)))?;
        // A run that was opened anew counts from there.
        let since = self.done.iter().rev().map_while(|(at, runs)| Some((*at, *runs.get(run)?)));
        let (first, before) = since.take_while(|(_, before)| *before <= done).last()?;
        let seconds = last.duration_since(first).as_secs_f64();
        (seconds > 0.0).then(|| (done - before) as f64 / seconds)
    }
}
