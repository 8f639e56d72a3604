//! Coming and going of an installation.

use std::time::Duration;

use super::installed::Installed;
use super::kubectl::{eventually, run, tool};

#[test]
fn uninstalling_keeps_definitions_and_objects() {
    let installed = Installed::new("uninstall");
    installed.run("kept", "");
    installed.is_whole(&installed.ended("kept"));
    run(tool("helm").args(["uninstall", "t", "-n", &installed.namespace.0, "--wait"])).unwrap();
    assert!(installed.namespace.get("crawlrun", "kept").is_some());
    assert!(installed.namespace.get("catalognode", "harbour").is_some());
    installed.helm("install", "").unwrap();
    let found = installed
        .namespace
        .until("catalog", "demo", "looked at again", |catalog| catalog["status"]["conditions"].is_array());
    assert_eq!(found["status"]["lastRun"], "kept");
}

#[test]
fn a_namespace_goes_even_if_the_operator_dies_first() {
    let installed = Installed::with("namespace", "", Duration::from_millis(500));
    installed.run("doomed", "");
    installed.midway("doomed");
    installed
        .namespace
        .kubectl(&["delete", "deployment", "-l", "app.kubernetes.io/component=operator", "--wait"])
        .unwrap();
    let name = installed.namespace.0.clone();
    run(tool("kubectl").args(["delete", "namespace", &name, "--wait=false"])).unwrap();
    let gone = eventually(Duration::from_mins(2), || {
        let found = run(tool("kubectl").args(["get", "namespace", &name, "--ignore-not-found", "-o", "name"])).ok()?;
        found.trim().is_empty().then_some(())
    });
    gone.expect("nothing holds the namespace");
}

#[test]
fn the_charts_own_test_passes() {
    let installed = Installed::new("helmtest");
    run(tool("helm").args(["test", "t", "-n", &installed.namespace.0, "--timeout", "60s"])).unwrap();
}
