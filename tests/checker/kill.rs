//! A crawl that is killed again and again, each time followed by one that goes on, comes to what an undisturbed one comes
//! to, and asks for no page twice but those that were under way.
//!
//! `TRAWLER_KILLS=500` kills so often; the crawl is made longer in proportion.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use trawler::clock::{Clock, Stopwatch, SystemClock};

use crate::laws::Crawl;
use crate::log::{self, Seen};
use crate::place::{Place, Policy, RUN, calls};
use crate::random::Random;
use crate::rules::Rules;
use crate::stored::Stored;
use crate::watched::{Behaviour, Layout, Watched};

const NODES: usize = 8;
/// Pages of each node for each kill: every page takes [`ANSWER`], so that the undisturbed whole takes a minute and more.
const PAGES_PER_KILL: usize = 2;
const ANSWER: Duration = Duration::from_millis(620);

/// An answer that was sent so lately may not have been stored when its reader was killed.
const IN_HANDS: Duration = Duration::from_millis(250);

/// A federation that was crawled once, changed since, and has become slow.
struct Scene {
    federation: Watched,
    place: Place,
    before: Stored,
}

impl Scene {
    fn new(kills: usize) -> Self {
        let layout = Layout { nodes: NODES, servers: 4, datasets_per_node: 3 * PAGES_PER_KILL * kills, page_size: 3 };
        let is_slow = Arc::new(AtomicBool::new(false));
        let mood = is_slow.clone();
        let federation = Watched::start_with(layout, move |_| {
            Behaviour::answers_after(if mood.load(Ordering::Relaxed) { ANSWER } else { Duration::ZERO })
        });
        let place = Place::new(&federation, &Policy::of(calls(10_000, 1, false)));
        let first = place.crawl(&federation);
        // Nothing is removed: a list that lacks something is read twice, and here each page is to be asked for once.
        federation.change(0, 20, 7);
        is_slow.store(true, Ordering::Relaxed);
        let scene = Self { federation, place, before: first.after };
        scene.place.write(&scene.federation, &policy());
        scene
    }

    fn start(&self) -> Child {
        Command::new(env!("CARGO_BIN_EXE_trawler"))
            .args(RUN)
            .env_clear()
            .current_dir(self.place.workplace.root())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn crawl(&self, seen: Vec<Seen>) -> Crawl {
        Crawl { seen, truth: self.federation.truth(), before: self.before.clone(), after: self.place.held() }
    }

    /// What the run came to, but for times.
    fn counts(&self) -> BTreeMap<String, Value> {
        let report = self.place.workplace.report("out");
        let nodes = report["nodes"].as_array().unwrap().iter();
        let mut counts: BTreeMap<String, Value> =
            nodes.map(|node| (node["name"].as_str().unwrap().to_owned(), comparable(node.clone()))).collect();
        counts.insert("totals".into(), comparable(report["totals"].clone()));
        counts.insert("outcome".into(), report["outcome"].clone());
        counts
    }
}

/// Without moments, and without requests: those that were lost with their process are known to nobody.
fn comparable(mut value: Value) -> Value {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|name, _| name != "requests" && !name.ends_with("At"));
        fields.values_mut().for_each(|field| *field = comparable(field.take()));
    } else if let Some(items) = value.as_array_mut() {
        for item in items {
            *item = comparable(item.take());
        }
    }
    value
}

/// As much as is asked for undisturbed: who starts anew and forgets what was spent before oversteps it.
fn policy() -> Policy {
    Policy::of(calls(13, 1, false))
}

/// A kill as the servers saw it.
struct Kill {
    pages_done: usize,
    under_way: usize,
    in_hands: usize,
}

fn is_page(seen: &Seen) -> bool {
    seen.request.starts_with("POST ")
}

/// Kills the crawl once so many pages were answered in all, and adds to what was seen.
fn kill_after(scene: &Scene, pages: usize, random: &mut Random, seen: &mut Vec<Seen>) -> Kill {
    let clock = SystemClock::new();
    let mut child = scene.start();
    let mut look = || {
        seen.extend(log::parse(&scene.federation.take_log()).unwrap());
        pages_answered(seen)
    };
    while look() < pages {
        assert!(child.try_wait().unwrap().is_none(), "it ended before its last page was read");
        std::thread::sleep(Duration::from_millis(3));
    }
    std::thread::sleep(Duration::from_millis(random.below(500)));
    let killed_at = clock.now().as_microsecond();
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success(), "it was killed before it ended");
    while scene.federation.under_way() > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let pages_done = look();
    let lately = killed_at - log::micros(IN_HANDS);
    let mut last: BTreeMap<&str, &Seen> = BTreeMap::new();
    for seen in seen.iter() {
        last.insert(&seen.node, seen);
    }
    let in_hands = |seen: &&&Seen| is_page(seen) && seen.is_success() && (lately..killed_at).contains(&seen.answered);
    Kill {
        pages_done,
        under_way: seen.iter().filter(|seen| is_page(seen) && seen.answered >= killed_at).count(),
        in_hands: last.values().filter(in_hands).count(),
    }
}

