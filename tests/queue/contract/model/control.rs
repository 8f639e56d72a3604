//! Calls of whoever runs the queue: what may be handed out, how it is configured, and what it tells about itself.

use trawler::queue::{QueueError, TaskFailure};
use trawler::task::{NodeName, TaskId};

use super::Model;
use super::calls::refused;
use super::laws::{Law, Verdict, broken, demand, same};
use super::world::{Change, NODES, is_sound};

impl Model {
    pub(super) async fn suspend(&mut self, run: usize, node: usize, suspended: bool) -> Verdict {
        let id = self.runs[run].config.run.clone();
        let name = NodeName::from(NODES[node]);
        let answer = self.queue.suspend_node(&id, &name, suspended).await;
        let run = &mut self.runs[run];
        let Some(known) = run.nodes[node].as_mut() else {
            return same(Law::Answer, &answer, &Err(QueueError::NoSuchNode { run: id, node: name }));
        };
        if std::mem::replace(&mut known.suspended, suspended) != suspended {
            run.turns.interrupt(node);
        }
        run.config.nodes.iter_mut().filter(|node| node.name == name).for_each(|node| node.suspended = suspended);
        same(Law::Answer, &answer, &Ok(()))
    }

    pub(super) async fn set_frozen(&mut self, run: usize, frozen: bool) -> Verdict {
        let id = self.runs[run].config.run.clone();
        let answer = if frozen { self.queue.freeze(&id).await } else { self.queue.thaw(&id).await };
        self.runs[run].frozen = frozen;
        self.tally.count(if frozen { "freeze" } else { "thaw" });
        same(Law::Answer, &answer, &Ok(()))
    }

    pub(super) async fn configure(&mut self, run: usize, change: &Change) -> Verdict {
        let mut config = self.runs[run].config.clone();
        change.apply(&mut config);
        let answer = self.queue.configure(config.clone()).await;
        if !is_sound(&config) {
            self.tally.count("configuration refused");
            let is_refused = matches!(answer, Err(QueueError::BadConfig { .. }));
            return demand(Law::Whole, is_refused, || format!("a node that can never go: {answer:?}"));
        }
        self.tally.count("reconfigured");
        self.configure_budgets(&config);
        self.runs[run].configure(config);
        same(Law::Answer, &answer, &Ok(()))
    }

    /// Nothing of the run is left, and one of the same name knows nothing of it.
    pub(super) async fn close_and_open(&mut self, run: usize) -> Verdict {
        let config = self.runs[run].config.clone();
        self.tally.count("closed");
        same(Law::Answer, &self.queue.close(&config.run).await, &Ok(()))?;
        let unknown = self.queue.ledger(&config.run).await;
        if unknown.is_ok() {
            return broken(Law::Answer, "a run that was closed has a ledger");
        }
        same(Law::Answer, &self.queue.open(config).await, &Ok(()))?;
        self.reopened(run);
        Ok(())
    }

    /// The dead are listed in the order in which they died, each with its latest failures.
    pub(super) async fn dead(&mut self, run: usize) -> Verdict {
        let dead = self.queue.dead(&self.runs[run].config.run, 100).await.map_err(|error| refused(&error))?;
        let run = &self.runs[run];
        let ids: Vec<TaskId> = dead.iter().map(|dead| dead.task.id).collect();
        let mut expected = run.dead.clone();
        // Those that die in one crash have no order.
        let at = |id: &TaskId| run.tasks[id].failures.last().map(|(at, _)| *at);
        expected.sort_by_key(|id| (at(id), *id));
        let mut found = ids.clone();
        found.sort_by_key(|id| (at(id), *id));
        same(Law::Dead, &found, &expected)?;
        demand(Law::Dead, ids.is_sorted_by_key(at), || "not in the order in which they died".into())?;
        for dead in dead {
            self.tally.count("dead task listed");
            let known = &run.tasks[&dead.task.id];
            same(Law::Dead, &(&dead.task, dead.attempts, dead.charges), &(&known.task, known.attempts, known.charges))?;
            let latest = &known.failures[known.failures.len().saturating_sub(TaskFailure::MAX_KEPT)..];
            let found: Vec<i64> = dead.history.iter().map(|failure| failure.at.as_millisecond()).collect();
            same(Law::Dead, &found, &latest.iter().map(|(at, _)| *at).collect())?;
            let is_told = dead
                .history
                .iter()
                .zip(latest)
                .all(|(failure, (_, why))| why.map_or(failure.why.contains("crash"), |why| failure.why == why));
            demand(Law::Dead, is_told, || format!("{:?} instead of {latest:?}", dead.history))?;
        }
        Ok(())
    }

    /// The lanes hold what the ledger says.
    pub(super) async fn lanes(&mut self, run: usize) -> Verdict {
        let lanes = self.queue.lanes(&self.runs[run].config.run, 1_000).await.map_err(|error| refused(&error))?;
        let ledger = self.runs[run].ledger();
        let listed = lanes.iter().fold((0, 0), |sum, lane| (sum.0 + lane.queued, sum.1 + lane.leased));
        same(Law::Account, &listed, &(ledger.queued + ledger.delayed, ledger.leased))
    }
}
