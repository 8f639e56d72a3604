//! The gates that runs share: budgets and origins belong to the instance, not to a run.
//!
//! A run handles its own lanes at once when a gate changes; for the other runs the gate is noted as touched, and they
//! are woken when the call ends (`instance.rs`).

use std::collections::{HashMap, VecDeque};

use slab::Slab;

use super::lanes::index;
use super::reserved::Reserved;
use super::right_of_way::RightOfWay;
use crate::queue::gate::Moment;
use crate::queue::gate::budget::{BudgetGate, Shut};
use crate::queue::gate::origin::OriginGate;
use crate::queue::{BudgetConfig, BudgetId, Gate};
use crate::task::OriginKey;

/// Below so many gates nobody looks for some to forget.
const SWEEP_FROM: usize = 1024;

/// Gates without a run that are remembered for what was spent or asked; beyond, those that would be forgotten first go.
const MAX_REMEMBERED: usize = 1 << 16;

/// All gates of the instance.
#[derive(Debug, Default)]
pub(super) struct Gates {
    pub(super) budgets: Slab<Budget>,
    pub(super) origins: Slab<Origin>,
    budget_index: HashMap<BudgetId, u32>,
    origin_index: HashMap<OriginKey, u32>,
    touched: Vec<Touched>,
    sweep_budgets_at: usize,
    sweep_origins_at: usize,
}

#[derive(Debug)]
pub(super) struct Budget {
    pub(super) id: BudgetId,
    pub(super) gate: BudgetGate,
    pub(super) right_of_way: RightOfWay,
    pub(super) reserved: Reserved,
    /// Runs that know it.
    users: u32,
}

#[derive(Debug)]
pub(super) struct Origin {
    pub(super) key: OriginKey,
    pub(super) gate: OriginGate,
    /// Lanes that wait for it, by run and group.
    pub(super) waiting: Vec<OriginWaiting>,
    /// Lanes that ask it.
    users: u32,
}

#[derive(Debug)]
pub(super) struct OriginWaiting {
    pub(super) run: u32,
    pub(super) group: u32,
    pub(super) lanes: VecDeque<u32>,
    /// The moment for which the group has a timer.
    pub(super) armed: Option<Moment>,
}

/// A gate that changed, and that other runs may wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Touched {
    /// A request of the budget ended.
    Freed(u32),
    /// The budget may be open sooner than was said.
    Budget(u32),
    Origin(u32),
}

impl Budget {
    /// The gate that lets no task begin now, and when it opens; what waiting permits need is left to them.
    pub(super) fn closed(&mut self, now: Moment, calls: u64) -> Option<(Gate, Moment)> {
        let ahead = self.reserved.ahead(now, None);
        let (shut, until) = self.gate.closed(now, calls, ahead)?;
        Some((self.gate_of(shut), until))
    }

    /// The same for a further request of a lease. If it must wait, its calls are kept for it.
    pub(super) fn permit(&mut self, now: Moment, calls: u64, run: u32, lease: u64) -> Result<(), (Gate, Moment)> {
        let ahead = self.reserved.ahead(now, Some((run, lease)));
        if let Some((shut, until)) = self.gate.closed(now, calls, ahead) {
            self.reserved.keep(run, lease, calls, until);
            return Err((self.gate_of(shut), until));
        }
        self.reserved.end(run, lease);
        self.gate.spend(now, calls);
        Ok(())
    }

    fn gate_of(&self, shut: Shut) -> Gate {
        let budget = self.id.clone();
        match shut {
            Shut::Hours => Gate::Hours { budget },
            Shut::Limit(unit) => Gate::Budget { budget, unit },
        }
    }
}

impl Gates {
    pub(super) fn budget(&self, id: &BudgetId) -> Option<u32> {
        self.budget_index.get(id).copied()
    }

    /// Makes or changes a budget.
    pub(super) fn set_budget(&mut self, config: &BudgetConfig, now: Moment) -> u32 {
        if let Some(budget) = self.budget(&config.id) {
            self.budgets[budget as usize].gate.configure(now, config);
            return budget;
        }
        if self.budgets.len() >= self.sweep_budgets_at.max(SWEEP_FROM) {
            self.sweep_budgets(now);
        }
        let budget = index(self.budgets.insert(Budget {
            id: config.id.clone(),
            gate: BudgetGate::new(config, now),
            right_of_way: RightOfWay::default(),
            reserved: Reserved::default(),
            users: 0,
        }));
        self.budget_index.insert(config.id.clone(), budget);
        budget
    }

