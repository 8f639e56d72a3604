//! `report.json`: what a run came to. Stable: fields are only added.

use std::collections::BTreeMap;
use std::fmt;

use jiff::{Timestamp, Unit};
use serde::{Deserialize, Serialize};

use super::approvals::word_for;
use crate::api::names::APPROVED_DELETIONS_ANNOTATION;
use crate::crawler::StageSeconds;
use crate::planner::{Health, Outage, SkippedNode, Verdict};
use crate::store::{Mode, NodeState, ReadAs, SectionReport};
use crate::task::{CatalogName, NodeName, RunId};

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The run.
    pub run: RunId,
    /// Its number in its Catalog.
    pub number: u64,
    /// Whose.
    pub catalog: CatalogName,
    /// How much it looked at.
    pub mode: Mode,
    /// Nothing was written.
    pub dry_run: bool,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
    /// How it ended.
    pub outcome: RunOutcome,
    /// The budget of nodes that no `ThrottlePolicy` is assigned to.
    pub default_budget: String,
    /// Sums over all nodes.
    pub totals: Totals,
    /// Where the time went, summed over all tasks.
    pub stage_seconds: StageSeconds,
    /// Each node of the Catalog, in order of their names.
    pub nodes: Vec<NodeReport>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunOutcome {
    /// Every section of every node was complete.
    Complete,
    /// Some nodes failed or were partial, no more than `spec.maxFailedNodesPercent`.
    PartiallyComplete,
    /// Too many nodes failed, or all of them.
    Failed,
    /// `spec.deadline` passed first.
    DeadlineExceeded,
}

/// Sums.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Live records after the run.
    pub records: u64,
    /// New.
    pub added: u64,
    /// Changed.
    pub updated: u64,
    /// Seen and the same.
    pub unchanged: u64,
    /// Gone.
    pub deleted: u64,
    /// Not seen and kept all the same.
    pub kept_unseen: u64,
    /// Not readable.
    pub rejected: u64,
    /// Requests sent.
    pub requests: u64,
    /// Decoded bytes received.
    pub bytes: u64,
}

/// What one node came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReport {
    /// Its name.
    pub name: NodeName,
    /// The protocol spoken, or asked for.
    pub protocol: String,
    /// How it fared.
    pub state: NodeResult,
    /// Why, where the state needs a reason: one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Its records are older than this run, because nothing of it could be read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
    /// How it fares over runs.
    #[serde(default)]
    pub health: NodeHealth,
    /// Runs in a row in which nothing of it could be read.
    #[serde(default, skip_serializing_if = "u32_is_zero")]
    pub failures_in_row: u32,
    /// The first of these runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Timestamp>,
    /// Until then runs leave it out, unless they name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try_at: Option<Timestamp>,
    /// The last run in which something of it could be read: its records are of then, if they are stale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_read_at: Option<Timestamp>,
    /// The last run in which every section of it was complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_succeeded_at: Option<Timestamp>,
    /// How its own catalogue was read; nested ones say it for themselves.
    #[serde(flatten)]
    pub read_as: ReadAs,
    /// Its sums.
    #[serde(flatten)]
    pub totals: Totals,
    /// Its sections.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sections: Vec<SectionReport>,
}

/// How a node fares over runs (`spec.nodeHealth`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeHealth {
    /// It is tried in every run.
    #[default]
    Online,
    /// It failed again and again: it is tried less often.
    Offline,
    /// It has failed for long: it is tried rarely.
    Dead,
}

/// How a node fared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeResult {
    /// Every section was complete.
    Complete,
    /// Something was got, and something is missing.
    Partial,
    /// Nothing was got.
    Failed,
    /// It was left out of this run.
    Skipped,
    /// The Catalog no longer selects it; its records go.
    Removed,
}

impl fmt::Display for NodeResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Complete => "complete",
            Self::Partial => "partial",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Removed => "removed",
        })
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn u32_is_zero(count: &u32) -> bool {
    *count == 0
}

/// What a report is made from.
pub(crate) struct ReportInput<'a> {
    pub(crate) run: RunId,
    pub(crate) number: u64,
    pub(crate) catalog: CatalogName,
    pub(crate) mode: Mode,
    pub(crate) dry_run: bool,
    pub(crate) started_at: Timestamp,
    pub(crate) finished_at: Timestamp,
    pub(crate) verdict: Verdict,
    pub(crate) max_failed_nodes_percent: u32,
    /// The nodes of the run, with the protocol asked for.
    pub(crate) crawled: Vec<(NodeName, String)>,
    pub(crate) skipped: Vec<SkippedNode>,
    /// Nodes that could not even be started.
    pub(crate) problems: BTreeMap<NodeName, String>,
    pub(crate) sections: Vec<SectionReport>,
    /// What is remembered of each node.
    pub(crate) known: BTreeMap<NodeName, NodeState>,
    /// Nodes whose records have outlived their time.
    pub(crate) expired: Vec<NodeName>,
    /// Judges a node by it.
    pub(crate) health: &'a dyn Fn(&NodeName, &NodeState) -> Health,
    pub(crate) default_budget: String,
    pub(crate) stage_seconds: StageSeconds,
}

