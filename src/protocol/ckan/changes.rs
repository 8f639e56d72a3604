//! Asking for what changed: by the portal's own dates, never by our clock.
//!
//! A traversal leaves as its checkpoint the newest `metadata_modified` that it saw, but none after the portal's `Date` when
//! the traversal began. So a date in the future hides no later edit, an edit made while the pages were read comes again,
//! and a portal whose application has another clock than its web server is asked by the dates that it writes itself.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::paging::Position;
use crate::protocol::since::start_of;
use crate::protocol::{InFull, NodeContext, Page, Reading, Response};
use crate::task::{Task, TaskKind};

/// Since when this task asks for changes; `None`: it asks for everything.
pub(super) fn since(node: &NodeContext, task: &Task, at: &Position) -> Option<Timestamp> {
    if task.kind != TaskKind::Root {
        return at.since;
    }
    node.checkpoint.as_ref().and_then(start_of)
}

/// A modification date. Without a zone it is UTC: so CKAN writes it.
pub(super) fn date_of(text: &str) -> Option<Timestamp> {
    // A naive date last: it would read over a zone.
    text.parse().ok().or_else(|| TimeZone::UTC.to_timestamp(text.parse::<DateTime>().ok()?).ok())
}

/// The query for what was modified since then, in Solr's language.
pub(super) fn query(since: Timestamp) -> String {
    format!("metadata_modified:[{} TO *]", since.strftime("%Y-%m-%dT%H:%M:%SZ"))
}

/// The parameters that narrow the search down. A filter of the node's own and the dates are two queries: joined into one,
/// a filter that only excludes would match nothing.
pub(super) fn parameters(own: Option<&str>, since: Option<Timestamp>) -> Vec<(&'static str, String)> {
    let since = since.map(query);
    match (own, since) {
        (Some(own), Some(since)) => vec![("q", since), ("fq", own.to_owned())],
        (own, since) => since.or(own.map(str::to_owned)).map(|filter| ("fq", filter)).into_iter().collect(),
    }
}

/// The modification dates of a page.
#[derive(Debug, Default)]
pub(super) struct Dates {
    /// The newest one that is not after the traversal's begin.
    pub(super) newest: Option<Timestamp>,
    oldest: Option<Timestamp>,
}

impl Dates {
    /// Takes one in.
    pub(super) fn add(&mut self, date: Timestamp, begun: Option<Timestamp>) {
        self.oldest = Some(self.oldest.map_or(date, |oldest| oldest.min(date)));
        if begun.is_some_and(|begun| date <= begun) {
            self.newest = self.newest.max(Some(date));
        }
    }

    /// Why the answer to a question for changes can't be one, if so. The package that gave the checkpoint lies in the time
    /// asked for, so that an answer without any package is one only if that package is gone.
    pub(super) fn contradict(&self, since: Timestamp, now: Option<Timestamp>, is_empty: bool) -> Option<InFull> {
        if self.oldest.is_some_and(|oldest| oldest < since) {
            Some(InFull::Ignored)
        } else if now.is_some_and(|now| now < since) {
            Some(InFull::ClockPutBack)
        } else if is_empty {
            Some(InFull::Forgotten)
        } else {
            None
        }
    }
}

/// Whether an answer is the portal's refusal.
pub(super) fn is_refusal(response: &Response) -> bool {
    !(200..300).contains(&response.status)
}

/// Asks again, for everything. What came instead of an answer is not taken in: it may be neither all nor the changes.
pub(super) fn ask_in_full(task: &Task, why: InFull) -> Page {
    let cursor = Position::default().to_cursor();
    let next = Task::new(task.section.clone(), TaskKind::Page, task.origin.clone(), cursor);
    Page {
        feedback: vec![Task { provenance: task.provenance.clone(), ..next }],
        reading: Some(Reading::FullBecause(why)),
        protocol: "CKAN".into(),
        ..Page::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_with_and_without_zone_are_moments_and_nothing_else_is() {
        for (text, moment) in [
            ("2026-03-18T04:48:27", "2026-03-18T04:48:27Z"),
            ("2026-03-18T04:48:27.035267", "2026-03-18T04:48:27.035267Z"),
            ("2026-03-18T04:48:27Z", "2026-03-18T04:48:27Z"),
            ("2026-03-18T06:48:27+02:00", "2026-03-18T04:48:27Z"),
            ("2026-03-18 04:48:27", "2026-03-18T04:48:27Z"),
            ("2026-03-18", "2026-03-18T00:00:00Z"),
        ] {
            assert_eq!(date_of(text).unwrap().to_string(), moment, "{text}");
        }
        for other in ["", "yesterday", "2026", "2026-13-18T04:48:27", "2026-03-18T04:48:27 TO *] OR *:*"] {
            assert_eq!(date_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_filter_of_the_nodes_own_is_never_joined_with_the_dates() {
        let since: Timestamp = "2026-03-18T04:48:27.9Z".parse().unwrap();
        let modified = "metadata_modified:[2026-03-18T04:48:27Z TO *]".to_owned();
        assert_eq!(parameters(None, None), []);
        assert_eq!(parameters(Some("a:b"), None), [("fq", "a:b".to_owned())]);
        assert_eq!(parameters(None, Some(since)), [("fq", modified.clone())]);
        assert_eq!(parameters(Some("-a:b"), Some(since)), [("q", modified), ("fq", "-a:b".to_owned())]);
    }
}
