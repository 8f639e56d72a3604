//! Manifests from files: what is read, and what every kind of bad input says. Each fault is one sentence with its
//! place and what would be right.

use trawler::local::finding::{Severity, render_json, render_text};
use trawler::local::manifests::{Input, load};
use trawler::local::secrets::SecretSources;
use trawler::local::validate::{accept, validate};

/// A federation that is in order.
const GOOD: &str = r#"
apiVersion: trawler.dev/v1alpha1
kind: Catalog
metadata: {name: mobility}
spec:
  catalogNodeSelector: {matchLabels: {federation: mobility}}
  schedules:
  - {name: nightly, cron: "0 2 * * *", timeZone: Europe/Berlin}
---
apiVersion: trawler.dev/v1alpha1
kind: CatalogNode
metadata: {name: acme, labels: {federation: mobility}}
spec:
  endpoint: https://acme.example/api
  protocol: DSP
  credentialRef: {name: acme-token}
  throttlePolicyRef: {name: gentle}
---
apiVersion: trawler.dev/v1alpha1
kind: ThrottlePolicy
metadata: {name: gentle}
spec:
  limits:
  - {unit: ApiCalls, amount: 10, period: 1s}
---
apiVersion: v1
kind: Secret
metadata:
  name: acme-token
  labels: {trawler.dev/credential: "true"}
  annotations: {trawler.dev/allowed-origins: "https://acme.example"}
stringData: {token: canary}
---
apiVersion: trawler.dev/v1alpha1
kind: CrawlRun
metadata: {name: now}
spec:
  catalogRef: {name: mobility}
  catalogNodeNames: [acme]
"#;

fn input(text: &str) -> Input {
    Input::Text { name: "my.yaml".to_owned(), text: text.to_owned() }
}

/// What `trawler validate` prints for this text, line by line.
fn sentences(text: &str) -> Vec<String> {
    let findings = validate(&load(&[input(text)]), &SecretSources::default());
    render_text(&findings).lines().map(str::to_owned).collect()
}

/// What is printed for the good federation with one piece of it replaced.
fn sentences_with(replaced: &str, by: &str) -> Vec<String> {
    assert!(GOOD.contains(replaced), "{replaced} is not in the federation");
    sentences(&GOOD.replacen(replaced, by, 1))
}

fn node(spec: &str) -> String {
    format!("apiVersion: trawler.dev/v1alpha1\nkind: CatalogNode\nmetadata: {{name: acme}}\nspec:\n{spec}")
}

#[test]
fn a_federation_in_order_has_no_findings() {
    assert_eq!(sentences(GOOD), Vec::<String>::new());
    let accepted = accept(&load(&[input(GOOD)]), &SecretSources::default()).unwrap();
    let set = accepted.set;
    let counts = [set.catalogs.len(), set.catalog_nodes.len(), set.crawl_runs.len(), set.throttle_policies.len()];
    assert_eq!((counts, set.catalog_nodes[0].line, &*set.catalog_nodes[0].file), ([1, 1, 1, 1], 10, "my.yaml"));
}

