//! Waiting at closed gates, and waking when they open: as few as can be served.
//!
//! An origin that opens wakes one lane per group and gives it the baton. When a claim has looked at that lane, or its
//! pool closes, the baton goes on to the next while the origin is open: nobody sleeps at an open gate, and a
//! thousand sleepers cost nothing.

use super::lanes::{Lanes, OriginWaiting, Parked};
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
    pub(super) fn advance(&mut self, group: u32, now: Moment) {
        while let Some((until, timer)) = self.next_timer(group).filter(|(until, _)| *until <= now) {
            self.groups[group as usize].timers.pop();
            match timer {
                Timer::Pool(pool) => self.open_pool(pool),
                Timer::Origin(origin) => {
                    for waiting in &mut self.origins[origin as usize].waiting {
                        waiting.armed = waiting.armed.filter(|armed| *armed != until);
                    }
                    self.origin_changed(origin, now);
                }
            }
        }
    }

    /// When the next gate opens for a group by time alone.
    pub(super) fn next_opening(&mut self, group: u32) -> Option<Moment> {
        self.next_timer(group).map(|(until, _)| until)
    }

    fn next_timer(&mut self, group: u32) -> Option<(Moment, Timer)> {
        loop {
            let std::cmp::Reverse((until, timer)) = *self.groups[group as usize].timers.peek()?;
            let is_current = match timer {
                Timer::Pool(pool) => self.pools[pool as usize].parked == Parked::Until(until),
                Timer::Origin(origin) => self.origins[origin as usize]
                    .waiting
                    .iter()
                    .any(|waiting| waiting.group == group && waiting.armed == Some(until)),
            };
            if is_current {
                return Some((until, timer));
            }
            self.groups[group as usize].timers.pop();
        }
    }

    /// Takes a pool out of the turns until its budget opens.
    pub(super) fn park_pool(&mut self, pool_index: u32, parked: Parked, now: Moment) {
        let pool = &mut self.pools[pool_index as usize];
        pool.place.leave();
        pool.parked = parked;
        if let Parked::Until(until) = parked {
            let timer = Timer::Pool(pool_index);
            self.groups[pool.group as usize].timers.push(std::cmp::Reverse((until, timer)));
        }
        let group = pool.group;
        for lane in std::mem::take(&mut pool.batons) {
            self.pass_baton(self.lanes[lane as usize].origin, group, now);
        }
    }

    fn open_pool(&mut self, pool: u32) {
        self.pools[pool as usize].parked = Parked::No;
        self.list_pool(pool);
    }

    /// A request of the budget ended.
    pub(super) fn budget_freed(&mut self, budget: u32) {
        for position in 0..self.budgets[budget as usize].pools.len() {
            let pool = self.budgets[budget as usize].pools[position];
            if self.pools[pool as usize].parked == Parked::ForCapacity {
                self.open_pool(pool);
            }
        }
    }

    /// The budget's limits may be wider now: they are looked at again.
    pub(super) fn budget_changed(&mut self, budget: u32) {
        for pool in self.budgets[budget as usize].pools.clone() {
            if self.pools[pool as usize].parked != Parked::No {
                self.open_pool(pool);
            }
        }
    }

    /// Lets a lane wait at its origin.
    pub(super) fn park_lane(&mut self, lane_index: u32, now: Moment) {
        let lane = &mut self.lanes[lane_index as usize];
        lane.place.leave();
        lane.is_parked = true;
        let pool = &mut self.pools[lane.pool as usize];
        pool.batons.remove(&lane_index);
        let (group, origin_index) = (pool.group, lane.origin);
        let origin = &mut self.origins[origin_index as usize];
        match origin.waiting.iter_mut().find(|waiting| waiting.group == group) {
            Some(waiting) => waiting.lanes.push_back(lane_index),
            None => origin.waiting.push(OriginWaiting { group, lanes: [lane_index].into(), armed: None }),
        }
        self.origin_changed(origin_index, now);
    }

    /// Wakes lanes that wait for an origin, if it is open; sees to it that they are woken when its back-off ends.
    pub(super) fn origin_changed(&mut self, origin_index: u32, now: Moment) {
        let until = self.origins[origin_index as usize].gate.backs_off_until(now);
        for position in 0..self.origins[origin_index as usize].waiting.len() {
            let waiting = &mut self.origins[origin_index as usize].waiting[position];
            let group = waiting.group;
            if waiting.lanes.is_empty() {
                continue;
            }
            if until.is_none() {
                self.pass_baton(origin_index, group, now);
            } else if waiting.armed != until {
                waiting.armed = until;
                let timer = until.map(|until| std::cmp::Reverse((until, Timer::Origin(origin_index))));
                self.groups[group as usize].timers.extend(timer);
            }
        }
    }

    /// A lane was looked at: if it was woken by its origin, the next one is.
    pub(super) fn drop_baton(&mut self, lane: u32, now: Moment) {
        let pool = &mut self.pools[self.lanes[lane as usize].pool as usize];
        if pool.batons.remove(&lane) {
            let group = pool.group;
            self.pass_baton(self.lanes[lane as usize].origin, group, now);
        }
    }

    /// Wakes the first waiting lane that can go, if the origin is open.
    fn pass_baton(&mut self, origin: u32, group: u32, now: Moment) {
        if !self.is_open(origin, now) {
            return;
        }
        while let Some(lane_index) = self.origins[origin as usize]
            .waiting
            .iter_mut()
            .find(|waiting| waiting.group == group)
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
