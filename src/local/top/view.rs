//! A screen as a frame: the same screen, moment and size give the same frame.

use std::time::Duration;

use jiff::{Timestamp, Unit};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Padding, Paragraph, Widget};
use unicode_width::UnicodeWidthStr as _;

use super::panels::{Panel, holders, lanes, runs, waits};
use super::screen::{Overlay, Screen};
use crate::local::text::{about, shown, shown_width};

/// On a screen as wide as this, waits and holders stand side by side.
const WIDE: u16 = 140;

/// What the keys do, on one line.
const KEYS: &str = "q quit  ↑↓ select  f freeze  t thaw  ? help";

const HELP: [&str; 16] = [
    "↑ k, ↓ j    select a run",
    "f           freeze it: nothing is handed out, what is under way may end",
    "t           thaw it",
    "q, Ctrl-C   quit",
    "",
    "DONE/S      tasks done in a second, over the last ten looks",
    "LANES       tasks that ask one server and count against one budget",
    "OPENS       when the gate opens; -: when a request ends or a person acts",
    "back-off    the server asked to slow down",
    "places      as many requests are under way as may be",
    "API calls   used up in the budget; so for documents and bytes",
    "hours       outside of the budget's allowed hours",
    "retry       a failed task waits for its next try",
    "crash       a task that was in a crash waits for a crawler of its own",
    "suspended   the node is; -: all is being worked on",
    "`trawler queue lanes` says it in sentences.",
];

/// Lines of a sentence that says what is wrong.
const PROBLEM_LINES: usize = 3;

/// A screen at a moment, to be drawn.
#[derive(Debug)]
pub struct View<'a> {
    /// The screen.
    pub screen: &'a Screen,
    /// The moment.
    pub now: Timestamp,
    /// Whether colours are wanted.
    pub colours: bool,
    /// Whether it answers to keys.
    pub is_live: bool,
}

impl Widget for View<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let sample = self.screen.sample.as_ref();
        let details = sample.and_then(|sample| sample.details.as_ref());
        let runs = runs(self.screen);
        let lanes = lanes(details, self.now);
        let waits = waits(details, self.now);
        let holders = holders(details, self.now);
        let [above, below, footer] = Layout::vertical([
            Constraint::Fill(1),
            Constraint::Length(u16::from(self.screen.note.is_some())),
            Constraint::Length(u16::from(self.is_live)),
        ])
        .areas(area);
        let problem = self.problem(area.width);
        let share = |panel: &Panel, parts: u16| panel.height(area.height / parts);
        let is_wide = area.width >= WIDE;
        let bottom =
            if is_wide { share(&waits, 3).max(share(&holders, 3)) } else { share(&waits, 6) + share(&holders, 6) };
        let [header, trouble, first, middle, last] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(u16::try_from(problem.len()).unwrap_or_default()),
            Constraint::Length(share(&runs, 6)),
            Constraint::Max(lanes.height(u16::MAX)),
            Constraint::Length(bottom),
        ])
        .areas(above);
        self.header(header.width).render(header, buffer);
        Paragraph::new(problem).render(trouble, buffer);
        runs.draw(first, buffer, self.colours);
        lanes.draw(middle, buffer, self.colours);
        let [left, right] = if is_wide {
            Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(2).areas(last)
        } else {
            Layout::vertical([Constraint::Length(share(&waits, 6)), Constraint::Fill(1)]).areas(last)
        };
        waits.draw(left, buffer, self.colours);
        holders.draw(right, buffer, self.colours);
        if let Some(note) = &self.screen.note {
            Line::from(shown(note, below.width.into())).render(below, buffer);
        }
        Line::styled(shown(KEYS, footer.width.into()), Modifier::DIM).render(footer, buffer);
        self.overlay(area, buffer);
    }
}

