//! Waiting at closed gates, and waking when they open: as few as can be served.
//!
//! An origin that opens wakes one lane per group and gives it the baton. When a claim has looked at that lane, or its
//! pool closes, the baton goes on to the next while the origin is open: nobody sleeps at an open gate, and a
//! thousand sleepers cost nothing.

use super::gates::{Gates, OriginWaiting};
use super::lanes::{Lanes, Parked};
use crate::queue::gate::Moment;

/// What is looked at again at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A pool, for its budget.
    Pool(u32),
    /// An origin's back-off.
    Origin(u32),
}

impl Lanes {
    /// Wakes what opens by now for a group.
    pub(super) fn advance(&mut self, gates: &mut Gates, group: u32, now: Moment) {
        while let Some((until, timer)) = self.next_timer(gates, group).filter(|(until, _)| *until <= now) {
            self.groups[group as usize].timers.pop();
            match timer {
                Timer::Pool(pool) => self.open_pool(pool),
                Timer::Origin(origin) => {
                    let run = self.run;
                    let waiting = gates.origins[origin as usize].waiting.iter_mut();
                    for waiting in waiting.filter(|waiting| waiting.run == run && waiting.group == group) {
                        waiting.armed = waiting.armed.filter(|armed| *armed != until);
                    }
                    self.origin_changed(gates, origin, now);
                }
            }
        }
    }

    /// When the next gate opens for a group by time alone.
    pub(super) fn next_opening(&mut self, gates: &Gates, group: u32) -> Option<Moment> {
        self.next_timer(gates, group).map(|(until, _)| until)
    }

    fn next_timer(&mut self, gates: &Gates, group: u32) -> Option<(Moment, Timer)> {
        loop {
            let std::cmp::Reverse((until, timer)) = *self.groups[group as usize].timers.peek()?;
            let is_current = match timer {
                Timer::Pool(pool) => self.pools[pool as usize].parked == Parked::Until(until),
                Timer::Origin(origin) => gates.origins[origin as usize]
                    .waiting
                    .iter()
                    .any(|waiting| (waiting.run, waiting.group) == (self.run, group) && waiting.armed == Some(until)),
            };
            if is_current {
                return Some((until, timer));
            }
            self.groups[group as usize].timers.pop();
        }
    }

    /// Takes a pool out of the turns until its budget opens.
    pub(super) fn park_pool(&mut self, gates: &mut Gates, pool_index: u32, parked: Parked, now: Moment) {
        let pool = &mut self.pools[pool_index as usize];
        pool.place.leave();
        pool.parked = parked;
        if let Parked::Until(until) = parked {
            let timer = Timer::Pool(pool_index);
            self.groups[pool.group as usize].timers.push(std::cmp::Reverse((until, timer)));
        }
        let group = pool.group;
        for lane in std::mem::take(&mut pool.batons) {
            self.pass_baton(gates, self.lanes[lane as usize].origin, group, now);
        }
    }

    fn open_pool(&mut self, pool: u32) {
        self.pools[pool as usize].parked = Parked::No;
        self.list_pool(pool);
    }

    /// A request of the budget ended.
    pub(super) fn budget_freed(&mut self, gates: &Gates, budget: u32) {
        self.open_pools(gates, budget, |parked| parked == Parked::ForCapacity);
    }

    /// The budget may be open sooner than was said: it is looked at again.
    pub(super) fn budget_changed(&mut self, gates: &Gates, budget: u32) {
        self.open_pools(gates, budget, |parked| parked != Parked::No);
    }

    fn open_pools(&mut self, gates: &Gates, budget: u32, is_opened: impl Fn(Parked) -> bool) {
        for pool in gates.budgets[budget as usize].right_of_way.pools_of(self.run) {
            if is_opened(self.pools[pool as usize].parked) {
                self.open_pool(pool);
            }
        }
    }

    /// Lets a lane wait at its origin.
    pub(super) fn park_lane(&mut self, gates: &mut Gates, lane_index: u32, now: Moment) {
        let lane = &mut self.lanes[lane_index as usize];
        lane.place.leave();
        lane.is_parked = true;
        let pool = &mut self.pools[lane.pool as usize];
        pool.batons.remove(&lane_index);
        let (group, origin_index) = (pool.group, lane.origin);
        let (origin, run) = (&mut gates.origins[origin_index as usize], self.run);
        match origin.waiting.iter_mut().find(|waiting| (waiting.run, waiting.group) == (run, group)) {
            Some(waiting) => waiting.lanes.push_back(lane_index),
            None => origin.waiting.push(OriginWaiting { run, group, lanes: [lane_index].into(), armed: None }),
        }
        self.origin_changed(gates, origin_index, now);
    }

    /// Wakes lanes that wait for an origin, if it is open; sees to it that they are woken when its back-off ends.
    pub(super) fn origin_changed(&mut self, gates: &mut Gates, origin_index: u32, now: Moment) {
        let until = gates.origins[origin_index as usize].gate.backs_off_until(now);
        for position in 0..gates.origins[origin_index as usize].waiting.len() {
            let waiting = &mut gates.origins[origin_index as usize].waiting[position];
            let group = waiting.group;
            if waiting.run != self.run || waiting.lanes.is_empty() {
                continue;
            }
            if until.is_none() {
                self.pass_baton(gates, origin_index, group, now);
            } else if waiting.armed != until {
                waiting.armed = until;
                let timer = until.map(|until| std::cmp::Reverse((until, Timer::Origin(origin_index))));
                self.groups[group as usize].timers.extend(timer);
            }
        }
    }

    /// A lane was looked at: if it was woken by its origin, the next one is.
    pub(super) fn drop_baton(&mut self, gates: &mut Gates, lane: u32, now: Moment) {
        let pool = &mut self.pools[self.lanes[lane as usize].pool as usize];
        if pool.batons.remove(&lane) {
            let group = pool.group;
            self.pass_baton(gates, self.lanes[lane as usize].origin, group, now);
        }
    }

    /// Wakes the first waiting lane that can go, if the origin is open.
    fn pass_baton(&mut self, gates: &mut Gates, origin: u32, group: u32, now: Moment) {
        if !self.is_open(gates, origin, now) {
            return;
        }
        let run = self.run;
        while let Some(lane_index) = gates.origins[origin as usize]
            .waiting
            .iter_mut()
            .find(|waiting| (waiting.run, waiting.group) == (run, group))
            .and_then(|waiting| waiting.lanes.pop_front())
        {
            let lane = &mut self.lanes[lane_index as usize];
            lane.is_parked = false;
            if lane.active_nodes == 0 {
                continue;
            }
            let pool = lane.pool;
            self.list_lane(lane_index);
            if self.pools[pool as usize].parked == Parked::No {
                self.pools[pool as usize].batons.insert(lane_index);
                return;
            }
        }
    }
}
