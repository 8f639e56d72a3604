//! Files that are made from the code: definitions, samples, reference pages, completions and man pages.
//!
//! What is committed is an [`Output`]: a directory that holds these files and no others. [`apply`] writes outputs or
//! checks that the tree is what would be written.

mod cli_reference;
mod crd_files;
mod page;
mod reference;
mod sample_files;
mod shell;
mod tree;

pub use cli_reference::cli_page;
pub use crd_files::crds;
pub use reference::reference;
pub use sample_files::samples;
pub use shell::{completions, man_pages};
pub use tree::{Drift, GenerateError, Mode, Report, apply};

/// A directory and all the files that belong into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The argument of `trawler generate` that makes it.
    pub target: &'static str,
    /// Where, from the root of the tree.
    pub directory: &'static str,
    /// What, by name.
    pub files: Vec<GeneratedFile>,
}

/// A file of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratedFile {
    /// Its name in the directory.
    pub name: String,
    /// Its content.
    pub content: String,
}

/// A value as YAML, with whole numbers written as such (schemas hold their bounds as floating point).
fn to_yaml(value: &serde_json::Value) -> String {
    // Values made of maps, lists and scalars always serialise.
    serde_saphyr::to_string(&with_whole_numbers(value)).unwrap_or_default()
}

fn with_whole_numbers(value: &serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Number(number) => number
            .as_f64()
            .filter(|float| number.is_f64() && float.fract() == 0.0 && float.abs() < 9e15)
            .and_then(|float| format!("{float}").parse::<i64>().ok())
            .map_or_else(|| value.clone(), Value::from),
        Value::Array(items) => items.iter().map(with_whole_numbers).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), with_whole_numbers(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        _ => value.clone(),
    }
}
