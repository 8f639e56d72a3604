//! Runs and their tasks.

use std::ops::ControlFlow;

use super::close::close_open;
use super::rows::{CatalogRow, RunRow, TraversalRow, load, save};
use super::sections;
use super::{Read, Table, Write, keys};
use crate::store::{CloseTraversal, DeletionGuard, RunStart, RunState, StoreError};
use crate::task::{CatalogName, RunId, Task, TaskId, TaskKind};

pub(in crate::store) fn unfinished_run(
    tables: &impl Read,
    catalog: &CatalogName,
) -> Result<Option<RunState>, StoreError> {
    let Some(number) = catalog_row(tables, catalog)?.unfinished else { return Ok(None) };
    let run = run_id(catalog, number);
    let spec =
        tables.get(Table::RunTexts, &keys::run_spec(&run), |bytes| String::from_utf8_lossy(bytes).into_owned())?;
    Ok(Some(RunState { spec: spec.unwrap_or_default(), ..under_way(tables, &run)?.state }))
}

pub(in crate::store) fn begin_run(tables: &mut impl Write, start: RunStart) -> Result<RunState, StoreError> {
    let RunStart { catalog, mode, spec, started_at } = start;
    let mut row = catalog_row(tables, &catalog)?;
    if let Some(number) = row.unfinished {
        return Err(StoreError::RunUnfinished { run: run_id(&catalog, number), catalog });
    }
    let number = row.runs + 1;
    let state = RunState { run: run_id(&catalog, number), number, catalog, mode, spec, started_at };
    row.runs = number;
    row.unfinished = Some(number);
    let key = sections::next_key(tables, b"runs")?;
    save(tables, Table::Catalogs, state.catalog.as_str().as_bytes(), &row)?;
    let row = RunRow { key, state: RunState { spec: String::new(), ..state.clone() }, is_finished: false };
    save(tables, Table::Runs, state.run.as_str().as_bytes(), &row)?;
    tables.put(Table::RunTexts, &keys::run_spec(&state.run), state.spec.as_bytes())?;
    Ok(state)
}

pub(in crate::store) fn seed(tables: &mut impl Write, run: &RunId, tasks: &[Task]) -> Result<(), StoreError> {
    let run = under_way(tables, run)?;
    add_tasks(tables, &run, tasks, &mut |_, _| {})
}

/// Records tasks as pending, except those that the run knows and those of sections that it has closed.
///
/// `on_known` is told of each task that the run knows, and whether it is settled.
pub(super) fn add_tasks(
    tables: &mut impl Write,
    run: &RunRow,
    tasks: &[Task],
    on_known: &mut dyn FnMut(&Task, bool),
) -> Result<(), StoreError> {
    for task in tasks {
        let key = keys::task(run.key, task.id);
        let is_settled = is_settled(tables, run, task)?;
        if is_settled || tables.get(Table::Pending, &key, |_| ())?.is_some() {
            on_known(task, is_settled);
            continue;
        }
        let (_, section) = sections::section_or_new(tables, &run.state.catalog, &task.section)?;
        let traversal_key = keys::traversal(run.key, section.key);
        let mut traversal: TraversalRow = load(tables, Table::Traversals, &traversal_key)?.unwrap_or_default();
        if traversal.report.is_some() {
            continue;
        }
        traversal.pending += 1;
        if task.kind == TaskKind::Root {
            traversal.root.get_or_insert(task.id);
        }
        save(tables, Table::Pending, &key, task)?;
        save(tables, Table::Traversals, &traversal_key, &traversal)?;
    }
    Ok(())
}

pub(super) fn is_settled(tables: &impl Read, run: &RunRow, task: &Task) -> Result<bool, StoreError> {
    Ok(tables.get(Table::Settled, &keys::task(run.key, task.id), |_| ())?.is_some())
}

pub(in crate::store) fn pending_tasks(
    tables: &impl Read,
    run: &RunId,
    after: Option<TaskId>,
    limit: usize,
) -> Result<Vec<Task>, StoreError> {
    let run = under_way(tables, run)?;
    let after = after.map(|after| keys::task(run.key, after));
    let mut tasks = Vec::new();
    tables.scan(
        Table::Pending,
        &run.key.to_be_bytes(),
        after.as_ref().map(<[u8; 20]>::as_slice),
        &mut |_, value| {
            if tasks.len() >= limit {
                return Ok(ControlFlow::Break(()));
            }
            tasks.push(serde_json::from_slice(value).map_err(|_| tables.damaged("a saved task can't be read"))?);
            Ok(ControlFlow::Continue(()))
        },
    )?;
    Ok(tasks)
}

pub(in crate::store) fn finish_run(tables: &mut impl Write, run: &RunId, report: &str) -> Result<(), StoreError> {
    let mut run = under_way(tables, run)?;
    let close = CloseTraversal {
        cut_short: Some("the run ended before it did".to_owned()),
        guard: DeletionGuard { max_percent: 0, min_records: 0 },
        approved: Vec::new(),
        at: run.state.started_at,
    };
    close_open(tables, &run, &close)?;
    for table in [Table::Pending, Table::Settled, Table::Traversals] {
        tables.clear(table, &run.key.to_be_bytes())?;
    }
    let catalog = run.state.catalog.clone();
    let row = CatalogRow { unfinished: None, ..catalog_row(tables, &catalog)? };
    save(tables, Table::Catalogs, catalog.as_str().as_bytes(), &row)?;
    let key = run.state.run.clone();
    tables.remove(Table::RunTexts, &keys::run_spec(&key))?;
    tables.put(Table::RunTexts, &keys::run_report(&key), report.as_bytes())?;
    run.is_finished = true;
    save(tables, Table::Runs, key.as_str().as_bytes(), &run)
}

pub(super) fn catalog_row(tables: &impl Read, catalog: &CatalogName) -> Result<CatalogRow, StoreError> {
    Ok(load(tables, Table::Catalogs, catalog.as_str().as_bytes())?.unwrap_or_default())
}

/// The run, if it is begun and not finished.
pub(super) fn under_way(tables: &impl Read, run: &RunId) -> Result<RunRow, StoreError> {
    match load::<RunRow>(tables, Table::Runs, run.as_str().as_bytes())? {
        Some(row) if !row.is_finished => Ok(row),
        _ => Err(StoreError::NoSuchRun { run: run.clone() }),
    }
}

fn run_id(catalog: &CatalogName, number: u64) -> RunId {
    RunId::from(format!("{catalog}-{number}"))
}
