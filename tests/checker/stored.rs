//! What the crawler holds, read from `records.jsonl`, and what the federation holds.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Names a record: node, section, id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) node: String,
    pub(crate) section: String,
    pub(crate) id: String,
}

impl Key {
    pub(crate) fn new(node: &str, id: &str) -> Self {
        Self { node: node.to_owned(), section: String::new(), id: id.to_owned() }
    }
}

/// A record's document as compact JSON with sorted names: equal texts, equal documents.
pub(crate) type Content = String;

/// The records held, as listed: a record that is listed twice is in it twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Stored(pub(crate) Vec<(Key, Content)>);

impl Stored {
    /// Reads `records.jsonl`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().enumerate();
        let records = lines.map(|(number, line)| {
            parse_record(line).ok_or_else(|| format!("line {} of the records is none: {line:?}", number + 1))
        });
        Ok(Self(records.collect::<Result<_, _>>()?))
    }

    pub(crate) fn by_key(&self) -> BTreeMap<&Key, &Content> {
        self.0.iter().map(|(key, content)| (key, content)).collect()
    }
}

fn parse_record(line: &str) -> Option<(Key, Content)> {
    let record: Value = serde_json::from_str(line).ok()?;
    let text = |name: &str| record.get(name).and_then(Value::as_str).map(str::to_owned);
    let key = Key { node: text("node")?, section: text("section").unwrap_or_default(), id: text("id")? };
    Some((key, record.get("raw")?.to_string()))
}

/// The federation as it is: not what was asked of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Truth {
    /// What it holds at the end.
    pub(crate) now: BTreeMap<Key, Content>,
    /// Every record it ever held.
    pub(crate) ever: BTreeSet<Key>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_with_every_line_that_is_there() {
        let line = r#"{"id":"d-1","node":"n","title":[{"value":"x"}],"raw":{"b":2,"a":1}}"#;
        let record = (Key::new("n", "d-1"), r#"{"a":1,"b":2}"#.to_owned());
        assert_eq!(Stored::parse(&format!("{line}\n{line}\n")), Ok(Stored(vec![record.clone(), record])));
        assert_eq!(Stored::parse("{}\n"), Err("line 1 of the records is none: \"{}\"".into()));
    }
}
