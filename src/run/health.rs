//! How nodes fared in a run, and whose records have outlived their time. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use super::observe::RunInput;
use crate::api::{CatalogNode, DeletionSpec, RemovalPolicy};
use crate::planner::NodeObservation;
use crate::store::{NodeReading, NodeState, SectionReport};
use crate::task::NodeName;

/// What a plan needs of what the store remembers.
pub(crate) fn observation_of(state: &NodeState) -> NodeObservation {
    let NodeState { last_crawled_at, failures_in_row, failing_since, spec_hash, .. } = *state;
    NodeObservation { last_crawled_at, failures_in_row, failing_since, spec_hash }
}

/// How much of a node could be read, by the reports of its sections in this run. `None`: it was not asked anything.
///
/// A limit that was reached, a page that failed among others, or a section that failed beside others is no failure of the
/// node: it is there. It has failed if requests failed and no section gave anything; whether by its own fault is not known
/// if a credential or settings of ours may be to blame.
pub(crate) fn reading_of(sections: &[&SectionReport]) -> Option<NodeReading> {
    // What was swept without having been asked for says nothing of the node.
    let asked = sections.iter().filter(|section| section.requests > 0 || section.partial.is_some());
    let is_complete = |section: &SectionReport| section.partial.is_none();
    let gave_something = |section: &SectionReport| {
        let seen = section.added + section.updated + section.unchanged;
        seen > 0 || (section.requests > 0 && section.failed_tasks == 0)
    };
    let mut reading = None;
    let mut all_complete = true;
    for section in asked {
        all_complete &= is_complete(section);
        if gave_something(section) {
            reading = Some(NodeReading::Partial);
        } else if section.failed_tasks > 0 {
            reading = reading.or(Some(NodeReading::Nothing));
        }
    }
    let may_be_ours = sections.iter().flat_map(|section| &section.failures).any(|task| task.may_be_ours);
    if reading == Some(NodeReading::Nothing) && may_be_ours {
        return Some(NodeReading::Inconclusive);
    }
    if reading == Some(NodeReading::Partial) && all_complete { Some(NodeReading::Complete) } else { reading }
}

/// Whether what could not be read in a run is to blame for that: another node could be read, so that our own line was up. A
/// Catalog of one node can't tell.
pub(crate) fn proves_absence(input: &RunInput, mut readings: impl Iterator<Item = NodeReading>) -> bool {
    let (selector, none) = (&input.catalog.spec.catalog_node_selector, BTreeMap::new());
    let is_active =
        |node: &&CatalogNode| !node.spec.suspend && selector.matches(node.metadata.labels.as_ref().unwrap_or(&none));
    readings.any(|reading| matches!(reading, NodeReading::Complete | NodeReading::Partial))
        || input.nodes.iter().filter(is_active).count() <= 1
}