/// One fault each: what is replaced in the federation, and by what.
const FAULTS: &[(&str, &str)] = &[
    ("https://acme.example/api", "acme.example/api"),
    ("https://acme.example/api", "ftp://acme.example/api"),
    ("https://acme.example/api", "https://user:pw@acme.example/api"),
    ("https://acme.example/api", "https://"),
    ("https://acme.example/api", "http:///x"),
    ("https://acme.example/api", "''"),
    ("https://acme.example/api", "https://acme.example/#x"),
    ("protocol: DSP", "protocol: CKAN\n  dsp: {}"),
    ("protocol: DSP", "protcol: DSP"),
    ("protocol: DSP", "protocol: dsp"),
    ("protocol: DSP", "protocol: DSP\n  dsp: {version: 0.8, nested: {maxDepth: 99}}"),
    ("protocol: DSP", "protocol: DSP\n  suspend: 'yes'"),
    ("protocol: DSP", "protocol: DSP\n  limits: {requestTimeout: 30, maxBytes: 1GB, maxPages: 1.5}"),
    ("protocol: DSP", "protocol: STAC"),
    ("name: gentle}\nspec:", "name: gentel}\nspec:"),
    ("name: acme-token}", "name: acme-tokn}"),
    ("matchLabels: {federation: mobility}", "matchLabels: {federation: x}"),
    ("matchLabels: {federation: mobility}", "matchExpressions: [{key: a, operator: In}]"),
    ("0 2 * * *", "0 25 * * *"),
    ("0 2 * * *", "0 0 2 * * *"),
    ("0 2 * * *", "every night"),
    ("Europe/Berlin", "Mars/Base"),
    ("amount: 10, period: 1s", "amount: 0, period: 10ms"),
    ("amount: 10, period: 1s", "amount: -1, period: 1000h"),
    ("amount: 10, period: 1s}", "amount: 10, period: 1s}\n  - {unit: ApiCalls, amount: 3, period: 1s}"),
    ("\"true\"", "true"),
    ("\"true\"", "\"false\""),
    ("https://acme.example\"", "https://other.example\""),
    ("token: canary", "tokne: canary"),
    ("stringData: {token: canary}", "data: {token: '*'}"),
    ("catalogNodeNames: [acme]", "catalogNodeNames: [acme, acmee, acme]"),
    ("catalogNodeNames: [acme]", "catalogNodeNames: [acme]\n  catalogNodeSelector: {}"),
    ("catalogNodeNames: [acme]", "catalogNodeSelector: {matchLabels: {a: b}}"),
    ("catalogRef: {name: mobility}", "tokens: 0"),
    ("catalogRef: {name: mobility}", "catalogRef: {name: x}\n  maxFailedNodesPercent: 101"),
    ("kind: CrawlRun", "kind: Crawlrun"),
    ("kind: CrawlRun", "kind: Deployment"),
    ("v1alpha1\nkind: CrawlRun", "v1\nkind: CrawlRun"),
    ("name: mobility}\nspec", "name: Mobility_1}\nspec"),
    ("name: mobility}\nspec", "name: a123456789012345678901234567890123456789012345678901234567890}\nspec"),
    ("kind: CrawlRun", "kind: 7"),
    ("protocol: DSP", "protocol: DSP\n  connection: {a: b}\n  limits: []\n  priority: '5'"),
    ("protocol: DSP", "protocol: DSP\n  caRef: {name: acme-ca}"),
    ("labels: {federation: mobility}", "labels: {federation: on}"),
    ("metadata: {name: now}", "metadata: {}"),
];

#[test]
fn every_fault_is_one_sentence_with_its_place_and_what_would_be_right() {
    let mut golden = String::new();
    for (replaced, by) in FAULTS {
        golden += &[*replaced, " → ", *by].concat().replace('\n', "⏎");
        golden.push('\n');
        for sentence in sentences_with(replaced, by) {
            golden.extend(["    ", &sentence, "\n"]);
        }
    }
    insta::with_settings!({ snapshot_path => "../golden", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("validate_sentences", golden);
    });
}

#[test]
fn faults_of_different_objects_are_all_reported_in_the_order_of_lines() {
    let text =
        GOOD.replace("protocol: DSP", "protcol: DSP").replace("amount: 10", "amount: 0").replace("0 2 * * *", "x");
    let lines: Vec<String> =
        sentences(&text).iter().map(|s| s.split(": ").take(2).collect::<Vec<_>>().join(": ")).collect();
    assert_eq!(
        lines,
        [
            "my.yaml:8: Catalog/mobility spec.schedules[0].cron",
            "my.yaml:15: CatalogNode/acme spec.protcol",
            "my.yaml:24: ThrottlePolicy/gentle spec.limits[0].amount",
        ]
    );
}

#[test]
fn a_rule_about_the_whole_is_reported_beside_a_fault_of_one_field() {
    let found =
        sentences_with("catalogNodeNames: [acme]", "catalogNodeNames: [acme]\n  catalogNodeSelector: {}\n  tokens: 0");
    let fields: Vec<&str> = found.iter().map(|sentence| sentence.split(": ").nth(1).unwrap()).collect();
    assert_eq!(fields, ["CrawlRun/now spec", "CrawlRun/now spec.tokens"]);
}

#[test]
fn no_manifest_at_all_is_said() {
    assert_eq!(sentences("# nothing\n"), ["my.yaml: holds no manifest; write one, or let trawler init URL write it"]);
}

