//! CKAN portals.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use trawler::clock::Stopwatch;
use url::Url;

use super::{Place, RUN, Run, http_date, in_full_because, moment};
use crate::support::http_server::{HttpServer, Reply, Seen};

const NO_DATE_LEFT: &str = "no earlier run left a date to start from";
/// As CKAN writes it: UTC, without saying so.
const NAIVE: &str = "%Y-%m-%dT%H:%M:%S%.6f";
const MOST_ROWS: usize = 10;

/// A portal with a clock of its own, and a search that understands dates as Solr does.
#[derive(Debug)]
struct Portal {
    now: Timestamp,
    packages: BTreeMap<String, Package>,
    manner: Manner,
}

#[derive(Debug, Clone)]
struct Package {
    version: u32,
    modified: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Obliging,
    /// Reads over every filter.
    Deaf,
    /// Answers 409 to a filter by date.
    Refusing,
    /// Finds nothing by date.
    Forgetful,
    /// Answers 500 to every page but the first.
    Breaking,
}

type Shared = Arc<Mutex<Portal>>;

/// One package for each day from 1 January 2026 on.
fn portal(count: u32) -> Shared {
    let package = |n: u32| {
        let modified = moment("2026-01-01T08:00:00.5Z") + SignedDuration::from_hours(24 * i64::from(n));
        (format!("p{n:03}"), Package { version: 1, modified })
    };
    let packages = (0..count).map(package).collect();
    Arc::new(Mutex::new(Portal { now: moment("2026-06-01T12:00:00Z"), packages, manner: Manner::Obliging }))
}

impl Portal {
    fn set_time(&mut self, now: &str) {
        self.now = moment(now);
    }

    /// Makes packages, or edits them.
    fn edit(&mut self, ids: &[&str]) {
        for id in ids {
            let version = self.packages.get(*id).map_or(1, |package| package.version + 1);
            self.packages.insert((*id).to_owned(), Package { version, modified: self.now });
        }
    }

    fn remove(&mut self, ids: &[&str]) {
        self.packages.retain(|id, _| !ids.contains(&id.as_str()));
    }

    fn answer(&self, seen: &Seen) -> Reply {
        let url = Url::parse("http://portal.example").unwrap().join(&seen.target).unwrap();
        let parameter =
            |name: &str| url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
        let number = |name: &str| parameter(name).map_or(0, |text| text.parse::<usize>().unwrap());
        let queries: Vec<String> = ["q", "fq"].into_iter().filter_map(parameter).collect();
        if self.manner == Manner::Refusing && queries.iter().any(|query| query.contains("metadata_modified")) {
            let error = json!({"success": false, "error": {"__type": "Search Query Error", "message": "Invalid date"}});
            return self.dated(Reply::status(409).body(error.to_string()));
        }
        if self.manner == Manner::Breaking && number("start") > 0 {
            return self.dated(Reply::status(500));
        }
        let matches = |id: &str, package: &Package| match self.manner {
            Manner::Deaf => true,
            Manner::Forgetful => queries.is_empty(),
            _ => queries.iter().all(|query| matches_query(query, id, package)),
        };
        let found: Vec<_> = self.packages.iter().filter(|(id, package)| matches(id, package)).collect();
        let page = found.iter().skip(number("start")).take(number("rows").min(MOST_ROWS));
        let results: Vec<Value> = page
            .map(|(id, package)| {
                let title = format!("{id} version {}", package.version);
                json!({"id": id, "title": title, "metadata_modified": package.modified.strftime(NAIVE).to_string()})
            })
            .collect();
        let result = json!({"count": found.len(), "results": results});
        self.dated(Reply::ok(json!({"success": true, "result": result}).to_string()))
    }

    fn dated(&self, reply: Reply) -> Reply {
        reply.field("Date", http_date(self.now))
    }
}

