//! What holders do: join, claim, ask for permits, settle, renew, tell of pushbacks; and how they end.

use std::collections::HashMap;

use super::RedisQueue;
use super::calls::{Caller, random};
use super::settlements::{MAX_FEEDBACK, SETTLEMENTS, portions_of, read_settled, write_settlements};
use super::wire::{Reader, Unreadable, Writer};
use crate::queue::{
    BudgetId, Claim, Gate, Holder, JoinRequest, LeaseRef, Leased, MAX_CLAIM_TASKS, Permit, Pushback, Pushed,
    QueueError, ReleaseCause, Released, SettleResult, Settled, Settlement, Unit,
};
use crate::task::{ItemStatus, NodeName, OriginKey, RunId, Task, TaskId};
use futures_util::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;

/// Settlements, with what they found, or leases in one call: none may keep the server's other callers waiting for 5 ms.
pub(super) const PORTION: usize = 100;

/// Tasks that one call puts in: each may be its node's and its lane's first.
const PUSH_PORTION: usize = 64;

/// Calls of one push that are under way at once: the server need not wait for us to write the next.
const PUSHES_UNDER_WAY: usize = 4;

/// Tasks that one call hands out.
const CLAIM_PORTION: usize = 100;

impl RedisQueue {
    pub(super) async fn push_tasks(&self, run: &RunId, tasks: &[Task]) -> Result<Pushed, QueueError> {
        if tasks.len() != 1 {
            // What is refused is refused as a whole, however many calls it takes.
            self.check_nodes(run, tasks).await?;
        }
        let tasks: Vec<&Task> = grouped(tasks).into_iter().flatten().collect();
        let mut portions = Vec::with_capacity(tasks.len().div_ceil(PUSH_PORTION));
        for portion in tasks.chunks(PUSH_PORTION) {
            portions.push(self.push_portion(run, portion));
        }
        let add = |sum: Pushed, Pushed { new, duplicates }| async move {
            Ok(Pushed { new: sum.new + new, duplicates: sum.duplicates + duplicates })
        };
        stream::iter(portions).buffered(PUSHES_UNDER_WAY).try_fold(Pushed::default(), add).await
    }

    async fn push_portion(&self, run: &RunId, portion: &[&Task]) -> Result<Pushed, QueueError> {
        let write = |request: &mut Writer| write_tasks(request, portion.iter().copied());
        self.calls.call("push", run, Caller::Owner, 1, write).await?.read(read_pushed)
    }

    async fn check_nodes(&self, run: &RunId, tasks: &[Task]) -> Result<(), QueueError> {
        let mut names: Vec<&NodeName> = tasks.iter().map(|task| &task.section.node).collect();
        names.sort_unstable();
        names.dedup();
        // One call at least: a run that is not there is refused whatever is pushed.
        for portion in names.chunks(5 * PORTION).chain(names.is_empty().then_some(&[][..])) {
            let write = |request: &mut Writer| {
                request.array(portion.len());
                for name in portion {
                    request.text(name.as_str());
                }
            };
            self.calls.call("check_nodes", run, Caller::Owner, 1, write).await?;
        }
        Ok(())
    }

    pub(super) async fn join_run(&self, request: JoinRequest) -> Result<Holder, QueueError> {
        let JoinRequest { run, token, uid, group } = request;
        loop {
            let write = |request: &mut Writer| {
                request.text(&uid).text(&group);
            };
            let answer = self.calls.call("join", &run, Caller::About(token), 2, write).await?;
            let (fence, lease_us, has_more): (u64, u64, bool) = answer.read(|reader| {
                reader.array_of(3)?;
                Ok((reader.uint()?, reader.uint()?, reader.flag()?))
            })?;
            if !has_more {
                return Ok(Holder { run, token, uid, group, fence, lease: std::time::Duration::from_micros(lease_us) });
            }
        }
    }

    pub(super) async fn claim_tasks(&self, holder: &Holder, max: usize) -> Result<Claim, QueueError> {
        let first = self.claim_portion(holder, max.min(CLAIM_PORTION)).await?;
        Ok(self.claim_more(holder, first, max).await)
    }

