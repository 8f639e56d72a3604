//! A cluster around an operator: Jobs get pods, and pods crawl, as tasks of the test's own process.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use trawler::clock::SystemClock;
use trawler::demo::{DemoFederation, DemoOptions};
use trawler::local::crawl::{CrawlExit, CrawlOptions, crawl};
use trawler::local::secrets::SecretSources;
use trawler::operator::{CrawlerPod, OperatorOptions, Settings, operate};
use trawler::queue::SharedQueue;
use trawler::queue::memory::MemoryQueue;
use trawler::store::SharedStore;
use trawler::store::landing::{SharedLanding, StoreLanding};
use trawler::store::memory::MemoryStore;

use super::api_server::ApiServer;

/// Everything but the operator.
pub(crate) struct Cluster {
    pub(crate) api: ApiServer,
    pub(crate) client: Client,
    pub(crate) queue: SharedQueue,
    pub(crate) store: SharedStore,
    pub(crate) tokens: u32,
    pub(crate) federation: DemoFederation,
    kubelet: JoinHandle<()>,
    pub(crate) pods: Arc<Pods>,
}

/// How pods behave.
#[derive(Default)]
pub(crate) struct Pods {
    /// The most pods at a time that were not ended.
    pub(crate) most: Mutex<usize>,
    /// What ends pods by their Job's name, instead of their own work: reason and exit code.
    pub(crate) deaths: Mutex<BTreeMap<String, (String, i32)>>,
}

impl Cluster {
    /// With a federation, its Catalog and nodes, and no operator yet.
    pub(crate) async fn start() -> Self {
        let api = ApiServer::new();
        let client = api.others_client();
        let queue: SharedQueue = Arc::new(MemoryQueue::new(SystemClock::shared()));
        let store: SharedStore = Arc::new(MemoryStore::new());
        let federation = DemoFederation::start(DemoOptions::default()).await.unwrap();
        let landing: SharedLanding = Arc::new(StoreLanding::new(store.clone()));
        let pods = Arc::new(Pods::default());
        let kubelet =
            Kubelet { api: api.clone(), client: client.clone(), queue: queue.clone(), landing, pods: pods.clone() };
        let kubelet = tokio::spawn(kubelet.run());
        let cluster = Self { api, client, queue, store, tokens: 4, federation, kubelet, pods };
        cluster.apply_yaml(&cluster.federation.manifests()).await;
        cluster
    }

    /// Applies manifests, as a person would.
    pub(crate) async fn apply_yaml(&self, yaml: &str) {
        for document in yaml.split("\n---") {
            let Ok(object) = serde_saphyr::from_str::<Value>(document) else { continue };
            if object["kind"].is_string() {
                self.create(object).await;
            }
        }
    }

    /// Creates an object of ours.
    pub(crate) async fn create(&self, object: Value) -> Value {
        let plural = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
        let plural = plural.replace("policys", "policies");
        let request = http::Request::post(format!("/apis/trawler.dev/v1alpha1/namespaces/default/{plural}"))
            .body(object.to_string().into_bytes())
            .unwrap();
        self.client.request::<Value>(request).await.unwrap()
    }

    /// Changes an object of ours.
    pub(crate) async fn patch(&self, plural: &str, name: &str, patch: Value) {
        let request = http::Request::patch(format!("/apis/trawler.dev/v1alpha1/namespaces/default/{plural}/{name}"))
            .body(patch.to_string().into_bytes())
            .unwrap();
        self.client.request::<Value>(request).await.unwrap();
    }

    pub(crate) async fn delete(&self, plural: &str, name: &str) {
        let request = http::Request::delete(format!("/apis/trawler.dev/v1alpha1/namespaces/default/{plural}/{name}"))
            .body(Vec::new())
            .unwrap();
        self.client.request::<Value>(request).await.unwrap();
    }

    /// Deletes a Job, as a person would: what it was doing goes on until its pod has ended.
    pub(crate) async fn delete_job(&self, name: &str) {
        let jobs: Api<Job> = Api::namespaced(self.client.clone(), "default");
        jobs.delete(name, &DeleteParams::background()).await.unwrap();
    }

    /// A run of the federation's Catalog.
    pub(crate) async fn run(&self, name: &str, settings: Value) -> Value {
        let catalog = self.api.objects("catalogs")[0]["metadata"]["name"].clone();
        let mut spec = json!({"catalogRef": {"name": catalog}});
        spec.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        self.create(json!({
            "apiVersion": "trawler.dev/v1alpha1", "kind": "CrawlRun", "metadata": {"name": name}, "spec": spec,
        }))
        .await
    }

    /// Starts an operator. It ends when what is returned is dropped, wherever it is.
    pub(crate) fn operator(&self) -> Operator {
        // One after the other, as the pods of one Deployment: the Lease of one that died is taken at once.
        self.operator_named("operator")
    }

    /// One of several. Two of the same name both believe that they lead.
    pub(crate) fn operator_named(&self, identity: &str) -> Operator {
        let stop = CancellationToken::new();
        let crawler = CrawlerPod { image: "trawler".into(), redis_url: "redis://r".into(), ..CrawlerPod::default() };
        let options = OperatorOptions {
            client: self.api.operators_client(),
            namespace: "default".into(),
            instance: "demo".into(),
            identity: identity.into(),
            settings: Settings { tokens: self.tokens, crawler, ..Settings::default() },
            queue: self.queue.clone(),
            store: self.store.clone(),
            health: None,
            metrics: None,
            clock: SystemClock::shared(),
            stop: stop.clone(),
        };
        Operator(tokio::task::spawn_local(async move { operate(options).await.unwrap() }))
    }

