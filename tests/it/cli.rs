//! The command line: bad input gives one clear sentence on standard error and the right exit code.

use crate::support::trawler::{Ended, Workplace, manifests};

fn one_sentence(ended: &Ended, code: i32, parts: &[&str]) {
    assert_eq!(ended.code, code, "{ended:?}");
    assert_eq!(ended.stderr.trim_end().lines().count(), 1, "not one line: {}", ended.stderr);
    for part in parts {
        assert!(ended.stderr.contains(part), "{:?} does not say {part:?}", ended.stderr);
    }
    assert_eq!(ended.stdout, "");
}

#[test]
fn a_manifest_that_is_not_there_is_named() {
    let ended = Workplace::new().trawler(&["run", "-f", "missing.yaml"]);
    one_sentence(&ended, 2, &["missing.yaml"]);
}

#[test]
fn an_empty_directory_is_named() {
    let place = Workplace::new();
    std::fs::create_dir(place.path("empty")).unwrap();
    one_sentence(&place.trawler(&["run", "-f", "empty"]), 2, &["empty"]);
}

#[test]
fn a_tab_in_yaml_is_named_with_its_line() {
    let place = Workplace::new();
    place.write("in.yaml", "apiVersion: trawler.dev/v1alpha1\nkind: Catalog\nmetadata:\n\tname: x\n");
    one_sentence(&place.trawler(&["run", "-f", "in.yaml"]), 2, &["in.yaml:4", "tab"]);
}

#[test]
fn two_objects_of_one_name_are_a_fault() {
    let place = Workplace::new();
    let one = ("portal", "https://portal.example", "");
    place.write("in.yaml", &manifests(&[one, one]));
    one_sentence(&place.trawler(&["run", "-f", "in.yaml"]), 2, &["CatalogNode/portal"]);
}

#[test]
fn a_kind_that_is_not_ours_is_named() {
    let place = Workplace::new();
    place.write("in.yaml", "apiVersion: trawler.dev/v1alpha1\nkind: Catalogue\nmetadata: {name: x}\n");
    let ended = place.trawler(&["validate", "-f", "in.yaml"]);
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.contains("Catalogue") && ended.stderr.contains("Catalog"), "{}", ended.stderr);
}

#[test]
fn an_unknown_api_version_is_named() {
    let place = Workplace::new();
    place.write("in.yaml", &manifests(&[("portal", "https://portal.example", "")]).replacen("v1alpha1", "v9", 1));
    let ended = place.trawler(&["run", "-f", "in.yaml"]);
    assert_eq!(ended.code, 2);
    assert!(
        ended.stderr.contains("trawler.dev/v9") && ended.stderr.contains("trawler.dev/v1alpha1"),
        "{}",
        ended.stderr
    );
}

#[test]
fn an_endpoint_without_a_scheme_is_told_what_would_be_right() {
    let place = Workplace::new();
    place.write("in.yaml", &manifests(&[("portal", "portal.example", "")]));
    one_sentence(&place.trawler(&["run", "-f", "in.yaml"]), 2, &["spec.endpoint", "https://portal.example"]);
}

#[test]
fn a_selector_that_matches_nothing_is_a_fault() {
    let place = Workplace::new();
    place.write(
        "in.yaml",
        &manifests(&[("portal", "https://portal.example", "")]).replace("{in: test}}\n  run", "{in: tset}}\n  run"),
    );
    let ended = place.trawler(&["validate", "-f", "in.yaml"]);
    assert!(ended.stderr.contains("catalogNodeSelector"), "{}", ended.stderr);
}

#[test]
fn an_output_that_can_not_be_written_is_named() {
    let place = Workplace::new();
    place.write("in.yaml", &manifests(&[("portal", "https://portal.example", "")]));
    place.write("out", "a file where the directory should be");
    one_sentence(&place.trawler(&["run", "-f", "in.yaml", "-d", "out"]), 2, &["out"]);
}

#[test]
fn an_output_in_use_is_named() {
    let place = Workplace::new();
    place.write("in.yaml", &manifests(&[("portal", "https://portal.example", "")]));
    let held = trawler::store::files::FileStore::open(&place.path("out")).unwrap();
    one_sentence(&place.trawler(&["run", "-f", "in.yaml", "-d", "out"]), 2, &["out", "another trawler process"]);
    drop(held);
}

#[test]
fn several_catalogs_need_a_choice() {
    let place = Workplace::new();
    let text = manifests(&[("portal", "https://portal.example", "")]);
    let second = text.split("---\n").next().unwrap().replace("name: test", "name: other");
    place.write("in.yaml", &format!("{text}---\n{second}"));
    one_sentence(&place.trawler(&["run", "-f", "in.yaml"]), 2, &["--catalog", "test, other"]);
}

#[test]
fn every_command_explains_itself_with_an_example() {
    let place = Workplace::new();
    for command in ["demo", "init", "run", "validate", "plan", "records", "generate"] {
        let ended = place.trawler(&[command, "--help"]);
        assert_eq!(ended.code, 0, "{command}");
        assert!(
            ended.stdout.contains("Examples:\n  trawler") || ended.stdout.contains("kustomize"),
            "{command}: {}",
            ended.stdout
        );
    }
}

#[test]
fn valid_manifests_are_said_to_be_valid() {
    let place = Workplace::new();
    let text = manifests(&[("portal", "https://portal.example", "")]);
    let ended = place.trawler_with_input(&["validate", "-f", "-"], &text);
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (0, "3 objects are valid\n", ""));
}

#[test]
fn a_plan_names_nodes_budgets_and_crawlers() {
    let place = Workplace::new();
    place.write("in.yaml", &manifests(&[("portal", "https://portal.example", "")]));
    let ended = place.trawler(&["plan", "-f", "in.yaml"]);
    insta::assert_snapshot!(ended.stdout);
}

#[test]
fn a_url_without_a_scheme_is_told_what_would_be_right() {
    one_sentence(&Workplace::new().trawler(&["init", "portal.example"]), 2, &["https://portal.example"]);
}

#[test]
fn records_of_a_directory_without_a_result_are_refused_with_the_next_step() {
    one_sentence(&Workplace::new().trawler(&["records", "ls", "-d", "nowhere"]), 2, &["nowhere", "trawler run"]);
}
