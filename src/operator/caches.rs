//! What the API server holds, as far as the operator needs it: one watch for each kind, kept in memory, shared by all drivers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;
use tracing::warn;

use super::fates::{crawler_job, job_of_pod, may_be_at_work};
use super::jobs::{INSTANCE_LABEL, RUN_UID_LABEL};
use crate::api::names::CREDENTIAL_LABEL;
use crate::api::{Catalog, CatalogNode, CrawlRun, ThrottlePolicy};
use crate::planner::CrawlerJob;

/// Something that was seen to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Catalog(String),
    CatalogNode(String),
    CrawlRun(String),
    ThrottlePolicy(String),
    /// A Job or a pod of the run with this uid.
    Crawler(String),
    Secret(String),
    /// Budgets are counted against that were not before.
    Budgets,
}

/// The caches.
#[derive(Clone)]
pub(crate) struct Caches {
    pub(crate) catalogs: Store<Catalog>,
    pub(crate) nodes: Store<CatalogNode>,
    pub(crate) runs: Store<CrawlRun>,
    pub(crate) policies: Store<ThrottlePolicy>,
    pub(crate) jobs: Store<Job>,
    pub(crate) pods: Store<Pod>,
    pub(crate) secrets: Store<PartialObjectMeta<Secret>>,
    /// Objects that could not be read, each with a sentence: by kind and name.
    pub(crate) unreadable: Arc<Mutex<BTreeMap<(String, String), String>>>,
}

impl Caches {
    /// Begins to watch. The watches are tasks of `watches`; what changes is told to `changes`.
    pub(crate) fn start(
        client: &Client,
        namespace: &str,
        instance: &str,
        changes: &UnboundedSender<Change>,
        watches: &mut JoinSet<()>,
    ) -> Self {
        let unreadable: Arc<Mutex<BTreeMap<(String, String), String>>> = Arc::default();
        let of_instance = || watcher::Config::default().labels(&format!("{INSTANCE_LABEL}={instance}"));
        let tell = |change: fn(String) -> Change| {
            let changes = changes.clone();
            // Nobody listens any more when the operator ends.
            move |name: String| drop(changes.send(change(name)))
        };
        let (client, unreadable_of) = (client.clone(), unreadable.clone());
        let guarded = Guarded { client: client.clone(), namespace: namespace.to_owned(), unreadable: unreadable_of };
        Self {
            catalogs: guarded.watch(watches, tell(Change::Catalog)),
            nodes: guarded.watch(watches, tell(Change::CatalogNode)),
            runs: guarded.watch(watches, tell(Change::CrawlRun)),
            policies: guarded.watch(watches, tell(Change::ThrottlePolicy)),
            jobs: watch_crawlers(
                Api::namespaced(client.clone(), namespace),
                of_instance(),
                watches,
                tell(Change::Crawler),
            ),
            pods: watch_crawlers(
                Api::namespaced(client.clone(), namespace),
                of_instance(),
                watches,
                tell(Change::Crawler),
            ),
            secrets: watch_credentials(Api::namespaced(client, namespace), watches, tell(Change::Secret)),
            unreadable,
        }
    }

    /// Waits until everything has been seen once.
    pub(crate) async fn ready(&self) -> Result<(), reflector::store::WriterDropped> {
        self.catalogs.wait_until_ready().await?;
        self.nodes.wait_until_ready().await?;
        self.runs.wait_until_ready().await?;
        self.policies.wait_until_ready().await?;
        self.jobs.wait_until_ready().await?;
        self.pods.wait_until_ready().await?;
        self.secrets.wait_until_ready().await
    }

