//! Random histories, each step compared with a model that is too simple to be wrong: one list of tasks.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use trawler::queue::{
    BudgetConfig, Claim, Holder, LeaseRef, Leased, Ledger, NodeConfig, OriginProtection, Permit, Pushback,
    PushbackKind, Pushed, QueueError, ReleaseCause, RunConfig, SettleResult, Settled, Settlement, Unit,
};
use trawler::task::{ItemStatus, NodeName, OriginKey, SectionKey, Task, TaskId, TaskKind};

use super::scene::{GROUP, MakeQueue, Scene, budget, config, even, limit, node, origin_of, retry_after_ms};

const HISTORIES: u32 = 60;
const STEPS: usize = 150;

const NODES: [&str; 4] = ["a", "b", "c", "d"];
const TOKENS: u32 = 3;
const ORIGIN_CAP: usize = 3;
const BUDGET_CAP: usize = 4;
const LEASE_MS: i64 = 5_000;
const MAX_BACK_OFF_MS: i64 = 4_000;
const MAX_CHARGES: u32 = 2;
/// Shared by a and b: calls and documents in a second. Of c: evenly. Of d: none.
const CALLS: u64 = 5;
const DOCUMENTS: u64 = 40;
const EVEN_CALLS: u64 = 10;
const PERIOD_MS: i64 = 1_000;

#[derive(Debug, Clone)]
enum Step {
    Push { node: usize, number: u32, count: u32 },
    Join { token: u32 },
    Claim { token: u32, max: usize },
    Settle { pick: usize, how: How },
    SettleStale { pick: usize },
    Permit { pick: usize, elsewhere: bool },
    Renew { pick: usize },
    Pushback { pick: usize, retry_after_ms: Option<u16> },
    Release { token: u32, cause: ReleaseCause },
    Suspend { node: usize, suspended: bool },
    Freeze(bool),
    Configure { calls: u64 },
    Pass { ms: u64 },
    PassUntilWoken,
}

#[derive(Debug, Clone)]
enum How {
    Done { feedback: u32, documents: u64 },
    Retry { ms: u64 },
    Dead,
    Dropped,
    Released,
}

fn step() -> impl Strategy<Value = Step> {
    let pick = || any::<usize>();
    let cause = prop_oneof![Just(ReleaseCause::Crashed), Just(ReleaseCause::Disrupted), Just(ReleaseCause::Finished)];
    let how = prop_oneof![
        6 => (0..4_u32, 0..30_u64).prop_map(|(feedback, documents)| How::Done { feedback, documents }),
        2 => (0..3_000_u64).prop_map(|ms| How::Retry { ms }),
        1 => Just(How::Dead),
        1 => Just(How::Dropped),
        2 => Just(How::Released),
    ];
    let retry_after = prop_oneof![Just(None), (0..9_000_u16).prop_map(Some)];
    prop_oneof![
        8 => (0..NODES.len(), 0..200_u32, 1..15_u32).prop_map(|(node, number, count)| Step::Push { node, number, count }),
        4 => (0..TOKENS + 1).prop_map(|token| Step::Join { token }),
        20 => (0..TOKENS, 0..8_usize).prop_map(|(token, max)| Step::Claim { token, max }),
        16 => (pick(), how).prop_map(|(pick, how)| Step::Settle { pick, how }),
        2 => pick().prop_map(|pick| Step::SettleStale { pick }),
        4 => (pick(), any::<bool>()).prop_map(|(pick, elsewhere)| Step::Permit { pick, elsewhere }),
        2 => pick().prop_map(|pick| Step::Renew { pick }),
        2 => (pick(), retry_after).prop_map(|(pick, retry_after_ms)| Step::Pushback { pick, retry_after_ms }),
        1 => (0..TOKENS, cause).prop_map(|(token, cause)| Step::Release { token, cause }),
        2 => (0..NODES.len(), any::<bool>()).prop_map(|(node, suspended)| Step::Suspend { node, suspended }),
        1 => proptest::bool::weighted(0.3).prop_map(Step::Freeze),
        1 => (1..CALLS + 1).prop_map(|calls| Step::Configure { calls }),
        8 => prop_oneof![Just(1), Just(20), Just(100), Just(600), Just(2_000), Just(6_000)].prop_map(|ms| Step::Pass { ms }),
        6 => Just(Step::PassUntilWoken),
    ]
}

