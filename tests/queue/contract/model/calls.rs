//! All other calls: what they must answer, and what becomes of the account.

use std::time::Duration;

use jiff::Timestamp;
use trawler::queue::{
    Holder, JoinRequest, Pushback, PushbackKind, Pushed, QueueError, ReleaseCause, SettleResult, Settled, Settlement,
};
use trawler::task::{NodeName, SectionKey, Task, TaskId, TaskKind};

use super::Model;
use super::account::{Held, Lease, State};
use super::laws::{Law, Verdict, Violation, demand, same};
use super::steps::{How, LateCall};
use super::world::{GROUPS, LEASE_MS, MAX_CHARGES, NODES, ORIGINS, origin_key, task};

const FAILED: &str = "the server answered 500";
const GONE: &str = "410";

pub(super) fn refused(error: &QueueError) -> Violation {
    Violation { law: Law::Answer, what: error.to_string() }
}

impl Model {
    pub(super) async fn push(&mut self, run: usize, node: usize, number: u32, count: u32) -> Verdict {
        let tasks: Vec<Task> = (number..number + count).map(|number| task(node, number)).collect();
        let id = self.runs[run].config.run.clone();
        let pushed = self.queue.push(&id, tasks.clone()).await;
        if self.runs[run].frozen {
            self.tally.count("push while frozen");
            return same(Law::Frozen, &pushed, &Err(QueueError::Frozen { run: id }));
        }
        if self.runs[run].nodes[node].is_none() {
            let node = NodeName::from(NODES[node]);
            return same(Law::Answer, &pushed, &Err(QueueError::NoSuchNode { run: id, node }));
        }
        let expected = self.runs[run].add(&tasks);
        self.tally.add("duplicate", expected.duplicates);
        same(Law::Once, &pushed, &Ok(expected))
    }

    pub(super) async fn push_a_stranger(&mut self, run: usize) -> Verdict {
        let id = self.runs[run].config.run.clone();
        let pushed = self.queue.push(&id, vec![task(0, 1_000), stranger()]).await;
        demand(Law::Whole, pushed.is_err(), || format!("a task of an unknown node was taken: {pushed:?}"))
    }

    pub(super) async fn join(&mut self, run: usize, token: u32) -> Verdict {
        // Token 2 is the other group's crawler.
        let group = usize::from(token == 2);
        self.joins += 1;
        let request = JoinRequest {
            run: self.runs[run].config.run.clone(),
            token,
            uid: format!("job-{}", self.joins),
            group: GROUPS[group].into(),
        };
        let joined = self.queue.join(request.clone()).await;
        let run = &mut self.runs[run];
        let max = run.config.max_holders;
        if !run.holders.contains_key(&token) && run.holders.len() >= max as usize {
            self.tally.count("no place free");
            return same(Law::Places, &joined, &Err(QueueError::NoPlaceFree { run: request.run, max }));
        }
        let holder = joined.map_err(|error| Violation { law: Law::Places, what: error.to_string() })?;
        let JoinRequest { run: id, uid, group: name, .. } = request;
        same(
            Law::Answer,
            &holder,
            &Holder { run: id, token, uid, group: name, fence: holder.fence, lease: holder.lease },
        )?;
        if run.holders.contains_key(&token) {
            run.free(token);
            self.tally.count("holder replaced");
        }
        run.holders.insert(token, Held { holder, group, stalled: false, told: None });
        Ok(())
    }

    pub(super) async fn release(&mut self, run: usize, token: u32, cause: ReleaseCause) -> Verdict {
        let released = self.queue.release_holder(&self.runs[run].config.run, token, cause).await;
        let released = released.map_err(|error| refused(&error))?;
        let now = self.now();
        let run = &mut self.runs[run];
        let freed = run.free(token);
        run.holders.remove(&token);
        let mut dead = 0;
        for id in &freed {
            let known = run.known(*id);
            if cause != ReleaseCause::Crashed {
                known.attempts -= 1;
                continue;
            }
            self.tally.count("task charged");
            known.charges += 1;
            known.failures.push((now, None));
            if known.charges >= MAX_CHARGES {
                known.state = State::Dead;
                run.dead.push(*id);
                dead += 1;
            }
        }
        self.tally.add("task dead by charges", dead);
        same(Law::Charges, &(released.dead, released.requeued + released.dead), &(dead, freed.len() as u64))
    }

