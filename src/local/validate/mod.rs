//! Everything that is wrong with manifests, at once and offline: schema, rules, and what only shows between objects.

mod references;
mod rules;
mod schema;

mod throttles;
mod values;

use std::collections::{BTreeMap, BTreeSet};

use super::finding::{Finding, Severity, has_errors};
use super::manifests::{Kind, ManifestSet, Manifests};
use super::secrets::SecretSources;
use rules::Rules;

/// Manifests that can be used.
#[derive(Debug)]
pub struct Accepted {
    /// The objects.
    pub set: ManifestSet,
    /// What is probably not meant as it stands.
    pub warnings: Vec<Finding>,
}

/// Everything that is wrong, in the order of files and lines.
pub fn validate(manifests: &Manifests, secrets: &SecretSources) -> Vec<Finding> {
    judge(manifests, secrets).1
}

/// The objects, or everything that is wrong if any of it is an error. A credential or an authority that can't be read
/// concerns its node alone, as on a cluster: the run goes on without the node, so here it is a warning.
pub fn accept(manifests: &Manifests, secrets: &SecretSources) -> Result<Accepted, Vec<Finding>> {
    let (set, mut findings) = judge(manifests, secrets);
    findings.iter_mut().filter(|finding| concerns_one_node(finding)).for_each(|finding| {
        finding.severity = Severity::Warning;
    });
    if has_errors(&findings) { Err(findings) } else { Ok(Accepted { set, warnings: findings }) }
}

fn concerns_one_node(finding: &Finding) -> bool {
    let of_node = finding.object.as_deref().is_some_and(|object| object.starts_with("CatalogNode/"));
    of_node && matches!(finding.field.as_deref(), Some("spec.credentialRef.name" | "spec.caRef.name"))
}

fn judge(manifests: &Manifests, secrets: &SecretSources) -> (ManifestSet, Vec<Finding>) {
    let rules = Rules::new();
    let mut findings = manifests.faults.clone();
    findings.extend(nothing_to_do(manifests));
    findings.extend(duplicates(manifests));
    findings.extend(namespaces(manifests));
    for object in &manifests.objects {
        // What the values say in words of their own comes before what a rule says of the same field.
        let mut of_object = values::check(object);
        let specific = of_object.len();
        of_object.extend(rules.check(object));
        let mut seen: Vec<Option<String>> = of_object[..specific].iter().map(|finding| finding.field.clone()).collect();
        seen.dedup();
        findings.extend(
            of_object
                .into_iter()
                .enumerate()
                .filter(|(index, finding)| *index < specific || !seen.contains(&finding.field))
                .map(|(_, finding)| finding),
        );
    }
    let (set, untyped) = ManifestSet::from_manifests(manifests);
    // An object that does not fit its type was faulted by the schema already, in better words.
    let explained: BTreeSet<Option<String>> = findings.iter().map(|finding| finding.object.clone()).collect();
    findings.extend(untyped.into_iter().filter(|finding| !explained.contains(&finding.object)));
    findings.extend(references::check(manifests, &set, secrets));
    findings.extend(throttles::check(manifests, &set));
    let order: BTreeMap<&str, usize> =
        manifests.objects.iter().enumerate().rev().map(|(index, object)| (&*object.file, index)).collect();
    findings.sort_by_key(|finding| {
        (order.get(finding.file.as_str()).copied().unwrap_or(usize::MAX), finding.file.clone(), finding.line)
    });
    findings.dedup();
    (set, findings)
}

fn nothing_to_do(manifests: &Manifests) -> Option<Finding> {
    let is_ours = |kind| !matches!(kind, Kind::Secret | Kind::ConfigMap);
    if manifests.objects.iter().any(|object| is_ours(object.kind)) || has_errors(&manifests.faults) {
        return None;
    }
    let object_file = manifests.objects.first().map(|object| &*object.file);
    let fault_file = manifests.faults.first().map(|fault| fault.file.as_str());
    Some(Finding {
        severity: Severity::Error,
        file: object_file.or(fault_file).unwrap_or("-").to_owned(),
        line: None,
        object: None,
        field: None,
        problem: "there is no Catalog, CatalogNode, CrawlRun or ThrottlePolicy in the input".to_owned(),
        fix: "name their files with -f, or let trawler init URL write some".to_owned(),
    })
}

/// Objects that share kind and name.
fn duplicates(manifests: &Manifests) -> Vec<Finding> {
    let mut first = BTreeMap::new();
    let mut findings = Vec::new();
    for object in &manifests.objects {
        let first = *first.entry((object.kind, object.name.as_str())).or_insert(object);
        if !std::ptr::eq(first, object) {
            let problem = format!("there is another {object} at {}", first.place());
            findings.push(object.finding("metadata.name", problem, "rename one of them, or remove it"));
        }
    }
    findings
}

/// One instance serves one namespace, so that all objects must be of one.
fn namespaces(manifests: &Manifests) -> Vec<Finding> {
    let mut named = manifests.objects.iter().filter_map(|object| Some((object, object.namespace.as_deref()?)));
    let Some((first, namespace)) = named.next() else { return Vec::new() };
    let other = named.find(|(_, other)| *other != namespace);
    let finding = other.map(|(object, other)| {
        let problem = format!("{other:?} is not the namespace of {first} ({}), which is {namespace:?}", first.place());
        object.finding("metadata.namespace", problem, "name the manifests of one namespace at a time")
    });
    finding.into_iter().collect()
}
