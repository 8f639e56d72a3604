//! What a server says of itself, by name.

use std::collections::HashMap;

use crate::queue::redis::connection::{CallError, Connection, text_of};

/// Names and values, as INFO or CONFIG GET gave them.
#[derive(Debug, Default)]
pub(super) struct Facts {
    values: HashMap<String, String>,
    /// Why there are none.
    pub(super) missing: Option<CallError>,
}

impl Facts {
    pub(super) async fn from_info(connection: &Connection) -> Result<Self, CallError> {
        let answer = connection.command(&["INFO"]).await?;
        Ok(Self::parse(text_of(&answer).unwrap_or_default()))
    }

    fn parse(info: &str) -> Self {
        let lines = info.lines().filter_map(|line| line.trim_end().split_once(':'));
        Self { values: lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(), missing: None }
    }

    /// What can be looked at of the configuration: services that run Redis for others often allow nothing.
    pub(super) async fn from_config(connection: &Connection) -> Self {
        let mut facts = Self::default();
        for name in ["appendfsync", "save"] {
            match connection.command(&["CONFIG", "GET", name]).await {
                Ok(answer) => {
                    let pairs = answer.as_map_iter().into_iter().flatten();
                    let texts = pairs.filter_map(|(name, value)| Some((text_of(name)?, text_of(value)?)));
                    facts.values.extend(texts.map(|(name, value)| (name.to_owned(), value.to_owned())));
                }
                Err(error) => facts.missing = Some(error),
            }
        }
        facts
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    /// Those whose names begin so.
    pub(super) fn starting_with<'a>(&'a self, start: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let values = self.values.iter().filter(move |(name, _)| name.starts_with(start));
        values.map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

#[cfg(test)]
pub(super) fn facts(info: &str) -> Facts {
    Facts::parse(info)
}
