//! Offsets into a list that others change while it is read.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::protocol::body::forgive;
use crate::protocol::since::moment_of;
use crate::protocol::{Checkpoint, Forgiven, Limited, NodeContext, Page, ReadError, Reading};
use crate::task::{Task, TaskKind};

/// Where a page starts, and what the pages before it said.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    /// The offset.
    pub(super) start: u64,
    /// The total that the page before this one gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) total: Option<u64>,
    /// The portal's clock when it answered the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) begun: Option<Timestamp>,
    /// The newest modification date so far, of those not after `begun`: what an incremental traversal starts from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) newest: Option<Timestamp>,
    /// The list is of what was modified since this moment. (The first page takes it from the node's checkpoint.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<Timestamp>,
    /// Read again, to find rows that slipped by: most of it is known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) again: bool,
    /// The total fell on the way.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) fell: bool,
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
    /// The newest modification date on it that is not after the traversal's begin.
    pub(super) newest: Option<Timestamp>,
}

/// Adds what follows a page: the next one, or the section's end.
pub(super) fn go_on(page: &mut Page, node: &NodeContext, task: &Task, at: &Position, seen: &Seen) {
    page.reading = Some(at.since.map_or(Reading::Full, Reading::Since));
    let newest = at.newest.max(seen.newest);
    let after = at.start.saturating_add(seen.got);
    let gone = at.total.zip(seen.count).map_or(0, |(before, now)| before.saturating_sub(now));
    let fell = at.fell || gone > 0;
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
            // A list of changes moves nothing back; one of everything says all there is to know.
            let known = at.since.and(node.checkpoint.as_ref()).and_then(moment_of);
            // More may have left a list of changes than its total fell by, if others came, and what slipped by then is
            // missed by nobody: it must be asked for again.
            let newest = newest.filter(|_| at.since.is_none() || !fell);
            page.checkpoint = newest.max(known).map(|newest| Checkpoint(newest.to_string()));
        }
        return;
    }
    if seen.got < seen.asked && seen.count.is_some_and(|count| after < count) {
        forgive(&mut page.forgiven, Forgiven::ClampedPageSize);
    }
    let cursor = Position { start, total: seen.count, newest, again: reads_again, fell, ..*at }.to_cursor();
    let next = Task::new(task.section.clone(), TaskKind::Page, task.origin.clone(), cursor);
    let page_number = task.page.saturating_add(1);
    page.feedback.push(Task { page: page_number, provenance: task.provenance.clone(), ..next });
}
