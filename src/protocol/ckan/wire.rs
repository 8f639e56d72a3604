//! CKAN's envelope: `success` with a `result`, or an `error`.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::protocol::body::sentence;
use crate::protocol::json::{Json, RawList};
use crate::protocol::text::scalar_of;

/// What an answer of the Action API says.
#[derive(Debug)]
pub(super) enum Answer<'a> {
    /// The search found something, or nothing.
    Found(Found<'a>),
    /// The API's own error, in a sentence.
    Error(String),
    /// Something else, and why.
    Neither(&'static str),
}

/// A page of packages.
#[derive(Debug)]
pub(super) struct Found<'a> {
    /// How many the search has in all, if it says so.
    pub(super) count: Option<u64>,
    /// The packages of this page.
    pub(super) results: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(default, borrow)]
    success: Option<Json<'a>>,
    #[serde(default, borrow)]
    result: Option<SearchResult<'a>>,
    #[serde(default, borrow)]
    error: Option<Json<'a>>,
}

#[derive(Deserialize)]
struct SearchResult<'a> {
    #[serde(default, borrow)]
    count: Option<Json<'a>>,
    #[serde(default, borrow)]
    results: RawList<'a>,
}

impl<'a> Answer<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        // CKAN answers an unknown action with a bare text.
        if text.trim_start().starts_with('"') {
            let message: String = serde_json::from_str(text)?;
            return Ok(Self::Error(sentence(&message)));
        }
        let envelope: Envelope<'a> = serde_json::from_str(text)?;
        if envelope.success == Some(Json::Bool(false)) || (envelope.result.is_none() && envelope.error.is_some()) {
            return Ok(Self::Error(message_of(&envelope.error.unwrap_or(Json::Null))));
        }
        let Some(result) = envelope.result else { return Ok(Self::Neither("it has no result")) };
        let count = result.count.as_ref().and_then(scalar_of).and_then(|count| count.parse().ok());
        match result.results {
            RawList::Items(results) => Ok(Self::Found(Found { count, results })),
            RawList::Absent | RawList::Object | RawList::Other => {
                Ok(Self::Neither("its result has no list of results"))
            }
        }
    }
}

/// The error in a sentence: its message, or what it says about single fields.
fn message_of(error: &Json<'_>) -> String {
    let kind = error.get("__type").and_then(scalar_of);
    let message = scalar_of(error).or_else(|| error.get("message").and_then(scalar_of)).map(String::from);
    let message = message.or_else(|| {
        let (name, value) = error.fields().iter().find(|(name, _)| name != "__type")?;
        Some(format!("{name}: {}", scalar_of(value)?))
    });
    let message = message.unwrap_or_else(|| "no reason given".to_owned());
    sentence(&kind.map_or_else(|| message.clone(), |kind| format!("{kind}: {message}")))
}