    /// `claims`: so many are claimed in the same call.
    pub(super) async fn settle(
        &mut self,
        run: usize,
        pick: usize,
        results: &[How],
        is_strange: bool,
        claims: Option<usize>,
    ) -> Verdict {
        let Some((holder, ids)) = self.runs[run].pick(pick) else { return Ok(()) };
        let chosen: Vec<(TaskId, &How)> = ids.into_iter().zip(results).collect();
        let mut settlements: Vec<Settlement> =
            chosen.iter().filter_map(|(id, how)| self.settlement(run, *id, how)).collect();
        if is_strange {
            let Some(last) = settlements.last_mut() else { return Ok(()) };
            last.result = SettleResult::Done { feedback: vec![task(0, 1_000), stranger()] };
            self.tally.count("feedback of the unknown");
            let settled = self.queue.settle(&holder, settlements).await;
            return demand(Law::Whole, settled.is_err(), || format!("feedback of an unknown node: {settled:?}"));
        }
        let both = match claims {
            Some(max) => self
                .queue
                .settle_and_claim(&holder, settlements.clone(), max)
                .await
                .map(|(settled, claim)| (settled, Some((max, claim)))),
            None => self.queue.settle(&holder, settlements.clone()).await.map(|settled| (settled, None)),
        };
        let (settled, claim) = both.map_err(|error| refused(&error))?;
        let mut expected = Vec::new();
        for settlement in settlements {
            expected.push(Settled::Accepted(self.settled(run, settlement)));
        }
        same(Law::Answer, &settled, &expected)?;
        let Some((max, claim)) = claim else { return Ok(()) };
        self.tally.count("settled and claimed at once");
        self.come_up_to_date();
        self.claimed(run, holder.token, max, claim).await.map(drop)
    }

    fn settlement(&self, run: usize, id: TaskId, how: &How) -> Option<Settlement> {
        let known = &self.runs[run].tasks[&id];
        let number: u32 = known.task.cursor.parse().unwrap();
        let result = match how {
            How::Done { feedback, .. } => SettleResult::Done {
                feedback: (1..=*feedback).map(|next| task(known.node, number + next * 7)).collect(),
            },
            How::Retry { ms } => SettleResult::Retry { delay: Duration::from_millis(*ms), why: FAILED.into() },
            How::Dead => SettleResult::Dead { why: GONE.into() },
            How::Dropped => SettleResult::Dropped,
            How::Released => SettleResult::Released,
        };
        let (documents, bytes) =
            if let How::Done { documents, bytes, .. } = how { (*documents, *bytes) } else { (0, 0) };
        Some(Settlement { lease: known.lease()?.held, result, documents, bytes })
    }

    /// What a settlement that counts does.
    fn settled(&mut self, run: usize, settlement: Settlement) -> Pushed {
        let now = self.now();
        let id = settlement.lease.task;
        let origin = self.runs[run].tasks[&id].origin;
        let Some(lease) = self.runs[run].tasks[&id].lease().cloned() else { return Pushed::default() };
        self.budgets[lease.budget].charge(now, settlement.documents, settlement.bytes);
        let run = &mut self.runs[run];
        match settlement.result {
            SettleResult::Done { feedback } => {
                self.tally.count("done");
                [Some(origin), lease.elsewhere]
                    .into_iter()
                    .flatten()
                    .for_each(|origin| self.origins[origin].success(lease.sent_at));
                self.budgets[lease.budget].speed_up(lease.sent_at);
                run.end(id, State::Done);
                let pushed = run.add(&feedback);
                self.tally.add("feedback", pushed.new);
                return pushed;
            }
            SettleResult::Retry { delay, .. } if delay.is_zero() => {
                run.known(id).failures.push((now, Some(FAILED)));
                run.end(id, State::Queued);
                if run.tasks[&id].is_queued() {
                    run.queue_last(id);
                }
            }
            SettleResult::Retry { delay, .. } => {
                self.tally.count("retry");
                run.known(id).failures.push((now, Some(FAILED)));
                let order = run.next_seq();
                let until = now + i64::try_from(delay.as_millis()).unwrap();
                run.end(id, State::Delayed { until, order });
            }
            SettleResult::Dead { .. } => {
                run.known(id).failures.push((now, Some(GONE)));
                run.end(id, State::Dead);
                run.dead.push(id);
            }
            SettleResult::Dropped => run.end(id, State::Dropped),
            SettleResult::Released => {
                self.tally.count("released untried");
                run.known(id).attempts -= 1;
                run.end(id, State::Queued);
            }
        }
        Pushed::default()
    }

