//! Bringing changes to the drivers that they concern.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use kube::runtime::controller::{Action, Config, applier};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Resource, ResourceExt as _};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::caches::Change;
use super::error::OperatorError;
use super::world::World;
use super::{catalog, catalog_node, crawl_run, sweep, throttle_policy};
use crate::api::{Catalog, CatalogNode, CrawlRun};

/// Runs are decided one after another: they share the instance's tokens.
const RUNS_AT_A_TIME: u16 = 1;
const OTHERS_AT_A_TIME: u16 = 4;

/// Changes that come close together are one.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// Drives all kinds, until it is told that this process does not lead any more.
pub(super) async fn drive(world: Arc<World>, changed: &mut UnboundedReceiver<Change>, lost: CancellationToken) {
    let (catalogs, catalogs_in) = unbounded_channel();
    let (nodes, nodes_in) = unbounded_channel();
    let (runs, runs_in) = unbounded_channel();
    let (policies, policies_in) = unbounded_channel();
    let routes = Routes { world: world.clone(), catalogs, nodes, runs, policies };
    routes.all();
    let driven = async {
        tokio::join!(
            drive_kind(
                world.clone(),
                &world.caches.catalogs,
                catalogs_in,
                OTHERS_AT_A_TIME,
                catalog::KIND,
                catalog::reconcile
            ),
            drive_kind(
                world.clone(),
                &world.caches.nodes,
                nodes_in,
                OTHERS_AT_A_TIME,
                catalog_node::KIND,
                catalog_node::reconcile
            ),
            drive_kind(
                world.clone(),
                &world.caches.runs,
                runs_in,
                RUNS_AT_A_TIME,
                crawl_run::KIND,
                crawl_run::reconcile
            ),
            drive_kind(
                world.clone(),
                &world.caches.policies,
                policies_in,
                OTHERS_AT_A_TIME,
                throttle_policy::KIND,
                throttle_policy::reconcile
            ),
            sweep::collect(&world),
        );
    };
    let told = async {
        while let Some(change) = changed.recv().await {
            routes.route(&change);
        }
    };
    tokio::select! {
        () = driven => {}
        () = told => {}
        () = lost.cancelled() => {}
    }
}

/// Brings objects of one kind to their driver, one pass at a time for each, again when the pass says so or fails.
async fn drive_kind<K, F>(
    world: Arc<World>,
    store: &Store<K>,
    names: UnboundedReceiver<String>,
    at_a_time: u16,
    kind: &'static str,
    reconcile: impl Fn(Arc<K>, Arc<World>) -> F,
) where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + Sync + 'static,
    F: Future<Output = Result<Action, OperatorError>> + 'static,
{
    let namespace = world.namespace.clone();
    let queue = stream_of(names).map(move |name| Ok::<_, Infallible>(ObjectRef::<K>::new(&name).within(&namespace)));
    let after_failure = move |object: Arc<K>, error: &OperatorError, world: Arc<World>| {
        let failures = world.note_failure(kind, &object.name_any(), error);
        Action::requeue(OperatorError::pause(failures))
    };
    let config = Config::default().concurrency(at_a_time).debounce(DEBOUNCE);
    let pass = |object: Arc<K>, world: Arc<World>| Box::pin(reconcile(object, world));
    applier(pass, after_failure, world, store.clone(), queue, config)
        .for_each(|done| {
            if let Err(error) = done {
                // It was deleted before its turn came, or failed, which was told.
                debug!(kind, "a pass came to nothing: {error}");
            }
            std::future::ready(())
        })
        .await;
}

fn stream_of(receiver: UnboundedReceiver<String>) -> impl Stream<Item = String> + Send {
    futures_util::stream::unfold(receiver, |mut receiver| async move {
        let name = receiver.recv().await?;
        Some((name, receiver))
    })
}

/// Which objects a change concerns.
struct Routes {
    world: Arc<World>,
    catalogs: UnboundedSender<String>,
    nodes: UnboundedSender<String>,
    runs: UnboundedSender<String>,
    policies: UnboundedSender<String>,
}

impl Routes {
    /// Everything there is: at the start.
    fn all(&self) {
        let caches = &self.world.caches;
        send_all(&self.catalogs, &caches.catalogs);
        send_all(&self.nodes, &caches.nodes);
        send_all(&self.runs, &caches.runs);
        send_all(&self.policies, &caches.policies);
    }

    fn route(&self, change: &Change) {
        let caches = &self.world.caches;
        match change {
            Change::Catalog(name) => {
                send(&self.catalogs, name);
                self.runs_of(|run: &CrawlRun| run.spec.catalog_ref.name == *name);
            }
            Change::CatalogNode(name) => {
                send(&self.nodes, name);
                let node = caches.nodes.get(&ObjectRef::new(name).within(&self.world.namespace));
                let unlabelled = BTreeMap::new();
                let labels = node.as_ref().and_then(|node| node.metadata.labels.as_ref()).unwrap_or(&unlabelled);
                let selects = |catalog: &Catalog| node.is_none() || catalog.spec.catalog_node_selector.matches(labels);
                for catalog in caches.catalogs.state_filter(selects) {
                    send(&self.catalogs, &catalog.name_any());
                }
                // Runs look at their nodes by themselves; a policy counts those it holds for.
                let policy = node.as_ref().and_then(|node| node.status.as_ref()?.throttle_policy.clone());
                if let Some(policy) = policy {
                    send(&self.policies, &policy);
                }
            }
            Change::CrawlRun(name) => {
                send(&self.runs, name);
                let Some(run) = caches.runs.get(&ObjectRef::new(name).within(&self.world.namespace)) else {
                    // It was deleted: who waited for it need not wait any more.
                    send_all(&self.catalogs, &caches.catalogs);
                    self.runs_of(|_: &CrawlRun| true);
                    return;
                };
                send(&self.catalogs, &run.spec.catalog_ref.name);
                if crawl_run::is_final(&run) {
                    let catalog = run.spec.catalog_ref.clone();
                    self.runs_of(|other: &CrawlRun| other.spec.catalog_ref == catalog);
                }
            }
            Change::ThrottlePolicy(_) => {
                // Another one may hold now for any node and any target.
                send_all(&self.policies, &caches.policies);
                send_all(&self.nodes, &caches.nodes);
                self.runs_of(|_: &CrawlRun| true);
            }
            Change::Budgets => send_all(&self.policies, &caches.policies),
            Change::Crawler(uid) => self.runs_of(|run: &CrawlRun| run.uid().as_deref() == Some(uid.as_str())),
            Change::Secret(name) => {
                let uses =
                    |node: &CatalogNode| node.spec.credential_ref.as_ref().is_some_and(|secret| secret.name == *name);
                for node in caches.nodes.state_filter(uses) {
                    send(&self.nodes, &node.name_any());
                }
            }
        }
    }

    /// Active runs alone: one that has ended is looked at once more by its own change.
    fn runs_of(&self, concerns: impl Fn(&CrawlRun) -> bool) {
        for run in self.world.caches.runs.state_filter(|run| !crawl_run::is_final(run) && concerns(run)) {
            send(&self.runs, &run.name_any());
        }
    }
}

fn send(sender: &UnboundedSender<String>, name: &str) {
    // Its driver has ended: so will this.
    drop(sender.send(name.to_owned()));
}

fn send_all<K>(sender: &UnboundedSender<String>, store: &Store<K>)
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    for object in store.state() {
        send(sender, &object.name_any());
    }
}
