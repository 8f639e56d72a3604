//! Eight crawler processes drain one run over a real Redis while, once a second, one of them or Redis is killed with -9: in the end
//! each record is held once, the account was exact, no window of a limit held more than it may, what was allowed was used, and what
//! a killed crawler worked on was handed out again soon.
//!
//! 20,000 pages at 170 calls a second take two minutes. A page costs 7.5 ms of processor time (crawlers 57 %, their parent 25 %,
//! Redis 13 %, the federation 5 %) in binaries for tests, so two processors do 250 in a second at the most, and what a kill costs
//! comes on top.
//!
//! `TRAWLER_CREW_KILLS=1000` kills so often; the crawl is made longer in proportion.

mod onlooker;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::laws::Crawl;
use crate::log::{self, Seen};
use crate::place::{Place, Policy, RUN, calls};
use crate::random::Random;
use crate::redis_server::{KEEPS, Server};
use crate::rules::Rules;
use crate::stored::Stored;
use crate::watched::{Behaviour, Layout, Watched};

use self::onlooker::Onlooker;

const INSTANCE: &str = "crew";
const CRAWLERS: usize = 8;
const NODES: usize = 64;
const SERVERS: usize = 16;
const CALLS_PER_S: u64 = 140;
/// Pages, for each kill, of all nodes together: one kill a second, and as much as can be had in that time with what kills cost.
const PAGES_PER_KILL: usize = 200;
/// Between one kill and the next.
const PAUSE: Duration = Duration::from_secs(1);
/// A run that is not at its end after so many times as many kills as were asked for has come to a standstill.
const MOST_PAUSES: usize = 5;
/// One kill in so many is Redis.
const REDIS_IN: usize = 10;
/// What a killed crawler worked on is handed out again by then, though its parent must see it die first.
const REISSUED_WITHIN_S: f64 = 2.0;
/// Until crawlers that lost the server, or were ended, are at work again.
const SETTLES_WITHIN: Duration = Duration::from_secs(1);

/// A stretch in which the queue handed out nothing, in microseconds since 1970.
struct Outage {
    from: i64,
    until: i64,
}

/// A run under way, and who disturbs it.
struct Crew {
    parent: Child,
    redis: Server,
    onlooker: Onlooker,
    random: Random,
    crawlers_killed: usize,
    redis_killed: usize,
    outages: Vec<Outage>,
}

fn start(place: &Place, redis: &Server) -> Child {
    Command::new(env!("CARGO_BIN_EXE_trawler"))
        .args(RUN)
        .args(["--redis", &redis.url(), "--instance", INSTANCE, "--crawlers", &CRAWLERS.to_string()])
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

impl Crew {
    fn start(place: &Place) -> Self {
        let redis = Server::start(&KEEPS);
        Self {
            parent: start(place, &redis),
            onlooker: Onlooker::new(&redis.settings(INSTANCE)),
            redis,
            random: Random::new(crate::kill::seed()),
            crawlers_killed: 0,
            redis_killed: 0,
            outages: Vec::new(),
        }
    }

    fn kills(&self) -> usize {
        self.crawlers_killed + self.redis_killed
    }

    /// Kills until the run ends by itself. Takes stock once, when nine tenths of all these pages are done.
    fn kill_while_it_lasts(&mut self, pages: usize) {
        let mut took_stock = false;
        for _ in 0..MOST_PAUSES * pages * NODES / PAGES_PER_KILL {
            self.onlooker.look_for(PAUSE);
            if let Some(status) = self.parent.try_wait().unwrap() {
                assert!(status.success(), "it ended with {status}");
                assert!(took_stock, "it ended before anybody took stock");
                return;
            }
            if !took_stock && self.onlooker.done().is_some_and(|done| done > (NODES * pages * 9 / 10) as u64) {
                took_stock = true;
                self.interrupt(|crew| crew.onlooker.take_stock(NODES, pages));
            } else if self.random.index(REDIS_IN) == 0 {
                self.redis_killed += 1;
                self.interrupt(|crew| {
                    crew.redis.kill();
                    crew.redis.run();
                });
            } else {
                self.kill_a_crawler();
            }
        }
        self.parent.kill().unwrap();
        panic!("it does not come to an end");
    }

    /// Does something while which nothing is handed out.
    fn interrupt(&mut self, what: impl FnOnce(&mut Self)) {
        let from = self.onlooker.now();
        what(self);
        let until = self.onlooker.now() + log::micros(SETTLES_WITHIN);
        self.onlooker.note_closed(until);
        let from = self.outages.last().map_or(from, |last| from.max(last.until));
        self.outages.push(Outage { from, until });
    }

    /// Kills one of the crawlers that there are. It stands still first, so that what it holds can be told.
    fn kill_a_crawler(&mut self) {
        let crawlers = children_of(self.parent.id());
        if crawlers.is_empty() {
            return;
        }
        let pid = crawlers[self.random.index(crawlers.len())];
        signal("-STOP", pid);
        let held = token_of(pid).map(|token| self.onlooker.held_by(token)).unwrap_or_default();
        self.onlooker.note_killed(held);
        signal("-KILL", pid);
        self.crawlers_killed += 1;
    }
}

/// The process may have ended by itself meanwhile.
fn signal(name: &str, pid: u32) {
    Command::new("kill").args([name, &pid.to_string()]).stderr(Stdio::null()).status().unwrap();
}

/// The token that a crawler was started with. None, if it is not that far yet.
fn token_of(pid: u32) -> Option<u32> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
    line.split('\0').skip_while(|argument| *argument != "--token").nth(1)?.parse().ok()
}

