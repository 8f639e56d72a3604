//! What carries no meaning in a DSP dataset, by name.

use data_encoding::BASE64_NOPAD;

use super::terms::local_name;
use crate::protocol::canonical::Rules;

/// - **JSON-LD sets**: a list is a set, a list of one is its item, an empty list is none; but for what is under
///   `@list`, whose order is its meaning.
/// - **EDC offer ids**: EDC makes a new offer id in each response; its last part takes no part ([`lasting_offer_id`]).
/// - **Contexts**: `@context` says how terms are written, not what the dataset is.
#[derive(Debug, Clone, Copy)]
pub(super) struct DspRules;

impl Rules for DspRules {
    fn is_set(&self, name: &str) -> bool {
        name != "@list"
    }

    fn lists_are_optional(&self) -> bool {
        true
    }

    fn is_volatile(&self, name: &str) -> bool {
        name == "@context"
    }

    fn lasting<'t>(&self, parent: &str, name: &str, text: &'t str) -> &'t str {
        if name == "@id" && local_name(parent) == "hasPolicy" { lasting_offer_id(text) } else { text }
    }
}

/// EDC's offer id is `definition:asset:uuid`, each part in Base64: the lasting part is what comes before the UUID.
/// Any other id is kept whole.
fn lasting_offer_id(id: &str) -> &str {
    let mut parts = id.splitn(4, ':');
    let (Some(definition), Some(asset), Some(fresh), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return id;
    };
    // A UUID has 36 characters: 48 in Base64, without padding.
    let mut uuid = [0; 36];
    let is_uuid = fresh.len() == 48
        && BASE64_NOPAD.decode_mut(fresh.as_bytes(), &mut uuid).is_ok()
        && uuid.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    if is_uuid { &id[..=definition.len() + 1 + asset.len()] } else { id }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_edcs_base64_triples_lose_their_last_part() {
        let fresh = BASE64_NOPAD.encode(b"0e6f0b0a-4d2d-469e-9634-8394a8836a88");
        assert_eq!(lasting_offer_id(&format!("Y2Q=:YXNzZXQ=:{fresh}")), "Y2Q=:YXNzZXQ=:");
        for whole in ["offer-1", "urn:uuid:3dd1add8-4d2d-469e-9634-8394a8836a88", "a:b:c", "Y2Q=:YXNzZXQ="] {
            assert_eq!(lasting_offer_id(whole), whole);
        }
    }
}
