//! A namespace with an installed chart, and a federation beside the cluster.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::Value;
use trawler::demo::{DemoFederation, DemoOptions};

use super::judge::{self, History};
use super::kubectl::{Namespace, cluster, condition, eventually, run, setting, tool};

/// The chart's values for the test's images.
const VALUES: &str = "
image: {repository: trawler.dev/trawler, tag: test, pullPolicy: Never}
tokens: 4
crds: {enabled: false}
rbac: {aggregatedRoles: false}
operator: {resources: {requests: {cpu: 10m, memory: 32Mi}}}
crawler:
  resources: {requests: {cpu: 10m, memory: 32Mi}, limits: {memory: 256Mi}}
  terminationGracePeriodSeconds: 20
  allowPrivateNetworks: [HOST/32]
redis:
  image: {repository: trawler.dev/redis, tag: test, pullPolicy: Never}
  runAsUser: 65532
  resources: {requests: {cpu: 10m, memory: 32Mi}}
  persistence: {enabled: false}
";

/// A namespace of its own, which goes with this.
pub(crate) struct Installed {
    pub(crate) namespace: Namespace,
    pub(crate) federation: DemoFederation,
    history: History,
    runtime: tokio::runtime::Runtime,
}

impl Installed {
    /// With the federation's nodes and Catalog applied.
    pub(crate) fn new(name: &str) -> Self {
        Self::with(name, "", Duration::ZERO)
    }

    /// With more values, and answers that take this long.
    pub(crate) fn with(name: &str, values: &str, latency: Duration) -> Self {
        let namespace = Namespace(format!("e2e-{name}"));
        let labels = "pod-security.kubernetes.io/enforce=restricted";
        run(tool("kubectl").args(["create", "namespace", &namespace.0])).unwrap();
        run(tool("kubectl").args(["label", "namespace", &namespace.0, labels])).unwrap();
        let address: Ipv4Addr = setting("HOST_ADDRESS").parse().unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let options = DemoOptions { address, latency, ..DemoOptions::default() };
        let federation = runtime.block_on(DemoFederation::start(options)).unwrap();
        let history = runtime.block_on(async { judge::follow(client().await, &namespace.0) });
        let installed = Self { namespace, federation, history, runtime };
        installed.helm("install", values).unwrap();
        installed.namespace.apply(&installed.federation.manifests());
        installed
    }

    /// `helm install`, or `upgrade`.
    pub(crate) fn helm(&self, verb: &str, values: &str) -> Result<String, String> {
        let dir = tempfile::tempdir().unwrap();
        let (own, more) = (dir.path().join("own.yaml"), dir.path().join("more.yaml"));
        std::fs::write(&own, VALUES.replace("HOST", &setting("HOST_ADDRESS"))).unwrap();
        std::fs::write(&more, if values.is_empty() { "{}" } else { values }).unwrap();
        let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/trawler");
        let mut helm = tool("helm");
        helm.args([verb, "t", chart, "-n", &self.namespace.0, "--wait", "--timeout", "180s", "-f"]);
        let installed = run(helm.arg(own).arg("-f").arg(more));
        installed.map_err(|why| format!("{why}\n{}", self.namespace.state()))
    }

    /// Makes a run of the federation.
    pub(crate) fn run(&self, name: &str, settings: &str) {
        self.namespace.apply(&format!(
            "apiVersion: trawler.dev/v1alpha1\nkind: CrawlRun\nmetadata: {{name: {name}}}\nspec:\n  catalogRef: {{name: demo}}\n{settings}"
        ));
    }

    /// Waits until a run has ended.
    pub(crate) fn ended(&self, name: &str) -> Value {
        let is_final = |run: &Value| matches!(condition(run, "Succeeded"), Some("True" | "False"));
        self.namespace.until("crawlrun", name, "ended", is_final)
    }

    /// Waits until some tasks of a run are done, and some are not.
    pub(crate) fn midway(&self, name: &str) -> Value {
        let is_midway = |run: &Value| run["status"]["ledger"]["done"].as_i64().unwrap_or(0) > 2;
        self.namespace.until("crawlrun", name, "midway", is_midway)
    }

    /// Records that the federation has.
    pub(crate) fn expected(&self) -> u64 {
        self.federation.nodes().iter().map(|node| node.records).sum()
    }

    pub(crate) fn crawler_jobs(&self) -> Vec<Value> {
        self.namespace.list("jobs", "app.kubernetes.io/component=crawler")
    }

    pub(crate) fn crawler_pods(&self) -> Vec<Value> {
        self.namespace.list("pods", "app.kubernetes.io/component=crawler")
    }

    pub(crate) fn operator_pod(&self) -> String {
        let pod = eventually(Duration::from_mins(1), || {
            let pods = self.namespace.list("pods", "app.kubernetes.io/component=operator");
            let running = pods
                .into_iter()
                .find(|pod| pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null())?;
            running["metadata"]["name"].as_str().map(str::to_owned)
        });
        pod.expect("an operator runs")
    }

    /// Asserts that a run came to everything that the federation has.
    pub(crate) fn is_whole(&self, run: &Value) {
        assert_eq!(condition(run, "Succeeded"), Some("True"), "{run:#}\n{}", self.namespace.state());
        assert_eq!(run["status"]["records"]["seen"].as_u64(), Some(self.expected()), "{run:#}");
        assert_eq!(run["status"]["catalogNodes"]["complete"], 5);
    }
}

/// The API server's administrator.
async fn client() -> kube::Client {
    let text = std::fs::read_to_string(format!("{}/kubeconfig", cluster())).unwrap();
    let kubeconfig: kube::config::Kubeconfig = serde_saphyr::from_str(&text).unwrap();
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

/// Tokens of an installation by the values above.
const TOKENS: usize = 4;

impl Installed {
    /// Judges what the API server told of crawlers.
    fn judge(&self) {
        let runs = self.namespace.list("crawlruns", "");
        let tokens = runs.iter().filter_map(|run| {
            let tokens = usize::try_from(run["spec"]["tokens"].as_u64()?).ok()?;
            Some((run["metadata"]["uid"].as_str()?.to_owned(), tokens))
        });
        let tokens: BTreeMap<String, usize> = tokens.collect();
        let history = self.history.lock().unwrap().clone();
        let wrong = judge::judge(&history, TOKENS, &tokens);
        println!("{}: {} events of crawlers judged", self.namespace.0, history.len());
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.judge();
            drop(run(tool("kubectl").args(["delete", "namespace", &self.namespace.0, "--wait=false"])));
        }
        let _in_runtime = self.runtime.enter();
    }
}
