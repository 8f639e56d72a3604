//! A parsed value that knows the line of everything in it.

use std::collections::BTreeMap;

use serde_json::Value;

/// A value and the line that it starts on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) line: u32,
    pub(crate) content: Content,
}

/// What a value is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Content {
    /// Null, a truth value, a number or a text.
    Scalar(Value),
    /// A list.
    List(Vec<Node>),
    /// A map, in the order written. The line of an entry is that of its key.
    Map(Vec<Entry>),
}

/// One entry of a map.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) line: u32,
    pub(crate) value: Node,
}

impl Node {
    /// The value without its lines, and without null entries of maps, which Kubernetes leaves out too.
    pub(crate) fn to_json(&self) -> Value {
        match &self.content {
            Content::Scalar(value) => value.clone(),
            Content::List(items) => items.iter().map(Self::to_json).collect(),
            Content::Map(entries) => entries
                .iter()
                .filter(|entry| entry.value.content != Content::Scalar(Value::Null))
                .map(|entry| (entry.key.clone(), entry.value.to_json()))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        }
    }

    /// The value under a key of a map.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        match &self.content {
            Content::Map(entries) => entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value),
            _ => None,
        }
    }

    /// The items of the list under a key of a map, with their positions.
    pub(crate) fn items(&self, key: &str) -> impl Iterator<Item = (usize, &Self)> {
        let items = match self.get(key).map(|node| &node.content) {
            Some(Content::List(items)) => items.as_slice(),
            _ => &[],
        };
        items.iter().enumerate()
    }

    /// The entries of a map whose values are texts.
    pub(crate) fn texts(&self) -> BTreeMap<String, String> {
        let entries = match &self.content {
            Content::Map(entries) => entries.as_slice(),
            _ => &[],
        };
        let text = |entry: &Entry| Some((entry.key.clone(), entry.value.as_str()?.to_owned()));
        entries.iter().filter_map(text).collect()
    }

    /// The text, if it is one.
    pub(crate) fn as_str(&self) -> Option<&str> {
        match &self.content {
            Content::Scalar(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// The line of the field at this path (`spec.limits[0].amount`), or of the innermost thing around it that exists.
    pub(crate) fn line_of(&self, path: &str) -> u32 {
        self.line_inside(path.strip_prefix('.').unwrap_or(path), self.line)
    }

    /// The same for a rest of a path, given the line of the key or item that this value belongs to: a missing field is
    /// missing from the whole map, which its key names best.
    fn line_inside(&self, rest: &str, around: u32) -> u32 {
        match &self.content {
            Content::Map(entries) => entries
                .iter()
                .filter_map(|entry| Some((entry, rest_after(rest, &entry.key)?)))
                .max_by_key(|(entry, _)| entry.key.len())
                .map_or(around, |(entry, rest)| entry.value.line_inside(rest, entry.line)),
            Content::List(items) => rest
                .strip_prefix('[')
                .and_then(|rest| rest.split_once(']'))
                .and_then(|(index, rest)| Some((items.get(index.parse::<usize>().ok()?)?, rest)))
                .map_or(around, |(item, rest)| item.line_inside(rest.strip_prefix('.').unwrap_or(rest), item.line)),
            Content::Scalar(_) => around,
        }
    }

    /// What it costs to hold another copy: values and bytes of text.
    pub(crate) fn weight(&self) -> usize {
        1 + match &self.content {
            Content::Scalar(Value::String(text)) => text.len(),
            Content::Scalar(_) => 0,
            Content::List(items) => items.iter().map(Self::weight).sum(),
            Content::Map(entries) => entries.iter().map(|entry| entry.key.len() + entry.value.weight()).sum(),
        }
    }
}

/// What follows a key in a path, if the path starts with that key.
fn rest_after<'p>(path: &'p str, key: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(key)?;
    rest.strip_prefix('.').or_else(|| (rest.is_empty() || rest.starts_with('[')).then_some(rest))
}
