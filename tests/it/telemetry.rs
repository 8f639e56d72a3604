//! Log lines: readable by programs, with the fields that tell what they are about, and without secrets.

use std::sync::Arc;

use serde_json::Value;

use crate::support::http_server::{HttpServer, Reply};
use crate::support::trawler::{Workplace, manifests};

#[tokio::test(flavor = "multi_thread")]
async fn json_log_lines_carry_run_node_and_task_and_no_secret() {
    let broken = HttpServer::start(|_| Reply::status(500)).await;
    let place = Arc::new(Workplace::new());
    let endpoint = broken.url("/?key=canary-in-query").to_string();
    let more = "  protocol: CKAN\n  credentialRef: {name: token}\n";
    place.write("in.yaml", &manifests(&[("portal", &format!("{endpoint:?}"), more)]));
    place.write("secrets/token/header", "X-Key");
    place.write("secrets/token/value", "canary-in-header");
    let there = place.clone();
    let ended = tokio::task::spawn_blocking(move || {
        let arguments =
            "run -f in.yaml -q --allow-private 127.0.0.0/8 --secrets-dir secrets --log trace --log-format json";
        there.trawler(&arguments.split(' ').collect::<Vec<_>>())
    })
    .await
    .unwrap();
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    let lines: Vec<Value> = ended
        .stderr
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect();
    let given_up =
        lines.iter().find(|line| line["message"].as_str().is_some_and(|text| text.starts_with("task given up")));
    let given_up = given_up.unwrap_or_else(|| panic!("no task was given up in {}", ended.stderr));
    assert_eq!(
        (given_up["level"].as_str(), given_up["node"].as_str(), given_up["attempt"].as_u64()),
        (Some("INFO"), Some("portal"), Some(1))
    );
    assert_eq!(given_up["task"].as_str().map(str::len), Some(32), "{given_up}");
    assert_eq!(given_up["span"]["run"].as_str(), Some("test-1"), "{given_up}");
    for canary in ["canary-in-header", "canary-in-query"] {
        assert!(!ended.stderr.contains(canary) && !ended.stdout.contains(canary), "{canary} was written");
        assert!(!place.read("out/report.json").contains(canary), "{canary} is in the report");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_filter_that_can_not_be_read_is_named() {
    let place = Workplace::new();
    place.write("in.yaml", &manifests(&[("portal", "https://portal.example", "  suspend: true\n")]));
    let ended = place.trawler(&["run", "-f", "in.yaml", "-q", "--log", "trawler=loud"]);
    assert!(ended.stderr.contains("the log filter can't be read"), "{}", ended.stderr);
}