    async fn claim_portion(&self, holder: &Holder, max: usize) -> Result<Claim, QueueError> {
        let nonce = random();
        let write = |request: &mut Writer| write_claim(request, max, nonce);
        let answer = self.calls.call("claim", &holder.run, Caller::Holder(holder), CLAIM, write).await?;
        answer.read(|reader| read_claim(reader, answer.lists(), nonce))
    }

    /// A server that hands out many tasks in one call keeps everybody waiting: they are had in portions. What was had counts,
    /// whatever comes of the rest.
    async fn claim_more(&self, holder: &Holder, first: Claim, max: usize) -> Claim {
        let Claim::Tasks(mut tasks) = first else { return first };
        let max = max.min(MAX_CLAIM_TASKS);
        let mut is_whole = tasks.len() == CLAIM_PORTION;
        while is_whole && tasks.len() < max {
            let portion = CLAIM_PORTION.min(max - tasks.len());
            let Ok(Claim::Tasks(more)) = self.claim_portion(holder, portion).await else { break };
            is_whole = more.len() == portion;
            tasks.extend(more);
        }
        Claim::Tasks(tasks)
    }

    pub(super) async fn ask_permit(
        &self,
        holder: &Holder,
        lease: LeaseRef,
        origin: &OriginKey,
    ) -> Result<Permit, QueueError> {
        let write = |request: &mut Writer| {
            request.bytes(&lease.task.0).bytes(&nonce_of(lease)).text(origin.as_str());
        };
        let answer = self.calls.call("permit", &holder.run, Caller::Holder(holder), 3, write).await?;
        let permit = answer.read(read_permit)?;
        permit.ok_or_else(|| QueueError::LeaseLost { run: holder.run.clone(), task: lease.task })
    }

