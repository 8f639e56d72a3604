//! Who goes first at a budget that several runs share: weighted, without keeping anybody from what nobody uses.
//!
//! Stride scheduling: each pool has a pass that grows with what it takes, by its run's weight. Whoever was told to wait
//! has the right of way until a little after its moment; a pool with a higher pass is told to come back then. Who does
//! not come in time loses the right until it asks again, and is waited for half as long the next time.

use std::time::Duration;

use crate::queue::TURN_TASKS;
use crate::queue::gate::Moment;

/// So long after its moment a pool still has the right of way.
const GRACE: Duration = Duration::from_millis(50);

/// What one call costs a pool of weight 1.
const STRIDE: u64 = 1 << 24;

/// The pools of one budget, and who is next among them.
#[derive(Debug, Default)]
pub(super) struct RightOfWay {
    claimants: Vec<Claimant>,
    /// The pass of the latest to take: who comes back from absence starts from here.
    reached: u64,
    /// Somebody was told to come back: until a little after that moment there are more who want than can have.
    contended_until: Option<Moment>,
    /// While the budget stays open, who takes may go on to a whole turn.
    turn: Option<Turn>,
}

#[derive(Debug)]
struct Claimant {
    run: u32,
    pool: u32,
    pass: u64,
    asked: Asked,
    /// How often in a row it did not come in time.
    absences: u32,
    /// Was told to wait for another's right of way.
    makes_way: bool,
}

/// What a pool that asked was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// It did not ask lately, or was let through.
    No,
    /// To come back; it goes first until then.
    Until(Moment),
    /// To wait for a request to end.
    ForCapacity,
    /// It was let through just after the budget opened, and has more to do: it goes first until then.
    Served(Moment),
}

#[derive(Debug)]
struct Turn {
    run: u32,
    pool: u32,
    left: u32,
    until: Moment,
}

/// What a pool counts for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    /// Its run's weight …
    pub(super) weight: u32,
    /// … times its active nodes …
    pub(super) active_nodes: u32,
    /// … of all that the run has at the budget.
    pub(super) of_nodes: u32,
    /// Whether it has more to do.
    pub(super) has_more: bool,
    /// Whether it takes the last place under way.
    pub(super) is_last: bool,
}

impl Share {
    fn stride(self, calls: u64) -> u64 {
        let whole = u128::from(STRIDE) * u128::from(calls) * u128::from(self.of_nodes.max(1));
        let stride = whole / (u128::from(self.weight.max(1)) * u128::from(self.active_nodes.max(1)));
        u64::try_from(stride).unwrap_or(u64::MAX)
    }
}

impl RightOfWay {
    /// A pool comes to the budget.
    pub(super) fn enter(&mut self, run: u32, pool: u32) {
        let pass = self.reached;
        self.claimants.push(Claimant { run, pool, pass, asked: Asked::No, absences: 0, makes_way: false });
    }

    /// A run's pools are gone.
    pub(super) fn leave(&mut self, run: u32) {
        self.claimants.retain(|claimant| claimant.run != run);
        self.turn = self.turn.take().filter(|turn| turn.run != run);
    }

    pub(super) fn runs(&self) -> impl Iterator<Item = u32> {
        self.claimants.iter().map(|claimant| claimant.run)
    }

    /// A run's pools.
    pub(super) fn pools_of(&self, run: u32) -> impl Iterator<Item = u32> {
        self.claimants.iter().filter(move |claimant| claimant.run == run).map(|claimant| claimant.pool)
    }

    pub(super) fn has_others(&self, run: u32) -> bool {
        self.claimants.iter().any(|claimant| claimant.run != run)
    }

    /// Whether more than one run comes here.
    fn is_shared(&self) -> bool {
        self.claimants.first().is_some_and(|first| self.has_others(first.run))
    }

    /// A pool has come. Returns whether others made way for it and are to be told that it has.
    pub(super) fn comes(&mut self, run: u32, pool: u32, now: Moment) -> bool {
        if !self.is_shared() {
            return false;
        }
        let Some(claimant) = find(&mut self.claimants, run, pool) else { return false };
        claimant.makes_way = false;
        match std::mem::replace(&mut claimant.asked, Asked::No) {
            Asked::Until(until) if until >= now => claimant.absences = 0,
            Asked::Served(until) if until >= now => {}
            Asked::ForCapacity => {}
            // It was not there: absence earns nothing.
            asked => {
                claimant.pass = claimant.pass.max(self.reached);
                let was_awaited = matches!(asked, Asked::Until(_));
                claimant.absences = claimant.absences.saturating_add(was_awaited.into());
            }
        }
        self.claimants.iter().any(|claimant| claimant.makes_way)
    }

