//! Stand-ins for remote JSON-LD contexts, which are never fetched: whoever can change a context could change what
//! every document means, and a context's address is one more thing a document could make us call.

/// The terms of DCAT, DCAT-AP and Hydra under the names that their contexts use.
const DCAT_CONTEXT: &str = include_str!("context.json");

/// schema.org's terms: also `Dataset`, but not DCAT's.
const SCHEMA_ORG_CONTEXT: &str = r#"{"@context":{"@vocab":"http://schema.org/","schema":"http://schema.org/"}}"#;

/// What to read instead of the context at this address.
pub(super) fn context_for(url: &str) -> &'static str {
    if url.contains("schema.org") { SCHEMA_ORG_CONTEXT } else { DCAT_CONTEXT }
}