    pub(super) async fn settle_leases(
        &self,
        holder: &Holder,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<Settled>, QueueError> {
        if settlements.is_empty() {
            self.settle_portion(holder, &[], &[]).await?;
        }
        let mut settled = Vec::with_capacity(settlements.len());
        for portion in portions_of(&settlements) {
            let fed = self.feed_all(holder, portion).await?;
            settled.extend(self.settle_portion(holder, portion, &fed).await?);
        }
        Ok(settled)
    }

    /// The last portion of the settlements goes with the claim.
    pub(super) async fn settle_leases_and_claim(
        &self,
        holder: &Holder,
        settlements: Vec<Settlement>,
        max: usize,
    ) -> Result<(Vec<Settled>, Claim), QueueError> {
        let Some(last) = portions_of(&settlements).last() else {
            return Ok((Vec::new(), self.claim_tasks(holder, max).await?));
        };
        let mut settled = Vec::with_capacity(settlements.len());
        for portion in portions_of(&settlements[..settlements.len() - last.len()]) {
            let fed = self.feed_all(holder, portion).await?;
            settled.extend(self.settle_portion(holder, portion, &fed).await?);
        }
        let fed = self.feed_all(holder, last).await?;
        let nonce = random();
        let write = |request: &mut Writer| {
            write_settlements(request, last);
            write_claim(request, max.min(CLAIM_PORTION), nonce);
        };
        let arguments = SETTLEMENTS + CLAIM;
        let answer = self.calls.call("settle_and_claim", &holder.run, Caller::Holder(holder), arguments, write).await?;
        let first = answer.read(|reader| {
            reader.array_of(2)?;
            settled.extend(read_settled(reader, &fed)?);
            read_claim(reader, answer.lists(), nonce)
        })?;
        Ok((settled, self.claim_more(holder, first, max).await))
    }

    async fn feed_all(&self, holder: &Holder, portion: &[Settlement]) -> Result<Vec<Pushed>, QueueError> {
        let mut fed = Vec::with_capacity(portion.len());
        for settlement in portion {
            fed.push(self.feed(holder, settlement).await?);
        }
        Ok(fed)
    }

    /// Queues the feedback that is too much for the settlement. Returns what became of it.
    async fn feed(&self, holder: &Holder, settlement: &Settlement) -> Result<Pushed, QueueError> {
        let mut fed = Pushed::default();
        let SettleResult::Done { feedback } = &settlement.result else { return Ok(fed) };
        for portion in feedback.get(MAX_FEEDBACK..).unwrap_or_default().chunks(PORTION) {
            let write = |request: &mut Writer| {
                request.bytes(&settlement.lease.task.0).bytes(&nonce_of(settlement.lease));
                write_tasks(request, portion);
            };
            let answer = self.calls.call("feed", &holder.run, Caller::Holder(holder), 3, write).await?;
            let pushed =
                answer.read(|reader| if reader.is_false() { Ok(None) } else { read_pushed(reader).map(Some) })?;
            let Some(Pushed { new, duplicates }) = pushed else { return Ok(fed) };
            fed = Pushed { new: fed.new + new, duplicates: fed.duplicates + duplicates };
        }
        Ok(fed)
    }

    async fn settle_portion(
        &self,
        holder: &Holder,
        portion: &[Settlement],
        fed: &[Pushed],
    ) -> Result<Vec<Settled>, QueueError> {
        let write = |request: &mut Writer| write_settlements(request, portion);
        let answer = self.calls.call("settle", &holder.run, Caller::Holder(holder), SETTLEMENTS, write).await?;
        answer.read(|reader| read_settled(reader, fed))
    }

    pub(super) async fn renew_leases(&self, holder: &Holder, leases: &[LeaseRef]) -> Result<Vec<LeaseRef>, QueueError> {
        let mut lost = Vec::new();
        for portion in leases.chunks(PORTION).chain(leases.is_empty().then_some(&[][..])) {
            let write = |request: &mut Writer| {
                request.array(portion.len());
                for lease in portion {
                    request.array(2).bytes(&lease.task.0).bytes(&nonce_of(*lease));
                }
            };
            let answer = self.calls.call("renew", &holder.run, Caller::Holder(holder), 1, write).await?;
            lost.extend(answer.read(|reader| {
                let length = reader.array()?;
                let mut lost = Vec::with_capacity(length);
                for _ in 0..length {
                    let position: usize = reader.uint()?;
                    lost.push(*portion.get(position.wrapping_sub(1)).ok_or(Unreadable)?);
                }
                Ok(lost)
            })?);
        }
        Ok(lost)
    }

    pub(super) async fn push_back(
        &self,
        holder: &Holder,
        origin: &OriginKey,
        pushback: Pushback,
    ) -> Result<Option<Timestamp>, QueueError> {
        let asked = pushback.retry_after.unwrap_or_default();
        let asked = u64::try_from(asked.as_micros()).unwrap_or(u64::MAX);
        let write = |request: &mut Writer| {
            request.text(origin.as_str()).uint(asked);
        };
        let answer = self.calls.call("pushback", &holder.run, Caller::Holder(holder), 2, write).await?;
        answer.read(|reader| reader.moment_or_none())
    }

    pub(super) async fn release(&self, run: &RunId, token: u32, cause: ReleaseCause) -> Result<Released, QueueError> {
        let cause = match cause {
            ReleaseCause::Finished => 0,
            ReleaseCause::Crashed => 1,
            ReleaseCause::Disrupted => 2,
        };
        let mut released = Released::default();
        loop {
            let write = |request: &mut Writer| {
                request.int(cause);
            };
            let answer = self.calls.call("release_holder", run, Caller::About(token), 1, write).await?;
            let (requeued, dead, has_more): (u64, u64, bool) = answer.read(|reader| {
                reader.array_of(3)?;
                Ok((reader.uint()?, reader.uint()?, reader.flag()?))
            })?;
            released = Released { requeued: released.requeued + requeued, dead: released.dead + dead };
            if !has_more {
                return Ok(released);
            }
        }
    }
}

/// The leases of one claim share its nonce; each has a number of its own all the same.
fn lease_of(nonce: u64, task: TaskId) -> LeaseRef {
    LeaseRef { task, lease: nonce ^ first_half(task) }
}

pub(super) fn nonce_of(lease: LeaseRef) -> [u8; 8] {
    (lease.lease ^ first_half(lease.task)).to_be_bytes()
}

fn first_half(task: TaskId) -> u64 {
    task.0.iter().take(8).fold(0, |half, byte| half << 8 | u64::from(*byte))
}

/// Tasks by node and origin, in the order in which these come first; of each in its order. Together they cost the server a
/// quarter of what they do one by one, and nobody can tell: turns begin with who came first, queues are of one node and origin.
fn grouped<'a>(tasks: impl IntoIterator<Item = &'a Task>) -> Vec<Vec<&'a Task>> {
    let mut groups: Vec<Vec<&Task>> = Vec::new();
    let mut known: HashMap<(&NodeName, &OriginKey), usize> = HashMap::new();
    for task in tasks {
        let group = *known.entry((&task.section.node, &task.origin)).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(task);
    }
    groups
}