fn run_config(calls: u64) -> RunConfig {
    let shared = [limit(Unit::ApiCalls, calls, 1_000), limit(Unit::Documents, DOCUMENTS, 1_000)];
    RunConfig {
        max_holders: TOKENS,
        lease: Duration::from_millis(LEASE_MS.unsigned_abs()),
        max_charges: MAX_CHARGES,
        nodes: vec![
            node("a", "shared"),
            NodeConfig { api_calls_per_document: 1, priority: 3, ..node("b", "shared") },
            node("c", "even"),
            NodeConfig { group: "other".into(), ..node("d", "open") },
        ],
        budgets: vec![
            BudgetConfig { max_concurrent: u32::try_from(BUDGET_CAP).ok(), ..budget("shared", &shared) },
            budget("even", &[even(EVEN_CALLS, 1_000)]),
            budget("open", &[]),
        ],
        origin_protection: OriginProtection {
            max_concurrent: u32::try_from(ORIGIN_CAP).unwrap(),
            initial_backoff: Duration::from_millis(500),
            max_backoff: Duration::from_millis(MAX_BACK_OFF_MS.unsigned_abs()),
        },
        ..config(&[])
    }
}

fn task(node: usize, number: u32) -> Task {
    let name = NODES[node];
    // Every third task asks an origin that all nodes share.
    let origin = if number.is_multiple_of(3) { origin_of("shared") } else { origin_of(name) };
    let status = [ItemStatus::Error, ItemStatus::NewItem, ItemStatus::Accepted][number as usize % 5 % 3];
    let section = SectionKey::root_of(NodeName::from(name));
    Task { status, ..Task::new(section, TaskKind::Page, origin, number.to_string()) }
}

#[derive(Debug, Clone, PartialEq)]
enum State {
    Queued,
    Delayed { until: i64, order: u64 },
    Leased { lease: LeaseRef, token: u32, expires: i64 },
    Done,
    Dead,
    Dropped,
}

#[derive(Debug, Clone)]
struct Known {
    task: Task,
    node: usize,
    state: State,
    seq: u64,
    attempts: u32,
    charges: u32,
}

struct Model {
    scene: Scene,
    tasks: HashMap<TaskId, Known>,
    holders: HashMap<u32, Holder>,
    ended: Vec<(Holder, LeaseRef)>,
    numbers: HashSet<u64>,
    suspended: BTreeSet<usize>,
    frozen: bool,
    seq: u64,
    /// The calls allowed in a window, and when they changed: the last period may have been under a wider limit.
    calls: u64,
    widest: Vec<(i64, u64)>,
    spent: HashMap<&'static str, Vec<i64>>,
    documents: Vec<(i64, u64)>,
    /// Per origin: closed at least until, at most until.
    back_off: HashMap<OriginKey, (i64, i64)>,
    woken_at: Option<i64>,
    /// A group was told to wait until, and nothing but time has happened since.
    quiet: Option<(&'static str, i64)>,
}

fn budget_of(node: usize) -> &'static str {
    ["shared", "shared", "even", "open"][node]
}

fn group_of(node: usize) -> &'static str {
    if node == 3 { "other" } else { GROUP }
}

/// Token 2 is the other group's crawler.
fn group_of_token(token: u32) -> &'static str {
    if token == 2 { "other" } else { GROUP }
}

impl Model {
    async fn new(make: MakeQueue) -> Self {
        Self {
            scene: Scene::open(make, run_config(CALLS)).await,
            tasks: HashMap::new(),
            holders: HashMap::new(),
            ended: Vec::new(),
            numbers: HashSet::new(),
            suspended: BTreeSet::new(),
            frozen: false,
            seq: 0,
            calls: CALLS,
            widest: Vec::new(),
            spent: HashMap::new(),
            documents: Vec::new(),
            back_off: HashMap::new(),
            woken_at: None,
            quiet: None,
        }
    }

    fn now(&self) -> i64 {
        self.scene.now().as_millisecond()
    }

    fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// Delays end and leases expire.
    fn advance(&mut self) {
        let now = self.now();
        let mut due: Vec<(i64, u64, TaskId)> = Vec::new();
        for (id, known) in &mut self.tasks {
            match known.state {
                State::Delayed { until, order } if until <= now => due.push((until, order, *id)),
                State::Leased { lease, token, expires } if expires <= now => {
                    known.state = State::Queued;
                    if let Some(holder) = self.holders.get(&token) {
                        self.ended.push((holder.clone(), lease));
                    }
                }
                _ => {}
            }
        }
        due.sort_unstable();
        for (_, _, id) in due {
            let seq = self.next_seq();
            let known = self.tasks.get_mut(&id).unwrap();
            (known.state, known.seq) = (State::Queued, seq);
        }
    }

