//! Throttles that are assigned twice at one level: allowed, but only one of them applies.

use std::collections::BTreeMap;

use kube::Resource;
use url::Url;

use crate::api::{TargetType, ThrottlePolicy, ThrottleTarget};
use crate::local::finding::{Finding, Severity};
use crate::local::manifests::{Kind, Located, ManifestSet, Manifests};
use crate::task::origin_of;

pub(super) fn check(manifests: &Manifests, set: &ManifestSet) -> Vec<Finding> {
    let mut policies: Vec<&Located<ThrottlePolicy>> = set.throttle_policies.iter().collect();
    // The order in which a cluster decides: the oldest, then by name. Manifests have no age.
    policies.sort_by_key(|policy| policy.object.meta().name.clone());
    let mut holders = BTreeMap::new();
    let mut findings = Vec::new();
    for policy in policies {
        let name = policy.object.meta().name.as_deref().unwrap_or_default();
        let object = manifests.objects.iter().find(|object| object.kind == Kind::ThrottlePolicy && object.name == name);
        let Some(object) = object else { continue };
        for (position, target) in policy.object.spec.targets.iter().enumerate() {
            let holder = *holders.entry((target.target_type, same_name(target))).or_insert(object);
            if std::ptr::eq(holder, object) {
                continue;
            }
            let level = match target.target_type {
                TargetType::Connection => "connection",
                TargetType::Credential => "credential",
            };
            let problem =
                format!("{level} {:?} is also a target of {holder} ({}), which wins", target.name, holder.place());
            let finding = object.finding(&format!("spec.targets[{position}]"), problem, "remove it from one of them");
            findings.push(Finding { severity: Severity::Warning, ..finding });
        }
    }
    findings
}

/// The name in the form that decides: an origin is the same with and without its port.
fn same_name(target: &ThrottleTarget) -> String {
    match Url::parse(&target.name) {
        Ok(url) if target.target_type == TargetType::Connection && url.has_host() => origin_of(&url).to_string(),
        _ => target.name.clone(),
    }
}