#[test]
fn an_input_of_other_kinds_only_is_said() {
    let text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n";
    assert_eq!(
        sentences(text),
        [
            "my.yaml: there is no Catalog, CatalogNode, CrawlRun or ThrottlePolicy in the input; name their files with -f, or let trawler init URL write some",
            "my.yaml:2: warning: kind: Deployment (apps/v1) is not a kind that Trawler reads, and is skipped; leave it out to silence this",
        ]
    );
}

#[test]
fn an_absent_file_and_an_empty_directory_are_said() {
    let directory = tempfile::tempdir().unwrap();
    let absent = directory.path().join("absent.yaml");
    let manifests = load(&[Input::Path(absent.clone()), Input::Path(directory.path().to_owned())]);
    assert_eq!(
        render_text(&validate(&manifests, &SecretSources::default())),
        format!(
            "{}: is a directory without any .yaml, .yml or .json file; name a file, or a directory that holds manifests (subdirectories are not looked into)\n\
             {}: can't be read: No such file or directory (os error 2); check the path and its permissions\n",
            directory.path().display(),
            absent.display(),
        )
    );
}

#[test]
fn a_directory_is_read_in_the_order_of_names_and_not_below() {
    let directory = tempfile::tempdir().unwrap();
    let policy = |name: &str| {
        format!(
            "{{\"apiVersion\": \"trawler.dev/v1alpha1\", \"kind\": \"ThrottlePolicy\",\n\t\"metadata\": {{\"name\": \"{name}\"}}, \"spec\": {{}}}}"
        )
    };
    std::fs::create_dir(directory.path().join("below")).unwrap();
    for (file, name) in [("b.yml", "b"), ("a.json", "a"), ("c.yaml", "c"), ("d.txt", "d"), ("below/e.yaml", "e")] {
        std::fs::write(directory.path().join(file), policy(name)).unwrap();
    }
    let set = accept(&load(&[Input::Path(directory.path().to_owned())]), &SecretSources::default()).unwrap().set;
    let names: Vec<&str> = set.throttle_policies.iter().filter_map(|p| p.object.metadata.name.as_deref()).collect();
    assert_eq!(names, ["a", "b", "c"]);
}

#[test]
fn a_tab_is_named_with_its_line() {
    assert_eq!(
        sentences("apiVersion: trawler.dev/v1alpha1\nkind: Catalog\nmetadata:\n\tname: x\n"),
        ["my.yaml:4: is indented with a tab, which YAML does not allow; indent with spaces"]
    );
}

#[test]
fn a_syntax_error_does_not_hide_what_is_wrong_before_it() {
    let found = sentences(&format!("{}\n---\na: [1\n---\n", node("  endpoint: a.example\n")));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("my.yaml:5: CatalogNode/acme spec.endpoint"), "{found:?}");
    assert!(found[1].starts_with("my.yaml:8: is not valid YAML"), "{found:?}");
}

#[test]
fn duplicate_names_are_reported_at_the_second_with_the_place_of_the_first() {
    let one = node("  endpoint: https://a.example\n");
    assert_eq!(
        sentences(&format!("{one}---\n{one}")),
        [
            "my.yaml:9: CatalogNode/acme metadata.name: there is another CatalogNode/acme at my.yaml:1; rename one of them, or remove it"
        ]
    );
}

#[test]
fn objects_of_two_namespaces_are_refused() {
    let policy = |name: &str| {
        format!(
            "{{apiVersion: trawler.dev/v1alpha1, kind: ThrottlePolicy, metadata: {{name: {name}, namespace: {name}}}, spec: {{}}}}\n"
        )
    };
    assert_eq!(
        sentences(&format!("{}---\n{}", policy("a"), policy("b"))),
        [
            "my.yaml:3: ThrottlePolicy/b metadata.namespace: \"b\" is not the namespace of ThrottlePolicy/a (my.yaml:1), which is \"a\"; name the manifests of one namespace at a time"
        ]
    );
}

#[test]
fn a_throttle_assigned_twice_at_one_level_is_a_warning() {
    let policy = |name: &str| {
        format!(
            "---\napiVersion: trawler.dev/v1alpha1\nkind: ThrottlePolicy\nmetadata: {{name: {name}}}\nspec:\n  targets:\n  - {{type: Connection, name: gw}}\n"
        )
    };
    let manifests = load(&[input(&(policy("b") + &policy("a")))]);
    let accepted = accept(&manifests, &SecretSources::default()).unwrap();
    assert_eq!(
        render_text(&accepted.warnings),
        "my.yaml:7: warning: ThrottlePolicy/b spec.targets[0]: connection \"gw\" is also a target of ThrottlePolicy/a (my.yaml:9), which wins; remove it from one of them\n"
    );
}

