//! An operator that dies at any of its writes, before or after it took effect, leaves what another one goes on from.

use std::collections::BTreeMap;

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

/// A write, and which of those alike it is.
type Moment = (String, usize);

/// A run during which an operator meets this fault at this write; another one follows if it dies. Returns what it came to, and
/// all writes.
async fn with_fault(at: Option<Moment>, fault: Fault) -> (Value, Vec<String>) {
    on_one_thread(async {
        let cluster = Cluster::start().await;
        let mut alike = 0;
        cluster.api.look_at_writes(move |write| {
            let (wanted, nth) = at.as_ref()?;
            if write != wanted {
                return None;
            }
            alike += 1;
            (alike - 1 == *nth).then_some(fault)
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
        (came_to, cluster.api.writes())
    })
    .await
}

/// Of writes that are alike, so many are each met by the fault.
const ALIKE: usize = 2;

async fn at_every_write(fault: Fault) {
    let (undisturbed, writes) = with_fault(None, fault).await;
    assert_eq!(undisturbed["succeeded"], "True");
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for write in writes {
        *kinds.entry(write).or_default() += 1;
    }
    let moments: Vec<Moment> = kinds
        .into_iter()
        .flat_map(|(write, count)| (0..count.min(ALIKE)).map(move |nth| (write.clone(), nth)))
        .collect();
    println!("{fault:?} at {moments:?}");
    for kind in [
        "PATCH crawlruns/run/status",
        "POST jobs/demo-token-00",
        "PATCH catalogs/demo/status",
        "PATCH throttlepolicies/",
    ] {
        assert!(moments.iter().any(|(write, _)| write.starts_with(kind)), "{kind} is not among {moments:?}");
    }
    for moment in moments {
        let (came_to, _) = with_fault(Some(moment.clone()), fault).await;
        assert_eq!(came_to, undisturbed, "{fault:?} at {moment:?}");
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
