//! Operators that are wrong about the world: two that both lead, one that sees what was, one that misses what happens.

use std::time::Duration;

use serde_json::json;
use trawler::store::RecordFilter;
use trawler::task::CatalogName;

use super::api_server::Watching;
use super::cluster::{Cluster, condition};
use super::on_one_thread;

/// A run under these conditions comes to all records, with no pod above the tokens.
async fn is_whole(cluster: &Cluster, run: &str) {
    let run = cluster.ended(run).await;
    assert_eq!(condition(&run, "Succeeded"), Some("True"), "{run:#}");
    let catalog = CatalogName::from(cluster.api.objects("catalogs")[0]["metadata"]["name"].as_str().unwrap());
    let records = cluster.store.records(&catalog, &RecordFilter::default(), None, 100_000).await.unwrap().len() as u64;
    assert_eq!(records, cluster.federation.nodes().iter().map(|node| node.records).sum::<u64>());
    let most = *cluster.pods.most.lock().unwrap();
    assert!(most <= cluster.tokens as usize, "{most} pods for {} tokens", cluster.tokens);
}

#[tokio::test]
async fn two_operators_that_both_believe_to_lead_make_no_more_jobs_than_there_are_tokens() {
    on_one_thread(async {
        let mut cluster = Cluster::start().await;
        cluster.tokens = 2;
        let (_one, _other) = (cluster.operator_named("same"), cluster.operator_named("same"));
        cluster.run("contested", json!({"tokens": 8, "crawler": {"concurrency": 1}})).await;
        is_whole(&cluster, "contested").await;
        cluster.settled().await;
    })
    .await;
}

#[tokio::test]
async fn of_two_operators_of_different_names_one_leads_and_the_other_takes_over() {
    on_one_thread(async {
        let cluster = Cluster::start().await;
        let one = cluster.operator_named("one");
        cluster.run("first", json!({})).await;
        is_whole(&cluster, "first").await;
        let _other = cluster.operator_named("other");
        let holder = || cluster.api.objects("leases")[0]["spec"]["holderIdentity"].clone();
        assert_eq!(holder(), "one");
        drop(one);
        cluster.run("second", json!({})).await;
        is_whole(&cluster, "second").await;
        assert_eq!(holder(), "other");
    })
    .await;
}

#[tokio::test]
async fn an_operator_that_sees_everything_late_makes_no_job_too_many() {
    on_one_thread(async {
        let mut cluster = Cluster::start().await;
        cluster.tokens = 2;
        cluster.api.watch_like(Watching { late: Duration::from_millis(300), lose_every: None });
        let _operator = cluster.operator();
        cluster.run("late", json!({"tokens": 2, "crawler": {"concurrency": 1}})).await;
        is_whole(&cluster, "late").await;
        cluster.settled().await;
    })
    .await;
}

#[tokio::test]
async fn an_operator_that_misses_events_and_has_to_list_again_loses_nothing() {
    on_one_thread(async {
        let cluster = Cluster::start().await;
        for every in [3, 5] {
            cluster.api.watch_like(Watching { late: Duration::ZERO, lose_every: Some(every) });
            let _operator = cluster.operator();
            let name = format!("every-{every}");
            cluster.run(&name, json!({})).await;
            is_whole(&cluster, &name).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_job_that_somebody_deletes_while_its_pod_works_charges_nobody() {
    on_one_thread(async {
        let cluster = Cluster::start().await;
        let _operator = cluster.operator();
        cluster.run("meddled", json!({"crawler": {"concurrency": 1}})).await;
        cluster.api.until("jobs", "demo-token-00", "there", |_| true).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        cluster.delete_job("demo-token-00").await;
        is_whole(&cluster, "meddled").await;
        let run = cluster.api.object("crawlruns", "meddled").unwrap();
        assert_eq!(run["status"]["ledger"]["dead"], 0);
    })
    .await;
}
