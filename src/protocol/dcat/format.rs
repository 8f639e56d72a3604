//! Which serialisation a document is in: the settings, else what it looks like; content type and path decide the rest.

use crate::protocol::RdfFormat;

/// What a document's first characters look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// An XML document that isn't HTML.
    Xml,
    /// JSON.
    Json,
    /// Turtle or N-Triples.
    Turtle,
    /// HTML: never a catalogue.
    Html,
    /// None of these.
    Unknown,
}

/// What `text` looks like.
pub(super) fn look_of(text: &str) -> Look {
    let text = text.trim_start();
    let Some(first) = text.chars().next() else { return Look::Unknown };
    match first {
        '{' => Look::Json,
        // Turtle may start with a blank node: `[ a dcat:Dataset ] .`
        '[' => match text[1..].trim_start().chars().next() {
            Some('{' | '"' | '[') => Look::Json,
            Some(']') if text[1..].trim_start()[1..].trim().is_empty() => Look::Json,
            _ => Look::Turtle,
        },
        '<' => look_of_angle_bracket(text),
        '@' | '#' | '_' => Look::Turtle,
        _ if starts_with_ignoring_case(text, "prefix ") || starts_with_ignoring_case(text, "base ") => Look::Turtle,
        _ => Look::Unknown,
    }
}

fn look_of_angle_bracket(text: &str) -> Look {
    // The root element may stand behind a prologue of declarations and comments.
    let head: String = text.chars().take(2048).collect::<String>().to_ascii_lowercase();
    if head.starts_with("<html") || head.starts_with("<!doctype html") {
        return Look::Html;
    }
    if head.starts_with("<?") || head.starts_with("<!") {
        let html = head.contains("<html") || head.contains("<!doctype html");
        return if html && !head.contains("<rdf:rdf") { Look::Html } else { Look::Xml };
    }
    // An element's name, or the start of an IRI. A root element declares namespaces, or at least it ends.
    let name = text[1..].split(|c: char| c.is_whitespace() || matches!(c, '>' | '/')).next().unwrap_or_default();
    let has_attributes = text[1 + name.len()..].starts_with(char::is_whitespace);
    let is_element = !name.is_empty() && (has_attributes || text.contains(&format!("</{name}>")));
    if is_element { Look::Xml } else { Look::Turtle }
}

fn starts_with_ignoring_case(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix))
}

/// The serialisation that a media type names, if it names one.
pub(super) fn format_of_media_type(content_type: &str) -> Option<RdfFormat> {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        "text/turtle" | "application/turtle" | "application/x-turtle" | "text/n3" | "text/rdf+n3" => {
            Some(RdfFormat::Turtle)
        }
        "application/n-triples" | "text/ntriples" => Some(RdfFormat::NTriples),
        "application/rdf+xml" | "application/xml" | "text/xml" => Some(RdfFormat::RdfXml),
        "application/ld+json" | "application/json" | "text/json" => Some(RdfFormat::JsonLd),
        _ => None,
    }
}

/// The serialisation that a path's ending names.
fn format_of_path(path: &str) -> Option<RdfFormat> {
    match path.rsplit_once('.')?.1.to_ascii_lowercase().as_str() {
        "ttl" | "n3" => Some(RdfFormat::Turtle),
        "nt" => Some(RdfFormat::NTriples),
        "rdf" | "xml" | "owl" => Some(RdfFormat::RdfXml),
        "jsonld" | "json" => Some(RdfFormat::JsonLd),
        _ => None,
    }
}

/// A choice of serialisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    /// How to parse.
    pub(super) format: RdfFormat,
    /// The content type says something else.
    pub(super) contradicts_content_type: bool,
}

