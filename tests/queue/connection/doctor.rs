//! What the doctor finds on real servers.

use trawler::queue::redis::RedisSettings;
use trawler::queue::redis::doctor::{Finding, Severity, examine};

use super::{why, with_run};
use crate::server::{FORGETS, KEEPS, Server, free_port, shared};

/// Everything but what depends on the machine: its version and how fast it is.
async fn findings(settings: &RedisSettings) -> Vec<(Severity, String)> {
    let findings = examine(settings).await.unwrap();
    assert!(findings.is_sorted_by_key(|finding| finding.severity));
    let mut found: Vec<_> = findings
        .into_iter()
        .filter(|finding| !["version", "latency"].contains(&finding.about.as_str()))
        .map(|finding| (finding.severity, finding.about))
        .collect();
    found.sort();
    found
}

fn expected(problems: &[&str], warnings: &[&str], fine: &[&str]) -> Vec<(Severity, String)> {
    let all = [(Severity::Problem, problems), (Severity::Warning, warnings), (Severity::Fine, fine)];
    all.iter().flat_map(|(severity, abouts)| abouts.iter().map(|about| (*severity, (*about).to_owned()))).collect()
}

async fn finding(settings: &RedisSettings, about: &str) -> Finding {
    examine(settings).await.unwrap().into_iter().find(|finding| finding.about == about).unwrap()
}

#[tokio::test]
async fn a_server_that_is_fit_has_nothing_but_fine_findings() {
    let server = Server::start(&[&KEEPS[..], &["--maxmemory", "1gb"]].concat());
    let settings = server.settings_as("owner", "i");
    with_run(&settings, 1).await;
    let fine = ["disk", "eviction", "functions", "memory", "persistence", "rights", "role"];
    assert_eq!(findings(&settings).await, expected(&[], &[], &fine));
    assert!(finding(&settings, "functions").await.says.ends_with("is loaded"));
}

#[tokio::test]
async fn what_is_wrong_with_a_server_is_found() {
    let server = Server::start(&[&FORGETS[..], &["--maxmemory-policy", "allkeys-lru", "--maxmemory", "1mb"]].concat());
    let settings = server.settings("i");
    let (problems, warnings) = (["eviction"], ["memory", "persistence", "rights"]);
    assert_eq!(findings(&settings).await, expected(&problems, &warnings, &["disk", "functions", "rights", "role"]));
    let rights = finding(&settings, "rights").await;
    assert!(rights.says.contains("the user default reaches keys of other instances"), "{rights:?}");
    assert!(finding(&settings, "persistence").await.says.contains("nothing is kept on disk"));
    assert!(finding(&settings, "functions").await.says.contains("is not loaded"));
}

#[tokio::test]
async fn a_replica_is_a_problem_and_one_that_follows_is_fine() {
    let master = Server::start(&FORGETS);
    let port = master.port.to_string();
    let replica = Server::start(&[&FORGETS[..], &["--replicaof", "127.0.0.1", &port]].concat());
    while !replica.ask::<String>(&["INFO", "replication"]).contains("master_link_status:up") {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let role = finding(&replica.settings("i"), "role").await;
    assert_eq!((role.severity, role.says.as_str()), (Severity::Problem, "it is a slave, which takes no changes"));
    while !master.ask::<String>(&["INFO", "replication"]).contains("state=online") {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(finding(&master.settings("i"), "replicas").await.severity, Severity::Fine);
}

#[tokio::test]
async fn what_a_crawlers_user_may_not_look_at_is_said() {
    let (server, instance) = shared(false);
    let settings = server.settings_as("crawler", &instance);
    assert_eq!(findings(&settings).await, expected(&[], &["functions", "rights", "server"], &[]));
    let says = finding(&settings, "server").await.says;
    assert!(says.starts_with("could not be looked at: "), "{says}");
}

#[tokio::test]
async fn rights_that_are_missing_are_named() {
    let (server, instance) = shared(false);
    let settings = server.settings_as("owner", &instance);
    let user = format!("trawler-{instance}-owner");
    server.ask::<String>(&["ACL", "SETUSER", &user, "-zadd", "-publish", "-function|load"]);
    let rights: Vec<Finding> =
        examine(&settings).await.unwrap().into_iter().filter(|finding| finding.about == "rights").collect();
    let says: Vec<&str> = rights.iter().map(|finding| finding.says.as_str()).collect();
    let expected = [
        format!("the user {user} lacks rights that the queue's functions need: PUBLISH, ZADD"),
        format!("the user {user} may not load functions, so that it can't open runs"),
    ];
    assert_eq!(says, expected);
}

#[tokio::test]
async fn libraries_of_other_versions_are_named() {
    let server = Server::start(&FORGETS);
    let settings = server.settings_as("owner", "i");
    with_run(&settings, 1).await;
    let code = "#!lua name=trawler_1_00000000\nredis.register_function('x', function() end)";
    server.ask::<String>(&["FUNCTION", "LOAD", code]);
    let functions = finding(&settings, "functions").await;
    assert!(functions.says.ends_with("other versions' libraries are too: trawler_1_00000000"), "{functions:?}");
    assert!(functions.advice.contains("`FUNCTION DELETE trawler_1_00000000`"), "{functions:?}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error() {
    let (server, instance) = shared(false);
    let settings = RedisSettings { url: format!("redis://127.0.0.1:{}", free_port()), ..server.settings(&instance) };
    let why = why(examine(&settings).await);
    assert!(why.contains("can't be reached"), "{why}");
}

#[tokio::test]
async fn findings_are_written_as_they_are_read_by_programs() {
    let (server, instance) = shared(false);
    let finding = finding(&server.settings(&instance), "role").await;
    let expected = serde_json::json!({"severity": "fine", "about": "role", "says": "it is a master", "advice": ""});
    assert_eq!(serde_json::to_value(finding).unwrap(), expected);
}
