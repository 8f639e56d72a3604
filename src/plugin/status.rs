//! `kubectl trawler status`: one run in detail.

use std::fmt::Write as _;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use serde::Serialize;

use super::runs::RunRow;
use super::{Answer, Look, RunFacts, Told};
use crate::api::times::moment_of;
use crate::api::{CatalogNodeCounts, FailedCatalogNode, LedgerStatus, RecordCounts};
use crate::local::grid::{Cell, Tone};
use crate::local::text::{about, ago, shown};

/// Events that are shown.
const MAX_EVENTS: usize = 10;

/// A run in detail.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusSheet {
    /// The run.
    pub run: RunRow,
    /// Its conditions.
    pub conditions: Vec<Condition>,
    /// Its tasks.
    pub ledger: LedgerStatus,
    /// Its records.
    pub records: RecordCounts,
    /// Its nodes.
    pub catalog_nodes: CatalogNodeCounts,
    /// Those that failed.
    pub failed_catalog_nodes: Vec<FailedCatalogNode>,
    /// Its crawlers.
    pub crawlers: Vec<CrawlerRow>,
    /// What was told of it, latest first.
    pub events: Vec<Told>,
    /// What could not be read.
    pub unread: Vec<String>,
}

/// A crawler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CrawlerRow {
    /// Its Job.
    pub job: String,
    /// Its pod, if there is one.
    pub pod: Option<String>,
    /// The pod's phase, or why a container waits or ended.
    pub state: String,
    /// The machine that it runs on.
    pub machine: Option<String>,
    /// What is wrong with it.
    pub trouble: Option<String>,
}

impl StatusSheet {
    /// Of what was read.
    pub fn of(facts: &RunFacts) -> Self {
        let status = facts.run.status.clone().unwrap_or_default();
        Self {
            run: RunRow::of(&facts.run),
            conditions: status.conditions,
            ledger: status.ledger,
            records: status.records,
            catalog_nodes: status.catalog_nodes,
            failed_catalog_nodes: status.failed_catalog_nodes,
            crawlers: crawlers(facts),
            events: facts.events.iter().take(MAX_EVENTS).cloned().collect(),
            unread: facts.unread.clone(),
        }
    }
}

fn crawlers(facts: &RunFacts) -> Vec<CrawlerRow> {
    let job_of =
        |pod: &Pod| pod.owner_references().iter().find(|owner| owner.kind == "Job").map(|owner| owner.name.clone());
    let with_pods = facts.pods.iter().map(|pod| CrawlerRow {
        job: job_of(pod).unwrap_or_default(),
        pod: Some(pod.name_any()),
        state: pod_state(pod),
        machine: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        trouble: crate::operator::trouble(pod).map(|trouble| trouble.message),
    });
    let mut rows: Vec<CrawlerRow> = with_pods.collect();
    let without = facts.jobs.iter().map(kube::ResourceExt::name_any);
    let without: Vec<String> = without.filter(|job| !rows.iter().any(|row| row.job == *job)).collect();
    rows.extend(without.into_iter().map(|job| CrawlerRow {
        job,
        pod: None,
        state: "no pod".to_owned(),
        machine: None,
        trouble: None,
    }));
    rows.sort_by(|a, b| (&a.job, &a.pod).cmp(&(&b.job, &b.pod)));
    rows
}

/// As `kubectl get pods` says it; but a crawler's exit codes are told apart, which are not errors.
fn pod_state(pod: &Pod) -> String {
    let Some(status) = &pod.status else { return "Pending".to_owned() };
    let container = status.container_statuses.iter().flatten().find_map(|status| {
        let state = status.state.as_ref()?;
        let waits = state.waiting.as_ref().and_then(|waiting| waiting.reason.clone());
        let ended = state.terminated.as_ref();
        let word = ended.and_then(|ended| ended_word(ended.exit_code)).map(str::to_owned);
        waits.or(word).or_else(|| ended?.reason.clone())
    });
    container.or_else(|| status.phase.clone()).unwrap_or_else(|| "Pending".to_owned())
}

