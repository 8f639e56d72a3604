//! `kubectl trawler top`: the runs of a namespace as a frame. The same runs, moment and size give the same frame.

use jiff::{Timestamp, Unit};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Widget;

use super::{RunList, RunRow};
use crate::local::grid::{Cell, Grid, Tone};
use crate::local::text::{about, shown};

/// What is shown.
#[derive(Debug, Clone)]
pub struct Board {
    /// Where the runs are: a namespace, or all.
    pub place: String,
    /// The runs, youngest first.
    pub runs: RunList,
    /// When they were read.
    pub read_at: Option<Timestamp>,
    /// Why they can't be read now.
    pub problem: Option<String>,
    /// Whether rows are of several namespaces.
    pub with_namespaces: bool,
}

/// A board at a moment, to be drawn.
#[derive(Debug)]
pub struct View<'a> {
    /// What is shown.
    pub board: &'a Board,
    /// The moment.
    pub now: Timestamp,
    /// Whether colours are wanted.
    pub colours: bool,
}

impl View<'_> {
    /// The lines, each with how it is to be taken: those that are active first.
    fn lines(&self, width: u16, height: u16) -> Vec<(String, Tone, Modifier)> {
        let width = usize::from(width);
        let mut runs: Vec<&RunRow> = self.board.runs.runs.iter().collect();
        runs.sort_by_key(|run| !run.state.is_active());
        let active = runs.iter().filter(|run| run.state.is_active()).count();
        let tokens: i64 = runs.iter().map(|run| run.tokens_held).sum();
        let time = self.now.round(Unit::Second).unwrap_or(self.now);
        let head = format!(
            "kubectl trawler top  {}  {time}  {} runs, {active} active, {tokens} tokens held",
            self.board.place,
            runs.len()
        );
        let mut lines = vec![(shown(&head, width), Tone::Plain, Modifier::BOLD)];
        if let Some(problem) = &self.board.problem {
            let age = self.board.read_at.map_or_else(String::new, |at| {
                let age = std::time::Duration::try_from(self.now.duration_since(at)).unwrap_or_default();
                format!(" (what is shown is {} old)", about(age))
            });
            lines.push((shown(&format!("{problem}{age}"), width), Tone::Bad, Modifier::BOLD));
        }
        lines.push((String::new(), Tone::Plain, Modifier::empty()));
        if runs.is_empty() {
            lines.push(("No runs".to_owned(), Tone::Plain, Modifier::empty()));
            return lines;
        }
        let mut header = if self.board.with_namespaces { vec!["NAMESPACE"] } else { Vec::new() };
        header.extend(["RUN", "CATALOG", "STATE", "NODES", "FAILED", "RECORDS", "TOKENS", "TOOK", "WAITING"]);
        let room = usize::from(height).saturating_sub(lines.len() + 2);
        let cells: Vec<Vec<Cell>> = runs.iter().take(room).map(|run| self.cells(run)).collect();
        let grid = Grid { header: &header, rows: &cells, max_width: Some(width), colours: false }.text();
        let tones = std::iter::once(Tone::Plain).chain(runs.iter().map(|run| run.state_cell().tone));
        for (position, (line, tone)) in grid.lines().zip(tones).enumerate() {
            let modifier = if position == 0 { Modifier::DIM } else { Modifier::empty() };
            lines.push((line.to_owned(), tone, modifier));
        }
        if runs.len() > room {
            lines.push((format!("and {} more", runs.len() - room), Tone::Plain, Modifier::DIM));
        }
        lines
    }

    fn cells(&self, run: &RunRow) -> Vec<Cell> {
        let count = |count: i64| Cell::from(count.to_string()).at_right();
        let mut cells: Vec<Cell> = Vec::new();
        if self.board.with_namespaces {
            cells.push(run.namespace.as_str().into());
        }
        cells.extend([
            run.name.as_str().into(),
            run.catalog.as_str().into(),
            run.state_cell(),
            Cell::from(format!("{}/{}", run.nodes_complete, run.nodes_total)).at_right(),
            count(run.nodes_failed),
            count(run.records_seen),
            Cell::from(format!("{}/{}", run.tokens_held, run.tokens_share)).at_right(),
            Cell::from(run.duration(self.now).map_or_else(|| "-".to_owned(), about)).at_right(),
            run.waiting_text(self.now).into(),
        ]);
        cells
    }
}

impl Widget for View<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        for ((text, tone, modifier), row) in self.lines(area.width, area.height).into_iter().zip(area.rows()) {
            let style = match tone {
                _ if !self.colours => Style::new(),
                Tone::Plain => Style::new(),
                Tone::Good => Style::new().fg(Color::Green),
                Tone::Warn => Style::new().fg(Color::Yellow),
                Tone::Bad => Style::new().fg(Color::Red),
            };
            Line::styled(text, style.add_modifier(modifier)).render(row, buffer);
        }
    }
}

/// One frame as plain text.
pub fn page(board: &Board, now: Timestamp, width: u16, height: u16) -> String {
    let lines = View { board, now, colours: false }.lines(width, height);
    lines.into_iter().map(|(line, ..)| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::super::samples::{now, run};
    use super::*;

    fn board(problem: Option<&str>) -> Board {
        Board {
            place: "namespace harvest".into(),
            runs: RunList::of(&[run("old", "complete"), run("young", "running"), run("cold", "frozen")]),
            read_at: Some(now() - jiff::SignedDuration::from_secs(30)),
            problem: problem.map(str::to_owned),
            with_namespaces: false,
        }
    }

    #[test]
    fn active_runs_stand_first() {
        assert_eq!(
            page(&board(None), now(), 120, 40),
            "\
kubectl trawler top  namespace harvest  2026-11-30T02:00:00Z  3 runs, 2 active, 2 tokens held

RUN    CATALOG   STATE     NODES  FAILED  RECORDS  TOKENS    TOOK  WAITING
young  mobility  Running     2/7       1      420     2/4   5 min  budget gentle has no ApiCalls left (in 40 s)
cold   mobility  Frozen      0/7       0        0     0/0  10 min  spec.suspend is set
old    mobility  Complete    7/7       0     1304     0/0  40 min  -
"
        );
    }

    #[test]
    fn what_does_not_fit_is_counted_and_what_is_old_is_said() {
        assert_eq!(
            page(&board(Some("the API server can't be reached")), now(), 80, 6),
            "\
kubectl trawler top  namespace harvest  2026-11-30T02:00:00Z  3 runs, 2 active,…
the API server can't be reached (what is shown is 30 s old)

RUN    CATALOG   STATE    NODES  FAILED  RECORDS  TOKENS   TOOK  WAITING
young  mobility  Running    2/7       1      420     2/4  5 min  budget gentle …
and 2 more
"
        );
    }
}
