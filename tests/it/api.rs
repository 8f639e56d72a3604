//! The four kinds: what their definitions promise to the API server and to people.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking, too")]

use std::collections::BTreeSet;

use kube::core::cel::{CompiledSchema, Validator, compile_schema, estimate_rule_cost};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use trawler::api::crd::crds;
use trawler::api::{Catalog, CatalogNode, CrawlRun, ThrottlePolicy, samples};
use trawler::generate;

/// Kind and schema of every definition.
fn schemas() -> Vec<(String, Value)> {
    let schema = |crd| json!(crd)["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take();
    crds().into_iter().map(|crd| (crd.spec.names.kind.clone(), schema(crd))).collect()
}

fn schema_of(kind: &str) -> Value {
    schemas().into_iter().find(|(name, _)| name == kind).unwrap().1
}

/// Calls `visit` with the path and schema of everything in a schema.
fn walk(path: &str, schema: &Value, visit: &mut dyn FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        walk(&format!("{path}.{name}"), property, visit);
    }
    for (part, sign) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[part].is_object() {
            walk(&format!("{path}{sign}"), &schema[part], visit);
        }
    }
}

/// Paths at which something is the matter.
fn offenders(offends: impl Fn(&str, &Value) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (kind, schema) in schemas() {
        walk(&kind, &schema, &mut |path, schema| {
            if offends(path, schema) {
                found.push(path.to_owned());
            }
        });
    }
    found
}

fn has(schema: &Value, key: &str) -> bool {
    schema.get(key).is_some_and(|value| !value.is_null())
}

#[test]
fn every_definition_is_small_enough_for_a_plain_apply() {
    let sizes: Vec<usize> = generate::crds().files.iter().map(|file| file.content.len()).collect();
    assert!(sizes.len() == 4 && sizes.iter().all(|size| *size < 65_536), "{sizes:?}");
}

#[test]
fn every_field_is_described_on_one_line() {
    let undescribed = offenders(|path, schema| {
        let named = !path.ends_with("[]") && !path.ends_with("{}");
        named && !schema["description"].as_str().is_some_and(|text| text.ends_with('.') && !text.contains('\n'))
    });
    assert_eq!(undescribed, Vec::<String>::new());
}

#[test]
fn every_list_and_map_and_text_is_bounded_and_every_list_has_a_type() {
    let unbounded = offenders(|_, schema| match schema["type"].as_str() {
        Some("array") => !(has(schema, "maxItems") && has(schema, "x-kubernetes-list-type")),
        Some("string") => !["maxLength", "enum"].iter().any(|key| has(schema, key)) && schema["format"] != "date-time",
        Some("object") => has(schema, "additionalProperties") && !has(schema, "maxProperties"),
        None => !has(schema, "maxLength"),
        _ => false,
    });
    assert_eq!(unbounded, Vec::<String>::new());
}

#[test]
fn nothing_is_in_a_schema_that_kubernetes_does_not_know() {
    let strange = offenders(|_, schema| {
        let format = schema["format"].as_str().unwrap_or("int64");
        !["int32", "int64", "date-time"].contains(&format)
            || ["nullable", "anyOf", "oneOf", "allOf", "not"].iter().any(|key| has(schema, key))
    });
    assert_eq!(strange, Vec::<String>::new());
}

