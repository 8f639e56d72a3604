//! What holders do: join, claim, ask for permits, settle, renew, tell of pushbacks; and how they end.

use super::RedisQueue;
use super::calls::{Caller, random};
use super::wire::{Reader, Unreadable, Writer};
use crate::queue::{
    BudgetId, Claim, Gate, Holder, JoinRequest, LeaseRef, Leased, MAX_CLAIM_TASKS, Permit, Pushback, Pushed,
    QueueError, ReleaseCause, Released, SettleResult, Settled, Settlement, Unit,
};
use crate::task::{ItemStatus, NodeName, OriginKey, RunId, Task, TaskId};
use jiff::Timestamp;

/// Tasks, settlements or leases in one call.
const PORTION: usize = 200;

/// Feedback beyond this goes ahead of its settlement.
const MAX_FEEDBACK: usize = 50;

impl RedisQueue {
    pub(super) async fn push_tasks(&self, run: &RunId, tasks: &[Task]) -> Result<Pushed, QueueError> {
        if tasks.len() != 1 {
            // What is refused is refused as a whole, however many calls it takes.
            self.check_nodes(run, tasks).await?;
        }
        let mut pushed = Pushed::default();
        for portion in tasks.chunks(PORTION) {
            let write = |request: &mut Writer| write_tasks(request, portion);
            let Pushed { new, duplicates } =
                self.calls.call("push", run, Caller::Owner, 1, write).await?.read(read_pushed)?;
            pushed = Pushed { new: pushed.new + new, duplicates: pushed.duplicates + duplicates };
        }
        Ok(pushed)
    }

    async fn check_nodes(&self, run: &RunId, tasks: &[Task]) -> Result<(), QueueError> {
        let mut names: Vec<&NodeName> = tasks.iter().map(|task| &task.section.node).collect();
        names.sort_unstable();
        names.dedup();
        // One call at least: a run that is not there is refused whatever is pushed.
        for portion in names.chunks(10 * PORTION).chain(names.is_empty().then_some(&[][..])) {
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
        let nonce = random();
        let write = |request: &mut Writer| {
            request.uint(max.min(MAX_CLAIM_TASKS) as u64).bytes(&nonce.to_be_bytes());
        };
        let answer = self.calls.call("claim", &holder.run, Caller::Holder(holder), 2, write).await?;
        answer.read(|reader| read_claim(reader, nonce))
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
            let mut fed = Vec::with_capacity(portion.len());
            for settlement in portion {
                fed.push(self.feed(holder, settlement).await?);
            }
            settled.extend(self.settle_portion(holder, portion, &fed).await?);
        }
        Ok(settled)
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
        let write = |request: &mut Writer| {
            request.array(portion.len());
            for settlement in portion {
                write_settlement(request, settlement);
            }
        };
        let answer = self.calls.call("settle", &holder.run, Caller::Holder(holder), 1, write).await?;
        answer.read(|reader| {
            let length = reader.array()?;
            let mut settled = Vec::with_capacity(length);
            for position in 0..length {
                if reader.is_false() {
                    settled.push(Settled::Fenced);
                    continue;
                }
                let Pushed { new, duplicates } = read_pushed(reader)?;
                let fed = fed.get(position).copied().unwrap_or_default();
                settled.push(Settled::Accepted(Pushed { new: new + fed.new, duplicates: duplicates + fed.duplicates }));
            }
            Ok(settled)
        })
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

fn nonce_of(lease: LeaseRef) -> [u8; 8] {
    (lease.lease ^ first_half(lease.task)).to_be_bytes()
}

fn first_half(task: TaskId) -> u64 {
    task.0.iter().take(8).fold(0, |half, byte| half << 8 | u64::from(*byte))
}

/// Settlements that one call takes: not too many, and not too much feedback with them.
fn portions_of(settlements: &[Settlement]) -> impl Iterator<Item = &[Settlement]> {
    let mut rest = settlements;
    std::iter::from_fn(move || {
        let mut weight = 0;
        let fits = |settlement: &&Settlement| {
            weight += 1 + feedback_of(settlement).min(MAX_FEEDBACK);
            weight <= PORTION
        };
        let length = rest.iter().take_while(fits).count().max(1).min(rest.len());
        let (portion, left) = rest.split_at(length);
        rest = left;
        (!portion.is_empty()).then_some(portion)
    })
}

fn feedback_of(settlement: &Settlement) -> usize {
    match &settlement.result {
        SettleResult::Done { feedback } => feedback.len(),
        _ => 0,
    }
}

fn write_tasks(request: &mut Writer, tasks: &[Task]) {
    request.array(tasks.len());
    for task in tasks {
        request.task(task);
    }
}

fn write_settlement(request: &mut Writer, settlement: &Settlement) {
    let Settlement { lease, result, documents, bytes } = settlement;
    let head = |request: &mut Writer, length: usize, code: i64| {
        request.array(length).bytes(&lease.task.0).bytes(&nonce_of(*lease)).int(code);
        request.uint(*documents).uint(*bytes);
    };
    match result {
        SettleResult::Done { feedback } => {
            head(request, 6, 0);
            write_tasks(request, &feedback[..feedback.len().min(MAX_FEEDBACK)]);
        }
        SettleResult::Retry { delay, why } => {
            head(request, 7, 1);
            request.uint(u64::try_from(delay.as_micros()).unwrap_or(u64::MAX).min(1 << 50)).text(&shortened(why));
        }
        SettleResult::Dead { why } => {
            head(request, 6, 2);
            request.text(&shortened(why));
        }
        SettleResult::Dropped => head(request, 5, 3),
        SettleResult::Released => head(request, 5, 4),
    }
}

/// As much of a reason as is kept.
fn shortened(why: &str) -> String {
    why.chars().take(crate::queue::TaskFailure::MAX_WHY_CHARS).collect()
}

fn read_pushed(reader: &mut Reader<'_>) -> Result<Pushed, Unreadable> {
    reader.array_of(2)?;
    Ok(Pushed { new: reader.uint()?, duplicates: reader.uint()? })
}

fn read_claim(reader: &mut Reader<'_>, nonce: u64) -> Result<Claim, Unreadable> {
    let length = reader.array()?;
    match reader.text()? {
        "drained" => Ok(Claim::Drained),
        "frozen" => Ok(Claim::Frozen),
        "wait" if length == 3 => Ok(Claim::Wait { until: reader.moment()?, sequence: reader.uint()? }),
        "tasks" if length == 2 => {
            let mut tasks = Vec::new();
            for _ in 0..reader.array()? {
                let length = reader.array()?.checked_sub(2).ok_or(Unreadable)?;
                let node = NodeName::from(reader.text()?);
                let origin = OriginKey::from(reader.text()?);
                for _ in 0..length / 2 {
                    let id = reader.id()?;
                    let (status, attempt, payload) = kept(reader.bytes()?)?;
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
/// `lua/tasks.lua`), then what [`Writer::task`] packed.
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
