//! What people look at and put right.

use std::sync::Arc;

use super::RedisQueue;
use super::calls::Caller;
use super::wire::{Reader, Unreadable, Writer};
use crate::queue::{
    DeadTask, HolderStatus, Ledger, MAX_DEAD_KEPT, QueueError, QueuedTask, RunStatus, TaskFailure, TaskState,
};
use crate::task::{NodeName, OriginKey, RunId, Task, TaskId};

/// Tasks in one call.
const PORTION: usize = 100;

/// A run that goes on is counted anew so often before it is taken as it is.
const COUNTS: u32 = 5;

impl RedisQueue {
    pub(super) async fn run_statuses(&self) -> Result<Vec<RunStatus>, QueueError> {
        let answer = self.calls.call("runs", &RunId::from(""), Caller::Owner, 0, |_| {}).await?;
        let mut ids = answer.read(|reader| read_all(reader, |reader| Ok(RunId::from(reader.text()?))))?;
        ids.sort_unstable();
        let mut statuses = Vec::with_capacity(ids.len());
        for run in ids {
            match self.calls.call("run_status", &run, Caller::Owner, 0, |_| {}).await {
                Ok(answer) => statuses.push(answer.read(read_run_status)?),
                // It was closed meanwhile, or is being opened.
                Err(QueueError::NoSuchRun { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(statuses)
    }

    pub(super) async fn holder_statuses(&self, run: &RunId) -> Result<Vec<HolderStatus>, QueueError> {
        let answer = self.calls.call("holders", run, Caller::Owner, 0, |_| {}).await?;
        let mut holders = answer.read(|reader| read_all(reader, read_holder))?;
        holders.sort_by_key(|holder| holder.token);
        Ok(holders)
    }

    pub(super) async fn dead_tasks(&self, run: &RunId, limit: usize) -> Result<Vec<DeadTask>, QueueError> {
        let limit = limit.min(MAX_DEAD_KEPT);
        let mut dead = Vec::new();
        loop {
            let wanted = (limit - dead.len()).min(PORTION);
            let write = |request: &mut Writer| {
                request.uint(dead.len() as u64).uint(wanted as u64);
            };
            let answer = self.calls.call("dead", run, Caller::Owner, 2, write).await?;
            let portion = answer.read(|reader| read_all(reader, read_dead))?;
            let is_last = portion.len() < wanted || wanted == 0;
            dead.extend(portion.into_iter().take(wanted));
            if is_last || dead.len() >= limit {
                return Ok(dead);
            }
        }
    }

    pub(super) async fn peek_tasks(&self, run: &RunId, limit: usize) -> Result<Vec<QueuedTask>, QueueError> {
        let mut tasks: Vec<QueuedTask> = Vec::new();
        let mut from = 1;
        while from > 0 && tasks.len() < limit {
            let most = (limit - tasks.len()).min(PORTION);
            let write = |request: &mut Writer| {
                request.int(from).uint(most as u64);
            };
            let answer = self.calls.call("peek_queued", run, Caller::Owner, 2, write).await?;
            let (next, portion) = answer.read(|reader| {
                reader.array_of(2)?;
                Ok((reader.int()?, read_all(reader, read_shown)?))
            })?;
            // A queue with more than one portion is not gone through: it is a look, not an account.
            from = next;
            tasks.extend(portion);
        }
        let write = |request: &mut Writer| {
            request.int(0).uint(limit.saturating_sub(tasks.len()).min(PORTION) as u64);
        };
        let answer = self.calls.call("peek_delayed", run, Caller::Owner, 2, write).await?;
        tasks.extend(answer.read(|reader| read_all(reader, read_shown))?);
        for holder in self.holder_statuses(run).await? {
            let most = limit.saturating_sub(tasks.len()).min(PORTION);
            let write = |request: &mut Writer| {
                request.uint(holder.token.into()).uint(most as u64);
            };
            let answer = self.calls.call("peek_leased", run, Caller::Owner, 2, write).await?;
            tasks.extend(answer.read(|reader| read_all(reader, read_shown))?);
        }
        tasks.truncate(limit);
        tasks.sort_by(|a, b| a.task.section.node.cmp(&b.task.section.node));
        Ok(tasks)
    }

    pub(super) async fn put_back_dead(&self, run: &RunId, tasks: Option<&[TaskId]>) -> Result<u64, QueueError> {
        let (mut put_back, mut from) = (0, 0);
        loop {
            let write = |request: &mut Writer| {
                request.int(from);
                match tasks {
                    Some(tasks) => write_ids(request, tasks),
                    None => {
                        request.bool(false);
                    }
                }
            };
            let answer = self.calls.call("retry_dead", run, Caller::Owner, 2, write).await?;
            let (back, next): (u64, i64) = answer.read(|reader| {
                reader.array_of(2)?;
                Ok((reader.uint()?, reader.int()?))
            })?;
            put_back += back;
            // What was put back is gone from the list: the next may stand at the same position.
            if next < 0 {
                return Ok(put_back);
            }
            from = next;
        }
    }

    pub(super) async fn drop_some(&self, run: &RunId, tasks: &[TaskId]) -> Result<u64, QueueError> {
        let mut dropped = 0;
        for portion in tasks.chunks(PORTION).chain(tasks.is_empty().then_some(&[][..])) {
            let write = |request: &mut Writer| write_ids(request, portion);
            let answer = self.calls.call("drop_tasks", run, Caller::Owner, 1, write).await?;
            dropped += answer.read(|reader| reader.uint::<u64>())?;
        }
        Ok(dropped)
    }

    pub(super) async fn briefs_of(&self, run: &RunId, nodes: &[NodeName]) -> Result<Vec<Option<Arc<str>>>, QueueError> {
        let mut briefs = Vec::with_capacity(nodes.len());
        for portion in nodes.chunks(PORTION).chain(nodes.is_empty().then_some(&[][..])) {
            let write = |request: &mut Writer| {
                request.array(portion.len());
                for node in portion {
                    request.text(node.as_str());
                }
            };
            let answer = self.calls.call("node_briefs", run, Caller::Owner, 1, write).await?;
            let brief =
                |reader: &mut Reader<'_>| Ok(if reader.is_false() { None } else { Some(Arc::from(reader.text()?)) });
            briefs.extend(answer.read(|reader| read_all(reader, brief))?);
        }
        Ok(briefs)
    }

    /// Looks at all queues and all tasks in portions, then compares the account with what was counted, if nothing changed
    /// while it was.
    pub(super) async fn audit_run(&self, run: &RunId) -> Result<Vec<String>, QueueError> {
        let mut repaired = Vec::new();
        let mut cursor = "0".to_owned();
        loop {
            let write = |request: &mut Writer| {
                request.text(&cursor);
            };
            let answer = self.calls.call("audit_tasks", run, Caller::Owner, 1, write).await?;
            let (next, said) = answer.read(|reader| {
                reader.array_of(2)?;
                Ok((reader.text()?.to_owned(), read_texts(reader)?))
            })?;
            repaired.extend(said);
            cursor = next;
            if cursor == "0" {
                break;
            }
        }
        for _ in 0..COUNTS {
            let (mut from, mut queued, mut first_steps, mut is_still) = (1, 0, None, true);
            while from > 0 {
                let write = |request: &mut Writer| {
                    request.int(from);
                };
                let answer = self.calls.call("audit_queues", run, Caller::Owner, 1, write).await?;
                let (next, said, counted, steps) = answer.read(|reader| {
                    reader.array_of(4)?;
                    Ok((reader.int()?, read_texts(reader)?, reader.uint::<u64>()?, reader.int()?))
                })?;
                repaired.extend(said);
                (from, queued) = (next, queued + counted);
                is_still &= *first_steps.get_or_insert(steps) == steps;
            }
            let steps = first_steps.filter(|_| is_still).unwrap_or(-1);
            let write = |request: &mut Writer| {
                request.int(steps).uint(queued);
            };
            let answer = self.calls.call("audit_ledger", run, Caller::Owner, 2, write).await?;
            let said = answer.read(|reader| if reader.is_false() { Ok(None) } else { read_texts(reader).map(Some) })?;
            if let Some(said) = said {
                repaired.extend(said);
                break;
            }
        }
        Ok(repaired)
    }
}

fn write_ids(request: &mut Writer, ids: &[TaskId]) {
    request.array(ids.len());
    for id in ids {
        request.bytes(&id.0);
    }
}

pub(super) fn read_all<'a, T>(
    reader: &mut Reader<'a>,
    read: impl Fn(&mut Reader<'a>) -> Result<T, Unreadable>,
) -> Result<Vec<T>, Unreadable> {
    let length = reader.array()?;
    (0..length).map(|_| read(reader)).collect()
}

fn read_texts(reader: &mut Reader<'_>) -> Result<Vec<String>, Unreadable> {
    read_all(reader, |reader| Ok(reader.text()?.to_owned()))
}

pub(super) fn read_ledger(reader: &mut Reader<'_>) -> Result<Ledger, Unreadable> {
    reader.array_of(7)?;
    Ok(Ledger {
        discovered: reader.uint()?,
        queued: reader.uint()?,
        delayed: reader.uint()?,
        leased: reader.uint()?,
        done: reader.uint()?,
        dead: reader.uint()?,
        dropped: reader.uint()?,
    })
}

fn read_run_status(reader: &mut Reader<'_>) -> Result<RunStatus, Unreadable> {
    reader.array_of(6)?;
    Ok(RunStatus {
        run: RunId::from(reader.text()?),
        frozen: reader.flag()?,
        weight: reader.uint()?,
        holders: reader.uint()?,
        max_holders: reader.uint()?,
        ledger: read_ledger(reader)?,
    })
}

fn read_holder(reader: &mut Reader<'_>) -> Result<HolderStatus, Unreadable> {
    reader.array_of(6)?;
    Ok(HolderStatus {
        token: reader.uint()?,
        uid: reader.text()?.to_owned(),
        group: reader.text()?.to_owned(),
        leased: reader.uint()?,
        is_alone: reader.flag()?,
        next_lapse: reader.moment_or_none()?,
    })
}

/// A task in full: id, node, origin, status, is it a dataset, payload.
fn read_task(reader: &mut Reader<'_>) -> Result<Task, Unreadable> {
    let id = reader.id()?;
    let (node, origin) = (NodeName::from(reader.text()?), OriginKey::from(reader.text()?));
    let status = reader.status()?;
    reader.int()?;
    Reader::task(reader.bytes()?, id, status, &node, &origin)
}

fn read_dead(reader: &mut Reader<'_>) -> Result<DeadTask, Unreadable> {
    let packed = reader.bytes()?;
    let mut reader = reader.nested(packed);
    reader.array_of(9)?;
    let task = read_task(&mut reader)?;
    let (attempts, charges) = (reader.uint()?, reader.uint()?);
    let failure = |reader: &mut Reader<'_>| {
        reader.array_of(2)?;
        Ok(TaskFailure { at: reader.moment()?, why: reader.text()?.to_owned() })
    };
    Ok(DeadTask { task, attempts, charges, history: read_all(&mut reader, failure)? })
}

fn read_shown(reader: &mut Reader<'_>) -> Result<QueuedTask, Unreadable> {
    reader.array_of(11)?;
    let task = read_task(reader)?;
    let (attempts, charges, state) = (reader.uint()?, reader.uint()?, reader.int()?);
    let (at, token) = (reader.moment()?, reader.uint()?);
    let state = match state {
        0 => TaskState::Queued,
        1 => TaskState::Delayed { until: at },
        _ => TaskState::Leased { token, lapses: at },
    };
    Ok(QueuedTask { task, state, attempts, charges })
}
