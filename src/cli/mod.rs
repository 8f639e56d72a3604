//! The command line: one file per subcommand, no logic beyond building contexts.

mod common;
mod crawl;
mod demo;
mod generate;
mod init;
pub mod kubectl;
mod operator;
mod plan;
mod probe;
mod queue;
mod records;
mod redis;
mod run;
mod summary;
mod top;
mod validate;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand, ValueEnum as _};

use crate::config;
use crate::telemetry::LogFormat;

/// Keeps a complete, fresh, trustworthy copy of what a federation of catalogues offers.
#[derive(Debug, Parser)]
#[command(name = "trawler", version, propagate_version = true, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    log: LogOptions,
}

const AFTER_HELP: &str = "\
Examples:
  trawler demo                                     crawl a small federation that is inside the program
  trawler init https://portal.example > my.yaml    find out what a server speaks
  trawler validate -f my.yaml                      check manifests without a network
  trawler run -f my.yaml -d out                    crawl it; run it again to see what changed
  trawler records ls -d out                        look at the result
  trawler queue ls --redis redis://HOST            look at a queue that crawlers share";

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::DemoArgs),
    Init(init::InitArgs),
    Run(run::RunArgs),
    Validate(validate::ValidateArgs),
    Plan(plan::PlanArgs),
    Records(records::RecordsArgs),
    Operator(operator::OperatorArgs),
    Crawl(crawl::CrawlArgs),
    Probe(probe::ProbeArgs),
    Queue(queue::QueueArgs),
    Top(top::TopArgs),
    #[command(hide = true)]
    Kubectl(kubectl::KubectlArgs),
    Generate(generate::GenerateArgs),
}

#[derive(Debug, clap::Args)]
struct LogOptions {
    /// Which log lines are written: a level, or directives such as trawler::crawler=debug
    #[arg(long, global = true, value_name = "FILTER", default_value = "warn", env = config::LOG, help_heading = "Logging")]
    log: String,
    /// How log lines are written
    #[arg(long, global = true, value_enum, default_value = "text", env = config::LOG_FORMAT, help_heading = "Logging")]
    log_format: LogFormat,
}

impl LogOptions {
    /// The same, as arguments of a process that this one starts.
    fn arguments(&self) -> Vec<OsString> {
        let format = self.log_format.to_possible_value();
        let format = format.as_ref().map_or("text", |format| format.get_name());
        ["--log", self.log.as_str(), "--log-format", format].map(OsString::from).to_vec()
    }
}

/// How a command ends, as the shell sees it.
mod exit {
    pub(super) const OK: u8 = 0;
    pub(super) const FAILED: u8 = 1;
    pub(super) const USAGE: u8 = 2;
    pub(super) const FAILED_NODES: u8 = 3;
    pub(super) const INTERRUPTED: u8 = 130;
}

/// Runs the command that the arguments name.
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = kubectl::called_as_plugin(&arguments) {
        return ExitCode::from(code);
    }
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() { exit::USAGE } else { exit::OK };
            drop(error.print());
            return ExitCode::from(code);
        }
    };
    let code = match cli.command {
        Command::Demo(args) => demo::main(args, &cli.log),
        Command::Init(args) => init::main(args, &cli.log),
        Command::Run(args) => run::main(&args, &cli.log),
        Command::Validate(args) => validate::main(&args),
        Command::Plan(args) => plan::main(&args),
        Command::Records(args) => records::main(args),
        Command::Operator(args) => operator::main(&args, &cli.log),
        Command::Probe(args) => probe::main(&args),
        Command::Crawl(args) => crawl::main(&args, &cli.log),
        Command::Queue(args) => queue::main(args),
        Command::Top(args) => top::main(&args),
        Command::Kubectl(args) => kubectl::main(args, &cli.log),
        Command::Generate(args) => generate::main(&args),
    };
    ExitCode::from(code)
}

/// The command line of the kubectl plugin as data.
pub fn plugin_command() -> clap::Command {
    kubectl::command()
}

/// The command line as data: for completions, man pages and the reference.
pub fn command() -> clap::Command {
    Cli::command()
}
