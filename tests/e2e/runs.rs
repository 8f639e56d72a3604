//! What becomes of what is asked, on a real cluster.

use std::time::Duration;

use serde_json::{Value, json};

use super::installed::Installed;
use super::kubectl::{Namespace, condition, eventually, run, tool};

#[test]
fn a_run_crawls_the_federation_and_a_second_one_finds_what_has_changed() {
    let installed = Installed::new("run");
    installed.run("first", "");
    let first = installed.ended("first");
    installed.is_whole(&first);
    assert_eq!(first["status"]["records"]["added"].as_u64(), Some(installed.expected()));
    let change = installed.federation.change();
    installed.run("second", "");
    let second = &installed.ended("second")["status"]["records"];
    let seen = ["added", "updated", "deleted"].map(|what| second[what].as_u64());
    assert_eq!(seen, [change.added, change.updated, change.deleted].map(Some));
    let told = |node: &Value| node["status"]["lastCrawl"]["crawlRun"] == "second";
    let node = installed.namespace.until("catalognode", "harbour", "told of", told);
    assert_eq!(condition(&node, "Ready"), Some("True"));
    let table = installed.namespace.kubectl(&["get", "crawlruns"]).unwrap();
    assert!(table.contains("Complete"), "{table}");
    // `kubectl wait`, Argo CD and Flux read it alike.
    installed.namespace.kubectl(&["wait", "--for=condition=Succeeded", "crawlrun/first", "--timeout=5s"]).unwrap();
}

