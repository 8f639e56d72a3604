//! The end of a run: the books are closed, the report is made, the results are put where people find them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::warn;

use super::LocalError;
use super::apply::Crew;
use super::approvals::{observe_approved, unused};
use super::books::Books;
use super::export;
use super::health::observation_of;
use super::observe::RunInput;
use super::report::{Report, ReportInput, Totals, build_report};
use super::result_files::ResultFiles;
use super::run::{REPORT_FILE, RunEnd, RunOptions};
use crate::api::RemovalPolicy;
use crate::crawler::CrawlContext;
use crate::planner::{Health, SkippedNode, Verdict, describe_default_budget, health};
use crate::store::{NodeState, RunState, SharedStore, Store};
use crate::task::NodeName;

/// What is known when a plan says that its run is finished.
pub(super) struct Conclusion {
    pub(super) input: RunInput,
    pub(super) state: RunState,
    pub(super) options: RunOptions,
    pub(super) context: Arc<CrawlContext>,
    pub(super) store: SharedStore,
    pub(super) crew: Crew,
    /// The nodes that were crawled.
    pub(super) nodes: Vec<NodeName>,
    pub(super) skipped: Vec<SkippedNode>,
    pub(super) verdict: Verdict,
}

/// Closes the books, makes the report, and writes what is to be written.
pub(super) async fn conclude(conclusion: Conclusion) -> Result<RunEnd, LocalError> {
    let Conclusion { input, state, options, context, store, crew, nodes, skipped, verdict } = conclusion;
    let catalog = input.catalog_name();
    let removed = removed_nodes(&input, &store.nodes(&catalog).await?);
    let books = Books { input: &input, crawled: &nodes, skipped: &skipped, removed: &removed, verdict };
    let expired = crew.close_books(&books).await?;
    let by_name = input.nodes_by_name();
    let asked_protocol = |name: &NodeName| {
        by_name.get(name.as_str()).map(|node| format!("{:?}", node.spec.protocol)).unwrap_or_default()
    };
    let report = build_report(ReportInput {
        run: state.run.clone(),
        number: state.number,
        catalog: catalog.clone(),
        mode: state.mode,
        dry_run: options.dry_run,
        started_at: state.started_at,
        finished_at: options.clock.now(),
        verdict,
        max_failed_nodes_percent: input.spec.settings.max_failed_nodes_percent,
        crawled: nodes.iter().map(|name| (name.clone(), asked_protocol(name))).collect(),
        skipped,
        problems: crew.problems.clone(),
        sections: store.reports(&state.run).await?,
        known: store.nodes(&catalog).await?,
        expired,
        health: &|name, state| match by_name.get(name.as_str()) {
            Some(node) => health(&observation_of(state), &node.spec, &input.catalog.spec.node_health),
            None => Health::Online,
        },
        default_budget: describe_default_budget(),
        stage_seconds: context.progress.stage_seconds(),
    });
    let approvals = &context.approved_deletions;
    for sentence in unused(approvals, &observe_approved(store.as_ref(), &catalog, approvals).await?) {
        warn!("{sentence}");
    }
    let records = if options.dry_run { None } else { Some(publish_result(&report, store.as_ref(), &options).await?) };
    Ok(RunEnd::Finished { report: Box::new(report), records })
}

/// Puts records and report where people find them, and ends the run: a crash on the way is healed by resuming the run,
/// which has nothing left to fetch.
async fn publish_result(report: &Report, store: &dyn Store, options: &RunOptions) -> Result<PathBuf, LocalError> {
    let files = ResultFiles::of(&options.dir)?;
    // A report is numbers and texts, which always have a JSON form.
    let json = serde_json::to_string_pretty(report).unwrap_or_default();
    let prepared_report = export::prepare_text(&options.dir, REPORT_FILE, &format!("{json}\n"))?;
    let name = options.format.file_name();
    let steps = if is_published(report, &files, options)? {
        ResultFiles::replace_report(prepared_report)
    } else {
        let (records, _) = export::prepare_records(store, &report.catalog, options.format, &options.dir).await?;
        files.replace_both(&name, records, prepared_report)
    };
    for step in steps {
        step.apply(&options.dir)?;
    }
    store.finish_run(&report.run, &json).await?;
    store.compact().await?;
    Ok(options.dir.join(name))
}

/// Whether the file with the records is the one that would be written: the run before wrote it, and nothing has changed
/// since.
fn is_published(report: &Report, files: &ResultFiles, options: &RunOptions) -> Result<bool, LocalError> {
    let Totals { added, updated, deleted, .. } = report.totals;
    let before = read_report(&options.dir)?;
    let is_from_run_before =
        before.is_some_and(|before| before.catalog == report.catalog && before.number + 1 == report.number);
    let name = options.format.file_name();
    let is_there = files.are_ours(&name) && options.dir.join(name).is_file();
    Ok(added + updated + deleted == 0 && is_from_run_before && is_there)
}

/// Nodes that the store knows and the Catalog no longer selects, if their records are to go. A run over a part of the
/// nodes says nothing about the others.
fn removed_nodes(input: &RunInput, known: &BTreeMap<NodeName, NodeState>) -> Vec<NodeName> {
    if input.catalog.spec.deletion.on_node_removal == RemovalPolicy::Keep {
        return Vec::new();
    }
    let selector = &input.catalog.spec.catalog_node_selector;
    let none = BTreeMap::new();
    let by_name = input.nodes_by_name();
    let selected = |name: &NodeName| {
        let found = by_name.get(name.as_str());
        found.is_some_and(|node| selector.matches(node.metadata.labels.as_ref().unwrap_or(&none)))
    };
    known.iter().filter(|(name, state)| state.records > 0 && !selected(name)).map(|(name, _)| name.clone()).collect()
}

/// The report of the last finished run in a directory, if there is one.
pub fn read_report(dir: &Path) -> Result<Option<Report>, LocalError> {
    let path = dir.join(REPORT_FILE);
    let unreadable = |source| LocalError::ReadReport { path: path.display().to_string(), source };
    match std::fs::read(&path) {
        Ok(json) => serde_json::from_slice(&json).map(Some).map_err(|error| unreadable(error.into())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(error)),
    }
}
