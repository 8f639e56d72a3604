//! What may be handed out, and when at the latest: every gate asked for every place, the long way round.

use std::collections::BTreeMap;

use super::Model;
use super::account::{Known, Lease, Run, State};
use super::turns::Place;
use super::world::{BUDGETS, ORIGINS};

/// Requests under way.
#[derive(Debug, Clone)]
pub(super) struct Load {
    pub(super) origins: Vec<usize>,
    pub(super) budgets: Vec<usize>,
}

impl Load {
    /// As if this lease had ended.
    fn without(&self, known: &Known, lease: &Lease) -> Self {
        let mut load = self.clone();
        load.count(known, lease, |count| *count -= 1);
        load
    }

    fn count(&mut self, known: &Known, lease: &Lease, count: impl Fn(&mut usize)) {
        count(&mut self.budgets[lease.budget]);
        count(&mut self.origins[known.origin]);
        if let Some(elsewhere) = lease.elsewhere {
            count(&mut self.origins[elsewhere]);
        }
    }
}

impl Run {
    /// What is ready and takes turns, by node and origin.
    pub(super) fn places(&self) -> Vec<Place> {
        self.places_of(|known| !known.is_suspect())
    }

    /// Where suspects are ready.
    pub(super) fn suspected_places(&self) -> Vec<Place> {
        self.places_of(Known::is_suspect)
    }

    fn places_of(&self, is_one: impl Fn(&Known) -> bool) -> Vec<Place> {
        let mut places: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for known in self.tasks.values().filter(|known| known.is_queued() && is_one(known)) {
            *places.entry((known.node, known.origin)).or_default() += 1;
        }
        let place = |((node, origin), ready)| self.place(node, origin, ready);
        places.into_iter().filter_map(place).collect()
    }

    pub(super) fn place(&self, node: usize, origin: usize, ready: usize) -> Option<Place> {
        let known = self.nodes[node]?;
        let (budget, group, priority, suspended) = (known.budget, known.group, known.priority, known.suspended);
        Some(Place { node, origin, budget, group, priority, suspended, ready })
    }

    fn origin_cap(&self) -> usize {
        self.config.origin_protection.max_concurrent as usize
    }
}

impl Model {
    pub(super) fn load(&self) -> Load {
        let mut load = Load { origins: vec![0; ORIGINS.len()], budgets: vec![0; BUDGETS.len()] };
        for known in self.runs.iter().flat_map(|run| run.tasks.values()) {
            if let Some(lease) = known.lease() {
                load.count(known, lease, |count| *count += 1);
            }
        }
        load
    }

    pub(super) fn is_origin_full(&self, run: usize, origin: usize, load: &Load) -> bool {
        load.origins[origin] >= self.runs[run].origin_cap()
    }

    pub(super) fn is_budget_full(&self, budget: usize, load: &Load) -> bool {
        self.budgets[budget].max_concurrent.is_some_and(|max| load.budgets[budget] >= max as usize)
    }

    /// From when on a request of this place may be sent beyond doubt, if only time passes; `None`: not by time alone.
    pub(super) fn opens_at(&self, run: usize, place: &Place, load: &Load) -> Option<i64> {
        if place.suspended || self.is_origin_full(run, place.origin, load) || self.is_budget_full(place.budget, load) {
            return None;
        }
        let now = self.now();
        let backs_off = self.origins[place.origin].backs_off_until(now).unwrap_or(now);
        // Whoever is next waits for what his request costs, and the others behind him.
        let budget = &self.budgets[place.budget];
        let opens_at = budget.surely_open_at(self.now(), self.dearest(place.budget));
        let goes_first = if self.is_shared(run, place) { budget.free_for_all_at() } else { i64::MIN };
        let (_, lapses) = budget.ahead(now, None);
        Some(backs_off.max(opens_at).max(goes_first).max(lapses))
    }

    /// Whether others come to the place's budget: another run's crawlers, or another group's.
    fn is_shared(&self, run: usize, place: &Place) -> bool {
        let is_mine = |other: usize, group: usize| (other, group) == (run, place.group);
        self.runs.iter().enumerate().any(|(other, run)| {
            run.pools.iter().any(|(budget, group)| *budget == place.budget && !is_mine(other, *group))
        })
    }

    pub(super) fn dearest(&self, budget: usize) -> u64 {
        let nodes = self.runs.iter().flat_map(|run| run.nodes.iter().flatten());
        nodes.filter(|node| node.budget == budget).map(|node| node.dataset_calls).max().unwrap_or(1)
    }

    /// The places of a run that could go now.
    pub(super) fn open_places(&self, run: usize, places: &[Place], load: &Load) -> Vec<Place> {
        let is_open = |place: &&Place| self.opens_at(run, place, load).is_some_and(|at| at <= self.now());
        places.iter().filter(is_open).copied().collect()
    }

    /// When the first task becomes eligible for a group, if only time passes: a gate opens, a delay ends, a lease
    /// expires.
    pub(super) fn first_opening(&self, run: usize, group: usize) -> Option<i64> {
        let load = self.load();
        let mut places = self.runs[run].places();
        places.retain(|place| place.group == group);
        let mut first: Option<i64> = None;
        let mut may_open = |at: Option<i64>| first = first.into_iter().chain(at).min();
        places.iter().for_each(|place| may_open(self.opens_at(run, place, &load)));
        for known in self.runs[run].tasks.values() {
            let own = self.runs[run].place(known.node, known.origin, 1).filter(|place| place.group == group);
            match &known.state {
                State::Delayed { until, .. } => {
                    may_open(own.and_then(|place| Some(self.opens_at(run, &place, &load)?.max(*until))));
                }
                State::Leased(lease) => {
                    let load = load.without(known, lease);
                    for place in places.iter().chain(&own) {
                        may_open(self.opens_at(run, place, &load).map(|at| at.max(lease.expires)));
                    }
                }
                _ => {}
            }
        }
        first
    }
}
