//! Random histories, each step compared with a model that is too simple to be wrong: one list of tasks.

mod reference;
mod steps;

use std::time::Duration;

use proptest::test_runner::{Config, TestRunner};
use trawler::queue::{
    Claim, Permit, Pushback, PushbackKind, Pushed, QueueError, ReleaseCause, SettleResult, Settled, Settlement,
};
use trawler::task::{NodeName, Task};

use self::reference::{Model, State, budget_of, group_of_token};
use self::steps::{How, LEASE_MS, MAX_BACK_OFF_MS, MAX_CHARGES, NODES, Step, TOKENS, run_config, step, task};
use super::scene::{MakeQueue, origin_of, retry_after_ms};

const HISTORIES: u32 = 60;
const STEPS: usize = 150;

impl Model {
    async fn apply(&mut self, step: Step) {
        self.advance();
        let run = self.scene.run.clone();
        let now = self.now();
        if !matches!(step, Step::Claim { .. } | Step::Pass { .. } | Step::PassUntilWoken) {
            self.quiet = None;
        }
        match step {
            Step::Push { node, number, count } => {
                let tasks: Vec<Task> = (number..number + count).map(|number| task(node, number)).collect();
                let pushed = self.scene.queue.push(&run, tasks.clone()).await;
                if self.frozen {
                    assert_eq!(pushed, Err(QueueError::Frozen { run }));
                } else {
                    assert_eq!(pushed, Ok(self.add(node, &tasks)));
                }
            }
            Step::Join { token } => self.join(token).await,
            Step::Claim { token, max } => self.claim(token, max).await,
            Step::Settle { pick, how } => self.settle(pick, how).await,
            Step::SettleStale { pick } => {
                let Some((holder, lease)) = self.ended.get(pick % self.ended.len().max(1)).cloned() else { return };
                let settlement = Settlement { lease, result: SettleResult::Dropped, documents: 99, bytes: 0 };
                let settled = self.scene.queue.settle(&holder, vec![settlement]).await;
                if self.holders.get(&holder.token) == Some(&holder) {
                    assert_eq!(settled, Ok(vec![Settled::Fenced]));
                } else {
                    assert!(matches!(settled, Err(QueueError::Fenced { .. })));
                }
            }
            Step::Permit { pick, elsewhere } => self.permit(pick, elsewhere).await,
            Step::Renew { pick } => {
                let Some((id, lease, holder)) = self.pick(pick) else { return };
                assert_eq!(self.scene.queue.renew(&holder, &[lease]).await, Ok(Vec::new()));
                let token = holder.token;
                self.tasks.get_mut(&id).unwrap().state = State::Leased { lease, token, expires: now + LEASE_MS };
            }
            Step::Pushback { pick, retry_after_ms } => self.pushback(pick, retry_after_ms).await,
            Step::Release { token, cause } => self.release(token, cause).await,
            Step::Suspend { node, suspended } => {
                self.scene.queue.suspend_node(&run, &NodeName::from(NODES[node]), suspended).await.unwrap();
                if suspended {
                    self.suspended.insert(node);
                } else {
                    self.suspended.remove(&node);
                }
            }
            Step::Freeze(frozen) => {
                let change =
                    if frozen { self.scene.queue.freeze(&run).await } else { self.scene.queue.thaw(&run).await };
                change.unwrap();
                self.frozen = frozen;
            }
            Step::Configure { calls } => {
                let mut config = run_config(calls);
                for node in &self.suspended {
                    config.nodes[*node].suspended = true;
                }
                self.scene.queue.configure(config).await.unwrap();
                self.widest.push((now, self.calls));
                self.calls = calls;
            }
            Step::Pass { ms } => self.scene.pass_ms(ms),
            Step::PassUntilWoken => {
                let Some(left) = self.woken_at.map(|at| at - now).filter(|left| (1..=60_000).contains(left)) else {
                    return;
                };
                self.scene.pass_ms(left.unsigned_abs());
            }
        }
    }

    async fn join(&mut self, token: u32) {
        let joined = self.scene.try_join(token, group_of_token(token)).await;
        if !self.holders.contains_key(&token) && self.holders.len() >= TOKENS as usize {
            assert!(matches!(joined, Err(QueueError::NoPlaceFree { .. })));
            return;
        }
        if self.holders.contains_key(&token) {
            self.free_leases_of(token);
            let fenced = self.scene.queue.claim(&self.holders[&token], 1).await;
            assert!(matches!(fenced, Err(QueueError::Fenced { .. })));
        }
        self.holders.insert(token, joined.unwrap());
    }

    async fn permit(&mut self, pick: usize, elsewhere: bool) {
        let now = self.now();
        let Some((id, lease, holder)) = self.pick(pick) else { return };
        let known = self.tasks[&id].clone();
        let origin = if elsewhere { origin_of("login") } else { known.task.origin };
        match self.scene.queue.permit(&holder, &lease, &origin).await.unwrap() {
            Permit::Granted => {
                assert!(!self.frozen && self.may_be_asked(&origin));
                self.spend(known.node);
            }
            Permit::Wait { until, .. } => assert!(until.as_millisecond() > now),
            Permit::Frozen => assert!(self.frozen),
        }
    }

