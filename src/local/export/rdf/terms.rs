//! From text to RDF terms that are valid whatever the text.

use jiff::civil;
use oxrdf::vocab::xsd;
use oxrdf::{Literal, NamedNode, Term};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::value::RawValue;

use super::vocabulary::RDF_JSON;
use crate::record::LangString;

/// What no IRI may hold (RFC 3987 §2.2).
const ILLEGAL: &AsciiSet =
    &CONTROLS.add(b' ').add(b'<').add(b'>').add(b'"').add(b'{').add(b'}').add(b'|').add(b'\\').add(b'^').add(b'`');

/// The absolute IRI that a text is; a web address with illegal characters is repaired.
pub(super) fn iri(text: &str) -> Option<NamedNode> {
    if let Ok(node) = NamedNode::new(text) {
        return Some(node);
    }
    let (scheme, rest) = text.split_once("://")?;
    let is_web = ["http", "https", "ftp"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    let repaired = is_web.then(|| format!("{scheme}://{}", utf8_percent_encode(rest, ILLEGAL)))?;
    NamedNode::new(repaired).ok()
}

/// The IRI that a text is, else the text.
pub(super) fn iri_or_text(text: &str) -> Term {
    iri(text).map_or_else(|| plain(text), Term::from)
}

/// A text.
pub(super) fn plain(text: &str) -> Term {
    Literal::new_simple_literal(text).into()
}

/// A text in its language, if the tag is one.
pub(super) fn in_language(text: &LangString) -> Term {
    text.lang
        .as_deref()
        .and_then(|lang| Literal::new_language_tagged_literal(text.value.as_str(), lang).ok())
        .unwrap_or_else(|| Literal::new_simple_literal(text.value.as_str()))
        .into()
}

/// A date, or a date with a time, if it is written as XML Schema wants it; else the text.
pub(super) fn date(text: &str) -> Term {
    if is_date(text) {
        Literal::new_typed_literal(text, xsd::DATE).into()
    } else if is_date_time(text) {
        Literal::new_typed_literal(text, xsd::DATE_TIME).into()
    } else {
        plain(text)
    }
}

/// JSON, if every reader can read it; else the text. What the source may write and others refuse: halves of surrogate
/// pairs, more than a hundred levels of nesting.
pub(super) fn json(raw: &RawValue) -> Term {
    if is_json(raw.get()) { Literal::new_typed_literal(raw.get(), RDF_JSON).into() } else { plain(raw.get()) }
}

/// Whether every reader can read it as JSON.
pub(in crate::local::export) fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(text).is_ok()
}

fn has_shape(text: &str, shape: &str) -> bool {
    text.len() == shape.len()
        && text.bytes().zip(shape.bytes()).all(|(b, s)| if s == b'0' { b.is_ascii_digit() } else { b == s })
}

fn is_date(text: &str) -> bool {
    has_shape(text, "0000-00-00") && text.parse::<civil::Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    const SHAPE: &str = "0000-00-00T00:00:00";
    let Some((moment, rest)) = text.split_at_checked(SHAPE.len()) else { return false };
    let rest = match rest.strip_prefix('.') {
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            if zone.len() == fraction.len() {
                return false;
            }
            zone
        }
        None => rest,
    };
    // 60 seconds are a time for jiff, which reads leap seconds, but not for XML Schema.
    has_shape(moment, SHAPE)
        && !moment.ends_with(":60")
        && moment.parse::<civil::DateTime>().is_ok()
        && (rest.is_empty() || rest == "Z" || is_offset(rest))
}

fn is_offset(text: &str) -> bool {
    (has_shape(text, "+00:00") || has_shape(text, "-00:00"))
        && (text[1..] <= *"13:59" && text[4..] <= *"59" || text[1..] == *"14:00")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_typed_only_if_xml_schema_takes_them() {
        let typed = |text| match date(text) {
            Term::Literal(literal) => literal.datatype().into_owned(),
            other => panic!("{other}"),
        };
        for text in ["2024-02-29", "1999-12-31"] {
            assert_eq!(typed(text), xsd::DATE, "{text}");
        }
        for text in [
            "2024-02-29T12:00:00",
            "2024-02-29T12:00:00Z",
            "2024-02-29T12:00:00.123456",
            "2024-02-29T12:00:00.5+02:00",
            "2024-02-29T23:59:59-14:00",
        ] {
            assert_eq!(typed(text), xsd::DATE_TIME, "{text}");
        }
        for text in [
            "",
            "2024",
            "2023-02-29",
            "2024-2-9",
            "2024-02-29 12:00:00",
            "2024-02-29T12:00:60",
            "2024-02-29T25:00:00",
            "2024-02-29T12:00:00.",
            "2024-02-29T12:00:00+1400",
            "2024-02-29T12:00:00+14:01",
            "2024-02-29T12:00:00+02:60",
            "2024-02-29T12:00:00[UTC]",
            "٢٠٢٤-02-29",
        ] {
            assert_eq!(typed(text), xsd::STRING, "{text}");
        }
    }

    #[test]
    fn only_web_addresses_are_repaired() {
        let repaired = |text| iri(text).map(NamedNode::into_string);
        assert_eq!(
            repaired("https://x.example/a b?c=<d>|{}^`\\\""),
            Some("https://x.example/a%20b?c=%3Cd%3E%7C%7B%7D%5E%60%5C%22".to_owned())
        );
        assert_eq!(repaired("https://x.example/ä"), Some("https://x.example/ä".to_owned()));
        assert_eq!(repaired("urn:x:1"), Some("urn:x:1".to_owned()));
        for text in ["", "health", "Topic: health care", "/relative", "http://[::1", "_:b0"] {
            assert_eq!(repaired(text), None, "{text}");
        }
    }
}
