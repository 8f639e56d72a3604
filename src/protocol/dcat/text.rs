//! From bytes to text: byte order marks, UTF-16, declared encodings, bytes that are not UTF-8.

use std::borrow::Cow;
use std::collections::BTreeMap;

use encoding_rs::{Encoding, UTF_8};

use crate::protocol::Forgiven;

/// The document's text, without byte order mark and without an XML declaration (which speaks of bytes).
pub(super) fn decode_text<'a>(
    body: &'a [u8],
    content_type: Option<&str>,
    forgiven: &mut BTreeMap<Forgiven, u64>,
) -> Cow<'a, str> {
    let (encoding, body) = match Encoding::for_bom(body) {
        Some((encoding, bom_bytes)) => {
            *forgiven.entry(Forgiven::ByteOrderMark).or_default() += 1;
            (encoding, &body[bom_bytes..])
        }
        None => (declared_in_xml(body).or_else(|| charset_of(content_type)).unwrap_or(UTF_8), body),
    };
    let (text, had_errors) = encoding.decode_without_bom_handling(body);
    if had_errors {
        let replaced = text.matches('\u{fffd}').count() as u64;
        *forgiven.entry(Forgiven::InvalidUtf8).or_default() += replaced;
    }
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(without_xml_declaration(text)),
        Cow::Owned(mut text) => {
            let declaration = text.len() - without_xml_declaration(&text).len();
            text.drain(..declaration);
            Cow::Owned(text)
        }
    }
}

fn without_xml_declaration(text: &str) -> &str {
    let trimmed = text.trim_start();
    if !trimmed.starts_with("<?xml ") {
        return text;
    }
    trimmed.split_once("?>").map_or(text, |(_, rest)| rest)
}

/// The encoding an XML declaration names, if the body starts with one in a superset of ASCII.
fn declared_in_xml(body: &[u8]) -> Option<&'static Encoding> {
    let head = body[..body.len().min(200)].trim_ascii_start();
    let head = head.strip_prefix(b"<?xml ")?;
    let head = std::str::from_utf8(head.split(|byte| *byte == b'>').next()?).ok()?;
    let after = head.split_once("encoding")?.1.trim_start().strip_prefix('=')?.trim_start();
    let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let label = after[1..].split(quote).next()?;
    // A document whose declaration could be read as ASCII is not UTF-16, whatever it says.
    Encoding::for_label(label.as_bytes()).filter(|encoding| encoding.is_ascii_compatible())
}

fn charset_of(content_type: Option<&str>) -> Option<&'static Encoding> {
    let parameters = content_type?.split(';').skip(1);
    let charset = parameters.filter_map(|p| p.split_once('=')).find(|(k, _)| k.trim().eq_ignore_ascii_case("charset"));
    Encoding::for_label(charset?.1.trim().trim_matches('"').as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(body: &[u8], content_type: Option<&str>) -> (String, BTreeMap<Forgiven, u64>) {
        let mut forgiven = BTreeMap::new();
        (decode_text(body, content_type, &mut forgiven).into_owned(), forgiven)
    }

    #[test]
    fn a_byte_order_mark_is_taken_off_and_counted() {
        assert_eq!(
            text_of(b"\xEF\xBB\xBFabc", None),
            ("abc".to_owned(), BTreeMap::from([(Forgiven::ByteOrderMark, 1)]))
        );
    }

    #[test]
    fn utf_16_is_decoded_and_its_xml_declaration_dropped() {
        let body: Vec<u8> = "\u{feff}<?xml version=\"1.0\" encoding=\"UTF-16\"?><é/>"
            .encode_utf16()
            .flat_map(u16::to_be_bytes)
            .collect();
        assert_eq!(text_of(&body, None).0, "<é/>");
    }

    #[test]
    fn an_xml_declaration_names_the_encoding() {
        assert_eq!(text_of(b"<?xml version='1.0' encoding='ISO-8859-1'?><a>\xE9</a>", None).0, "<a>é</a>");
    }

    #[test]
    fn a_charset_parameter_names_the_encoding() {
        assert_eq!(text_of(b"\xE9", Some("text/turtle; charset=\"iso-8859-1\"")).0, "é");
    }

    #[test]
    fn bytes_that_are_not_utf_8_are_replaced_and_counted() {
        assert_eq!(
            text_of(b"a\xFFb\xFFc", None),
            ("a\u{fffd}b\u{fffd}c".to_owned(), BTreeMap::from([(Forgiven::InvalidUtf8, 2)]))
        );
    }
}
