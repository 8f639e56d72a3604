//! What a run came to, as text: a table of nodes, the totals, and where the records lie.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table, TableStyle};

use super::common::colours_on;
use crate::local::text::shown;
use crate::local::{NodeHealth, NodeReport, NodeResult, REPORT_FILE, Report, RunOutcome};
use crate::store::{Mode, ReadAs, ReadMode};

/// More nodes than this are summed up: the failed ones are named first, the rest is in the report.
const MAX_ROWS: usize = 50;

/// More nodes than this are not named in one line.
const MAX_NAMES: usize = 5;

pub(super) fn text(report: &Report, records: Option<&Path>, dir: &Path) -> String {
    let mut text = String::new();
    let mut rows: Vec<&NodeReport> = report.nodes.iter().collect();
    if rows.len() > MAX_ROWS {
        rows.sort_by_key(|node| node.state == NodeResult::Complete);
    }
    let left_out = rows.len().saturating_sub(MAX_ROWS);
    rows.truncate(MAX_ROWS);
    writeln!(text, "{}", table(&rows, says_how_it_read(report)).trim_fmt()).unwrap_or_default();
    if left_out > 0 {
        writeln!(text, "… and {left_out} more nodes; all are in {REPORT_FILE}").unwrap_or_default();
    }
    let totals = &report.totals;
    let would = if report.dry_run { "would be " } else { "" };
    write!(
        text,
        "\n{}: {} {would}added, {} {would}updated, {} unchanged, {} {would}deleted",
        headline(report.outcome),
        totals.added,
        totals.updated,
        totals.unchanged,
        totals.deleted
    )
    .unwrap_or_default();
    if totals.kept_unseen > 0 {
        write!(text, ", {} kept though not seen", totals.kept_unseen).unwrap_or_default();
    }
    if totals.rejected > 0 {
        write!(text, ", {} unreadable", totals.rejected).unwrap_or_default();
    }
    text.push('\n');
    text.push_str(&read_in_full(report));
    match records {
        Some(path) => {
            writeln!(text, "Records: {} ({} in all)", path.display(), totals.records).unwrap_or_default();
            writeln!(text, "Report:  {}", dir.join(REPORT_FILE).display()).unwrap_or_default();
        }
        None => text.push_str("Nothing was written (dry run)\n"),
    }
    text
}

/// In a run over everything it goes without saying how a node was read, unless one was found unchanged.
fn says_how_it_read(report: &Report) -> bool {
    report.mode == Mode::Incremental || report.nodes.iter().any(|node| node.read_as.read == Some(ReadMode::NotModified))
}

/// The nodes that an incremental run read in full, by reason: a line each.
fn read_in_full(report: &Report) -> String {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in &report.nodes {
        if let Some(why) = &node.read_as.in_full_because {
            by_reason.entry(why).or_default().push(node.name.as_str());
        }
    }
    let line = |(why, nodes): (&str, Vec<&str>)| {
        let named: Vec<_> = nodes.iter().take(MAX_NAMES).map(|name| shown(name, 40)).collect();
        let rest = nodes.len().saturating_sub(MAX_NAMES);
        let rest = if rest == 0 { String::new() } else { format!(" and {rest} more") };
        format!("Read in full, because {why}: {}{rest}\n", named.join(", "))
    };
    by_reason.into_iter().map(line).collect()
}

fn how_it_was_read(read_as: &ReadAs) -> String {
    match (read_as.read, read_as.since) {
        (Some(ReadMode::Full), _) => "in full".to_owned(),
        (Some(ReadMode::Incremental), since) => {
            let since = since.map(|since| since.strftime(" since %Y-%m-%d %H:%M UTC").to_string());
            format!("changes{}", since.unwrap_or_default())
        }
        (Some(ReadMode::NotModified), _) => "not modified".to_owned(),
        (None, _) => String::new(),
    }
}

/// A sentence for each node that needs one, failed ones first; at most as many as the table has rows.
pub(super) fn messages(report: &Report) -> Vec<String> {
    let mut nodes: Vec<&NodeReport> = report.nodes.iter().filter(|node| node.message.is_some()).collect();
    nodes.sort_by_key(|node| node.state != NodeResult::Failed);
    nodes.truncate(MAX_ROWS);
    nodes
        .into_iter()
        .map(|node| format!("{}: {}", node.name, shown(node.message.as_deref().unwrap_or_default(), 600)))
        .collect()
}

fn headline(outcome: RunOutcome) -> &'static str {
    match outcome {
        RunOutcome::Complete => "Complete",
        RunOutcome::PartiallyComplete => "Finished with failed nodes",
        RunOutcome::Failed => "Failed",
        RunOutcome::DeadlineExceeded => "Deadline exceeded",
    }
}

fn table(nodes: &[&NodeReport], says_how: bool) -> Table {
    let colours = colours_on(&io::stdout());
    let mut table = Table::new();
    table.load_style(TableStyle::new()).set_content_arrangement(ContentArrangement::Disabled);
    let titles = ["NODE", "PROTOCOL", "RECORDS", "REQUESTS"].into_iter().chain(says_how.then_some("READ"));
    table.set_header(titles.chain(["STATE"]).map(|title| {
        let cell = Cell::new(title);
        if colours { cell.add_attribute(Attribute::Bold) } else { cell }
    }));
    for node in nodes {
        let state = Cell::new(state_of(node));
        let mut row = vec![
            Cell::new(shown(node.name.as_str(), 40)),
            Cell::new(shown(&node.protocol, 24)),
            Cell::new(node.totals.records),
            Cell::new(node.totals.requests),
        ];
        row.extend(says_how.then(|| Cell::new(how_it_was_read(&node.read_as))));
        row.push(if colours { state.fg(colour_of(node.state)) } else { state });
        table.add_row(row);
    }
    table.column_iter_mut().for_each(|column| {
        column.set_padding((0, 2));
    });
    for column in [2, 3] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// "failed (offline, stale)".
fn state_of(node: &NodeReport) -> String {
    let health = match node.health {
        NodeHealth::Online => None,
        NodeHealth::Offline => Some("offline"),
        NodeHealth::Dead => Some("dead"),
    };
    let marks: Vec<&str> = health.into_iter().chain(node.stale.then_some("stale")).collect();
    if marks.is_empty() { node.state.to_string() } else { format!("{} ({})", node.state, marks.join(", ")) }
}

fn colour_of(state: NodeResult) -> Color {
    match state {
        NodeResult::Complete => Color::Green,
        NodeResult::Partial => Color::Yellow,
        NodeResult::Failed => Color::Red,
        NodeResult::Skipped | NodeResult::Removed => Color::Grey,
    }
}