    /// An origin, also one that no task has.
    pub(super) fn origin(&mut self, key: &OriginKey, now: Moment) -> u32 {
        if let Some(&origin) = self.origin_index.get(key) {
            return origin;
        }
        if self.origins.len() >= self.sweep_origins_at.max(SWEEP_FROM) {
            self.sweep_origins(now);
        }
        let (gate, waiting) = (OriginGate::default(), Vec::new());
        let origin = index(self.origins.insert(Origin { key: key.clone(), gate, waiting, users: 0 }));
        self.origin_index.insert(key.clone(), origin);
        origin
    }

    /// A run knows a budget.
    pub(super) fn use_budget(&mut self, budget: u32) {
        self.budgets[budget as usize].users += 1;
    }

    /// A lane asks an origin.
    pub(super) fn use_origin(&mut self, origin: u32) {
        self.origins[origin as usize].users += 1;
    }

    /// A run that knew a budget is closed.
    pub(super) fn leave_budget(&mut self, budget: u32, run: u32) {
        self.touch_budget(budget, run);
        let budget = &mut self.budgets[budget as usize];
        budget.users -= 1;
        budget.right_of_way.leave(run);
    }

    /// A run is closed, one of whose lanes asked an origin.
    pub(super) fn leave_origin(&mut self, origin: u32, run: u32) {
        self.touch_origin(origin, run);
        let origin = &mut self.origins[origin as usize];
        origin.users -= 1;
        origin.waiting.retain(|waiting| waiting.run != run);
    }

    /// Other runs than this are to look at a budget again.
    pub(super) fn touch_budget(&mut self, budget: u32, by: u32) {
        if self.budgets[budget as usize].right_of_way.has_others(by) {
            self.touch(Touched::Budget(budget));
        }
    }

    /// Other runs than this are to look at an origin again.
    pub(super) fn touch_origin(&mut self, origin: u32, by: u32) {
        if self.origins[origin as usize].waiting.iter().any(|waiting| waiting.run != by) {
            self.touch(Touched::Origin(origin));
        }
    }

    /// All runs are to look at a gate again.
    pub(super) fn touch(&mut self, touched: Touched) {
        if self.touched.last() != Some(&touched) {
            self.touched.push(touched);
        }
    }

    /// What was touched since this was asked last, each with the runs that it concerns.
    pub(super) fn take_touched(&mut self) -> Vec<(Touched, Vec<u32>)> {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        let concerned = |touched: &Touched| {
            let mut runs: Vec<u32> = match *touched {
                Touched::Freed(budget) | Touched::Budget(budget) => {
                    self.budgets[budget as usize].right_of_way.runs().collect()
                }
                Touched::Origin(origin) => {
                    self.origins[origin as usize].waiting.iter().map(|waiting| waiting.run).collect()
                }
            };
            runs.sort_unstable();
            runs.dedup();
            runs
        };
        touched.iter().map(|touched| (*touched, concerned(touched))).collect()
    }

    /// Forgets budgets that no run knows and that remember nothing; of the others as many as are too many.
    fn sweep_budgets(&mut self, now: Moment) {
        let mut remembered: Vec<(Moment, usize)> = Vec::new();
        self.budgets.retain(|key, budget| {
            let until = if budget.users == 0 { budget.gate.remembers_until(now) } else { None };
            remembered.extend(until.map(|until| (until, key)));
            budget.users > 0 || until.is_some()
        });
        for key in first_forgotten(remembered) {
            self.budgets.remove(key);
        }
        self.budget_index.retain(|_, budget| self.budgets.contains(*budget as usize));
        self.sweep_budgets_at = 2 * self.budgets.len();
    }

    /// Forgets origins that no lane asks and of which nothing is known that matters; of the others as many as are too
    /// many, but none with a request under way.
    fn sweep_origins(&mut self, now: Moment) {
        let mut remembered: Vec<(Moment, usize)> = Vec::new();
        self.origins.retain(|key, origin| {
            let is_used = origin.users > 0 || origin.gate.under_way() > 0;
            let until = if is_used { None } else { origin.gate.remembers_until(now) };
            remembered.extend(until.map(|until| (until, key)));
            is_used || until.is_some()
        });
        for key in first_forgotten(remembered) {
            self.origins.remove(key);
        }
        self.origin_index.retain(|_, origin| self.origins.contains(*origin as usize));
        self.sweep_origins_at = 2 * self.origins.len();
    }
}

fn first_forgotten(mut remembered: Vec<(Moment, usize)>) -> impl Iterator<Item = usize> {
    remembered.sort_unstable();
    let surplus = remembered.len().saturating_sub(MAX_REMEMBERED);
    remembered.into_iter().take(surplus).map(|(_, key)| key)
}
