//! Runs: opened, configured and closed, in portions that no other caller notices.

use super::RedisQueue;
use super::calls::{Caller, random};
use super::wire::Writer;
use crate::queue::gate::Moment;
use crate::queue::{BudgetConfig, NodeConfig, QueueError, RunConfig, Spent, Unit, check_config};
use crate::task::RunId;

/// Budgets and nodes in one call.
const PORTION: usize = 50;

/// Portions of runs that are gone, deleted beside the opening of one.
const MAX_COLLECTED: usize = 50;

impl RedisQueue {
    pub(super) async fn open_run(&self, config: RunConfig) -> Result<(), QueueError> {
        check_config(&config)?;
        self.collect_gone().await?;
        self.calls.forget(&config.run);
        let opening = (random() >> 16, random() >> 32);
        let write = |request: &mut Writer| {
            request.uint(opening.0).uint(opening.1);
            write_run(request, &config);
            request.array(2 * config.closed_origins.len());
            for closed in &config.closed_origins {
                request.text(closed.origin.as_str()).moment(closed.until.into());
            }
        };
        let answer = self.calls.call("open", &config.run, Caller::Owner, 4, write).await?;
        self.send_portions(&config, answer.read(|reader| reader.int())?).await
    }

    pub(super) async fn configure_run(&self, config: RunConfig) -> Result<(), QueueError> {
        check_config(&config)?;
        let write = |request: &mut Writer| write_run(request, &config);
        let answer = self.calls.call("begin_configure", &config.run, Caller::Owner, 1, write).await?;
        self.send_portions(&config, answer.read(|reader| reader.int())?).await
    }

    /// Sends budgets and nodes, and has what the configuration does not name dropped. If a later configuration begins meanwhile,
    /// that one holds, as if it had come after this.
    async fn send_portions(&self, config: &RunConfig, generation: i64) -> Result<(), QueueError> {
        for budgets in config.budgets.chunks(PORTION) {
            let write = |request: &mut Writer| {
                request.int(generation);
                write_all(request, budgets, write_budget);
            };
            let answer = self.calls.call("set_budgets", &config.run, Caller::Owner, 2, write).await?;
            if answer.read(|reader| Ok(reader.is_false()))? {
                return Ok(());
            }
        }
        for nodes in config.nodes.chunks(PORTION) {
            let write = |request: &mut Writer| {
                request.int(generation);
                write_all(request, nodes, write_node);
            };
            let answer = self.calls.call("set_nodes", &config.run, Caller::Owner, 2, write).await?;
            if answer.read(|reader| Ok(reader.is_false()))? {
                return Ok(());
            }
        }
        let (mut part, mut from) = (1, 1);
        while part > 0 {
            let write = |request: &mut Writer| {
                request.int(generation).int(part).int(from);
            };
            let answer = self.calls.call("end_configure", &config.run, Caller::Owner, 3, write).await?;
            (part, from) = answer.read(|reader| {
                if reader.is_false() {
                    return Ok((0, 0));
                }
                reader.array_of(2)?;
                Ok((reader.int()?, reader.int()?))
            })?;
        }
        Ok(())
    }

    pub(super) async fn close_run(&self, run: &RunId) -> Result<(), QueueError> {
        let mut key = 0;
        loop {
            let write = |request: &mut Writer| {
                request.int(key);
            };
            key = self.calls.call("close", run, Caller::Owner, 1, write).await?.read(|reader| reader.int())?;
            if key == 0 {
                self.calls.forget(run);
                return Ok(());
            }
        }
    }

    /// Deletes some of what runs left whose closing did not come to its end.
    async fn collect_gone(&self) -> Result<(), QueueError> {
        let none = RunId::from("");
        for _ in 0..MAX_COLLECTED {
            let answer = self.calls.call("collect", &none, Caller::Owner, 0, |_| {}).await?;
            if !answer.read(|reader| reader.flag())? {
                break;
            }
        }
        Ok(())
    }
}

fn write_all<T>(request: &mut Writer, items: &[T], write: impl Fn(&mut Writer, &T)) {
    request.array(items.len());
    for item in items {
        write(request, item);
    }
}

fn write_run(request: &mut Writer, config: &RunConfig) {
    let protection = &config.origin_protection;
    request.array(8).uint(config.weight.into()).uint(config.max_holders.into()).uint(micros(config.lease));
    request.uint(config.max_charges.into()).uint(protection.max_concurrent.into());
    request.uint(micros(protection.initial_backoff)).uint(micros(protection.max_backoff)).text(&config.brief);
}

fn write_budget(request: &mut Writer, config: &BudgetConfig) {
    request.array(7).text(&config.id.0).array(config.limits.len());
    for limit in &config.limits {
        request.array(4).int(unit(limit.unit)).uint(limit.amount).uint(micros(limit.period)).flag(limit.even);
    }
    request.uint(config.max_concurrent.unwrap_or(0).into());
    request.uint(config.adaptive_floor_percent.map_or(0, |floor| floor.max(1)).into());
    match &config.open_hours {
        None => request.bool(false),
        Some(hours) => {
            let moments = hours.iter().flat_map(|interval| [interval.from, interval.until]);
            let packed: Vec<u8> = moments.flat_map(|moment| Moment::from(moment).0.max(0).to_be_bytes()).collect();
            request.bytes(&packed)
        }
    };
    let mut spent: Vec<&Spent> = config.spent.iter().collect();
    spent.sort_by_key(|spent| spent.at);
    request.array(spent.len());
    for Spent { at, calls, documents, bytes } in spent {
        request.array(4).moment((*at).into()).uint(*calls).uint(*documents).uint(*bytes);
    }
    request.bool(config.short_windows_start_spent);
}

fn write_node(request: &mut Writer, config: &NodeConfig) {
    request.array(7).text(config.name.as_str()).text(&config.budget.0).text(&config.group);
    request.int(config.priority.into()).flag(config.suspended);
    request.uint(config.api_calls_per_document.into()).text(&config.brief);
}

fn unit(unit: Unit) -> i64 {
    match unit {
        Unit::ApiCalls => 0,
        Unit::Documents => 1,
        Unit::Bytes => 2,
    }
}

fn micros(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