/// How to parse a document that is not HTML; `None` if nothing tells.
pub(super) fn choose_format(look: Look, content_type: Option<&str>, path: &str) -> Option<Choice> {
    let by_type = content_type.and_then(format_of_media_type);
    let by_path = format_of_path(path);
    let seen = match look {
        Look::Xml => Some(RdfFormat::RdfXml),
        Look::Json => Some(RdfFormat::JsonLd),
        Look::Turtle => Some(match by_type.or(by_path) {
            Some(RdfFormat::NTriples) => RdfFormat::NTriples,
            _ => RdfFormat::Turtle,
        }),
        Look::Html | Look::Unknown => None,
    };
    let format = seen.or(by_type).or(by_path)?;
    // `application/octet-stream` and no type at all claim nothing; any other type that isn't the right one is wrong.
    let claims = content_type.is_some_and(|t| !t.trim().is_empty() && !t.contains("octet-stream"));
    Some(Choice { format, contradicts_content_type: claims && by_type != Some(format) })
}

/// The serialisation's name.
pub(super) fn name_of(format: RdfFormat) -> &'static str {
    match format {
        RdfFormat::JsonLd => "DCAT (JSON-LD)",
        RdfFormat::Turtle => "DCAT (Turtle)",
        RdfFormat::NTriples => "DCAT (N-Triples)",
        RdfFormat::RdfXml => "DCAT (RDF/XML)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_characters_tell_what_a_document_is() {
        for (text, look) in [
            ("@prefix a: <b> .", Look::Turtle),
            ("PREFIX a: <b>", Look::Turtle),
            ("<http://a.example/b> a <c> .", Look::Turtle),
            ("<urn:x:y> a <c> .", Look::Turtle),
            ("<#it> a <c> .", Look::Turtle),
            ("<> a <c> .", Look::Turtle),
            ("[ a <c> ] .", Look::Turtle),
            ("[] a <c> .", Look::Turtle),
            ("_:b0 a <c> .", Look::Turtle),
            ("# comment", Look::Turtle),
            ("[]", Look::Json),
            (" [ {}]", Look::Json),
            ("{}", Look::Json),
            ("<rdf:RDF xmlns:a=\"http://x\">", Look::Xml),
            ("<error>no</error>", Look::Xml),
            ("<x:a> <x:b> <x:c> .", Look::Turtle),
            ("<http://a.example/b c> a <d> .", Look::Turtle),
            ("<catalog> a <d> .", Look::Turtle),
            ("<?xml version='1.0'?><x/>", Look::Xml),
            ("<!-- c --><rdf:RDF>", Look::Xml),
            ("<!DOCTYPE rdf:RDF [", Look::Xml),
            ("<!DOCTYPE HTML><html>", Look::Html),
            ("<?xml version='1.0'?>\n<html xmlns='x'>", Look::Html),
            ("<HTML>", Look::Html),
            ("Not found", Look::Unknown),
            ("", Look::Unknown),
        ] {
            assert_eq!(look_of(text), look, "{text:?}");
        }
    }

    #[test]
    fn the_look_wins_over_the_content_type_which_wins_over_the_path() {
        let chosen = |look, content_type, path| {
            choose_format(look, content_type, path).map(|choice| (choice.format, choice.contradicts_content_type))
        };
        assert_eq!(chosen(Look::Xml, Some("text/turtle"), "/a.ttl"), Some((RdfFormat::RdfXml, true)));
        assert_eq!(chosen(Look::Xml, Some("text/xml; charset=utf-8"), "/a"), Some((RdfFormat::RdfXml, false)));
        assert_eq!(chosen(Look::Xml, Some("application/octet-stream"), "/a"), Some((RdfFormat::RdfXml, false)));
        assert_eq!(chosen(Look::Json, Some("text/plain"), "/a"), Some((RdfFormat::JsonLd, true)));
        assert_eq!(chosen(Look::Turtle, Some("application/n-triples"), "/a"), Some((RdfFormat::NTriples, false)));
        assert_eq!(chosen(Look::Turtle, None, "/a.nt"), Some((RdfFormat::NTriples, false)));
        assert_eq!(chosen(Look::Unknown, Some("text/turtle"), "/a.rdf"), Some((RdfFormat::Turtle, false)));
        assert_eq!(chosen(Look::Unknown, None, "/a.rdf"), Some((RdfFormat::RdfXml, false)));
        assert_eq!(chosen(Look::Unknown, None, "/a"), None);
    }
}
