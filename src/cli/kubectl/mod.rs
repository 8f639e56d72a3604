//! `kubectl trawler`: this program, called `kubectl-trawler`.

mod args;
mod cluster;
mod complete;
mod connect;
mod error;
mod follow;
mod logs;
mod top;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use clap::{Args as _, FromArgMatches as _};

pub(super) use self::args::KubectlArgs;
use self::args::{FreezeArgs, KubectlCommand, NodesArgs, OneArgs, OutputOptions, RetryArgs, RunsArgs, StartArgs};
pub use self::cluster::{Cluster, Start};
pub use self::error::AskError;
use super::common::{DisplayOptions, block_on, colours_on, complain, fail, print, start_logging, terminal_width};
use super::{LogOptions, exit};
use crate::clock::{Clock, SystemClock};
use crate::plugin::{Answer, Look, NodeList, RunList, StatusSheet, why};

/// The file name under which kubectl looks for the plugin.
const PLUGIN: &str = "kubectl-trawler";
/// And for what completes its arguments.
const COMPLETER: &str = "kubectl_complete-trawler";

/// The plugin's command line as data.
pub(super) fn command() -> clap::Command {
    let command = clap::Command::new(PLUGIN).bin_name("kubectl trawler").version(env!("CARGO_PKG_VERSION"));
    LogOptions::augment_args(KubectlArgs::augment_args(command.propagate_version(true)))
}

/// Does what is asked if this program was called as the plugin.
pub(super) fn called_as_plugin(arguments: &[OsString]) -> Option<u8> {
    let name = Path::new(arguments.first()?).file_stem().and_then(OsStr::to_str)?;
    match name {
        PLUGIN => Some(plugin(arguments)),
        COMPLETER => {
            let words: Vec<String> = arguments.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
            print(complete::completions(&command(), &words));
            Some(exit::OK)
        }
        _ => None,
    }
}

fn plugin(arguments: &[OsString]) -> u8 {
    let matches = command().try_get_matches_from(arguments);
    let parsed = matches
        .and_then(|matches| Ok((KubectlArgs::from_arg_matches(&matches)?, LogOptions::from_arg_matches(&matches)?)));
    match parsed {
        Ok((args, log)) => main(args, &log),
        Err(error) => {
            let code = if error.use_stderr() { exit::USAGE } else { exit::OK };
            drop(error.print());
            code
        }
    }
}

pub(super) fn main(args: KubectlArgs, log: &LogOptions) -> u8 {
    // What the client logs of a request that failed is said in a sentence anyway.
    let quiet = LogOptions { log: format!("{},kube_client=off", log.log), log_format: log.log_format };
    start_logging(if log.log == "warn" { &quiet } else { log }, &DisplayOptions::quiet());
    let all = match &args.command {
        KubectlCommand::Runs(args) => args.all.all_namespaces,
        KubectlCommand::Nodes(args) => args.all.all_namespaces,
        KubectlCommand::Top(args) => args.all.all_namespaces,
        _ => false,
    };
    let is_followed = match &args.command {
        KubectlCommand::Start(args) => args.wait,
        KubectlCommand::Retry(args) => args.wait,
        _ => false,
    };
    block_on(async move {
        let done = async {
            let cluster = connect::connect(&args.place, all).await?;
            let asked = Asked { cluster, clock: SystemClock::new() };
            asked.answer(args.command).await
        };
        tokio::select! {
            done = done => done.unwrap_or_else(|error| fail(&error, error.code())),
            _ = tokio::signal::ctrl_c() => {
                if is_followed {
                    complain("interrupted; the run goes on without you");
                }
                exit::INTERRUPTED
            }
        }
    })
}

/// The cluster that is asked, and the time.
struct Asked {
    cluster: Cluster,
    clock: SystemClock,
}

type Done = Result<u8, AskError>;