#[test]
fn a_word_that_approves_no_deletion_is_a_warning_with_its_line() {
    let annotated = "metadata:\n  name: mobility\n  annotations:\n    trawler.dev/approved-deletions: acme#7 acme=7";
    let text = GOOD.replace("metadata: {name: mobility}", annotated);
    assert_eq!(
        sentences(&text),
        [
            "my.yaml:7: warning: Catalog/mobility metadata.annotations.trawler.dev/approved-deletions: \"acme=7\" is no approval; write NODE#TRAVERSAL or NODE/SECTION#TRAVERSAL, as the report does, with blanks between them"
        ]
    );
}

#[test]
fn a_list_as_kubectl_prints_it_is_read_item_by_item() {
    let text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: trawler.dev/v1alpha1\n  kind: CatalogNode\n  metadata: {name: a, uid: x, resourceVersion: '1', labels: null}\n  spec: {endpoint: 'https://a.example', dsp: null}\n  status: {records: 3, unknown: 1}\n";
    let accepted = accept(&load(&[input(text)]), &SecretSources::default()).unwrap();
    let node = &accepted.set.catalog_nodes[0];
    assert_eq!((node.line, node.object.spec.dsp.as_ref()), (4, None));
}

#[test]
fn a_secret_from_a_directory_satisfies_a_reference() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("acme-token")).unwrap();
    std::fs::write(directory.path().join("acme-token/token"), "canary").unwrap();
    let manifests = load(&[input(&node("  endpoint: https://a.example\n  credentialRef: {name: acme-token}\n"))]);
    let sources = SecretSources::new(Some(directory.path().to_owned()), []);
    assert_eq!(validate(&manifests, &sources), []);
    std::fs::write(directory.path().join("acme-token/token"), [0xff, 0xfe]).unwrap();
    let found = render_text(&validate(&manifests, &sources));
    assert!(
        found.contains("/acme-token/token can't be read: stream did not contain valid UTF-8; make it readable for you"),
        "{found}"
    );
}

#[test]
fn the_examples_of_the_documentation_are_valid_together() {
    let spec = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/spec");
    let mut inputs = Vec::new();
    for kind in ["catalog", "catalognode", "crawlrun", "throttlepolicy"] {
        let page = std::fs::read_to_string(spec.join(kind).with_extension("md")).unwrap();
        for block in page.split("```yaml\n").skip(1) {
            let text = block.split("```").next().unwrap().to_owned();
            inputs.push(Input::Text { name: format!("{kind}.md"), text });
        }
    }
    assert_eq!((inputs.len(), render_text(&validate(&load(&inputs), &SecretSources::default()))), (4, String::new()));
}

#[test]
fn findings_as_json_name_every_part() {
    let findings = validate(&load(&[input(&node("  endpoint: a.example\n"))]), &SecretSources::default());
    assert_eq!(
        render_json(&findings),
        serde_json::json!([{
            "severity": "error", "file": "my.yaml", "line": 5, "object": "CatalogNode/acme", "field": "spec.endpoint",
            "problem": "\"a.example\" has no scheme", "fix": "write https://a.example",
        }])
    );
    assert_eq!(findings[0].severity, Severity::Error);
}

#[test]
fn no_secret_is_ever_in_a_finding_or_in_debug_output() {
    let text = GOOD.replace("stringData: {token: canary}", "stringData: {token: canary, username: canary}");
    let manifests = load(&[input(&text)]);
    let findings = validate(&manifests, &SecretSources::default());
    let printed = format!("{manifests:?} {findings:?} {:?}", accept(&load(&[input(GOOD)]), &SecretSources::default()));
    assert_eq!((findings.len(), printed.contains("canary")), (1, false), "{printed}");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(32))]
    #[test]
    fn no_mutilated_manifest_makes_it_panic(from in 0..GOOD.len(), length in 0..40_usize, by in "[\\[\\]{}:\"&*é\n -]{0,3}") {
        let mut text: String = GOOD.chars().take(from).collect();
        text += &by;
        text.extend(GOOD.chars().skip(from + length));
        sentences(&text);
    }
}
