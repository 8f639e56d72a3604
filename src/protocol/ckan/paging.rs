//! Offsets into a list that others change while it is read.

use serde::{Deserialize, Serialize};

use crate::protocol::body::forgive;
use crate::protocol::{Checkpoint, Forgiven, Limited, NodeContext, Page, ReadError};
use crate::task::{Task, TaskKind};

/// Where a page starts, and what the pages before it said.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    /// The offset.
    pub(super) start: u64,
    /// The total that the page before this one gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) total: Option<u64>,
    /// The newest modification date so far: what an incremental traversal starts from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) newest: Option<String>,
    /// Read again, to find rows that slipped by: most of it is known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) again: bool,
}

impl Position {
    pub(super) fn to_cursor(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(super) fn from_cursor(cursor: &str) -> Result<Self, ReadError> {
        serde_json::from_str(cursor).map_err(|_| ReadError::BadCursor { cursor: cursor.to_owned() })
    }
}

/// What a page brought.
#[derive(Debug)]
pub(super) struct Seen {
    /// How many rows came back.
    pub(super) got: u64,
    /// How many were asked for.
    pub(super) asked: u64,
    /// The total, if given.
    pub(super) count: Option<u64>,
    /// The newest modification date on it.
    pub(super) newest: Option<String>,
}

/// Adds what follows a page: the next one, or the section's end.
pub(super) fn go_on(page: &mut Page, node: &NodeContext, task: &Task, at: &Position, seen: &Seen) {
    let newest = at.newest.clone().max(seen.newest.clone());
    let after = at.start.saturating_add(seen.got);
    let gone = at.total.zip(seen.count).map_or(0, |(before, now)| before.saturating_sub(now));
    if gone > 0 {
        forgive(&mut page.forgiven, Forgiven::TotalMismatch);
    }
    if gone > seen.asked {
        // Rows don't go by the page: the index is being rebuilt, and what it hides must not look gone.
        page.limited = Some(Limited::FewerThanTotal);
    }
    // Rows before this page went away, so those after them moved up: as many may have slipped past its start.
    let reads_again = gone > 0 && gone <= seen.asked;
    let start = if reads_again { at.start.saturating_sub(gone) } else { after };
    // A total below what has come already is no total: only an empty page is the end then.
    let is_contradicted = seen.got > 0 && seen.count.is_some_and(|count| after > count);
    if is_contradicted {
        forgive(&mut page.forgiven, Forgiven::TotalMismatch);
    }
    let is_counted = seen.count.is_some_and(|count| start >= count) && !is_contradicted;
    let is_end = !reads_again && (seen.got == 0 || is_counted);
    if is_end {
        if seen.count.is_some_and(|count| after < count) {
            forgive(&mut page.forgiven, Forgiven::TotalMismatch);
            page.limited = Some(Limited::FewerThanTotal);
        }
        if page.limited.is_none() {
            let known = node.checkpoint.as_ref().map(|checkpoint| checkpoint.0.clone());
            page.checkpoint = newest.max(known).map(Checkpoint);
        }
        return;
    }
    if seen.got < seen.asked && seen.count.is_some_and(|count| after < count) {
        forgive(&mut page.forgiven, Forgiven::ClampedPageSize);
    }
    let cursor = Position { start, total: seen.count, newest, again: reads_again }.to_cursor();
    let next = Task::new(task.section.clone(), TaskKind::Page, task.origin.clone(), cursor);
    let page_number = task.page.saturating_add(1);
    page.feedback.push(Task { page: page_number, provenance: task.provenance.clone(), ..next });
}

/// The filter query: the node's own, and what was modified since the checkpoint.
///
/// A package edited while the pages are read can have a date before the newest one seen and yet have been passed
/// already; a day of overlap covers every traversal shorter than that, and costs only what changed on that day.
pub(super) fn filter(own: Option<&str>, checkpoint: Option<&Checkpoint>) -> Option<String> {
    let since = checkpoint.map(|Checkpoint(date)| {
        let zone = if date.ends_with('Z') { "" } else { "Z" };
        format!("metadata_modified:[{date}{zone}-1DAY TO *]")
    });
    match (own, since) {
        (Some(own), Some(since)) => Some(format!("({own}) AND {since}")),
        (own, since) => since.or(own.map(str::to_owned)),
    }
}

/// A modification date as CKAN writes it (UTC, without zone). Anything else could become part of a query.
pub(super) fn is_date(text: &str) -> bool {
    (19..=32).contains(&text.len())
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            10 => byte == b'T',
            13 | 16 => byte == b':',
            19 => byte == b'.' || byte == b'Z',
            _ => byte.is_ascii_digit() || (byte == b'Z' && at + 1 == text.len()),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_dates_become_part_of_a_query() {
        for date in
            ["2026-03-18T04:48:27", "2026-03-18T04:48:27Z", "2026-03-18T04:48:27.035267", "2026-03-18T04:48:27.03Z"]
        {
            assert!(is_date(date), "{date}");
        }
        for other in ["", "2026-03-18", "2026-03-18T04:48:27 TO *] OR *:*", "2026-03-18T04:48:27+02:00"] {
            assert!(!is_date(other), "{other}");
        }
    }

    #[test]
    fn filters_are_combined() {
        let since = Checkpoint("2026-03-18T04:48:27".to_owned());
        let modified = "metadata_modified:[2026-03-18T04:48:27Z-1DAY TO *]";
        assert_eq!(filter(None, None), None);
        assert_eq!(filter(Some("a:b"), None).unwrap(), "a:b");
        assert_eq!(filter(None, Some(&since)).unwrap(), modified);
        assert_eq!(filter(Some("a:b OR c:d"), Some(&since)).unwrap(), format!("(a:b OR c:d) AND {modified}"));
    }
}
