//! `docs/reference/`: every field of every kind, and every option of the command, as pages.

use clap::Command;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::Value;

use super::cli_reference::cli_page;
use super::page::{Page, in_table};
use super::{GeneratedFile, Output, with_whole_numbers};

/// The pages of all kinds, of the command and of the kubectl plugin.
pub fn reference(command: &Command, plugin: &Command) -> Output {
    let mut files: Vec<GeneratedFile> = crate::api::crd::crds().iter().map(kind_page).collect();
    files.push(cli_page(command, "cli.md"));
    files.push(cli_page(plugin, "kubectl.md"));
    files.push(environment_page());
    Output { target: "docs", directory: "docs/reference", files }
}

fn environment_page() -> GeneratedFile {
    let mut page = Page::new("Environment variables");
    page.add(format_args!("An option on the command line overrules its variable. No other variable is read: not even `http_proxy`.\n\n| variable | meaning |\n|---|---|\n"));
    for (name, meaning) in crate::config::DOCUMENTED {
        page.add(format_args!("| `{name}` | {} |\n", in_table(meaning)));
    }
    GeneratedFile { name: "environment.md".to_owned(), content: page.0 }
}

fn kind_page(crd: &CustomResourceDefinition) -> GeneratedFile {
    let names = &crd.spec.names;
    let version = crd.spec.versions.first();
    let schema = version.and_then(|version| version.schema.as_ref()?.open_api_v3_schema.as_ref());
    let mut page = Page::new(&names.kind);
    if let (Some(version), Some(schema)) = (version, schema) {
        page.add(format_args!(
            "{}\n\n`apiVersion: {}/{}`, `kubectl get {}` (short: `{}`)\n",
            sentence(schema),
            crd.spec.group,
            version.name,
            names.plural,
            names.short_names.iter().flatten().cloned().collect::<Vec<_>>().join("`, `"),
        ));
        rules(&mut page, schema);
        for (name, property) in schema.properties.iter().flatten() {
            fields_section(&mut page, name, property);
        }
    }
    GeneratedFile { name: format!("{}.md", names.singular.clone().unwrap_or_default()), content: page.0 }
}

/// The table of a map's fields, then the sections of the maps inside it.
fn fields_section(page: &mut Page, path: &str, schema: &JSONSchemaProps) {
    let Some(properties) = schema.properties.as_ref().filter(|properties| !properties.is_empty()) else { return };
    page.add(format_args!("\n## `{path}`\n\n{}\n", sentence(schema)));
    rules(page, schema);
    page.add(format_args!("\n| Field | Type | Default | Meaning |\n|---|---|---|---|\n"));
    let required = schema.required.as_deref().unwrap_or_default();
    for (name, property) in properties {
        let default = match &property.default {
            Some(default) => default_words(&with_whole_numbers(&default.0)),
            None if required.contains(name) => "**required**".to_owned(),
            None => String::new(),
        };
        let mut meaning = sentence(property);
        for rule in property.x_kubernetes_validations.iter().flatten().filter_map(|rule| rule.message.as_ref()) {
            meaning = format!("{meaning} Rule: {rule}.");
        }
        page.add(format_args!("| `{name}` | {} | {default} | {} |\n", type_words(property), in_table(&meaning)));
    }
    for (name, property) in properties {
        let path = format!("{path}.{name}");
        match (&property.items, &property.additional_properties) {
            (Some(JSONSchemaPropsOrArray::Schema(items)), _) => fields_section(page, &format!("{path}[]"), items),
            (None, Some(JSONSchemaPropsOrBool::Schema(_))) => {}
            _ => fields_section(page, &path, property),
        }
    }
}

fn rules(page: &mut Page, schema: &JSONSchemaProps) {
    let messages: Vec<&String> =
        schema.x_kubernetes_validations.iter().flatten().filter_map(|rule| rule.message.as_ref()).collect();
    if !messages.is_empty() {
        page.add(format_args!("\nRules:\n\n"));
        for message in messages {
            page.add(format_args!("- {message}.\n"));
        }
    }
}

/// Type and bounds of a field.
fn type_words(schema: &JSONSchemaProps) -> String {
    if let Some(choices) = &schema.enum_ {
        let choices: Vec<String> = choices.iter().map(|choice| format!("`{}`", plain(&choice.0))).collect();
        return choices.join(", ");
    }
    if schema.x_kubernetes_int_or_string == Some(true) {
        return "number or quantity".to_owned();
    }
    let bound = |max: Option<i64>, of: &str| max.map(|max| format!(", at most {max}{of}")).unwrap_or_default();
    match schema.type_.as_deref() {
        Some("integer") => match (schema.minimum, schema.maximum) {
            (Some(min), Some(max)) => format!("integer, {min} to {max}"),
            _ => "integer".to_owned(),
        },
        Some("string") if schema.pattern.as_deref().is_some_and(|pattern| pattern.contains("(ms|s|m|h)")) => {
            "duration".to_owned()
        }
        Some("string") if schema.format.as_deref() == Some("date-time") => "time".to_owned(),
        Some("string") => format!("string{}", bound(schema.max_length, " characters")),
        Some("array") => {
            let items = match &schema.items {
                Some(JSONSchemaPropsOrArray::Schema(items)) => type_words(items),
                _ => "values".to_owned(),
            };
            format!("list{} of: {items}", bound(schema.max_items, ""))
        }
        Some("object") if schema.additional_properties.is_some() => {
            format!("map{}", bound(schema.max_properties, " entries"))
        }
        other => other.unwrap_or("any").to_owned(),
    }
}

fn default_words(default: &Value) -> String {
    match default {
        Value::Object(_) => "see below".to_owned(),
        Value::Array(items) if items.is_empty() => String::new(),
        other => format!("`{}`", plain(other)),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn sentence(schema: &JSONSchemaProps) -> String {
    schema.description.clone().unwrap_or_default()
}
