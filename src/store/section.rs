//! What a traversal of a section came to, and what is remembered of a section between runs.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::finding::{Forgiven, Rejected, TaskFailure};
use crate::task::{SectionKey, TaskKind};

/// What a traversal came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SectionReport {
    /// The section.
    #[serde(flatten)]
    pub section: SectionKey,
    /// The traversal's number.
    pub number: u64,
    /// Records that were not there before.
    pub added: u64,
    /// Records whose content changed.
    pub updated: u64,
    /// Records seen and the same.
    pub unchanged: u64,
    /// Records swept, or deleted by the source's word.
    pub deleted: u64,
    /// Records not seen and kept all the same, because the traversal was partial or the sweep is held.
    pub kept_unseen: u64,
    /// Set if the traversal was partial: why, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// Set if the sweep waits for a person: so many records would go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<u64>,
    /// The number by which a person approves that: of the first traversal that missed all of these records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_as: Option<u64>,
    /// Tasks that were given up: the first twenty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailedTask>,
    /// Tasks that failed.
    pub failed_tasks: u64,
    /// Requests sent.
    pub requests: u64,
    /// Decoded bytes received.
    pub bytes: u64,
    /// The protocol spoken.
    pub protocol: String,
    /// How it was read.
    #[serde(flatten)]
    pub read_as: ReadAs,
    /// Faults forgiven.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub forgiven: BTreeMap<Forgiven, u64>,
    /// Records that could not be read: the first hundred.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<Rejected>,
    /// Records that could not be read.
    pub rejected_count: u64,
    /// The server's own number of records, if it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

/// A task that was given up, and what it went through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedTask {
    /// What it was to fetch.
    pub kind: TaskKind,
    /// How many pages of the section came before it.
    pub page: u32,
    /// Why it was given up, in one sentence.
    pub why: String,
    /// Its tries before that, oldest first: the latest ones, as far as this process made them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<TaskFailure>,
    /// It may be our own fault: the credential was refused or can't be used, or settings of ours forbid the request. The
    /// source may be there all the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_be_ours: bool,
}

/// How a section was read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadAs {
    /// How much of it; `None`: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<ReadMode>,
    /// Since when changes were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Why it was read in full in an incremental run: ends the sentence "read in full, because …".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_full_because: Option<String>,
}

/// How much of a section was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadMode {
    /// All of it.
    Full,
    /// What changed.
    Incremental,
    /// Nothing: the source said that it has not changed.
    NotModified,
}

/// What the store remembers of a section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SectionState {
    /// The section.
    #[serde(flatten)]
    pub section: SectionKey,
    /// The last traversal's number.
    pub number: u64,
    /// The last complete traversal's number; 0: none.
    pub last_complete: u64,
    /// Live records.
    pub records: u64,
    /// A sweep that waits for a person: the number to approve, of the first traversal that missed all of these records,
    /// and how many would go.
    pub held: Option<(u64, u64)>,
}
