//! What must hold of XML text before an RDF/XML parser sees it: no entity bombs, no abyss, no swarm of attributes, and
//! an end.

use std::collections::HashMap;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::parse::Document;
use crate::protocol::ReadError;

/// How deep elements may be nested. RDF/XML needs two levels for each step along a property.
const MAX_DEPTH: u64 = 64;
/// Attributes of one element: parsers compare each with each.
const MAX_ATTRIBUTES: usize = 128;
/// Declared entities, and what all references to them may add up to.
const MAX_ENTITIES: u64 = 256;
const MAX_EXPANDED_BYTES: u64 = 16 << 20;
/// What may follow `&` in an entity's value: references that stand for one character.
const BUILT_IN: [&str; 6] = ["#", "amp;", "lt;", "gt;", "quot;", "apos;"];

/// Reads the text once, without building anything.
pub(super) fn check(document: Document<'_>) -> Result<(), ReadError> {
    let mut reader = Reader::from_str(document.text);
    let mut depth: u64 = 0;
    loop {
        match reader.read_event().map_err(|error| document.not_rdf(&error.to_string()))? {
            Event::Start(start) => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(document.over_limit("nested deeper than a catalogue has reason to be", MAX_DEPTH));
                }
                check_attributes(document, &start)?;
            }
            Event::Empty(start) => check_attributes(document, &start)?,
            Event::End(_) => depth = depth.saturating_sub(1),
            Event::DocType(declaration) => check_entities(document, &String::from_utf8_lossy(&declaration))?,
            // The parser takes the end of the text for the end of all elements.
            Event::Eof if depth > 0 => return Err(document.not_rdf("it ends in the middle of an element")),
            Event::Eof => return Ok(()),
            _ => {}
        }
    }
}

fn check_attributes(document: Document<'_>, start: &BytesStart<'_>) -> Result<(), ReadError> {
    if start.attributes().with_checks(false).nth(MAX_ATTRIBUTES).is_some() {
        let what = "made of elements with more attributes than any needs";
        return Err(document.over_limit(what, MAX_ATTRIBUTES as u64));
    }
    Ok(())
}

/// Entities for namespaces are common and harmless. An entity made of entities isn't either.
fn check_entities(document: Document<'_>, declaration: &str) -> Result<(), ReadError> {
    let mut length_of: HashMap<&str, u64> = HashMap::new();
    for declared in declaration.split("<!ENTITY").skip(1) {
        let Some((name, rest)) = declared.trim_start().split_once(char::is_whitespace) else { continue };
        let Some(quote) = rest.trim_start().chars().next().filter(|c| matches!(c, '"' | '\'')) else {
            return Err(document.not_rdf(&format!("its entity {name:?} comes from elsewhere, which is never fetched")));
        };
        let value = rest.trim_start()[1..].split(quote).next().unwrap_or_default();
        if value.split('&').skip(1).any(|after| !BUILT_IN.iter().any(|built_in| after.starts_with(built_in))) {
            return Err(document.not_rdf(&format!("its entity {name:?} is made of other entities")));
        }
        length_of.insert(name, value.len() as u64);
        if length_of.len() as u64 > MAX_ENTITIES {
            return Err(document.over_limit("declaring more entities than any needs", MAX_ENTITIES));
        }
    }
    if length_of.is_empty() {
        return Ok(());
    }
    let mut expanded_bytes = 0;
    for reference in document.text.split('&').skip(1) {
        // Names are short: a long stretch without `;` is no reference.
        let name = reference.as_bytes().iter().take(256).position(|byte| *byte == b';').map(|end| &reference[..end]);
        expanded_bytes += name.and_then(|name| length_of.get(name)).unwrap_or(&0);
        if expanded_bytes > MAX_EXPANDED_BYTES {
            return Err(document.over_limit("blown up by its entities", MAX_EXPANDED_BYTES));
        }
    }
    Ok(())
}
