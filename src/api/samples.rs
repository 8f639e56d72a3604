//! Sample objects, typed so that they can't fall behind the types. `manifests/samples/` is generated from them.

use std::collections::BTreeMap;

use kube::Resource;

use super::{
    AdaptiveSpec, Amount, BudgetPer, Catalog, CatalogNode, CatalogNodeSpec, CatalogSpec, CkanSpec, ConcurrencyPolicy,
    CrawlRun, CrawlRunSpec, DcatFormat, DcatSpec, DeletionSpec, DspSpec, DspVersionChoice, HistorySpec, KubeDuration,
    LabelSelector, NestedSpec, NodeHealthSpec, ObjectRef, Pacing, Protocol, RunMode, RunSettings, RunTemplate,
    Schedule, StoreSpec, TargetType, ThrottleLimit, ThrottlePolicy, ThrottlePolicySpec, ThrottleTarget, ThrottleUnit,
};

/// The label that the sample Catalog selects by.
const LABEL: (&str, &str) = ("federation", "mobility");

/// A Catalog of everything labelled `federation: mobility`, crawled every night and looked at every hour.
pub fn catalog() -> Catalog {
    let schedule = |name: &str, cron: &str, time_zone: &str, mode| Schedule {
        jitter: None,
        name: name.to_owned(),
        cron: cron.to_owned(),
        time_zone: time_zone.to_owned(),
        mode,
    };
    Catalog::new(
        "mobility",
        CatalogSpec {
            catalog_node_selector: LabelSelector { match_labels: labels(), match_expressions: Vec::new() },
            schedules: vec![
                schedule("nightly", "0 2 * * *", "Europe/Berlin", RunMode::Full),
                schedule("hourly", "17 * * * *", "UTC", RunMode::Incremental),
            ],
            starting_deadline: KubeDuration::from_hours(1),
            concurrency_policy: ConcurrencyPolicy::Forbid,
            suspend: false,
            run_template: RunTemplate {
                spec: RunSettings { deadline: Some(KubeDuration::from_hours(6)), ..RunSettings::default() },
                ..RunTemplate::default()
            },
            deletion: DeletionSpec::default(),
            node_health: NodeHealthSpec::default(),
            store: StoreSpec::default(),
            history: HistorySpec::default(),
        },
    )
}

/// A connector that needs a token and has a policy of its own.
pub fn dsp_node() -> CatalogNode {
    node(
        "acme",
        CatalogNodeSpec {
            dsp: Some(DspSpec {
                version: DspVersionChoice::Auto,
                participant_id: Some("did:web:acme.example".to_owned()),
                page_size: None,
                nested: NestedSpec::default(),
            }),
            connection: Some("acme-gateway".to_owned()),
            credential_ref: Some(ObjectRef::from("acme-token")),
            throttle_policy_ref: Some(ObjectRef::from("gentle")),
            recrawl_interval: Some(KubeDuration::from_hours(1)),
            ..CatalogNodeSpec::at("https://acme.example/api/dsp", Protocol::DSP)
        },
    )
}

/// A CKAN portal, of which one organisation is taken.
pub fn ckan_node() -> CatalogNode {
    node(
        "city-portal",
        CatalogNodeSpec {
            ckan: Some(CkanSpec { filter: Some("organization:city".to_owned()), ..CkanSpec::default() }),
            ..CatalogNodeSpec::at("https://data.city.example", Protocol::CKAN)
        },
    )
}

/// A DCAT document in Turtle.
pub fn dcat_node() -> CatalogNode {
    node(
        "region-feed",
        CatalogNodeSpec {
            dcat: Some(DcatSpec { format: DcatFormat::Turtle, ..DcatSpec::default() }),
            ..CatalogNodeSpec::at("https://region.example/catalog.ttl", Protocol::DCAT)
        },
    )
}

/// A policy that is gentle at all times.
pub fn throttle_policy() -> ThrottlePolicy {
    let limit = |unit, amount, period, pacing| ThrottleLimit { unit, amount: Amount::new(amount), period, pacing };
    let mut policy = ThrottlePolicy::new(
        "gentle",
        ThrottlePolicySpec {
            limits: vec![
                limit(ThrottleUnit::ApiCalls, 10, KubeDuration::from_secs(1), Pacing::Even),
                limit(ThrottleUnit::Documents, 50_000, KubeDuration::from_hours(24), Pacing::Burst),
                limit(ThrottleUnit::Bytes, 2 << 30, KubeDuration::from_hours(24), Pacing::Burst),
            ],
            max_concurrent: Some(2),
            adaptive: AdaptiveSpec::default(),
            budget_per: BudgetPer::Connection,
            allowed_hours: Vec::new(),
            targets: vec![ThrottleTarget { target_type: TargetType::Connection, name: "acme-gateway".to_owned() }],
        },
    );
    policy.meta_mut().labels = Some(labels());
    policy
}

/// A run on demand over two of the nodes.
pub fn crawl_run() -> CrawlRun {
    CrawlRun::new(
        "mobility-on-demand",
        CrawlRunSpec {
            catalog_ref: ObjectRef::from("mobility"),
            settings: RunSettings {
                catalog_node_names: vec!["acme".to_owned(), "city-portal".to_owned()],
                tokens: 2,
                deadline: Some(KubeDuration::from_hours(2)),
                ..RunSettings::default()
            },
        },
    )
}

fn node(name: &str, spec: CatalogNodeSpec) -> CatalogNode {
    let mut node = CatalogNode::new(name, spec);
    node.meta_mut().labels = Some(labels());
    node
}

fn labels() -> BTreeMap<String, String> {
    BTreeMap::from([(LABEL.0.to_owned(), LABEL.1.to_owned())])
}
