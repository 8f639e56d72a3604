//! Showing strings that others wrote: nothing in them may move the cursor, turn the text round, or break a table.

use std::time::Duration;

use jiff::Timestamp;
use unicode_width::UnicodeWidthChar;

use super::grid::{Cell, Grid};
use crate::finding::harmless;

/// Stands for the rest of a text that was cut.
const ELLIPSIS: char = '…';
/// How many characters without width may follow each other: enough for any script, too few to flood a terminal.
const MAX_MARKS: u32 = 4;

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

/// "in 12 s", "now" for what is past.
pub fn in_about(until: Timestamp, now: Timestamp) -> String {
    match Duration::try_from(until.duration_since(now)) {
        Ok(left) if !left.is_zero() => format!("in {}", about(left)),
        _ => "now".to_owned(),
    }
}

/// "12 s ago".
pub fn ago(at: Timestamp, now: Timestamp) -> String {
    format!("{} ago", about(Duration::try_from(now.duration_since(at)).unwrap_or_default()))
}

/// Rows under a header: aligned, one line each, cut to `max_width` columns by narrowing the widest ones.
/// Without colours, so `NO_COLOR` changes nothing.
pub fn table<const N: usize>(header: [&str; N], rows: &[[String; N]], max_width: Option<usize>) -> String {
    let rows: Vec<Vec<Cell>> =
        rows.iter().map(|row| row.iter().map(|text| Cell::from(text.as_str())).collect()).collect();
    Grid { header: &header, rows: &rows, max_width, colours: false }.text()
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
    fn moments_are_said_from_now() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let at = |seconds: i64| now + jiff::SignedDuration::from_secs(seconds);
        assert_eq!([12, 0, -5].map(|seconds| in_about(at(seconds), now)), ["in 12 s", "now", "now"]);
        assert_eq!([-100, 5].map(|seconds| ago(at(seconds), now)), ["2 min ago", "1 s ago"]);
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
