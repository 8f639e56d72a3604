//! Approvals of held deletions: what people write into an annotation of the Catalog, and what became of it.

use std::collections::BTreeMap;

use crate::api::Catalog;
use crate::api::names::APPROVED_DELETIONS_ANNOTATION;
use crate::store::{SectionState, Store, StoreError};
use crate::task::{CatalogName, NodeName, SectionKey, SectionPath};

/// An approval: the section, and the number under which its deletion waits.
pub(crate) type Approval = (SectionKey, u64);

/// So many approvals are read: each is looked at whenever a section closes.
const MAX_APPROVALS: usize = 1000;

/// So many sentences are said about approvals; the rest is counted.
const MAX_SENTENCES: usize = 20;

/// The approvals that an annotation's text gives. What can't be read is left out: [`faults`] names it.
pub(crate) fn read(text: &str) -> Vec<Approval> {
    text.split_whitespace().filter_map(parse).take(MAX_APPROVALS).collect()
}

/// The approvals that a Catalog gives.
pub(crate) fn of_catalog(catalog: &Catalog) -> Vec<Approval> {
    let annotations = catalog.metadata.annotations.as_ref();
    read(annotations.and_then(|annotations| annotations.get(APPROVED_DELETIONS_ANNOTATION)).map_or("", String::as_str))
}

/// What of an annotation's text is no approval, one sentence each.
pub(crate) fn faults(text: &str) -> Vec<String> {
    let malformed = text.split_whitespace().filter(|word| parse(word).is_none());
    let mut faults = bounded(malformed.map(|word| format!("{:?} is no approval", shortened(word))));
    if text.split_whitespace().filter(|word| parse(word).is_some()).count() > MAX_APPROVALS {
        faults.push(format!("there are more than {MAX_APPROVALS} approvals; the others are not read"));
    }
    faults
}

/// `acme#7` or `acme/https://plant.example/dsp#7`.
fn parse(word: &str) -> Option<Approval> {
    let (section, number) = word.rsplit_once('#')?;
    let (node, path) = section.split_once('/').unwrap_or((section, ""));
    let key = SectionKey { node: NodeName::from(node), section: SectionPath::from(path) };
    Some((key, number.parse().ok()?)).filter(|_| !node.is_empty())
}

/// The word that approves the deletion that waits in a section under this number.
pub(crate) fn word_for(SectionKey { node, section }: &SectionKey, number: u64) -> String {
    if section.is_root() { format!("{node}#{number}") } else { format!("{node}/{section}#{number}") }
}

/// What is known, after a run, of the sections that approvals name.
pub(crate) async fn observe_approved(
    store: &dyn Store,
    catalog: &CatalogName,
    approvals: &[Approval],
) -> Result<BTreeMap<SectionKey, SectionState>, StoreError> {
    let mut known = BTreeMap::new();
    let mut nodes: Vec<&NodeName> = approvals.iter().map(|(section, _)| &section.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    for node in nodes {
        known.extend(store.sections(catalog, node).await?.into_iter().map(|state| (state.section.clone(), state)));
    }
    Ok(known)
}

/// Approvals that have let nothing go, one sentence each. An approval may stay in the annotation when its deletion is
/// made: it is not told of, unless something else waits there.
pub(crate) fn unused(approvals: &[Approval], known: &BTreeMap<SectionKey, SectionState>) -> Vec<String> {
    bounded(approvals.iter().filter_map(|(section, number)| {
        let word = word_for(section, *number);
        let word = shortened(&word);
        let Some(state) = known.get(section) else {
            let none = format!("nothing is known of {:?}", shortened(&section.to_string()));
            return Some(format!("{word:?} in {APPROVED_DELETIONS_ANNOTATION} approves nothing: {none}; correct it, or remove it"));
        };
        let (waits_as, records) = state.held?;
        if waits_as == *number {
            return Some(format!(
                "{word:?} in {APPROVED_DELETIONS_ANNOTATION} was not used yet: {records} records of {section} go with the \
                 next run that reads it in full and to its end"
            ));
        }
        let now = word_for(section, waits_as);
        Some(format!(
            "{word:?} in {APPROVED_DELETIONS_ANNOTATION} does not cover the {records} records of {section} whose deletion \
             is held now; if they are really gone, write {now:?} and run again"
        ))
    }))
}

fn bounded(mut sentences: impl Iterator<Item = String>) -> Vec<String> {
    let mut told: Vec<String> = sentences.by_ref().take(MAX_SENTENCES).collect();
    match sentences.count() {
        0 => {}
        more => told.push(format!("the same goes for {more} more words in {APPROVED_DELETIONS_ANNOTATION}")),
    }
    told
}

/// What a person wrote may be of any length.
fn shortened(word: &str) -> String {
    word.chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(node: &str, path: &str) -> SectionKey {
        SectionKey { node: node.into(), section: path.into() }
    }

    #[test]
    fn an_approval_is_read_as_it_is_written_and_what_is_none_is_named() {
        let text = " acme#7\n acme/https://plant.example/dsp#a#3 acme acme# #7 acme#-1 acme#seven ";
        let approvals = [(section("acme", ""), 7), (section("acme", "https://plant.example/dsp#a"), 3)];
        assert_eq!(read(text), approvals);
        assert_eq!(approvals.map(|(section, number)| word_for(&section, number)).join(" "), {
            "acme#7 acme/https://plant.example/dsp#a#3"
        });
        let none = ["acme", "acme#", "#7", "acme#-1", "acme#seven"].map(|word| format!("{word:?} is no approval"));
        assert_eq!(faults(text), none);
        assert_eq!((read(""), faults("acme#1")), (vec![], vec![]));
    }

    #[test]
    fn a_thousand_approvals_are_read_and_twenty_words_named() {
        let many = "acme#1 ".repeat(1001) + &"x ".repeat(25);
        assert_eq!(read(&many).len(), 1000);
        let faults = faults(&many);
        assert_eq!(faults.len(), 22);
        assert_eq!(
            faults[20..],
            [
                "the same goes for 5 more words in trawler.dev/approved-deletions",
                "there are more than 1000 approvals; the others are not read",
            ]
        );
    }

    #[test]
    fn an_approval_that_lets_nothing_go_is_told_with_the_number_to_approve() {
        let state = |section: SectionKey, held| {
            (section.clone(), SectionState { section, number: 9, last_complete: 9, records: 100, held })
        };
        let known = BTreeMap::from([
            state(section("acme", ""), Some((4, 40))),
            state(section("acme", "x"), None),
            state(section("beta", "y"), Some((5, 6))),
        ]);
        assert_eq!(
            unused(&read("acme#2 acme/x#1 beta/y#5 acme/z#1 ghost#1"), &known),
            [
                "\"acme#2\" in trawler.dev/approved-deletions does not cover the 40 records of acme whose deletion is held \
             now; if they are really gone, write \"acme#4\" and run again",
                "\"beta/y#5\" in trawler.dev/approved-deletions was not used yet: 6 records of beta › y go with the next run \
             that reads it in full and to its end",
                "\"acme/z#1\" in trawler.dev/approved-deletions approves nothing: nothing is known of \"acme › z\"; correct \
             it, or remove it",
                "\"ghost#1\" in trawler.dev/approved-deletions approves nothing: nothing is known of \"ghost\"; correct it, \
             or remove it",
            ]
        );
    }
}
