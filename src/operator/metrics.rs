//! What the operator says of itself, for Prometheus: the names that dashboards for controllers know, and its own. No label has
//! values without bounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

type Labels = Vec<(&'static str, String)>;

#[derive(Debug, Clone)]
struct Seconds;

impl MetricConstructor<Histogram> for Seconds {
    fn new_metric(&self) -> Histogram {
        Histogram::new(exponential_buckets(0.001, 2.0, 16))
    }
}

/// The metrics.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    registry: Arc<Registry>,
    reconciles: Family<Labels, Counter>,
    errors: Family<Labels, Counter>,
    seconds: Family<Labels, Histogram, Seconds>,
    leads: Family<Labels, Gauge>,
    runs: Family<Labels, Gauge>,
    tasks: Family<Labels, Gauge>,
    tokens: Family<Labels, Gauge>,
    nodes: Family<Labels, Gauge>,
    freshness: Family<Labels, Gauge<f64, AtomicU64>>,
    exits: Family<Labels, Counter>,
    queue_up: Gauge<i64, AtomicI64>,
    redis_up: Gauge<i64, AtomicI64>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::default();
        let mut metrics = Self {
            registry: Arc::new(Registry::default()),
            reconciles: Family::default(),
            errors: Family::default(),
            seconds: Family::new_with_constructor(Seconds),
            leads: Family::default(),
            runs: Family::default(),
            tasks: Family::default(),
            tokens: Family::default(),
            nodes: Family::default(),
            freshness: Family::default(),
            exits: Family::default(),
            queue_up: Gauge::default(),
            redis_up: Gauge::default(),
        };
        let m = &metrics;
        registry.register("controller_runtime_reconcile", "Reconciles by result", m.reconciles.clone());
        registry.register("controller_runtime_reconcile_errors", "Reconciles that failed", m.errors.clone());
        registry.register("controller_runtime_reconcile_time_seconds", "Time a reconcile takes", m.seconds.clone());
        registry.register("leader_election_master_status", "1: this process leads", m.leads.clone());
        registry.register("trawler_runs", "CrawlRuns by state", m.runs.clone());
        registry.register("trawler_run_tasks", "Tasks of active runs by state", m.tasks.clone());
        registry.register("trawler_tokens", "The budget of tokens, and those that are held", m.tokens.clone());
        registry.register("trawler_nodes", "CatalogNodes by state", m.nodes.clone());
        registry.register(
            "trawler_node_freshness_seconds",
            "Age of the last complete crawl of a node: the oldest nodes",
            m.freshness.clone(),
        );
        registry.register("trawler_crawler_exits", "Crawlers that have ended, by cause", m.exits.clone());
        registry.register("trawler_queue_up", "1: the queue answered when it was asked last", m.queue_up.clone());
        registry.register("trawler_redis_up", "1: the queue's Redis could be reached", m.redis_up.clone());
        metrics.registry = Arc::new(registry);
        metrics
    }

    /// All of them, in Prometheus' text format.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a text does not fail.
        match encode(&mut text, &self.registry) {
            Ok(()) => text,
            Err(error) => format!(
                "# {error}
"
            ),
        }
    }

    pub(crate) fn reconciled(&self, controller: &'static str, took: Duration, is_success: bool) {
        let result = if is_success { "success" } else { "error" };
        let labels = vec![("controller", controller.to_owned()), ("result", result.to_owned())];
        self.reconciles.get_or_create(&labels).inc();
        self.seconds.get_or_create(&vec![("controller", controller.to_owned())]).observe(took.as_secs_f64());
    }

    pub(crate) fn reconcile_failed(&self, controller: &'static str) {
        self.errors.get_or_create(&vec![("controller", controller.to_owned())]).inc();
    }

    pub(crate) fn set_leads(&self, lease: &str, leads: bool) {
        self.leads.get_or_create(&vec![("name", lease.to_owned())]).set(i64::from(leads));
    }

    pub(crate) fn crawler_exit(&self, cause: &'static str) {
        self.exits.get_or_create(&vec![("reason", cause.to_owned())]).inc();
    }

    pub(crate) fn set_queue_up(&self, is_reached: bool, is_up: bool) {
        self.redis_up.set(i64::from(is_reached));
        self.queue_up.set(i64::from(is_up));
    }

    pub(crate) fn set_runs(&self, state: &'static str, count: usize) {
        set(&self.runs, state, count);
    }

    pub(crate) fn set_tokens(&self, state: &'static str, count: usize) {
        set(&self.tokens, state, count);
    }

    pub(crate) fn set_nodes(&self, state: &'static str, count: usize) {
        set(&self.nodes, state, count);
    }

    pub(crate) fn set_tasks<'a>(&self, counts: impl Iterator<Item = (&'a str, &'static str, i64)>) {
        self.tasks.clear();
        for (catalog, state, count) in counts {
            let labels = vec![("catalog", catalog.to_owned()), ("state", state.to_owned())];
            self.tasks.get_or_create(&labels).inc_by(count);
        }
    }

    /// The nodes that were complete longest ago, and how long ago that is.
    pub(crate) fn set_freshness<'a>(&self, oldest: impl Iterator<Item = (&'a str, f64)>) {
        self.freshness.clear();
        for (node, seconds) in oldest {
            self.freshness.get_or_create(&vec![("catalog_node", node.to_owned())]).set(seconds);
        }
    }
}

fn set(family: &Family<Labels, Gauge>, state: &'static str, count: usize) {
    family.get_or_create(&vec![("state", state.to_owned())]).set(i64::try_from(count).unwrap_or(i64::MAX));
}
