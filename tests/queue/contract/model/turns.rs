//! Turns, judged from what was handed out alone: a row of ten is not broken, and nobody who could go is overtaken by
//! anyone for longer than their weights say.

use std::collections::{HashMap, HashSet};

use super::laws::{Law, Verdict, demand};

/// A node's tasks for one origin: what is ready, and what stands first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) node: usize,
    pub(super) origin: usize,
    pub(super) budget: usize,
    pub(super) group: usize,
    pub(super) priority: i32,
    pub(super) suspended: bool,
    pub(super) ready: usize,
}

/// Origin, budget and group.
type Lane = (usize, usize, usize);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Member {
    Node(Lane, usize),
    Lane(Lane),
    /// The lanes of a budget and a group.
    Pool(usize, usize),
}

/// Whose row it is in each lane, and by how much who could go was overtaken by whom.
#[derive(Debug, Default)]
pub(super) struct Turns {
    rows: HashMap<Lane, (usize, u32)>,
    overtaken: HashMap<(Member, Member), u64>,
}

const TURN: u32 = 25;
const STRIDE: u64 = 2520;
/// In halves: who waited at a gate that opened may be woken a little later than others.
const ROOM: u64 = 3;

impl Place {
    fn lane(&self) -> Lane {
        (self.origin, self.budget, self.group)
    }

    /// What a task costs its node: less, the higher its priority.
    fn stride(&self) -> u64 {
        let steps = u64::from(self.priority.unsigned_abs().min(9)) + 1;
        if self.priority < 0 { STRIDE * steps } else { STRIDE / steps }
    }

    fn members(&self) -> [Member; 3] {
        [Member::Node(self.lane(), self.node), Member::Lane(self.lane()), Member::Pool(self.budget, self.group)]
    }
}

/// By whom somebody was passed over, what that counts, and what a turn of each would count.
struct Overtaking {
    by: Member,
    cost: u64,
    allowed: u64,
}

impl Overtaking {
    /// Of the widest thing that the place is part of and the one served isn't: its pool, else its lane, else its node.
    fn of(place: &Place, served: &Place, places: &[Place]) -> Option<(Member, Self)> {
        let (theirs, mine) = (place.members(), served.members());
        let level = (0..3).rev().find(|level| theirs[*level] != mine[*level])?;
        let by = mine[level];
        if level == 0 {
            let allowed = served.stride() + place.stride();
            return Some((theirs[0], Self { by, cost: served.stride(), allowed }));
        }
        let active = places.iter().filter(|other| !other.suspended && other.members()[level] == by).count();
        Some((theirs[level], Self { by, cost: STRIDE / active.max(1) as u64, allowed: 2 * STRIDE }))
    }
}

impl Turns {
    /// Something was changed that gives turns anew.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// A node left the turns, or came back.
    pub(super) fn interrupt(&mut self, node: usize) {
        self.rows.retain(|_, row| row.0 != node);
    }

    /// A task of `served` was handed out, while `places` had work, of which `open` could have gone.
    pub(super) fn served(&mut self, served: &Place, places: &[Place], open: &[Place]) -> Verdict {
        self.keep_row(served, places)?;
        let eligible: HashSet<Member> = open.iter().flat_map(Place::members).collect();
        let mine = served.members();
        self.overtaken.retain(|(member, _), _| eligible.contains(member) && !mine.contains(member));
        let passed_over: HashMap<Member, Overtaking> = open
            .iter()
            .filter(|place| place.group == served.group)
            .filter_map(|place| Overtaking::of(place, served, places))
            .collect();
        for (member, Overtaking { by, cost, allowed }) in passed_over {
            let overtaken = self.overtaken.entry((member, by)).or_default();
            *overtaken += cost;
            let allowed = allowed * u64::from(TURN) * ROOM / 2;
            demand(Law::Starved, *overtaken <= allowed, || format!("{member:?} waits for {by:?}"))?;
        }
        Ok(())
    }

    fn keep_row(&mut self, served: &Place, places: &[Place]) -> Verdict {
        let lane = served.lane();
        let (node, length) = self.rows.get(&lane).copied().unwrap_or((served.node, 0));
        let goes_on = length % TURN != 0
            && places.iter().any(|place| place.lane() == lane && place.node == node && !place.suspended);
        demand(Law::Turns, !goes_on || node == served.node, || {
            format!("the row of the node {node} was broken after {length} tasks by the node {}", served.node)
        })?;
        let length = if node == served.node { length + 1 } else { 1 };
        if served.ready > 1 {
            self.rows.insert(lane, (served.node, length));
        } else {
            self.rows.remove(&lane);
        }
        Ok(())
    }
}
