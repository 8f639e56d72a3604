//! `kubectl trawler`, as a person types it. With `--nocapture` it prints what they see: docs/kubectl.md shows that.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, in its helpers too, and shows what it saw"
)]

use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::installed::Installed;
use super::kubectl::{condition, setting, tool};

/// kubectl, with the plugin where it looks for it.
struct Terminal {
    namespace: String,
    bin: TempDir,
}

impl Terminal {
    fn of(installed: &Installed) -> Self {
        let bin = tempfile::tempdir().unwrap();
        let plugin = env!("CARGO_BIN_EXE_trawler");
        std::os::unix::fs::symlink(plugin, bin.path().join("kubectl-trawler")).unwrap();
        Self { namespace: installed.namespace.0.clone(), bin }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = tool("kubectl");
        command.env("PATH", format!("{}:{}", self.bin.path().display(), setting("BIN")));
        command.arg("trawler").args(arguments).args(["-n", &self.namespace]);
        command
    }

    /// Exit code, and what is seen.
    fn sees(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.command(arguments).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let seen = text(&output.stdout) + &text(&output.stderr);
        println!("$ kubectl trawler {}\n{seen}", arguments.join(" "));
        (output.status.code().unwrap_or(-1), seen)
    }

    fn says(&self, arguments: &[&str]) -> String {
        let (code, seen) = self.sees(arguments);
        assert_eq!(code, 0, "{arguments:?}: {seen}");
        seen
    }
}

#[test]
fn a_person_starts_freezes_thaws_and_follows_runs() {
    let installed = Installed::with("plugin", "", Duration::from_millis(1500));
    let terminal = Terminal::of(&installed);

    terminal.says(&["start", "demo", "--name", "first", "--mode", "Full"]);
    installed.namespace.until("crawlrun", "first", "crawling", |run| run["status"]["tokens"]["held"] == 1);
    terminal.says(&["why", "first"]);
    assert_eq!(terminal.says(&["freeze", "first"]), "run first is frozen\n");
    assert!(terminal.says(&["runs"]).contains("Frozen"));
    let why = terminal.says(&["why", "first"]);
    assert!(why.starts_with("Run first is frozen: spec.suspend is set"), "{why}");
    terminal.says(&["start", "demo", "--name", "second", "--node", "harbour"]);
    let waits = |run: &Value| run["status"]["waiting"]["reason"] == "AnotherRun";
    installed.namespace.until("crawlrun", "second", "waiting", waits);
    assert!(terminal.says(&["why", "second"]).contains("Ahead of it: first (frozen"));
    assert_eq!(terminal.says(&["thaw", "first"]), "run first is thawed\n");
    terminal.says(&["top", "--once"]);
    terminal.says(&["status", "first"]);
    assert_eq!(condition(&installed.ended("first"), "Succeeded"), Some("True"));
    installed.ended("second");
    let status = terminal.says(&["status", "first"]);
    assert!(status.contains("State       Complete") && status.contains("Drained"), "{status}");
    assert!(terminal.says(&["logs", "first", "--tail", "3"]).contains("token-0"));
    assert!(terminal.says(&["logs", "first", "--operator"]).contains("run begun"));
    let nodes = || terminal.says(&["nodes", "demo"]);
    assert!(
        super::kubectl::eventually(Duration::from_secs(20), || (!nodes().contains("never")).then_some(())).is_some()
    );

    let gone = "apiVersion: trawler.dev/v1alpha1\nkind: CatalogNode\nmetadata: {name: gone, labels: LABELS}\n\
                spec: {endpoint: 'http://HOST:9/', protocol: DCAT}\n";
    let labels = installed.namespace.get("catalognode", "harbour").unwrap()["metadata"]["labels"].to_string();
    installed.namespace.apply(&gone.replace("LABELS", &labels).replace("HOST", &setting("HOST_ADDRESS")));
    installed.run("third", "  retries: {limit: 0}\n");
    installed.ended("third");
    assert!(terminal.says(&["why", "third"]).contains("`kubectl trawler retry third`"));
    let (code, seen) = terminal.sees(&["retry", "third", "--wait"]);
    assert_eq!(code, 1, "all of its nodes fail again: {seen}");
    assert!(seen.contains("over 1 node: gone"), "{seen}");
    assert!(terminal.says(&["nodes", "demo", "--stale", "-o", "wide"]).contains("gone"));
    terminal.says(&["runs", "-o", "wide"]);

    installed.run("huge", "  crawler: {resources: {requests: {cpu: '1000'}, limits: {cpu: '1000'}}}\n");
    let is_stuck = |run: &Value| run["status"]["waiting"]["reason"] == "Unschedulable";
    installed.namespace.until("crawlrun", "huge", "stuck", is_stuck);
    assert!(terminal.says(&["why", "huge"]).contains("finds no machine"));
    let (code, seen) = terminal.sees(&["why", "hugh"]);
    assert_eq!(code, 2, "{seen}");
    assert!(seen.contains("did you mean huge?"), "{seen}");
}
