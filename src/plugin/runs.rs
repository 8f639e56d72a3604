//! `kubectl trawler runs`: one row for each run.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use serde::Serialize;

use super::facts::run_condition;
use super::{Answer, Look};
use crate::api::conditions::{FROZEN, STALLED, SUCCEEDED, succeeded};
use crate::api::times::moment_of;
use crate::api::{CrawlRun, RunMode};
use crate::local::grid::{Cell, Tone};
use crate::local::text::{about, in_about};

/// Runs, youngest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct RunList {
    /// The rows.
    pub runs: Vec<RunRow>,
}

impl RunList {
    /// Of these runs.
    pub fn of(runs: &[CrawlRun]) -> Self {
        let mut runs: Vec<RunRow> = runs.iter().map(RunRow::of).collect();
        runs.sort_by(|a, b| b.created_at.cmp(&a.created_at).then_with(|| a.name.cmp(&b.name)));
        Self { runs }
    }
}

/// What a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum State {
    /// No operator has looked at it.
    Unseen,
    /// It waits to start.
    Pending,
    /// It crawls.
    Running,
    /// A person froze it.
    Frozen,
    /// A person must act.
    Stalled,
    /// It ended well.
    Succeeded,
    /// It ended badly.
    Failed,
}

impl State {
    /// By its conditions.
    pub fn of(run: &CrawlRun) -> Self {
        let Some(said) = run_condition(run, SUCCEEDED) else { return Self::Unseen };
        let holds = |type_| run_condition(run, type_).is_some_and(|condition| condition.status == "True");
        match said.status.as_str() {
            "True" => Self::Succeeded,
            "False" => Self::Failed,
            _ if holds(FROZEN) => Self::Frozen,
            _ if holds(STALLED) => Self::Stalled,
            _ if said.reason == succeeded::PENDING => Self::Pending,
            _ => Self::Running,
        }
    }

