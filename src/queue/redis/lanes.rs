//! What each lane holds and waits for, put together from portions.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::RedisQueue;
use super::calls::{Answer, Caller};
use super::claims::read_gate;
use super::inspect::read_all;
use super::wire::{Reader, Unreadable, Writer};
use crate::queue::{BudgetId, Gate, LaneStatus, QueueError, Waiting};
use crate::task::{NodeName, OriginKey, RunId};

/// Nodes named per lane.
const MAX_NAMED_NODES: usize = 20;

/// Lanes whose gates are looked at in one call.
const PORTION: usize = 50;

/// A lane, as it is put together.
#[derive(Debug, Default)]
struct Lane {
    ready: u64,
    leased: u64,
    since: Option<Timestamp>,
    /// The first queue with something ready, and the first that is listed.
    first: Option<i64>,
    listed: Option<i64>,
    nodes: Vec<NodeName>,
    delayed: u64,
    /// When the first delayed task is tried again, its queue and its node.
    first_delayed: Option<(Timestamp, i64, NodeName)>,
    /// Nodes of delayed tasks by their queues, as many as are named.
    of_delayed: BTreeMap<i64, NodeName>,
}

impl RedisQueue {
    pub(super) async fn lane_statuses(&self, run: &RunId, limit: usize) -> Result<Vec<LaneStatus>, QueueError> {
        let mut lanes = self.gather(run).await?.into_iter().collect::<Vec<_>>();
        lanes.sort_by_key(|(index, lane)| (lane.ready == 0, lane.since, *index));
        lanes.truncate(limit);
        let mut statuses = Vec::with_capacity(lanes.len());
        for portion in lanes.chunks(PORTION) {
            let write = |request: &mut Writer| {
                request.array(portion.len());
                for (index, lane) in portion {
                    request.array(2).int(*index).int(lane.listed.or(lane.first).unwrap_or(0));
                }
            };
            let answer = self.calls.call("lane_details", run, Caller::Owner, 1, write).await?;
            let details = answer.read(|reader| read_all(reader, Details::read))?;
            statuses.extend(portion.iter().zip(details).map(|((_, lane), details)| lane.status(details)));
        }
        Ok(statuses)
    }

    async fn gather(&self, run: &RunId) -> Result<BTreeMap<i64, Lane>, QueueError> {
        let mut lanes: BTreeMap<i64, Lane> = BTreeMap::new();
        self.portions("lane_portion", run, 1, |reader| {
            reader.array_of(4)?;
            let lane = lanes.entry(reader.int()?).or_default();
            (lane.ready, lane.leased) = (reader.uint()?, reader.uint()?);
            lane.since = Some(reader.moment()?);
            Ok(())
        })
        .await?;
        self.portions("queue_portion", run, 1, |reader| {
            reader.array_of(4)?;
            let (queue, index, name) = (reader.int()?, reader.int()?, reader.text()?);
            let is_listed = reader.flag()?;
            let lane = lanes.entry(index).or_default();
            lane.first.get_or_insert(queue);
            if is_listed {
                lane.listed.get_or_insert(queue);
            }
            lane.name(NodeName::from(name));
            Ok(())
        })
        .await?;
        self.portions("delayed_portion", run, 0, |reader| {
            reader.array_of(4)?;
            let lane = lanes.entry(reader.int()?).or_default();
            let (until, queue, node) = (reader.moment()?, reader.int()?, NodeName::from(reader.text()?));
            lane.delayed += 1;
            if lane.of_delayed.len() < MAX_NAMED_NODES {
                lane.of_delayed.insert(queue, node.clone());
            }
            let first = lane.first_delayed.take();
            lane.first_delayed = first.into_iter().chain([(until, queue, node)]).min_by_key(|first| (first.0, first.1));
            Ok(())
        })
        .await?;
        Ok(lanes)
    }

    /// Calls a function that answers in portions: the next position (0: that was all), and rows.
    async fn portions(
        &self,
        function: &str,
        run: &RunId,
        first: i64,
        mut take: impl FnMut(&mut Reader<'_>) -> Result<(), Unreadable>,
    ) -> Result<(), QueueError> {
        let mut from = first;
        loop {
            let write = |request: &mut Writer| {
                request.int(from);
            };
            let answer: Answer = self.calls.call(function, run, Caller::Owner, 1, write).await?;
            from = answer.read(|reader| {
                reader.array_of(2)?;
                let next = reader.int()?;
                for _ in 0..reader.array()? {
                    take(reader)?;
                }
                Ok(next)
            })?;
            if from == 0 {
                return Ok(());
            }
        }
    }
}

/// What is asked of a lane that is shown.
#[derive(Debug)]
struct Details {
    origin: OriginKey,
    budget: BudgetId,
    calls_per_s: Option<f64>,
    waiting: Option<Waiting>,
}

impl Details {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Unreadable> {
        reader.array_of(5)?;
        let (origin, budget) = (OriginKey::from(reader.text()?), BudgetId(reader.text()?.into()));
        let share = reader.int()? as f64 / 1000.0;
        let rates = read_all(reader, |reader| {
            reader.array_of(2)?;
            Ok(reader.int()? as f64 / (reader.int()? as f64 / 1e6) * share)
        })?;
        let waiting = if reader.is_false() {
            None
        } else {
            reader.array_of(4)?;
            let until = reader.moment()?;
            Some(Waiting { gate: read_gate(reader)?, until })
        };
        Ok(Self { origin, budget, calls_per_s: rates.into_iter().min_by(f64::total_cmp), waiting })
    }
}

impl Lane {
    fn name(&mut self, node: NodeName) {
        if self.nodes.len() < MAX_NAMED_NODES && !self.nodes.contains(&node) {
            self.nodes.push(node);
        }
    }

    fn status(&self, details: Details) -> LaneStatus {
        let Details { origin, budget, calls_per_s, waiting } = details;
        let mut named = Self { nodes: self.nodes.clone(), ..Self::default() };
        let first_delayed = self.first_delayed.iter().map(|(_, _, node)| node);
        first_delayed.chain(self.of_delayed.values()).for_each(|node| named.name(node.clone()));
        let delay = || self.first_delayed.as_ref().map(|(until, ..)| Waiting { gate: Gate::Delay, until: *until });
        LaneStatus {
            origin,
            budget,
            nodes: named.nodes,
            queued: self.ready + self.delayed,
            leased: self.leased,
            calls_per_s,
            waiting: if self.ready > 0 { waiting } else { delay() },
        }
    }
}