/// How a crawler ended that ended in order: the exit codes of `trawler crawl`.
fn ended_word(exit_code: i32) -> Option<&'static str> {
    match exit_code {
        0 => Some("Drained"),
        20 => Some("Ended (frozen)"),
        21 => Some("Ended (deadline)"),
        22 => Some("Ended (queue lost)"),
        23 => Some("Ended (fenced)"),
        24 => Some("Ended (store gone)"),
        143 => Some("Ended (terminated)"),
        _ => None,
    }
}

impl Answer for StatusSheet {
    fn text(&self, look: &Look) -> String {
        let mut text = String::new();
        // A String takes everything.
        let mut line = |name: &str, value: &str| {
            writeln!(text, "{name:<11} {}", shown(value, look.max_width.unwrap_or(usize::MAX).saturating_sub(12)))
                .unwrap_or_default();
        };
        let run = &self.run;
        line("Run", &run.name);
        line("Namespace", &run.namespace);
        line("Catalog", &run.catalog);
        line("Mode", &format!("{:?}", run.mode));
        line("State", &run.state_cell().text);
        if run.waiting.is_some() {
            line("Waits for", &run.waiting_text(look.now));
        }
        if let Some(started) = run.started_at {
            line("Started", &format!("{started} ({})", ago(started, look.now)));
        }
        if let Some(finished) = run.finished_at {
            line("Ended", &format!("{finished} ({})", ago(finished, look.now)));
        }
        if let Some(took) = run.duration(look.now) {
            line("Took", &about(took));
        }
        line("Tokens", &format!("{} held, {} its share", run.tokens_held, run.tokens_share));
        let CatalogNodeCounts { total, pending, active, complete, partial, failed, skipped } = &self.catalog_nodes;
        line(
            "Nodes",
            &format!(
                "{total}: {complete} complete, {partial} partial, {failed} failed, {active} active, {pending} pending, \
                 {skipped} skipped"
            ),
        );
        let RecordCounts { seen, added, updated, unchanged, deleted, rejected } = &self.records;
        line(
            "Records",
            &format!(
                "{seen} seen: {added} added, {updated} updated, {unchanged} unchanged; {deleted} deleted, {rejected} rejected"
            ),
        );
        let LedgerStatus { discovered, queued, delayed, leased, done, dead, dropped } = &self.ledger;
        line(
            "Tasks",
            &format!(
                "{discovered}: {queued} queued, {delayed} delayed, {leased} leased, {done} done, {dead} dead, {dropped} dropped"
            ),
        );
        for (title, table) in self.tables(look) {
            write!(text, "\n{title}\n{table}").unwrap_or_default();
        }
        for unread in &self.unread {
            writeln!(text, "\nNot all was read: {}", shown(unread, usize::MAX)).unwrap_or_default();
        }
        text
    }
}

impl StatusSheet {
    fn tables(&self, look: &Look) -> Vec<(&'static str, String)> {
        let mut tables = Vec::new();
        if !self.conditions.is_empty() {
            let rows: Vec<Vec<Cell>> = self.conditions.iter().map(|said| condition_cells(said, look)).collect();
            tables.push(("Conditions", look.grid(&["TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"], &rows)));
        }
        if !self.failed_catalog_nodes.is_empty() {
            let rows: Vec<Vec<Cell>> = self
                .failed_catalog_nodes
                .iter()
                .map(|node| vec![node.name.as_str().into(), node.message.as_str().into()])
                .collect();
            let named = i64::try_from(rows.len()).unwrap_or(i64::MAX);
            let mut table = look.grid(&["NODE", "WHY"], &rows);
            let more = self.catalog_nodes.failed - named;
            if more > 0 {
                writeln!(table, "and {more} more; `kubectl trawler nodes {} --stale`", self.run.catalog)
                    .unwrap_or_default();
            }
            tables.push(("Failed nodes", table));
        }
        if !self.crawlers.is_empty() {
            let rows: Vec<Vec<Cell>> = self.crawlers.iter().map(crawler_cells).collect();
            tables.push(("Crawlers", look.grid(&["JOB", "POD", "STATE", "MACHINE", "TROUBLE"], &rows)));
        }
        if !self.events.is_empty() {
            let rows: Vec<Vec<Cell>> = self.events.iter().map(|told| event_cells(told, look)).collect();
            tables.push(("Events", look.grid(&["WHEN", "ABOUT", "REASON", "NOTE"], &rows)));
        }
        tables
    }
}

