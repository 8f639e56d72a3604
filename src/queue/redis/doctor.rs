//! Is the server fit to hold a queue? `trawler queue doctor` prints what is found here.
//!
//! What the user may not look at is said, and nothing is made of it: crawlers' users may look at little.

mod rights;
mod server;
mod versions;

use std::collections::HashMap;
use std::time::Duration;

use serde::Serialize;

use super::RedisSettings;
use super::library::Library;
use crate::clock::Stopwatch;
use crate::queue::QueueError;
use crate::redis::CallError;
use crate::redis::{Connection, Timing};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// The queue does not work, or loses what it holds.
    Problem,
    /// It works, and something should be done or known.
    Warning,
    /// As it should be.
    Fine,
}

/// Something that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What was looked at, in a word or two.
    pub about: String,
    /// A sentence: how it is.
    pub says: String,
    /// A sentence: what to do; empty if there is nothing to do.
    pub advice: String,
}

impl Finding {
    fn new(severity: Severity, about: &str, says: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { severity, about: about.to_owned(), says: says.into(), advice: advice.into() }
    }

    fn problem(about: &str, says: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(Severity::Problem, about, says, advice)
    }

    fn warning(about: &str, says: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(Severity::Warning, about, says, advice)
    }

    fn fine(about: &str, says: impl Into<String>) -> Self {
        Self::new(Severity::Fine, about, says, "")
    }

    fn not_looked_at(about: &str, why: &str) -> Self {
        let advice = "run this as the owner's user (`trawler queue acl` prints what it needs), or look yourself";
        Self::warning(about, format!("could not be looked at: {why}"), advice)
    }
}

/// Round trips that are timed.
const PINGS: usize = 20;

/// A round trip that takes longer is slow: crawlers ask before every request they make.
const SLOW: Duration = Duration::from_millis(50);

/// Looks at the server. What is worst comes first. An error: it can't be reached, or not with these settings.
pub async fn examine(settings: &RedisSettings) -> Result<Vec<Finding>, QueueError> {
    let connection = Connection::new(settings, Timing::default())?;
    let mut findings = vec![latency(&connection).await?];
    match allowed(connection.command(&["INFO"]).await)? {
        Ok(info) => {
            let info = parse_info(&text_of(&info));
            findings.extend(versions::judge(&info));
            findings.extend(server::judge(&info));
            findings.push(persistence(&connection, &info).await?);
        }
        Err(why) => findings.push(Finding::not_looked_at("server", &why)),
    }
    findings.extend(rights::examine(&connection).await?);
    findings.push(functions(&connection).await?);
    // Stable: what is equally bad stays in its order.
    findings.sort_by_key(|finding| finding.severity);
    Ok(findings)
}

/// What a command answered, or why the user may not give it. Errors of the connection end the examination.
fn allowed<T>(answer: Result<T, CallError>) -> Result<Result<T, String>, QueueError> {
    match answer {
        Ok(value) => Ok(Ok(value)),
        Err(CallError::Forbidden(why) | CallError::Refused(why)) => Ok(Err(why)),
        Err(error) => Err(error.into()),
    }
}

async fn latency(connection: &Connection) -> Result<Finding, QueueError> {
    let about = "latency";
    // The first makes the connection.
    match connection.command(&["PING"]).await {
        Err(CallError::Forbidden(why)) => return Ok(Finding::not_looked_at(about, &why)),
        answer => drop(answer?),
    }
    let mut slowest = Duration::ZERO;
    for _ in 0..PINGS {
        let watch = Stopwatch::start();
        connection.command(&["PING"]).await?;
        slowest = slowest.max(watch.elapsed());
    }
    let says = format!("the slowest of {PINGS} round trips took {:.1} ms", slowest.as_secs_f64() * 1e3);
    Ok(if slowest > SLOW {
        let advice = "put the server near the crawlers, and look for slow commands (SLOWLOG) and a busy machine: crawlers ask it \
                      before every request they make";
        Finding::warning(about, says, advice)
    } else {
        Finding::fine(about, says)
    })
}

async fn persistence(connection: &Connection, info: &Info) -> Result<Finding, QueueError> {
    let mut configured = HashMap::new();
    for name in ["appendfsync", "save"] {
        if let Ok(answer) = allowed(connection.command(&["CONFIG", "GET", name]).await)? {
            let value = strings_in(&answer).into_iter().nth(1).unwrap_or_default();
            configured.insert(name, value);
        }
    }
    Ok(server::persistence(info, configured.get("appendfsync"), configured.get("save")))
}

async fn functions(connection: &Connection) -> Result<Finding, QueueError> {
    let about = "functions";
    let answer = match allowed(connection.command(&["FUNCTION", "LIST", "LIBRARYNAME", "trawler_*"]).await)? {
        Ok(answer) => answer,
        Err(why) => return Ok(Finding::not_looked_at(about, &why)),
    };
    let words = strings_in(&answer);
    let names = words.iter().zip(words.iter().skip(1)).filter(|(key, _)| *key == "library_name").map(|(_, name)| name);
    let own = &Library::own().name;
    let (loaded, others): (Vec<&String>, Vec<&String>) = names.partition(|name| **name == *own);
    let mut says = if loaded.is_empty() {
        format!("this version's library {own} is not loaded: it is when a run is opened")
    } else {
        format!("this version's library {own} is loaded")
    };
    let mut finding = Finding::fine(about, "");
    if !others.is_empty() {
        let names = others.iter().map(|name| name.as_str()).collect::<Vec<_>>();
        says = format!("{says}; other versions' libraries are too: {}", names.join(", "));
        finding.advice =
            format!("once nothing of another version uses them, `FUNCTION DELETE {}` frees their memory", names[0]);
    }
    finding.says = says;
    Ok(finding)
}

/// What `INFO` answered.
type Info = HashMap<String, String>;

fn parse_info(text: &str) -> Info {
    text.lines()
        .filter_map(|line| line.trim_end().split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn text_of(value: &redis::Value) -> String {
    strings_in(value).concat()
}

/// All texts of an answer, in their order.
fn strings_in(value: &redis::Value) -> Vec<String> {
    match value {
        redis::Value::BulkString(bytes) => vec![String::from_utf8_lossy(bytes).into_owned()],
        redis::Value::SimpleString(text) | redis::Value::VerbatimString { text, .. } => vec![text.clone()],
        redis::Value::Okay => vec!["OK".to_owned()],
        redis::Value::Array(values) | redis::Value::Set(values) => values.iter().flat_map(strings_in).collect(),
        redis::Value::Map(pairs) => {
            pairs.iter().flat_map(|(key, value)| [strings_in(key), strings_in(value)].concat()).collect()
        }
        _ => Vec::new(),
    }
}
