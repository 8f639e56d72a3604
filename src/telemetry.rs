//! Logging: structured events with run, node and task as fields, as text or JSON, to standard error.
//!
//! What never gets into an event: credentials (their types redact themselves), bodies, and URLs with user info or query
//! values (`crawler::http::shown_url`).

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// How log lines are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts logging. Called once, by the command line. A filter that can't be read is named and `warn` used instead.
pub fn init<W>(format: LogFormat, filter: &str, colours: bool, writer: W)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let (filter, problem) = match EnvFilter::try_new(filter) {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new("warn"), Some(error.to_string())),
    };
    // Certificates that are not trusted are told of once, by whom it concerns; this library would tell it first.
    let filter = "rustls_platform_verifier=off".parse().map_or(EnvFilter::new("warn"), |off| filter.add_directive(off));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_target(false);
    let started = match format {
        LogFormat::Text => builder.with_ansi(colours).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    // A second start (in tests) leaves the first as it is.
    drop(started);
    if let Some(problem) = problem {
        tracing::warn!("the log filter can't be read, using \"warn\": {problem}");
    }
}
