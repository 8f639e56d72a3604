//! Checking a value against the OpenAPI schema of its kind: every fault, not just the first.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use regex::Regex;
use serde_json::{Map, Value};

use super::suggest::closest;

/// More faults of one object help nobody.
const MAX_FAULTS: usize = 100;

/// A fault at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SchemaFault {
    pub(super) path: String,
    pub(super) problem: String,
    pub(super) fix: String,
}

/// All faults of a value, at most [`MAX_FAULTS`].
pub(super) fn schema_faults(schema: &JSONSchemaProps, value: &Value, path: &str) -> Vec<SchemaFault> {
    let mut walker = Walker { faults: Vec::new() };
    walker.check(schema, value, path);
    walker.faults
}

struct Walker {
    faults: Vec<SchemaFault>,
}

impl Walker {
    fn fault(&mut self, path: &str, problem: impl Into<String>, fix: impl Into<String>) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(SchemaFault { path: path.to_owned(), problem: problem.into(), fix: fix.into() });
        }
    }

    fn check(&mut self, schema: &JSONSchemaProps, value: &Value, path: &str) {
        if self.faults.len() >= MAX_FAULTS {
            return;
        }
        let fits = match value {
            Value::String(_) => expects(schema, "string"),
            Value::Bool(_) => expects(schema, "boolean"),
            Value::Number(number) => expects(schema, "integer") && (number.is_i64() || number.is_u64()),
            Value::Array(_) => expects(schema, "array"),
            Value::Object(_) => expects(schema, "object"),
            Value::Null => false,
        };
        if !fits {
            return self.fault(path, format!("{} is not {}", shown(value), expected(schema)), type_fix(schema, value));
        }
        match value {
            Value::String(text) => self.text(schema, text, path),
            Value::Number(number) => self.number(schema, number.as_f64().unwrap_or_default(), path),
            Value::Array(items) => self.list(schema, items, path),
            Value::Object(fields) => self.map(schema, fields, path),
            Value::Bool(_) | Value::Null => {}
        }
    }

    fn text(&mut self, schema: &JSONSchemaProps, text: &str, path: &str) {
        let shown = shown_text(text);
        if let Some(choices) = &schema.enum_ {
            let choices: Vec<&str> = choices.iter().filter_map(|choice| choice.0.as_str()).collect();
            if !choices.contains(&text) {
                let all = format!("write one of {}", choices.join(", "));
                let fix = closest(text, &choices).map_or(all, |near| format!("write {near}"));
                self.fault(path, format!("{shown} is not one of {}", choices.join(", ")), fix);
            }
            return;
        }
        let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        if let Some(max) = schema.max_length.filter(|max| length > *max) {
            return self.fault(path, format!("is {length} characters long"), format!("write at most {max}"));
        }
        if schema.min_length.is_some_and(|min| length < min) {
            return self.fault(path, "is empty", "write a value, or leave the field out if it may be left out");
        }
        let pattern = schema.pattern.as_deref();
        if let Some(pattern) = pattern.filter(|pattern| Regex::new(pattern).is_ok_and(|regex| !regex.is_match(text))) {
            let (what, fix) = pattern_words(pattern);
            self.fault(path, format!("{shown} is not {what}"), fix);
        }
    }

    fn number(&mut self, schema: &JSONSchemaProps, number: f64, path: &str) {
        let out_of_range =
            schema.minimum.is_some_and(|min| number < min) || schema.maximum.is_some_and(|max| number > max);
        if out_of_range {
            self.fault(path, format!("{number} is out of range"), format!("write {}", range_words(schema)));
        }
    }

    fn list(&mut self, schema: &JSONSchemaProps, items: &[Value], path: &str) {
        if let Some(max) = schema.max_items.filter(|max| usize::try_from(*max).is_ok_and(|max| items.len() > max)) {
            self.fault(path, format!("has {} items", items.len()), format!("keep at most {max}"));
        }
        if let Some(JSONSchemaPropsOrArray::Schema(item_schema)) = &schema.items {
            for (index, item) in items.iter().enumerate() {
                self.check(item_schema, item, &format!("{path}[{index}]"));
            }
        }
        self.repeated_items(schema, items, path);
    }

    /// Items that the list's type allows only once.
    fn repeated_items(&mut self, schema: &JSONSchemaProps, items: &[Value], path: &str) {
        let keys = match schema.x_kubernetes_list_type.as_deref() {
            Some("set") => Vec::new(),
            Some("map") => schema.x_kubernetes_list_map_keys.clone().unwrap_or_default(),
            _ => return,
        };
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let identity = if keys.is_empty() {
                item.to_string()
            } else {
                let parts: Vec<String> =
                    keys.iter().map(|key| format!("{key} {}", item.get(key).unwrap_or(&Value::Null))).collect();
                parts.join(", ")
            };
            if !seen.insert(identity.clone()) {
                let identity: String = identity.chars().take(80).collect();
                self.fault(&format!("{path}[{index}]"), format!("{identity} is there twice"), "keep one of them");
            }
        }
    }

    fn map(&mut self, schema: &JSONSchemaProps, fields: &Map<String, Value>, path: &str) {
        if let Some(max) = schema.max_properties.filter(|max| usize::try_from(*max).is_ok_and(|max| fields.len() > max))
        {
            self.fault(path, format!("has {} entries", fields.len()), format!("keep at most {max}"));
        }
        let properties = schema.properties.as_ref();
        for (name, value) in fields {
            let inner = join(path, name);
            match (properties.and_then(|properties| properties.get(name)), &schema.additional_properties) {
                (Some(property), _) => self.check(property, value, &inner),
                (None, Some(JSONSchemaPropsOrBool::Schema(values))) => self.check(values, value, &inner),
                (None, Some(JSONSchemaPropsOrBool::Bool(true))) => {}
                (None, _) if schema.x_kubernetes_preserve_unknown_fields == Some(true) => {}
                (None, _) => {
                    let known = properties.into_iter().flatten().map(|(name, _)| name.as_str());
                    let unused: Vec<&str> = known.filter(|known| !fields.contains_key(*known)).collect();
                    self.fault(&inner, "there is no such field", unknown_field_fix(name, &unused));
                }
            }
        }
        for required in schema.required.iter().flatten().filter(|required| !fields.contains_key(*required)) {
            let property = properties.and_then(|properties| properties.get(required));
            let description = property.and_then(|property| property.description.as_deref()).unwrap_or_default();
            let meaning = description.split(['.', ':']).next().unwrap_or_default();
            self.fault(&join(path, required), "is missing", format!("add it ({})", lower_first(meaning)));
        }
    }
}

