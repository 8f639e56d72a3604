//! The definitions of the four kinds, as the API server takes them.

use serde_json::{Value, json};

use super::kubectl::{run, tool};

/// What the API server says to an object that is not kept.
fn dry_run(object: &Value) -> Result<String, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), object.to_string()).unwrap();
    let path = file.path().display().to_string();
    run(tool("kubectl").args(["-n", "default", "apply", "--dry-run=server", "-f", &path]))
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "trawler.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

#[test]
fn every_sample_is_accepted() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/samples");
    let said = run(tool("kubectl").args(["-n", "default", "apply", "--dry-run=server", "-f", folder])).unwrap();
    let files = std::fs::read_dir(folder)
        .unwrap()
        .filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|extension| extension == "yaml"));
    assert!(said.lines().count() >= files.count(), "{said}");
}

/// A rule: what it is about, the kind, a spec that keeps it, one that does not, and what is said of that.
type Rule = (&'static str, &'static str, Value, Value, &'static str);

fn rules() -> Vec<Rule> {
    let node = |more: Value| {
        let mut spec = json!({"endpoint": "https://acme.example/api", "protocol": "DSP"});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    let policy = |more: Value| {
        let mut spec = json!({"limits": [{"unit": "ApiCalls", "amount": 1, "period": "1s"}]});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    let hours = |start: &str, end: &str| policy(json!({"allowedHours": [{"start": start, "end": end}]}));
    let run = |more: Value| {
        let mut spec = json!({"catalogRef": {"name": "demo"}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    let catalog = |store: Value| json!({"catalogNodeSelector": {}, "store": store});
    let both = json!({"catalogNodeNames": ["a"], "catalogNodeSelector": {}});
    vec![
        (
            "a part for the protocol",
            "CatalogNode",
            node(json!({"dsp": {}})),
            node(json!({"ckan": {}})),
            "ckan may be set only if protocol is CKAN",
        ),
        (
            "another part",
            "CatalogNode",
            json!({"endpoint": "https://a.example", "protocol": "CKAN", "ckan": {}}),
            json!({"endpoint": "https://a.example", "protocol": "CKAN", "dsp": {}}),
            "dsp may be set only if protocol is DSP",
        ),
        (
            "the last part",
            "CatalogNode",
            json!({"endpoint": "https://a.example", "protocol": "DCAT", "dcat": {}}),
            json!({"endpoint": "https://a.example", "protocol": "CKAN", "dcat": {}}),
            "dcat may be set only if protocol is DCAT",
        ),
        ("an endpoint", "CatalogNode", node(json!({})), node(json!({"endpoint": "ftp://acme.example"})), "endpoint"),
        (
            "an endpoint without a user",
            "CatalogNode",
            node(json!({})),
            node(json!({"endpoint": "https://u:p@acme.example"})),
            "endpoint",
        ),
        ("hours", "ThrottlePolicy", hours("22:00", "06:00"), hours("06:00", "06:00"), "start and end must differ"),
        (
            "nodes named in one way",
            "CrawlRun",
            run(json!({"catalogNodeNames": ["a"]})),
            run(both),
            "must not be set together",
        ),
        (
            "one store",
            "Catalog",
            catalog(json!({"redis": {}})),
            catalog(json!({"redis": {}, "postgres": {"secretRef": {"name": "s"}}})),
            "exactly one of redis and postgres",
        ),
        ("an unknown field", "CrawlRun", run(json!({})), run(json!({"token": 1})), "unknown field"),
        ("a bound", "CrawlRun", run(json!({"tokens": 1000})), run(json!({"tokens": 1001})), "1000"),
    ]
}

#[test]
fn every_rule_accepts_what_keeps_it_and_refuses_what_does_not_in_a_sentence() {
    for (about, kind, kept, broken, message) in rules() {
        dry_run(&object(kind, "kept", &kept)).unwrap_or_else(|why| panic!("{about}: {why}"));
        let refused = dry_run(&object(kind, "broken", &broken)).expect_err(about);
        assert!(refused.contains(message), "{about}: {refused}");
    }
    let long = "c".repeat(53);
    let refused = dry_run(&object("Catalog", &long, &json!({"catalogNodeSelector": {}}))).unwrap_err();
    assert!(refused.contains("at most 52 characters"), "{refused}");
}

#[test]
fn of_a_run_only_what_may_change_changes() {
    let before = object("CrawlRun", "fixed", &json!({"catalogRef": {"name": "nowhere"}, "suspend": true}));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), before.to_string()).unwrap();
    run(tool("kubectl").args(["-n", "default", "apply", "-f", &file.path().display().to_string()])).unwrap();
    let patch = |patch: Value| {
        let patch = patch.to_string();
        run(tool("kubectl").args(["-n", "default", "patch", "crawlrun", "fixed", "--type=merge", "-p", &patch]))
    };
    for allowed in [
        json!({"tokens": 3}),
        json!({"weight": 2}),
        json!({"priority": 5}),
        json!({"deadline": "1h"}),
        json!({"suspend": false}),
    ] {
        patch(json!({"spec": allowed})).unwrap();
    }
    for forbidden in [
        json!({"mode": "Incremental"}),
        json!({"dryRun": true}),
        json!({"catalogRef": {"name": "other"}}),
        json!({"catalogNodeNames": ["a"]}),
        json!({"retries": {"limit": 1}}),
        json!({"maxFailedNodesPercent": 1}),
        json!({"crawler": {"class": "big"}}),
        json!({"ttlAfterFinished": "1h"}),
    ] {
        let refused = patch(json!({"spec": forbidden})).expect_err("it is fixed");
        assert!(
            refused.contains("only suspend, tokens, weight, priority and deadline of a CrawlRun may change"),
            "{refused}"
        );
    }
    run(tool("kubectl").args(["-n", "default", "delete", "crawlrun", "fixed"])).unwrap();
}

#[test]
fn fields_are_explained() {
    let said = run(tool("kubectl").args(["explain", "crawlrun.spec.tokens"])).unwrap();
    assert!(said.contains("Crawlers at a time, at most."), "{said}");
}
