//! `trawler records get`: one record, by its id.

use jiff::Timestamp;
use thiserror::Error;

use super::Output;
use crate::local::text::{shown, shown_width};
use crate::record::{Distribution, LangString, Record};
use crate::store::{RecordKey, Store, StoreError, StoredRecord};
use crate::task::{CatalogName, NodeName, SectionPath};

/// The most choices that an ambiguous id names.
const MAX_CHOICES: usize = 10;

/// Why there is no such record to show.
#[derive(Debug, Error)]
pub enum FindError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Nothing has this id.
    #[error("no record {id:?} in Catalog {catalog}{place}; ids must match exactly, `trawler records ls` lists them")]
    NoSuchRecord {
        /// The id, cleaned.
        id: String,
        /// The Catalog.
        catalog: CatalogName,
        /// Where it was looked for, if not everywhere.
        place: String,
    },
    /// Several have it.
    #[error("{count} records have the id {id:?}, in {choices}; choose one with --node and --section")]
    Ambiguous {
        /// The id, cleaned.
        id: String,
        /// How many.
        count: usize,
        /// Their sections, cleaned, at most ten.
        choices: String,
    },
}

/// The one record with this id; node and section narrow the search.
pub async fn find(
    store: &dyn Store,
    catalog: &CatalogName,
    id: &str,
    node: Option<&NodeName>,
    section: Option<&SectionPath>,
) -> Result<RecordSheet, FindError> {
    let known = store.nodes(catalog).await?;
    let nodes: Vec<NodeName> = match node {
        Some(node) => vec![node.clone()],
        None => known.keys().cloned().collect(),
    };
    let mut first = None;
    let mut sections = Vec::new();
    for node in nodes {
        for state in store.sections(catalog, &node).await? {
            if section.is_some_and(|section| *section != state.section.section) {
                continue;
            }
            let key = RecordKey { section: state.section, id: id.to_owned() };
            if let Some(stored) = store.get(catalog, &key).await? {
                sections.push(key.section);
                first.get_or_insert(stored);
            }
        }
    }
    let id = shown(id, 120);
    match first {
        Some(stored) if sections.len() == 1 => {
            let stale_since = known.get(&stored.key.section.node).and_then(|node| node.failing_since);
            Ok(RecordSheet { stored, stale_since })
        }
        Some(_) => {
            let count = sections.len();
            let named: Vec<_> = sections.iter().take(MAX_CHOICES).map(|key| shown(&key.to_string(), 120)).collect();
            let rest = count.saturating_sub(MAX_CHOICES);
            let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
            Err(FindError::Ambiguous { id, count, choices: named.join(", ") + &more })
        }
        None => {
            let in_node = node.map(|node| format!(", node {}", shown(node.as_str(), 80)));
            let in_section = section.map(|section| format!(", section {:?}", shown(section.as_str(), 120)));
            let place = in_node.unwrap_or_default() + &in_section.unwrap_or_default();
            Err(FindError::NoSuchRecord { id, catalog: catalog.clone(), place })
        }
    }
}

/// One record, to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordSheet {
    /// The record as it is kept.
    pub stored: StoredRecord,
    /// Since then nothing of its node could be read: it may be gone or changed.
    pub stale_since: Option<Timestamp>,
}

impl RecordSheet {
    /// As text: what it says, one property a line; else the record as it is kept, on one line.
    pub fn render(&self, output: Output) -> String {
        let payload = || String::from_utf8_lossy(&self.stored.payload).into_owned() + "\n";
        if output != Output::Text {
            return payload();
        }
        match serde_json::from_slice::<Record>(&self.stored.payload) {
            Ok(record) => sheet(&properties(self, &record)),
            Err(_) => shown(&payload(), usize::MAX) + "\n",
        }
    }
}

type Property = (String, String);

fn properties(found: &RecordSheet, record: &Record) -> Vec<Property> {
    let RecordSheet { stored, stale_since } = found;
    let mut list = vec![
        ("Id".to_owned(), record.id.clone()),
        ("Node".to_owned(), stored.key.section.node.to_string()),
        ("Section".to_owned(), stored.key.section.section.to_string()),
    ];
    texts(&mut list, "Title", &record.title);
    texts(&mut list, "Description", &record.description);
    let mut add = |name: &str, value: Option<String>| list.push((name.to_owned(), value.unwrap_or_default()));
    let publisher = record.publisher.as_ref();
    add("Publisher", publisher.and_then(|agent| agent.name.clone()));
    add("Publisher id", publisher.and_then(|agent| agent.id.clone()));
    let keywords: Vec<&str> = record.keywords.iter().map(|keyword| keyword.value.as_str()).collect();
    add("Keywords", Some(keywords.join(", ")));
    add("Themes", Some(record.themes.join(", ")));
    add("Issued", record.issued.clone());
    add("Modified", record.modified.clone());
    add("License", record.license.clone());
    for distribution in &record.distributions {
        add("Distribution", Some(in_one_line(distribution)));
    }
    for offer in &record.offers {
        add("Offer", Some(offer.get().to_owned()));
    }
    add("Found at", Some(record.origin.provenance.join(" › ")));
    add("Protocol", Some(record.origin.protocol.clone()));
    add("Fetched at", Some(record.origin.fetched_at.clone()));
    add("Stale since", stale_since.map(|since| since.to_string()));
    add("Hash", Some(stored.hash.to_string()));
    list.retain(|(_, value)| !value.is_empty());
    list
}

fn texts(list: &mut Vec<Property>, name: &str, texts: &[LangString]) {
    for text in texts {
        let name = text.lang.as_ref().map_or_else(|| name.to_owned(), |lang| format!("{name} ({})", shown(lang, 12)));
        list.push((name, text.value.clone()));
    }
}

fn in_one_line(distribution: &Distribution) -> String {
    let title = distribution.title.first().map(|title| title.value.as_str());
    let parts = [
        title,
        distribution.format.as_deref(),
        distribution.media_type.as_deref(),
        distribution.access_url.as_deref(),
        distribution.download_url.as_deref(),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

fn sheet(properties: &[Property]) -> String {
    let width = properties.iter().map(|(name, _)| shown_width(name)).max().unwrap_or_default();
    properties.iter().fold(String::new(), |text, (name, value)| {
        let padding = " ".repeat(width - shown_width(name) + 2);
        text + name + &padding + &shown(value, usize::MAX) + "\n"
    })
}
