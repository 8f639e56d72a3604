//! The doctor, at servers that are well and at others.

use trawler::queue::QueueError;
use trawler::queue::redis::doctor::{Finding, Severity, examine};

use super::*;

async fn found(settings: &RedisSettings) -> Vec<Finding> {
    examine(settings).await.unwrap()
}

/// The finding about this that is worst.
fn about<'a>(findings: &'a [Finding], about: &str) -> &'a Finding {
    let found = findings.iter().filter(|finding| finding.about == about).max_by_key(|finding| finding.severity);
    found.unwrap_or_else(|| panic!("nothing is said about {about}: {findings:#?}"))
}

#[track_caller]
fn assert_found(findings: &[Finding], subject: &str, severity: Severity, words: &str) {
    let finding = about(findings, subject);
    assert_eq!(finding.severity, severity, "{finding:?}");
    assert!(finding.says.contains(words), "{words:?} is not in {finding:?}");
    assert!(severity == Severity::Fine || !finding.advice.is_empty(), "no advice: {finding:?}");
}

const GOOD: [&str; 3] = ["appendonly yes", "maxmemory 100mb", "maxmemory-policy noeviction"];

#[tokio::test]
async fn a_good_server_is_fine() {
    let server = server_with_users(&GOOD);
    server.command(&["FUNCTION", "LOAD", "#!lua name=trawler_1\nredis.register_function('x', function() end)"]);
    let findings = found(&as_owner(&server)).await;
    assert_found(&findings, "persistence", Severity::Fine, "at most the last seconds");
    assert_found(&findings, "memory", Severity::Fine, "of 100 MiB");
    assert_found(&findings, "eviction", Severity::Fine, "nothing is thrown away");
    assert_found(&findings, "replicas", Severity::Fine, "it has none");
    assert_found(&findings, "rights", Severity::Fine, "all commands");
    assert_found(&findings, "functions", Severity::Fine, "loaded: trawler_1");
    assert!(about(&findings, "latency").says.contains(" ms"));
    assert!(
        about(&findings, "version").says.starts_with("Redis ")
            || about(&findings, "version").says.starts_with("Valkey ")
    );
}

#[tokio::test]
async fn a_server_as_it_comes_has_risks() {
    let server = server_with_users(&[]);
    let findings = found(&as_owner(&server)).await;
    assert_found(&findings, "persistence", Severity::Warning, "nothing is kept on disk");
    assert_found(&findings, "memory", Severity::Warning, "there is no limit");
    assert_found(&findings, "functions", Severity::Warning, "are not loaded");

    server.command(&["CONFIG", "SET", "save", "60 1"]);
    let findings = found(&as_owner(&server)).await;
    assert_found(&findings, "persistence", Severity::Warning, "only snapshots");
}

#[tokio::test]
async fn a_cache_loses_the_queue() {
    let server =
        server_with_users(&["maxmemory 2mb", "maxmemory-policy allkeys-lru", "appendonly yes", "appendfsync no"]);
    server.command(&["SET", "x", &"x".repeat(600_000)]);
    let findings = found(&as_owner(&server)).await;
    assert_found(&findings, "eviction", Severity::Problem, "allkeys-lru");
    assert_found(&findings, "persistence", Severity::Warning, "appendfsync is no");
}

#[tokio::test]
async fn a_crawler_is_told_what_it_cannot_see() {
    let server = server_with_users(&GOOD);
    let findings = found(&as_crawler(&server)).await;
    assert_found(
        &findings,
        "server",
        Severity::Warning,
        "version, persistence, memory and replicas could not be looked at",
    );
    assert_found(&findings, "functions", Severity::Warning, "could not be looked at");
    assert_found(&findings, "rights", Severity::Fine, "all commands");
    assert_eq!(server.command(&["DBSIZE"]).unwrap(), ":0\r\n", "looking leaves nothing behind");
}

#[tokio::test]
async fn rights_that_are_missing_are_named() {
    let server = server_with_users(&GOOD);
    for (user, settings) in [("owner", as_owner(&server)), ("crawler", as_crawler(&server))] {
        server.command(&["ACL", "SETUSER", &format!("trawler-it-{user}"), "-zadd", "-hget"]);
        let findings = found(&settings).await;
        assert_found(&findings, "rights", Severity::Problem, "zadd (");
        let says = &about(&findings, "rights").says;
        assert!(says.contains("hget (") && !says.contains("hset"), "{says}");
    }
    server.command(&["ACL", "SETUSER", "trawler-it-crawler", "+@all", "resetkeys", "~other:*"]);
    assert_found(&found(&as_crawler(&server)).await, "rights", Severity::Problem, "get (");
}

#[tokio::test]
async fn a_replica_that_is_behind_is_named() {
    let server = server_with_users(&GOOD);
    let replica = RedisServer::start(Options::default());
    replica.command(&["REPLICAOF", "127.0.0.1", &server.port().to_string()]);
    replica.wait_for(&["INFO", "replication"], "master_link_status:up");
    server.wait_for(&["INFO", "replication"], "state=online");
    assert_found(&found(&as_owner(&server)).await, "replicas", Severity::Fine, "1, which keep up");
    assert_found(&found(&settings(replica.url())).await, "connection", Severity::Problem, "is a replica");
}

#[tokio::test]
async fn what_a_person_must_change_is_a_finding_and_what_passes_is_an_error() {
    let server = server_with_users(&[]);
    let wrong = settings(server.url_for("trawler-it-owner", "wrong"));
    assert_found(&found(&wrong).await, "connection", Severity::Problem, "does not accept user and password");
    let database = settings(server.url() + "/99");
    assert_found(&found(&database).await, "connection", Severity::Problem, "does not have the database");
    assert!(matches!(examine(&settings("http://x".to_owned())).await, Err(QueueError::Refused { .. })));
}
