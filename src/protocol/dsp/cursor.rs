//! What a DSP task does, as the text in its cursor.

use serde::{Deserialize, Serialize};
use url::Url;

use super::address;
use crate::protocol::{DspVersion, ReadError};
use crate::task::MAX_CURSOR_BYTES;

/// One step of reading a connector.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Step {
    /// Ask for the versions, at the `attempt`-th place where an answer may be.
    Discover {
        /// The connector's address.
        endpoint: Url,
        /// Which place.
        attempt: usize,
    },
    /// Ask for a page of the catalogue.
    Page(PageStep),
}

/// Where a page is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PageStep {
    /// The version spoken.
    pub(super) version: DspVersion,
    /// The address in that version.
    pub(super) base: Url,
    /// The page, if it is not the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<Url>,
    /// Whether the version is only a guess, so that a refusal leads to the next guess.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_question: bool,
}

impl PageStep {
    /// The first page of a catalogue.
    pub(super) fn first(version: DspVersion, base: Url) -> Self {
        Self { version, base, next: None, is_question: false }
    }

    /// Where the page is.
    pub(super) fn url(&self) -> Url {
        self.next.clone().unwrap_or_else(|| address::catalog_request(&self.base))
    }
}

impl Step {
    /// The cursor of a task that does this.
    pub(super) fn to_cursor(&self) -> Result<String, ReadError> {
        let cursor = serde_json::to_string(self).unwrap_or_default();
        if cursor.len() <= MAX_CURSOR_BYTES {
            return Ok(cursor);
        }
        let url = match self {
            Self::Discover { endpoint, .. } => endpoint,
            Self::Page(at) => &at.base,
        };
        let what = format!("linked by an address of {} bytes", cursor.len());
        Err(ReadError::OverLimit { url: url.to_string(), what, limit: MAX_CURSOR_BYTES as u64 })
    }

    /// What the task with this cursor does.
    pub(super) fn from_cursor(cursor: &str) -> Result<Self, ReadError> {
        serde_json::from_str(cursor).map_err(|_| ReadError::BadCursor { cursor: cursor.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_survives_its_cursor() {
        let base = Url::parse("https://acme.example/dsp/2025-1").unwrap();
        let next = Url::parse("https://acme.example/dsp/2025-1/catalog/request?continuationToken=e30=").unwrap();
        let at = PageStep { next: Some(next), ..PageStep::first(DspVersion::V2025_1, base.clone()) };
        for step in [Step::Page(at), Step::Discover { endpoint: base, attempt: 1 }] {
            assert_eq!(Step::from_cursor(&step.to_cursor().unwrap()).unwrap(), step);
        }
        assert!(matches!(Step::from_cursor("start=4"), Err(ReadError::BadCursor { .. })));
    }
}
