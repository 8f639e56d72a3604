//! What people are told of a run: its status, and an event where something happened.

use std::collections::BTreeMap;

use jiff::Unit;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use kube::runtime::events::EventType;

use super::super::conditions::{Holds, Said, conditions, shortened};
use super::super::error::OperatorError;
use super::super::gates::gate_sentence;
use super::super::world::World;
use super::apply::Applied;
use super::observe::{Begun, Waits, wants_nothing};
use super::{KIND, is_final};
use crate::api::conditions::{FROZEN, QUEUE_LOST, RECONCILING, STALLED, SUCCEEDED, abnormal, succeeded};
use crate::api::times::time_of;
use crate::api::{
    CatalogNodeCounts, CrawlRun, CrawlRunStatus, FailedCatalogNode, LedgerStatus, RecordCounts, TokenCounts,
    WaitingStatus,
};
use crate::flow::Ledger;
use crate::planner::{LaneLoad, Phase, estimate_end};
use crate::run::{NodeResult, Report, RunOutcome, Totals};
use crate::store::SectionReport;

/// A status that says of conditions what it said before is written so often at most.
const BETWEEN_WRITES_SECONDS: i64 = 5;

/// Failed nodes that a status names.
const MAX_FAILED: usize = 20;

/// Tells why a run can't begin.
pub(super) async fn report_waiting(run: &CrawlRun, world: &World, waits: &Waits) -> Result<(), OperatorError> {
    wants_nothing(run, world);
    let before = run.status.clone().unwrap_or_default();
    let mut said = vec![
        Said::new(SUCCEEDED, Holds::Unknown, succeeded::PENDING, &waits.message),
        Said::new(RECONCILING, Holds::True, waits.reason, &waits.message),
    ];
    if waits.is_fault {
        said.push(Said::new(STALLED, Holds::True, waits.reason, &waits.message));
    }
    let generation = run.metadata.generation;
    let status = CrawlRunStatus {
        observed_generation: generation,
        conditions: conditions(&before.conditions, &said, generation, world.clock.now()),
        waiting: Some(WaitingStatus {
            reason: waits.reason.to_owned(),
            message: shortened(&waits.message),
            until: None,
            position: waits.position,
        }),
        ..before
    };
    write(run, world, status).await
}

/// Tells how a run stands, or what it came to.
pub(super) async fn report_progress(
    run: &CrawlRun,
    world: &World,
    begun: &Begun,
    applied: &Applied,
) -> Result<(), OperatorError> {
    let before = run.status.clone().unwrap_or_default();
    let generation = run.metadata.generation;
    let mut status = CrawlRunStatus {
        observed_generation: generation,
        started_at: before.started_at.clone().or_else(|| Some(time_of(begun.state.started_at))),
        finished_at: None,
        ledger: begun.queue.map_or_else(|| before.ledger.clone(), |queue| ledger_status(&queue.ledger)),
        tokens: TokenCounts { share: applied.share.into(), held: applied.held.into() },
        waiting: waiting(begun, applied),
        estimated_end: estimated_end(begun, applied),
        conditions: Vec::new(),
        ..before.clone()
    };
    let said = if let Some(report) = &applied.ended {
        status.finished_at = Some(time_of(report.finished_at));
        (status.tokens, status.waiting, status.estimated_end) = (TokenCounts::default(), None, None);
        fill_from_report(&mut status, report);
        final_conditions(report)
    } else {
        fill_from_sections(&mut status, &world.store.reports(&begun.state.run).await?, applied);
        active_conditions(begun, applied)
    };
    status.conditions = conditions(&before.conditions, &said, generation, world.clock.now());
    write(run, world, status).await?;
    if let Some(report) = &applied.ended {
        let type_ = if report_is_good(report) { EventType::Normal } else { EventType::Warning };
        world.tell(run, type_, &format!("{:?}", report.outcome), &outcome_sentence(report)).await;
    } else if before.started_at.is_none() {
        world.tell(run, EventType::Normal, "Started", &format!("run {} has begun", begun.state.run)).await;
    }
    Ok(())
}

