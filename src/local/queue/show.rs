//! `trawler queue show`: one run, its holders, and what its lanes wait for.

use std::fmt::Write as _;

use serde::Serialize;

use super::reasons::{Wait, waits_of};
use super::runs::state;
use super::{Answer, AskError, Look, cut};
use crate::local::grid::{Cell, Tone};
use crate::local::text::{in_about, shown};
use crate::queue::{HolderStatus, Queue, QueueError, RunStatus};
use crate::task::RunId;

/// More lanes than this are not summed up.
const MAX_LANES: usize = 10_000;

/// One run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSheet {
    /// Its state and account.
    pub status: RunStatus,
    /// Who has joined.
    pub holders: Vec<HolderStatus>,
    /// What its lanes wait for.
    pub waits: Vec<Wait>,
    /// There are more lanes than were summed up.
    pub has_more_lanes: bool,
}

/// Everything about one run but its single tasks and lanes.
pub async fn show(queue: &dyn Queue, run: &RunId, look: &Look) -> Result<RunSheet, AskError> {
    let status = queue.runs().await?.into_iter().find(|status| status.run == *run);
    let status = status.ok_or_else(|| QueueError::NoSuchRun { run: run.clone() })?;
    let holders = queue.holders(run).await?;
    let (lanes, has_more_lanes) = cut(queue.lanes(run, MAX_LANES + 1).await?, MAX_LANES);
    Ok(RunSheet { status, holders, waits: waits_of(&lanes, look.now), has_more_lanes })
}

impl Answer for RunSheet {
    fn text(&self, look: &Look) -> String {
        let mut text = String::new();
        let RunStatus { run, weight, holders, max_holders, ledger, .. } = &self.status;
        let mut line = |name: &str, value: &str| {
            writeln!(text, "{name:<9}{value}").unwrap_or_default();
        };
        line("Run:", &shown(run.as_str(), 200));
        line("State:", &state(&self.status).text);
        line("Weight:", &weight.to_string());
        line("Holders:", &format!("{holders} of {max_holders}"));
        line("Tasks:", &format!("{} discovered", ledger.discovered));
        let parts = [
            (ledger.queued, "queued"),
            (ledger.delayed, "delayed"),
            (ledger.leased, "leased"),
            (ledger.done, "done"),
            (ledger.dead, "dead"),
            (ledger.dropped, "dropped"),
        ];
        for (count, name) in parts {
            line("", &format!("{count:>width$} {name}", width = ledger.discovered.to_string().len()));
        }
        if !self.holders.is_empty() {
            let rows: Vec<Vec<Cell>> = self.holders.iter().map(|holder| holder_row(holder, look)).collect();
            text.push('\n');
            text.push_str(&look.grid(&["TOKEN", "UID", "GROUP", "LEASED", "NEXT LAPSE", "WORKS"], &rows));
        }
        if !self.waits.is_empty() {
            let rows: Vec<Vec<Cell>> = self.waits.iter().map(|wait| wait_row(wait, look)).collect();
            text.push('\n');
            text.push_str(&look.grid(&["LANES WAIT FOR", "LANES", "QUEUED", "LEASED", "FIRST OPENS"], &rows));
        }
        if self.has_more_lanes {
            writeln!(text, "Only the first {MAX_LANES} lanes are counted").unwrap_or_default();
        }
        text
    }
}

fn holder_row(holder: &HolderStatus, look: &Look) -> Vec<Cell> {
    vec![
        holder.token.into(),
        holder.uid.as_str().into(),
        holder.group.as_str().into(),
        holder.leased.into(),
        holder.next_lapse.map_or_else(|| "-".to_owned(), |lapse| in_about(lapse, look.now)).into(),
        if holder.is_alone {
            Cell::from("alone, after a crash").toned(Tone::Warn)
        } else if holder.leased > 0 {
            "on tasks".into()
        } else {
            "idle".into()
        },
    ]
}

fn wait_row(wait: &Wait, look: &Look) -> Vec<Cell> {
    vec![
        Cell::from(wait.reason.words()).toned(if wait.reason.is_closed() { Tone::Warn } else { Tone::Plain }),
        wait.lanes.into(),
        wait.queued.into(),
        wait.leased.into(),
        wait.first_opens.map_or_else(|| "-".to_owned(), |opens| in_about(opens, look.now)).into(),
    ]
}
