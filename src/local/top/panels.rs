//! The parts of a frame: tables with a title, cut to what fits.

use jiff::Timestamp;
use ratatui::buffer::Buffer;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Widget as _;

use super::sample::Details;
use super::screen::Screen;
use crate::local::grid::{Cell, Tone};
use crate::local::queue::{Reason, rate, state_of};
use crate::local::text::{in_about, shown, shown_width};
use crate::local::waiting::timed_wait;
use crate::queue::{HolderStatus, LaneStatus, RunStatus};

/// Title and header.
const HEAD: u16 = 2;

/// Between two columns there are two spaces where there is room.
const ROOMY: u16 = 100;

/// A column: its name, and how wide it is; `Fill` takes what is left.
type Column = (&'static str, Constraint);

/// A table with a title.
#[derive(Debug)]
pub(super) struct Panel {
    title: String,
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    selected: Option<usize>,
}

impl Panel {
    /// The lines that it takes, with so many rows at most. Nothing to show takes none.
    pub(super) fn height(&self, max_rows: u16) -> u16 {
        let rows = u16::try_from(self.rows.len()).unwrap_or(u16::MAX).min(max_rows.max(1));
        if rows == 0 { 0 } else { HEAD.saturating_add(rows) }
    }

    /// Draws as many rows as fit, the selected one among them.
    pub(super) fn draw(&self, area: Rect, buffer: &mut Buffer, colours: bool) {
        if self.rows.is_empty() || area.height <= HEAD {
            return;
        }
        let visible = usize::from(area.height - HEAD);
        let first = self.selected.map_or(0, |selected| (selected + 1).saturating_sub(visible));
        let lines: Vec<Rect> = area.rows().collect();
        let title = if self.rows.len() > visible {
            format!("{}, {visible} of {}", self.title, self.rows.len())
        } else {
            self.title.clone()
        };
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let heading = if colours { bold.fg(Color::Cyan) } else { bold };
        if let Some(line) = lines.first() {
            Line::styled(shown(&title, line.width.into()), heading).render(*line, buffer);
        }
        let widths = self.columns.iter().map(|(_, width)| *width);
        let columns = Layout::horizontal(widths).spacing(if area.width >= ROOMY { 2 } else { 1 }).split(area);
        let header: Vec<Cell> = self.columns.iter().map(|(name, _)| Cell::from(*name)).collect();
        if let Some(line) = lines.get(1) {
            self.row(&header, &columns, *line, buffer, |_| Style::new().add_modifier(Modifier::DIM));
        }
        for (position, line) in (first..self.rows.len()).zip(lines.iter().skip(HEAD.into())) {
            let style = |tone| if colours { style_of(tone) } else { Style::new() };
            self.row(&self.rows[position], &columns, *line, buffer, style);
            if self.selected == Some(position) {
                buffer.set_style(*line, Modifier::REVERSED);
            }
        }
    }

    fn row(&self, cells: &[Cell], columns: &[Rect], line: Rect, buffer: &mut Buffer, style: impl Fn(Tone) -> Style) {
        for (position, (cell, column)) in cells.iter().zip(columns).enumerate() {
            let is_number = self.rows.first().and_then(|row| row.get(position)).is_some_and(|cell| cell.is_number);
            let alignment = if is_number { Alignment::Right } else { Alignment::Left };
            let area = Rect { y: line.y, height: 1, ..*column };
            let text = shown(&cell.text, area.width.into());
            Line::styled(text, style(cell.tone)).alignment(alignment).render(area, buffer);
        }
    }

    /// Makes the columns that are named as narrow as their widest cell allows.
    fn fitted(mut self, max_width: u16) -> Self {
        for (position, (name, constraint)) in self.columns.iter_mut().enumerate() {
            if matches!(constraint, Constraint::Fill(_)) {
                continue;
            }
            let cells = self.rows.iter().filter_map(|row| row.get(position)).map(|cell| shown_width(&cell.text));
            let width = cells.chain([name.len()]).max().unwrap_or_default();
            *constraint = Constraint::Length(u16::try_from(width).unwrap_or(u16::MAX).min(max_width));
        }
        self
    }
}

fn style_of(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::new(),
        Tone::Good => Style::new().fg(Color::Green),
        Tone::Warn => Style::new().fg(Color::Yellow),
        Tone::Bad => Style::new().fg(Color::Red),
    }
}

/// As wide as its widest cell.
const FIT: Constraint = Constraint::Length(0);

