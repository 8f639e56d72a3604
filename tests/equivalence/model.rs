//! What a run must come to: every section by its traversal, and what falls to sections that nobody lists or wants.

use std::collections::{BTreeMap, BTreeSet};

use trawler::store::DeletionGuard;

use crate::history::{Limit, Speaks};
use crate::traversal::{Changes, End, Ending, Known, Outcome, Terms, taken};
use crate::world::Entry;

/// A node and one of its sections.
pub(crate) type Key = (usize, usize);

/// The Catalog as the store must have it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    pub(crate) sections: BTreeMap<Key, Known>,
    /// Which sections a section lists, as far as is known.
    edges: BTreeMap<Key, BTreeSet<usize>>,
}

/// What is known of a run, besides what servers said.
#[derive(Debug, Clone)]
pub(crate) struct Facts<'l> {
    /// The requests of each section, in order.
    pub(crate) requests: BTreeMap<Key, Vec<&'l Entry>>,
    pub(crate) nodes: Vec<NodeFacts>,
    pub(crate) guard: DeletionGuard,
    /// Sections of which the held sweep is approved.
    pub(crate) approved: BTreeSet<Key>,
    pub(crate) was_killed: bool,
    /// It asks for what changed, where that can be asked.
    pub(crate) incremental: bool,
}

/// A node in a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeFacts {
    pub(crate) speaks: Speaks,
    pub(crate) page_size: usize,
    pub(crate) sections: usize,
    pub(crate) limit: Option<Limit>,
    pub(crate) is_selected: bool,
    /// It refuses connections.
    pub(crate) is_down: bool,
}

/// A section as it was found in the store after a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Ids with the version that the payload tells.
    pub(crate) records: BTreeMap<String, u64>,
    pub(crate) changes: Changes,
    /// The number of its last traversal, and of its last complete one.
    pub(crate) number: u64,
    pub(crate) last_complete: u64,
    /// The held deletion: its number, and how many records would go.
    pub(crate) held: Option<(u64, u64)>,
}

impl Ending {
    /// What the store must hold afterwards.
    pub(crate) fn expected(&self) -> Found {
        Found {
            records: self.known.records.iter().map(|(id, kept)| (id.clone(), kept.version)).collect(),
            changes: self.changes.clone(),
            number: self.known.number,
            last_complete: self.known.last_complete,
            held: self.known.held.map(|held| (held.number, held.records)),
        }
    }
}

/// Looks a section up in the store.
type Look<'a> = &'a dyn Fn(Key) -> Found;

impl Model {
    /// A run has ended. The outcome of each section that must be in its report.
    pub(crate) fn finish(&mut self, facts: &Facts<'_>, look: Look<'_>) -> Result<BTreeMap<Key, Outcome>, String> {
        self.settle(facts, End::Own, look)
    }

    /// A run was abandoned: what was under way when it was killed may have been taken in or not, and the store tells
    /// which; but it must be one of the two.
    pub(crate) fn abandon(&mut self, facts: &Facts<'_>, look: Look<'_>) -> Result<(), String> {
        self.settle(facts, End::CutShort, look).map(drop)
    }