impl View<'_> {
    fn header(&self, width: u16) -> Line<'static> {
        let count = self.screen.sample.as_ref().map_or(0, |sample| sample.runs.len());
        let runs = match (&self.screen.sample, count) {
            (None, _) => "connecting".to_owned(),
            (Some(_), 0) => "no runs".to_owned(),
            (Some(_), 1) => "1 run".to_owned(),
            (Some(_), count) => format!("{count} runs"),
        };
        let time = self.now.round(Unit::Second).unwrap_or(self.now);
        let text = format!("trawler top  {runs}  {time}  {} at {}", self.screen.instance, self.screen.server);
        Line::styled(shown(&text, width.into()), Modifier::BOLD)
    }

    /// Why what is shown is old.
    fn problem(&self, width: u16) -> Vec<Line<'static>> {
        let Some(problem) = &self.screen.problem else { return Vec::new() };
        let mut lines = wrapped(&problem.why, width.into(), PROBLEM_LINES);
        let age = self
            .screen
            .sample
            .as_ref()
            .map_or_else(String::new, |sample| format!("; what is shown is {} old", since(sample.at, self.now)));
        lines.push(shown(&format!("Trying again for {}{age}", since(problem.since, self.now)), width.into()));
        let style = if self.colours { Style::new().fg(Color::Red) } else { Style::new() };
        lines.into_iter().map(|line| Line::styled(line, style.add_modifier(Modifier::BOLD))).collect()
    }

    fn overlay(&self, area: Rect, buffer: &mut Buffer) {
        let (title, lines): (&str, Vec<String>) = match &self.screen.overlay {
            Overlay::None => return,
            Overlay::Help => ("Help", HELP.iter().map(|line| (*line).to_owned()).collect()),
            Overlay::Confirm { run, frozen } => {
                let (verb, what) = if *frozen {
                    ("Freeze", "Nothing is handed out until it is thawed; what is under way may end.")
                } else {
                    ("Thaw", "Its tasks are handed out again.")
                };
                let name = shown(run.as_str(), 60);
                (
                    verb,
                    vec![format!("{verb} {name}?"), what.to_owned(), String::new(), "y yes  any other key no".into()],
                )
            }
        };
        let width = lines.iter().map(|line| line.width()).max().unwrap_or_default() + 4;
        let size = |size: usize| u16::try_from(size).unwrap_or(u16::MAX);
        let covered = area.centered(Constraint::Length(size(width)), Constraint::Length(size(lines.len() + 2)));
        Clear.render(covered, buffer);
        let block = Block::bordered().title(title).padding(Padding::horizontal(1));
        Paragraph::new(lines.into_iter().map(Line::from).collect::<Vec<_>>()).block(block).render(covered, buffer);
    }
}

fn since(at: Timestamp, now: Timestamp) -> String {
    about(Duration::try_from(now.duration_since(at)).unwrap_or_default())
}

/// A text over several lines, broken between words; what doesn't fit is cut.
fn wrapped(text: &str, width: usize, max_lines: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let text = shown(text, usize::MAX);
    for word in text.split_whitespace() {
        let is_full = lines.len() == max_lines;
        match lines.last_mut() {
            Some(line) if shown_width(line) + 1 + shown_width(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            Some(line) if is_full => {
                *line = shown(&format!("{line} {word}"), width);
                break;
            }
            _ => lines.push(shown(word, width)),
        }
    }
    lines
}

/// One frame as plain text, without what answers to keys and without blank lines at its end.
pub fn page(screen: &Screen, now: Timestamp, width: u16, height: u16) -> String {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    View { screen, now, colours: false, is_live: false }.render(area, &mut buffer);
    let mut text = String::new();
    for row in area.rows() {
        let mut line = String::new();
        let mut covered = 0;
        for position in row.positions() {
            let symbol = buffer.cell(position).map_or(" ", |cell| cell.symbol());
            // A wide character covers the cell after it.
            if covered == 0 {
                line.push_str(symbol);
                covered = symbol.width().max(1);
            }
            covered -= 1;
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let kept = text.trim_end().len();
    text.truncate(kept);
    text.push('\n');
    text
}
