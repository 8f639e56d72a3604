//! Making it so, on Kubernetes: one driver for each kind, over watches that all share.
//!
//! ```text
//! watches ──► Change ──► queue of a kind ──► driver: observe → validate → plan → apply → report
//! ```
//!
//! A driver's pass reads the caches, the store and the run's queue, plans (pure, in [`planner`](crate::planner)), does what is
//! planned, and writes the status if it says something new. Nothing is remembered between passes that could not be read again.

mod caches;
mod catalog;
mod catalog_node;
mod conditions;
mod crawl_run;
mod credentials;
mod drive;
mod error;
mod fates;
mod gates;
mod http;
mod jobs;
mod leader;
mod metrics;
mod redis_secret;
mod settings;
mod sweep;
mod throttle_policy;
mod world;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::Client;
use kube::runtime::events::{Recorder, Reporter};
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::caches::Caches;
pub(crate) use self::catalog::run_of;
pub(crate) use self::fates::{Trouble, trouble};
use self::http::Readiness;
use self::leader::Election;
use self::metrics::Metrics;
pub use self::redis_secret::ensure_redis_secret;
pub use self::settings::{CrawlerClass, CrawlerPod, Settings};
use self::world::World;
use crate::clock::SharedClock;
use crate::queue::{Patience, QueueError, SharedQueue};
use crate::run::seeds::Seeds;
use crate::store::SharedStore;

/// How often the queue is asked whether it is there.
const QUEUE_LOOK: Duration = Duration::from_secs(5);

/// What the operator is told when it is started.
pub struct OperatorOptions {
    /// The API server.
    pub client: Client,
    /// The namespace that it serves, and no other.
    pub namespace: String,
    /// The instance: names of Jobs begin with it, keys in Redis have it.
    pub instance: String,
    /// Who it is among several: the pod's name.
    pub identity: String,
    /// The configuration file's content.
    pub settings: Settings,
    /// The queue.
    pub queue: SharedQueue,
    /// Where records land.
    pub store: SharedStore,
    /// Where probes ask.
    pub health: Option<SocketAddr>,
    /// Where Prometheus asks.
    pub metrics: Option<SocketAddr>,
    /// Time.
    pub clock: SharedClock,
    /// Cancelled to ask for an orderly end.
    pub stop: CancellationToken,
}

impl std::fmt::Debug for OperatorOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { namespace, instance, identity, settings, .. } = self;
        let mut shown = f.debug_struct("OperatorOptions");
        shown.field("namespace", namespace).field("instance", instance).field("identity", identity);
        shown.field("settings", settings).finish_non_exhaustive()
    }
}

/// Serves a namespace until it is stopped. `Err` is a sentence.
pub async fn operate(options: OperatorOptions) -> Result<(), String> {
    let metrics = Metrics::new();
    let readiness = Arc::new(Readiness::default());
    let mut servers = JoinSet::new();
    for address in [options.health, options.metrics].into_iter().flatten() {
        let (readiness, metrics) = (readiness.clone(), metrics.clone());
        servers.spawn(async move { (address, http::serve(address, readiness, metrics).await) });
    }
    let (changes, mut told) = unbounded_channel();
    let mut watches = JoinSet::new();
    let caches = Caches::start(&options.client, &options.namespace, &options.instance, &changes, &mut watches);
    let leads = Arc::new(AtomicBool::new(false));
    let lease = format!("{}-leader", options.instance);
    let election = Election {
        client: options.client.clone(),
        namespace: options.namespace.clone(),
        lease: lease.clone(),
        identity: options.identity.clone(),
        clock: options.clock.clone(),
        leads: leads.clone(),
        metrics: metrics.clone(),
    };
    let reporter = Reporter { controller: "trawler".to_owned(), instance: Some(options.identity.clone()) };
    let world = Arc::new(World {
        recorder: Recorder::new(options.client.clone(), reporter),
        client: options.client,
        namespace: options.namespace,
        instance: options.instance,
        settings: options.settings,
        caches: caches.clone(),
        queue: options.queue,
        store: options.store,
        seeds: Seeds::new(),
        clock: options.clock,
        patience: Patience::default().at_most(Duration::from_secs(10)),
        metrics,
        leads,
        store_lost: CancellationToken::new(),
        memory: std::sync::Mutex::default(),
        changes,
    });
    let stop = options.stop;
    let work = async {
        if caches.ready().await.is_err() {
            return Err("a watch ended; see the log".to_owned());
        }
        readiness.synced.store(true, Ordering::Release);
        info!(namespace = world.namespace, instance = world.instance, "everything that is watched has been seen");
        while election.won(&stop).await {
            let lost = CancellationToken::new();
            tokio::select! {
                () = drive::drive(world.clone(), &mut told, lost.clone()) => {}
                () = election.hold(&stop) => {}
            }
            lost.cancel();
            if stop.is_cancelled() {
                break;
            }
        }
        Ok(())
    };
    tokio::select! {
        ended = work => ended,
        () = look_at_queue(&world, &readiness) => Ok(()),
        () = world.store_lost.cancelled() => {
            Err("the store is not as this process left it (emptied, or an older copy); started anew, it goes on with what there is".to_owned())
        }
        Some(ended) = watches.join_next() => {
            ended.map_err(|error| format!("a watch ended: {error}")).and(Err("a watch ended".to_owned()))
        }
        Some(served) = servers.join_next(), if !servers.is_empty() => match served {
            Ok((address, Err(error))) => Err(format!("{address} can't be listened to: {error}")),
            Ok((address, Ok(()))) => Err(format!("{address} is listened to no more")),
            Err(error) => Err(format!("a server ended: {error}")),
        },
    }
}

/// Asks the queue again and again whether it is there: for probes and metrics.
async fn look_at_queue(world: &World, readiness: &Readiness) {
    let mut was_up = true;
    loop {
        let (is_reached, is_up) = match tokio::time::timeout(QUEUE_LOOK, world.queue.runs()).await {
            Ok(Ok(_)) => (true, true),
            Ok(Err(error)) => {
                if was_up {
                    warn!("the queue can't be used: {error}");
                }
                (!matches!(error, QueueError::Unreachable { .. }), false)
            }
            Err(_) => (false, false),
        };
        was_up = is_up;
        readiness.queue.store(is_up, Ordering::Release);
        world.metrics.set_queue_up(is_reached, is_up);
        sweep::count(world);
        tokio::time::sleep(QUEUE_LOOK).await;
    }
}
