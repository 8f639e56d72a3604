//! Whether a report says what the model says.

use std::collections::BTreeMap;

use trawler::local::{NodeResult, Report, RunOutcome, Totals};
use trawler::store::SectionReport;

use crate::model::{Facts, Found, Key};
use crate::traversal::{Held, Outcome};

/// Compares a report with what the model says of each section, and with what was found in the store.
pub(crate) fn compare(
    report: &Report,
    facts: &Facts<'_>,
    outcomes: &BTreeMap<Key, Outcome>,
    found: &BTreeMap<Key, Found>,
) -> Result<(), String> {
    let mut told: BTreeMap<Key, Outcome> = BTreeMap::new();
    for section in report.nodes.iter().flat_map(|node| &node.sections) {
        told.insert(crate::drive::key_of(&section.section), outcome_of(section));
    }
    if told != *outcomes {
        return Err(format!("the report tells\n  {told:?}\nand should tell\n  {outcomes:?}"));
    }
    let states: BTreeMap<usize, NodeResult> =
        report.nodes.iter().map(|node| (node.name.as_str()[1..].parse().unwrap(), node.state)).collect();
    let expected = expected_states(facts, outcomes);
    if states != expected {
        return Err(format!("the nodes are told to be {states:?} and are {expected:?}"));
    }
    let (totals, expected) = (report.totals, expected_totals(report, facts, outcomes, found));
    if totals != expected {
        return Err(format!("the totals are told to be {totals:?} and are {expected:?}"));
    }
    let is = |state: NodeResult| states.values().filter(|other| **other == state).count();
    let (failed, partial, complete) = (is(NodeResult::Failed), is(NodeResult::Partial), is(NodeResult::Complete));
    let expected = match (failed + partial, failed == failed + partial + complete) {
        (0, _) => RunOutcome::Complete,
        (_, true) => RunOutcome::Failed,
        (_, false) => RunOutcome::PartiallyComplete,
    };
    if report.outcome == expected { Ok(()) } else { Err(format!("{:?} is told of {states:?}", report.outcome)) }
}

fn outcome_of(section: &SectionReport) -> Outcome {
    Outcome {
        added: section.added,
        updated: section.updated,
        unchanged: section.unchanged,
        deleted: section.deleted,
        kept_unseen: section.kept_unseen,
        partial: section.partial.is_some(),
        held: section.held_as.zip(section.held).map(|(number, records)| Held { number, records }),
    }
}

fn expected_states(facts: &Facts<'_>, outcomes: &BTreeMap<Key, Outcome>) -> BTreeMap<usize, NodeResult> {
    let mut states = BTreeMap::new();
    for (number, node) in facts.nodes.iter().enumerate() {
        let sections: Vec<&Outcome> =
            outcomes.iter().filter(|((node, _), _)| *node == number).map(|(_, outcome)| outcome).collect();
        let seen: u64 = sections.iter().map(|section| section.added + section.updated + section.unchanged).sum();
        let is_partial = sections.iter().any(|section| section.partial);
        let state = match (node.is_selected, is_partial, seen) {
            (false, ..) if sections.is_empty() => continue,
            (false, ..) => NodeResult::Removed,
            (true, true, 0) => NodeResult::Failed,
            (true, true, _) => NodeResult::Partial,
            (true, false, _) => NodeResult::Complete,
        };
        states.insert(number, state);
    }
    states
}

/// Bytes and unreadable entries are taken over; requests too, unless each one is known.
fn expected_totals(
    report: &Report,
    facts: &Facts<'_>,
    outcomes: &BTreeMap<Key, Outcome>,
    found: &BTreeMap<Key, Found>,
) -> Totals {
    let sum = |count: fn(&Outcome) -> u64| outcomes.values().map(count).sum();
    let is_known = !facts.was_killed && facts.nodes.iter().all(|node| !node.is_down);
    let requests = facts.requests.values().map(|requests| requests.len() as u64).sum();
    Totals {
        records: found.values().map(|section| section.records.len() as u64).sum(),
        added: sum(|outcome| outcome.added),
        updated: sum(|outcome| outcome.updated),
        unchanged: sum(|outcome| outcome.unchanged),
        deleted: sum(|outcome| outcome.deleted),
        kept_unseen: sum(|outcome| outcome.kept_unseen),
        requests: if is_known { requests } else { report.totals.requests },
        ..report.totals
    }
}
