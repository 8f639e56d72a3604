//! What steps will read, as far as that is known before: for adapters to which each look is a way.

use super::rows::{RunRow, SectionRow, TraversalRow, load};
use super::spending::row_of;
use super::{Read, Table, keys, sections};
use crate::store::{StoreError, TaskEffects, Traversal};
use crate::task::{CatalogName, RunId, SectionKey, Task};

/// A table's key.
pub(in crate::store) type Need = (Table, Vec<u8>);

/// What never changes of a section in a run, and whether it had records when it was looked at last.
#[derive(Debug, Clone)]
pub(in crate::store) struct Known {
    run: u32,
    catalog: CatalogName,
    section: u32,
    has_entries: bool,
}

/// The row of a run.
pub(in crate::store) fn run(run: &RunId) -> Need {
    (Table::Runs, run.as_str().as_bytes().to_vec())
}

/// What is known of a section, if it is there.
pub(in crate::store) fn known(
    tables: &impl Read,
    run: &RunId,
    section: &SectionKey,
) -> Result<Option<Known>, StoreError> {
    let Some(run) = load::<RunRow>(tables, Table::Runs, run.as_str().as_bytes())? else { return Ok(None) };
    let (_, row) = sections::section(tables, &run.state.catalog, section)?;
    Ok(row.map(|row| Known {
        run: run.key,
        catalog: run.state.catalog,
        section: row.key,
        has_entries: row.has_entries,
    }))
}

/// What opening or closing a section's traversal reads.
pub(in crate::store) fn of_traversal(known: &Known, of_run: &RunId, section: &SectionKey) -> Vec<Need> {
    vec![
        run(of_run),
        (Table::Sections, keys::section(&known.catalog, section)),
        (Table::SectionNames, known.section.to_be_bytes().to_vec()),
        (Table::Traversals, keys::traversal(known.run, known.section).to_vec()),
    ]
}

/// What a commit reads first.
pub(in crate::store) fn of_commit(known: &Known, traversal: &Traversal, effects: &TaskEffects) -> Vec<Need> {
    let mut needs = of_traversal(known, &traversal.run, &traversal.section);
    needs.push((Table::Spendings, row_of(&traversal.section.node, effects.at)));
    let task = keys::task(known.run, effects.task).to_vec();
    needs.extend([(Table::Settled, task.clone()), (Table::Pending, task)]);
    needs.extend(of_tasks(known.run, &known.catalog, &effects.feedback));
    if known.has_entries {
        needs.extend(records(known, effects));
    }
    needs
}

/// What a commit reads besides, now that the section's row is read.
pub(in crate::store) fn of_commit_then(
    tables: &impl Read,
    known: &mut Known,
    traversal: &Traversal,
    effects: &TaskEffects,
) -> Result<Vec<Need>, StoreError> {
    let mut needs = traversals_of(tables, known.run, &known.catalog, &effects.feedback)?;
    let (_, row) = sections::section(tables, &known.catalog, &traversal.section)?;
    if row.is_some_and(|row| row.has_entries) && !known.has_entries {
        known.has_entries = true;
        needs.extend(records(known, effects));
    }
    Ok(needs)
}

/// What recording tasks reads first.
pub(in crate::store) fn of_seed(
    tables: &impl Read,
    run: &RunId,
    tasks: &[Task],
) -> Result<Option<Vec<Need>>, StoreError> {
    let row = load::<RunRow>(tables, Table::Runs, run.as_str().as_bytes())?;
    Ok(row.map(|row| of_tasks(row.key, &row.state.catalog, tasks)))
}

/// What recording tasks reads besides.
pub(in crate::store) fn of_seed_then(tables: &impl Read, run: &RunId, tasks: &[Task]) -> Result<Vec<Need>, StoreError> {
    match load::<RunRow>(tables, Table::Runs, run.as_str().as_bytes())? {
        None => Ok(Vec::new()),
        Some(row) => traversals_of(tables, row.key, &row.state.catalog, tasks),
    }
}

/// Whether a commit of this task will be the first, to a traversal that is open.
pub(in crate::store) fn will_settle(
    tables: &impl Read,
    known: &Known,
    effects: &TaskEffects,
) -> Result<bool, StoreError> {
    let traversal = keys::traversal(known.run, known.section);
    let row: Option<TraversalRow> = load(tables, Table::Traversals, &traversal)?;
    let is_open = row.is_some_and(|row| row.report.is_none() && row.closing.is_none());
    Ok(is_open && tables.get(Table::Settled, &keys::task(known.run, effects.task), |_| ())?.is_none())
}

fn records(known: &Known, effects: &TaskEffects) -> Vec<Need> {
    let ids = effects.records.iter().map(|record| &record.id).chain(&effects.deleted_ids);
    let ids = ids.chain(effects.rejected.iter().map(|rejected| &rejected.what));
    ids.map(|id| (Table::Records, keys::in_section(known.section, id))).collect()
}

fn of_tasks(run: u32, catalog: &CatalogName, tasks: &[Task]) -> Vec<Need> {
    let of_task = |task: &Task| {
        let key = keys::task(run, task.id).to_vec();
        let section = keys::section(catalog, &task.section);
        [(Table::Settled, key.clone()), (Table::Pending, key), (Table::Sections, section)]
    };
    tasks.iter().flat_map(of_task).collect()
}

fn traversals_of(tables: &impl Read, run: u32, catalog: &CatalogName, tasks: &[Task]) -> Result<Vec<Need>, StoreError> {
    let mut needs = Vec::new();
    for task in tasks {
        let (_, row) = sections::section(tables, catalog, &task.section)?;
        needs.extend(row.map(|row: SectionRow| (Table::Traversals, keys::traversal(run, row.key).to_vec())));
    }
    Ok(needs)
}