/// Only the queries that this project sends, and never two joined into one.
fn matches_query(query: &str, id: &str, package: &Package) -> bool {
    if let Some(id_that_is_out) = query.strip_prefix("-name:") {
        return id != id_that_is_out;
    }
    let since = query.strip_prefix("metadata_modified:[").and_then(|rest| rest.strip_suffix(" TO *]"));
    package.modified >= since.unwrap_or_else(|| panic!("what does {query} mean?")).parse().unwrap()
}

async fn serve(portal: &Shared) -> HttpServer {
    let portal = portal.clone();
    HttpServer::start(move |seen| portal.lock().unwrap().answer(seen)).await
}

fn place(server: &HttpServer, more: &str) -> Place {
    Place::new(server, "/", &format!("  protocol: CKAN\n{more}"))
}

/// The moments since when changes were asked for, one for each request that did.
fn asked_since(run: &Run) -> Vec<String> {
    let query = |asked: &String| {
        let url = Url::parse("http://portal.example").unwrap().join(asked.strip_prefix("GET ").unwrap()).unwrap();
        let mut pairs = url.query_pairs().map(|(_, value)| value.into_owned());
        pairs.find_map(|text| Some(text.strip_prefix("metadata_modified:[")?.strip_suffix(" TO *]")?.to_owned()))
    };
    run.asked.iter().filter_map(query).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_changed_is_asked_for_and_what_is_gone_is_found_by_the_next_full_run() {
    let portal = portal(55);
    let server = serve(&portal).await;
    let place = place(&server, "");
    let full = place.run("Full", &server).await;
    assert_eq!((full.totals(), full.asked.len(), full.read()), ([55, 0, 0, 0], 6, json!({"read": "Full"})));

    {
        let mut changing = portal.lock().unwrap();
        changing.set_time("2026-06-20T12:00:00Z");
        changing.edit(&["p003", "p017", "p054", "new"]);
        changing.remove(&["p020", "p030"]);
    }
    let changes = place.run("Incremental", &server).await;
    // The newest package was of 24 February, 08:00:00.5; the one of the day before comes again.
    assert_eq!(changes.totals(), [1, 3, 1, 0]);
    assert_eq!((changes.asked.len(), asked_since(&changes)), (1, vec!["2026-02-23T08:00:00Z".to_owned()]));
    assert_eq!(changes.read(), json!({"read": "Incremental", "since": "2026-02-23T08:00:00Z"}));
    let titles = place.titles();
    assert_eq!(titles.len(), 56);
    for title in ["p003 version 2", "p017 version 2", "p054 version 2", "new version 1", "p020 version 1"] {
        assert!(titles.iter().any(|known| known == title), "{title}");
    }

    let full = place.run("Full", &server).await;
    // Two are missing from the list, so it is read a second time.
    assert_eq!((full.totals(), full.asked.len()), ([0, 0, 54, 2], 2 * 6));
}

#[tokio::test(flavor = "multi_thread")]
async fn b_19_the_first_incremental_run_reads_in_full_and_says_so() {
    let portal = portal(15);
    let server = serve(&portal).await;
    let place = place(&server, "");
    let first = place.run("Incremental", &server).await;
    assert_eq!((first.totals(), first.read()), ([15, 0, 0, 0], in_full_because(NO_DATE_LEFT)));
    let second = place.run("Incremental", &server).await;
    assert_eq!((second.totals(), second.asked.len()), ([0, 0, 2, 0], 1));
    assert_eq!(second.report["mode"], "Incremental");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_portal_that_was_found_out_is_asked_for_changes_too() {
    let portal = portal(25);
    let server = serve(&portal).await;
    let place = Place::new(&server, "/", "  protocol: Auto\n");
    assert_eq!(place.run("Full", &server).await.totals(), [25, 0, 0, 0]);
    portal.lock().unwrap().set_time("2026-06-20T12:00:00Z");
    portal.lock().unwrap().edit(&["p003"]);
    let changes = place.run("Incremental", &server).await;
    assert_eq!((changes.totals(), asked_since(&changes)), ([0, 1, 2, 0], vec!["2026-01-24T08:00:00Z".to_owned()]));
    portal.lock().unwrap().manner = Manner::Refusing;
    let full = place.run("Incremental", &server).await;
    assert_eq!(
        (full.totals(), full.read()),
        ([0, 0, 25, 0], in_full_because("the server refused to be asked for changes"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn edits_are_found_whatever_the_portals_clock_shows() {
    // Years behind ours, and one package is of the portal's far future.
    let portal = portal(12);
    portal.lock().unwrap().packages.get_mut("p005").unwrap().modified = moment("2199-01-01T00:00:00Z");
    let server = serve(&portal).await;
    let place = place(&server, "");
    portal.lock().unwrap().set_time("2026-01-20T00:00:00Z");
    place.run("Full", &server).await;
    for (now, id, expected) in [
        ("2026-01-20T00:00:01Z", "p001", "p001 version 2"),
        ("2026-01-20T00:00:02Z", "p002", "p002 version 2"),
        ("2026-03-01T00:00:00Z", "p002", "p002 version 3"),
        // Put back by a month.
        ("2026-02-01T00:00:00Z", "p003", "p003 version 2"),
        ("2026-02-01T00:00:01Z", "p003", "p003 version 3"),
    ] {
        {
            let mut changing = portal.lock().unwrap();
            changing.set_time(now);
            changing.edit(&[id]);
        }
        let run = place.run("Incremental", &server).await;
        assert_eq!(run.totals()[1], 1, "{now}: {:?}", run.asked);
        assert!(place.titles().iter().any(|title| title == expected), "{now}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_portal_that_can_not_say_what_changed_is_read_in_full_with_all_that_belongs_to_it() {
    for (manner, why) in [
        (Manner::Deaf, "the server was asked for changes and answered with everything"),
        (Manner::Refusing, "the server refused to be asked for changes"),
        (Manner::Forgetful, "the server was asked for changes and left out even one that it had named before"),
    ] {
        let portal = portal(25);
        portal.lock().unwrap().manner = manner;
        let server = serve(&portal).await;
        let place = place(&server, "");
        place.run("Full", &server).await;
        {
            let mut changing = portal.lock().unwrap();
            changing.edit(&["p003"]);
            changing.remove(&["p020"]);
        }
        let run = place.run("Incremental", &server).await;
        assert_eq!((run.totals(), run.read()), ([0, 1, 23, 1], in_full_because(why)), "{manner:?}");
        assert_eq!(
            run.asked.len(),
            1 + 2 * 3,
            "the question, and three pages twice, since one is missing: {:?}",
            run.asked
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_portal_that_is_too_busy_for_the_question_is_not_asked_for_everything_before_it_wants_to_be() {
    let portal = portal(5);
    let asked_at = Arc::new(Mutex::new(Vec::new()));
    let (answering, noting) = (portal.clone(), asked_at.clone());
    let watch = Stopwatch::start();
    let server = HttpServer::start(move |seen| {
        noting.lock().unwrap().push(watch.elapsed());
        let is_question = seen.target.contains("metadata_modified");
        if is_question { Reply::status(503).field("Retry-After", "2") } else { answering.lock().unwrap().answer(seen) }
    })
    .await;
    let mut place = place(&server, "");
    place.manifests = place.manifests.replace("limit: 1", "limit: 0");
    place.run("Full", &server).await;
    let run = place.run("Incremental", &server).await;
    assert_eq!(run.read(), in_full_because("the server refused to be asked for changes"));
    let asked_at = asked_at.lock().unwrap();
    let [_, question, everything] = asked_at[..] else { panic!("{:?}", run.asked) };
    assert!(everything >= question + Duration::from_secs(2), "{question:?} {everything:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_asks_for_something_else_than_before_is_read_in_full() {
    let portal = portal(15);
    let server = serve(&portal).await;
    let mut place = place(&server, "  ckan: {filter: \"-name:p003\"}\n");
    assert_eq!(place.run("Full", &server).await.totals(), [14, 0, 0, 0]);
    let same = place.run("Incremental", &server).await;
    assert_eq!((asked_since(&same).len(), same.totals()), (1, [0, 0, 2, 0]), "the filter holds for changes too");

    // What the old filter left out is older than the checkpoint.
    place.manifests = place.manifests.replace("p003", "p001");
    let other = place.run("Incremental", &server).await;
    assert_eq!((other.totals(), other.read()), ([1, 0, 13, 1], in_full_because(NO_DATE_LEFT)));
    assert_eq!(asked_since(&other), [""; 0]);
}

/// Two calls a second: a run of some pages takes long enough to be killed.
const SLOW: &str = "---\napiVersion: trawler.dev/v1alpha1\nkind: ThrottlePolicy\nmetadata: {name: slow}\nspec:\n  \
                    limits: [{unit: ApiCalls, amount: 2, period: 1s, pacing: Even}]\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_run_goes_on_with_its_question_and_what_is_edited_meanwhile_comes_next_time() {
    let portal = portal(40);
    let server = serve(&portal).await;
    let mut place = place(&server, "");
    place.run("Full", &server).await;
    let ids: Vec<String> = (0..40).map(|n| format!("p{n:03}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    {
        let mut changing = portal.lock().unwrap();
        changing.set_time("2026-06-20T12:00:00Z");
        changing.edit(&ids);
    }

    let quick = place.manifests.clone();
    place.manifests = quick.replace("throttlePolicyRef: {name: quick}", "throttlePolicyRef: {name: slow}") + SLOW;
    place.set_mode("Incremental");
    let before = server.seen().len();
    let mut child = Command::new(env!("CARGO_BIN_EXE_trawler"))
        .args(RUN.split(' '))
        .current_dir(place.workplace.root())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while server.seen().len() < before + 2 {
        tokio::task::yield_now().await;
    }
    child.kill().unwrap();
    tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
    // The first page has been read; on it something is edited again, and the day of overlap is over.
    {
        let mut changing = portal.lock().unwrap();
        changing.set_time("2026-06-23T12:00:00Z");
        changing.edit(&["p000"]);
    }

    let asked_before = server.seen().len() - before;
    let resumed = place.run("Incremental", &server).await;
    assert!(resumed.asked.len() <= 4 - asked_before + 1, "one page is asked for twice at most: {:?}", resumed.asked);
    assert_eq!(resumed.totals()[..2], [0, 40]);
    assert_eq!(asked_since(&resumed), vec!["2026-02-08T08:00:00Z"; resumed.asked.len()]);
    assert!(place.titles().iter().any(|title| title == "p000 version 2"));

    place.manifests = quick;
    let next = place.run("Incremental", &server).await;
    assert_eq!((next.totals()[1], asked_since(&next)[0].as_str()), (1, "2026-06-19T12:00:00Z"));
    assert!(place.titles().iter().any(|title| title == "p000 version 3"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_over_changes_that_fails_leaves_the_checkpoint_where_it_was() {
    let portal = portal(15);
    let server = serve(&portal).await;
    let place = place(&server, "");
    place.run("Full", &server).await;
    portal.lock().unwrap().set_time("2026-06-20T12:00:00Z");
    let ids: Vec<String> = (0..13).map(|n| format!("p{n:03}")).collect();
    portal.lock().unwrap().edit(&ids.iter().map(String::as_str).collect::<Vec<_>>());
    // It breaks on the second page of the changes.
    portal.lock().unwrap().manner = Manner::Breaking;
    let run = place.run_ending(3, "Incremental", &server).await;
    assert_eq!((run.totals(), run.report["nodes"][0]["state"].as_str()), ([0, 10, 0, 0], Some("Partial")));
    portal.lock().unwrap().manner = Manner::Obliging;
    let run = place.run("Incremental", &server).await;
    assert_eq!((run.totals(), asked_since(&run)[0].as_str()), ([0, 3, 12, 0], "2026-01-14T08:00:00Z"));
}
