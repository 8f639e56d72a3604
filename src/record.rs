//! A record: what one dataset description says, in one shape for all protocols.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// One dataset description. Readers fill everything but [`Origin`], which the crawler knows.
///
/// Serialised, it is one line of `records.jsonl` (camelCase; empty lists and absent values are left out).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The dataset's id at its node: an IRI or whatever the protocol keys on. Unique within a section.
    pub id: String,
    /// Where it was found; empty until the crawler fills it in.
    #[serde(flatten)]
    pub origin: Origin,
    /// Titles, one per language given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub title: Vec<LangString>,
    /// Descriptions, one per language given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub description: Vec<LangString>,
    /// Who publishes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publisher: Option<Agent>,
    /// Keywords (`dcat:keyword`, CKAN tags).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<LangString>,
    /// Themes: IRIs (`dcat:theme`) or names (CKAN groups).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub themes: Vec<String>,
    /// When it was issued, as the source writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issued: Option<String>,
    /// When it was last modified, as the source writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<String>,
    /// Licence: an IRI, or a name where the source gives no IRI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// How the data can be got.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distributions: Vec<Distribution>,
    /// Offers and policies, verbatim (ODRL as the source writes it).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offers: Vec<Box<RawValue>>,
    /// The hash of the canonical form: equal for two documents that mean the same.
    pub content_hash: ContentHash,
    /// The raw document of a JSON protocol, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Box<RawValue>>,
    /// The raw document of an RDF protocol: this dataset's triples as N-Triples, sorted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_triples: Option<String>,
}

impl Record {
    /// A record with nothing but an id and a hash.
    pub fn new(id: impl Into<String>, content_hash: ContentHash) -> Self {
        Self {
            id: id.into(),
            origin: Origin::default(),
            title: Vec::new(),
            description: Vec::new(),
            publisher: None,
            keywords: Vec::new(),
            themes: Vec::new(),
            issued: None,
            modified: None,
            license: None,
            distributions: Vec::new(),
            offers: Vec::new(),
            content_hash,
            raw: None,
            raw_triples: None,
        }
    }
}

/// Where a record was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// The `CatalogNode`'s name.
    pub node: String,
    /// The section's name; empty for the node's root catalogue.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub section: String,
    /// The way from the node's endpoint to the catalogue that listed it: endpoints, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<String>,
    /// The protocol it was read with, e.g. `DSP 2025-1`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub protocol: String,
    /// When this content was first fetched (RFC 3339); an unchanged record keeps it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fetched_at: String,
}

/// A text, with its language where the source names one (BCP 47, lower case).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LangString {
    /// The text.
    pub value: String,
    /// The language tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lang: Option<String>,
}

impl LangString {
    /// A text whose language the source does not name.
    pub fn plain(value: impl Into<String>) -> Self {
        Self { value: value.into(), lang: None }
    }
}

/// A publisher.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    /// An IRI or id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// A name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// One way to get the data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Distribution {
    /// The distribution's own id, where it has a lasting one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Titles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub title: Vec<LangString>,
    /// The format: an IRI, a name (`CSV`) or a transfer type (`HttpData-PULL`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// The media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// `dcat:accessURL`, or the access service's endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_url: Option<String>,
    /// `dcat:downloadURL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub download_url: Option<String>,
}

/// 128 bits of BLAKE3 over a record's canonical form, written as 32 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContentHash(pub [u8; 16]);

impl ContentHash {
    /// The hash of these bytes.
    pub fn of(canonical: &[u8]) -> Self {
        Self::from(blake3::hash(canonical))
    }
}

impl From<blake3::Hash> for ContentHash {
    fn from(hash: blake3::Hash) -> Self {
        let mut half = [0; 16];
        half.copy_from_slice(&hash.as_bytes()[..16]);
        Self(half)
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for ContentHash {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = [0; 32];
        data_encoding::HEXLOWER.encode_mut(&self.0, &mut text);
        serializer.serialize_str(std::str::from_utf8(&text).map_err(serde::ser::Error::custom)?)
    }
}

impl<'de> Deserialize<'de> for ContentHash {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let bytes = data_encoding::HEXLOWER.decode(text.as_bytes()).map_err(serde::de::Error::custom)?;
        Ok(Self(bytes.try_into().map_err(|_| serde::de::Error::custom("a content hash has 32 hex digits"))?))
    }
}