/// Writes a status that says something else than the one before, and not too often.
async fn write(run: &CrawlRun, world: &World, status: CrawlRunStatus) -> Result<(), OperatorError> {
    let before = run.status.clone().unwrap_or_default();
    if status == before {
        return Ok(());
    }
    let name = run.name_any();
    let is_urgent = status.conditions != before.conditions || status.finished_at != before.finished_at;
    let last = world.memory().written.get(&format!("{KIND}/{name}")).copied();
    let is_fresh = last.is_some_and(|last| world.clock.now().duration_since(last).as_secs() < BETWEEN_WRITES_SECONDS);
    if is_fresh && !is_urgent {
        // An active run is looked at again soon.
        return Ok(());
    }
    debug_assert!(!is_final(run), "what has ended is said once");
    world.write_status::<CrawlRun>(&name, &status).await
}

fn active_conditions(begun: &Begun, applied: &Applied) -> Vec<Said> {
    let mut said = vec![
        Said::new(SUCCEEDED, Holds::Unknown, succeeded::RUNNING, "crawling"),
        Said::new(RECONCILING, Holds::True, succeeded::RUNNING, "crawling"),
    ];
    if applied.plan.phase == Phase::Frozen {
        said.push(Said::new(
            FROZEN,
            Holds::True,
            abnormal::SUSPENDED,
            "spec.suspend is set: nothing is handed out and no request is sent",
        ));
    }
    if applied.was_lost {
        said.push(Said::new(
            QUEUE_LOST,
            Holds::True,
            abnormal::RESEEDING,
            "the queue was lost; what the store says is not done is queued again",
        ));
    }
    if let Some(trouble) = begun.troubles.iter().find(|trouble| trouble.is_lasting) {
        said.push(Said::new(STALLED, Holds::True, trouble.reason, &trouble.message));
    }
    said
}

fn report_is_good(report: &Report) -> bool {
    matches!(report.outcome, RunOutcome::Complete | RunOutcome::PartiallyComplete)
}

fn final_conditions(report: &Report) -> Vec<Said> {
    let (holds, reason) = match report.outcome {
        RunOutcome::Complete => (Holds::True, succeeded::COMPLETE),
        RunOutcome::PartiallyComplete => (Holds::True, succeeded::PARTIALLY_COMPLETE),
        RunOutcome::Failed => (Holds::False, succeeded::TOO_MANY_FAILED_NODES),
        RunOutcome::DeadlineExceeded => (Holds::False, succeeded::DEADLINE_EXCEEDED),
    };
    let message = outcome_sentence(report);
    let mut said = vec![Said::new(SUCCEEDED, holds, reason, &message)];
    if holds == Holds::False {
        said.push(Said::new(STALLED, Holds::True, reason, &message));
    }
    said
}

fn outcome_sentence(report: &Report) -> String {
    let count = |state: NodeResult| report.nodes.iter().filter(|node| node.state == state).count();
    let Totals { added, updated, unchanged, deleted, .. } = report.totals;
    let nodes = format!(
        "{} nodes complete, {} partial, {} failed, {} skipped",
        count(NodeResult::Complete),
        count(NodeResult::Partial),
        count(NodeResult::Failed),
        count(NodeResult::Skipped)
    );
    format!("{nodes}; {added} records added, {updated} updated, {unchanged} unchanged, {deleted} deleted")
}

