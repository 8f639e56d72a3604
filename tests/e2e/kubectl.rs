//! What a person does at a terminal.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The cluster's folder.
pub(crate) fn cluster() -> String {
    std::env::var("TRAWLER_E2E_CLUSTER")
        .expect("TRAWLER_E2E_CLUSTER names no cluster: run tests/run e2e, or start one (docs/testing.md)")
}

/// The address of the machine that pods see, and the folder of the tools.
pub(crate) fn setting(name: &str) -> String {
    let text = std::fs::read_to_string(format!("{}/cluster", cluster())).expect("the cluster was started");
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}="))).expect("it says so");
    line.trim_matches('"').to_owned()
}

pub(crate) fn tool(name: &str) -> Command {
    let mut command = Command::new(format!("{}/{name}", setting("BIN")));
    command.env("KUBECONFIG", format!("{}/kubeconfig", cluster()));
    command
}

/// Runs it; its output if it succeeds.
pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().expect("the tool can be started");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// A namespace of the cluster.
#[derive(Debug, Clone)]
pub(crate) struct Namespace(pub(crate) String);

impl Namespace {
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        run(tool("kubectl").args(["-n", &self.0]).args(arguments))
    }

    pub(crate) fn apply(&self, manifest: &str) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), manifest).unwrap();
        let path = file.path().display().to_string();
        self.kubectl(&["apply", "-f", &path]).unwrap_or_else(|why| panic!("{why}\n{manifest}"));
    }

    pub(crate) fn get(&self, kind: &str, name: &str) -> Option<Value> {
        let text = self.kubectl(&["get", kind, name, "-o", "json", "--ignore-not-found"]).ok()?;
        serde_json::from_str(&text).ok()
    }

    pub(crate) fn list(&self, kind: &str, selector: &str) -> Vec<Value> {
        let text = self.kubectl(&["get", kind, "-l", selector, "-o", "json"]).unwrap_or_default();
        let list: Value = serde_json::from_str(&text).unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until an object is as it should be.
    pub(crate) fn until(&self, kind: &str, name: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let found = eventually(Duration::from_mins(3), || {
            last = self.get(kind, name)?;
            is(&last).then(|| last.clone())
        });
        found.unwrap_or_else(|| panic!("{kind} {name} is not {what} in time:\n{last:#}\n{}", self.state()))
    }

    /// What is there, for whoever has to find out what went wrong.
    pub(crate) fn state(&self) -> String {
        let seen = self.kubectl(&["get", "crawlruns,catalogs,jobs,pods", "-o", "wide"]);
        let log = self.kubectl(&["logs", "-l", "app.kubernetes.io/component=operator", "--tail=60"]);
        let previous = self.kubectl(&["logs", "-l", "app.kubernetes.io/component=crawler", "--tail=10"]);
        format!(
            "{}\n{}\n{}",
            seen.unwrap_or_else(|why| why),
            log.unwrap_or_else(|why| why),
            previous.unwrap_or_else(|why| why)
        )
    }
}

/// Looks again and again.
pub(crate) fn eventually<T>(longest: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if begun.elapsed() > longest {
            return None;
        }
        std::thread::sleep(Duration::from_millis(250));
    }
}

/// The status of a condition.
pub(crate) fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a str> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == type_)?["status"].as_str()
}
