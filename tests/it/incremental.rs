//! Runs over what changed, as a person uses them: full, then incremental, then full again, against servers on loopback.

mod ckan;
mod dcat;
mod dsp;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::support::http_server::HttpServer;
use crate::support::trawler::{Ended, Workplace, manifests};

const RUN: &str = "run -q -f in.yaml -d out --allow-private 127.0.0.0/8 -o json";

/// A place with one node, called `node`.
struct Place {
    workplace: Arc<Workplace>,
    /// The manifests for a full run.
    manifests: String,
}

/// What a run came to.
#[derive(Debug)]
struct Run {
    report: Value,
    /// What was asked, as `GET /path?query`.
    asked: Vec<String>,
}

impl Place {
    fn new(server: &HttpServer, path: &str, spec: &str) -> Self {
        let place = Self {
            workplace: Arc::new(Workplace::new()),
            manifests: manifests(&[("node", server.url(path).as_str(), spec)]),
        };
        place.set_mode("Full");
        place
    }

    /// Makes the next run one of this mode.
    fn set_mode(&self, mode: &str) {
        let text = self.manifests.replacen("      retries:", &format!("      mode: {mode}\n      retries:"), 1);
        self.workplace.write("in.yaml", &text);
    }

    async fn trawler(&self, arguments: &'static str) -> Ended {
        let place = self.workplace.clone();
        let run = move || place.trawler(&arguments.split(' ').collect::<Vec<_>>());
        tokio::task::spawn_blocking(run).await.unwrap()
    }

    /// A run of this mode, which must end well.
    async fn run(&self, mode: &str, server: &HttpServer) -> Run {
        self.run_ending(0, mode, server).await
    }

    /// A run of this mode, which must end with this exit code.
    async fn run_ending(&self, code: i32, mode: &str, server: &HttpServer) -> Run {
        self.set_mode(mode);
        let before = server.seen().len();
        let ended = self.trawler(RUN).await;
        assert_eq!(ended.code, code, "{}", ended.stderr);
        let report = serde_json::from_str(&ended.stdout).unwrap();
        Run { report, asked: server.asked().split_off(before) }
    }

    /// The titles of all records, sorted.
    fn titles(&self) -> Vec<String> {
        let mut titles: Vec<_> = self
            .workplace
            .read("out/records.jsonl")
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["title"][0]["value"].as_str().unwrap().to_owned())
            .collect();
        titles.sort();
        titles
    }
}

impl Run {
    /// Added, updated, unchanged, deleted.
    fn totals(&self) -> [u64; 4] {
        ["added", "updated", "unchanged", "deleted"].map(|name| self.report["totals"][name].as_u64().unwrap())
    }

    /// What the report says of how the node was read.
    fn read(&self) -> Value {
        let node = &self.report["nodes"][0];
        let said = ["read", "since", "inFullBecause"].map(|name| (name.to_owned(), node[name].clone()));
        said.into_iter().filter(|(_, value)| !value.is_null()).collect::<serde_json::Map<_, _>>().into()
    }
}

fn in_full_because(why: &str) -> Value {
    json!({"read": "Full", "inFullBecause": why})
}

/// `Date`, as servers send it.
fn http_date(moment: Timestamp) -> String {
    moment.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

fn moment(text: &str) -> Timestamp {
    text.parse().unwrap()
}
