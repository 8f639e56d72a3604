//! `trawler run`.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tokio_util::sync::CancellationToken;

use super::common::{DisplayOptions, HttpOptions, SecretOptions, block_on, complain, fail, print, start_logging};
use super::redis::RedisOptions;
use super::{LogOptions, exit, summary};
use crate::api::RunMode;
use crate::clock::SystemClock;
use crate::config;
use crate::local::export::Format;
use crate::local::finding::Finding;
use crate::local::manifests::{Input, load};
use crate::local::secrets::SecretSources;
use crate::local::validate::{Accepted, accept};
use crate::local::{self, CrawlerProcesses, LogWriter, RunEnd, RunOptions, RunOutcome, choose_run};

/// Crawl what the manifests ask for, and say what changed since the last time.
///
/// Writes records, report.json and the state for the next run into a directory. A run that was interrupted is resumed; a
/// finished one is followed by a new one, which tells added, updated, unchanged and deleted records apart.
#[derive(Debug, Args)]
#[command(after_help = RUN_HELP)]
pub(super) struct RunArgs {
    #[command(flatten)]
    pub(super) manifests: ManifestOptions,
    /// Where records, report and state go
    #[arg(long, short, value_name = "DIR", default_value = "out")]
    dir: PathBuf,
    /// How records are written
    #[arg(long, value_enum, default_value = "jsonl")]
    format: Format,
    /// Look at everything, or only at what changed where a node can tell; without it, as the manifests say
    #[arg(long, value_enum, value_name = "MODE")]
    mode: Option<ModeArg>,
    /// Say what would change, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Abandon an unfinished run and start a new one
    #[arg(long)]
    restart: bool,
    /// How the summary is printed
    #[arg(long, short, value_enum, default_value = "text")]
    output: OutputFormat,
    #[command(flatten)]
    display: DisplayOptions,
    /// With --redis, crawlers are processes that share the queue there: at most so many at a time. Without --crawlers as
    /// many as the run has tokens
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=256), help_heading = "Redis")]
    crawlers: Option<u32>,
    #[command(flatten)]
    queue: RedisOptions,
    #[command(flatten)]
    http: HttpOptions,
    #[command(flatten)]
    secrets: SecretOptions,
}

const RUN_HELP: &str = "\
Examples:
  trawler run -f my.yaml -d out                 crawl; again: what changed since
  trawler run -f manifests/ -d out --dry-run    say what would change
  trawler run -f my.yaml --mode incremental     ask only for what changed, where a node can tell
  trawler run -f my.yaml --format turtle        records.ttl instead of records.jsonl
  trawler run -f my.yaml -o json | jq .totals   the report for a program
  trawler run -f my.yaml --redis redis://localhost --crawlers 4
                                                with four processes that share a queue in Redis

Exit codes:
  0    complete
  1    failed: too many nodes failed, the deadline passed, or writing went wrong on the way
  2    the arguments or the manifests are wrong, or the directory can't be used
  3    finished, but some nodes failed or are partial
  130  interrupted; the same command goes on with it";

/// Which manifests, and what of them.
#[derive(Debug, Args)]
pub(super) struct ManifestOptions {
    /// A file or directory with manifests, or - for standard input; may be given several times
    #[arg(long = "filename", short = 'f', value_name = "FILE|DIR|-", required = true)]
    pub(super) files: Vec<String>,
    /// The Catalog, if there are several
    #[arg(long, value_name = "NAME")]
    pub(super) catalog: Option<String>,
    /// The CrawlRun, if there are several; without any, one is made from the Catalog's template
    #[arg(long, value_name = "NAME")]
    pub(super) run: Option<String>,
}

/// What a run goes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ModeArg {
    /// Everything.
    Full,
    /// What changed since the last run, where a node can tell.
    Incremental,
}

/// A format for people or for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputFormat {
    /// For people.
    Text,
    /// For programs; fields are only added.
    Json,
}

pub(super) fn main(args: &RunArgs, log: &LogOptions) -> u8 {
    let display = args.display.display();
    start_logging(log, &display);
    let secrets = secret_sources(&args.secrets);
    let accepted = match read_manifests(&args.manifests.files, &secrets) {
        Ok(accepted) => accepted,
        Err(code) => return code,
    };
    let input = match choose_run(&accepted.set, args.manifests.catalog.as_deref(), args.manifests.run.as_deref()) {
        Ok(mut input) => {
            input.spec.settings.mode = match args.mode {
                Some(ModeArg::Full) => RunMode::Full,
                Some(ModeArg::Incremental) => RunMode::Incremental,
                None => input.spec.settings.mode,
            };
            input
        }
        Err(why) => return fail(why, exit::USAGE),
    };
    let crawlers = match crawler_processes(args, log) {
        Ok(crawlers) => crawlers,
        Err(code) => return code,
    };
    let options = RunOptions {
        dir: args.dir.clone(),
        format: args.format,
        dry_run: args.dry_run || input.spec.settings.dry_run,
        restart: args.restart,
        http: args.http.config(),
        secrets,
        manifests: accepted.set,
        display,
        crawlers,
        interrupt: CancellationToken::new(),
        clock: SystemClock::shared(),
    };
    block_on(async move {
        let dir = options.dir.clone();
        interrupt_on_ctrl_c(&options.interrupt, options.display.log_writer());
        finish(local::run(input, options).await, &dir, args.output)
    })
}