    /// All crawler Jobs of the instance, and the ids of Jobs that are gone while their pods may still be at work.
    pub(crate) fn crawlers(&self) -> (Vec<CrawlerJob>, BTreeSet<String>) {
        let pods = self.pods.state();
        let mut by_job: HashMap<&str, &Pod> = HashMap::new();
        for pod in &pods {
            let Some(uid) = job_of_pod(pod) else { continue };
            // Of several, the one that may still be at work decides.
            let known = by_job.get(uid).copied();
            if known.is_none_or(|known| !may_be_at_work(known)) {
                by_job.insert(uid, pod);
            }
        }
        let jobs = self.jobs.state();
        let found: Vec<CrawlerJob> = jobs
            .iter()
            .filter_map(|job| {
                let uid = job.metadata.uid.as_deref()?;
                crawler_job(job, by_job.get(uid).copied())
            })
            .collect();
        let known: BTreeSet<&str> = found.iter().map(|job| job.uid.as_str()).collect();
        let orphans = by_job.iter().filter(|(uid, pod)| !known.contains(*uid) && may_be_at_work(pod));
        let orphans = orphans.map(|(uid, _)| (*uid).to_owned()).collect();
        (found, orphans)
    }

    /// The pods of a run's crawlers.
    pub(crate) fn pods_of(&self, run_uid: &str) -> Vec<Arc<Pod>> {
        self.pods.state_filter(|pod| pod.labels().get(RUN_UID_LABEL).is_some_and(|uid| uid == run_uid))
    }

    /// Why an object can't be read, if it can't.
    pub(crate) fn fault_of(&self, kind: &str, name: &str) -> Option<String> {
        let unreadable = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        unreadable.get(&(kind.to_owned(), name.to_owned())).cloned()
    }
}

/// Watches kinds of our own: an object that can't be read is skipped and named, and stops nothing.
struct Guarded {
    client: Client,
    namespace: String,
    unreadable: Arc<Mutex<BTreeMap<(String, String), String>>>,
}

impl Guarded {
    fn watch<K>(&self, watches: &mut JoinSet<()>, tell: impl Fn(String) + Send + 'static) -> Store<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + DeserializeOwned
            + Clone
            + std::fmt::Debug
            + Send
            + Sync
            + 'static,
    {
        let api: Api<DeserializeGuard<K>> = Api::namespaced(self.client.clone(), &self.namespace);
        let (reader, mut writer) = reflector::store::<K>();
        let unreadable = self.unreadable.clone();
        watches.spawn(async move {
            let mut events = watcher::watcher(api, watcher::Config::default()).default_backoff().boxed();
            while let Some(event) = next_event(&mut events, K::kind(&()).as_ref()).await {
                let Some(event) = readable(event, &unreadable) else { continue };
                // What is new in the list, and what is no longer in it, is seen by looking before and after.
                let before = matches!(event, Event::InitDone).then(|| names(&reader_of(&writer)));
                let touched = touched_by(&event);
                writer.apply_watcher_event(&event);
                for name in touched.into_iter().chain(before.into_iter().flatten()) {
                    tell(name);
                }
                if matches!(event, Event::InitDone) {
                    for name in names(&reader_of(&writer)) {
                        tell(name);
                    }
                }
            }
        });
        reader
    }
}

fn reader_of<K>(writer: &reflector::store::Writer<K>) -> Store<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    writer.as_reader()
}

fn names<K>(store: &Store<K>) -> Vec<String>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    store.state().iter().filter_map(|object| object.meta().name.clone()).collect()
}

fn touched_by<K: Resource>(event: &Event<K>) -> Option<String> {
    match event {
        Event::Apply(object) | Event::Delete(object) => object.meta().name.clone(),
        Event::Init | Event::InitApply(_) | Event::InitDone => None,
    }
}

/// The next event of a watch; what went wrong with it is logged, and the watch begins again by itself.
async fn next_event<K>(
    events: &mut (impl futures_util::Stream<Item = Result<Event<K>, watcher::Error>> + Unpin),
    kind: &str,
) -> Option<Event<K>> {
    loop {
        match events.try_next().await {
            Ok(event) => return event,
            Err(error) => warn!(kind, "watching goes on after a failure: {error}"),
        }
    }
}

