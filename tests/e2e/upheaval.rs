//! What goes wrong around a run, and what the run makes of it.

use std::time::Duration;

use serde_json::Value;

use super::installed::Installed;
use super::kubectl::{condition, eventually};

fn names(objects: &[Value]) -> Vec<String> {
    objects.iter().filter_map(|object| object["metadata"]["name"].as_str().map(str::to_owned)).collect()
}

#[test]
fn operators_that_are_killed_again_and_again_leave_a_whole_run() {
    let installed = Installed::with("kills", "", Duration::from_millis(400));
    installed.run("killed", "");
    let mut kills = 0;
    while kills < 20 {
        let run = installed.namespace.get("crawlrun", "killed");
        if run.is_some_and(|run| matches!(condition(&run, "Succeeded"), Some("True" | "False"))) {
            break;
        }
        let pod = installed.operator_pod();
        installed.namespace.kubectl(&["delete", "pod", &pod, "--grace-period=0", "--force"]).unwrap();
        kills += 1;
        println!("kill {kills}: {pod}");
        std::thread::sleep(Duration::from_millis(1500));
    }
    assert!(kills >= 3, "the run was over after {kills} kills");
    installed.is_whole(&installed.ended("killed"));
}

#[test]
fn crawlers_that_are_evicted_or_run_out_of_memory_are_replaced_with_the_right_blame() {
    let installed = Installed::with("evict", "", Duration::from_millis(400));
    installed.run("evicted", "  crawler: {concurrency: 1}");
    installed.midway("evicted");
    let pods = installed.crawler_pods();
    let running = pods.iter().find(|pod| pod["status"]["phase"] == "Running").expect("a crawler works");
    let name = running["metadata"]["name"].as_str().unwrap();
    let body = format!(
        r#"{{"apiVersion":"policy/v1","kind":"Eviction","metadata":{{"name":"{name}","namespace":"{}"}}}}"#,
        installed.namespace.0
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), body).unwrap();
    let path = format!("/api/v1/namespaces/{}/pods/{name}/eviction", installed.namespace.0);
    let file = file.path().display().to_string();
    installed.namespace.kubectl(&["create", "--raw", &path, "-f", &file]).unwrap();
    let run = installed.ended("evicted");
    installed.is_whole(&run);
    assert_eq!(run["status"]["ledger"]["dead"], 0, "an eviction charges nobody");
}

#[test]
fn a_run_deleted_midway_takes_its_jobs_and_its_queue_with_it() {
    let installed = Installed::with("delete", "", Duration::from_millis(500));
    installed.run("deleted", "");
    installed.midway("deleted");
    installed.namespace.kubectl(&["delete", "crawlrun", "deleted"]).unwrap();
    let gone = eventually(Duration::from_mins(1), || installed.crawler_jobs().is_empty().then_some(()));
    gone.unwrap_or_else(|| panic!("jobs are left: {:?}", names(&installed.crawler_jobs())));
    installed.run("next", "");
    installed.is_whole(&installed.ended("next"));
}

#[test]
fn an_upgrade_midway_takes_over_running_runs_without_restarting_their_jobs() {
    let installed = Installed::with("upgrade", "", Duration::from_millis(700));
    installed.run("upgraded", "");
    installed.midway("upgraded");
    let uids = |jobs: Vec<Value>| {
        let alive =
            jobs.into_iter().filter(|job| job["status"]["succeeded"].is_null() && job["status"]["failed"].is_null());
        alive.filter_map(|job| job["metadata"]["uid"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let before = uids(installed.crawler_jobs());
    let operator = installed.operator_pod();
    installed.helm("upgrade", "operator: {podAnnotations: {upgraded: 'yes'}}").unwrap();
    assert_ne!(installed.operator_pod(), operator, "the operator is a new one");
    let all = installed.crawler_jobs();
    let all: Vec<&str> = all.iter().filter_map(|job| job["metadata"]["uid"].as_str()).collect();
    assert!(before.iter().all(|uid| all.contains(&uid.as_str())), "the same Jobs go on, or have ended by themselves");
    installed.is_whole(&installed.ended("upgraded"));
}