    fn add(&mut self, node: usize, tasks: &[Task]) -> Pushed {
        let mut pushed = Pushed::default();
        for task in tasks {
            if self.tasks.contains_key(&task.id) {
                pushed.duplicates += 1;
                continue;
            }
            pushed.new += 1;
            let seq = self.next_seq();
            let known = Known { task: task.clone(), node, state: State::Queued, seq, attempts: 0, charges: 0 };
            self.tasks.insert(task.id, known);
        }
        pushed
    }

    fn leased(&self) -> Vec<(TaskId, LeaseRef, u32)> {
        let mut leased: Vec<_> = self
            .tasks
            .iter()
            .filter_map(|(id, known)| match known.state {
                State::Leased { lease, token, .. } => Some((*id, lease, token)),
                _ => None,
            })
            .collect();
        leased.sort_unstable_by_key(|(id, ..)| *id);
        leased
    }

    fn pick(&self, pick: usize) -> Option<(TaskId, LeaseRef, Holder)> {
        let leased = self.leased();
        let (id, lease, token) = *leased.get(pick % leased.len().max(1))?;
        Some((id, lease, self.holders[&token].clone()))
    }

    fn under_way(&self, matches: impl Fn(&Known) -> bool) -> usize {
        self.tasks.values().filter(|known| matches!(known.state, State::Leased { .. }) && matches(known)).count()
    }

    fn ledger(&self) -> Ledger {
        let mut ledger = Ledger { discovered: self.tasks.len() as u64, ..Ledger::default() };
        for known in self.tasks.values() {
            *match known.state {
                State::Queued => &mut ledger.queued,
                State::Delayed { .. } => &mut ledger.delayed,
                State::Leased { .. } => &mut ledger.leased,
                State::Done => &mut ledger.done,
                State::Dead => &mut ledger.dead,
                State::Dropped => &mut ledger.dropped,
            } += 1;
        }
        ledger
    }

    /// The most calls that were allowed at any time in the last period.
    fn calls_allowed(&self) -> u64 {
        let since = self.now() - PERIOD_MS;
        self.widest.iter().filter(|(until, _)| *until > since).map(|(_, calls)| *calls).fold(self.calls, u64::max)
    }

    fn spend(&mut self, node: usize) {
        let now = self.now();
        let budget = budget_of(node);
        let allowed = self.calls_allowed();
        let spent = self.spent.entry(budget).or_default();
        let in_window = spent.iter().filter(|at| **at > now - PERIOD_MS).count() as u64 + 1;
        match budget {
            "shared" => assert!(in_window <= allowed, "{in_window} calls in a window of {allowed}"),
            "even" => {
                assert!(in_window <= EVEN_CALLS, "{in_window} calls in a window");
                assert!(spent.last().is_none_or(|last| now - last >= 50), "a burst");
            }
            _ => {}
        }
        spent.push(now);
        if budget == "shared" {
            let documents: u64 = self.documents.iter().filter(|(at, _)| *at > now - PERIOD_MS).map(|(_, n)| n).sum();
            assert!(documents < DOCUMENTS, "{documents} documents in a window and still open");
        }
    }

    fn check_handed_out(&mut self, token: u32, leased: &Leased) {
        let now = self.now();
        let known = self.tasks[&leased.task.id].clone();
        assert_eq!(known.state, State::Queued, "handed out though not ready");
        assert_eq!((&known.task, known.attempts), (&leased.task, leased.attempt));
        assert!(!self.frozen && !self.suspended.contains(&known.node));
        assert_eq!(group_of(known.node), group_of_token(token));
        assert!(self.numbers.insert(leased.lease.lease), "a lease number came twice");
        assert!(self.back_off.get(&leased.task.origin).is_none_or(|(at_least, _)| *at_least <= now), "backs off");
        let is_before = |other: &&Known| {
            other.state == State::Queued
                && (other.node, &other.task.origin) == (known.node, &known.task.origin)
                && (other.task.status, other.seq) < (known.task.status, known.seq)
        };
        assert_eq!(self.tasks.values().find(is_before).map(|known| &known.task), None, "should have come before");

        self.spend(known.node);
        let state = State::Leased { lease: leased.lease, token, expires: now + LEASE_MS };
        let entry = self.tasks.get_mut(&leased.task.id).unwrap();
        (entry.state, entry.attempts) = (state, entry.attempts + 1);
        assert!(self.under_way(|other| other.task.origin == leased.task.origin) <= ORIGIN_CAP);
        assert!(
            budget_of(known.node) != "shared"
                || self.under_way(|other| budget_of(other.node) == "shared") <= BUDGET_CAP
        );
    }

