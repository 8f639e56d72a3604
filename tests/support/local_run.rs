//! Runs in this process, with a clock that can be put forward between them.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper of tests fails the test")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use trawler::clock::{Clock, SystemClock};
use trawler::crawler::http::HttpConfig;
use trawler::local::export::Format;
use trawler::local::manifests::{Input, load};
use trawler::local::secrets::SecretSources;
use trawler::local::validate::accept;
use trawler::local::{self, Display, DisplayMode, NodeReport, Report, RunEnd, RunOptions, choose_run};

/// The system's clock, put forward.
#[derive(Debug, Default)]
struct PutForward {
    clock: SystemClock,
    by_ms: AtomicU64,
}

impl Clock for PutForward {
    fn now(&self) -> Timestamp {
        self.clock.now() + Duration::from_millis(self.by_ms.load(Ordering::SeqCst))
    }
}

/// A directory, and runs into it.
#[derive(Debug)]
pub(crate) struct LocalRuns {
    dir: TempDir,
    clock: Arc<PutForward>,
}

impl LocalRuns {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), clock: Arc::default() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Puts the clock forward.
    pub(crate) fn advance(&self, by: Duration) {
        self.clock.by_ms.fetch_add(u64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// A run of these manifests, to its end.
    pub(crate) async fn run(&self, manifests: &str) -> Report {
        self.run_as(manifests, Format::Jsonl).await
    }

    pub(crate) async fn run_as(&self, manifests: &str, format: Format) -> Report {
        let secrets = SecretSources::new(None, []);
        let input = Input::Text { name: "in.yaml".to_owned(), text: manifests.to_owned() };
        let accepted = accept(&load(&[input]), &secrets).unwrap_or_else(|findings| panic!("{findings:?}"));
        let input = choose_run(&accepted.set, None, None).unwrap();
        let options = RunOptions {
            dir: self.dir.path().to_owned(),
            format,
            dry_run: false,
            restart: false,
            http: HttpConfig { allow_private: vec!["127.0.0.0/8".parse().unwrap()], ..HttpConfig::default() },
            secrets,
            manifests: accepted.set,
            display: Display::new(DisplayMode::Quiet),
            crawlers: None,
            interrupt: CancellationToken::new(),
            clock: self.clock.clone(),
        };
        match local::run(input, options).await.unwrap() {
            RunEnd::Finished { report, .. } => *report,
            end @ RunEnd::Interrupted { .. } => panic!("{end:?}"),
        }
    }
}

/// What a report says of a node.
pub(crate) fn node<'a>(report: &'a Report, name: &str) -> &'a NodeReport {
    report.nodes.iter().find(|node| node.name.as_str() == name).unwrap()
}
