//! What crawlers of other processes are told of a run and its nodes, through its queue. Nothing in it is secret, and
//! nothing that is found in it widens what a crawler may do: which networks it may ask it is told by whoever starts it.

use std::sync::Arc;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::plan_run::deadline_of;
use super::snapshot::RunSnapshot;
use crate::api::{CatalogNodeSpec, RetrySpec, RunMode};
use crate::task::SectionKey;

/// The version of what is written here. A crawler of another version does not guess.
const VERSION: u32 = 1;

/// The largest certificate (PEM) that is told of.
const MAX_CA_BYTES: usize = 256 * 1024;

/// What a crawler must know of its run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunBrief {
    /// Whose run it is: an id of what holds its state. A run of the same name that somebody else has begun is not touched.
    pub owner: String,
    /// Everything, or what changed.
    pub mode: RunMode,
    /// How failures are retried.
    pub retries: RetrySpec,
    /// The mass-deletion guard: percent of a section.
    pub deletion_max_percent: u32,
    /// The mass-deletion guard: smaller sections are swept without it.
    pub deletion_min_records: u64,
    /// Held deletions that a person approved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved_deletions: Vec<(SectionKey, u64)>,
    /// Tasks under way at a time, per crawler.
    pub concurrency: u32,
    /// When crawlers end by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
}

/// What a crawler must know of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeBrief {
    /// What was asked for. Names a Secret; the crawler finds it where it runs.
    pub spec: CatalogNodeSpec,
    /// The certificates that `spec.caRef` refers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_pem: Option<Arc<str>>,
    /// Why it can't be crawled, in one sentence: known where the run was planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A brief as it is written.
#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    version: u32,
    #[serde(flatten)]
    brief: T,
}

#[derive(Deserialize)]
struct OnlyVersion {
    version: u32,
}

#[derive(Deserialize)]
struct OnlyOwner {
    owner: String,
}

impl RunBrief {
    /// What there is to know of a run, whose state its owner holds.
    pub fn of(snapshot: &RunSnapshot, owner: String, approved_deletions: Vec<(SectionKey, u64)>) -> Self {
        let (settings, deletion) = (&snapshot.spec.settings, &snapshot.catalog.spec.deletion);
        Self {
            owner,
            mode: settings.mode,
            retries: settings.retries.clone(),
            deletion_max_percent: deletion.max_percent,
            deletion_min_records: deletion.min_records,
            approved_deletions,
            concurrency: settings.crawler.concurrency,
            deadline: deadline_of(snapshot),
        }
    }

    /// As the queue keeps it.
    pub fn to_text(&self) -> Arc<str> {
        write(self)
    }

    /// Reads what the queue kept. `Err` is a sentence.
    pub fn read(text: &str) -> Result<Self, String> {
        read(text, "the run")
    }

    /// Whose run it is, whichever version of trawler wrote it.
    pub fn owner_of(text: &str) -> Option<String> {
        serde_json::from_str::<OnlyOwner>(text).ok().map(|brief| brief.owner)
    }
}

impl NodeBrief {
    /// What there is to know of a node.
    pub fn of(spec: &CatalogNodeSpec, ca_pem: Option<Arc<str>>) -> Self {
        let is_too_large = ca_pem.as_ref().is_some_and(|pem| pem.len() > MAX_CA_BYTES);
        let problem = is_too_large.then(|| {
            format!("spec.caRef: the certificates take more than the {MAX_CA_BYTES} bytes that crawlers are told; leave out those that are not needed")
        });
        Self { spec: spec.clone(), ca_pem: ca_pem.filter(|_| !is_too_large), problem }
    }

    /// As the queue keeps it.
    pub fn to_text(&self) -> Arc<str> {
        write(self)
    }

    /// Reads what the queue kept. `Err` is a sentence.
    pub fn read(text: &str) -> Result<Self, String> {
        read(text, "the node")
    }
}

fn write(brief: &impl Serialize) -> Arc<str> {
    // Numbers, texts and lists always have a JSON form.
    Arc::from(serde_json::to_string(&Versioned { version: VERSION, brief }).unwrap_or_default())
}

fn read<T: DeserializeOwned>(text: &str, of: &str) -> Result<T, String> {
    let unreadable = |error: serde_json::Error| format!("what the queue says of {of} can't be read: {error}");
    let OnlyVersion { version } = serde_json::from_str(text).map_err(unreadable)?;
    if version != VERSION {
        return Err(format!(
            "what the queue says of {of} was written by another version of trawler (format {version}; this one knows \
             {VERSION}); start crawlers of the version that began the run"
        ));
    }
    serde_json::from_str::<Versioned<T>>(text).map(|versioned| versioned.brief).map_err(unreadable)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec() -> CatalogNodeSpec {
        serde_json::from_value(json!({
            "endpoint": "https://acme.example/api", "protocol": "DSP", "credentialRef": {"name": "acme-token"},
            "dsp": {"nested": {"maxDepth": 2}}, "limits": {"maxBytes": "1Gi", "requestTimeout": "30s"},
        }))
        .unwrap()
    }

    #[test]
    fn a_run_is_told_and_read_whole() {
        let brief = RunBrief {
            owner: "0123".to_owned(),
            mode: RunMode::Incremental,
            retries: RetrySpec::default(),
            deletion_max_percent: 30,
            deletion_min_records: 50,
            approved_deletions: vec![(SectionKey::root_of("acme".into()), 7)],
            concurrency: 16,
            deadline: Some(Timestamp::from_second(1_800_000_000).unwrap()),
        };
        assert_eq!(RunBrief::read(&brief.to_text()), Ok(brief));
    }

    #[test]
    fn a_node_is_told_and_read_whole() {
        let brief = NodeBrief::of(&spec(), Some("-----BEGIN CERTIFICATE-----".into()));
        assert_eq!(NodeBrief::read(&brief.to_text()), Ok(brief.clone()));
        assert_eq!((brief.spec, brief.problem), (spec(), None));
    }

    #[test]
    fn certificates_that_are_too_large_are_a_problem_of_their_node() {
        let brief = NodeBrief::of(&spec(), Some("x".repeat(MAX_CA_BYTES + 1).into()));
        assert_eq!(brief.ca_pem, None);
        assert!(brief.problem.unwrap().starts_with("spec.caRef: the certificates take more than"));
    }

    #[test]
    fn another_version_is_named_and_not_guessed_at() {
        let error = RunBrief::read(r#"{"version":2,"whatever":true}"#).unwrap_err();
        assert!(error.contains("(format 2; this one knows 1)"), "{error}");
        assert_eq!(RunBrief::owner_of(r#"{"version":2,"owner":"0123"}"#).as_deref(), Some("0123"));
        let error = NodeBrief::read("{").unwrap_err();
        assert!(error.starts_with("what the queue says of the node can't be read: "), "{error}");
        let error = RunBrief::read("").unwrap_err();
        assert!(error.starts_with("what the queue says of the run can't be read: "), "{error}");
    }
}
