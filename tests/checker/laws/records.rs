//! What is held is what the servers hold: all of it, once, as it is now; and nothing is deleted that was not looked for.

use std::collections::{BTreeMap, BTreeSet};

use super::Crawl;
use crate::log::Seen;
use crate::stored::Key;
use crate::verdict::{Law, Verdict};

pub(super) fn judge(crawl: &Crawl, verdict: &mut Verdict) {
    let (before, after) = (crawl.before.by_key(), crawl.after.by_key());
    let complete = complete_nodes(&crawl.seen);
    let is_complete = |key: &Key| complete.contains(key.node.as_str());
    let mut broken = Broken(verdict);

    let mut times: BTreeMap<&Key, usize> = BTreeMap::new();
    crawl.after.0.iter().for_each(|(key, _)| *times.entry(key).or_default() += 1);
    broken.add(Law::Doubled, "held more than once", times.iter().filter(|(_, times)| **times > 1).map(|(key, _)| *key));

    let strangers = after.keys().copied().filter(|key| !crawl.truth.ever.contains(*key));
    broken.add(Law::Stranger, "held, though no server ever had it", strangers);

    let missing = || crawl.truth.now.keys().filter(|key| is_complete(key) && !after.contains_key(key));
    broken.add(Law::Lost, "served and not held", missing().filter(|key| !before.contains_key(key)));
    broken.add(Law::Swept, "deleted, though it still exists", missing().filter(|key| before.contains_key(key)));

    let unsought = before.keys().copied().filter(|key| !is_complete(key) && !after.contains_key(key));
    broken.add(Law::Swept, "deleted, though the traversal was not complete", unsought);

    let stale = crawl
        .truth
        .now
        .iter()
        .filter(|(key, content)| is_complete(key) && after.get(key).is_some_and(|held| held != content));
    broken.add(Law::Stale, "held in another version than the one served", stale.map(|(key, _)| key));

    let gone = after
        .keys()
        .copied()
        .filter(|key| is_complete(key) && crawl.truth.ever.contains(*key) && !crawl.truth.now.contains_key(*key));
    broken.add(Law::KeptGone, "held, though a complete traversal did not see it", gone);

    judge_partial(crawl, &complete, verdict);
}

/// Of a node that was not read to its end at least as many records are held as the pages had that were read.
fn judge_partial(crawl: &Crawl, complete: &BTreeSet<&str>, verdict: &mut Verdict) {
    let mut served: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    for seen in crawl.seen.iter().filter(|seen| seen.is_success() && !complete.contains(seen.node.as_str())) {
        served.entry(&seen.node).or_default().insert(&seen.request, seen.records);
    }
    for (node, pages) in served {
        let served: u64 = pages.values().sum();
        let held = crawl.after.by_key().keys().filter(|key| key.node == node).count() as u64;
        if held < served {
            verdict.add(Law::Lost, format!("node {node}: {served} records were served, {held} are held"));
        }
    }
}

/// The nodes that were read to their end: all that their answers made possible was asked for and answered.
fn complete_nodes(seen: &[Seen]) -> BTreeSet<&str> {
    let mut answered: BTreeMap<&str, BTreeMap<&str, u32>> = BTreeMap::new();
    for seen in seen.iter().filter(|seen| seen.is_success()) {
        answered.entry(&seen.node).or_default().insert(&seen.request, seen.opens);
    }
    let is_complete =
        |pages: &BTreeMap<&str, u32>| pages.len() as u64 == 1 + pages.values().copied().map(u64::from).sum::<u64>();
    answered.into_iter().filter(|(_, pages)| is_complete(pages)).map(|(node, _)| node).collect()
}

/// Adds one sentence per law and node.
struct Broken<'a>(&'a mut Verdict);

impl Broken<'_> {
    fn add<'k>(&mut self, law: Law, what: &str, keys: impl Iterator<Item = &'k Key>) {
        let mut by_node: BTreeMap<&str, Vec<&Key>> = BTreeMap::new();
        keys.for_each(|key| by_node.entry(&key.node).or_default().push(key));
        for (node, keys) in by_node {
            let first = &keys[0].id;
            let which = match keys.len() {
                1 => first.clone(),
                count => format!("{count} records, {first} and others"),
            };
            self.0.add(law, format!("node {node}: {what}: {which}"));
        }
    }
}
