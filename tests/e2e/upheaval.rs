//! What goes wrong around a run, and what the run makes of it.

use std::collections::BTreeSet;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::time::Duration;

use serde_json::Value;

use super::installed::Installed;
use super::kubectl::{cluster, condition, eventually};

fn names(objects: &[Value]) -> Vec<String> {
    objects.iter().filter_map(|object| object["metadata"]["name"].as_str().map(str::to_owned)).collect()
}

/// Kills in all.
const KILLS: usize = 20;

#[test]
fn operators_that_are_killed_each_at_another_write_leave_whole_runs() {
    let installed = Installed::with("kills", "", Duration::from_millis(300));
    let mut writes = Writes::of(&installed.namespace.0);
    let mut killed_at: BTreeSet<String> = BTreeSet::new();
    let mut runs = 0;
    while killed_at.len() < KILLS {
        assert!(runs < 12, "only {} different writes in {runs} runs: {killed_at:?}", killed_at.len());
        runs += 1;
        let name = format!("killed-{runs}");
        installed.run(&name, "");
        while killed_at.len() < KILLS {
            let run = installed.namespace.get("crawlrun", &name);
            if run.is_some_and(|run| matches!(condition(&run, "Succeeded"), Some("True" | "False"))) {
                break;
            }
            let next = eventually(Duration::from_secs(3), || writes.next(|write| !killed_at.contains(write)));
            let Some(write) = next else { continue };
            let pod = installed.operator_pod();
            installed.namespace.kubectl(&["delete", "pod", &pod, "--grace-period=0", "--force"]).unwrap();
            println!("kill {}: right after {write}", killed_at.len() + 1);
            killed_at.insert(write);
        }
        installed.is_whole(&installed.ended(&name));
    }
}

/// The writes of a namespace's operator, as the API server's audit log has them.
struct Writes {
    path: String,
    user: String,
    seen: u64,
}

impl Writes {
    fn of(namespace: &str) -> Self {
        let path = format!("{}/logs/audit.log", cluster());
        Self {
            seen: std::fs::metadata(&path).unwrap().len(),
            path,
            user: format!("system:serviceaccount:{namespace}:"),
        }
    }

    /// The next one that is wanted, of those that were made since this was asked last.
    fn next(&mut self, wanted: impl Fn(&str) -> bool) -> Option<String> {
        let mut file = std::fs::File::open(&self.path).unwrap();
        file.seek(SeekFrom::Start(self.seen)).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        self.seen += whole as u64;
        text[..whole].lines().rev().find_map(|line| {
            let event: Value = serde_json::from_str(line).ok()?;
            let is_ours = event["user"]["username"].as_str()?.starts_with(&self.user);
            let verb = event["verb"].as_str().filter(|verb| ["create", "update", "patch", "delete"].contains(verb))?;
            let part = |name: &str| event["objectRef"][name].as_str().unwrap_or_default().to_owned();
            // Each event has a name of its own.
            let name = if part("resource") == "events" { String::new() } else { part("name") };
            let write = format!("{verb} {}/{name} {}", part("resource"), part("subresource"));
            (is_ours && wanted(&write)).then_some(write)
        })
    }
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

#[test]
fn crawlers_that_run_out_of_memory_are_named_and_started_ever_more_slowly() {
    let installed = Installed::new("memory");
    installed.run("starved", "  crawler: {resources: {limits: {memory: 7Mi}, requests: {memory: 7Mi}}}");
    let starves = |run: &Value| {
        matches!(
            run["status"]["waiting"]["reason"].as_str(),
            Some("OutOfMemory" | "CrawlerCannotStart" | "CrawlerCrashed")
        )
    };
    let run = installed.namespace.until("crawlrun", "starved", "starved", starves);
    println!("{}", run["status"]["waiting"]["message"]);
    std::thread::sleep(Duration::from_secs(15));
    let run = installed.namespace.get("crawlrun", "starved").unwrap();
    assert_eq!(condition(&run, "Succeeded"), Some("Unknown"));
    assert_eq!(run["status"]["ledger"]["dead"], 0, "who never began to work on anything is charged for nothing");
    let pods = installed.crawler_pods().len();
    assert!(pods <= 8, "{pods} pods within half a minute are a churn");
    installed.namespace.kubectl(&["delete", "crawlrun", "starved"]).unwrap();
    installed.run("fed", "");
    installed.is_whole(&installed.ended("fed"));
}

#[test]
#[ignore = "takes the machine away from all other tests: tests/e2e/run lets it run alone"]
fn a_crawler_that_is_preempted_charges_nobody() {
    let installed =
        Installed::with("preempt", "crawler: {resources: {requests: {cpu: 800m}}}", Duration::from_millis(500));
    installed
        .namespace
        .apply("apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: e2e-urgent}\nvalue: 1000");
    installed.run("preempted", "  crawler: {concurrency: 1}");
    installed.midway("preempted");
    installed.namespace.apply(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: urgent}\nspec:\n  priorityClassName: e2e-urgent\n  restartPolicy: Never\n  \
         securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}\n  containers:\n  - name: urgent\n    \
         image: trawler.dev/redis:test\n    imagePullPolicy: Never\n    command: [sh, -c, 'read -t 8 x < /dev/zero; exit 0']\n    \
         resources: {requests: {cpu: 1500m}}\n    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}",
    );
    let preempted = eventually(Duration::from_mins(1), || {
        let events = installed.namespace.kubectl(&["get", "events", "-o", "json"]).ok()?;
        events.contains("\"Preempted\"").then_some(())
    });
    preempted.unwrap_or_else(|| panic!("nobody is preempted:\n{}", installed.namespace.state()));
    installed.namespace.kubectl(&["delete", "pod", "urgent", "--grace-period=0", "--force"]).unwrap();
    let run = installed.ended("preempted");
    installed.is_whole(&run);
    assert_eq!(run["status"]["ledger"]["dead"], 0);
}

#[test]
#[ignore = "takes the machine away from all other tests: tests/e2e/run lets it run alone"]
fn a_machine_that_falls_silent_while_pods_go_on_loses_nothing() {
    let tolerations = "crawlerClasses: {default: {tolerations: [\
        {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 3}, \
        {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 3}]}}";
    let installed = Installed::with("silent", tolerations, Duration::from_millis(700));
    installed.run("silent", "  crawler: {concurrency: 1}");
    installed.midway("silent");
    process("stop");
    let told_to_go = eventually(Duration::from_mins(2), || {
        let pods = installed.crawler_pods();
        pods.iter().any(|pod| !pod["metadata"]["deletionTimestamp"].is_null()).then_some(())
    });
    process("start");
    told_to_go.unwrap_or_else(|| panic!("no pod of the silent machine is given up:\n{}", installed.namespace.state()));
    let run = installed.ended("silent");
    installed.is_whole(&run);
    assert_eq!(run["status"]["ledger"]["dead"], 0, "a lost machine charges nobody");
}

/// Stops or starts the kubelet.
fn process(verb: &str) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/cluster/process");
    let ended = std::process::Command::new(script).args([&cluster(), verb, "kubelet"]).status().unwrap();
    assert!(ended.success());
}