fn ledger_status(ledger: &Ledger) -> LedgerStatus {
    LedgerStatus {
        discovered: signed(ledger.discovered),
        queued: signed(ledger.queued),
        delayed: signed(ledger.delayed),
        leased: signed(ledger.leased),
        done: signed(ledger.done),
        dead: signed(ledger.dead),
        dropped: signed(ledger.dropped),
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn fill_from_report(status: &mut CrawlRunStatus, report: &Report) {
    let count = |state: NodeResult| signed(report.nodes.iter().filter(|node| node.state == state).count() as u64);
    let totals = report.totals;
    status.records = RecordCounts {
        seen: signed(totals.added + totals.updated + totals.unchanged),
        added: signed(totals.added),
        updated: signed(totals.updated),
        unchanged: signed(totals.unchanged),
        deleted: signed(totals.deleted),
        rejected: signed(totals.rejected),
    };
    let (complete, partial, failed) =
        (count(NodeResult::Complete), count(NodeResult::Partial), count(NodeResult::Failed));
    status.catalog_nodes = CatalogNodeCounts {
        total: complete + partial + failed,
        pending: 0,
        active: 0,
        complete,
        partial,
        failed,
        skipped: count(NodeResult::Skipped),
    };
    let failed = report.nodes.iter().filter(|node| node.state == NodeResult::Failed).take(MAX_FAILED);
    status.failed_catalog_nodes = failed
        .map(|node| FailedCatalogNode {
            name: node.name.to_string(),
            reason: "NothingRead".to_owned(),
            message: shortened(node.message.as_deref().unwrap_or("nothing of it could be read")),
        })
        .collect();
}

/// What is known before the end: of sections that are closed.
fn fill_from_sections(status: &mut CrawlRunStatus, sections: &[SectionReport], applied: &Applied) {
    let mut by_node: BTreeMap<&str, (bool, u64)> = BTreeMap::new();
    let mut records = RecordCounts::default();
    for section in sections {
        records.added += signed(section.added);
        records.updated += signed(section.updated);
        records.unchanged += signed(section.unchanged);
        records.deleted += signed(section.deleted);
        records.rejected += signed(section.rejected_count);
        let (is_complete, seen) = by_node.entry(section.section.node.as_str()).or_insert((true, 0));
        *is_complete &= section.partial.is_none();
        *seen += section.added + section.updated + section.unchanged;
    }
    records.seen = records.added + records.updated + records.unchanged;
    status.records = records;
    let count = |wanted: fn(bool, u64) -> bool| {
        signed(by_node.values().filter(|(is_complete, seen)| wanted(*is_complete, *seen)).count() as u64)
    };
    let total = signed(applied.plan.nodes.len() as u64);
    let (complete, partial, failed) = (
        count(|complete, _| complete),
        count(|complete, seen| !complete && seen > 0),
        count(|complete, seen| !complete && seen == 0),
    );
    status.catalog_nodes = CatalogNodeCounts {
        total,
        pending: 0,
        active: (total - complete - partial - failed).max(0),
        complete,
        partial,
        failed,
        skipped: signed(applied.plan.skipped.len() as u64),
    };
}

/// When the run may end, to the minute: it is not to be written all the time.
fn estimated_end(begun: &Begun, applied: &Applied) -> Option<Time> {
    if applied.plan.phase == Phase::Frozen {
        return None;
    }
    let lanes = begun.lanes.iter().map(|lane| LaneLoad {
        budget: lane.budget.0.to_string(),
        queued: lane.queued,
        calls_per_s: lane.calls_per_s,
        opens_at: lane.waiting.as_ref().map(|waiting| waiting.until),
    });
    let lanes: Vec<LaneLoad> = lanes.collect();
    let end = estimate_end(begun.now, begun.state.started_at, &begun.queue?.ledger, &lanes)?;
    Some(time_of(end.round(Unit::Minute).unwrap_or(end)))
}

/// Why the run does not move, if it does not.
fn waiting(begun: &Begun, applied: &Applied) -> Option<WaitingStatus> {
    let say = |reason: &str, message: &str, until: Option<jiff::Timestamp>| {
        let until = until.map(time_of);
        Some(WaitingStatus { reason: reason.to_owned(), message: shortened(message), until, position: None })
    };
    if applied.plan.phase == Phase::Frozen {
        return say("Suspended", "spec.suspend is set", None);
    }
    if let Some(trouble) = begun.troubles.first() {
        return say(trouble.reason, &trouble.message, None);
    }
    if applied.waits_for_token {
        return say("NoFreeToken", "all of the instance's tokens are held by other runs", None);
    }
    let ledger = begun.queue?.ledger;
    let is_moving = ledger.leased > 0 || begun.lanes.iter().any(|lane| lane.waiting.is_none() && lane.queued > 0);
    if is_moving || ledger.is_drained() {
        return None;
    }
    let first = begun
        .lanes
        .iter()
        .filter_map(|lane| Some((lane, lane.waiting.as_ref()?)))
        .min_by_key(|(_, waiting)| waiting.until);
    let (lane, waiting) = first?;
    let (reason, message) = gate_sentence(&waiting.gate, lane);
    say(reason, &message, Some(waiting.until))
}