/// Makes the report. Pure.
pub(crate) fn build_report(input: ReportInput<'_>) -> Report {
    let mut by_node: BTreeMap<NodeName, Vec<SectionReport>> = BTreeMap::new();
    for section in input.sections {
        by_node.entry(section.section.node.clone()).or_default().push(section);
    }
    let left_alone = input.skipped.iter().filter(|skipped| skipped.reason.is_outage()).count() as u64;
    let remembered = |name: &NodeName| {
        let state = input.known.get(name).cloned().unwrap_or_default();
        Remembered { health: (input.health)(name, &state), has_expired: input.expired.contains(name), state }
    };
    let mut nodes: Vec<NodeReport> = Vec::new();
    for (name, protocol) in input.crawled {
        let sections = by_node.remove(&name).unwrap_or_default();
        nodes.push(crawled_node(&name, protocol, sections, input.problems.get(&name), remembered(&name)));
    }
    for SkippedNode { node, reason } in input.skipped {
        let sections = by_node.remove(&node).unwrap_or_default();
        let mut message = reason.to_string();
        let remembered = remembered(&node);
        message.extend(gone_sentence(&sections).filter(|_| remembered.has_expired));
        let stale = remembered.state.records > 0 && remembered.state.failures_in_row > 0;
        nodes.push(NodeReport {
            stale,
            message: Some(message),
            ..remembered.report(&node, String::new(), NodeResult::Skipped, sections)
        });
    }
    for (name, sections) in by_node {
        let message = held_sentence(&sections).unwrap_or_else(|| "the Catalog no longer selects it".to_owned());
        let remembered = remembered(&name);
        nodes.push(NodeReport {
            message: Some(message),
            ..remembered.report(&name, String::new(), NodeResult::Removed, sections)
        });
    }
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    let outcome = outcome_of(&nodes, left_alone, input.verdict, input.max_failed_nodes_percent);
    let totals = nodes.iter().fold(Totals::default(), |sum, node| sum.plus(&node.totals));
    // A run over some of the nodes leaves the others' records where they are.
    let totals = Totals { records: input.known.values().map(|state| state.records).sum(), ..totals };
    Report {
        run: input.run,
        number: input.number,
        catalog: input.catalog,
        mode: input.mode,
        dry_run: input.dry_run,
        started_at: input.started_at,
        finished_at: input.finished_at,
        outcome,
        default_budget: input.default_budget,
        totals,
        stage_seconds: input.stage_seconds,
        nodes,
    }
}

/// What is remembered of a node after the run.
struct Remembered {
    state: NodeState,
    health: Health,
    has_expired: bool,
}

impl Remembered {
    /// A report without message.
    fn report(self, name: &NodeName, protocol: String, state: NodeResult, sections: Vec<SectionReport>) -> NodeReport {
        let Self { state: remembered, health, .. } = self;
        NodeReport {
            name: name.clone(),
            protocol,
            state,
            message: None,
            stale: false,
            health: match health {
                Health::Online => NodeHealth::Online,
                Health::Offline(_) => NodeHealth::Offline,
                Health::Dead(_) => NodeHealth::Dead,
            },
            failures_in_row: remembered.failures_in_row,
            failing_since: remembered.failing_since,
            next_try_at: health.outage().map(|outage| outage.next_try),
            last_read_at: remembered.last_read_at,
            last_succeeded_at: remembered.last_succeeded_at,
            read_as: ReadAs::default(),
            totals: sum(&sections, remembered.records),
            sections,
        }
    }
}

