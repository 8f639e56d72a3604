//! The schemas and CEL rules of the kinds, prepared once and applied to each object.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use kube::core::cel::{CompiledSchema, ErrorKind, Validator, compile_schema};
use serde_json::Value;

use super::schema::{join, schema_faults};
use crate::api::crd::crds;
use crate::local::finding::Finding;
use crate::local::manifests::Object;

/// What an object of each kind is held against; made from the types once, since that takes a while.
static KINDS: LazyLock<BTreeMap<String, KindRules>> = LazyLock::new(|| {
    let mut kinds = BTreeMap::new();
    for crd in crds() {
        let version = crd.spec.versions.into_iter().next();
        let schema = version.and_then(|version| version.schema).and_then(|schema| schema.open_api_v3_schema);
        if let Some(schema) = schema {
            // A schema always serialises; an empty one would only mean that no rule is checked here.
            let value = serde_json::to_value(&schema).unwrap_or_default();
            kinds.insert(crd.spec.names.kind, KindRules { schema, compiled: compile_schema(&value) });
        }
    }
    kinds
});

struct KindRules {
    schema: JSONSchemaProps,
    compiled: CompiledSchema,
}

/// Applies the schemas and rules.
pub(super) struct Rules {
    validator: Validator,
}

impl Rules {
    pub(super) fn new() -> Self {
        Self { validator: Validator::new() }
    }

    /// What the API server would say of this object.
    pub(super) fn check(&self, object: &Object) -> Vec<Finding> {
        let Some(rules) = KINDS.get(object.kind.as_str()) else { return Vec::new() };
        let mut value = object.root.to_json();
        let mut findings = metadata_findings(object, &value);
        let frame = value.as_object_mut().map(std::mem::take).unwrap_or_default();
        let mut own = serde_json::Map::new();
        for (name, field) in frame {
            // A status comes from `kubectl get -o yaml` and says nothing about what is asked.
            if !matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status") {
                own.insert(name, field);
            }
        }
        let own = Value::Object(own);
        let schema_faults = schema_faults(&rules.schema, &own, "");
        findings.extend(schema_faults.into_iter().map(|fault| object.finding(&fault.path, fault.problem, fault.fix)));
        findings.extend(self.rule_findings(rules, object, &findings));
        findings
    }

    /// Rules that do not hold. A rule about a field that the schema has faulted already says nothing new.
    fn rule_findings(&self, rules: &KindRules, object: &Object, known: &[Finding]) -> Vec<Finding> {
        let mut value = object.root.to_json();
        if let Some(fields) = value.as_object_mut() {
            fields.remove("status");
        }
        let broken = self.validator.validate_compiled(&rules.compiled, &value, None).err();
        broken
            .into_iter()
            .flatten()
            .filter(|broken| broken.kind == ErrorKind::ValidationFailure)
            .map(|broken| rule_finding(object, &broken.field_path, &broken.message))
            .filter(|finding| !known.iter().any(|known| overlaps(known, finding)))
            .collect()
    }
}

/// The message of a rule says what must hold; what follows a semicolon says what to do.
fn rule_finding(object: &Object, path: &str, message: &str) -> Finding {
    let (problem, fix) = message.split_once("; ").unwrap_or((message, "correct it"));
    object.finding(path.trim_start_matches('.'), problem, fix)
}

fn overlaps(known: &Finding, finding: &Finding) -> bool {
    match (&known.field, &finding.field) {
        (Some(known), Some(field)) => field.starts_with(known.as_str()) || known.starts_with(field.as_str()),
        _ => false,
    }
}

/// Labels and annotations must be texts; the name was looked at before.
fn metadata_findings(object: &Object, value: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    for field in ["labels", "annotations"] {
        let path = join("metadata", field);
        match value.pointer(&format!("/metadata/{field}")) {
            None => {}
            Some(Value::Object(entries)) => {
                for (key, value) in entries.iter().filter(|(_, value)| !value.is_string()).take(20) {
                    let fix = format!("write it in quotes: \"{value}\"");
                    findings.push(object.finding(&join(&path, key), format!("{value} is not a text"), fix));
                }
            }
            Some(_) => findings.push(object.finding(&path, "is not a map", "write key: value on the lines below")),
        }
    }
    findings
}
