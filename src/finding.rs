//! What reading a page finds besides records: words that readers, store and report share.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What an incremental traversal starts from. Saved by the store after its page's effects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Checkpoint(pub String);

impl Checkpoint {
    /// The checkpoint as it is kept: with the question it holds for. After another question (another endpoint, another
    /// filter) what was read until now would be missing, so it must not be used then.
    #[must_use]
    pub fn kept_for(&self, question: &str) -> Self {
        Self(format!("{question} {}", self.0))
    }

    /// The kept checkpoint as it was given, if it holds for this question.
    pub fn given_for(&self, question: &str) -> Option<Self> {
        let given = self.0.strip_prefix(question)?.strip_prefix(' ')?;
        Some(Self(given.to_owned()))
    }
}

/// How much of its section an answer speaks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reading {
    /// All of it, in a list that may have more pages: what the whole list lacks is gone.
    Full,
    /// The same, and this is why nothing less was asked for.
    FullBecause(InFull),
    /// Only what changed since this moment: what it lacks may be there unchanged.
    Since(Timestamp),
}

impl Reading {
    /// What two answers of one traversal are together: a list with a part that is not whole is not whole, and a reason
    /// given once stands.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Since(since), _) | (_, Self::Since(since)) => Self::Since(since),
            (Self::FullBecause(why), _) | (_, Self::FullBecause(why)) => Self::FullBecause(why),
            (Self::Full, Self::Full) => Self::Full,
        }
    }
}

/// Why a section can't be asked for changes alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum InFull {
    /// The protocol has no such question.
    NoWayToAsk,
    /// It is one document.
    OneDocument,
    /// The server answered the question with an error.
    Refused,
    /// The server answered as if it had been asked for everything.
    Ignored,
    /// The server listed nothing, though it had named something as changed within the time asked for.
    Forgotten,
    /// The server's clock shows an earlier time than when it was last asked.
    ClockPutBack,
}

/// What makes the next fetch of a document conditional (RFC 9110 §13).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Validators {
    /// The question whose answer had them: they say nothing about another one.
    #[serde(default)]
    pub question: String,
    /// `ETag`, as sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// `Last-Modified`, as sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
}

impl Validators {
    /// Whether there is nothing to ask with.
    pub fn is_empty(&self) -> bool {
        self.etag.is_none() && self.last_modified.is_none()
    }
}

/// A record that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// Its id, if it has one, else its position (`dataset[3]`).
    pub what: String,
    /// Why, in one sentence.
    pub why: String,
}

/// A fault in the input that a reader forgave. The name is in the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Forgiven {
    /// An object where a list belongs.
    ObjectForList,
    /// A body that starts with a byte order mark.
    ByteOrderMark,
    /// A content type that the body contradicts.
    ContentTypeMismatch,
    /// Bytes that are not UTF-8, replaced.
    InvalidUtf8,
    /// A backslash in a JSON text before a character that can't be escaped, read as itself.
    InvalidEscape,
    /// `dcat:Catalogue` for `dcat:Catalog` and the like.
    MisspeltClass,
    /// A property under another vocabulary's name (`dct:endpointUrl`).
    MisnamedProperty,
    /// A page without the `@context` it needs.
    MissingContext,
    /// The same record twice in one document.
    DuplicateRecord,
    /// A catalogue record with the IRI of a dataset.
    CatalogRecord,
    /// A total that the pages contradict.
    TotalMismatch,
    /// An IRI that is not one, kept as text or left out.
    InvalidIri,
    /// A page link to another scheme or host, followed on the node's own origin.
    ForeignPageLink,
    /// A nested catalogue without an address, read as part of its parent.
    NestedWithoutEndpoint,
    /// A nested catalogue that leads back to one already visited.
    Cycle,
    /// The server gave fewer rows than asked for.
    ClampedPageSize,
    /// A value that does not have the type it should have, read all the same.
    UnexpectedType,
    /// A remote `@context` that was not fetched; known terms were read by their local names.
    RemoteContext,
    /// A dataset listed without the properties that its protocol demands.
    MissingProperty,
    /// A value longer than the reader keeps, left out.
    OversizedValue,
}

/// Why a traversal can't be complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Limited {
    /// `spec.limits.maxPages`.
    MaxPages,
    /// `spec.limits.maxRecords`.
    MaxRecords,
    /// `spec.limits.maxBytes`.
    MaxBytes,
    /// `spec.dsp.nested.maxDepth`.
    MaxDepth,
    /// A page link led to a page already read.
    RepeatedPage,
    /// The pages gave fewer records than the server's total.
    FewerThanTotal,
    /// A page link led away from the node's origin and was not followed.
    ForeignPageLink,
}

/// One failure of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskFailure {
    /// When.
    pub at: Timestamp,
    /// Why, for people.
    pub why: String,
}

impl TaskFailure {
    /// So many failures of a task are kept, the latest.
    pub const MAX_KEPT: usize = 5;
    /// A reason is cut to so many characters.
    pub const MAX_WHY_CHARS: usize = 256;

    /// Adds a failure to those of its task.
    pub fn note(history: &mut Vec<Self>, at: Timestamp, why: &str) {
        if history.len() >= Self::MAX_KEPT {
            history.remove(0);
        }
        history.push(Self { at, why: why.chars().take(Self::MAX_WHY_CHARS).collect() });
    }
}

/// A character as it may be shown: blanks for what breaks lines, U+FFFD for what acts on a terminal or turns text around.
pub fn harmless(c: char) -> char {
    match c {
        '\t' | '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}' => ' ',
        // Direction marks, embeddings, overrides and isolates; invisible separators and operators; annotations; tags.
        '\u{61C}'
        | '\u{200B}'
        | '\u{200E}'
        | '\u{200F}'
        | '\u{202A}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}'
        | '\u{FEFF}'
        | '\u{FFF9}'..='\u{FFFB}'
        | '\u{E0000}'..='\u{E007F}' => char::REPLACEMENT_CHARACTER,
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}