impl Asked {
    async fn answer(&self, command: KubectlCommand) -> Done {
        match command {
            KubectlCommand::Runs(args) => self.runs(&args).await,
            KubectlCommand::Status(args) => self.status(&args).await,
            KubectlCommand::Why(args) => self.why(&args).await,
            KubectlCommand::Nodes(args) => self.nodes(&args).await,
            KubectlCommand::Logs(args) => logs::logs(&self.cluster, &args).await,
            KubectlCommand::Freeze(args) => self.set_suspended(&args, true).await,
            KubectlCommand::Thaw(args) => self.set_suspended(&args, false).await,
            KubectlCommand::Start(args) => self.start(args).await,
            KubectlCommand::Retry(args) => self.retry(&args).await,
            KubectlCommand::Top(args) => top::top(&self.cluster, &self.clock, args.once).await,
        }
    }

    fn print(&self, answer: &impl Answer, options: &OutputOptions) {
        print(answer.render(&Look {
            output: options.output,
            now: self.clock.now(),
            max_width: terminal_width(),
            colours: colours_on(&io::stdout()),
            with_namespaces: self.cluster.is_all(),
        }));
    }

    async fn runs(&self, args: &RunsArgs) -> Done {
        let runs = self.cluster.runs(args.catalog.as_deref()).await?;
        self.print(&RunList::of(&runs), &args.output);
        Ok(exit::OK)
    }

    async fn nodes(&self, args: &NodesArgs) -> Done {
        let nodes = self.cluster.nodes(args.catalog.as_deref()).await?;
        self.print(&NodeList::of(&nodes, args.stale), &args.output);
        Ok(exit::OK)
    }

    async fn status(&self, args: &OneArgs) -> Done {
        let run = self.cluster.run_meant(args.run.as_deref()).await?;
        let facts = self.cluster.facts(run, self.clock.now()).await;
        self.print(&StatusSheet::of(&facts), &args.output);
        Ok(exit::OK)
    }

    async fn why(&self, args: &OneArgs) -> Done {
        let run = self.cluster.run_meant(args.run.as_deref()).await?;
        let facts = self.cluster.facts(run, self.clock.now()).await;
        self.print(&why(&facts), &args.output);
        Ok(exit::OK)
    }

    async fn set_suspended(&self, args: &FreezeArgs, suspend: bool) -> Done {
        self.cluster.set_suspended(&args.run, suspend).await?;
        if args.wait {
            let patience = std::time::Duration::from_secs(args.timeout);
            follow::until_suspended(&self.cluster, &args.run, suspend, patience).await?;
        }
        let done = match (suspend, args.wait) {
            (true, true) => "is frozen",
            (true, false) => "will be frozen",
            (false, true) => "is thawed",
            (false, false) => "will be thawed",
        };
        print(format_args!("run {} {done}\n", args.run));
        Ok(exit::OK)
    }

    async fn start(&self, args: StartArgs) -> Done {
        let start = Start { catalog: args.catalog, name: args.name, mode: args.mode.map(Into::into), nodes: args.node };
        let run = self.cluster.start(&start, self.clock.now()).await?;
        let name = run.metadata.name.unwrap_or_default();
        print(format_args!("run {name} was made\n"));
        if args.wait { follow::to_the_end(&self.cluster, &name).await } else { Ok(exit::OK) }
    }

    async fn retry(&self, args: &RetryArgs) -> Done {
        let (run, retry) = self.cluster.retry(&args.run, self.clock.now()).await?;
        let name = run.metadata.name.unwrap_or_default();
        let nodes = if retry.nodes.len() == 1 { "node" } else { "nodes" };
        print(format_args!("run {name} was made, over {} {nodes}: {}\n", retry.nodes.len(), retry.nodes.join(", ")));
        if retry.left_out > 0 {
            complain(format_args!(
                "{} more nodes failed or are partial than a run can name; retry them from {} afterwards",
                retry.left_out, args.run
            ));
        }
        if retry.unnamed > 0 {
            complain(format_args!(
                "{} more nodes failed or are partial, of which it is no longer known which they are, or which were read since; \
                 `kubectl trawler nodes --stale` lists what is not read in full",
                retry.unnamed
            ));
        }
        if args.wait { follow::to_the_end(&self.cluster, &name).await } else { Ok(exit::OK) }
    }
}