/// Of nodes that could not be read, those whose records have outlived `spec.deletion.gracePeriod` and are to go.
///
/// The period is counted from the first run that proves the node missing to the last one: a machine that was switched off
/// for a month has not seen a node fail for a month, and one whose line was down has seen nothing.
pub(crate) fn expired_nodes<'a>(
    unread: impl IntoIterator<Item = &'a NodeName>,
    known: &BTreeMap<NodeName, NodeState>,
    deletion: &DeletionSpec,
) -> Vec<NodeName> {
    if deletion.after_grace_period == RemovalPolicy::Keep {
        return Vec::new();
    }
    let has_expired = |state: &NodeState| {
        let missing = state.last_crawled_at.zip(state.missing_since);
        let lasted = missing.and_then(|(last, since)| Duration::try_from(last.duration_since(since)).ok());
        state.records > 0
            && state.failures_in_row > 0
            && lasted.is_some_and(|lasted| lasted >= deletion.grace_period.get())
    };
    unread.into_iter().filter(|name| known.get(*name).is_some_and(has_expired)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::api::KubeDuration;

    fn section(seen: u64, requests: u64, failed_tasks: u64, partial: bool) -> SectionReport {
        serde_json::from_value(serde_json::json!({
            "node": "acme", "section": "", "number": 1, "added": 0, "updated": 0, "unchanged": seen, "deleted": 0,
            "keptUnseen": 0, "partial": partial.then_some("why"), "failedTasks": failed_tasks, "requests": requests,
            "bytes": 0, "protocol": "", "rejectedCount": 0,
        }))
        .unwrap()
    }

    #[test]
    fn a_node_has_failed_if_requests_failed_and_nothing_was_got() {
        let complete = section(5, 1, 0, false);
        let empty = section(0, 1, 0, false);
        let dead = section(0, 6, 1, true);
        let limited_before_a_record = section(0, 3, 0, true);
        let a_page_failed = section(10, 4, 1, true);
        let mut refused = dead.clone();
        refused.failures = serde_json::from_value(serde_json::json!([
            {"kind": "Root", "page": 0, "why": "answered 401", "mayBeOurs": true}
        ]))
        .unwrap();
        let not_reached = section(0, 0, 0, true);
        let swept = section(0, 0, 0, false);
        let cases: [(&[&SectionReport], Option<NodeReading>); 12] = [
            (&[&complete], Some(NodeReading::Complete)),
            (&[&complete, &swept], Some(NodeReading::Complete)),
            (&[&empty], Some(NodeReading::Complete)),
            (&[&complete, &dead], Some(NodeReading::Partial)),
            (&[&complete, &not_reached], Some(NodeReading::Partial)),
            (&[&limited_before_a_record], Some(NodeReading::Partial)),
            (&[&a_page_failed], Some(NodeReading::Partial)),
            (&[&dead, &swept, &not_reached], Some(NodeReading::Nothing)),
            (&[&refused, &dead], Some(NodeReading::Inconclusive)),
            (&[&complete, &refused], Some(NodeReading::Partial)),
            (&[&not_reached], None),
            (&[], None),
        ];
        for (sections, expected) in cases {
            assert_eq!(reading_of(sections), expected, "{sections:?}");
        }
    }

    #[test]
    fn records_expire_when_the_node_has_failed_throughout_the_period() {
        let at = |hour: i64| Timestamp::from_second(1_800_000_000 + hour * 3600).ok();
        let failing = |since: i64, last: i64, records: u64| NodeState {
            last_succeeded_at: at(-1000),
            last_crawled_at: at(last),
            failures_in_row: 2,
            failing_since: at(-999),
            missing_since: at(since),
            records,
            ..NodeState::default()
        };
        let known: BTreeMap<NodeName, NodeState> = [
            ("expired", failing(0, 24, 3)),
            ("too-soon", failing(0, 23, 3)),
            ("one-failure-after-a-long-pause", failing(24, 24, 3)),
            ("without-records", failing(0, 99, 0)),
            ("not-asked-about", failing(0, 99, 3)),
            ("read", NodeState { failures_in_row: 0, failing_since: None, ..failing(0, 99, 3) }),
            ("not-proven-missing", NodeState { missing_since: None, ..failing(0, 99, 3) }),
        ]
        .map(|(name, state)| (NodeName::from(name), state))
        .into();
        let unread: Vec<NodeName> = known.keys().filter(|name| name.as_str() != "not-asked-about").cloned().collect();
        let sweep = DeletionSpec {
            grace_period: KubeDuration::from_hours(24),
            after_grace_period: RemovalPolicy::Sweep,
            ..DeletionSpec::default()
        };
        assert_eq!(expired_nodes(&unread, &known, &sweep), [NodeName::from("expired")]);
        let keep = DeletionSpec { after_grace_period: RemovalPolicy::Keep, ..sweep };
        assert_eq!(expired_nodes(&unread, &known, &keep), []);
    }
}
