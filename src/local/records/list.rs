//! `trawler records ls`: which records there are.

use serde::{Deserialize, Serialize};

use super::{Output, to_json};
use crate::local::export::in_one_language;
use crate::local::text::table;
use crate::record::LangString;
use crate::store::{ChangeKind, RecordFilter, Store, StoreError, StoredRecord};
use crate::task::CatalogName;

/// One record in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordRow {
    /// The node that has it.
    pub node: String,
    /// The section; empty for the node's own catalogue.
    pub section: String,
    /// The record's id.
    pub id: String,
    /// One title: the one without a language, else the English one, else the first.
    pub title: String,
    /// When it was last modified, as the source says.
    pub modified: Option<String>,
    /// What its last change was.
    pub change: ChangeKind,
    /// The traversal of its section that changed it last.
    pub changed_in: u64,
    /// Nothing of the node could be read in the last run that tried: the record may be gone or changed.
    pub stale: bool,
}

/// A list of records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordList {
    /// The records, in the order of node, section, id.
    pub rows: Vec<RecordRow>,
    /// There are more than were asked for.
    pub has_more: bool,
}

impl RecordList {
    /// The list as text: a table cut to `max_width` columns (`None`: not cut), or JSON.
    pub fn render(&self, output: Output, max_width: Option<usize>) -> String {
        if output != Output::Text {
            return to_json(&self.rows, output);
        }
        if self.rows.is_empty() {
            return "No records\n".to_owned();
        }
        let rows: Vec<_> = self.rows.iter().map(RecordRow::cells).collect();
        let mut text = table(["NODE", "SECTION", "ID", "TITLE", "MODIFIED", "CHANGED"], &rows, max_width);
        if self.has_more {
            text.push_str("There are more; --limit shows them\n");
        }
        text
    }
}

impl RecordRow {
    fn cells(&self) -> [String; 6] {
        let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        let change = match self.change {
            ChangeKind::Added => "added",
            ChangeKind::Updated => "updated",
            ChangeKind::Deleted => "deleted",
        };
        [
            if self.stale { format!("{} (stale)", self.node) } else { self.node.clone() },
            or_dash(&self.section),
            self.id.clone(),
            or_dash(&self.title),
            or_dash(self.modified.as_deref().unwrap_or_default()),
            format!("{change} in #{}", self.changed_in),
        ]
    }
}

/// What a list shows of a payload. A damaged one shows nothing: a list must not fail for one record.
#[derive(Debug, Default, Deserialize)]
struct Shown {
    #[serde(default)]
    title: Vec<LangString>,
    modified: Option<String>,
}

/// The first `limit` records that pass the filter.
pub async fn list(
    store: &dyn Store,
    catalog: &CatalogName,
    filter: &RecordFilter,
    limit: usize,
) -> Result<RecordList, StoreError> {
    const CHUNK: usize = 256;
    let nodes = store.nodes(catalog).await?;
    let is_stale =
        |stored: &StoredRecord| nodes.get(&stored.key.section.node).is_some_and(|node| node.failures_in_row > 0);
    let mut rows = Vec::new();
    let mut after = None;
    loop {
        // One more than is shown tells whether there are more.
        let wanted = limit.saturating_add(1).saturating_sub(rows.len()).min(CHUNK);
        let chunk = store.records(catalog, filter, after.as_ref(), wanted).await?;
        let Some(last) = chunk.last() else { break };
        after = Some(last.key.clone());
        rows.extend(chunk.iter().map(|stored| row_of(stored, is_stale(stored))));
        if rows.len() > limit {
            break;
        }
    }
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    Ok(RecordList { rows, has_more })
}

fn row_of(stored: &StoredRecord, stale: bool) -> RecordRow {
    let shown: Shown = serde_json::from_slice(&stored.payload).unwrap_or_default();
    RecordRow {
        node: stored.key.section.node.to_string(),
        section: stored.key.section.section.to_string(),
        id: stored.key.id.clone(),
        title: in_one_language(&shown.title).to_owned(),
        modified: shown.modified,
        change: if stored.previous_hash.is_some() { ChangeKind::Updated } else { ChangeKind::Added },
        changed_in: stored.changed_in,
        stale,
    }
}
