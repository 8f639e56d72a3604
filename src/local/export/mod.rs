//! Writing results: a Catalog's live records as JSON Lines, JSON-LD, Turtle or CSV.
//!
//! Records are read in chunks and written chunk by chunk, so memory does not grow with their number. Their order is
//! the store's (node, section, id), so two exports of the same state are equal byte by byte.

mod csv;
mod jsonl;
mod jsonld;
mod publish;
mod rdf;
mod turtle;

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;
use thiserror::Error;

pub(super) use self::csv::in_one_language;
pub(super) use self::publish::{Prepared, prepare_records, prepare_text, remove};
pub use self::publish::{Published, publish};
use super::text::shown;
use crate::record::Record;
use crate::store::{RecordFilter, Store, StoreError, StoredRecord};
use crate::task::CatalogName;

/// A chunk is about this large: enough to make each write worth its call, small enough to stay in the cache.
const CHUNK_BYTES: usize = 1 << 20;
/// Records in the first chunk, before their size is known.
const FIRST_CHUNK_RECORDS: usize = 64;
/// The most records in a chunk.
const MAX_CHUNK_RECORDS: usize = 4096;

/// How records are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, ValueEnum)]
pub enum Format {
    /// One record a line, as it is kept: everything that is known of it
    #[default]
    Jsonl,
    /// One JSON-LD document (DCAT)
    Jsonld,
    /// Turtle (DCAT)
    Turtle,
    /// A table for spreadsheets: the main properties
    Csv,
}

impl Format {
    /// The ending of a file of this format, without dot.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Jsonld => "jsonld",
            Self::Turtle => "ttl",
            Self::Csv => "csv",
        }
    }

    /// What [`publish()`] calls the file.
    pub fn file_name(self) -> String {
        format!("records.{}", self.extension())
    }

    fn encoder(self) -> Box<dyn Encoder> {
        match self {
            Self::Jsonl => Box::new(jsonl::Jsonl),
            Self::Jsonld => Box::new(jsonld::Jsonld::default()),
            Self::Turtle => Box::new(turtle::Turtle::new()),
            Self::Csv => Box::new(csv::Csv),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Jsonl => "jsonl",
            Self::Jsonld => "jsonld",
            Self::Turtle => "turtle",
            Self::Csv => "csv",
        })
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        <Self as ValueEnum>::from_str(text, false)
            .map_err(|_| format!("{:?} is not a format; write jsonl, jsonld, turtle or csv", shown(text, 40)))
    }
}

/// What an export wrote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExportSummary {
    /// Records.
    pub records: u64,
    /// Bytes.
    pub bytes: u64,
    /// RDF statements of the sources that were left out, because no valid RDF can say them.
    pub statements_left_out: u64,
}

/// Why an export failed.
#[derive(Debug, Error)]
pub enum ExportError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A record in the store is not what was put there.
    #[error(
        "record {id:?} of {section} can't be read from the store: {why}; export with --format jsonl, which does not \
         look inside, or crawl the node again"
    )]
    UnreadableRecord {
        /// Its id, cleaned.
        id: String,
        /// Its section, cleaned.
        section: String,
        /// Why.
        why: String,
    },
    /// Whoever takes the output refused it.
    #[error("can't write the records: {0}")]
    Output(#[source] io::Error),
    /// The file could not be written. What was there before is untouched.
    #[error("can't {doing} {}: {source}; {remedy}", path.display())]
    File {
        /// "create", "write", "replace", "remove".
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
        /// What to do.
        remedy: &'static str,
    },
}

impl ExportError {
    /// Whether the reader of a pipe went away, which is its right and no failure.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(source) if source.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// Writes the records that pass the filter. Does not flush or buffer: `out` gets few, large writes.
pub async fn export(
    store: &dyn Store,
    catalog: &CatalogName,
    filter: &RecordFilter,
    format: Format,
    out: &mut (dyn Write + Send),
) -> Result<ExportSummary, ExportError> {
    let mut encoder = format.encoder();
    let mut summary = ExportSummary::default();
    let mut buffer = Vec::new();
    encoder.begin(&mut buffer);
    let mut chunk = store.records(catalog, filter, None, FIRST_CHUNK_RECORDS).await?;
    while let Some(last) = chunk.last() {
        let after = last.key.clone();
        // While this chunk is written, the store reads the next one.
        let next = store.records(catalog, filter, Some(&after), next_limit(&chunk));
        let written = async {
            encoder.encode(&chunk, &mut buffer)?;
            write(&mut buffer, out, &mut summary)
        };
        let (next, written) = tokio::join!(next, written);
        written?;
        summary.records += chunk.len() as u64;
        chunk = next?;
    }
    summary.statements_left_out = encoder.end(&mut buffer)?;
    write(&mut buffer, out, &mut summary)?;
    Ok(summary)
}

/// How many records to ask for next, so that chunks have about the same size whatever the size of the records.
fn next_limit(chunk: &[StoredRecord]) -> usize {
    let bytes: usize = chunk.iter().map(|record| record.payload.len()).sum();
    let mean_bytes = (bytes / chunk.len().max(1)).max(1);
    // At most four times as many as now: a few small ones may be followed by large ones.
    (CHUNK_BYTES / mean_bytes).clamp(1, MAX_CHUNK_RECORDS.min(chunk.len().saturating_mul(4)))
}

fn write(buffer: &mut Vec<u8>, out: &mut (dyn Write + Send), summary: &mut ExportSummary) -> Result<(), ExportError> {
    out.write_all(buffer).map_err(ExportError::Output)?;
    summary.bytes += buffer.len() as u64;
    buffer.clear();
    Ok(())
}

/// Turns records into one format. Pure: appends to a buffer.
trait Encoder: Send {
    /// What stands before all records.
    fn begin(&mut self, _out: &mut Vec<u8>) {}

    /// These records.
    fn encode(&mut self, records: &[StoredRecord], out: &mut Vec<u8>) -> Result<(), ExportError>;

    /// What stands after all records. Gives the number of statements left out.
    fn end(&mut self, _out: &mut Vec<u8>) -> Result<u64, ExportError> {
        Ok(0)
    }
}

/// The record in a payload.
fn record_in(stored: &StoredRecord) -> Result<Record, ExportError> {
    serde_json::from_slice(&stored.payload).map_err(|why| unreadable(stored, &why))
}

fn unreadable(stored: &StoredRecord, why: &dyn fmt::Display) -> ExportError {
    ExportError::UnreadableRecord {
        id: shown(&stored.key.id, 120),
        section: shown(&stored.key.section.to_string(), 120),
        why: why.to_string(),
    }
}