    /// Every ready task must stand behind a gate that may be closed.
    fn check_nothing_eligible(&self, token: u32) {
        for known in self.tasks.values().filter(|known| known.state == State::Queued) {
            assert!(self.may_be_closed(known, token), "eligible and not handed out: {:?}", known.task);
        }
    }

    fn may_be_closed(&self, known: &Known, token: u32) -> bool {
        let now = self.now();
        let origin = &known.task.origin;
        let recent = |budget: &str, ms: i64| {
            self.spent.get(budget).map_or(0, |spent| spent.iter().filter(|at| **at > now - ms).count() as u64)
        };
        // Spendings closer together than a 128th of the period leave the window with the last of them.
        let window_closed = match budget_of(known.node) {
            "shared" => recent("shared", PERIOD_MS + 8) + 1 > self.calls || self.documents_may_be_owed(),
            "even" => recent("even", PERIOD_MS / 10) > 0 || recent("even", PERIOD_MS + 8) + 1 > EVEN_CALLS,
            _ => false,
        };
        window_closed
            || self.suspended.contains(&known.node)
            || group_of(known.node) != group_of_token(token)
            || self.back_off.get(origin).is_some_and(|(_, at_most)| *at_most > now)
            || self.under_way(|other| other.task.origin == *origin) >= ORIGIN_CAP
            || budget_of(known.node) == "shared"
                && self.under_way(|other| budget_of(other.node) == "shared") >= BUDGET_CAP
    }

    fn documents_may_be_owed(&self) -> bool {
        // A bucket that leaks a period's amount per period, in whole periods since each charge.
        let now = self.now();
        (0..self.documents.len()).any(|start| {
            let total: u64 = self.documents[start..].iter().map(|(_, documents)| documents).sum();
            let periods = total / DOCUMENTS + 1;
            let newest_start = self.documents[start].0;
            now < newest_start + i64::try_from(periods).unwrap() * (PERIOD_MS + 8)
        })
    }

    fn end(&mut self, id: TaskId, lease: LeaseRef, holder: &Holder, state: State) {
        self.tasks.get_mut(&id).unwrap().state = state;
        self.ended.push((holder.clone(), lease));
    }

    fn free_leases_of(&mut self, token: u32) -> Vec<TaskId> {
        let freed: Vec<_> = self.leased().into_iter().filter(|(_, _, owner)| *owner == token).collect();
        for (id, lease, _) in &freed {
            self.end(*id, *lease, &self.holders[&token].clone(), State::Queued);
        }
        freed.into_iter().map(|(id, ..)| id).collect()
    }

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
            Step::Join { token } => {
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
            Step::Permit { pick, elsewhere } => {
                let Some((id, lease, holder)) = self.pick(pick) else { return };
                let known = self.tasks[&id].clone();
                let origin = if elsewhere { origin_of("login") } else { known.task.origin };
                match self.scene.queue.permit(&holder, &lease, &origin).await.unwrap() {
                    Permit::Granted => {
                        assert!(!self.frozen);
                        self.spend(known.node);
                    }
                    Permit::Wait { until, .. } => assert!(until.as_millisecond() > now),
                    Permit::Frozen => assert!(self.frozen),
                }
            }
            Step::Renew { pick } => {
                let Some((id, lease, holder)) = self.pick(pick) else { return };
                assert_eq!(self.scene.queue.renew(&holder, &[lease]).await, Ok(Vec::new()));
                let token = holder.token;
                self.tasks.get_mut(&id).unwrap().state = State::Leased { lease, token, expires: now + LEASE_MS };
            }
            Step::Pushback { pick, retry_after_ms } => {
                let Some((id, _, holder)) = self.pick(pick) else { return };
                let origin = self.tasks[&id].task.origin.clone();
                let retry_after = retry_after_ms.map(|ms| Duration::from_millis(ms.into()));
                let pushback = Pushback { kind: PushbackKind::Unavailable, retry_after };
                self.scene.queue.pushback(&holder, &origin, pushback).await.unwrap();
                let asked = i64::from(retry_after_ms.unwrap_or(0)).min(MAX_BACK_OFF_MS);
                let (at_least, at_most) = self.back_off.entry(origin).or_insert((now, now));
                (*at_least, *at_most) = ((*at_least).max(now + asked), (*at_most).max(now + MAX_BACK_OFF_MS));
            }
            Step::Release { token, cause } => {
                let released = self.scene.queue.release_holder(&run, token, cause).await.unwrap();
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
        assert_eq!(self.scene.queue.audit(&self.scene.run).await, Ok(Vec::new()));
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
            });
            Ok(())
        })
    });
    if let Err(failure) = all.await.unwrap() {
        panic!("{failure}");
    }
}
