//! `kubectl trawler logs`: what a run's crawlers say, or what the operator says of it.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::io::{AsyncBufReadExt as _, AsyncReadExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::LogParams;
use tokio::task::JoinSet;

use super::args::LogsArgs;
use super::cluster::Cluster;
use super::error::AskError;
use crate::api::names::RUN_UID_LABEL;
use crate::cli::common::complain;
use crate::cli::exit;
use crate::local::text::shown;
use crate::plugin::end_of;

/// Between two looks for crawlers that were started.
const EVERY: Duration = Duration::from_secs(3);

/// A line is not longer than this; a pod may write anything.
const MAX_LINE: usize = 16 << 10;

/// Without --follow, a pod's log is read so far.
const MAX_BYTES: u64 = 64 << 20;

/// Prints the logs.
pub(super) async fn logs(cluster: &Cluster, args: &LogsArgs) -> Result<u8, AskError> {
    let run = cluster.run_meant(Some(&args.run)).await?;
    let name = run.name_any();
    let uid = run.uid().unwrap_or_default();
    let selector = if args.operator {
        "app.kubernetes.io/name=trawler,app.kubernetes.io/component=operator".to_owned()
    } else {
        format!("app.kubernetes.io/component=crawler,{RUN_UID_LABEL}={uid}")
    };
    // The operator speaks of a run by its CrawlRun's name.
    let wanted = args.operator.then(|| name.clone());
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut readers = JoinSet::new();
    loop {
        for pod in cluster.pods(&selector).await? {
            if has_begun(&pod) && known.insert(pod.name_any()) {
                readers.spawn(read(
                    cluster.clone(),
                    pod.name_any(),
                    Words { wanted: wanted.clone() },
                    parameters(args),
                ));
            }
        }
        if known.is_empty() && !args.follow {
            let what = if args.operator { "the operator has no pod" } else { "no crawler of it has a pod" };
            complain(format_args!("run {name} has no logs in {}: {what} there now", cluster.place()));
            return Ok(exit::FAILED);
        }
        if !args.follow {
            while let Some(read) = readers.join_next().await {
                if has_nobody(read) {
                    break;
                }
            }
            return Ok(exit::OK);
        }
        let is_over = !args.operator && end_of(&cluster.run(&name).await?).is_some();
        if is_over && readers.is_empty() {
            return Ok(exit::OK);
        }
        let pause = tokio::time::sleep(EVERY);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                Some(read) = readers.join_next() => if has_nobody(read) {
                    return Ok(exit::OK);
                },
                () = &mut pause => break,
            }
        }
    }
}

/// Whether whoever reads the output has gone (`| head`). What went wrong with one pod is said, and the others go on.
fn has_nobody(read: Result<Result<bool, AskError>, tokio::task::JoinError>) -> bool {
    match read {
        Ok(Ok(is_heard)) => !is_heard,
        Ok(Err(error)) => {
            complain(error);
            false
        }
        Err(_) => false,
    }
}

fn has_begun(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Running" | "Succeeded" | "Failed"))
}

fn parameters(args: &LogsArgs) -> LogParams {
    LogParams { follow: args.follow, tail_lines: args.tail.map(i64::from), ..LogParams::default() }
}

/// Which lines are wanted.
struct Words {
    wanted: Option<String>,
}

impl Words {
    fn has(&self, line: &str) -> bool {
        self.wanted.as_ref().is_none_or(|wanted| speaks_of(line, wanted))
    }
}

/// Whether a line names this run, and not only one whose name begins or ends so.
fn speaks_of(line: &str, name: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    line.match_indices(name).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let mut after = line[at + name.len()..].chars();
        let next = after.next();
        // A full stop at the end of a sentence is none of a name.
        let goes_on = next.is_some_and(|c| is_of_name(c) && (c != '.' || after.next().is_some_and(is_of_name)));
        !before.is_some_and(is_of_name) && !goes_on
    })
}

async fn read(cluster: Cluster, pod: String, words: Words, parameters: LogParams) -> Result<bool, AskError> {
    let limit = if parameters.follow { u64::MAX } else { MAX_BYTES };
    let stream = cluster.api::<Pod>().log_stream(&pod, &parameters).await;
    let stream = stream.map_err(|error| AskError::of(error, "get", "pods/log", "", &cluster.place()))?;
    let mut lines = stream.take(limit).lines();
    while let Some(line) = lines.next().await {
        let line = line.map_err(|error| AskError::Cluster(format!("the log of pod {pod} ended: {error}")))?;
        if words.has(&line) && writeln!(io::stdout(), "{pod}: {}", shown(&line, MAX_LINE)).is_err() {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_speaks_of_a_run_only_by_its_whole_name() {
        assert!(speaks_of(r#"{"crawl_run":"mobility-1","message":"run begun"}"#, "mobility-1"));
        assert!(speaks_of("run begun crawl_run=mobility-1", "mobility-1"));
        assert!(speaks_of("it waits for mobility-1.", "mobility-1"));
        assert!(!speaks_of("run begun crawl_run=mobility-10", "mobility-1"));
        assert!(!speaks_of("run begun crawl_run=e-mobility-1", "mobility-1"));
        assert!(!speaks_of("mobility-1.old", "mobility-1"));
    }
}
