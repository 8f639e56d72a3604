//! A budget that several runs and groups come to is used: nobody makes way for somebody who is not there for long.

use std::time::Duration;

use jiff::Timestamp;
use trawler::queue::{BudgetConfig, Claim, Holder, JoinRequest, Leased, NodeConfig, RunConfig, Unit, Woken};
use trawler::task::RunId;

use super::scene::{GROUP, MakeQueue, Scene, budget, config, done, even, limit, node, origin_of, page_at, settlement};

/// Comes when it is told to (or a little late), or when it is woken. Its requests take a while.
struct Crawler {
    holder: Holder,
    told: Option<(Timestamp, u64)>,
    under_way: Vec<(Timestamp, Leased)>,
    /// How many calls there had been when it looked whether it was woken.
    looked_at: u64,
}

struct Crowd {
    scene: Scene,
    crawlers: Vec<Crawler>,
    /// Calls that may have changed something.
    calls: u64,
}

const CALLS_PER_S: u64 = 14;
const SECONDS: u64 = 5;
const TICK_MS: u64 = 10;

pub(super) async fn crawlers_of_many_runs_use_nine_tenths_of_a_shared_budget(make: MakeQueue) {
    let burst = limit(Unit::ApiCalls, CALLS_PER_S, 1_000);
    for limit in [burst, even(CALLS_PER_S, 1_000)] {
        for max_concurrent in [None, Some(2)] {
            for (runs, groups) in [(1, 1), (2, 2), (5, 1), (4, 3)] {
                for late_ms in [0, 20] {
                    let budget = BudgetConfig { max_concurrent, ..budget("shared", &[limit]) };
                    let mut crowd = Crowd::open(make, runs, groups, &budget).await;
                    let used = crowd.crawl(late_ms).await;
                    let allowed = CALLS_PER_S * SECONDS;
                    assert!(
                        (allowed * 9 / 10..=allowed).contains(&used),
                        "{used} of {allowed} calls: {limit:?}, {max_concurrent:?}, {runs} runs of {groups}, {late_ms} ms late"
                    );
                }
            }
        }
    }
}

impl Crowd {
    async fn open(make: MakeQueue, runs: u32, groups: u32, budget: &BudgetConfig) -> Self {
        let scene = Scene::new(make);
        let mut crawlers = Vec::new();
        for run in 0..runs {
            let id = RunId::from(format!("run-{run}"));
            let group_of = |group: u32| format!("{GROUP}-{group}");
            let nodes =
                (0..groups).map(|group| NodeConfig { group: group_of(group), ..node(&format!("n{group}"), "shared") });
            let config = RunConfig {
                run: id.clone(),
                max_holders: groups,
                nodes: nodes.collect(),
                budgets: vec![budget.clone()],
                ..config(&[])
            };
            scene.queue.open(config).await.unwrap();
            for group in 0..groups {
                let name = format!("n{group}");
                let tasks = (0..200).map(|number| page_at(&origin_of(&name), &name, number)).collect();
                scene.queue.push(&id, tasks).await.unwrap();
                let request = JoinRequest { run: id.clone(), token: group, uid: "job".into(), group: group_of(group) };
                let holder = scene.queue.join(request).await.unwrap();
                crawlers.push(Crawler { holder, told: None, under_way: Vec::new(), looked_at: 0 });
            }
        }
        Self { scene, crawlers, calls: 0 }
    }

    /// Returns how many tasks were handed out.
    async fn crawl(&mut self, late_ms: u64) -> u64 {
        let mut handed_out = 0;
        for _ in 0..SECONDS * 1_000 / TICK_MS {
            for position in 0..self.crawlers.len() {
                handed_out += self.work(position, late_ms).await;
            }
            self.scene.pass_ms(TICK_MS);
        }
        handed_out
    }

    async fn work(&mut self, position: usize, late_ms: u64) -> u64 {
        let now = self.scene.now();
        let queue = &self.scene.queue;
        let crawler = &mut self.crawlers[position];
        let answered = crawler.under_way.extract_if(.., |(until, _)| *until <= now);
        let answered: Vec<_> = answered.map(|(_, leased)| settlement(leased.lease, done())).collect();
        let is_free = crawler.under_way.len() < 16;
        if !answered.is_empty() {
            queue.settle(&crawler.holder, answered).await.unwrap();
            self.calls += 1;
        } else if let Some((_, sequence)) = crawler.told.filter(|(until, _)| *until > now) {
            // Before its moment it is woken by what somebody does, and by nothing else.
            if std::mem::replace(&mut crawler.looked_at, self.calls) == self.calls {
                return 0;
            }
            // Whether anything changed since: its moment has come only for the question.
            if queue.wait(&crawler.holder.run, sequence, now).await == Ok(Woken::Moment) {
                return 0;
            }
        }
        if !is_free {
            return 0;
        }
        self.calls += 1;
        crawler.looked_at = self.calls;
        match queue.claim(&crawler.holder, 16 - crawler.under_way.len()).await.unwrap() {
            Claim::Tasks(tasks) => {
                let count = tasks.len() as u64;
                crawler.told = None;
                crawler.under_way.extend(tasks.into_iter().map(|leased| (now + Duration::from_millis(30), leased)));
                count
            }
            Claim::Wait { until, sequence } => {
                crawler.told = Some((until + Duration::from_millis(late_ms), sequence));
                0
            }
            other => panic!("{other:?}"),
        }
    }
}
