//! Waiting for what was asked: looks again and again, since a look costs little and a watch may be refused.

use std::time::Duration;

use super::cluster::Cluster;
use super::error::AskError;
use crate::cli::common::{complain, print};
use crate::cli::exit;
use crate::clock::Stopwatch;
use crate::plugin::{End, RunRow, State, end_of, progress_line};

/// Between two looks.
const EVERY: Duration = Duration::from_secs(2);

/// Looks that may fail in a row: an API server that is being replaced comes back.
const PATIENCE: u32 = 30;

/// Follows a run to its end; a line is printed when something changed. The exit code is that of `trawler run`.
pub(super) async fn to_the_end(cluster: &Cluster, name: &str) -> Result<u8, AskError> {
    let mut said = String::new();
    let mut failures = 0;
    loop {
        let run = match cluster.run(name).await {
            Ok(run) => run,
            Err(error @ AskError::Cluster(_)) if failures < PATIENCE => {
                if failures == 0 {
                    complain(format_args!("{error}; trying again"));
                }
                failures += 1;
                tokio::time::sleep(EVERY).await;
                continue;
            }
            Err(error) => return Err(error),
        };
        failures = 0;
        let line = progress_line(&run);
        if line != said {
            print(format_args!("{line}\n"));
            said = line;
        }
        match end_of(&run) {
            Some(End::Complete) => return Ok(exit::OK),
            Some(End::Partial) => return Ok(exit::FAILED_NODES),
            Some(End::Failed) => return Ok(exit::FAILED),
            None => tokio::time::sleep(EVERY).await,
        }
    }
}

/// Waits until the status says that a run is frozen, or no longer is.
pub(super) async fn until_suspended(
    cluster: &Cluster,
    name: &str,
    suspend: bool,
    patience: Duration,
) -> Result<(), AskError> {
    let began = Stopwatch::start();
    loop {
        let run = cluster.run(name).await?;
        let observed = run.status.as_ref().and_then(|status| status.observed_generation);
        let row = RunRow::of(&run);
        // Until the operator has seen the change, what the status says is of before.
        let is_seen = observed.is_some() && observed >= run.metadata.generation;
        // A run that has not begun hands nothing out, frozen or not.
        let is_done =
            if suspend { matches!(row.state, State::Frozen | State::Pending) } else { row.state != State::Frozen };
        if is_seen && is_done && row.state.is_active() {
            return Ok(());
        }
        if !row.state.is_active() {
            return Err(AskError::Cluster(format!("run {name} has ended meanwhile ({})", row.reason)));
        }
        if began.elapsed() >= patience {
            let verb = if suspend { "frozen" } else { "thawed" };
            return Err(AskError::Cluster(format!(
                "run {name} is not {verb} after {} s, though spec.suspend says so; `kubectl trawler why {name}`",
                patience.as_secs()
            )));
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
