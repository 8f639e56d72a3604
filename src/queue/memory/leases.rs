//! Live leases, and when they expire.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{BuildHasher, RandomState};

use slab::Slab;

use super::lanes::Picked;
use crate::queue::LeaseRef;
use crate::queue::gate::Moment;
use crate::task::TaskId;

/// A holder's hold on a task.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) number: u64,
    pub(super) id: TaskId,
    pub(super) token: u32,
    pub(super) picked: Picked,
    pub(super) expires: Moment,
    /// When its last request was permitted.
    pub(super) sent_at: Moment,
    /// The other origin that its last request went to (a redirect, a token endpoint).
    pub(super) elsewhere: Option<u32>,
}

/// All live leases of a run.
///
/// A lease's number holds its key, and a count that starts at random: numbers of a queue that was lost, or of a lease
/// that ended, fit nothing.
#[derive(Debug)]
pub(super) struct Leases {
    live: Slab<Lease>,
    count: u32,
    /// Entries of leases that ended or were renewed are stale; dropped when they are reached or outnumber the others.
    expiries: BinaryHeap<Reverse<(Moment, u64)>>,
}

impl Default for Leases {
    fn default() -> Self {
        Self { live: Slab::new(), count: random(), expiries: BinaryHeap::new() }
    }
}

impl Leases {
    pub(super) fn grant(&mut self, token: u32, id: TaskId, picked: Picked, now: Moment, expires: Moment) -> LeaseRef {
        self.count = self.count.wrapping_add(1);
        let slot = self.live.vacant_entry();
        let number = u64::from(self.count) << 32 | u64::from(super::lanes::index(slot.key()));
        slot.insert(Lease { number, id, token, picked, expires, sent_at: now, elsewhere: None });
        self.expire_at(expires, number);
        LeaseRef { task: id, lease: number }
    }

    fn expire_at(&mut self, expires: Moment, number: u64) {
        if self.expiries.len() > 2 * self.live.len() + 64 {
            let live = &self.live;
            self.expiries.retain(|Reverse((expires, number))| is_current(live, *expires, *number));
        }
        self.expiries.push(Reverse((expires, number)));
    }

    /// A holder's live lease.
    pub(super) fn get(&mut self, token: u32, lease: LeaseRef) -> Option<&mut Lease> {
        let found = self.live.get_mut(key(lease.lease))?;
        (found.number == lease.lease && found.id == lease.task && found.token == token).then_some(found)
    }

    /// Ends a holder's live lease.
    pub(super) fn end(&mut self, token: u32, lease: LeaseRef) -> Option<Lease> {
        self.get(token, lease)?;
        self.live.try_remove(key(lease.lease))
    }

    /// Ends all leases of a holder.
    pub(super) fn end_all(&mut self, token: u32) -> Vec<Lease> {
        let keys: Vec<usize> = self.live.iter().filter(|(_, lease)| lease.token == token).map(|(key, _)| key).collect();
        keys.into_iter().filter_map(|key| self.live.try_remove(key)).collect()
    }

    /// Ends all leases.
    pub(super) fn take_all(&mut self) -> Vec<Lease> {
        self.live.drain().collect()
    }

    /// Lengthens a holder's live lease; returns whether there was one.
    pub(super) fn renew(&mut self, token: u32, lease: LeaseRef, expires: Moment) -> bool {
        let Some(found) = self.get(token, lease) else { return false };
        found.expires = expires;
        self.expire_at(expires, lease.lease);
        true
    }

    /// Ends one lease that has expired.
    pub(super) fn expire(&mut self, now: Moment) -> Option<Lease> {
        self.next_expiry().filter(|expires| *expires <= now)?;
        let Reverse((_, number)) = self.expiries.pop()?;
        self.live.try_remove(key(number))
    }

    /// When the next lease expires.
    pub(super) fn next_expiry(&mut self) -> Option<Moment> {
        while let Some(&Reverse((expires, number))) = self.expiries.peek() {
            if is_current(&self.live, expires, number) {
                return Some(expires);
            }
            self.expiries.pop();
        }
        None
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Lease> {
        self.live.iter().map(|(_, lease)| lease)
    }
}

/// A number that is not guessed twice.
pub(super) fn random() -> u32 {
    let [first, second, third, fourth, ..] = RandomState::new().hash_one(0).to_le_bytes();
    u32::from_le_bytes([first, second, third, fourth])
}

fn is_current(live: &Slab<Lease>, expires: Moment, number: u64) -> bool {
    live.get(key(number)).is_some_and(|lease| lease.number == number && lease.expires == expires)
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
fn key(number: u64) -> usize {
    number as u32 as usize
}
