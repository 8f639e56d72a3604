//! Terms by their local names: `dcat:dataset`, `http://www.w3.org/ns/dcat#dataset` and `dataset` are one.

use crate::protocol::json::Json;
use crate::protocol::text::text_of;

/// The vocabularies whose IRIs are known; what follows the last `/` or `#` of a term in them is its local name.
const VOCABULARIES: [&str; 6] = [
    "http://www.w3.org/ns/dcat#",
    "http://purl.org/dc/terms/",
    "http://www.w3.org/ns/odrl/2/",
    "https://w3id.org/dspace/",
    "https://w3id.org/edc/",
    "http://xmlns.com/foaf/0.1/",
];

/// The name of a term without prefix or vocabulary. JSON-LD's own (`@id`) and IRIs of unknown vocabularies stay.
pub(super) fn local_name(term: &str) -> &str {
    // Terms are short: a plain loop beats a searcher's set-up, and this is asked for every field of every dataset.
    let Some(colon) = term.bytes().position(|byte| byte == b':') else { return term };
    let after = &term[colon + 1..];
    if term.starts_with('@') {
        return term;
    }
    if !after.starts_with("//") {
        return after;
    }
    if VOCABULARIES.iter().any(|vocabulary| term.starts_with(vocabulary)) {
        return term.rsplit(['/', '#']).next().unwrap_or(term);
    }
    term
}

/// The local names of an `@type`, one or several.
pub(super) fn types<'j>(json: &'j Json<'_>) -> impl Iterator<Item = &'j str> {
    json.items().iter().filter_map(text_of).map(local_name)
}

/// The first value of an object whose term has this local name.
pub(super) fn get<'j, 'a>(json: &'j Json<'a>, name: &str) -> Option<&'j Json<'a>> {
    json.fields().iter().find(|(term, _)| local_name(term) == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_and_known_vocabularies_are_stripped() {
        for term in [
            "dataset",
            "dcat:dataset",
            "http://www.w3.org/ns/dcat#dataset",
            "https://w3id.org/dspace/2025/1/dataset",
            "https://w3id.org/edc/v0.0.1/ns/dataset",
        ] {
            assert_eq!(local_name(term), "dataset");
        }
        assert_eq!(local_name("@id"), "@id");
        assert_eq!(local_name("https://acme.example/ns#dataset"), "https://acme.example/ns#dataset");
    }
}