pub(super) fn write_tasks<'a>(request: &mut Writer, tasks: impl IntoIterator<Item = &'a Task>) {
    let groups = grouped(tasks);
    request.array(groups.len());
    for group in groups {
        request.tasks(&group);
    }
}

/// How many values a claim is.
const CLAIM: usize = 2;

fn write_claim(request: &mut Writer, max: usize, nonce: u64) {
    request.uint(max as u64).bytes(&nonce.to_be_bytes());
}

pub(super) fn read_pushed(reader: &mut Reader<'_>) -> Result<Pushed, Unreadable> {
    reader.array_of(2)?;
    Ok(Pushed { new: reader.uint()?, duplicates: reader.uint()? })
}

fn read_claim(reader: &mut Reader<'_>, lists: &[Vec<Vec<u8>>], nonce: u64) -> Result<Claim, Unreadable> {
    let length = reader.array()?;
    match reader.text()? {
        "drained" => Ok(Claim::Drained),
        "frozen" => Ok(Claim::Frozen),
        "wait" if length == 3 => Ok(Claim::Wait { until: reader.moment()?, sequence: reader.uint()? }),
        "tasks" if length == 2 => {
            let mut tasks = Vec::with_capacity(lists.iter().map(Vec::len).sum::<usize>() / 2);
            if reader.array()? != lists.len() {
                return Err(Unreadable);
            }
            for columns in lists.chunks_exact(2) {
                let [ids, values] = columns else { return Err(Unreadable) };
                let node = NodeName::from(reader.text()?);
                let origin = OriginKey::from(reader.text()?);
                for (id, value) in ids.iter().zip(values) {
                    let id = TaskId(id.as_slice().try_into().map_err(|_| Unreadable)?);
                    let (status, attempt, payload) = kept(value)?;
                    let task = Reader::task(payload, id, status, &node, &origin)?;
                    tasks.push(Leased { task, lease: lease_of(nonce, id), attempt });
                }
            }
            Ok(Claim::Tasks(tasks))
        }
        _ => Err(Unreadable),
    }
}

/// A task as it is kept: status, whether it is a dataset, attempts, charges, queue, number in line (`TASK_FORMAT` in
/// `lua/tasks.lua`), then what [`Writer::tasks`] packed.
fn kept(value: &[u8]) -> Result<(ItemStatus, u32, &[u8]), Unreadable> {
    const HEAD: usize = 14;
    let (head, payload) = value.split_at_checked(HEAD).ok_or(Unreadable)?;
    let status = Reader::status_of(i64::from(head[0]))?;
    Ok((status, u32::from(u16::from_be_bytes([head[2], head[3]])), payload))
}

/// `None`: the lease is no longer the caller's.
fn read_permit(reader: &mut Reader<'_>) -> Result<Option<Permit>, Unreadable> {
    reader.array()?;
    match reader.text()? {
        "granted" => Ok(Some(Permit::Granted)),
        "frozen" => Ok(Some(Permit::Frozen)),
        "lost" => Ok(None),
        "wait" => {
            let until = reader.moment()?;
            Ok(Some(Permit::Wait { until, gate: read_gate(reader)? }))
        }
        _ => Err(Unreadable),
    }
}

/// A gate: its kind, its name, and the unit that is used up.
pub(super) fn read_gate(reader: &mut Reader<'_>) -> Result<Gate, Unreadable> {
    let kind = reader.int()?;
    let name = reader.text()?;
    let unit = match reader.int()? {
        0 => Unit::ApiCalls,
        1 => Unit::Documents,
        _ => Unit::Bytes,
    };
    let (origin, budget, node) = (OriginKey::from(name), BudgetId(name.into()), NodeName::from(name));
    Ok(match kind {
        0 => Gate::OriginBackOff { origin },
        1 => Gate::OriginConcurrency { origin },
        2 => Gate::Budget { budget, unit },
        3 => Gate::BudgetConcurrency { budget },
        4 => Gate::NodeSuspended { node },
        5 => Gate::Hours { budget },
        6 => Gate::CrashSuspect { node },
        _ => return Err(Unreadable),
    })
}