#[test]
fn a_run_freezes_and_thaws() {
    let installed = Installed::with("freeze", "", Duration::from_millis(300));
    installed.run("frozen", "");
    installed.midway("frozen");
    let suspend = |on: bool| {
        let patch = format!("{{\"spec\":{{\"suspend\":{on}}}}}");
        installed.namespace.kubectl(&["patch", "crawlrun", "frozen", "--type=merge", "-p", &patch]).unwrap();
    };
    suspend(true);
    installed.namespace.until("crawlrun", "frozen", "frozen", |run| condition(run, "Frozen") == Some("True"));
    let all_ended = || {
        let pods = installed.crawler_pods();
        let alive = pods.iter().filter(|pod| !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")));
        (alive.count() == 0).then_some(())
    };
    eventually(Duration::from_mins(1), all_ended).expect("crawlers of a frozen run end");
    let before = installed.federation.requests();
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(installed.federation.requests(), before, "no request is sent while it is frozen");
    suspend(false);
    installed.is_whole(&installed.ended("frozen"));
}

#[test]
fn a_schedule_fires() {
    let installed = Installed::new("schedule");
    let patch = r#"{"spec":{"schedules":[{"name":"always","cron":"* * * * *"}]}}"#;
    installed.namespace.kubectl(&["patch", "catalog", "demo", "--type=merge", "-p", patch]).unwrap();
    let made = eventually(Duration::from_secs(90), || {
        installed.namespace.list("crawlruns", "trawler.dev/schedule=always").into_iter().next()
    });
    let name = made.expect("a run is made each minute")["metadata"]["name"].as_str().unwrap().to_owned();
    installed.is_whole(&installed.ended(&name));
    let scheduled = |catalog: &Value| catalog["status"]["schedules"][0]["lastScheduleTime"].is_string();
    installed.namespace.until("catalog", "demo", "told of", scheduled);
}

#[test]
fn a_node_suspended_and_a_policy_changed_midway_take_effect() {
    let installed = Installed::with("live", "", Duration::from_millis(200));
    installed.run("live", "");
    installed.midway("live");
    let patch = r#"{"spec":{"suspend":true}}"#;
    installed.namespace.kubectl(&["patch", "catalognode", "city-open-data", "--type=merge", "-p", patch]).unwrap();
    // The policy had allowed five calls in a second; with fifty the run is not held up by it.
    let patch = r#"{"spec":{"limits":[{"unit":"ApiCalls","amount":50,"period":"1s","pacing":"Burst"}]}}"#;
    installed.namespace.kubectl(&["patch", "throttlepolicy", "gentle", "--type=merge", "-p", patch]).unwrap();
    let held = |run: &Value| {
        run["status"]["waiting"]["reason"] == "NodeSuspended" || condition(run, "Succeeded") == Some("True")
    };
    installed.namespace.until("crawlrun", "live", "held by the suspended node, or through before", held);
    let patch = r#"{"spec":{"suspend":false}}"#;
    installed.namespace.kubectl(&["patch", "catalognode", "city-open-data", "--type=merge", "-p", patch]).unwrap();
    installed.is_whole(&installed.ended("live"));
}

#[test]
fn two_namespaces_do_not_touch_each_other() {
    let (one, other) = (Installed::new("one"), Installed::new("other"));
    one.run("same", "");
    other.run("same", "");
    one.is_whole(&one.ended("same"));
    other.is_whole(&other.ended("same"));
    let operator = format!("system:serviceaccount:{}:t-trawler-operator", one.namespace.0);
    for what in ["catalognodes.trawler.dev", "secrets", "jobs.batch"] {
        let mut can = tool("kubectl");
        can.args(["auth", "can-i", "list", what, "-n", &other.namespace.0, "--as", &operator]);
        assert!(run(&mut can).is_err(), "{operator} may list {what} of another namespace");
    }
}

#[test]
fn two_runs_share_the_tokens_by_weight_and_leave_none_idle() {
    let installed = Installed::with("weight", "", Duration::from_millis(1500));
    // Each server stands for six nodes: more to do than there are tokens.
    let nodes = installed.namespace.list("catalognodes", "federation=demo");
    let copies: Vec<Value> = (0..30)
        .map(|number| {
            let mut node = nodes[number % nodes.len()].clone();
            let name = format!("{}-{number}", node["metadata"]["name"].as_str().unwrap());
            node["metadata"] = json!({"name": name, "labels": {"many": "yes"}});
            node.as_object_mut().unwrap().remove("status");
            node["spec"].as_object_mut().unwrap().remove("throttlePolicyRef");
            node
        })
        .collect();
    installed.namespace.apply(&json!({"apiVersion": "v1", "kind": "List", "items": copies}).to_string());
    for (catalog, weight) in [("heavy", 3), ("light", 1)] {
        installed.namespace.apply(&format!(
            "apiVersion: trawler.dev/v1alpha1\nkind: Catalog\nmetadata: {{name: {catalog}}}\n\
             spec: {{catalogNodeSelector: {{matchLabels: {{many: 'yes'}}}}}}"
        ));
        installed.namespace.apply(&format!(
            "apiVersion: trawler.dev/v1alpha1\nkind: CrawlRun\nmetadata: {{name: {catalog}}}\n\
             spec: {{catalogRef: {{name: {catalog}}}, tokens: 8, weight: {weight}, crawler: {{concurrency: 1}}}}"
        ));
    }
    let of = |name: &str| installed.namespace.get("crawlrun", name).unwrap_or_default()["status"].clone();
    let shares = eventually(Duration::from_mins(1), || {
        let held = ["heavy", "light"].map(|name| of(name)["tokens"]["held"].as_i64().unwrap_or(0));
        (held == [3, 1]).then_some(held)
    });
    assert_eq!(shares, Some([3, 1]), "{}", installed.namespace.state());
    // While there is more to do than tokens, they are used.
    let (mut looks, mut busy) = (0, 0);
    while looks < 30 {
        let queued = ["heavy", "light"].map(|name| of(name)["ledger"]["queued"].as_i64().unwrap_or(0));
        let pods = installed.crawler_pods();
        if queued[0] < 4 || queued[1] < 2 {
            break;
        }
        let at_work = pods.iter().filter(|pod| {
            matches!(pod["status"]["phase"].as_str(), Some("Pending" | "Running"))
                && pod["metadata"]["deletionTimestamp"].is_null()
        });
        (looks, busy) = (looks + 1, busy + at_work.count().min(4));
    }
    println!("{busy} of {} tokens were busy", 4 * looks);
    assert!(looks >= 5 && busy * 10 >= 4 * looks * 9, "{busy} of {} tokens", 4 * looks);
    for name in ["heavy", "light"] {
        let run = installed.ended(name);
        assert_eq!(condition(&run, "Succeeded"), Some("True"), "{run:#}");
    }
}

#[test]
fn two_instances_share_one_redis_and_nothing_else() {
    let shared = Namespace("e2e-shared-redis".to_owned());
    run(tool("kubectl").args(["create", "namespace", &shared.0])).unwrap();
    shared.apply(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: redis, labels: {app: redis}}\nspec:\n  containers:\n  - name: redis\n    \
         image: trawler.dev/redis:test\n    imagePullPolicy: Never\n    command: [redis-server, --protected-mode, 'no', --save, '']\n---\n\
         apiVersion: v1\nkind: Service\nmetadata: {name: redis}\nspec: {selector: {app: redis}, ports: [{port: 6379}]}",
    );
    let of = |instance: &str| {
        let url = "redis://redis.e2e-shared-redis.svc.cluster.local:6379";
        format!("instance: {instance}\nredis: {{external: {{url: '{url}'}}}}")
    };
    let one = Installed::with("sharer-one", &of("one"), Duration::ZERO);
    let other = Installed::with("sharer-two", &of("two"), Duration::ZERO);
    one.run("same", "");
    other.run("same", "");
    one.is_whole(&one.ended("same"));
    other.is_whole(&other.ended("same"));
    run(tool("kubectl").args(["delete", "namespace", &shared.0, "--wait=false"])).unwrap();
}