/// How many pages were answered at least once.
fn pages_answered(seen: &[Seen]) -> usize {
    let pages = seen.iter().filter(|seen| is_page(seen) && seen.is_success());
    pages.map(|seen| (&seen.node, &seen.request)).collect::<BTreeSet<_>>().len()
}

fn crawl_undisturbed(kills: usize) -> Scene {
    let scene = Scene::new(kills);
    let started = Stopwatch::start();
    assert!(scene.start().wait().unwrap().success());
    let took = started.elapsed();
    println!("undisturbed it took {:.1} s", took.as_secs_f64());
    assert!(took >= Duration::from_mins(1) || kills < 50, "it took {took:?}");
    scene
}

/// Every kill comes after the first page and before the last.
fn crawl_disturbed(scene: &Scene, kills: usize) -> (Vec<Kill>, Vec<Seen>) {
    let mut random = Random::new(seed());
    let pages = scene.federation.pages();
    let mut moments: Vec<usize> = (0..kills).map(|_| 1 + random.index(pages - 3 * NODES)).collect();
    moments.sort_unstable();
    let mut seen = Vec::new();
    let killed = moments.into_iter().map(|moment| kill_after(scene, moment, &mut random, &mut seen)).collect();
    assert!(scene.start().wait().unwrap().success());
    seen.extend(log::parse(&scene.federation.take_log()).unwrap());
    seen.sort_by_key(|seen| seen.arrived);
    (killed, seen)
}

#[test]
fn a_crawl_that_is_killed_fifty_times_comes_to_what_an_undisturbed_one_comes_to() {
    let kills = kills_asked_for();
    let disturbed = Scene::new(kills);
    let pages = disturbed.federation.pages();
    let (undisturbed, (killed, seen)) = std::thread::scope(|scope| {
        let undisturbed = scope.spawn(|| crawl_undisturbed(kills));
        let killed = crawl_disturbed(&disturbed, kills);
        (undisturbed.join().unwrap(), killed)
    });

    let asked = seen.iter().filter(|seen| is_page(seen)).count();
    let under_way: usize = killed.iter().map(|kill| kill.under_way).sum();
    let in_hands: usize = killed.iter().map(|kill| kill.in_hands).sum();
    print_distribution(&killed, pages, asked);
    let rules = Rules { must_use: false, ..policy().rules(NODES) };
    let crawl = disturbed.crawl(seen);
    crawl.judge(&rules).assert_clean();
    assert_eq!(crawl.after, undisturbed.place.held());
    assert_eq!(disturbed.counts(), undisturbed.counts());
    assert!(
        asked <= pages + under_way + in_hands,
        "{asked} page requests for {pages} pages; {under_way} were under way when it was killed, {in_hands} just answered"
    );
}

fn print_distribution(killed: &[Kill], pages: usize, asked: usize) {
    let mut by_part = [0; 10];
    let mut by_under_way: BTreeMap<usize, usize> = BTreeMap::new();
    for kill in killed {
        by_part[(kill.pages_done * 10 / pages).min(9)] += 1;
        *by_under_way.entry(kill.under_way).or_default() += 1;
    }
    let under_way: usize = killed.iter().map(|kill| kill.under_way).sum();
    let in_hands: usize = killed.iter().map(|kill| kill.in_hands).sum();
    println!("{} kills by tenths of the pages that were answered: {by_part:?}", killed.len());
    println!("kills by requests under way: {by_under_way:?}; {under_way} in all, and {in_hands} just answered");
    println!("{asked} page requests for {pages} pages");
}

#[expect(clippy::disallowed_methods, reason = "longer forms of a test are asked for through the environment")]
fn kills_asked_for() -> usize {
    std::env::var("TRAWLER_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(50)
}

#[expect(clippy::disallowed_methods, reason = "a failed test is repeated with the seed it printed")]
pub(crate) fn seed() -> u64 {
    let seed = std::env::var("TRAWLER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |now| now.as_secs())
    });
    println!("TRAWLER_SEED={seed}");
    seed
}
