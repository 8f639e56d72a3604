//! What a decision says: ordered data.

use jiff::{Timestamp, Unit};
use serde::Serialize;

use super::health::Outage;
use crate::flow::RunConfig;
use crate::task::{NodeName, RunId};

/// What to do about one run, in this order.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionPlan {
    /// The run.
    pub run: RunId,
    /// What to do, in order.
    pub steps: Vec<Step>,
    /// Where the run stands.
    pub phase: Phase,
    /// The nodes it crawls, in order of their names.
    pub nodes: Vec<NodeName>,
    /// The nodes of the Catalog that it leaves out, each with its reason.
    pub skipped: Vec<SkippedNode>,
    /// Look again then, even if nothing has changed.
    pub look_again_at: Option<Timestamp>,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "step")]
pub enum Step {
    /// Make the run's queue.
    OpenQueue {
        /// Nodes and gates.
        config: Box<RunConfig>,
    },
    /// Put in the root task of each of these nodes (or, for a resumed run, the tasks that are not settled).
    SeedNodes {
        /// The nodes.
        nodes: Vec<NodeName>,
    },
    /// Hand out nothing more.
    Freeze,
    /// Go on.
    Thaw,
    /// Start a crawler with this token.
    StartCrawler {
        /// The token: the lowest free one.
        token: u32,
        /// The group of nodes that it serves.
        group: String,
    },
    /// Let the crawlers finish what they have and end.
    StopCrawlers,
    /// Sweep what no parent lists any more, write the report, forget the queue.
    FinishRun {
        /// How it ended.
        verdict: Verdict,
    },
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Phase {
    /// It has no queue yet.
    Pending,
    /// Crawlers work, or will.
    Active,
    /// It is frozen.
    Frozen,
    /// Crawlers are finishing what they have.
    Stopping,
    /// There is nothing left to do but to finish.
    Finishing,
}

/// How a run ended, as far as a plan knows: whether nodes failed is in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// Every task was settled.
    Drained,
    /// `spec.deadline` passed.
    DeadlineExceeded,
    /// Somebody asked it to end; it can be resumed.
    Interrupted,
}

/// A node that is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SkippedNode {
    /// The node.
    pub node: NodeName,
    /// Why.
    #[serde(flatten)]
    pub reason: SkipReason,
}

/// Why a node is left out of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "reason")]
pub enum SkipReason {
    /// `spec.suspend`.
    Suspended,
    /// `spec.recrawlInterval` since the last crawl has not passed.
    NotDue {
        /// When it is due.
        until: Timestamp,
    },
    /// It failed again and again and is tried less often.
    Offline(Outage),
    /// It has failed for long and is tried rarely.
    Dead(Outage),
    /// No reader for its protocol in this version.
    ProtocolNotSupported {
        /// The protocol.
        protocol: String,
    },
    /// Its `spec` can't be used.
    Invalid {
        /// What is wrong, in one sentence.
        why: String,
    },
}

impl SkipReason {
    /// It is left alone because it can't be read: its records get older with every run that leaves it out.
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Offline(_) | Self::Dead(_))
    }
}

impl std::fmt::Display for SkipReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Suspended => f.write_str("suspended (spec.suspend)"),
            Self::NotDue { until } => write!(f, "crawled recently; due at {until} (spec.recrawlInterval)"),
            Self::Offline(outage) => write_outage(f, "offline", outage),
            Self::Dead(outage) => write_outage(f, "dead", outage),
            Self::ProtocolNotSupported { protocol } => {
                write!(f, "protocol {protocol} is not supported by this version; DSP, CKAN and DCAT are")
            }
            Self::Invalid { why } => f.write_str(why),
        }
    }
}

fn write_outage(f: &mut std::fmt::Formatter<'_>, state: &str, outage: &Outage) -> std::fmt::Result {
    let Outage { since, failures, next_try } = outage;
    let (since, next_try) =
        (since.round(Unit::Second).unwrap_or(*since), next_try.round(Unit::Second).unwrap_or(*next_try));
    let runs = if *failures == 1 { "run" } else { "runs" };
    write!(
        f,
        "{state} since {since}, {failures} {runs} in a row failed; tried again at {next_try}, or at once if it is named in \
         spec.catalogNodeNames"
    )
}
