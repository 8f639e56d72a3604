//! `crds/`: the custom resource definitions, one file per kind.

use super::{GeneratedFile, Output, to_yaml};

/// The definitions of all kinds.
pub fn crds() -> Output {
    let files = crate::api::crd::crds()
        .into_iter()
        .map(|crd| GeneratedFile {
            name: format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural),
            content: format!(
                "# Generated from src/api by `trawler generate crds`. Do not edit.\n{}",
                to_yaml(&serde_json::json!(crd))
            ),
        })
        .collect();
    Output { target: "crds", directory: "crds", files }
}