/// Whether the run's crawlers are processes, and how they are started. `Err` is the exit code.
fn crawler_processes(args: &RunArgs, log: &LogOptions) -> Result<Option<CrawlerProcesses>, u8> {
    if !args.queue.are_given() {
        let why = "--crawlers needs --redis: crawlers that are processes share a queue there";
        return if args.crawlers.is_none() { Ok(None) } else { Err(fail(why, exit::USAGE)) };
    }
    let lost = |error| fail(format_args!("this program can't find itself: {error}"), exit::FAILED);
    Ok(Some(CrawlerProcesses {
        count: args.crawlers,
        redis: args.queue.settings()?,
        program: std::env::current_exe().map_err(lost)?,
        arguments: [args.http.arguments(), log.arguments()].concat(),
    }))
}

/// Prints the summary and finds the exit code.
pub(super) fn finish(end: Result<RunEnd, local::LocalError>, dir: &std::path::Path, output: OutputFormat) -> u8 {
    match end {
        Err(error) => fail(&error, if error.is_usage() { exit::USAGE } else { exit::FAILED }),
        Ok(RunEnd::Interrupted { can_be_resumed: false }) => {
            fail("interrupted; nothing was written", exit::INTERRUPTED)
        }
        Ok(RunEnd::Interrupted { can_be_resumed: true }) => fail(
            format_args!("interrupted; run the same command again to go on, or with --restart to begin anew"),
            exit::INTERRUPTED,
        ),
        Ok(RunEnd::Finished { report, records }) => {
            summary::messages(&report).iter().for_each(complain);
            match output {
                OutputFormat::Text => print(summary::text(&report, records.as_deref(), dir)),
                OutputFormat::Json => match serde_json::to_string_pretty(&report) {
                    Ok(json) => print(format_args!("{json}\n")),
                    Err(error) => return fail(error, exit::FAILED),
                },
            }
            match report.outcome {
                RunOutcome::Complete => exit::OK,
                RunOutcome::PartiallyComplete => exit::FAILED_NODES,
                RunOutcome::Failed | RunOutcome::DeadlineExceeded => exit::FAILED,
            }
        }
    }
}

/// Loads and checks manifests; findings go to standard error. `Err` is the exit code.
pub(super) fn read_manifests(files: &[String], secrets: &SecretSources) -> Result<Accepted, u8> {
    let inputs: Vec<Input> = files.iter().map(|file| Input::from(file.as_str())).collect();
    match accept(&load(&inputs), secrets) {
        Ok(accepted) => {
            accepted.warnings.iter().for_each(complain);
            Ok(accepted)
        }
        Err(findings) => {
            show_findings(&findings);
            Err(exit::USAGE)
        }
    }
}

fn show_findings(findings: &[Finding]) {
    findings.iter().for_each(complain);
}

pub(super) fn secret_sources(options: &SecretOptions) -> SecretSources {
    SecretSources::new(options.secrets_dir.clone(), config::secret_variables())
}

/// The first Ctrl-C (or SIGTERM) asks for an orderly end, the second ends at once.
pub(super) fn interrupt_on_ctrl_c(interrupt: &CancellationToken, mut screen: LogWriter) {
    let interrupt = interrupt.clone();
    tokio::spawn(async move {
        wait_for_signal().await;
        writeln!(screen, "trawler: finishing what is under way; Ctrl-C again stops at once").unwrap_or_default();
        interrupt.cancel();
        wait_for_signal().await;
        writeln!(screen, "trawler: stopped; run the same command again to go on").unwrap_or_default();
        stop_at_once();
    });
}

#[expect(clippy::exit, reason = "a person asked twice; the store survives an end at any instant")]
fn stop_at_once() -> ! {
    std::process::exit(i32::from(exit::INTERRUPTED))
}

#[cfg(unix)]
pub(super) async fn wait_for_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return std::future::pending().await };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

#[cfg(not(unix))]
pub(super) async fn wait_for_signal() {
    drop(tokio::signal::ctrl_c().await);
}