    pub(super) async fn renew(&mut self, run: usize, pick: usize) -> Verdict {
        let Some((holder, ids)) = self.runs[run].pick(pick) else { return Ok(()) };
        let Some(lease) = self.runs[run].tasks[&ids[0]].lease().cloned() else { return Ok(()) };
        same(Law::Answer, &self.queue.renew(&holder, &[lease.held]).await, &Ok(Vec::new()))?;
        self.tally.count("renewed");
        let expires = self.now() + LEASE_MS;
        self.runs[run].known(ids[0]).state = State::Leased(Lease { expires, ..lease });
        Ok(())
    }

    pub(super) async fn pushback(
        &mut self,
        run: usize,
        pick: usize,
        kind: PushbackKind,
        retry_after_ms: Option<u16>,
    ) -> Verdict {
        let Some((holder, ids)) = self.runs[run].pick(pick) else { return Ok(()) };
        let asked = |known: &super::account::Known| {
            let lease = known.lease().filter(|lease| lease.token == holder.token)?;
            Some((lease.elsewhere.unwrap_or(known.origin), lease.sent_at, lease.budget))
        };
        let Some((origin, ..)) = asked(&self.runs[run].tasks[&ids[0]]) else { return Ok(()) };
        let retry_after = retry_after_ms.map(|ms| Duration::from_millis(ms.into()));
        let pushback = Pushback { kind, retry_after };
        let answer = self.queue.pushback(&holder, &origin_key(ORIGINS[origin]), pushback).await;
        let mut asking: Vec<_> = self.runs[run].tasks.values().filter_map(asked).collect();
        asking.retain(|(asked, ..)| *asked == origin);
        let sent_at = asking.iter().map(|(_, sent_at, _)| *sent_at).max();
        let now = self.now();
        let is_new = self.origins[origin].pushback(now, sent_at, retry_after_ms.map(i64::from));
        let until = self.origins[origin].backs_off_until(now).map(|ms| Timestamp::from_millisecond(ms).unwrap());
        same(Law::Answer, &answer, &Ok(until))?;
        if !is_new {
            self.tally.count("pushback of a known event");
            return Ok(());
        }
        self.tally.count("pushback");
        let mut budgets: Vec<usize> = asking.into_iter().map(|(.., budget)| budget).collect();
        budgets.sort_unstable();
        budgets.dedup();
        for budget in budgets {
            self.budgets[budget].slow_down(now);
        }
        Ok(())
    }

    /// A lease that ended, or that is another's, and a holder that was replaced.
    pub(super) async fn late(&mut self, run: usize, pick: usize, call: LateCall) -> Verdict {
        let Some((holder, lease)) = self.runs[run].outdated(pick) else { return Ok(()) };
        let id = self.runs[run].config.run.clone();
        let is_current = self.runs[run].holders.get(&holder.token).is_some_and(|held| held.holder == holder);
        let fenced = QueueError::Fenced { run: id.clone(), token: holder.token };
        self.tally.count(if is_current { "lease used late" } else { "holder used late" });
        match call {
            LateCall::Settle => {
                let result = SettleResult::Done { feedback: vec![task(0, 2_000)] };
                let settlement = Settlement { lease, result, documents: 99, bytes: 99 };
                let settled = self.queue.settle(&holder, vec![settlement]).await;
                same(Law::Fenced, &settled, &if is_current { Ok(vec![Settled::Fenced]) } else { Err(fenced) })
            }
            LateCall::Permit => {
                let permit = self.queue.permit(&holder, &lease, &origin_key(ORIGINS[0])).await;
                let lost = QueueError::LeaseLost { run: id, task: lease.task };
                same(Law::Fenced, &permit, &Err(if is_current { lost } else { fenced }))
            }
            LateCall::Renew => {
                let renewed = self.queue.renew(&holder, &[lease]).await;
                same(Law::Fenced, &renewed, &if is_current { Ok(vec![lease]) } else { Err(fenced) })
            }
            LateCall::Claim if !is_current => same(Law::Fenced, &self.queue.claim(&holder, 3).await, &Err(fenced)),
            LateCall::Pushback if !is_current => {
                let pushback = Pushback { kind: PushbackKind::Timeout, retry_after: Some(Duration::from_secs(3)) };
                let answer = self.queue.pushback(&holder, &origin_key(ORIGINS[0]), pushback).await;
                same(Law::Fenced, &answer, &Err(fenced))
            }
            LateCall::Claim | LateCall::Pushback => Ok(()),
        }
    }
}

/// A task of a node that no run has.
fn stranger() -> Task {
    let section = SectionKey::root_of(NodeName::from("stranger"));
    Task::new(section, TaskKind::Page, origin_key("stranger"), "1")
}
