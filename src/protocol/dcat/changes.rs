//! Asking a paged feed for what changed: `modified_since`, as ckanext-dcat understands it.
//!
//! Nothing announces that a server knows the parameter; most that don't ignore it. So an answer counts as a list of changes
//! only if its page links carry the parameter on, and an answer without any dataset is one too: nothing has changed.
//! Everything else leads to the endpoint as it is, read in full. The checkpoint is the server's `Date` with the first page; it
//! moves only with an answer that had datasets, because an outage can look like "no changes".

use jiff::Timestamp;
use url::Url;

use crate::protocol::since::{moment_of, start_of};
use crate::protocol::{Checkpoint, InFull, NodeContext, Page, Reading, Response, origin_of};
use crate::task::{Task, TaskKind};

const PARAMETER: &str = "modified_since";
/// ckanext-dcat adds the `Z` itself.
const FORMAT: &str = "%Y-%m-%dT%H:%M:%S";

/// Since when a task asks for changes; `None`: it asks for everything. An endpoint that has the parameter itself is a list of
/// its own, and is read as it is.
pub(super) fn since(node: &NodeContext, task: &Task) -> Option<Timestamp> {
    if parameter_of(&node.endpoint).is_some() {
        return None;
    }
    match task.kind {
        TaskKind::Root => node.checkpoint.as_ref().and_then(start_of),
        TaskKind::Page => {
            Url::parse(&task.cursor).ok().and_then(|url| parameter_of(&url)).and_then(|text| moment(&text))
        }
        TaskKind::Dataset => None,
    }
}

/// The address that asks for what changed.
pub(super) fn address(mut url: Url, since: Timestamp) -> Url {
    url.query_pairs_mut().append_pair(PARAMETER, &since.strftime(FORMAT).to_string());
    url
}

fn parameter_of(url: &Url) -> Option<String> {
    url.query_pairs().find(|(name, _)| name == PARAMETER).map(|(_, value)| value.into_owned())
}

fn moment(text: &str) -> Option<Timestamp> {
    format!("{text}Z").parse().ok()
}

/// What of an answer tells whether it is a list of changes.
#[derive(Debug)]
pub(super) struct Signs<'a> {
    /// The links to further pages.
    pub(super) next: &'a [&'a Url],
    /// Everything that the server calls its pages.
    pub(super) pages: &'a [Url],
    /// It has datasets.
    pub(super) has_datasets: bool,
    /// The server's clock.
    pub(super) date: Option<Timestamp>,
}

impl Signs<'_> {
    /// Why the answer to the question what changed since then is not taken for one, if so.
    pub(super) fn contradict(&self, since: Timestamp) -> Option<InFull> {
        let carries = |url: &Url| parameter_of(url).and_then(|text| moment(&text)) == Some(since);
        let is_heard = if self.next.is_empty() {
            !self.has_datasets || self.pages.iter().any(carries)
        } else {
            self.next.iter().copied().all(carries)
        };
        if !is_heard {
            Some(InFull::Ignored)
        } else if self.date.is_some_and(|date| date < since) {
            Some(InFull::ClockPutBack)
        } else {
            None
        }
    }

    /// What the first page of a list leaves for the next incremental traversal.
    pub(super) fn checkpoint(&self, node: &NodeContext, since: Option<Timestamp>) -> Option<Checkpoint> {
        let moment = if since.is_some() {
            let known = node.checkpoint.as_ref().and_then(moment_of);
            known.max(self.date.filter(|_| self.has_datasets))
        } else {
            // A single document is asked for by its validators, which is cheaper and surer.
            self.date.filter(|_| !self.next.is_empty() && parameter_of(&node.endpoint).is_none())
        };
        moment.map(|moment| Checkpoint(moment.to_string()))
    }
}

/// Whether an answer is the server's refusal.
pub(super) fn is_refusal(response: &Response) -> bool {
    !(200..300).contains(&response.status)
}

/// Whether a task reads the first page of the endpoint's list, be it in the second attempt.
pub(super) fn is_first(node: &NodeContext, task: &Task) -> bool {
    task.kind == TaskKind::Root || (task.kind == TaskKind::Page && *task.cursor == *plain(node).as_str())
}

/// Asks again, for everything. What came instead of an answer is not taken in: it may be neither all nor the changes.
pub(super) fn ask_in_full(node: &NodeContext, task: &Task, why: InFull) -> Page {
    let url = plain(node);
    // A page, not the root again: that has been asked for in this traversal.
    let next = Task::new(task.section.clone(), TaskKind::Page, origin_of(&url), url.as_str());
    Page {
        feedback: vec![Task { provenance: task.provenance.clone(), ..next }],
        reading: Some(Reading::FullBecause(why)),
        protocol: "DCAT".into(),
        ..Page::default()
    }
}

fn plain(node: &NodeContext) -> Url {
    let mut url = node.endpoint.clone();
    url.set_fragment(None);
    url
}