fn crawled_node(
    name: &NodeName,
    asked_protocol: String,
    sections: Vec<SectionReport>,
    problem: Option<&String>,
    remembered: Remembered,
) -> NodeReport {
    let spoken = sections.iter().map(|section| section.protocol.as_str()).find(|spoken| !spoken.is_empty());
    let protocol = spoken.map_or(asked_protocol, str::to_owned);
    let totals = sum(&sections, remembered.state.records);
    let seen = totals.added + totals.updated + totals.unchanged;
    let trouble = sections.iter().find_map(|section| {
        let partial = section.partial.as_ref()?;
        Some(section.failures.first().map_or(partial, |task| &task.why).clone())
    });
    let (state, mut message) = match (problem, trouble) {
        (Some(problem), _) => (NodeResult::Failed, Some(problem.clone())),
        (None, Some(trouble)) if seen == 0 => (NodeResult::Failed, Some(trouble)),
        (None, Some(trouble)) => (NodeResult::Partial, Some(trouble)),
        (None, None) if sections.is_empty() => {
            (NodeResult::Failed, Some("it was not reached before the run ended".to_owned()))
        }
        (None, None) => (NodeResult::Complete, held_sentence(&sections)),
    };
    if state == NodeResult::Failed
        && let Some(message) = &mut message
    {
        message.extend(outage_sentence(&remembered.health));
        message.extend(gone_sentence(&sections).filter(|_| remembered.has_expired));
    }
    let keeps_old_records = state == NodeResult::Failed && remembered.state.records > 0;
    let root = sections.iter().find(|section| section.section.section.is_root());
    let read_as = root.map(|root| root.read_as.clone()).unwrap_or_default();
    NodeReport { message, stale: keeps_old_records, read_as, ..remembered.report(name, protocol, state, sections) }
}

/// When a node that has become offline or dead is tried again.
fn outage_sentence(health: &Health) -> Option<String> {
    let state = match health {
        Health::Online => return None,
        Health::Offline(_) => "offline",
        Health::Dead(_) => "dead",
    };
    let Outage { failures, next_try, .. } = health.outage()?;
    let next_try = next_try.round(Unit::Second).unwrap_or(next_try);
    Some(format!("; {failures} runs in a row failed, so it is {state} and not tried before {next_try}"))
}

/// What became of the records of a node that could not be read for longer than they are kept.
fn gone_sentence(sections: &[SectionReport]) -> Option<String> {
    let deleted: u64 = sections.iter().map(|section| section.deleted).sum();
    match held_sentence(sections) {
        Some(held) => Some(format!("; its records have outlived spec.deletion.gracePeriod: {held}")),
        None if deleted > 0 => {
            Some(format!("; its {deleted} records have outlived spec.deletion.gracePeriod and were deleted"))
        }
        None => None,
    }
}

/// What is held, and how a person lets it go.
fn held_sentence(sections: &[SectionReport]) -> Option<String> {
    let (section, held, number) =
        sections.iter().find_map(|report| Some((&report.section, report.held?, report.held_as?)))?;
    Some(format!(
        "{held} records of {section} are no longer listed; deleting them is held. If they are really gone, annotate the Catalog \
         with {APPROVED_DELETIONS_ANNOTATION}: \"{}\" and run again",
        word_for(section, number)
    ))
}

/// A node that is left alone because it can't be read counts as failed: leaving it out makes nothing fresh.
fn outcome_of(nodes: &[NodeReport], left_alone: u64, verdict: Verdict, max_failed_percent: u32) -> RunOutcome {
    if verdict == Verdict::DeadlineExceeded {
        return RunOutcome::DeadlineExceeded;
    }
    let count = |state: NodeResult| nodes.iter().filter(|node| node.state == state).count() as u64;
    let (complete, partial, failed) =
        (count(NodeResult::Complete), count(NodeResult::Partial), count(NodeResult::Failed) + left_alone);
    let crawled = complete + partial + failed;
    if failed + partial == 0 {
        RunOutcome::Complete
    } else if failed == crawled || failed * 100 > crawled * u64::from(max_failed_percent) {
        RunOutcome::Failed
    } else {
        RunOutcome::PartiallyComplete
    }
}

fn sum(sections: &[SectionReport], records: u64) -> Totals {
    sections.iter().map(totals_of).fold(Totals { records, ..Totals::default() }, |sum, section| sum.plus(&section))
}

/// A section's sums. Records held are known of nodes only.
fn totals_of(section: &SectionReport) -> Totals {
    Totals {
        records: 0,
        added: section.added,
        updated: section.updated,
        unchanged: section.unchanged,
        deleted: section.deleted,
        kept_unseen: section.kept_unseen,
        rejected: section.rejected_count,
        requests: section.requests,
        bytes: section.bytes,
    }
}

impl Totals {
    fn plus(self, other: &Self) -> Self {
        Self {
            records: self.records + other.records,
            added: self.added + other.added,
            updated: self.updated + other.updated,
            unchanged: self.unchanged + other.unchanged,
            deleted: self.deleted + other.deleted,
            kept_unseen: self.kept_unseen + other.kept_unseen,
            rejected: self.rejected + other.rejected,
            requests: self.requests + other.requests,
            bytes: self.bytes + other.bytes,
        }
    }
}
