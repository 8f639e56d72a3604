//! `trawler queue` and `trawler top --once` against a real server, as a person runs them.

use trawler::clock::SystemClock;
use trawler::queue::redis::{RedisSettings, open};
use trawler::queue::{Claim, Holder, JoinRequest, SettleResult, Settlement, SharedQueue};
use trawler::task::RunId;

use crate::redis_server::new_instance;
use crate::support::busy_queue::{config, page};
use crate::support::trawler::{Ended, Workplace};

const RUN: &str = "federation-7";

/// An instance on a real server with a run, and the command that asks it.
struct Asked {
    settings: RedisSettings,
    queue: SharedQueue,
    place: Workplace,
}

impl Asked {
    /// Five pages of one node: one dead, one under way, three queued.
    async fn filled() -> Self {
        let asked = Self::empty();
        asked.queue.open(config(RUN, &[("harbour", "open")])).await.unwrap();
        asked.queue.push(&RunId::from(RUN), (0..5).map(|number| page("harbour", number)).collect()).await.unwrap();
        let holder = asked.join(0).await;
        let Claim::Tasks(tasks) = asked.queue.claim(&holder, 2).await.unwrap() else { panic!("there are tasks") };
        let result = SettleResult::Dead { why: "the server answered 410 Gone".into() };
        let settlement = Settlement { lease: tasks[0].lease, result, documents: 0, bytes: 0 };
        asked.queue.settle(&holder, vec![settlement]).await.unwrap();
        asked
    }

    fn empty() -> Self {
        let settings = new_instance(false);
        let queue = open(&settings, SystemClock::shared()).unwrap();
        Self { settings, queue, place: Workplace::new() }
    }

    async fn join(&self, token: u32) -> Holder {
        let (run, uid, group) = (RunId::from(RUN), format!("crawler-{token}"), "default".to_owned());
        self.queue.join(JoinRequest { run, token, uid, group }).await.unwrap()
    }

    fn trawler(&self, arguments: &[&str]) -> Ended {
        let options = ["--redis", &self.settings.url, "--instance", &self.settings.instance];
        self.place.trawler(&[arguments, &options].concat())
    }

    fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let ended = self.trawler(&[&["queue"], arguments, &["-o", "json"]].concat());
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{arguments:?}");
        serde_json::from_str(&ended.stdout).unwrap()
    }

    fn refused(&self, arguments: &[&str], code: i32, why: &str) {
        let ended = self.trawler(&[&["queue"], arguments].concat());
        let expected = format!("trawler: {why}\n");
        assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (code, "", &*expected), "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_in_redis_is_looked_at() {
    let asked = Asked::filled().await;
    let runs = asked.json(&["ls"]);
    let ledger = serde_json::json!({
        "discovered": 5, "queued": 3, "delayed": 0, "leased": 1, "done": 0, "dead": 1, "dropped": 0
    });
    let status = serde_json::json!({
        "run": RUN, "frozen": false, "weight": 2, "holders": 1, "maxHolders": 4, "ledger": ledger
    });
    assert_eq!(runs, serde_json::json!([status]));
    let sheet = asked.json(&["show"]);
    assert_eq!((&sheet["status"], &sheet["holders"][0]["uid"]), (&status, &serde_json::json!("crawler-0")));
    let lanes = asked.json(&["lanes", RUN]);
    assert_eq!((&lanes[0]["queued"], &lanes[0]["leased"]), (&serde_json::json!(3), &serde_json::json!(1)));
    let tasks = asked.json(&["peek"]);
    let in_state = |name: &str| tasks.as_array().unwrap().iter().filter(|task| task["state"] == name).count();
    assert_eq!((in_state("queued"), in_state("leased"), in_state("delayed")), (3, 1, 0), "{tasks}");
    let dead = asked.json(&["dead"]);
    assert_eq!(dead[0]["history"][0]["why"], "the server answered 410 Gone");
    let table = asked.trawler(&["queue", "dead"]);
    assert!(table.stdout.starts_with("TASK ") && table.stdout.contains("410 Gone"), "{table:?}");
    let frame = asked.trawler(&["top", "--once"]);
    assert_eq!((frame.code, frame.stderr.as_str()), (0, ""));
    for part in ["1 run", "federation-7", "harbour.example", "crawler-0"] {
        assert!(frame.stdout.contains(part), "{part}: {}", frame.stdout);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_in_redis_is_put_right() {
    let asked = Asked::filled().await;
    let id = |number| page("harbour", number).id.to_string();
    let retried = asked.trawler(&["queue", "retry", RUN, &id(0)[..8]]);
    assert_eq!((retried.code, retried.stdout.as_str()), (0, "Run federation-7: 1 dead task put back\n"), "{retried:?}");
    asked.refused(
        &["drop", RUN, &id(3)],
        2,
        "what is dropped is not fetched in this run; say --yes if that is what you want",
    );
    let dropped = asked.trawler(&["queue", "drop", RUN, "--yes", &id(3)[..8], &id(1)]);
    let said = "Run federation-7: 1 task dropped\n1 of those named is neither queued nor delayed\n";
    assert_eq!((dropped.code, dropped.stdout.as_str()), (1, said), "{dropped:?}");
    assert_eq!(asked.json(&["freeze"]), serde_json::json!({"run": RUN, "frozen": true, "leased": 1}));
    let holder = asked.join(1).await;
    assert_eq!(asked.queue.claim(&holder, 1).await, Ok(Claim::Frozen));
    assert_eq!(asked.json(&["thaw"]), serde_json::json!({"run": RUN, "frozen": false, "leased": 1}));
    assert_eq!(asked.json(&["audit"]), serde_json::json!({"run": RUN, "repaired": []}));
    let ledger = &asked.json(&["ls"])[0]["ledger"];
    assert_eq!((&ledger["queued"], &ledger["dropped"]), (&serde_json::json!(3), &serde_json::json!(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_says_what_is_wrong_with_a_server() {
    let asked = Asked::empty();
    let ended = asked.trawler(&["queue", "doctor"]);
    assert_eq!(ended.stderr, "");
    let findings = asked.trawler(&["queue", "doctor", "-o", "json"]);
    let found: Vec<serde_json::Value> = serde_json::from_str(&findings.stdout).unwrap();
    let problems = found.iter().filter(|finding| finding["severity"] == "problem").count();
    assert_eq!((ended.code, findings.code), if problems > 0 { (1, 1) } else { (0, 0) }, "{found:?}");
    for finding in &found {
        let said = format!("{}: {}", finding["about"].as_str().unwrap(), finding["says"].as_str().unwrap());
        let word = finding["severity"].as_str().unwrap();
        // A latency is another one each time.
        let beginning = said.split(|c: char| c.is_ascii_digit()).next().unwrap();
        assert!(ended.stdout.contains(&format!("{word:<7}  {beginning}")), "{said}: {}", ended.stdout);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_refused_by_name() {
    let asked = Asked::empty();
    assert_eq!(asked.trawler(&["queue", "ls"]).stdout, "No runs\n");
    asked.refused(&["show"], 2, "the instance has no runs");
    asked.refused(&["freeze", "x"], 2, "there is no run x: the instance has none");
    let asked = Asked::filled().await;
    asked.refused(&["show", "x"], 2, "there is no run x; the instance has federation-7");
    asked.refused(&["retry", RUN, "ffffffff"], 2, "no dead task begins with ffffffff");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_is_named_and_its_password_is_not() {
    let place = Workplace::new();
    for command in [&["queue", "ls"][..], &["top", "--once"]] {
        let ended = place.trawler(&[command, &["--redis", "redis://user:hunter2@127.0.0.1:1"]].concat());
        assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{ended:?}");
        assert_eq!(ended.stderr.trim_end().lines().count(), 1, "{ended:?}");
        assert!(ended.stderr.contains("127.0.0.1:1") && !ended.stderr.contains("hunter2"), "{ended:?}");
    }
    let ended = place.trawler(&["queue", "ls", "--redis", "http://user:hunter2@127.0.0.1"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{ended:?}");
    assert!(!ended.stderr.contains("hunter2"), "{ended:?}");
}

#[test]
fn without_a_terminal_top_names_what_prints_the_same() {
    let ended = Workplace::new().trawler(&["top", "--redis", "redis://127.0.0.1:1"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (2, ""));
    assert!(ended.stderr.contains("`trawler queue ls`") && ended.stderr.contains("`trawler top --once`"), "{ended:?}");
}
