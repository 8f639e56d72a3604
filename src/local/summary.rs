//! A run in one line, what matters first: a terminal cuts what does not fit. Pure.

use std::time::Duration;

use jiff::Timestamp;

use super::text::shown;
use super::time_left::Estimate;
use super::waiting::why_it_waits;
use crate::crawler::NodeCounts;
use crate::queue::LaneStatus;
use crate::task::NodeName;

/// The widest name of a node that is shown whole.
pub(super) const NAME_WIDTH: usize = 24;

/// What the line is made of.
#[derive(Debug)]
pub(super) struct Summary<'a> {
    pub(super) nodes: &'a [(&'a NodeName, NodeCounts)],
    pub(super) lanes: &'a [LaneStatus],
    pub(super) tasks_waiting: u64,
    pub(super) time_left: Option<Estimate>,
    /// Since the run began or was resumed.
    pub(super) elapsed: Duration,
    pub(super) now: Timestamp,
}

impl Summary<'_> {
    /// What was got, how fast, how long it will still take, what waits and why.
    pub(super) fn line(&self) -> String {
        let (mut records, mut new_records, mut requests, mut finished) = (0, 0, 0, 0);
        for (_, counts) in self.nodes {
            records += counts.records;
            new_records += counts.new_records();
            requests += counts.requests;
            finished += usize::from(counts.is_finished());
        }
        let seconds = self.elapsed.as_secs_f64().max(0.001);
        let rate = new_records as f64 / seconds;
        let time_left = self.time_left.map(|left| format!("{}, ", left.text())).unwrap_or_default();
        let waiting = self.waiting().map(|waiting| format!("; {waiting}")).unwrap_or_default();
        format!(
            "{seconds:.0} s: {} ({rate:.0}/s), {time_left}{}, {finished} of {} done, {} waiting{waiting}",
            counted(records, "record"),
            counted(requests, "request"),
            counted(self.nodes.len() as u64, "node"),
            counted(self.tasks_waiting, "task"),
        )
    }

    /// The first lane that waits, by the first of its nodes.
    fn waiting(&self) -> Option<String> {
        let mut idle = self.lanes.iter().filter(|lane| lane.leased == 0);
        let (lane, waiting) = idle.find_map(|lane| Some((lane, lane.waiting.as_ref()?)))?;
        let name = lane.nodes.first();
        let counts = self.nodes.iter().find(|(node, _)| Some(*node) == name).map(|(_, counts)| counts);
        let why = why_it_waits(waiting, counts.and_then(|counts| counts.last_problem.as_deref()), self.now);
        Some(match name {
            Some(name) => format!("{} {why}", shown(name.as_str(), NAME_WIDTH)),
            None => why,
        })
    }
}

/// "1 task", "2 tasks".
pub(super) fn counted(count: u64, what: &str) -> String {
    format!("{count} {}", plural(count, what))
}

/// "task" for one, "tasks" else.
pub(super) fn plural(count: u64, what: &str) -> String {
    format!("{what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{BudgetId, Gate, Waiting};
    use crate::task::OriginKey;

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    fn retried_in_6_6_s(nodes: &[&str]) -> LaneStatus {
        LaneStatus {
            origin: OriginKey::from("https://slow.example:443"),
            budget: BudgetId("open".into()),
            nodes: nodes.iter().map(|name| NodeName::from(*name)).collect(),
            queued: 1,
            leased: 0,
            calls_per_s: None,
            waiting: Some(Waiting { gate: Gate::Delay, until: now() + Duration::from_millis(6_600) }),
        }
    }

    fn line_after_10_s(counts: &[NodeCounts], lanes: &[LaneStatus], time_left: Option<Estimate>) -> String {
        let names = ["slow", "swift"].map(NodeName::from);
        let nodes: Vec<_> = names.iter().zip(counts.iter().cloned()).collect();
        let tasks_waiting = lanes.iter().map(|lane| lane.queued).sum();
        let elapsed = Duration::from_secs(10);
        Summary { nodes: &nodes, lanes, tasks_waiting, time_left, elapsed, now: now() }.line()
    }

    fn slow() -> NodeCounts {
        let last_problem = Some("the server answered 500".to_owned());
        NodeCounts { requests: 22, records: 220, open_sections: 1, last_problem, ..NodeCounts::default() }
    }

    #[test]
    fn what_was_got_and_the_time_left_come_first_then_what_waits_and_why() {
        let left = Some(Estimate::About(Duration::from_mins(3)));
        assert_eq!(
            line_after_10_s(&[slow()], &[retried_in_6_6_s(&["slow"])], left),
            "10 s: 220 records (22/s), about 3 min left, 22 requests, 0 of 1 node done, 1 task waiting; \
             slow waits 6.6 s: a failed task waits for its next try: the server answered 500"
        );
    }

    #[test]
    fn where_nothing_is_known_nothing_is_left_blank() {
        let swift = NodeCounts { requests: 1, records: 1, ..NodeCounts::default() };
        assert_eq!(
            line_after_10_s(&[NodeCounts::default(), swift], &[], None),
            "10 s: 1 record (0/s), 1 request, 1 of 2 nodes done, 0 tasks waiting"
        );
        assert_eq!(
            line_after_10_s(&[], &[retried_in_6_6_s(&[])], None),
            "10 s: 0 records (0/s), 0 requests, 0 of 0 nodes done, 1 task waiting; \
             waits 6.6 s: a failed task waits for its next try"
        );
    }

    #[test]
    fn what_was_got_before_the_run_was_resumed_is_shown_and_no_part_of_the_rate() {
        let resumed = NodeCounts { earlier_requests: 20, earlier_records: 200, ..slow() };
        assert_eq!(
            line_after_10_s(&[resumed], &[], None),
            "10 s: 220 records (2/s), 22 requests, 0 of 1 node done, 0 tasks waiting"
        );
    }
}
