//! The model: one list of tasks, and what every answer is compared with.

use std::collections::{BTreeSet, HashMap, HashSet};

use trawler::queue::{Holder, LeaseRef, Leased, Ledger, Pushed};
use trawler::task::{OriginKey, Task, TaskId};

use super::steps::{BUDGET_CAP, CALLS, DOCUMENTS, EVEN_CALLS, LEASE_MS, ORIGIN_CAP, PERIOD_MS, run_config};
use crate::contract::scene::{GROUP, MakeQueue, Scene};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum State {
    Queued,
    Delayed { until: i64, order: u64 },
    Leased { lease: LeaseRef, token: u32, expires: i64 },
    Done,
    Dead,
    Dropped,
}

#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) task: Task,
    pub(super) node: usize,
    pub(super) state: State,
    pub(super) seq: u64,
    pub(super) attempts: u32,
    pub(super) charges: u32,
}

pub(super) struct Model {
    pub(super) scene: Scene,
    pub(super) tasks: HashMap<TaskId, Known>,
    pub(super) holders: HashMap<u32, Holder>,
    pub(super) ended: Vec<(Holder, LeaseRef)>,
    pub(super) numbers: HashSet<u64>,
    pub(super) suspended: BTreeSet<usize>,
    pub(super) frozen: bool,
    pub(super) seq: u64,
    /// The calls allowed in a window, and when they changed: the last period may have been under a wider limit.
    pub(super) calls: u64,
    pub(super) widest: Vec<(i64, u64)>,
    pub(super) spent: HashMap<&'static str, Vec<i64>>,
    pub(super) documents: Vec<(i64, u64)>,
    /// Per origin: closed at least until, at most until.
    pub(super) back_off: HashMap<OriginKey, (i64, i64)>,
    pub(super) woken_at: Option<i64>,
    /// A group was told to wait until, and nothing but time has happened since.
    pub(super) quiet: Option<(&'static str, i64)>,
}

pub(super) fn budget_of(node: usize) -> &'static str {
    ["shared", "shared", "even", "open", "open", "free"][node]
}

pub(super) fn group_of(node: usize) -> &'static str {
    if node == 3 { "other" } else { GROUP }
}

/// Token 2 is the other group's crawler.
pub(super) fn group_of_token(token: u32) -> &'static str {
    if token == 2 { "other" } else { GROUP }
}

impl Model {
    pub(super) async fn new(make: MakeQueue) -> Self {
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

    pub(super) fn now(&self) -> i64 {
        self.scene.now().as_millisecond()
    }

    pub(super) fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// Delays end and leases expire.
    pub(super) fn advance(&mut self) {
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

    pub(super) fn add(&mut self, node: usize, tasks: &[Task]) -> Pushed {
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

    pub(super) fn leased(&self) -> Vec<(TaskId, LeaseRef, u32)> {
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

    pub(super) fn pick(&self, pick: usize) -> Option<(TaskId, LeaseRef, Holder)> {
        let leased = self.leased();
        let (id, lease, token) = *leased.get(pick % leased.len().max(1))?;
        Some((id, lease, self.holders[&token].clone()))
    }

    pub(super) fn under_way(&self, matches: impl Fn(&Known) -> bool) -> usize {
        self.tasks.values().filter(|known| matches!(known.state, State::Leased { .. }) && matches(known)).count()
    }

    pub(super) fn ledger(&self) -> Ledger {
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
    pub(super) fn calls_allowed(&self) -> u64 {
        let since = self.now() - PERIOD_MS;
        self.widest.iter().filter(|(until, _)| *until > since).map(|(_, calls)| *calls).fold(self.calls, u64::max)
    }

    pub(super) fn spend(&mut self, node: usize) {
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

    pub(super) fn check_handed_out(&mut self, token: u32, leased: &Leased) {
        let now = self.now();
        let known = self.tasks[&leased.task.id].clone();
        assert_eq!(known.state, State::Queued, "handed out though not ready");
        assert_eq!((&known.task, known.attempts), (&leased.task, leased.attempt));
        assert!(!self.frozen && !self.suspended.contains(&known.node));
        assert_eq!(group_of(known.node), group_of_token(token));
        assert!(self.numbers.insert(leased.lease.lease), "a lease number came twice");
        assert!(self.may_be_asked(&leased.task.origin), "backs off");
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

    /// The origin did not ask to be left alone.
    pub(super) fn may_be_asked(&self, origin: &OriginKey) -> bool {
        self.back_off.get(origin).is_none_or(|(at_least, _)| *at_least <= self.now())
    }

    /// Every ready task must stand behind a gate that may be closed.
    pub(super) fn check_nothing_eligible(&self, token: u32) {
        for known in self.tasks.values().filter(|known| known.state == State::Queued) {
            assert!(self.may_be_closed(known, token), "eligible and not handed out: {:?}", known.task);
        }
    }

    pub(super) fn may_be_closed(&self, known: &Known, token: u32) -> bool {
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

    pub(super) fn documents_may_be_owed(&self) -> bool {
        // A bucket that leaks a period's amount per period, in whole periods since each charge.
        let now = self.now();
        (0..self.documents.len()).any(|start| {
            let total: u64 = self.documents[start..].iter().map(|(_, documents)| documents).sum();
            let periods = total / DOCUMENTS + 1;
            let newest_start = self.documents[start].0;
            now < newest_start + i64::try_from(periods).unwrap() * (PERIOD_MS + 8)
        })
    }

    pub(super) fn end(&mut self, id: TaskId, lease: LeaseRef, holder: &Holder, state: State) {
        self.tasks.get_mut(&id).unwrap().state = state;
        self.ended.push((holder.clone(), lease));
    }

    pub(super) fn free_leases_of(&mut self, token: u32) -> Vec<TaskId> {
        let freed: Vec<_> = self.leased().into_iter().filter(|(_, _, owner)| *owner == token).collect();
        for (id, lease, _) in &freed {
            self.end(*id, *lease, &self.holders[&token].clone(), State::Queued);
        }
        freed.into_iter().map(|(id, ..)| id).collect()
    }
}
