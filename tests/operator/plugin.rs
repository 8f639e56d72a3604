//! What `kubectl trawler` reads and does, over the operator that it speaks of.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use jiff::Timestamp;
use serde_json::{Value, json};
use trawler::api::RunMode;
use trawler::cli::kubectl::{Cluster as Asked, Start};
use trawler::clock::{Clock as _, SystemClock};
use trawler::plugin::{Answer as _, End, Look, NodeList, Output, RunList, State, end_of, why};

use super::cluster::{Cluster, condition};
use super::on_one_thread;

fn now() -> Timestamp {
    SystemClock::new().now()
}

fn catalog_of(cluster: &Cluster) -> String {
    cluster.api.objects("catalogs")[0]["metadata"]["name"].as_str().unwrap().to_owned()
}

fn asked(cluster: &Cluster) -> Asked {
    Asked::of_namespace(cluster.client.clone(), "default")
}

fn plain() -> Look {
    Look { output: Output::Table, now: now(), max_width: None, colours: false, with_namespaces: false }
}

async fn why_of(asked: &Asked, name: &str) -> trawler::plugin::Why {
    let run = asked.run_meant(Some(name)).await.unwrap();
    why(&asked.facts(run, now()).await)
}

#[tokio::test]
async fn a_run_is_started_seen_and_followed_to_its_end() {
    on_one_thread(Box::pin(async {
        let cluster = Cluster::start().await;
        let asked = asked(&cluster);
        let catalog = catalog_of(&cluster);
        assert_eq!(
            asked.run_meant(Some(&catalog)).await.unwrap_err().to_string(),
            format!("Catalog {catalog} has no runs; `kubectl trawler start {catalog}` makes one")
        );
        let start = Start { catalog: catalog.clone(), mode: Some(RunMode::Full), ..Start::default() };
        let run = asked.start(&start, "2026-11-30T02:00:00Z".parse().unwrap()).await.unwrap();
        let name = format!("{catalog}-20261130-020000");
        assert_eq!(run.metadata.name.as_deref(), Some(name.as_str()));
        assert_eq!(RunList::of(&asked.runs(None).await.unwrap()).runs[0].state, State::Unseen);

        let again = asked.start(&Start { name: Some(name.clone()), ..start.clone() }, now()).await;
        assert_eq!(
            again.unwrap_err().to_string(),
            format!("there is a run {name} already; choose another name with --name")
        );

        let _operator = cluster.operator();
        cluster.ended(&name).await;
        let ended = asked.run(&name).await.unwrap();
        assert_eq!(end_of(&ended), Some(End::Complete));
        let rows = RunList::of(&asked.runs(Some(&catalog)).await.unwrap()).runs;
        let row = &rows[0];
        assert_eq!(
            (row.state, row.reason.as_str(), row.nodes_complete, row.nodes_total),
            (State::Succeeded, "Complete", 5, 5)
        );
        let why = why_of(&asked, &catalog).await;
        assert!(why.text(&plain()).starts_with(&format!("Run {name} waits for nothing: it ended well ")), "{why:?}");
        let nothing = asked.retry(&name, now()).await.unwrap_err().to_string();
        assert_eq!(nothing, format!("no node of run {name} failed or is partial: there is nothing to retry"));
    }))
    .await;
}

#[tokio::test]
async fn a_run_is_frozen_and_thawed_and_says_why_it_stands() {
    on_one_thread(Box::pin(async {
        let cluster = Cluster::start().await;
        let _operator = cluster.operator();
        let asked = asked(&cluster);
        let catalog = catalog_of(&cluster);
        cluster.run("cold", json!({"suspend": true})).await;
        cluster.api.until("crawlruns", "cold", "frozen", |run| condition(run, "Frozen") == Some("True")).await;
        let why = why_of(&asked, "cold").await;
        assert_eq!((why.state, why.reason.as_str()), (State::Frozen, "Suspended"));

        // The next run of the Catalog stands behind it.
        cluster.run("next", json!({})).await;
        let waits = |run: &Value| run["status"]["waiting"]["reason"] == "AnotherRun";
        cluster.api.until("crawlruns", "next", "waiting", waits).await;
        let why = why_of(&asked, "next").await;
        assert_eq!(why.ahead, ["cold (frozen, holds 0 tokens)"]);
        assert!(
            why.text(&plain()).starts_with(&format!(
                "Run next waits: run cold of Catalog {catalog} goes on; one at a time; it is number 1 in line (AnotherRun). Ahead \
                 of it: cold (frozen, holds 0 tokens)."
            )),
            "{why:?}"
        );

        let thawed = asked.set_suspended("cold", false).await.unwrap();
        assert!(!thawed.spec.settings.suspend);
        cluster.ended("cold").await;
        let late = asked.set_suspended("cold", true).await.unwrap_err().to_string();
        assert_eq!(late, "run cold has ended; there is nothing to freeze or to thaw");
        cluster.ended("next").await;
    }))
    .await;
}

#[tokio::test]
async fn what_failed_is_tried_again_in_a_run_of_its_own() {
    on_one_thread(Box::pin(async {
        let cluster = Cluster::start().await;
        let labels = cluster.api.objects("catalognodes")[0]["metadata"]["labels"].clone();
        cluster
            .create(json!({
                "apiVersion": "trawler.dev/v1alpha1", "kind": "CatalogNode",
                "metadata": {"name": "gone", "labels": labels},
                "spec": {"endpoint": "http://127.0.0.1:9/", "protocol": "DCAT"},
            }))
            .await;
        let _operator = cluster.operator();
        let asked = asked(&cluster);
        cluster.run("first", json!({"retries": {"limit": 0}})).await;
        let run = cluster.ended("first").await;
        assert_eq!(run["status"]["catalogNodes"]["failed"], 1, "{:#}", run["status"]);
        let (made, retry) = asked.retry("first", now()).await.unwrap();
        assert_eq!((retry.nodes.as_slice(), retry.left_out, retry.unnamed), (&["gone".to_owned()][..], 0, 0));
        assert_eq!(made.spec.settings.catalog_node_names, ["gone"]);
        assert!(made.metadata.name.unwrap().starts_with("first-retry-"));
    }))
    .await;
}

#[tokio::test]
async fn names_that_are_not_there_are_answered_with_those_that_are() {
    on_one_thread(Box::pin(async {
        let cluster = Cluster::start().await;
        let asked = asked(&cluster);
        let catalog = catalog_of(&cluster);
        cluster.run("nightly", json!({})).await;
        let wrong = asked.run("nigthly").await.unwrap_err().to_string();
        assert_eq!(wrong, "there is no CrawlRun nigthly in namespace default; did you mean nightly?");
        let wrong = asked.runs(Some("x")).await.unwrap_err().to_string();
        assert_eq!(wrong, format!("there is no Catalog x in namespace default; there are {catalog}"));
        let start = Start { catalog: catalog.clone(), nodes: vec!["harbor".into()], ..Start::default() };
        let wrong = asked.start(&start, now()).await.unwrap_err().to_string();
        assert_eq!(
            wrong,
            format!(
                "there is no CatalogNode of Catalog {catalog} named harbor in namespace default; did you mean harbour?"
            )
        );
        let nodes = NodeList::of(&asked.nodes(Some(&catalog)).await.unwrap(), true).nodes;
        assert_eq!(nodes.len(), 5, "none was crawled yet");
    }))
    .await;
}