    fn settle(&mut self, facts: &Facts<'_>, end: End, look: Look<'_>) -> Result<BTreeMap<Key, Outcome>, String> {
        let mut outcomes = BTreeMap::new();
        let mut is_traversed = facts.requests.keys().copied().collect::<BTreeSet<Key>>();
        is_traversed.extend(facts.selected().filter(|(_, node)| node.is_down).map(|(number, _)| (number, 0)));
        for key in &is_traversed {
            let endings = self.traversals(*key, facts, end);
            let endings = endings.map_err(|why| format!("section {} of node {}: {why}", key.1, key.0))?;
            let ending = choose(endings, *key, look)?;
            if let Some(listed) = &ending.listed {
                self.list(*key, listed, &ending.outcome);
            }
            outcomes.insert(*key, ending.outcome);
            self.sections.insert(*key, ending.known);
        }
        let everywhere = facts.nodes.iter().enumerate();
        let everywhere = everywhere.flat_map(|(number, node)| (0..node.sections).map(move |section| (number, section)));
        for key in everywhere.filter(|key| !is_traversed.contains(key)) {
            let known = self.sections.get(&key).cloned().unwrap_or_default();
            let is_gone = !facts.nodes[key.0].is_selected || !self.is_reachable(key);
            let may_go = is_gone && !known.records.is_empty();
            let mut endings = Vec::new();
            if may_go {
                endings.push(known.gone(facts.guard, facts.approved.contains(&key)));
            }
            if !may_go || end == End::CutShort {
                endings.push(known.untouched());
            }
            if end == End::CutShort {
                endings.push(known.opened());
            }
            let ending = choose(endings, key, look)?;
            if may_go {
                outcomes.insert(key, ending.outcome);
            }
            self.sections.insert(key, ending.known);
        }
        for (key, requests) in facts.requests.iter().filter(|_| end == End::Own) {
            let (answers, _) = taken(requests);
            for nested in answers.iter().flat_map(|answer| &answer.listed) {
                if !facts.requests.contains_key(&(key.0, *nested)) {
                    return Err(format!("section {nested} of node {} was listed and never asked for", key.0));
                }
            }
        }
        Ok(outcomes)
    }

    /// What may have become of a section that was traversed: one thing, if the run came to its end.
    fn traversals(&self, key: Key, facts: &Facts<'_>, end: End) -> Result<Vec<Ending>, String> {
        let known = self.sections.get(&key).cloned().unwrap_or_default();
        let node = facts.nodes[key.0];
        let terms = Terms {
            speaks: node.speaks,
            page_size: node.page_size,
            limit: node.limit,
            guard: facts.guard,
            approved: facts.approved.contains(&key),
            incremental: facts.incremental,
            was_killed: facts.was_killed,
            had_nested: self.edges.get(&key).is_some_and(|edges| !edges.is_empty()),
        };
        let requests = facts.requests.get(&key).map_or(&[][..], Vec::as_slice);
        let (answers, gave_up) = taken(requests);
        let gave_up = gave_up || node.is_down;
        if end == End::Own {
            return Ok(vec![known.traversed(&answers, gave_up, End::Own, &terms)?]);
        }
        let mut endings = vec![known.traversed(&answers, gave_up, End::CutShort, &terms)?];
        // It may have been closed before the kill.
        endings.extend(known.traversed(&answers, gave_up, End::Own, &terms));
        match answers.split_last() {
            Some((_, before)) => endings.push(known.traversed(before, false, End::CutShort, &terms)?),
            None => endings.push(known.untouched()),
        }
        Ok(endings)
    }

    /// A complete traversal's list takes the place of the one before; any other one adds to it.
    fn list(&mut self, key: Key, listed: &BTreeSet<usize>, outcome: &Outcome) {
        let edges = self.edges.entry(key).or_default();
        if !outcome.partial && outcome.held.is_none() {
            edges.clear();
        }
        edges.extend(listed.iter().copied());
    }

    /// Whether somebody lists a section, as far as is known.
    fn is_reachable(&self, (node, section): Key) -> bool {
        let mut reached = BTreeSet::from([0]);
        let mut to_visit = vec![0];
        while let Some(parent) = to_visit.pop() {
            for nested in self.edges.get(&(node, parent)).into_iter().flatten() {
                if reached.insert(*nested) {
                    to_visit.push(*nested);
                }
            }
        }
        reached.contains(&section)
    }
}

impl Facts<'_> {
    fn selected(&self) -> impl Iterator<Item = (usize, &NodeFacts)> {
        self.nodes.iter().enumerate().filter(|(_, node)| node.is_selected)
    }
}

/// The ending that the store shows.
fn choose(endings: Vec<Ending>, key: Key, look: Look<'_>) -> Result<Ending, String> {
    let found = look(key);
    let expected: Vec<Found> = endings.iter().map(Ending::expected).collect();
    let position = expected.iter().position(|expected| *expected == found);
    let chosen = position.and_then(|at| endings.into_iter().nth(at));
    chosen.ok_or_else(|| format!("section {} of node {} is\n  {found:?}\nand should be\n  {expected:?}", key.1, key.0))
}