    async fn pushback(&mut self, pick: usize, retry_after_ms: Option<u16>) {
        let now = self.now();
        let Some((id, _, holder)) = self.pick(pick) else { return };
        let origin = self.tasks[&id].task.origin.clone();
        let retry_after = retry_after_ms.map(|ms| Duration::from_millis(ms.into()));
        let pushback = Pushback { kind: PushbackKind::Unavailable, retry_after };
        self.scene.queue.pushback(&holder, &origin, pushback).await.unwrap();
        let asked = i64::from(retry_after_ms.unwrap_or(0)).min(MAX_BACK_OFF_MS);
        let (at_least, at_most) = self.back_off.entry(origin).or_insert((now, now));
        (*at_least, *at_most) = ((*at_least).max(now + asked), (*at_most).max(now + MAX_BACK_OFF_MS));
    }

    async fn release(&mut self, token: u32, cause: ReleaseCause) {
        let released = self.scene.queue.release_holder(&self.scene.run, token, cause).await.unwrap();
        let freed = self.free_leases_of(token);
        self.holders.remove(&token);
        let mut dead = 0;
        for id in &freed {
            let known = self.tasks.get_mut(id).unwrap();
            if cause == ReleaseCause::Crashed {
                known.charges += 1;
                if known.charges >= MAX_CHARGES {
                    known.state = State::Dead;
                    dead += 1;
                }
            } else {
                known.attempts -= 1;
            }
        }
        assert_eq!((released.dead, released.requeued + released.dead), (dead, freed.len() as u64));
    }

    async fn claim(&mut self, token: u32, max: usize) {
        let Some(holder) = self.holders.get(&token).cloned() else { return };
        let claim = self.scene.queue.claim(&holder, max).await.unwrap();
        let now = self.now();
        if self.frozen {
            assert_eq!(claim, Claim::Frozen);
            return;
        }
        match claim {
            Claim::Tasks(tasks) => {
                if let Some((group, until)) = self.quiet.take() {
                    assert!(group != group_of_token(token) || now >= until, "something was eligible before its time");
                }
                assert!((1..=max).contains(&tasks.len()));
                for leased in &tasks {
                    self.check_handed_out(token, leased);
                }
                if tasks.len() < max {
                    self.check_nothing_eligible(token);
                }
            }
            Claim::Wait { until, .. } if max > 0 => {
                let until = until.as_millisecond();
                assert!(until > now, "told to come back at once");
                assert!(!self.ledger().is_drained());
                self.check_nothing_eligible(token);
                self.woken_at = Some(until);
                self.quiet = Some((group_of_token(token), until));
            }
            Claim::Wait { .. } => {}
            Claim::Drained => assert!(self.ledger().is_drained()),
            Claim::Frozen => panic!("nobody froze the run"),
        }
    }

    async fn settle(&mut self, pick: usize, how: How) {
        let Some((id, lease, holder)) = self.pick(pick) else { return };
        let now = self.now();
        let known = self.tasks[&id].clone();
        let mut documents = 0;
        let mut expected = Pushed::default();
        let result = match how {
            How::Done { feedback, documents: count } => {
                documents = count;
                self.end(id, lease, &holder, State::Done);
                let number: u32 = known.task.cursor.parse().unwrap();
                let feedback: Vec<Task> = (1..=feedback).map(|next| task(known.node, number + next)).collect();
                expected = self.add(known.node, &feedback);
                SettleResult::Done { feedback }
            }
            How::Retry { ms } => {
                let order = self.next_seq();
                let until = now + i64::try_from(ms).unwrap();
                self.end(id, lease, &holder, State::Delayed { until, order });
                self.advance();
                retry_after_ms(ms)
            }
            How::Dead => {
                self.end(id, lease, &holder, State::Dead);
                SettleResult::Dead { why: "410".into() }
            }
            How::Dropped => {
                self.end(id, lease, &holder, State::Dropped);
                SettleResult::Dropped
            }
            How::Released => {
                self.end(id, lease, &holder, State::Queued);
                self.tasks.get_mut(&id).unwrap().attempts -= 1;
                SettleResult::Released
            }
        };
        if budget_of(known.node) == "shared" && documents > 0 {
            self.documents.push((now, documents));
        }
        let settlement = Settlement { lease, result, documents, bytes: 0 };
        let settled = self.scene.queue.settle(&holder, vec![settlement]).await.unwrap();
        assert_eq!(settled, [Settled::Accepted(expected)]);
    }

    async fn check(&mut self) {
        self.advance();
        assert_eq!(self.scene.ledger().await, self.ledger());
    }
}

pub(super) async fn any_history_keeps_the_guarantees(make: MakeQueue) {
    let all = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let config = Config { cases: HISTORIES, failure_persistence: None, ..Config::default() };
        let histories = proptest::collection::vec(step(), STEPS);
        TestRunner::new(config).run(&histories, |steps| {
            runtime.block_on(async {
                let mut model = Model::new(make).await;
                for token in 0..TOKENS {
                    model.apply(Step::Join { token }).await;
                }
                for step in steps {
                    model.apply(step).await;
                    model.check().await;
                }
                // Only now: it would wake who sleeps by mistake.
                assert_eq!(model.scene.queue.audit(&model.scene.run).await, Ok(Vec::new()));
            });
            Ok(())
        })
    });
    if let Err(failure) = all.await.unwrap() {
        panic!("{failure}");
    }
}
