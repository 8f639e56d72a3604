//! An operator that dies at any of its writes, before or after it took effect, leaves what another one goes on from.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use trawler::store::RecordFilter;
use trawler::task::CatalogName;

use super::api_server::Fault;
use super::cluster::{Cluster, condition};
use super::on_one_thread;

/// What a run came to, without moments.
async fn outcome(cluster: &Cluster) -> Value {
    let run = cluster.ended("run").await;
    cluster.settled().await;
    let catalog = CatalogName::from(cluster.api.objects("catalogs")[0]["metadata"]["name"].as_str().unwrap());
    let records = cluster.store.records(&catalog, &RecordFilter::default(), None, 100_000).await.unwrap().len();
    json!({
        "succeeded": condition(&run, "Succeeded"),
        "reason": run["status"]["conditions"][0]["reason"],
        "seen": run["status"]["records"]["seen"],
        "nodes": run["status"]["catalogNodes"],
        "stored": records,
        "unfinished": cluster.store.unfinished_run(&catalog).await.unwrap().is_some(),
        "most pods": (*cluster.pods.most.lock().unwrap()).min(cluster.tokens as usize + 1) <= cluster.tokens as usize,
    })
}

/// A run during which an operator meets this fault at its nth write; another one follows if it dies. Returns what it came to, and
/// the write, if there were so many.
async fn with_fault(nth: usize, fault: Fault) -> (Value, Option<String>) {
    on_one_thread(async {
        let cluster = Cluster::start().await;
        let count = Arc::new(AtomicUsize::new(0));
        let met: Arc<std::sync::Mutex<Option<String>>> = Arc::default();
        let (seen, told) = (count.clone(), met.clone());
        cluster.api.look_at_writes(move |write| {
            // Of those that concern the run: statuses of nodes are many, and alike.
            if write.contains("catalognodes/") {
                return None;
            }
            let is_it = seen.fetch_add(1, Ordering::SeqCst) == nth;
            is_it.then(|| {
                *told.lock().unwrap() = Some(write.to_owned());
                fault
            })
        });
        cluster.run("run", json!({"tokens": 2})).await;
        let first = cluster.operator();
        let ended = outcome(&cluster);
        tokio::pin!(ended);
        let came_to = tokio::select! {
            came_to = &mut ended => came_to,
            () = cluster.api.operator_died() => {
                drop(first);
                cluster.api.look_no_more();
                let _second = cluster.operator();
                ended.await
            }
        };
        let met = met.lock().unwrap().clone();
        (came_to, met)
    })
    .await
}

async fn at_every_write(fault: Fault) {
    let (undisturbed, _) = with_fault(usize::MAX, fault).await;
    assert_eq!(undisturbed["succeeded"], "True");
    let mut met = Vec::new();
    for nth in 0..40 {
        let (came_to, write) = with_fault(nth, fault).await;
        assert_eq!(came_to, undisturbed, "{fault:?} at write {nth}: {write:?}");
        let Some(write) = write else { break };
        met.push(write);
    }
    println!("{fault:?} at {} writes: {met:?}", met.len());
    for kind in ["PATCH crawlruns/run/status", "POST jobs/demo-token-00", "PATCH catalogs/"] {
        assert!(met.iter().any(|write| write.starts_with(kind)), "{kind} is not among {met:?}");
    }
}

#[tokio::test]
async fn dying_before_any_write_takes_effect_changes_nothing() {
    at_every_write(Fault::DiesBefore).await;
}

#[tokio::test]
async fn dying_after_any_write_took_effect_changes_nothing() {
    at_every_write(Fault::DiesAfter).await;
}

#[tokio::test]
async fn a_write_that_fails_is_made_up_for() {
    at_every_write(Fault::Fails).await;
}

#[tokio::test]
async fn a_write_that_conflicts_is_made_up_for() {
    at_every_write(Fault::Conflicts).await;
}
