//! Tables for people: aligned, one line a row, cut to the terminal's width, in colours where those are wanted.

use comfy_table::{Attribute, CellAlignment, Color, ContentArrangement, Table, TableStyle};

use super::text::{shown, shown_width};

/// A column is not made narrower than this.
const MIN_COLUMN_WIDTH: usize = 6;
/// Nor wider than this, however wide the terminal is, or if it isn't one.
const MAX_COLUMN_WIDTH: usize = 1000;
/// Between two columns.
const GAP_WIDTH: usize = 2;

/// What a cell says beside its text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tone {
    /// Nothing.
    #[default]
    Plain,
    /// All is well.
    Good,
    /// Worth a look.
    Warn,
    /// Something is wrong.
    Bad,
}

impl Tone {
    /// A word of ours in the tone's colour.
    pub fn paint(self, word: &str, colours: bool) -> String {
        let code = match self {
            _ if !colours => return word.to_owned(),
            Self::Plain => return word.to_owned(),
            Self::Good => 32,
            Self::Warn => 33,
            Self::Bad => 31,
        };
        format!("\u{1b}[{code}m{word}\u{1b}[0m")
    }
}

/// A cell: text that others may have written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cell {
    /// The text; made harmless when it is shown.
    pub text: String,
    /// What it says beside that.
    pub tone: Tone,
    /// Stands at the right.
    pub is_number: bool,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        Self { text: number.to_string(), is_number: true, ..Self::default() }
    }
}

impl From<u32> for Cell {
    fn from(number: u32) -> Self {
        u64::from(number).into()
    }
}

impl Cell {
    /// The same in another tone.
    #[must_use]
    pub fn toned(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }

    /// The same at the right.
    #[must_use]
    pub fn at_right(self) -> Self {
        Self { is_number: true, ..self }
    }
}

/// A table: rows under a header.
#[derive(Debug)]
pub struct Grid<'a> {
    /// The columns' names.
    pub header: &'a [&'a str],
    /// The rows, each with a cell for each column.
    pub rows: &'a [Vec<Cell>],
    /// The widest columns are narrowed until a row has at most so many columns of the terminal; `None`: none is.
    pub max_width: Option<usize>,
    /// Whether tones are shown.
    pub colours: bool,
}

impl Grid<'_> {
    /// The table, each line ended.
    pub fn text(&self) -> String {
        let mut widths: Vec<usize> = self.header.iter().map(|title| shown_width(title)).collect();
        for row in self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(shown_width(&cell.text)).min(MAX_COLUMN_WIDTH);
            }
        }
        if let Some(max_width) = self.max_width {
            let gaps = GAP_WIDTH * widths.len().saturating_sub(1);
            narrow(&mut widths, max_width.saturating_sub(gaps));
        }
        let mut table = Table::new();
        table.load_style(TableStyle::new()).set_content_arrangement(ContentArrangement::Disabled);
        if self.colours {
            table.enforce_styling();
        }
        let titles = self.header.iter().zip(&widths).map(|(title, width)| {
            let cell = comfy_table::Cell::new(shown(title, *width));
            if self.colours { cell.add_attribute(Attribute::Bold) } else { cell }
        });
        table.set_header(titles);
        for row in self.rows {
            table.add_row(row.iter().zip(&widths).map(|(cell, width)| self.cell(cell, *width)));
        }
        for (position, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            let cells = self.rows.iter().filter_map(|row| row.get(position));
            let has_numbers = cells.clone().any(|cell| cell.is_number);
            if has_numbers && cells.clone().all(|cell| cell.is_number || cell.text == "-") {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let mut text = table.trim_fmt();
        text.push('\n');
        text
    }

    fn cell(&self, cell: &Cell, width: usize) -> comfy_table::Cell {
        let shown = comfy_table::Cell::new(shown(&cell.text, width));
        match cell.tone {
            _ if !self.colours => shown,
            Tone::Plain => shown,
            Tone::Good => shown.fg(Color::Green),
            Tone::Warn => shown.fg(Color::Yellow),
            Tone::Bad => shown.fg(Color::Red),
        }
    }
}

/// Takes from the widest columns until all fit.
fn narrow(widths: &mut [usize], available: usize) {
    let mut excess = widths.iter().sum::<usize>().saturating_sub(available);
    while excess > 0 {
        let widest = widths.iter().copied().max().unwrap_or_default();
        if widest <= MIN_COLUMN_WIDTH {
            return;
        }
        let next = widths.iter().copied().filter(|width| *width < widest).max().unwrap_or_default();
        let count = widths.iter().filter(|width| **width == widest).count();
        let floor = next.max(MIN_COLUMN_WIDTH);
        // All of the widest shrink together, to the next widest at most; the first ones take the remainder.
        let step = (widest - floor).min(excess.div_ceil(count));
        for width in widths.iter_mut().filter(|width| **width == widest) {
            let taken = step.min(excess);
            *width -= taken;
            excess -= taken;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_narrowed_from_the_widest() {
        let mut widths = [4, 30, 20, 8];
        narrow(&mut widths, 40);
        assert_eq!(widths.iter().sum::<usize>(), 40);
        assert_eq!(widths, [4, 14, 14, 8]);
    }

    #[test]
    fn numbers_stand_at_the_right_and_tones_are_colours() {
        let rows = [
            vec![Cell::from("a"), Cell::from(7_u64), Cell::from("ok").toned(Tone::Good)],
            vec![Cell::from("\u{1b}[2J"), Cell::from(1_304_u64), Cell::from("dead").toned(Tone::Bad)],
            vec![Cell::from("c"), Cell::from("-"), Cell::from("slow").toned(Tone::Warn)],
        ];
        let grid = |colours| Grid { header: &["NODE", "COUNT", "STATE"], rows: &rows, max_width: None, colours }.text();
        assert_eq!(grid(false), "NODE  COUNT  STATE\na         7  ok\n�[2J   1304  dead\nc         -  slow\n");
        let coloured = grid(true);
        assert!(coloured.contains("\u{1b}[38;5;10mok"), "{coloured:?}");
        assert!(!coloured.contains("\u{1b}[2J"), "{coloured:?}");
    }
}
