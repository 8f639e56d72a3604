//! Eight crawler processes drain one run over a real Redis while every second one of them, or Redis, is killed with -9: in the end
//! each record is held once, no window of a limit held more than it may, what was allowed was used, and nobody waited for long.
//!
//! `TRAWLER_CREW_KILLS=1000` kills so often; the crawl is made longer in proportion.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use trawler::clock::{Clock, SystemClock};

use crate::laws::Crawl;
use crate::log::{self, Seen};
use crate::place::{Place, Policy, RUN, calls};
use crate::random::Random;
use crate::redis_server::{KEEPS, Server};
use crate::rules::Rules;
use crate::stored::Stored;
use crate::watched::{Behaviour, Layout, Watched};

const CRAWLERS: usize = 8;
const NODES: usize = 16;
const CALLS_PER_S: u64 = 40;
/// Between one kill and the next.
const PAUSE: Duration = Duration::from_secs(1);
/// One kill in so many is Redis.
const REDIS_IN: usize = 10;
/// What a killed crawler worked on is asked for again by then, though its parent must see it die first.
const REISSUED_WITHIN_S: f64 = 3.0;
/// Until crawlers that lost the server are at work again after it answers.
const SETTLES_WITHIN: Duration = Duration::from_secs(2);

/// A stretch in which Redis was not there, in microseconds since 1970.
struct Outage {
    from: i64,
    until: i64,
}

struct Killed {
    crawlers: Vec<i64>,
    outages: Vec<Outage>,
}

fn start(place: &Place, redis: &Server) -> Child {
    Command::new(env!("CARGO_BIN_EXE_trawler"))
        .args(RUN)
        .args(["--redis", &redis.url(), "--instance", "crew", "--crawlers", &CRAWLERS.to_string()])
        .env_clear()
        .current_dir(place.workplace.root())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(place.workplace.path("said.log")).unwrap())
        .spawn()
        .unwrap()
}

fn children_of(pid: u32) -> Vec<u32> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let of_task =
        |task: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(task.ok()?.path().join("children")).ok();
    let children: Vec<String> = tasks.filter_map(of_task).collect();
    children.iter().flat_map(|children| children.split_whitespace()).map(|pid| pid.parse().unwrap()).collect()
}

/// Kills until the run ends by itself.
fn kill_while_it_lasts(parent: &mut Child, redis: &mut Server, random: &mut Random) -> Killed {
    let clock = SystemClock::new();
    let now = || clock.now().as_microsecond();
    let mut killed = Killed { crawlers: Vec::new(), outages: Vec::new() };
    loop {
        std::thread::sleep(PAUSE);
        if let Some(status) = parent.try_wait().unwrap() {
            assert!(status.success(), "it ended with {status}");
            return killed;
        }
        if random.index(REDIS_IN) == 0 {
            let from = now();
            redis.kill();
            redis.run();
            let until = now() + log::micros(SETTLES_WITHIN);
            killed.outages.push(Outage { from, until });
        } else {
            let crawlers = children_of(parent.id());
            if !crawlers.is_empty() {
                let pid = crawlers[random.index(crawlers.len())];
                killed.crawlers.push(now());
                // It may have ended by itself meanwhile.
                Command::new("kill").args(["-9", &pid.to_string()]).stderr(Stdio::null()).status().unwrap();
            }
        }
    }
}

#[test]
fn eight_crawlers_and_redis_are_killed_a_hundred_times_and_nothing_is_lost_doubled_or_late() {
    let kills = kills_asked_for();
    // One kill a second: as many pages as are allowed in that time, and a tenth more.
    let pages = usize::try_from(CALLS_PER_S).unwrap() * kills * 125 / 100 / NODES;
    let layout = Layout { nodes: NODES, servers: 8, datasets_per_node: pages, page_size: 1 };
    let federation = Watched::start_with(layout, |_| Behaviour::answers_after(Duration::ZERO));
    let policy = Policy::of(calls(CALLS_PER_S, 1, false));
    let place = Place::new(&federation, &policy);
    let manifests = place.workplace.read("in.yaml");
    let crew = format!("tokens: {CRAWLERS}, crawler: {{concurrency: 2}}");
    place.workplace.write("in.yaml", &manifests.replace("tokens: 1", &crew));

    let mut redis = Server::start(&KEEPS);
    let mut random = Random::new(crate::kill::seed());
    let mut parent = start(&place, &redis);
    let killed = kill_while_it_lasts(&mut parent, &mut redis, &mut random);

    let seen = log::parse(&federation.take_log()).unwrap();
    let all = killed.crawlers.len() + killed.outages.len();
    let share = share_used(&seen, &killed.outages);
    let longest_s = longest_silence_s(&seen, &killed.outages);
    println!(
        "{all} kills, {} of them of Redis; {} requests for {} pages; {:.1} % of what was allowed; the longest silence of a node \
         {longest_s:.2} s",
        killed.outages.len(),
        seen.len(),
        NODES * pages,
        share * 100.0,
    );
    let rules = Rules { must_use: false, ..policy.rules(NODES) };
    let crawl = Crawl { seen, truth: federation.truth(), before: Stored::default(), after: place.held() };
    crawl.judge(&rules).assert_clean();
    assert!(all >= kills, "{all} kills");
    assert!(share >= 0.9, "{share}");
    assert!(longest_s <= REISSUED_WITHIN_S, "a node waited {longest_s} s");
}

/// What was used of what was allowed while Redis was there.
fn share_used(seen: &[Seen], outages: &[Outage]) -> f64 {
    let (first, last) = (seen[0].arrived, seen[seen.len() - 1].arrived);
    let gone: i64 = outages.iter().map(|outage| outage.until.min(last) - outage.from.min(last)).sum();
    let counted =
        seen.iter().filter(|seen| outages.iter().all(|outage| !(outage.from..outage.until).contains(&seen.arrived)));
    counted.count() as f64 / ((last - first - gone) as f64 / 1e6 * CALLS_PER_S as f64)
}

/// The longest that a node was asked nothing before its last page, but for when Redis was not there.
fn longest_silence_s(seen: &[Seen], outages: &[Outage]) -> f64 {
    let mut last: BTreeMap<&str, i64> = BTreeMap::new();
    let mut longest = 0;
    for seen in seen {
        if let Some(before) = last.insert(&seen.node, seen.arrived) {
            let is_disturbed = outages.iter().any(|outage| outage.from < seen.arrived && before < outage.until);
            longest = longest.max(if is_disturbed { 0 } else { seen.arrived - before });
        }
    }
    longest as f64 / 1e6
}

#[expect(clippy::disallowed_methods, reason = "longer forms of a test are asked for through the environment")]
fn kills_asked_for() -> usize {
    std::env::var("TRAWLER_CREW_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(100)
}
