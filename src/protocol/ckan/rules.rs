//! What carries no meaning in a CKAN package, by name.

use crate::protocol::canonical::Rules;

/// - **CKAN sets**: tags, groups, extras, relationships, and resources (each carries its place in `position`).
/// - **CKAN tracking**: `tracking_summary` counts visits.
#[derive(Debug, Clone, Copy)]
pub(super) struct CkanRules;

impl Rules for CkanRules {
    fn is_set(&self, name: &str) -> bool {
        matches!(
            name,
            "tags" | "groups" | "extras" | "resources" | "relationships_as_object" | "relationships_as_subject"
        )
    }

    fn lists_are_optional(&self) -> bool {
        false
    }

    fn is_volatile(&self, name: &str) -> bool {
        name == "tracking_summary"
    }

    fn lasting<'t>(&self, _parent: &str, _name: &str, text: &'t str) -> &'t str {
        text
    }
}