#[test]
fn keys_of_list_maps_are_required_fields_of_their_items() {
    let wrong = offenders(|_, schema| {
        let keys = schema["x-kubernetes-list-map-keys"].as_array().cloned().unwrap_or_default();
        let required = schema["items"]["required"].as_array().cloned().unwrap_or_default();
        schema["x-kubernetes-list-type"] == "map" && (keys.is_empty() || !keys.iter().all(|key| required.contains(key)))
    });
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn every_kind_has_a_short_name_the_category_columns_and_a_status() {
    for crd in crds() {
        let names = crd.spec.names;
        let short = names.short_names.unwrap_or_default();
        assert!(!short.is_empty() && short.iter().all(|name| name.len() >= 3), "{}", names.kind);
        assert_eq!(names.categories, Some(vec!["trawler".to_owned()]), "{}", names.kind);
        let version = &crd.spec.versions[0];
        let columns: Vec<&str> =
            version.additional_printer_columns.iter().flatten().map(|column| column.name.as_str()).collect();
        assert!(columns.last() == Some(&"Age") && columns.len() >= 5, "{}: {columns:?}", names.kind);
        assert!(version.subresources.as_ref().is_some_and(|subresources| subresources.status.is_some()));
    }
}

#[test]
fn the_protocol_is_a_column_of_catalog_nodes() {
    let crd = crds().into_iter().find(|crd| crd.spec.names.kind == "CatalogNode").unwrap();
    let columns = crd.spec.versions[0].additional_printer_columns.clone().unwrap();
    assert!(columns.iter().any(|column| column.json_path == ".spec.protocol" && column.priority.is_none()));
}

/// What the API server stores for an object, and what our types make of the object as it was written.
fn defaulted<T: Serialize + DeserializeOwned>(kind: &str, spec: &Value) -> (Value, Value) {
    let schema = schema_of(kind);
    let object = json!({"apiVersion": "trawler.dev/v1alpha1", "kind": kind, "metadata": {"name": "x"}, "spec": spec});
    let stored = kube::core::cel::apply_defaults(&schema, &object);
    let read: T = serde_json::from_value(object).unwrap();
    (stored, json!(read))
}

#[test]
fn a_field_left_out_means_the_same_on_a_cluster_and_on_a_laptop() {
    let cases = [
        defaulted::<CatalogNode>("CatalogNode", &json!({"endpoint": "https://a.example"})),
        defaulted::<CatalogNode>(
            "CatalogNode",
            &json!({"endpoint": "https://a.example", "dsp": {"nested": {}}, "ckan": {}, "dcat": {}, "limits": {}}),
        ),
        defaulted::<Catalog>("Catalog", &json!({"catalogNodeSelector": {}})),
        defaulted::<Catalog>(
            "Catalog",
            &json!({
                "catalogNodeSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
                "schedules": [{"name": "a", "cron": "@daily"}], "deletion": {}, "history": {},
                "runTemplate": {"spec": {"retries": {}, "crawler": {}}},
            }),
        ),
        defaulted::<CrawlRun>("CrawlRun", &json!({"catalogRef": {"name": "a"}})),
        defaulted::<CrawlRun>(
            "CrawlRun",
            &json!({"catalogRef": {"name": "a"}, "retries": {}, "crawler": {"resources": {}}}),
        ),
        defaulted::<ThrottlePolicy>("ThrottlePolicy", &json!({})),
        defaulted::<ThrottlePolicy>(
            "ThrottlePolicy",
            &json!({"adaptive": {}, "allowedHours": [{"start": "01:00", "end": "02:00"}],
                "limits": [{"unit": "Bytes", "amount": 5, "period": "1s"}]}),
        ),
    ];
    for (stored, read) in cases {
        assert_eq!(stored, read);
    }
}

#[test]
fn quantities_are_taken_as_texts_and_as_numbers() {
    let spec = json!({"limits": [{"unit": "Bytes", "amount": "2Gi", "period": "1h30m"}]});
    let object = json!({"apiVersion": "trawler.dev/v1alpha1", "kind": "ThrottlePolicy", "metadata": {}, "spec": spec});
    let policy: ThrottlePolicy = serde_json::from_value(object).unwrap();
    let limit = &policy.spec.limits[0];
    assert_eq!((limit.amount.get(), limit.period.get().as_secs()), (2 << 30, 5400));
}

/// Every rule of every kind: its message.
fn rule_messages() -> BTreeSet<String> {
    let mut messages = BTreeSet::new();
    for (kind, schema) in schemas() {
        walk(&kind, &schema, &mut |_, schema| {
            for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
                messages.insert(rule["message"].as_str().unwrap().to_owned());
            }
        });
    }
    messages
}

/// The messages of the rules that do not hold for an object (updated from `old`).
fn broken(object: &Value, old: Option<&Value>) -> Vec<String> {
    let schema = schema_of(object["kind"].as_str().unwrap());
    let errors = Validator::new().validate(&schema, object, old).err();
    errors.into_iter().flatten().map(|error| error.message).collect()
}

fn with(object: impl Serialize, pointer: &str, value: Value) -> Value {
    let mut object = json!(object);
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[field] = value;
    object
}

#[test]
fn every_rule_holds_for_the_samples() {
    let samples = [
        json!(samples::catalog()),
        json!(samples::dsp_node()),
        json!(samples::ckan_node()),
        json!(samples::dcat_node()),
        json!(samples::crawl_run()),
        json!(samples::throttle_policy()),
    ];
    for sample in samples {
        assert_eq!(broken(&sample, Some(&sample)), Vec::<String>::new());
    }
}

