//! The custom resource definitions, made from the types, and the schemas that the types alone can't say.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::{Catalog, CatalogNode, CrawlRun, ThrottlePolicy};

/// The definitions of all kinds, as they are installed.
pub fn crds() -> Vec<CustomResourceDefinition> {
    let mut crds = vec![Catalog::crd(), CatalogNode::crd(), CrawlRun::crd(), ThrottlePolicy::crd()];
    for version in crds.iter_mut().flat_map(|crd| &mut crd.spec.versions) {
        if let Some(schema) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) {
            tidy(schema);
        }
    }
    crds
}

/// Removes what Kubernetes does not know (`format: uint32`), what would let an explicit null pass by a default, and the
/// line breaks of source code.
fn tidy(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    schema.description = schema.description.take().map(|description| description.replace('\n', " "));
    if schema.format.as_deref().is_some_and(|format| format.starts_with("uint") || format == "double") {
        schema.format = None;
    }
    schema.properties.iter_mut().flat_map(|properties| properties.values_mut()).for_each(tidy);
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => tidy(items),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(tidy),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        tidy(values);
    }
}

/// A CEL rule of `x-kubernetes-validations`, with the sentence that is shown when it does not hold.
pub(crate) fn rule(rule: &str, message: &str) -> Value {
    json!({"rule": rule, "message": message})
}

/// A CEL rule about one field of several.
pub(crate) fn rule_at(field_path: &str, rule: &str, message: &str) -> Value {
    json!({"fieldPath": field_path, "rule": rule, "message": message})
}

/// Labels or annotations: at most 64, values at most 1,024 characters.
pub(crate) fn label_map(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": {"type": "string", "maxLength": 1024},
    })
}

/// Amounts of resources by name, as a container has them.
pub(crate) fn resource_map(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 8,
        "additionalProperties": {
            "x-kubernetes-int-or-string": true,
            "maxLength": 32,
            "pattern": "^[0-9]+(\\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$",
        },
    })
}

/// Kubernetes' conditions with its own bounds, which the library's schema leaves out.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 16,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "description": "One aspect of the state.",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {"type": "string", "maxLength": 316, "description": "Name of the condition."},
                "status": {
                    "type": "string", "enum": ["True", "False", "Unknown"],
                    "description": "Whether the condition holds.",
                },
                "observedGeneration": {
                    "type": "integer", "format": "int64", "minimum": 0,
                    "description": "Generation of the object that the condition was decided on.",
                },
                "lastTransitionTime": {
                    "type": "string", "format": "date-time", "description": "When the status last changed.",
                },
                "reason": {"type": "string", "minLength": 1, "maxLength": 1024, "description": "Why, as one word in CamelCase."},
                "message": {"type": "string", "maxLength": 256, "description": "Why, as a sentence."},
            },
        },
    })
}

/// A moment, as Kubernetes writes it.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time"})
}
