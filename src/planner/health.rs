//! Whether a node that fails is tried as often as the others: the back-off over runs.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::snapshot::NodeObservation;
use crate::api::{CatalogNodeSpec, NodeHealthSpec};
use crate::record::ContentHash;

/// How a node fares over runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "health")]
pub enum Health {
    /// It is tried in every run.
    Online,
    /// It failed again and again: it is tried less often.
    Offline(Outage),
    /// It has failed for long: it is tried rarely.
    Dead(Outage),
}

/// Since when a node fails, and until when it is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outage {
    /// The first of the runs in a row that failed.
    pub since: Timestamp,
    /// How many.
    pub failures: u32,
    /// When it is tried again.
    pub next_try: Timestamp,
}

impl Health {
    /// The outage, if there is one.
    pub fn outage(&self) -> Option<Outage> {
        match self {
            Self::Online => None,
            Self::Offline(outage) | Self::Dead(outage) => Some(*outage),
        }
    }
}

/// Judges a node by what is remembered of it. Pure.
///
/// A run counts as failed if nothing of the node could be read, and one that could read something makes it online. So does
/// a change of its `spec`: somebody may have mended it. From `offline.afterFailures` on it is offline; from
/// `dead.afterFailures` on, if the first and the last failure lie `dead.after` apart, it is dead. Either way it is tried
/// again after an interval that grows up to the state's maximum: an offline node's doubles with each failure, a dead one's
/// grows with the time for which it has failed. The node's own `recrawlInterval` counts if it is longer.
pub fn health(remembered: &NodeObservation, node: &CatalogNodeSpec, settings: &NodeHealthSpec) -> Health {
    let failures = remembered.failures_in_row;
    let (Some(since), Some(last)) = (remembered.failing_since, remembered.last_crawled_at) else {
        return Health::Online;
    };
    if failures == 0 || remembered.spec_hash != Some(spec_hash(node)) {
        return Health::Online;
    }
    let NodeHealthSpec { offline, dead } = settings;
    let reaches = |limit: u32| limit > 0 && failures >= limit;
    let own = node.recrawl_interval.unwrap_or_default().get();
    let outage = |interval: Duration| Outage {
        since,
        failures,
        next_try: last.checked_add(interval.max(own)).unwrap_or(Timestamp::MAX),
    };
    let lasted = Duration::try_from(last.duration_since(since)).unwrap_or_default();
    if reaches(dead.after_failures) && lasted >= dead.after.get() {
        let (initial, max) = (dead.initial_recrawl_interval.get(), dead.max_recrawl_interval.get());
        Health::Dead(outage(in_proportion(initial, lasted, dead.after.get().max(initial)).clamp(initial.min(max), max)))
    } else if reaches(offline.after_failures) {
        let (initial, max) = (offline.initial_recrawl_interval.get(), offline.max_recrawl_interval.get());
        Health::Offline(outage(doubled(initial, failures - offline.after_failures).min(max)))
    } else {
        Health::Online
    }
}

/// The hash of a node's `spec`, by which a change of it is noticed.
pub fn spec_hash(node: &CatalogNodeSpec) -> ContentHash {
    // A spec came from JSON, so that it can be written as JSON.
    ContentHash::of(&serde_json::to_vec(node).unwrap_or_default())
}

/// Doubled so many times.
fn doubled(interval: Duration, times: u32) -> Duration {
    interval.saturating_mul(1 << times.min(31))
}