#[test]
fn eight_crawlers_and_redis_are_killed_a_hundred_times_and_nothing_is_lost_doubled_or_late() {
    let kills = kills_asked_for();
    let pages = PAGES_PER_KILL * kills / NODES + 1;
    let layout = Layout { nodes: NODES, servers: SERVERS, datasets_per_node: pages, page_size: 1 };
    let federation = Watched::start_with(layout, |_| Behaviour::answers_after(Duration::ZERO));
    let policy = Policy::of(calls(CALLS_PER_S, 1, false));
    let place = Place::new(&federation, &policy);
    let manifests = place.workplace.read("in.yaml");
    let crew = format!("tokens: {CRAWLERS}, crawler: {{concurrency: 2}}");
    place.workplace.write("in.yaml", &manifests.replace("tokens: 1", &crew));

    let mut crew = Crew::start(&place);
    crew.kill_while_it_lasts(pages);

    let seen = log::parse(&federation.take_log()).unwrap();
    let share = share_used(&seen, &crew.outages);
    let waited_s = crew.onlooker.waited_s();
    let longest_s = waited_s.last().copied().unwrap_or(0.0);
    println!(
        "{} kills, {} of them of Redis; {} requests for {} pages in {:.1} s; {:.1} % of what was allowed; {} leases of killed \
         crawlers were handed out again, half of them within {:.2} s and all within {longest_s:.2} s",
        crew.kills(),
        crew.redis_killed,
        seen.len(),
        NODES * pages,
        (seen[seen.len() - 1].arrived - seen[0].arrived) as f64 / 1e6,
        share * 100.0,
        waited_s.len(),
        waited_s[waited_s.len() / 2],
    );
    let rules = Rules { must_use: false, ..policy.rules(NODES) };
    let crawl = Crawl { seen, truth: federation.truth(), before: Stored::default(), after: place.held() };
    crawl.judge(&rules).assert_clean();
    assert!(crew.kills() >= kills, "{} kills", crew.kills());
    assert!(share >= 0.9, "{share}");
    assert!(longest_s <= REISSUED_WITHIN_S, "what a killed crawler worked on waited {longest_s} s");
}

/// What was used of what was allowed while anything was handed out.
fn share_used(seen: &[Seen], outages: &[Outage]) -> f64 {
    let (first, last) = (seen[0].arrived, seen[seen.len() - 1].arrived);
    let gone: i64 = outages.iter().map(|outage| outage.until.min(last) - outage.from.min(last)).sum();
    let counted =
        seen.iter().filter(|seen| outages.iter().all(|outage| !(outage.from..outage.until).contains(&seen.arrived)));
    counted.count() as f64 / ((last - first - gone) as f64 / 1e6 * CALLS_PER_S as f64)
}

#[expect(clippy::disallowed_methods, reason = "longer forms of a test are asked for through the environment")]
fn kills_asked_for() -> usize {
    std::env::var("TRAWLER_CREW_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(100)
}
