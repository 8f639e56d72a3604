//! What becomes of what is asked.

use std::time::Duration;

use serde_json::{Value, json};
use trawler::store::RecordFilter;
use trawler::task::CatalogName;

use super::cluster::{Cluster, condition};
use super::on_one_thread;

async fn records(cluster: &Cluster) -> u64 {
    let catalog = cluster.api.objects("catalogs")[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let catalog = CatalogName::from(catalog.as_str());
    cluster.store.records(&catalog, &RecordFilter::default(), None, 100_000).await.unwrap().len() as u64
}

fn expected(cluster: &Cluster) -> u64 {
    cluster.federation.nodes().iter().map(|node| node.records).sum()
}

#[tokio::test]
async fn a_run_crawls_the_federation_and_says_so() {
    on_one_thread(async {
        let cluster = Cluster::start().await;
        let _operator = cluster.operator();
        cluster.run("first", json!({})).await;
        let run = cluster.ended("first").await;
        let status = &run["status"];
        assert_eq!((condition(&run, "Succeeded"), condition(&run, "Reconciling")), (Some("True"), None), "{status:#}");
        assert_eq!(status["conditions"][0]["reason"], "Complete");
        assert_eq!(records(&cluster).await, expected(&cluster));
        assert_eq!(status["records"]["added"], expected(&cluster));
        assert_eq!(status["catalogNodes"]["complete"], 5);
        cluster.settled().await;
        let node =
            cluster.api.until("catalognodes", "harbour", "told of", |node| !node["status"]["lastCrawl"].is_null());
        let node = node.await;
        assert_eq!(node["status"]["lastCrawl"]["crawlRun"], "first");
        assert_eq!(condition(&node, "Ready"), Some("True"));
        let catalogs = cluster.api.objects("catalogs");
        let name = catalogs[0]["metadata"]["name"].as_str().unwrap();
        let is_told = |catalog: &Value| catalog["status"]["records"] == json!(expected(&cluster));
        cluster.api.until("catalogs", name, "told of", is_told).await;
    })
    .await;
}

#[tokio::test]
async fn a_second_run_finds_what_has_changed() {
    on_one_thread(async {
        let cluster = Cluster::start().await;
        let _operator = cluster.operator();
        cluster.run("first", json!({})).await;
        cluster.ended("first").await;
        let change = cluster.federation.change();
        cluster.run("second", json!({})).await;
        let records = &cluster.ended("second").await["status"]["records"];
        assert_eq!(
            (&records["added"], &records["updated"], &records["deleted"]),
            (&json!(change.added), &json!(change.updated), &json!(change.deleted)),
        );
    })
    .await;
}

#[tokio::test]
async fn a_run_whose_catalog_is_missing_waits_for_it_and_says_what_to_do() {
    on_one_thread(async {
        let cluster = Cluster::start().await;
        let _operator = cluster.operator();
        cluster
            .create(json!({
                "apiVersion": "trawler.dev/v1alpha1", "kind": "CrawlRun", "metadata": {"name": "early"},
                "spec": {"catalogRef": {"name": "later"}},
            }))
            .await;
        let waits = |run: &Value| condition(run, "Stalled") == Some("True");
        let run = cluster.api.until("crawlruns", "early", "stalled", waits).await;
        let message = "there is no Catalog later in this namespace; make it, or delete this run";
        assert_eq!(run["status"]["waiting"]["message"], message);
        cluster
            .create(json!({
                "apiVersion": "trawler.dev/v1alpha1", "kind": "Catalog", "metadata": {"name": "later"},
                "spec": {"catalogNodeSelector": {}},
            }))
            .await;
        let run = cluster.ended("early").await;
        assert_eq!((condition(&run, "Succeeded"), condition(&run, "Stalled")), (Some("True"), None));
    })
    .await;
}

#[tokio::test]
async fn a_second_run_of_a_catalog_waits_for_the_first() {
    on_one_thread(async {
        let cluster = Cluster::start().await;
        cluster.run("first", json!({"suspend": true})).await;
        let _operator = cluster.operator();
        cluster.api.until("crawlruns", "first", "frozen", |run| condition(run, "Frozen") == Some("True")).await;
        cluster.run("second", json!({})).await;
        let waits = |run: &Value| run["status"]["waiting"]["reason"] == "AnotherRun";
        let second = cluster.api.until("crawlruns", "second", "waiting", waits).await;
        assert_eq!(second["status"]["waiting"]["position"], 1);
        assert_eq!(cluster.api.objects("jobs"), Vec::<Value>::new(), "nothing is handed out while it is frozen");
        cluster.patch("crawlruns", "first", json!({"spec": {"suspend": false}})).await;
        assert_eq!(condition(&cluster.ended("first").await, "Succeeded"), Some("True"));
        assert_eq!(condition(&cluster.ended("second").await, "Succeeded"), Some("True"));
    })
    .await;
}

#[tokio::test]
async fn a_crash_is_charged_and_the_run_goes_on() {
    on_one_thread(async {
        let cluster = Cluster::start().await;
        let deaths = [("OOMKilled", 137), ("Error", 134)];
        for (token, (reason, code)) in deaths.into_iter().enumerate() {
            cluster.pods.deaths.lock().unwrap().insert(format!("demo-token-{token:02}"), (reason.to_owned(), code));
        }
        let _operator = cluster.operator();
        cluster.run("hard", json!({"crawler": {"concurrency": 1}})).await;
        let run = cluster.ended("hard").await;
        assert_eq!(condition(&run, "Succeeded"), Some("True"), "{run:#}");
        assert_eq!(records(&cluster).await, expected(&cluster));
        assert_eq!(run["status"]["ledger"]["dead"], 0);
    })
    .await;
}

#[tokio::test]
async fn a_deleted_run_leaves_no_queue_and_no_job() {
    on_one_thread(async {
        let cluster = Cluster::start().await;
        let _operator = cluster.operator();
        cluster.run("gone", json!({"suspend": true})).await;
        cluster.api.until("crawlruns", "gone", "frozen", |run| condition(run, "Frozen") == Some("True")).await;
        cluster.delete("crawlruns", "gone").await;
        // The next run of the Catalog takes its place.
        cluster.run("next", json!({})).await;
        assert_eq!(condition(&cluster.ended("next").await, "Succeeded"), Some("True"));
        cluster.settled().await;
    })
    .await;
}

#[tokio::test]
async fn jobs_never_exceed_the_tokens_of_the_instance_and_of_the_run() {
    on_one_thread(async {
        let mut cluster = Cluster::start().await;
        cluster.tokens = 2;
        let _operator = cluster.operator();
        cluster.run("wide", json!({"tokens": 8, "crawler": {"concurrency": 1}})).await;
        cluster.ended("wide").await;
        assert_eq!(*cluster.pods.most.lock().unwrap(), 2, "and both are used");
        let names: Vec<String> =
            cluster.api.writes().into_iter().filter(|write| write.starts_with("POST jobs/")).collect();
        assert!(
            names.iter().all(|name| ["POST jobs/demo-token-00", "POST jobs/demo-token-01"].contains(&name.as_str()))
        );
    })
    .await;
}

#[tokio::test]
async fn a_schedule_makes_runs_and_a_request_makes_one() {
    on_one_thread(async {
        let cluster = Cluster::start().await;
        let _operator = cluster.operator();
        let name = cluster.api.objects("catalogs")[0]["metadata"]["name"].as_str().unwrap().to_owned();
        let annotations = json!({"metadata": {"annotations": {"trawler.dev/run-requested-at": "now"}}});
        cluster.patch("catalogs", &name, annotations).await;
        let handled = |catalog: &Value| catalog["status"]["lastHandledRunRequest"] == "now";
        cluster.api.until("catalogs", &name, "handled", handled).await;
        let runs = cluster.api.objects("crawlruns");
        assert_eq!(runs.len(), 1);
        let run = runs[0]["metadata"]["name"].as_str().unwrap().to_owned();
        assert_eq!(condition(&cluster.ended(&run).await, "Succeeded"), Some("True"));
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(cluster.api.objects("crawlruns").len(), 1, "one request, one run");
    })
    .await;
}

#[tokio::test]
async fn a_run_ends_at_its_deadline_and_goes_after_its_time_to_live() {
    on_one_thread(async {
        let cluster = Cluster::start().await;
        let _operator = cluster.operator();
        // The policy of the connector lets it through one request at a time.
        cluster.run("short", json!({"deadline": "1s", "ttlAfterFinished": "2s", "crawler": {"concurrency": 1}})).await;
        let run = cluster.ended("short").await;
        assert_eq!((condition(&run, "Succeeded"), condition(&run, "Stalled")), (Some("False"), Some("True")));
        assert_eq!(run["status"]["conditions"][0]["reason"], "DeadlineExceeded");
        for _ in 0..100 {
            if cluster.api.object("crawlruns", "short").is_none() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the run is still there");
    })
    .await;
}

#[tokio::test]
async fn policies_and_nodes_say_what_is_wrong_with_them() {
    on_one_thread(async {
        let cluster = Cluster::start().await;
        let _operator = cluster.operator();
        let target = json!([{"type": "Connection", "name": "shared"}]);
        for (name, created) in [("older", "2026-01-01T00:00:00Z"), ("younger", "2026-02-01T00:00:00Z")] {
            cluster
                .create(json!({
                    "apiVersion": "trawler.dev/v1alpha1", "kind": "ThrottlePolicy",
                    "metadata": {"name": name, "creationTimestamp": created},
                    "spec": {"limits": [{"unit": "ApiCalls", "amount": 1, "period": "1s"}], "targets": target},
                }))
                .await;
        }
        cluster
            .create(json!({
                "apiVersion": "trawler.dev/v1alpha1", "kind": "CatalogNode", "metadata": {"name": "closed"},
                "spec": {"endpoint": "https://closed.example", "protocol": "DSP", "credentialRef": {"name": "nowhere"}},
            }))
            .await;
        let loses = |policy: &Value| policy["status"]["targets"][0]["conditions"][0]["status"] == "False";
        let policy = cluster.api.until("throttlepolicies", "younger", "beaten", loses).await;
        let message = &policy["status"]["targets"][0]["conditions"][0]["message"];
        assert_eq!(message, "ThrottlePolicy older has this target: it is older, or comes first by name");
        let node =
            cluster.api.until("catalognodes", "closed", "judged", |node| condition(node, "Ready") == Some("False"));
        let node = node.await;
        let ready =
            node["status"]["conditions"].as_array().unwrap().iter().find(|condition| condition["type"] == "Ready");
        assert_eq!(ready.unwrap()["reason"], "UnusableCredential");
    })
    .await;
}

#[tokio::test]
async fn no_crawler_is_started_for_work_that_waits_for_long_and_a_policys_change_lets_it_go() {
    on_one_thread(async {
        let cluster = Cluster::start().await;
        let _operator = cluster.operator();
        let in_three_days = jiff::Timestamp::now().checked_add(jiff::SignedDuration::from_hours(72)).unwrap();
        let day = in_three_days.strftime("%a").to_string();
        let hours = json!([{"days": [day], "start": "01:00", "end": "02:00"}]);
        cluster.patch("throttlepolicies", "gentle", json!({"spec": {"allowedHours": hours}})).await;
        cluster.run("patient", json!({"catalogNodeNames": ["harbour"]})).await;
        let waits = |run: &Value| run["status"]["waiting"]["reason"] == "AllowedHours";
        let run = cluster.api.until("crawlruns", "patient", "waiting for hours", waits).await;
        assert!(run["status"]["waiting"]["until"].is_string());
        assert!(run["status"]["estimatedEnd"].is_string(), "{run:#}");
        // The first crawler starts at once, lingers, and ends; there is no second one.
        let pod = cluster.api.objects("pods")[0]["metadata"]["name"].as_str().unwrap().to_owned();
        let is_idle = |pod: &Value| pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 25;
        cluster.api.until("pods", &pod, "idle", is_idle).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let started = cluster.api.writes().into_iter().filter(|write| write.starts_with("POST jobs/")).count();
        assert_eq!(started, 1);
        cluster.patch("throttlepolicies", "gentle", json!({"spec": {"allowedHours": null}})).await;
        let run = cluster.ended("patient").await;
        assert_eq!(condition(&run, "Succeeded"), Some("True"), "{run:#}");
    })
    .await;
}