    /// Until when a pool must leave the budget to others; `None`: it may go. Asked before it takes.
    pub(super) fn makes_way(&mut self, run: u32, pool: u32, now: Moment) -> Option<Moment> {
        let goes_on = |turn: &Turn| (turn.run, turn.pool) == (run, pool) && turn.left > 0 && turn.until > now;
        if self.turn.as_ref().is_some_and(goes_on) || !self.is_shared() {
            return None;
        }
        let pass = find(&mut self.claimants, run, pool)?.pass;
        let until = self
            .claimants
            .iter()
            .filter(|other| other.run != run && other.pass < pass)
            .filter_map(|other| match other.asked {
                Asked::Until(until) | Asked::Served(until) if until > now => Some(until),
                _ => None,
            })
            .max()?;
        let claimant = find(&mut self.claimants, run, pool)?;
        claimant.makes_way = true;
        claimant.asked = Asked::Until(until.plus(GRACE));
        Some(until)
    }

    /// A pool was told to come back at a moment.
    pub(super) fn waits(&mut self, run: u32, pool: u32, until: Moment) {
        self.turn = None;
        if self.is_shared()
            && let Some(claimant) = find(&mut self.claimants, run, pool)
        {
            claimant.asked = Asked::Until(until.plus(claimant.grace()));
            self.contended_until = Some(until.plus(GRACE));
        }
    }

    /// A pool was told to wait for a request of the budget to end.
    pub(super) fn waits_for_capacity(&mut self, run: u32, pool: u32) {
        self.turn = None;
        if let Some(claimant) = find(&mut self.claimants, run, pool) {
            claimant.asked = Asked::ForCapacity;
        }
    }

    /// A request of the budget ended: who waited for that goes first. Returns whether anybody did.
    pub(super) fn freed(&mut self, now: Moment) -> bool {
        let mut has_freed = false;
        for claimant in self.claimants.iter_mut().filter(|claimant| claimant.asked == Asked::ForCapacity) {
            claimant.asked = Asked::Until(now.plus(claimant.grace()));
            has_freed = true;
        }
        has_freed
    }

    /// The budget may be open sooner than some were told.
    pub(super) fn opened(&mut self, now: Moment) {
        for claimant in &mut self.claimants {
            if let Asked::Until(until) | Asked::Served(until) = &mut claimant.asked {
                *until = (*until).min(now.plus(GRACE));
            }
        }
    }

    /// A run hands out nothing for now: it has no right of way. Returns whether others made way.
    pub(super) fn yields(&mut self, run: u32) -> bool {
        for claimant in self.claimants.iter_mut().filter(|claimant| claimant.run == run) {
            if claimant.asked != Asked::ForCapacity {
                claimant.asked = Asked::No;
            }
        }
        self.claimants.iter().any(|claimant| claimant.makes_way)
    }

    /// A pool takes calls. Who has no more to do is not waited for.
    pub(super) fn takes(&mut self, run: u32, pool: u32, calls: u64, share: Share, now: Moment) {
        if !self.is_shared() {
            return;
        }
        let Some(claimant) = find(&mut self.claimants, run, pool) else { return };
        self.reached = self.reached.max(claimant.pass);
        claimant.pass = claimant.pass.saturating_add(share.stride(calls));
        if let Some(until) = self.contended_until.filter(|until| *until > now && share.has_more) {
            claimant.asked = Asked::Served(until);
        }
        match &mut self.turn {
            _ if share.is_last => self.turn = None,
            Some(turn) if (turn.run, turn.pool) == (run, pool) && turn.left > 0 => turn.left -= 1,
            turn => *turn = Some(Turn { run, pool, left: TURN_TASKS - 1, until: now.plus(GRACE) }),
        }
    }
}

impl Claimant {
    fn grace(&self) -> Duration {
        GRACE.checked_div(1 << self.absences.min(16)).unwrap_or_default()
    }
}

fn find(claimants: &mut [Claimant], run: u32, pool: u32) -> Option<&mut Claimant> {
    claimants.iter_mut().find(|claimant| (claimant.run, claimant.pool) == (run, pool))
}