/// The interval, as many times as `unit` goes into `lasted`.
fn in_proportion(interval: Duration, lasted: Duration, unit: Duration) -> Duration {
    let millis = interval.as_millis().saturating_mul(lasted.as_millis()) / unit.as_millis().max(1);
    Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{KubeDuration, Protocol};

    const HOUR: u64 = 3600;
    const DAY: u64 = 24 * HOUR;

    fn at(second: u64) -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap() + Duration::from_secs(second)
    }

    fn node() -> CatalogNodeSpec {
        CatalogNodeSpec::at("https://acme.example/", Protocol::DSP)
    }

    /// A node that failed so often, first at 0 and last at this second.
    fn failing(failures: u32, last: u64) -> NodeObservation {
        NodeObservation {
            last_crawled_at: Some(at(last)),
            failures_in_row: failures,
            failing_since: (failures > 0).then(|| at(0)),
            spec_hash: Some(spec_hash(&node())),
        }
    }

    fn judge(failures: u32, last: u64) -> Health {
        health(&failing(failures, last), &node(), &NodeHealthSpec::default())
    }

    fn outage(failures: u32, next_try: u64) -> Outage {
        Outage { since: at(0), failures, next_try: at(next_try) }
    }

    #[test]
    fn a_node_is_offline_from_the_third_failure_and_tried_after_growing_intervals() {
        assert_eq!(health(&NodeObservation::default(), &node(), &NodeHealthSpec::default()), Health::Online);
        let judged =
            [judge(0, 0), judge(1, 0), judge(2, 60), judge(3, 120), judge(4, 120), judge(7, 120), judge(99, 120)];
        let expected = [
            Health::Online,
            Health::Online,
            Health::Online,
            Health::Offline(outage(3, 120 + 900)),
            Health::Offline(outage(4, 120 + 1800)),
            Health::Offline(outage(7, 120 + 4 * HOUR)),
            Health::Offline(outage(99, 120 + 6 * HOUR)),
        ];
        assert_eq!(judged, expected);
    }

    #[test]
    fn a_node_is_dead_after_many_failures_over_a_long_time_and_tried_ever_more_rarely() {
        let judged =
            [judge(9, 8 * DAY), judge(10, 7 * DAY - 1), judge(10, 7 * DAY), judge(40, 14 * DAY), judge(60, 400 * DAY)];
        let expected = [
            Health::Offline(outage(9, 8 * DAY + 6 * HOUR)),
            Health::Offline(outage(10, 7 * DAY - 1 + 6 * HOUR)),
            Health::Dead(outage(10, 8 * DAY)),
            Health::Dead(outage(40, 16 * DAY)),
            Health::Dead(outage(60, 407 * DAY)),
        ];
        assert_eq!(judged, expected);
    }

    #[test]
    fn the_nodes_own_interval_counts_if_it_is_longer() {
        let slow = CatalogNodeSpec { recrawl_interval: Some(KubeDuration::from_hours(12)), ..node() };
        let observed = NodeObservation { spec_hash: Some(spec_hash(&slow)), ..failing(5, 60) };
        let expected = Health::Offline(outage(5, 60 + 12 * HOUR));
        assert_eq!(health(&observed, &slow, &NodeHealthSpec::default()), expected);
    }

    #[test]
    fn a_node_whose_spec_has_changed_is_online_until_it_fails_again() {
        let mended = CatalogNodeSpec::at("https://acme.example/dsp", Protocol::DSP);
        assert_eq!(health(&failing(50, 30 * DAY), &mended, &NodeHealthSpec::default()), Health::Online);
    }

    #[test]
    fn zero_failures_means_never() {
        let mut settings = NodeHealthSpec::default();
        settings.offline.after_failures = 0;
        assert_eq!(health(&failing(9, 30 * DAY), &node(), &settings), Health::Online);
        assert_eq!(health(&failing(10, 28 * DAY), &node(), &settings), Health::Dead(outage(10, 32 * DAY)));
        settings.dead.after_failures = 0;
        assert_eq!(health(&failing(9999, 999 * DAY), &node(), &settings), Health::Online);
    }

    #[test]
    fn extreme_settings_overflow_nothing() {
        let mut settings = NodeHealthSpec::default();
        let longest = KubeDuration::from(Duration::from_millis(i64::MAX.unsigned_abs() / 1_000_000));
        (settings.offline.initial_recrawl_interval, settings.offline.max_recrawl_interval) = (longest, longest);
        (settings.dead.initial_recrawl_interval, settings.dead.max_recrawl_interval) = (longest, longest);
        settings.dead.after = KubeDuration::default();
        for failures in [3, 10, u32::MAX] {
            let judged = health(&failing(failures, 9_000 * DAY), &node(), &settings);
            assert!(judged.outage().is_some_and(|outage| outage.next_try > at(9_000 * DAY)), "{judged:?}");
        }
    }
}
