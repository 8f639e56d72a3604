//! Makes histories, takes their steps, and shortens one that breaks a law.

use std::collections::BTreeMap;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use trawler::clock::SharedClock;
use trawler::queue::SharedQueue;

use super::Model;
use super::laws::Violation;
use super::steps::{Step, step};
use super::world::{World, world};
use crate::contract::scene::MakeQueue;

/// Steps that a run of the tests takes.
pub(crate) const STEPS: usize = 30_000;
/// Steps of one history.
const LENGTH: usize = 150;
const MAX_SHORTENINGS: usize = 3_000;

/// How often what happened.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    pub(super) fn count(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    pub(super) fn add(&mut self, what: &'static str, times: u64) {
        *self.0.entry(what).or_default() += times;
    }

    fn add_all(&mut self, other: &Self) {
        other.0.iter().for_each(|(what, times)| self.add(what, *times));
    }

    fn of(&self, what: &'static str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }
}

/// A law was broken.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) violation: Violation,
    /// Steps taken until then, over all histories.
    pub(crate) steps: usize,
    /// Gives this history first.
    pub(crate) seed: u64,
    history: (World, Vec<(usize, Step)>),
}

/// The steps taken and what they did, or the law that was broken.
pub(crate) async fn run_histories(
    make: impl Fn(SharedClock) -> SharedQueue + Copy,
    steps: usize,
    seed: u64,
) -> Result<Tally, Box<Found>> {
    let mut tally = Tally::default();
    // Most of the time one run, so that what happens to it is deep enough.
    let which = proptest::prop_oneof![3 => proptest::strategy::Just(0_usize), 1 => proptest::strategy::Just(1)];
    let histories = (world(), proptest::collection::vec((which, step()), LENGTH));
    for number in 0..steps.div_ceil(LENGTH) {
        let seed = seed + number as u64;
        let (world, history) = histories.new_tree(&mut runner(seed)).unwrap().current();
        match play(make, world, &history).await {
            Ok(counted) => tally.add_all(&counted),
            Err((violation, at)) => {
                let steps = number * LENGTH + at;
                let history = (world, history[..LENGTH.min(at + 1)].to_vec());
                return Err(Box::new(Found { violation, steps, seed, history }));
            }
        }
    }
    Ok(tally)
}

/// A fast generator: a history takes less time to play than a cryptographic one to make it.
fn runner(seed: u64) -> TestRunner {
    let mixed = |salt: u64| (seed ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31).to_le_bytes();
    let bytes = [mixed(0x5851_f42d_4c95_7f2d), mixed(0x1405_7b7e_f767_814f)].concat();
    TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::XorShift, &bytes))
}

/// Plays one history; says which step broke what.
async fn play(
    make: impl Fn(SharedClock) -> SharedQueue,
    world: World,
    history: &[(usize, Step)],
) -> Result<Tally, (Violation, usize)> {
    let mut model = Model::new(make, world).await.map_err(|violation| (violation, 0))?;
    for token in 0..3 {
        for run in [0, 1] {
            model.take(run, &Step::Join { token }).await.map_err(|violation| (violation, 0))?;
        }
    }
    for (at, (run, step)) in history.iter().enumerate() {
        model.tally.count(step.name());
        model.take(*run, step).await.map_err(|violation| (violation, at))?;
    }
    model.finish().await.map_err(|violation| (violation, history.len()))?;
    Ok(model.tally)
}

impl Found {
    /// The same violation with fewer steps, one to a line.
    async fn shortened(&self, make: impl Fn(SharedClock) -> SharedQueue + Copy) -> (World, Vec<(usize, Step)>) {
        let (world, mut history) = self.history.clone();
        let mut tries = 0;
        let mut length = history.len().div_ceil(2);
        while length > 0 && tries < MAX_SHORTENINGS {
            let mut start = 0;
            while start < history.len() && tries < MAX_SHORTENINGS {
                let end = (start + length).min(history.len());
                let shorter = [&history[..start], &history[end..]].concat();
                tries += 1;
                let fails = play(make, world, &shorter).await.is_err_and(|(found, _)| found.law == self.violation.law);
                if fails {
                    history = shorter;
                } else {
                    start = end;
                }
            }
            length /= 2;
        }
        (world, history)
    }

    async fn report(&self, make: impl Fn(SharedClock) -> SharedQueue + Copy) -> String {
        let (world, history) = self.shortened(make).await;
        let last = play(make, world, &history).await.err();
        let mut report = format!(
            "{:?} is broken after {} steps (TRAWLER_MODEL_SEED={}): {}\n{world:?}\n",
            self.violation.law, self.steps, self.seed, self.violation.what
        );
        let steps: Vec<String> = history.iter().map(|step| format!("    {step:?}\n")).collect();
        report += &steps.concat();
        report + &format!("which ends in {last:?}")
    }
}

/// What must have happened at least so often, or the test has become hollow.
const AT_LEAST: [(&str, u64); 32] = [
    ("claim beside a promise", 50),
    ("settled and claimed at once", 200),
    ("claim while frozen", 150),
    ("closed", 10),
    ("dead task listed", 50),
    ("delay ended", 100),
    ("done", 10_000),
    ("drained", 1_000),
    ("duplicate", 400),
    ("feedback", 800),
    ("feedback of the unknown", 30),
    ("freeze", 100),
    ("holder replaced", 400),
    ("holder used late", 100),
    ("lease expired", 1_500),
    ("lease used late", 150),
    ("no place free", 40),
    ("permit", 150),
    ("permit elsewhere", 150),
    ("permit that waits", 100),
    ("push while frozen", 100),
    ("pushback", 100),
    ("pushback of a known event", 8),
    ("reconfigured", 300),
    ("released untried", 200),
    ("renewed", 100),
    ("retry", 100),
    ("suspect handed out", 150),
    ("task charged", 200),
    ("task dead by charges", 3),
    ("wait", 5_000),
    ("woken before his time", 30),
];

pub(crate) async fn any_history_keeps_the_guarantees(make: MakeQueue) {
    keeps_the_guarantees(make, STEPS).await;
}

/// For an adapter whose every step is a call of a server.
pub(crate) async fn histories_of_ten_thousand_steps_keep_the_guarantees(make: MakeQueue) {
    keeps_the_guarantees(make, 10_000).await;
}

async fn keeps_the_guarantees(make: MakeQueue, steps: usize) {
    let steps = from_environment("TRAWLER_MODEL_STEPS").map_or(steps, |steps| usize::try_from(steps).unwrap());
    let seed = from_environment("TRAWLER_MODEL_SEED").unwrap_or(1);
    let tally = match run_histories(make, steps, seed).await {
        Ok(tally) => tally,
        Err(found) => panic!("{}", found.report(make).await),
    };
    for (what, times) in &tally.0 {
        println!("{times:>8} {what}");
    }
    if steps >= STEPS {
        let missing: Vec<_> = AT_LEAST.iter().filter(|(what, times)| tally.of(what) < *times).collect();
        assert_eq!(missing, Vec::<&(&str, u64)>::new(), "{tally:?}");
    }
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::vars().find(|(known, _)| known == name).map(|(_, value)| value.parse().expect("a number"))
}