    /// Whether the run may still do something.
    pub fn is_active(self) -> bool {
        !matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// A run in a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRow {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its Catalog.
    pub catalog: String,
    /// Full or Incremental.
    pub mode: RunMode,
    /// What it is doing.
    pub state: State,
    /// Why, as one word.
    pub reason: String,
    /// Why, as a sentence.
    pub message: String,
    /// Nodes of the run.
    pub nodes_total: i64,
    /// Those whose sections are all complete.
    pub nodes_complete: i64,
    /// Those of which some section is not.
    pub nodes_partial: i64,
    /// Those that gave nothing.
    pub nodes_failed: i64,
    /// Records seen.
    pub records_seen: i64,
    /// Crawlers at work.
    pub tokens_held: i64,
    /// Crawlers that it may have now.
    pub tokens_share: i64,
    /// What it waits for.
    pub waiting: Option<String>,
    /// Until when.
    pub waiting_until: Option<Timestamp>,
    /// Place in line; 1 is next.
    pub position: Option<i64>,
    /// Since when it exists.
    pub created_at: Option<Timestamp>,
    /// When its nodes were fixed.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

impl RunRow {
    /// Of this run.
    pub fn of(run: &CrawlRun) -> Self {
        let status = run.status.clone().unwrap_or_default();
        let state = State::of(run);
        let why = match state {
            State::Frozen => run_condition(run, FROZEN),
            State::Stalled => run_condition(run, STALLED),
            _ => run_condition(run, SUCCEEDED),
        };
        let moment = |time: &Option<Time>| time.as_ref().map(moment_of);
        let waiting = status.waiting.filter(|_| state.is_active());
        Self {
            namespace: run.namespace().unwrap_or_default(),
            name: run.name_any(),
            catalog: run.spec.catalog_ref.name.clone(),
            mode: run.spec.settings.mode,
            state,
            reason: why.map(|why| why.reason.clone()).unwrap_or_default(),
            message: why.map(|why| why.message.clone()).unwrap_or_default(),
            nodes_total: status.catalog_nodes.total,
            nodes_complete: status.catalog_nodes.complete,
            nodes_partial: status.catalog_nodes.partial,
            nodes_failed: status.catalog_nodes.failed,
            records_seen: status.records.seen,
            tokens_held: status.tokens.held,
            tokens_share: status.tokens.share,
            waiting_until: waiting.as_ref().and_then(|waiting| moment(&waiting.until)),
            position: waiting.as_ref().and_then(|waiting| waiting.position),
            waiting: waiting.map(|waiting| waiting.message),
            created_at: moment(&run.metadata.creation_timestamp),
            started_at: moment(&status.started_at),
            finished_at: moment(&status.finished_at),
        }
    }

    /// Since it started, up to now or to its end.
    pub fn duration(&self, now: Timestamp) -> Option<Duration> {
        let end = self.finished_at.unwrap_or(now);
        Duration::try_from(end.duration_since(self.started_at?)).ok()
    }

    /// The state in a word or two, and how that is to be taken.
    pub(super) fn state_cell(&self) -> Cell {
        let (text, tone) = match self.state {
            State::Unseen => ("Unseen".to_owned(), Tone::Warn),
            State::Pending | State::Running => (format!("{:?}", self.state), Tone::Plain),
            State::Frozen => ("Frozen".to_owned(), Tone::Warn),
            State::Stalled => (format!("Stalled ({})", self.reason), Tone::Bad),
            State::Succeeded if self.reason == succeeded::COMPLETE => (self.reason.clone(), Tone::Good),
            State::Succeeded => (self.reason.clone(), Tone::Warn),
            State::Failed => (format!("Failed ({})", self.reason), Tone::Bad),
        };
        Cell::from(text).toned(tone)
    }

    /// What it waits for, and until when.
    pub(super) fn waiting_text(&self, now: Timestamp) -> String {
        let Some(waiting) = &self.waiting else { return "-".to_owned() };
        match (self.waiting_until, self.position) {
            (Some(until), _) => format!("{waiting} ({})", in_about(until, now)),
            (None, Some(position)) => format!("{waiting} (number {position} in line)"),
            (None, None) => waiting.clone(),
        }
    }

    fn cells(&self, look: &Look) -> Vec<Cell> {
        let mut cells: Vec<Cell> = Vec::new();
        if look.with_namespaces {
            cells.push(self.namespace.as_str().into());
        }
        cells.extend([
            self.name.as_str().into(),
            self.catalog.as_str().into(),
            format!("{:?}", self.mode).into(),
            self.state_cell(),
            Cell::from(format!("{}/{}", self.nodes_complete, self.nodes_total)).at_right(),
        ]);
        if look.is_wide() {
            cells.push(number(self.nodes_partial));
        }
        let failed = number(self.nodes_failed);
        cells.extend([
            if self.nodes_failed > 0 { failed.toned(Tone::Bad) } else { failed },
            number(self.records_seen),
            number(self.tokens_held),
        ]);
        if look.is_wide() {
            cells.push(number(self.tokens_share));
        }
        let age = self.created_at.map(|at| Duration::try_from(look.now.duration_since(at)).unwrap_or_default());
        cells.extend([time(age), time(self.duration(look.now)), self.waiting_text(look.now).into()]);
        cells
    }
}

pub(super) fn number(number: i64) -> Cell {
    Cell::from(number.to_string()).at_right()
}

fn time(duration: Option<Duration>) -> Cell {
    Cell::from(duration.map_or_else(|| "-".to_owned(), about)).at_right()
}

impl Answer for RunList {
    fn text(&self, look: &Look) -> String {
        if self.runs.is_empty() {
            return "No runs; `kubectl trawler start CATALOG` makes one\n".to_owned();
        }
        let mut header = if look.with_namespaces { vec!["NAMESPACE"] } else { Vec::new() };
        header.extend(["RUN", "CATALOG", "MODE", "STATE", "NODES"]);
        header.extend(look.is_wide().then_some("PARTIAL"));
        header.extend(["FAILED", "RECORDS", "TOKENS"]);
        header.extend(look.is_wide().then_some("SHARE"));
        header.extend(["AGE", "TOOK", "WAITING"]);
        let rows: Vec<Vec<Cell>> = self.runs.iter().map(|run| run.cells(look)).collect();
        look.grid(&header, &rows)
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{look, run};
    use super::*;
    use crate::plugin::Output;

    fn runs() -> RunList {
        RunList::of(&[run("old", "complete"), run("young", "running"), run("cold", "frozen"), run("new", "unseen")])
    }

    #[test]
    fn runs_are_rows_youngest_first() {
        assert_eq!(
            runs().text(&look(Output::Table)),
            "\
RUN    CATALOG   MODE  STATE     NODES  FAILED  RECORDS  TOKENS     AGE    TOOK  WAITING
new    mobility  Full  Unseen      0/0       0        0       0    20 s       -  -
young  mobility  Full  Running     2/7       1      420       2   5 min   5 min  budget gentle has no ApiCalls left (in 40 s)
cold   mobility  Full  Frozen      0/7       0        0       0  10 min  10 min  spec.suspend is set
old    mobility  Full  Complete    7/7       0     1304       0  60 min  40 min  -
"
        );
    }

    #[test]
    fn wide_rows_have_more_columns_and_all_namespaces_have_theirs() {
        let look = Look { with_namespaces: true, ..look(Output::Wide) };
        let list = RunList::of(&[run("young", "running")]);
        assert_eq!(
            list.text(&look),
            "\
NAMESPACE  RUN    CATALOG   MODE  STATE    NODES  PARTIAL  FAILED  RECORDS  TOKENS  SHARE    AGE   TOOK  WAITING
harvest    young  mobility  Full  Running    2/7        1       1      420       2      4  5 min  5 min  budget gentle has no ApiCalls left (in 40 s)
"
        );
    }

    #[test]
    fn programs_get_fields() {
        let list = RunList::of(&[run("young", "running")]);
        let json: serde_json::Value = serde_json::from_str(&list.render(&look(Output::Json))).unwrap();
        assert_eq!(
            json,
            serde_json::json!([{
                "namespace": "harvest", "name": "young", "catalog": "mobility", "mode": "Full", "state": "Running",
                "reason": "Running", "message": "crawling", "nodesTotal": 7, "nodesComplete": 2, "nodesPartial": 1,
                "nodesFailed": 1, "recordsSeen": 420, "tokensHeld": 2, "tokensShare": 4,
                "waiting": "budget gentle has no ApiCalls left", "waitingUntil": "2026-11-30T02:00:40Z", "position": null,
                "createdAt": "2026-11-30T01:55:00Z", "startedAt": "2026-11-30T01:55:00Z", "finishedAt": null,
            }])
        );
        let yaml = list.render(&look(Output::Yaml));
        assert!(yaml.starts_with("- namespace: harvest\n  name: young\n"), "{yaml}");
    }

    #[test]
    fn an_empty_list_says_what_to_do() {
        let empty = RunList { runs: Vec::new() };
        assert_eq!(empty.text(&look(Output::Table)), "No runs; `kubectl trawler start CATALOG` makes one\n");
        assert_eq!(empty.render(&look(Output::Json)), "[]\n");
    }
}
