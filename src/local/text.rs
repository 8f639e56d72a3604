//! Showing strings that others wrote: nothing in them may move the cursor, turn the text round, or break a table.

use std::time::Duration;

use comfy_table::{ContentArrangement, Table, TableStyle};
use unicode_width::UnicodeWidthChar;

use crate::finding::harmless;

/// Stands for a character that must not reach a terminal.
/// Stands for the rest of a text that was cut.
const ELLIPSIS: char = '…';
/// How many characters without width may follow each other: enough for any script, too few to flood a terminal.
const MAX_MARKS: u32 = 4;
/// A column is not made narrower than this.
const MIN_COLUMN_WIDTH: usize = 6;
/// Nor wider than this, however wide the terminal is, or if it isn't one.
const MAX_COLUMN_WIDTH: usize = 1000;
/// Between two columns.
const GAP_WIDTH: usize = 2;

/// The text on one line, at most `max_width` columns wide, safe to print: line breaks and tabs become spaces; control
/// characters, escapes, and characters that hide text or turn its direction become `�`; what doesn't fit becomes `…`.
pub fn shown(text: &str, max_width: usize) -> String {
    let mut kept = String::new();
    let (mut width, mut marks) = (0, 0);
    // Where to cut so that the ellipsis still fits.
    let mut cut = 0;
    for c in text.chars().map(harmless) {
        let c_width = width_of(c);
        if c_width == 0 {
            marks += 1;
            if marks > MAX_MARKS {
                continue;
            }
        } else {
            marks = 0;
        }
        if width + c_width > max_width {
            kept.truncate(cut);
            if max_width > 0 {
                kept.push(ELLIPSIS);
            }
            return kept;
        }
        kept.push(c);
        width += c_width;
        if width < max_width {
            cut = kept.len();
        }
    }
    kept
}

/// How many columns a text takes once it is [`shown`].
pub fn shown_width(text: &str) -> usize {
    text.chars().map(|c| width_of(harmless(c))).sum()
}

/// A duration as people say it, in one or two units: "45 s", "3 min", "2 h 10 min", "4 d 3 h".
pub fn about(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours, days) = (seconds.div_ceil(60), seconds / 3600, seconds / 86_400);
    match seconds {
        0..90 => format!("{} s", seconds.max(1)),
        90..5400 => format!("{minutes} min"),
        5400..86_400 => format!("{hours} h {} min", seconds % 3600 / 60),
        _ => format!("{days} d {} h", seconds % 86_400 / 3600),
    }
}

/// Rows under a header: aligned, one line each, cut to `max_width` columns by narrowing the widest ones.
/// Without colours, so `NO_COLOR` changes nothing.
pub fn table<const N: usize>(header: [&str; N], rows: &[[String; N]], max_width: Option<usize>) -> String {
    let mut widths = header.map(shown_width);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(shown_width(cell)).min(MAX_COLUMN_WIDTH);
        }
    }
    if let Some(max_width) = max_width {
        narrow(&mut widths, max_width.saturating_sub(GAP_WIDTH * N.saturating_sub(1)));
    }
    let mut table = Table::new();
    table.load_style(TableStyle::new()).set_content_arrangement(ContentArrangement::Disabled);
    let cells = |row: &[String; N]| -> Vec<String> {
        row.iter().zip(&widths).map(|(cell, width)| shown(cell, *width)).collect()
    };
    table.set_header(cells(&header.map(str::to_owned)));
    table.add_rows(rows.iter().map(cells));
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut text = table.trim_fmt();
    text.push('\n');
    text
}

/// Takes from the widest columns until all fit.
fn narrow<const N: usize>(widths: &mut [usize; N], available: usize) {
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

fn width_of(c: char) -> usize {
    match c {
        // Asks for the wide form of the character before it.
        '\u{FE0F}' => 1,
        c => c.width().unwrap_or(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_said_in_one_or_two_units() {
        let texts = [0, 45, 100, 3600, 7800, 356_400].map(|seconds| about(Duration::from_secs(seconds)));
        assert_eq!(texts, ["1 s", "45 s", "2 min", "60 min", "2 h 10 min", "4 d 3 h"]);
    }

    #[test]
    fn a_plain_text_is_shown_as_it_is() {
        assert_eq!(shown("Bird counts", 80), "Bird counts");
    }

    #[test]
    fn escapes_and_controls_lose_their_power() {
        assert_eq!(shown("a\u{1b}[31mred\u{7}\0\u{9b}2J", 80), "a�[31mred���2J");
    }

    #[test]
    fn text_can_not_be_turned_round_or_hidden() {
        assert_eq!(shown("x\u{202E}fdp.exe\u{2066}\u{200B}", 80), "x�fdp.exe��");
    }

    #[test]
    fn line_breaks_become_spaces() {
        assert_eq!(shown("one\r\ntwo\tthree\u{2028}four", 80), "one  two three four");
    }

    #[test]
    fn a_long_text_is_cut_by_display_width() {
        assert_eq!(shown("abcdef", 6), "abcdef");
        assert_eq!(shown("abcdefg", 6), "abcde…");
        assert_eq!(shown("鳥鳥鳥鳥", 6), "鳥鳥…");
        assert_eq!(shown("abc", 0), "");
    }

    #[test]
    fn piled_up_marks_are_dropped() {
        let piled = format!("e{}", "\u{301}".repeat(10_000));
        assert_eq!(shown(&piled, 10).chars().count(), 5);
    }

    #[test]
    fn columns_are_narrowed_from_the_widest() {
        let mut widths = [4, 30, 20, 8];
        narrow(&mut widths, 40);
        assert_eq!(widths.iter().sum::<usize>(), 40);
        assert_eq!(widths, [4, 14, 14, 8]);
    }

    #[test]
    fn a_huge_cell_is_cut_even_without_a_terminal() {
        let text = table(["A", "B"], &[["x".repeat(1 << 20), "y".to_owned()]], None);
        assert_eq!(text.lines().last(), Some(format!("{}…  y", "x".repeat(999)).as_str()));
    }

    #[test]
    fn a_table_has_one_line_a_row_and_fits_the_width() {
        let rows = [
            ["a".to_owned(), "a title\nof two lines that goes on and on".to_owned()],
            ["longer".to_owned(), "\u{1b}]0;x\u{7}鳥".to_owned()],
        ];
        assert_eq!(
            table(["NODE", "TITLE"], &rows, Some(24)),
            "NODE    TITLE\na       a title of two …\nlonger  �]0;x�鳥\n"
        );
    }
}