fn expects(schema: &JSONSchemaProps, kind: &str) -> bool {
    if schema.x_kubernetes_int_or_string == Some(true) {
        return kind == "integer" || kind == "string";
    }
    schema.type_.as_deref() == Some(kind)
}

fn expected(schema: &JSONSchemaProps) -> &'static str {
    if schema.x_kubernetes_int_or_string == Some(true) {
        return "a whole number or a quantity";
    }
    match schema.type_.as_deref() {
        Some("string") => "a text",
        Some("boolean") => "true or false",
        Some("integer") => "a whole number",
        Some("array") => "a list",
        _ => "a map of fields",
    }
}

fn type_fix(schema: &JSONSchemaProps, value: &Value) -> String {
    if let (Some(pattern), Value::Number(_)) = (&schema.pattern, value) {
        return pattern_words(pattern).1.to_owned();
    }
    match (schema.type_.as_deref(), value) {
        (Some("string"), Value::Number(_) | Value::Bool(_)) => format!("write it in quotes: \"{value}\""),
        (Some("string"), _) => "write a text".to_owned(),
        (Some("boolean"), _) => "write true or false, without quotes".to_owned(),
        (Some("integer"), Value::String(text)) if text.parse::<i64>().is_ok() => format!("write {text} without quotes"),
        (Some("integer"), _) => format!("write {}", range_words(schema)),
        (Some("array"), _) => "write one item per line, each after a dash".to_owned(),
        (Some("object"), _) => "write its fields on the lines below, indented".to_owned(),
        _ => "write one like 64Mi or 1000".to_owned(),
    }
}

fn range_words(schema: &JSONSchemaProps) -> String {
    match (schema.minimum, schema.maximum) {
        (Some(min), Some(max)) => format!("a whole number from {min} to {max}"),
        (Some(min), None) => format!("a whole number, {min} or more"),
        _ => "a whole number".to_owned(),
    }
}

/// What a pattern of ours stands for, and an example.
fn pattern_words(pattern: &str) -> (&'static str, &'static str) {
    if pattern.contains("(ms|s|m|h)") {
        ("a duration", "write one like 30s, 1m30s or 168h")
    } else if pattern.contains("Ki|Mi") {
        ("a quantity", "write one like 64Mi, 1Gi or 1000000")
    } else if pattern.contains(":[0-5]") {
        ("a time of day", "write one like 06:30")
    } else {
        ("a name", "use lower-case letters, digits and -, and begin and end with a letter or digit")
    }
}

fn unknown_field_fix(name: &str, unused: &[&str]) -> String {
    match closest(name, unused) {
        Some(near) => format!("did you mean {near}?"),
        None if unused.is_empty() => "leave it out".to_owned(),
        None => format!("leave it out; what may stand here is {}", unused.join(", ")),
    }
}

/// A value as a sentence shows it: short, on one line.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => shown_text(text),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a map of fields".to_owned(),
        Value::Null => "an empty value".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

fn shown_text(text: &str) -> String {
    let short: String = text.chars().take(60).collect();
    format!("{short:?}")
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().collect::<String>() + chars.as_str()).unwrap_or_default()
}

pub(super) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
