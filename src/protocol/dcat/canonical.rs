//! A description in a form that does not depend on the order of triples nor on the names of blank nodes.
//!
//! Named rules, what takes no part in the hash: blank node names; the order of triples; the case of language tags;
//! IRIs under `/.well-known/genid/`, which servers make for blank nodes.
//!
//! Each blank node gets a *colour*: a hash of what is said about it and with it, refined round by round. The content
//! hash is over the lines with colours for names. Two descriptions that mean the same always have the same hash; two
//! that differ only in how more than [`MAX_ROUNDS`] interchangeable blank nodes are wired may share one, which is the
//! price of a bound: exact canonical labelling takes exponential time on graphs made to poison it.

use std::collections::{HashMap, HashSet};

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
    let mut texts: HashMap<TermId, String> = HashMap::new();
    for &term in triples.iter().flatten() {
        texts.entry(term).or_insert_with(|| graph.term(term).to_string());
    }
    let colours = colours_of(graph, root, triples, &texts);
    texts.extend(colours.iter().map(|(node, colour)| (*node, format!("_:{}", data_encoding::HEXLOWER.encode(colour)))));
    let coloured = sorted_lines(triples, &texts);
    let hash = ContentHash::of(coloured.as_bytes());
    if colours.is_empty() {
        return Canonical { triples: coloured, hash };
    }
    let labels = labels_of(root, triples, &colours, &texts);
    texts.extend(labels.into_iter().map(|(node, place)| (node, format!("_:b{place}"))));
    Canonical { triples: sorted_lines(triples, &texts), hash }
}

fn sorted_lines(triples: &[Triple], texts: &HashMap<TermId, String>) -> String {
    let text_of = |term: &TermId| texts.get(term).map_or("", String::as_str);
    let mut lines: Vec<String> =
        triples.iter().map(|triple| triple.each_ref().map(text_of).join(" ") + " .\n").collect();
    lines.sort_unstable();
    lines.concat()
}

fn colours_of(
    graph: &Graph,
    root: TermId,
    triples: &[Triple],
    texts: &HashMap<TermId, String>,
) -> HashMap<TermId, Colour> {
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
    let fixed: HashMap<TermId, Colour> =
        texts.iter().map(|(term, text)| (*term, shortened(blake3::hash(text.as_bytes())))).collect();
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
    root: TermId,
    triples: &[Triple],
    colours: &HashMap<TermId, Colour>,
    texts: &HashMap<TermId, String>,
) -> HashMap<TermId, usize> {
    let mut outward: HashMap<TermId, Vec<Triple>> = HashMap::new();
    for triple in triples {
        outward.entry(triple[0]).or_default().push(*triple);
    }
    for edges in outward.values_mut() {
        edges.sort_by_key(|[_, predicate, object]| (texts.get(predicate), texts.get(object)));
    }
    let mut labels = HashMap::new();
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
            waiting.extend(edges.iter().rev().map(|[_, _, object]| *object));
        }
    }
    labels
}

fn shortened(hash: blake3::Hash) -> Colour {
    let mut colour = [0; 16];
    colour.copy_from_slice(&hash.as_bytes()[..16]);
    colour
}
