//! Texts as catalogues write them: plain, in several languages, as value objects, as references.

use std::borrow::Cow;

use super::json::Json;
use crate::record::LangString;

/// The one text of a value: a text, the `@value` or `@id` of an object, or that of a list's first item.
pub(crate) fn text_of<'j>(json: &'j Json<'_>) -> Option<&'j str> {
    let text = match json {
        Json::Text(text) => text.as_ref(),
        Json::Array(items) => return items.iter().find_map(text_of),
        Json::Object(_) => json.get("@value").or_else(|| json.get("@id"))?.as_text()?,
        Json::Null | Json::Bool(_) | Json::Number(_) => return None,
    };
    Some(text).filter(|text| !text.trim().is_empty())
}

/// As [`text_of`], but numbers and booleans are texts too.
pub(crate) fn scalar_of<'j>(json: &'j Json<'_>) -> Option<Cow<'j, str>> {
    match json {
        Json::Number(number) => Some(Cow::Owned(number.to_string())),
        Json::Bool(value) => Some(Cow::Borrowed(if *value { "true" } else { "false" })),
        Json::Array(items) => items.iter().find_map(scalar_of),
        _ => text_of(json).map(Cow::Borrowed),
    }
}

/// All texts of a value with their languages: texts, lists, value objects, and maps from language to texts.
pub(crate) fn texts(json: &Json<'_>) -> Vec<LangString> {
    let mut found = Vec::new();
    collect(json, None, &mut found);
    found
}

fn collect(json: &Json<'_>, lang: Option<&str>, found: &mut Vec<LangString>) {
    match json {
        Json::Text(text) if text.trim().is_empty() => {}
        Json::Text(text) => found.push(LangString { value: text.to_string(), lang: lang.map(str::to_ascii_lowercase) }),
        Json::Number(number) => found.push(LangString::plain(number.to_string())),
        Json::Array(items) => items.iter().for_each(|item| collect(item, lang, found)),
        Json::Object(fields) => {
            if let Some(value) = json.get("@value").or_else(|| json.get("@id")) {
                collect(value, json.get("@language").and_then(Json::as_text), found);
            } else if fields.iter().all(|(name, _)| is_language(name)) {
                fields.iter().for_each(|(name, value)| collect(value, Some(name), found));
            }
        }
        Json::Null | Json::Bool(_) => {}
    }
}

/// Whether a name can be a language tag: two or three letters, then subtags.
fn is_language(name: &str) -> bool {
    let mut parts = name.split(['-', '_']);
    let primary = parts.next().unwrap_or_default();
    matches!(primary.len(), 2 | 3)
        && primary.bytes().all(|b| b.is_ascii_alphabetic())
        && parts.all(|part| (1..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, Option<String>)> {
        texts(&Json::parse(text).unwrap()).into_iter().map(|t| (t.value, t.lang)).collect()
    }

    fn tagged(pairs: &[(&str, &str)]) -> Vec<(String, Option<String>)> {
        pairs.iter().map(|(value, lang)| ((*value).to_owned(), Some((*lang).to_owned()))).collect()
    }

    #[test]
    fn texts_are_read_in_every_shape() {
        assert_eq!(read(r#""Water""#), [("Water".to_owned(), None)]);
        assert_eq!(read(r#"["Wasser",{"@value":"Eau"},"",null]"#), [("Wasser".to_owned(), None), ("Eau".to_owned(), None)]);
        assert_eq!(read(r#"[{"@value":"Water","@language":"EN-gb"}]"#), tagged(&[("Water", "en-gb")]));
        assert_eq!(read(r#"{"fr":"Eau","de":["Wasser"]}"#), tagged(&[("Wasser", "de"), ("Eau", "fr")]));
        assert_eq!(read(r#"{"title":"not a language"}"#), []);
    }
}
