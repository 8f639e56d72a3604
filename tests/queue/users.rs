//! The users of an instance: what a crawler needs it may do, and nothing else.

use std::time::Duration;

use trawler::clock::SystemClock;
use trawler::queue::redis::{RedisSettings, open};
use trawler::queue::{Claim, Holder, JoinRequest, Pushback, PushbackKind, QueueError, RunConfig, SharedQueue, Woken};
use trawler::task::RunId;

use crate::contract::scene::{GROUP, config, done_with, origin_of, page, pages, settlement};
use crate::server::{PASSWORD, Server, ask, shared};

fn run() -> RunId {
    RunId::from("run-1")
}

fn queue(settings: &RedisSettings) -> SharedQueue {
    open(settings, SystemClock::shared()).unwrap()
}

async fn join(queue: &SharedQueue) -> Result<Holder, QueueError> {
    let request = JoinRequest { run: run(), token: 0, uid: "job-0".into(), group: GROUP.into() };
    queue.join(request).await
}

/// An instance whose run is open, and what a crawler's user says to it.
fn as_crawler(server: &Server, instance: &str) -> String {
    server.settings_as("crawler", instance).url
}

#[tokio::test]
async fn a_crawlers_user_does_all_that_a_crawler_does() {
    let (server, instance) = shared(false);
    let owner = queue(&server.settings_as("owner", &instance));
    owner.open(config(&["a"])).await.unwrap();
    owner.push(&run(), pages("a", 2)).await.unwrap();
    let crawler = queue(&server.settings_as("crawler", &instance));

    let holder = join(&crawler).await.unwrap();
    let Claim::Tasks(tasks) = crawler.claim(&holder, 1).await.unwrap() else { panic!("a task is eligible") };
    crawler.permit(&holder, &tasks[0].lease, &origin_of("other")).await.unwrap();
    crawler.renew(&holder, &[tasks[0].lease]).await.unwrap();
    let pushback = Pushback { kind: PushbackKind::TooManyRequests, retry_after: Some(Duration::from_secs(1)) };
    crawler.pushback(&holder, &origin_of("a"), pushback).await.unwrap();
    let feedback = done_with(vec![page("a", 7)]);
    crawler.settle(&holder, vec![settlement(tasks[0].lease, feedback)]).await.unwrap();
    let Claim::Wait { sequence, until } = crawler.claim(&holder, 1).await.unwrap() else {
        panic!("the origin is closed")
    };

    let id = run();
    let change = async {
        owner.configure(RunConfig { weight: 2, ..config(&["a", "b"]) }).await.unwrap();
        owner.push(&run(), pages("b", 1)).await.unwrap();
    };
    let (woken, ()) = tokio::join!(crawler.wait(&id, sequence, until), change);
    assert_eq!(woken.unwrap(), Woken::Changed);
}

#[tokio::test]
async fn a_crawlers_user_does_nothing_else() {
    let (server, instance) = shared(false);
    let (_, other) = shared(false);
    queue(&server.settings_as("owner", &instance)).open(config(&["a"])).await.unwrap();
    queue(&server.settings_as("owner", &other)).open(config(&["a"])).await.unwrap();
    let url = as_crawler(server, &instance);
    let (others_key, own_key) = (format!("trawler:{{{other}}}:1:i"), format!("trawler:{{{instance}}}:1:i"));
    assert!(ask(&url, &["HGETALL", &own_key]).is_ok());

    let forbidden: [&[&str]; 16] = [
        &["FUNCTION", "LOAD", "#!lua name=x\nredis.register_function('x', function() end)"],
        &["FUNCTION", "LIST"],
        &["EVAL", "return 1", "0"],
        &["HGETALL", &others_key],
        &["HGETALL", "anything"],
        &["FCALL", "x", "1", &others_key],
        &["RENAME", &own_key, &others_key],
        &["PUBLISH", &format!("trawler:{{{other}}}:1:bell"), "run-1"],
        &["SUBSCRIBE", &format!("trawler:{{{other}}}:1:bell")],
        &["PSUBSCRIBE", "*"],
        &["FLUSHALL"],
        &["CONFIG", "GET", "*"],
        &["INFO"],
        &["KEYS", "*"],
        &["SCAN", "0"],
        &["ACL", "LIST"],
    ];
    for command in forbidden {
        let error = ask(&url, command).expect_err(command[0]);
        assert_eq!(error.code(), Some("NOPERM"), "{command:?}: {error}");
    }
}

#[tokio::test]
async fn an_owners_user_reaches_no_other_instance_and_keeps_the_server_as_it_is() {
    let (server, instance) = shared(false);
    let url = server.settings_as("owner", &instance).url;
    let forbidden: [&[&str]; 6] = [
        &["HGETALL", "trawler:{other}:1:i"],
        &["CONFIG", "SET", "maxmemory", "1"],
        &["FUNCTION", "FLUSH"],
        &["ACL", "SETUSER", "x"],
        &["FLUSHALL"],
        &["KEYS", "*"],
    ];
    for command in forbidden {
        let error = ask(&url, command).expect_err(command[0]);
        assert_eq!(error.code(), Some("NOPERM"), "{command:?}: {error}");
    }
}

#[tokio::test]
async fn a_crawler_without_the_functions_is_told_who_loads_them() {
    let server = Server::start(&crate::server::FORGETS);
    let settings = server.settings_as("crawler", "i");
    let error = join(&queue(&settings)).await.unwrap_err();
    let at = format!("127.0.0.1:{}", server.port);
    let why = format!(
        "the queue's functions are not in the Redis at {at}, and this user may not load them: whoever opens the run does, \
         and must be of the same version of trawler as the crawlers"
    );
    assert_eq!(error, QueueError::Refused { why });
    assert!(!format!("{error} {error:?} {settings:?}").contains(PASSWORD));
}
