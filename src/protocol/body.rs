//! The body of a JSON answer: its faults that are forgiven, and the errors for those that are not.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{Forgiven, ReadError, Response, quoted_start};

/// How deep a document may be nested; serde_json's own limit.
const MAX_DEPTH: u64 = 128;

/// How many entries a page may have: what an entry costs in memory is far more than the two bytes it may have on the wire.
pub(crate) const MAX_ENTRIES: usize = 100_000;

/// The faults forgiven so far, by name.
pub(crate) type Faults = BTreeMap<Forgiven, u64>;

/// Counts one fault.
pub(crate) fn forgive(faults: &mut Faults, fault: Forgiven) {
    *faults.entry(fault).or_default() += 1;
}

/// The text of a JSON answer, with what had to be forgiven to read it.
///
/// A byte order mark is dropped, bytes that are not UTF-8 are replaced, and a backslash before a character that can't
/// be escaped stands for itself.
pub(crate) fn body_text<'r>(response: &'r Response, faults: &mut Faults) -> Cow<'r, str> {
    if response.content_type.as_ref().is_some_and(|sent| !sent.to_ascii_lowercase().contains("json")) {
        forgive(faults, Forgiven::ContentTypeMismatch);
    }
    let body = response.body.strip_prefix(b"\xEF\xBB\xBF").inspect(|_| forgive(faults, Forgiven::ByteOrderMark));
    let body = body.unwrap_or(&response.body);
    // Checking is several times as fast as replacing, and almost all bodies pass.
    std::str::from_utf8(body).map_or_else(
        |_| {
            forgive(faults, Forgiven::InvalidUtf8);
            Cow::Owned(String::from_utf8_lossy(body).into_owned())
        },
        Cow::Borrowed,
    )
}

/// Parses a page; if it is broken by an escape that JSON doesn't know, once more with that repaired in `slot`.
pub(crate) fn parse_page<'t, T>(
    text: &'t str,
    slot: &'t mut String,
    faults: &mut Faults,
    parse: impl Fn(&'t str) -> Result<T, serde_json::Error>,
) -> Result<T, serde_json::Error> {
    match parse(text) {
        Err(error) if error.to_string().starts_with("invalid escape") => {
            forgive(faults, Forgiven::InvalidEscape);
            *slot = with_literal_backslashes(text);
            parse(slot)
        }
        parsed => parsed,
    }
}

/// Doubles each backslash that starts no escape.
fn with_literal_backslashes(text: &str) -> String {
    let mut repaired = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, from) = rest.split_at(at);
        repaired.push_str(before);
        let hex = from.get(2..6).is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        match from[1..].chars().next() {
            Some(c @ ('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't')) => {
                repaired.extend(['\\', c]);
                rest = &from[2..];
            }
            Some('u') if hex => {
                repaired.push_str(&from[..6]);
                rest = &from[6..];
            }
            _ => {
                repaired.push_str("\\\\");
                rest = &from[1..];
            }
        }
    }
    repaired.push_str(rest);
    repaired
}

/// The error for a body that can't be parsed.
pub(crate) fn unreadable(response: &Response, expected: &'static str, error: &serde_json::Error) -> ReadError {
    if is_too_deep(error) {
        let what = format!("nested more than {MAX_DEPTH} deep");
        return ReadError::OverLimit { url: response.url.to_string(), what, limit: MAX_DEPTH };
    }
    not_the_protocol(response, expected, error.to_string())
}

/// The error for a body that is something else.
pub(crate) fn not_the_protocol(response: &Response, expected: &'static str, why: impl Into<String>) -> ReadError {
    let start = quoted_start(&response.body);
    ReadError::NotTheProtocol { url: response.url.to_string(), expected, why: why.into(), start }
}

fn is_too_deep(error: &serde_json::Error) -> bool {
    error.to_string().starts_with("recursion limit")
}

/// The error for a page with more entries than a page may have, if it has.
pub(crate) fn check_entries(response: &Response, entries: usize) -> Result<(), ReadError> {
    if entries <= MAX_ENTRIES {
        return Ok(());
    }
    let what = format!("a page of {entries} entries");
    Err(ReadError::OverLimit { url: response.url.to_string(), what, limit: MAX_ENTRIES as u64 })
}

/// A text to show: control characters replaced, at most 256 characters.
pub(crate) fn sentence(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(256).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backslash_that_escapes_nothing_stands_for_itself() {
        assert_eq!(with_literal_backslashes(r#""\c \n \\d \u00e9 \u12 \"#), r#""\\c \n \\d \u00e9 \\u12 \\"#);
    }
}
