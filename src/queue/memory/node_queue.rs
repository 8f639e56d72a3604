//! One node's ready tasks for one origin.

use std::collections::{HashSet, VecDeque};

use super::turns::Place;
use crate::task::ItemStatus;

/// A ready task: where it is kept, and what order and gates need to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Item {
    /// Its place in line: smaller is older.
    pub(super) seq: u64,
    /// Its key among the run's tasks.
    pub(super) task: u32,
    /// Whether its request costs the node's calls per document.
    pub(super) is_dataset: bool,
    /// Whether a crawler crashed while it worked on it.
    pub(super) is_suspect: bool,
}

/// A node's ready tasks for one origin, by status, then oldest first.
#[derive(Debug)]
pub(super) struct NodeQueue {
    pub(super) node: u32,
    pub(super) lane: u32,
    pub(super) place: Place,
    by_status: [VecDeque<Item>; 4],
    /// Tasks that were being worked on in a crash: they take no turns.
    suspects: VecDeque<Item>,
}

impl NodeQueue {
    pub(super) fn new(node: u32, lane: u32) -> Self {
        Self { node, lane, place: Place::default(), by_status: Default::default(), suspects: VecDeque::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.by_status.iter().map(VecDeque::len).sum::<usize>() + self.suspects.len()
    }

    /// Holds nothing at all.
    pub(super) fn is_empty(&self) -> bool {
        !self.has_turns() && self.suspects.is_empty()
    }

    /// Holds tasks that take turns.
    pub(super) fn has_turns(&self) -> bool {
        self.by_status.iter().any(|items| !items.is_empty())
    }

    /// Puts a task in its place. What comes back has a small number and is near the front: cheap at either end.
    pub(super) fn insert(&mut self, status: ItemStatus, item: Item) {
        let items = if item.is_suspect { &mut self.suspects } else { &mut self.by_status[status as usize] };
        if items.back().is_none_or(|last| last.seq < item.seq) {
            items.push_back(item);
        } else {
            items.insert(items.partition_point(|other| other.seq < item.seq), item);
        }
    }

    pub(super) fn first(&self) -> Option<Item> {
        self.by_status.iter().find_map(|items| items.front().copied())
    }

    pub(super) fn pop(&mut self) -> Option<Item> {
        self.by_status.iter_mut().find_map(VecDeque::pop_front)
    }

    pub(super) fn first_suspect(&self) -> Option<Item> {
        self.suspects.front().copied()
    }

    pub(super) fn pop_suspect(&mut self) -> Option<Item> {
        self.suspects.pop_front()
    }

    /// Takes tasks out, wherever they stand.
    pub(super) fn remove(&mut self, tasks: &HashSet<u32>) {
        let lines = self.by_status.iter_mut().chain([&mut self.suspects]);
        lines.for_each(|items| items.retain(|item| !tasks.contains(&item.task)));
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = Item> {
        self.by_status.iter().flatten().chain(&self.suspects).copied()
    }

    /// Takes all out.
    pub(super) fn drain(&mut self) -> Vec<Item> {
        self.by_status.iter_mut().chain([&mut self.suspects]).flat_map(std::mem::take).collect()
    }
}
