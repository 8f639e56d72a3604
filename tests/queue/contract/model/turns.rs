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

const TURN: u32 = 10;
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
        for place in open.iter().filter(|place| place.group == served.group) {
            let theirs = place.members();
            let level = (0..3).rev().find(|level| theirs[*level] != mine[*level]);
            let Some(level) = level else { continue };
            let weight = |is_among: &dyn Fn(&&Place) -> bool| {
                places.iter().filter(|place| !place.suspended).filter(is_among).count().max(1) as u64
            };
            let (cost, allowed) = match level {
                0 => (served.stride(), served.stride() + place.stride()),
                1 => (STRIDE / weight(&|other| other.lane() == served.lane()), 2 * STRIDE),
                _ => {
                    let is_among = |other: &&Place| (other.budget, other.group) == (served.budget, served.group);
                    (STRIDE / weight(&is_among), 2 * STRIDE)
                }
            };
            let overtaken = self.overtaken.entry((theirs[level], mine[level])).or_default();
            // A lane or pool with several places is passed over once.
            let places_of_it = open.iter().filter(|other| other.members()[level] == theirs[level]).count() as u64;
            *overtaken += cost * 840 / places_of_it;
            let allowed = allowed * u64::from(TURN) * 840 * ROOM / 2;
            demand(Law::Starved, *overtaken <= allowed, || format!("{:?} waits for {:?}", theirs[level], mine[level]))?;
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