    /// Waits until a run has ended; its conditions by type.
    pub(crate) async fn ended(&self, run: &str) -> Value {
        let is_final = |run: &Value| matches!(condition(run, "Succeeded"), Some("True" | "False"));
        self.api.until("crawlruns", run, "ended", is_final).await
    }

    /// Waits until the operator has cleared away what a run left.
    pub(crate) async fn settled(&self) {
        for _ in 0..300 {
            if self.queue.runs().await.unwrap().is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("queues are left: {:?}", self.queue.runs().await);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.kubelet.abort();
    }
}

/// A running operator.
pub(crate) struct Operator(JoinHandle<()>);

impl Drop for Operator {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The status of a condition.
pub(crate) fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a str> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == type_)?["status"].as_str()
}

/// The Job controller and the kubelet.
struct Kubelet {
    api: ApiServer,
    client: Client,
    queue: SharedQueue,
    landing: SharedLanding,
    pods: Arc<Pods>,
}

impl Kubelet {
    /// Looks again and again, as controllers do.
    async fn run(self) {
        let kubelet = Arc::new(self);
        let mut known: BTreeMap<String, (CancellationToken, String)> = BTreeMap::new();
        loop {
            let jobs: Api<Job> = Api::namespaced(kubelet.client.clone(), "default");
            let jobs = jobs.list(&ListParams::default()).await.unwrap().items;
            let uids: BTreeSet<String> = jobs.iter().filter_map(ResourceExt::uid).collect();
            for job in jobs {
                let uid = job.uid().unwrap();
                let pod = format!("{}-{}", job.name_any(), &uid[uid.len() - 5..]);
                if let Entry::Vacant(entry) = known.entry(uid) {
                    let stop = CancellationToken::new();
                    entry.insert((stop.clone(), pod.clone()));
                    tokio::spawn(kubelet.clone().attend(job, pod, stop));
                }
            }
            for (uid, (stop, pod)) in &known {
                if !uids.contains(uid) && !stop.is_cancelled() {
                    // Background deletion: the pod is told to end, and goes when it has.
                    kubelet.patch_pod(pod, json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})).await;
                    stop.cancel();
                }
            }
            let alive = kubelet.api.objects("pods");
            let alive =
                alive.iter().filter(|pod| !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")));
            let count = alive.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).count();
            kubelet.note_pods(count);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn note_pods(&self, count: usize) {
        let mut most = self.pods.most.lock().unwrap();
        *most = (*most).max(count);
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    async fn patch_pod(&self, name: &str, patch: Value) {
        // It may be gone already.
        drop(self.pods().patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await);
    }

    async fn attend(self: Arc<Self>, job: Job, name: String, stop: CancellationToken) {
        let spec = job.spec.clone().unwrap();
        let uid = job.uid().unwrap();
        let mut labels = spec.template.metadata.unwrap().labels.unwrap();
        labels.insert("batch.kubernetes.io/controller-uid".into(), uid.clone());
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": labels}, "status": {"phase": "Pending"},
        }))
        .unwrap();
        self.pods().create(&PostParams::default(), &pod).await.unwrap();
        self.patch_pod(&name, json!({"status": {"phase": "Running"}})).await;
        let environment = &spec.template.spec.unwrap().containers[0].env.clone().unwrap();
        let value = |name: &str| {
            let variable = environment.iter().find(|variable| variable.name == name).unwrap();
            variable.value.clone().unwrap()
        };
        let http = trawler::crawler::http::HttpConfig {
            allow_private: vec!["127.0.0.0/8".parse().unwrap()],
            ..trawler::crawler::http::HttpConfig::default()
        };
        let options = CrawlOptions {
            run: value("TRAWLER_RUN").as_str().into(),
            token: value("TRAWLER_TOKEN").parse().unwrap(),
            uid,
            group: value("TRAWLER_GROUP"),
            http,
            secrets: SecretSources::default(),
            stop: stop.clone(),
            // Shorter than on a cluster: here a crawler starts at once.
            linger: Some(Duration::from_millis(500)),
            clock: SystemClock::shared(),
        };
        let job_name = job.name_any();
        let death = self.pods.deaths.lock().unwrap().remove(&job_name);
        let work = crawl(self.queue.clone(), self.landing.clone(), options);
        let (code, reason) = if let Some((reason, code)) = death {
            // It begins to work, and is ended in the middle of it.
            drop(tokio::time::timeout(Duration::from_millis(300), work).await);
            (code, reason)
        } else {
            (i32::from(work.await.exit.code()), "Completed".to_owned())
        };
        let phase = if code == i32::from(CrawlExit::Drained.code()) { "Succeeded" } else { "Failed" };
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let ended = json!({"terminated": {"exitCode": code, "reason": reason, "finishedAt": now}});
        let status = json!({"phase": phase, "containerStatuses": [{
            "name": "crawler", "ready": false, "restartCount": 0, "image": "", "imageID": "", "state": ended,
        }]});
        self.patch_pod(&name, json!({"status": status})).await;
        if stop.is_cancelled() {
            drop(self.pods().delete(&name, &DeleteParams::default()).await);
        }
    }
}