fn condition_cells(said: &Condition, look: &Look) -> Vec<Cell> {
    vec![
        said.type_.as_str().into(),
        said.status.as_str().into(),
        said.reason.as_str().into(),
        ago(moment_of(&said.last_transition_time), look.now).into(),
        said.message.as_str().into(),
    ]
}

fn crawler_cells(row: &CrawlerRow) -> Vec<Cell> {
    let trouble = row.trouble.as_deref().unwrap_or("-");
    vec![
        row.job.as_str().into(),
        row.pod.as_deref().unwrap_or("-").into(),
        row.state.as_str().into(),
        row.machine.as_deref().unwrap_or("-").into(),
        Cell::from(trouble).toned(if row.trouble.is_some() { Tone::Bad } else { Tone::Plain }),
    ]
}

fn event_cells(told: &Told, look: &Look) -> Vec<Cell> {
    let tone = if told.is_warning { Tone::Warn } else { Tone::Plain };
    vec![
        told.at.map_or_else(|| "-".to_owned(), |at| ago(at, look.now)).into(),
        told.about.as_str().into(),
        Cell::from(told.reason.as_str()).toned(tone),
        told.note.as_str().into(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::samples::{facts, look, now, pod, run};
    use super::*;
    use crate::plugin::Output;

    #[test]
    fn a_run_is_shown_in_detail() {
        let mut facts = facts(run("young", "running"));
        facts.pods = vec![pod(
            "demo-token-00-x",
            &json!({"phase": "Pending", "containerStatuses": [{
                "name": "crawler", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}},
            }]}),
        )];
        facts.events = vec![Told {
            at: Some(now()),
            is_warning: true,
            reason: "Failed".into(),
            note: "no such image".into(),
            about: "Pod/demo-token-00-x".into(),
        }];
        facts.unread = vec!["Jobs: forbidden".into()];
        assert_eq!(
            StatusSheet::of(&facts).text(&look(Output::Table)),
            "\
Run         young
Namespace   harvest
Catalog     mobility
Mode        Full
State       Running
Waits for   budget gentle has no ApiCalls left (in 40 s)
Started     2026-11-30T01:55:00Z (5 min ago)
Took        5 min
Tokens      2 held, 4 its share
Nodes       7: 2 complete, 1 partial, 1 failed, 3 active, 0 pending, 0 skipped
Records     420 seen: 20 added, 0 updated, 400 unchanged; 0 deleted, 0 rejected
Tasks       50: 10 queued, 2 delayed, 3 leased, 35 done, 0 dead, 0 dropped

Conditions
TYPE       STATUS   REASON   SINCE       MESSAGE
Succeeded  Unknown  Running  60 min ago  crawling

Crawlers
JOB  POD              STATE             MACHINE  TROUBLE
     demo-token-00-x  ImagePullBackOff  -        the image of crawler demo-token-00-x can't be pulled: no such image

Events
WHEN     ABOUT                REASON  NOTE
1 s ago  Pod/demo-token-00-x  Failed  no such image

Not all was read: Jobs: forbidden
"
        );
    }

    #[test]
    fn a_crawler_that_ended_in_order_is_not_said_to_have_failed() {
        let ended = |code: i32, reason: &str| {
            let state = json!({"terminated": {"exitCode": code, "reason": reason}});
            let container = json!({
                "name": "crawler", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state,
            });
            pod_state(&pod("x", &json!({"phase": "Failed", "containerStatuses": [container]})))
        };
        assert_eq!(
            [ended(0, "Completed"), ended(20, "Error"), ended(101, "Error"), ended(137, "OOMKilled")],
            ["Drained", "Ended (frozen)", "Error", "OOMKilled"]
        );
        assert_eq!(pod_state(&pod("x", &json!({"phase": "Running"}))), "Running");
    }

    #[test]
    fn failed_nodes_are_named() {
        let text = StatusSheet::of(&facts(run("broken", "failed"))).text(&look(Output::Table));
        assert!(
            text.contains("Failed nodes\nNODE  WHY\nacme  the server does not answer\nblue  401 Unauthorized\n"),
            "{text}"
        );
    }
}
