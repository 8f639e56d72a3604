//! The command as a person runs it, in a directory of its own.
#![expect(clippy::unwrap_used, reason = "a helper of tests fails the test")]

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use tempfile::TempDir;

/// A directory of its own, and the command in it.
#[derive(Debug)]
pub(crate) struct Workplace {
    dir: TempDir,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Workplace {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        if let Some(parent) = self.path(name).parent() {
            std::fs::create_dir_all(parent).unwrap();
        }
        std::fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// A report as JSON.
    pub(crate) fn report(&self, dir: &str) -> serde_json::Value {
        serde_json::from_str(&self.read(&format!("{dir}/report.json"))).unwrap()
    }

    /// Runs `trawler` with these arguments, in this directory, without any settings from outside.
    pub(crate) fn trawler(&self, arguments: &[&str]) -> Ended {
        self.trawler_with_input(arguments, "")
    }

    pub(crate) fn trawler_with_input(&self, arguments: &[&str], input: &str) -> Ended {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trawler"));
        let output = command.env_clear().current_dir(self.root()).args(arguments).write_stdin(input).output().unwrap();
        Ended {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// A Catalog of all nodes that carry its label, with retries too quick to notice, and these nodes: name, endpoint, and
/// further lines of `spec`.
pub(crate) fn manifests(nodes: &[(&str, &str, &str)]) -> String {
    let text = "\
apiVersion: trawler.dev/v1alpha1
kind: Catalog
metadata: {name: test}
spec:
  catalogNodeSelector: {matchLabels: {in: test}}
  runTemplate:
    spec:
      retries: {limit: 1, initialDelay: 1ms, maxDelay: 2ms}
---
apiVersion: trawler.dev/v1alpha1
kind: ThrottlePolicy
metadata: {name: quick}
spec:
  limits: [{unit: ApiCalls, amount: 10000, period: 1s, pacing: Burst}]
  adaptive: {enabled: false}
"
    .to_owned();
    nodes.iter().fold(text, |text, (name, endpoint, more)| {
        format!(
            "{text}---
apiVersion: trawler.dev/v1alpha1
kind: CatalogNode
metadata: {{name: {name}, labels: {{in: test}}}}
spec:
  endpoint: {endpoint}
  throttlePolicyRef: {{name: quick}}
{more}"
        )
    })
}