#[test]
fn every_rule_can_fail_and_says_what_to_do() {
    let cases = [
        with(samples::dsp_node(), "/spec/endpoint", json!("portal.example")),
        with(samples::dsp_node(), "/spec/endpoint", json!("https://user:pw@portal.example/")),
        with(samples::dsp_node(), "/spec/endpoint", json!("https://portal.example/#a")),
        with(samples::ckan_node(), "/spec/dsp", json!({})),
        with(samples::dsp_node(), "/spec/ckan", json!({})),
        with(samples::dsp_node(), "/spec/dcat", json!({})),
        with(samples::catalog(), "/metadata/name", json!("x".repeat(53))),
        with(samples::catalog(), "/spec/store", json!({"redis": {}, "postgres": {"secretRef": {"name": "a"}}})),
        with(samples::catalog(), "/spec/catalogNodeSelector/matchExpressions", json!([{"key": "a", "operator": "In"}])),
        with(samples::catalog(), "/spec/nodeHealth/dead/afterFailures", json!(2)),
        with(samples::catalog(), "/spec/nodeHealth/offline/initialRecrawlInterval", json!("7h")),
        with(samples::crawl_run(), "/spec/catalogNodeSelector", json!({})),
        with(samples::throttle_policy(), "/spec/limits/0/period", json!("10ms")),
        with(
            samples::throttle_policy(),
            "/spec/allowedHours",
            json!([{"start": "18:00", "end": "18:00", "timeZone": "UTC"}]),
        ),
    ];
    let mut seen: BTreeSet<String> = cases.iter().flat_map(|case| broken(case, None)).collect();
    let changed = with(samples::crawl_run(), "/spec/mode", json!("Incremental"));
    seen.extend(broken(&changed, Some(&json!(samples::crawl_run()))));
    assert_eq!(seen, rule_messages());
    assert!(seen.iter().all(|message| message.contains("; ")), "{seen:?}");
}

#[test]
fn rules_compile_and_stay_within_the_cost_that_the_api_server_allows() {
    fn check(schema: &CompiledSchema, value: &Value, path: &str, problems: &mut Vec<String>) {
        problems.extend(schema.compilation_errors().iter().map(|error| format!("{path}: {error}")));
        for rule in value["x-kubernetes-validations"].as_array().into_iter().flatten() {
            let warnings = estimate_rule_cost(rule["rule"].as_str().unwrap(), schema);
            problems.extend(warnings.iter().map(|warning| format!("{path}: {}", warning.message)));
        }
        for (name, property) in &schema.properties {
            check(property, &value["properties"][name], &format!("{path}.{name}"), problems);
        }
        if let Some(items) = &schema.items {
            check(items, &value["items"], &format!("{path}[]"), problems);
        }
    }
    let mut problems = Vec::new();
    for (kind, schema) in schemas() {
        check(&compile_schema(&schema), &schema, &kind, &mut problems);
    }
    assert_eq!(problems, Vec::<String>::new());
}

#[test]
fn only_five_fields_of_a_crawl_run_may_change() {
    let other_values = json!({
        "catalogRef": {"name": "other"}, "mode": "Incremental", "dryRun": true, "catalogNodeNames": ["acme"],
        "catalogNodeSelector": {}, "tokens": 7, "weight": 7, "priority": 7, "suspend": true, "deadline": "7h",
        "retries": {"limit": 7}, "maxFailedNodesPercent": 7, "crawler": {"concurrency": 7}, "ttlAfterFinished": "7h",
    });
    let mut before = json!(samples::crawl_run());
    before["spec"].as_object_mut().unwrap().remove("catalogNodeNames");
    let mut free = Vec::new();
    for field in schema_of("CrawlRun")["properties"]["spec"]["properties"].as_object().unwrap().keys() {
        let after = with(&before, &format!("/spec/{field}"), other_values[field].clone());
        match &broken(&after, Some(&before))[..] {
            [] => free.push(field.clone()),
            [message] => assert_eq!(
                message,
                "only suspend, tokens, weight, priority and deadline of a CrawlRun may change; create another CrawlRun for anything else"
            ),
            more => panic!("{field}: {more:?}"),
        }
    }
    assert_eq!(free, ["deadline", "priority", "suspend", "tokens", "weight"]);
}

#[test]
fn a_field_of_a_crawl_run_may_not_be_taken_away_either() {
    let before = with(samples::crawl_run(), "/spec/ttlAfterFinished", json!("1h"));
    let mut after = before.clone();
    after["spec"].as_object_mut().unwrap().remove("ttlAfterFinished");
    assert_eq!(broken(&after, Some(&before)).len(), 1);
}
