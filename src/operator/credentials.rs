//! Which Secrets a node may use: judged by label and annotation, without looking inside. Pure.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use url::Url;

use crate::api::CatalogNode;
use crate::api::names::{ALLOWED_ORIGINS_ANNOTATION, CREDENTIAL_LABEL};
use crate::task::origin_of;

/// Why a node may not use the Secret that it names: a sentence. `None`: it may, or names none. `secret` finds a labelled one.
pub(crate) fn credential_problem(
    node: &CatalogNode,
    secret: impl FnOnce(&str) -> Option<ObjectMeta>,
) -> Option<String> {
    let name = node.spec.credential_ref.as_ref()?.name.as_str();
    let Some(metadata) = secret(name) else {
        return Some(format!(
            "spec.credentialRef: there is no Secret {name} with the label {CREDENTIAL_LABEL}: \"true\" in this namespace; \
             make it, or label it if it may be used as a credential"
        ));
    };
    let Ok(endpoint) = Url::parse(&node.spec.endpoint) else { return None };
    let origin = origin_of(&endpoint);
    let unannotated = BTreeMap::new();
    let allowed = metadata.annotations.as_ref().unwrap_or(&unannotated).get(ALLOWED_ORIGINS_ANNOTATION);
    let is_allowed = allowed.is_some_and(|allowed| {
        let words = allowed.split([',', ' ', '\n', '\t']).filter(|word| !word.is_empty());
        words.filter_map(|word| Url::parse(word).ok()).any(|url| origin_of(&url) == origin)
    });
    (!is_allowed).then(|| {
        format!(
            "spec.credentialRef: Secret {name} may not be sent to {origin}; add it to the Secret's annotation \
             {ALLOWED_ORIGINS_ANNOTATION} if it may"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(endpoint: &str) -> CatalogNode {
        let spec = serde_json::json!({
            "endpoint": endpoint, "protocol": "DSP", "credentialRef": {"name": "acme-token"},
        });
        CatalogNode::new("acme", serde_json::from_value(spec).unwrap())
    }

    fn secret(origins: &str) -> ObjectMeta {
        let annotations = BTreeMap::from([(ALLOWED_ORIGINS_ANNOTATION.to_owned(), origins.to_owned())]);
        ObjectMeta { annotations: Some(annotations), ..ObjectMeta::default() }
    }

    #[test]
    fn a_secret_must_be_there_and_name_the_endpoints_origin() {
        let node = node("https://acme.example/api");
        let problem = |found: Option<ObjectMeta>| credential_problem(&node, |_| found);
        assert_eq!(problem(Some(secret("https://other.example, https://acme.example:443/"))), None);
        assert!(problem(None).unwrap().contains("there is no Secret acme-token with the label"));
        for origins in ["", "https://other.example", "http://acme.example", "acme.example"] {
            assert!(
                problem(Some(secret(origins))).unwrap().contains("may not be sent to https://acme.example:443"),
                "{origins}"
            );
        }
        assert!(problem(Some(ObjectMeta::default())).is_some());
    }
}
