//! `trawler records ls --changes`: what happened, in order, resumable.

use super::{Output, to_json};
use crate::local::text::table;
use crate::store::{Change, ChangeKind, Store, StoreError};
use crate::task::CatalogName;

/// A part of the change feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeList {
    /// The entries, oldest first.
    pub entries: Vec<Change>,
    /// The cursor to go on from.
    pub next: u64,
    /// There were more than were asked for when this was read.
    pub has_more: bool,
}

impl ChangeList {
    /// The entries as text: a table cut to `max_width` columns (`None`: not cut), or JSON.
    pub fn render(&self, output: Output, max_width: Option<usize>) -> String {
        if output != Output::Text {
            return to_json(&self.entries, output);
        }
        if self.entries.is_empty() {
            return format!("No changes after {}\n", self.next);
        }
        let rows: Vec<_> = self.entries.iter().map(cells).collect();
        let text = table(["CURSOR", "CHANGE", "NODE", "SECTION", "ID", "RUN"], &rows, max_width);
        let more = if self.has_more { "There are more" } else { "That is all" };
        text + &format!("{more}; --after {} goes on from here\n", self.next)
    }
}

fn cells(change: &Change) -> [String; 6] {
    let kind = match change.kind {
        ChangeKind::Added => "added",
        ChangeKind::Updated => "updated",
        ChangeKind::Deleted => "deleted",
    };
    let section = &change.key.section;
    [
        change.sequence.to_string(),
        kind.to_owned(),
        section.node.to_string(),
        if section.section.is_root() { "-".to_owned() } else { section.section.to_string() },
        change.key.id.clone(),
        change.run.to_string(),
    ]
}

/// The first `limit` changes after the cursor; 0 is the beginning.
pub async fn changes(
    store: &dyn Store,
    catalog: &CatalogName,
    after: u64,
    limit: usize,
) -> Result<ChangeList, StoreError> {
    let mut entries = store.changes(catalog, after, limit.saturating_add(1)).await?;
    let has_more = entries.len() > limit;
    entries.truncate(limit);
    let next = entries.last().map_or(after, |change| change.sequence);
    Ok(ChangeList { entries, next, has_more })
}
