//! A description in a form that does not depend on the order of triples nor on the names of blank nodes.
//!
//! Named rules, what takes no part in the hash: blank node names; the order of triples; the case of language tags;
//! IRIs under `/.well-known/genid/`, which servers make for blank nodes.
//!
//! Each blank node gets a *colour*: a hash of what is said about it and with it, refined round by round. The content
//! hash is over the lines with colours for names. Two descriptions that mean the same always have the same hash; two
//! that differ only in how more than [`MAX_ROUNDS`] interchangeable blank nodes are wired may share one, which is the
//! price of a bound: exact canonical labelling takes exponential time on graphs made to poison it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;

use super::graph::{Graph, TermId, Triple};
use crate::record::ContentHash;

/// Rounds of refinement. Each carries what distinguishes a node one step further.
const MAX_ROUNDS: usize = 16;

type Colour = [u8; 16];

/// A description's lasting form.
#[derive(Debug)]
pub(super) struct Canonical {
    /// The triples as N-Triples, sorted; blank nodes are named by their place.
    pub(super) triples: String,
    /// The hash.
    pub(super) hash: ContentHash,
}

/// The canonical form of the description of `root`.
pub(super) fn canonical(graph: &Graph, root: TermId, triples: &[Triple]) -> Canonical {
    let colours = colours_of(graph, root, triples);
    let labels = labels_of(graph, root, triples, &colours);
    let text = sorted_lines(graph, triples, |node| labels.get(&node).map(|place| format!("_:b{place}")));
    let hash = if colours.is_empty() {
        ContentHash::of(text.as_bytes())
    } else {
        let name = |node| colours.get(&node).map(|colour| format!("_:{}", data_encoding::HEXLOWER.encode(colour)));
        ContentHash::of(sorted_lines(graph, triples, name).as_bytes())
    };
    Canonical { triples: text, hash }
}

fn sorted_lines(graph: &Graph, triples: &[Triple], name: impl Fn(TermId) -> Option<String>) -> String {
    let mut lines: Vec<String> = triples
        .iter()
        .map(|triple| {
            let mut line = String::with_capacity(128);
            for &term in triple {
                match name(term) {
                    Some(name) => line.push_str(&name),
                    // Writing to a string can't fail.
                    None => write!(line, "{}", graph.term(term)).unwrap_or_default(),
                }
                line.push(' ');
            }
            line.push_str(".\n");
            line
        })
        .collect();
    lines.sort_unstable();
    lines.concat()
}

fn colours_of(graph: &Graph, root: TermId, triples: &[Triple]) -> HashMap<TermId, Colour> {
    // What is said about each blank node (false) and with it (true): direction, predicate, the other end.
    let mut facts: HashMap<TermId, Vec<(bool, TermId, TermId)>> = HashMap::new();
    for &[subject, predicate, object] in triples {
        if graph.is_blank(subject) {
            facts.entry(subject).or_default().push((false, predicate, object));
        }
        if graph.is_blank(object) {
            facts.entry(object).or_default().push((true, predicate, subject));
        }
    }
    if facts.is_empty() {
        return HashMap::new();
    }
    let mut fixed: HashMap<TermId, Colour> = HashMap::new();
    for term in triples.iter().flatten().filter(|term| !facts.contains_key(term)) {
        fixed.entry(*term).or_insert_with(|| short_hash(graph.term(*term).to_string().as_bytes()));
    }
    let mut colours: HashMap<TermId, Colour> =
        facts.keys().map(|node| (*node, if *node == root { [1; 16] } else { [0; 16] })).collect();
    let mut classes = 1;
    for _ in 0..MAX_ROUNDS {
        let colour_of = |term: TermId| colours.get(&term).or_else(|| fixed.get(&term)).copied().unwrap_or_default();
        let refined: HashMap<TermId, Colour> = facts
            .iter()
            .map(|(node, facts)| {
                let mut around: Vec<(bool, Colour, Colour)> = facts
                    .iter()
                    .map(|&(inward, predicate, other)| (inward, colour_of(predicate), colour_of(other)))
                    .collect();
                around.sort_unstable();
                let mut hasher = blake3::Hasher::new();
                hasher.update(&colour_of(*node));
                for (inward, predicate, other) in around {
                    hasher.update(&[u8::from(inward)]).update(&predicate).update(&other);
                }
                (*node, shortened(hasher.finalize()))
            })
            .collect();
        let refined_classes = refined.values().collect::<HashSet<_>>().len();
        colours = refined;
        if refined_classes == classes || refined_classes == colours.len() {
            break;
        }
        classes = refined_classes;
    }
    colours
}

/// Numbers for the blank nodes in the order in which a walk from the root meets them; nodes of one colour are
/// interchangeable wherever the description is a tree, which all but contrived ones are.
fn labels_of(
    graph: &Graph,
    root: TermId,
    triples: &[Triple],
    colours: &HashMap<TermId, Colour>,
) -> HashMap<TermId, usize> {
    let mut labels = HashMap::new();
    if colours.is_empty() {
        return labels;
    }
    let mut outward: HashMap<TermId, BTreeSet<(String, String, TermId)>> = HashMap::new();
    for &[subject, predicate, object] in triples {
        let object_key = colours
            .get(&object)
            .map_or_else(|| graph.term(object).to_string(), |colour| data_encoding::HEXLOWER.encode(colour));
        outward.entry(subject).or_default().insert((graph.term(predicate).to_string(), object_key, object));
    }
    let mut seen = HashSet::new();
    let mut waiting = vec![root];
    while let Some(node) = waiting.pop() {
        if !seen.insert(node) {
            continue;
        }
        if colours.contains_key(&node) {
            let place = labels.len();
            labels.insert(node, place);
        }
        if let Some(edges) = outward.get(&node) {
            waiting.extend(edges.iter().rev().map(|(_, _, object)| *object));
        }
    }
    labels
}

fn short_hash(bytes: &[u8]) -> Colour {
    shortened(blake3::hash(bytes))
}

fn shortened(hash: blake3::Hash) -> Colour {
    let mut colour = [0; 16];
    colour.copy_from_slice(&hash.as_bytes()[..16]);
    colour
}
