//! The end of a run: the books are closed, the report is made, the results are put where people find them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::warn;

use super::LocalError;
use super::apply::Crew;
use super::export;
use super::result_files::ResultFiles;
use super::run::{REPORT_FILE, RunEnd, RunOptions};
use crate::crawler::CrawlContext;
use crate::planner::{SkippedNode, Verdict};
use crate::run::approvals::{observe_approved, unused};
use crate::run::books::Books;
use crate::run::{Concluded, Report, RunInput, Totals, removed_nodes};
use crate::store::{RunState, SharedStore, Store};
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
    let books = Books {
        input: &input,
        state: &state,
        store: store.as_ref(),
        landing: context.landing.as_ref(),
        queue: crew.has_foreign_queue().then_some(context.queue.as_ref()),
        patience: &context.patience,
        clock: context.clock.as_ref(),
        guard: context.guard,
        approved: &context.approved_deletions,
        crawled: &nodes,
        skipped: &skipped,
        removed: &removed,
        incremental: context.incremental,
        verdict,
    };
    let expired = books.close().await?;
    crew.close_queue().await;
    let concluded = Concluded {
        input: &input,
        state: &state,
        dry_run: options.dry_run,
        finished_at: options.clock.now(),
        verdict,
        crawled: &nodes,
        skipped,
        problems: crew.problems.clone(),
        expired,
        stage_seconds: context.progress.stage_seconds(),
    };
    let report = concluded.report(store.as_ref()).await?;
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
