//! Taking turns, weighted: stride scheduling with a quantum.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::queue::TURN_TASKS;

/// Members that take turns. Who is listed has work; the one that was served least, by its weight, comes next.
#[derive(Debug, Default)]
pub(super) struct Turns {
    heap: BinaryHeap<Reverse<Entry>>,
    current: Option<Entry>,
    left: u32,
    /// The pass of the latest turn: who enters starts from here, so that absence earns nothing.
    reached: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    pass: u64,
    ticket: u64,
    index: u32,
}

/// A member's place.
#[derive(Debug, Default)]
pub(super) struct Place {
    pass: u64,
    /// Of the entry that lists it; 0: not listed. Entries with another ticket are stale and passed over.
    ticket: u64,
}

impl Place {
    /// Whether it is listed.
    pub(super) fn is_listed(&self) -> bool {
        self.ticket != 0
    }

    /// What [`Turns::first`] compares.
    pub(super) fn ticket(&self) -> u64 {
        self.ticket
    }

    /// Takes it off the list.
    pub(super) fn leave(&mut self) {
        self.ticket = 0;
    }
}

impl Turns {
    /// Lists a member behind those with an equal pass. Tickets are unique and grow.
    pub(super) fn enter(&mut self, place: &mut Place, index: u32, ticket: u64) {
        place.pass = place.pass.max(self.reached);
        place.ticket = ticket;
        self.heap.push(Reverse(Entry { pass: place.pass, ticket, index }));
    }

    /// Whose turn it is. `ticket_of` tells a member's present ticket.
    pub(super) fn first(&mut self, ticket_of: impl Fn(u32) -> u64) -> Option<u32> {
        let is_listed = |entry: &Entry| ticket_of(entry.index) == entry.ticket;
        self.current = self.current.filter(is_listed);
        if let Some(entry) = self.current {
            return Some(entry.index);
        }
        while let Some(Reverse(entry)) = self.heap.pop() {
            if is_listed(&entry) {
                self.reached = self.reached.max(entry.pass);
                self.current = Some(entry);
                self.left = TURN_TASKS;
                return Some(entry.index);
            }
        }
        None
    }

    /// The member whose turn it is was given one task, which costs it `stride`.
    pub(super) fn served(&mut self, place: &mut Place, stride: u64) {
        place.pass = place.pass.saturating_add(stride);
        self.left = self.left.saturating_sub(1);
        if self.left == 0
            && let Some(entry) = self.current.take()
        {
            self.heap.push(Reverse(Entry { pass: place.pass, ..entry }));
        }
    }
}
