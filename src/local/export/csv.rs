//! CSV (RFC 4180, UTF-8, CRLF) with a header row.
//!
//! - Several values in one cell are joined with ` | `.
//! - Of several languages, title and description show one: the text without a language, else English, else the first.
//! - A cell that a spreadsheet would take for a formula (it starts with `=`, `+`, `-`, `@`, a tab or a carriage return)
//!   gets an apostrophe in front.
//! - NUL, at which many readers stop, is written as `�`.

use std::borrow::Cow;

use super::{Encoder, ExportError, record_in, unreadable};
use crate::record::{Agent, Distribution, LangString, Record};
use crate::store::StoredRecord;

const HEADER: [&str; 15] = [
    "node",
    "section",
    "id",
    "title",
    "description",
    "publisher",
    "keywords",
    "themes",
    "issued",
    "modified",
    "license",
    "formats",
    "access_urls",
    "download_urls",
    "hash",
];
const SEPARATOR: &str = " | ";

pub(super) struct Csv;

impl Encoder for Csv {
    fn begin(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(HEADER.join(",").as_bytes());
        out.extend_from_slice(b"\r\n");
    }

    fn encode(&mut self, records: &[StoredRecord], out: &mut Vec<u8>) -> Result<(), ExportError> {
        let mut rows = ::csv::WriterBuilder::new().terminator(::csv::Terminator::CRLF).from_writer(out);
        for stored in records {
            let record = record_in(stored)?;
            rows.write_record(cells(stored, &record).iter().map(|cell| guarded(cell).into_owned()))
                .map_err(|why| unreadable(stored, &why))?;
        }
        rows.flush().map_err(ExportError::Output)
    }
}

fn cells(stored: &StoredRecord, record: &Record) -> [String; HEADER.len()] {
    [
        stored.key.section.node.to_string(),
        stored.key.section.section.to_string(),
        stored.key.id.clone(),
        in_one_language(&record.title).to_owned(),
        in_one_language(&record.description).to_owned(),
        record.publisher.as_ref().map(name_of).unwrap_or_default().to_owned(),
        joined(record.keywords.iter().map(|keyword| keyword.value.as_str())),
        joined(record.themes.iter().map(String::as_str)),
        record.issued.clone().unwrap_or_default(),
        record.modified.clone().unwrap_or_default(),
        record.license.clone().unwrap_or_default(),
        joined_of(record, |d| d.format.as_deref().or(d.media_type.as_deref())),
        joined_of(record, |d| d.access_url.as_deref()),
        joined_of(record, |d| d.download_url.as_deref()),
        stored.hash.to_string(),
    ]
}

/// The text without a language, else the English one, else the first.
pub(in crate::local) fn in_one_language(texts: &[LangString]) -> &str {
    let is_english = |lang: &str| lang == "en" || lang.starts_with("en-");
    texts
        .iter()
        .find(|text| text.lang.is_none())
        .or_else(|| texts.iter().find(|text| text.lang.as_deref().is_some_and(is_english)))
        .or_else(|| texts.first())
        .map_or("", |text| &text.value)
}

fn name_of(agent: &Agent) -> &str {
    agent.name.as_deref().or(agent.id.as_deref()).unwrap_or_default()
}

fn joined<'a>(values: impl Iterator<Item = &'a str>) -> String {
    values.collect::<Vec<_>>().join(SEPARATOR)
}

fn joined_of<'a>(record: &'a Record, value: impl Fn(&'a Distribution) -> Option<&'a str>) -> String {
    joined(record.distributions.iter().filter_map(value))
}

fn guarded(cell: &str) -> Cow<'_, str> {
    let is_formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if !is_formula && !cell.contains('\0') {
        return cell.into();
    }
    let apostrophe = if is_formula { "'" } else { "" };
    format!("{apostrophe}{}", cell.replace('\0', "\u{FFFD}")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &str, lang: Option<&str>) -> LangString {
        LangString { value: value.to_owned(), lang: lang.map(str::to_owned) }
    }

    #[test]
    fn a_text_without_language_comes_before_english_before_the_first() {
        let german = text("Vögel", Some("de"));
        let british = text("Birds", Some("en-gb"));
        let plain = text("Aves", None);
        assert_eq!(in_one_language(&[german.clone(), british.clone(), plain]), "Aves");
        assert_eq!(in_one_language(&[german.clone(), british]), "Birds");
        assert_eq!(in_one_language(&[german]), "Vögel");
        assert_eq!(in_one_language(&[]), "");
    }

    #[test]
    fn what_a_spreadsheet_would_run_is_guarded() {
        for formula in ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"] {
            assert_eq!(guarded(formula), format!("'{formula}"));
        }
        assert_eq!(guarded("a=1"), "a=1");
    }

    #[test]
    fn nul_is_replaced() {
        assert_eq!(guarded("a\0b"), "a\u{FFFD}b");
        assert_eq!(guarded("=\0"), "'=\u{FFFD}");
    }
}
