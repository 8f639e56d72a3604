//! Looks whether a Redis server is fit to hold the queue, and says what to change.

mod durability;
mod info;
mod memory;
mod replicas;
mod rights;
mod versions;

use std::time::Duration;

use self::info::Facts;
use super::RedisSettings;
use super::connection::{CallError, Connection, Fault, text_of};
use crate::clock::Stopwatch;
use crate::queue::QueueError;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// As it should be.
    Fine,
    /// Works, and has a risk that somebody should know.
    Warning,
    /// Does not work, or will lose work.
    Problem,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What was looked at, in a word or two.
    pub about: &'static str,
    /// What was found: a sentence.
    pub says: String,
    /// What to do; empty if nothing.
    pub advice: String,
}

impl Finding {
    fn fine(about: &'static str, says: impl Into<String>) -> Self {
        Self { severity: Severity::Fine, about, says: says.into(), advice: String::new() }
    }

    fn warning(about: &'static str, says: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, about, says: says.into(), advice: advice.into() }
    }

    fn problem(about: &'static str, says: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { severity: Severity::Problem, about, says: says.into(), advice: advice.into() }
    }

    /// The user may not look at it.
    fn not_seen(about: &'static str, what: &str, error: &CallError) -> Self {
        let says = format!("{what} could not be looked at: {error}");
        Self::warning(about, says, "run this as the owner, or as another user who may use INFO and CONFIG GET")
    }
}

/// So many round trips are measured.
const PINGS: usize = 5;

/// A crawler waits for the queue with every step: this much is felt.
const SLOW: Duration = Duration::from_millis(10);

/// Names of Trawler's function libraries begin so.
const LIBRARIES: &str = "trawler*";

/// Looks at the server that these settings lead to, as the user that they name. A server that can't be reached at present
/// is an error; one that can't be used, because of it or of the settings, is a finding.
pub async fn examine(settings: &RedisSettings) -> Result<Vec<Finding>, QueueError> {
    let connection = Connection::impatient(settings)?;
    if let Err(error) = connection.command(&["PING"]).await {
        if error.kind.passes() && !matches!(error.kind, Fault::ReadOnly | Fault::MasterDown) {
            return Err(error.into());
        }
        let advice = "correct it in the settings or at the server, and look again";
        return Ok(vec![Finding::problem("connection", error.to_string(), advice)]);
    }
    let mut findings = vec![latency(&connection).await?];
    match Facts::from_info(&connection).await {
        Ok(facts) => {
            let config = Facts::from_config(&connection).await;
            findings.push(versions::check(&facts));
            findings.extend(durability::check(&facts, &config));
            findings.extend(memory::check(&facts));
            findings.push(replicas::check(&facts));
        }
        Err(error) => {
            findings.push(Finding::not_seen("server", "version, persistence, memory and replicas", &error));
        }
    }
    findings.push(library(&connection).await);
    findings.push(rights::check(&connection, &settings.instance).await);
    Ok(findings)
}

async fn latency(connection: &Connection) -> Result<Finding, QueueError> {
    let mut trips = Vec::with_capacity(PINGS);
    for _ in 0..PINGS {
        let watch = Stopwatch::start();
        connection.command(&["PING"]).await?;
        trips.push(watch.elapsed());
    }
    trips.sort();
    let median = trips.get(PINGS / 2).copied().unwrap_or_default();
    let says = format!("a round trip takes {:.1} ms", median.as_secs_f64() * 1000.0);
    Ok(if median > SLOW {
        Finding::warning(
            "latency",
            says,
            "put Redis near the crawlers, or look what keeps it busy (redis-cli SLOWLOG GET)",
        )
    } else {
        Finding::fine("latency", says)
    })
}

async fn library(connection: &Connection) -> Finding {
    const ABOUT: &str = "functions";
    let answer = match connection.command(&["FUNCTION", "LIST", "LIBRARYNAME", LIBRARIES]).await {
        Ok(answer) => answer,
        Err(error) => return Finding::not_seen(ABOUT, "Trawler's functions", &error),
    };
    let libraries = answer.as_sequence().unwrap_or_default().iter();
    let names: Vec<&str> = libraries
        .filter_map(|library| library.as_map_iter()?.find(|(key, _)| text_of(key) == Some("library_name")))
        .filter_map(|(_, name)| text_of(name))
        .collect();
    if names.is_empty() {
        let says = "Trawler's functions are not loaded";
        return Finding::warning(ABOUT, says, "nothing, if no run was started here yet: whoever starts one loads them");
    }
    Finding::fine(ABOUT, format!("loaded: {}", names.join(", ")))
}
