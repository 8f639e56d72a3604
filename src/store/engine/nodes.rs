//! What is remembered of nodes, and what falls to those that are gone.

use super::close::{sweep_gone, with_records};
use super::rows::{NodeRow, load, save};
use super::runs::under_way;
use super::{Table, Write, keys};
use crate::store::{CloseTraversal, NodeOutcome, SectionReport, StoreError};
use crate::task::{NodeName, RunId};

pub(in crate::store) fn record_node(
    tables: &mut impl Write,
    run: &RunId,
    node: &NodeName,
    outcome: &NodeOutcome,
) -> Result<(), StoreError> {
    let run = under_way(tables, run)?;
    let key = keys::node(&run.state.catalog, node);
    let row: NodeRow = load(tables, Table::Nodes, &key)?.unwrap_or_default();
    let earlier = if row.run == run.state.number { row.earlier } else { row.state };
    save(tables, Table::Nodes, &key, &NodeRow { state: earlier.after(outcome), run: run.state.number, earlier })
}

pub(in crate::store) fn sweep_removed_node(
    tables: &mut impl Write,
    run: &RunId,
    node: &NodeName,
    close: &CloseTraversal,
) -> Result<Vec<SectionReport>, StoreError> {
    let reports = sweep_expired_node(tables, run, node, close)?;
    if reports.iter().all(|report| report.held.is_none()) {
        let catalog = under_way(tables, run)?.state.catalog;
        tables.remove(Table::Nodes, &keys::node(&catalog, node))?;
    }
    Ok(reports)
}

pub(in crate::store) fn sweep_expired_node(
    tables: &mut impl Write,
    run: &RunId,
    node: &NodeName,
    close: &CloseTraversal,
) -> Result<Vec<SectionReport>, StoreError> {
    let run = under_way(tables, run)?;
    let gone = with_records(tables, &run, node)?.into_iter().map(|(section, _)| section).collect();
    sweep_gone(tables, &run, gone, close)
}