/// The event without its guard. An object that can't be read counts as not there.
fn readable<K: Resource<DynamicType = ()>>(
    event: Event<DeserializeGuard<K>>,
    unreadable: &Mutex<BTreeMap<(String, String), String>>,
) -> Option<Event<K>> {
    let look = |guard: DeserializeGuard<K>| {
        let kind = K::kind(&()).into_owned();
        let mut faults = unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        match guard.0 {
            Ok(mut object) => {
                // Who wrote what is of no use here, and often the larger part.
                object.meta_mut().managed_fields = None;
                faults.remove(&(kind, object.meta().name.clone().unwrap_or_default()));
                Some(object)
            }
            Err(invalid) => {
                let name = invalid.metadata.name.unwrap_or_default();
                warn!(kind, name, "the object can't be read and is skipped: {}", invalid.error);
                faults.insert((kind, name), invalid.error);
                None
            }
        }
    };
    Some(match event {
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
        Event::InitApply(guard) => Event::InitApply(look(guard)?),
        Event::Apply(guard) => Event::Apply(look(guard)?),
        Event::Delete(guard) => Event::Delete(look(guard)?),
    })
}

/// Watches Jobs or pods of crawlers. What is told is the uid of their run.
fn watch_crawlers<K>(
    api: Api<K>,
    config: watcher::Config,
    watches: &mut JoinSet<()>,
    tell: impl Fn(String) + Send + 'static,
) -> Store<K>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + std::fmt::Debug + Send + Sync + 'static,
{
    let (reader, mut writer) = reflector::store::<K>();
    watches.spawn(async move {
        let mut events = watcher::watcher(api, config).default_backoff().boxed();
        while let Some(event) = next_event(&mut events, K::kind(&()).as_ref()).await {
            let mut touched: BTreeSet<String> = BTreeSet::new();
            if let Event::Apply(object) | Event::Delete(object) = &event {
                touched.extend(object.labels().get(RUN_UID_LABEL).cloned());
            }
            let event = without_managers(event);
            let is_relisted = matches!(event, Event::InitDone);
            let runs = |store: Store<K>| {
                let objects = store.state();
                objects.iter().filter_map(|object| object.labels().get(RUN_UID_LABEL).cloned()).collect::<Vec<_>>()
            };
            if is_relisted {
                touched.extend(runs(writer.as_reader()));
            }
            writer.apply_watcher_event(&event);
            if is_relisted {
                touched.extend(runs(writer.as_reader()));
            }
            touched.into_iter().for_each(&tell);
        }
    });
    reader
}

fn without_managers<K: Resource>(mut event: Event<K>) -> Event<K> {
    if let Event::Apply(object) | Event::InitApply(object) = &mut event {
        object.meta_mut().managed_fields = None;
    }
    event
}

/// Watches Secrets that are labelled as credentials: their names, labels and annotations, never their content.
fn watch_credentials(
    api: Api<PartialObjectMeta<Secret>>,
    watches: &mut JoinSet<()>,
    tell: impl Fn(String) + Send + 'static,
) -> Store<PartialObjectMeta<Secret>> {
    let (reader, mut writer) = reflector::store::<PartialObjectMeta<Secret>>();
    watches.spawn(async move {
        let config = watcher::Config::default().labels(&format!("{CREDENTIAL_LABEL}=true"));
        let mut events = watcher::watcher(api, config).default_backoff().boxed();
        while let Some(event) = next_event(&mut events, "Secret").await {
            let event = without_managers(event);
            let touched = touched_by(&event);
            let is_relisted = matches!(event, Event::InitDone);
            writer.apply_watcher_event(&event);
            touched.into_iter().for_each(&tell);
            if is_relisted {
                names(&writer.as_reader()).into_iter().for_each(&tell);
            }
        }
    });
    reader
}