/// The runs.
pub(super) fn runs(screen: &Screen) -> Panel {
    let statuses = screen.sample.as_ref().map_or(&[][..], |sample| &sample.runs);
    let selected = statuses.iter().position(|status| Some(&status.run) == screen.selected.as_ref());
    let row = |(position, status): (usize, &RunStatus)| {
        let mark = if Some(position) == selected { ">" } else { "" };
        let rate = screen.done_per_s(&status.run).map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
        let dead = status.ledger.dead;
        vec![
            mark.into(),
            status.run.as_str().into(),
            state_of(status),
            Cell::from(format!("{}/{}", status.holders, status.max_holders)).at_right(),
            status.ledger.queued.into(),
            status.ledger.delayed.into(),
            status.ledger.leased.into(),
            status.ledger.done.into(),
            Cell::from(rate).at_right(),
            Cell::from(dead).toned(if dead > 0 { Tone::Bad } else { Tone::Plain }),
        ]
    };
    let columns = vec![
        ("", Constraint::Length(1)),
        ("RUN", Constraint::Fill(1)),
        ("STATE", FIT),
        ("HOLDERS", FIT),
        ("QUEUED", FIT),
        ("DELAYED", FIT),
        ("LEASED", FIT),
        ("DONE", FIT),
        ("DONE/S", FIT),
        ("DEAD", FIT),
    ];
    Panel { title: "Runs".to_owned(), columns, rows: statuses.iter().enumerate().map(row).collect(), selected }
        .fitted(12)
}

/// The lanes of the selected run.
pub(super) fn lanes(details: Option<&Details>, now: Timestamp) -> Panel {
    let row = |lane: &LaneStatus| {
        let reason = Reason::of(lane);
        let opens = lane.waiting.as_ref().filter(|waiting| timed_wait(waiting, now).is_some());
        vec![
            server(lane.origin.as_str()).into(),
            (&*lane.budget.0).into(),
            lane.queued.into(),
            lane.leased.into(),
            Cell::from(rate(lane.calls_per_s)).at_right(),
            opens.map_or_else(|| "-".to_owned(), |waiting| in_about(waiting.until, now)).into(),
            Cell::from(reason.word()).toned(if reason.is_closed() { Tone::Warn } else { Tone::Good }),
        ]
    };
    let columns = vec![
        ("ORIGIN", Constraint::Fill(3)),
        ("BUDGET", Constraint::Fill(2)),
        ("QUEUED", FIT),
        ("LEASED", FIT),
        ("CALLS/S", FIT),
        ("OPENS", FIT),
        ("WAITS FOR", FIT),
    ];
    let rows = details.map_or_else(Vec::new, |details| details.lanes.iter().map(row).collect());
    Panel { title: title("Lanes", details), columns, rows, selected: None }.fitted(14)
}

/// What the lanes of the selected run wait for.
pub(super) fn waits(details: Option<&Details>, now: Timestamp) -> Panel {
    let rows = details.map_or(&[][..], |details| &details.waits).iter().map(|wait| {
        vec![
            Cell::from(wait.reason.words()).toned(if wait.reason.is_closed() { Tone::Warn } else { Tone::Good }),
            wait.lanes.into(),
            wait.queued.into(),
            wait.leased.into(),
            wait.first_opens.map_or_else(|| "-".to_owned(), |opens| in_about(opens, now)).into(),
        ]
    });
    let columns =
        vec![("LANES WAIT FOR", Constraint::Fill(1)), ("LANES", FIT), ("QUEUED", FIT), ("LEASED", FIT), ("OPENS", FIT)];
    Panel { title: title("Waits", details), columns, rows: rows.collect(), selected: None }.fitted(14)
}

/// Who works on the selected run.
pub(super) fn holders(details: Option<&Details>, now: Timestamp) -> Panel {
    let row = |holder: &HolderStatus| {
        vec![
            holder.token.into(),
            holder.uid.as_str().into(),
            holder.group.as_str().into(),
            holder.leased.into(),
            holder.next_lapse.map_or_else(|| "-".to_owned(), |lapse| in_about(lapse, now)).into(),
            if holder.is_alone { Cell::from("alone").toned(Tone::Warn) } else { "".into() },
        ]
    };
    let columns = vec![
        ("TOKEN", FIT),
        ("UID", Constraint::Fill(2)),
        ("GROUP", Constraint::Fill(1)),
        ("LEASED", FIT),
        ("NEXT LAPSE", FIT),
        ("", Constraint::Length(5)),
    ];
    let rows = details.map_or_else(Vec::new, |details| details.holders.iter().map(row).collect());
    Panel { title: title("Holders", details), columns, rows, selected: None }.fitted(14)
}

fn title(what: &str, details: Option<&Details>) -> String {
    details.map_or_else(|| what.to_owned(), |details| format!("{what} of {}", details.run))
}

/// An origin without what goes without saying.
fn server(origin: &str) -> &str {
    match origin.strip_prefix("https://") {
        Some(rest) => rest.strip_suffix(":443").unwrap_or(rest),
        None => origin,
    }
}
