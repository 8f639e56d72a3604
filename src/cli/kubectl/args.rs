//! The arguments of `kubectl trawler`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::api::RunMode;
use crate::plugin::Output;

/// Look at Trawler's runs and nodes on a cluster, and start, freeze and retry runs.
///
/// Asks the API server with the rights of your kubeconfig; changes nothing but what you may change with kubectl.
#[derive(Debug, Args)]
#[command(after_help = KUBECTL_HELP)]
pub(in crate::cli) struct KubectlArgs {
    #[command(subcommand)]
    pub(super) command: KubectlCommand,
    #[command(flatten)]
    pub(super) place: PlaceOptions,
}

const KUBECTL_HELP: &str = "\
Examples:
  kubectl trawler runs -n harvest                        all runs, youngest first
  kubectl trawler why mobility-20261130-020000           what a run waits for, until when, what to do
  kubectl trawler status mobility                        the Catalog's active or last run in detail
  kubectl trawler start mobility --mode Full --wait      make a run and follow it to its end
  kubectl trawler nodes mobility --stale -o wide         nodes that were not read in full, and why

Exit codes:
  0    done; a run that was waited for is complete
  1    the cluster could not be asked or refused; a run that was waited for failed
  2    the arguments are wrong, or name what is not there
  3    a run that was waited for is partially complete
  130  interrupted";

/// Which cluster, and where in it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub(super) struct PlaceOptions {
    /// The namespace. Default: that of the context
    #[arg(long, short, global = true, value_name = "NAME")]
    pub(super) namespace: Option<String>,
    /// The context of the kubeconfig. Default: the current one
    #[arg(long, global = true, value_name = "NAME")]
    pub(super) context: Option<String>,
    /// The kubeconfig. Default: KUBECONFIG, or ~/.kube/config
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(super) enum KubectlCommand {
    /// List runs, youngest first
    #[command(
        after_help = "Examples:\n  kubectl trawler runs\n  kubectl trawler runs mobility -o wide\n  kubectl trawler runs -A -o json | jq -r '.[] | select(.state == \"Stalled\") | .name'"
    )]
    Runs(RunsArgs),
    /// Show one run: conditions, tasks, records, nodes, crawlers, events
    #[command(
        after_help = "Examples:\n  kubectl trawler status mobility-20261130-020000\n  kubectl trawler status mobility    the Catalog's active or else last run\n  kubectl trawler status -o yaml"
    )]
    Status(OneArgs),
    /// Say in a paragraph what a run waits for, until when, who is ahead, and what to do
    #[command(
        after_help = "Examples:\n  kubectl trawler why mobility-20261130-020000\n  kubectl trawler why mobility\n  kubectl trawler why mobility -o json | jq -r .reason"
    )]
    Why(OneArgs),
    /// List catalog nodes: whether they can be crawled, and when and how far they were
    #[command(
        after_help = "Examples:\n  kubectl trawler nodes\n  kubectl trawler nodes mobility --stale -o wide\n  kubectl trawler nodes -A"
    )]
    Nodes(NodesArgs),
    /// Print what a run's crawlers log, each line with its pod; or what the operator logs about it
    #[command(
        after_help = "Examples:\n  kubectl trawler logs mobility-20261130-020000 -f\n  kubectl trawler logs mobility --operator --tail 1000"
    )]
    Logs(LogsArgs),
    /// Freeze a run: nothing is handed out and no request is sent until it is thawed
    #[command(
        after_help = "Examples:\n  kubectl trawler freeze mobility-20261130-020000\n  kubectl trawler freeze RUN --wait=false"
    )]
    Freeze(FreezeArgs),
    /// Thaw a run
    #[command(after_help = "Examples:\n  kubectl trawler thaw mobility-20261130-020000")]
    Thaw(FreezeArgs),
    /// Make a run of a Catalog, as its runTemplate says
    #[command(
        after_help = "Examples:\n  kubectl trawler start mobility\n  kubectl trawler start mobility --mode Full --wait\n  kubectl trawler start mobility --node acme --node blue --name after-the-fix"
    )]
    Start(StartArgs),
    /// Make a run over the nodes of a run that failed or are partial
    #[command(after_help = "Examples:\n  kubectl trawler retry mobility-20261130-020000 --wait")]
    Retry(RetryArgs),
    /// Watch runs on a terminal: how far they are, what they hold, what they wait for
    #[command(
        after_help = "Examples:\n  kubectl trawler top -n harvest\n  kubectl trawler top -A --once    one frame as text\n\nKeys:\n  q, Ctrl-C  quit"
    )]
    Top(TopArgs),
}

/// How the answer is printed.
#[derive(Debug, Args)]
pub(super) struct OutputOptions {
    /// How it is printed
    #[arg(long, short, value_enum, default_value = "table")]
    pub(super) output: Output,
}

/// One namespace or all.
#[derive(Debug, Args)]
pub(super) struct AllOptions {
    /// In all namespaces
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    pub(super) all_namespaces: bool,
}

#[derive(Debug, Args)]
pub(super) struct RunsArgs {
    /// Only those of this Catalog
    #[arg(value_name = "CATALOG", conflicts_with = "all_namespaces")]
    pub(super) catalog: Option<String>,
    #[command(flatten)]
    pub(super) all: AllOptions,
    #[command(flatten)]
    pub(super) output: OutputOptions,
}

#[derive(Debug, Args)]
pub(super) struct OneArgs {
    /// A run; or a Catalog, whose active or else last run is meant. Default: that of the namespace
    #[arg(value_name = "RUN|CATALOG")]
    pub(super) run: Option<String>,
    #[command(flatten)]
    pub(super) output: OutputOptions,
}

#[derive(Debug, Args)]
pub(super) struct NodesArgs {
    /// Only those that this Catalog selects
    #[arg(value_name = "CATALOG", conflicts_with = "all_namespaces")]
    pub(super) catalog: Option<String>,
    /// Only those never crawled, or not read in full the last time
    #[arg(long)]
    pub(super) stale: bool,
    #[command(flatten)]
    pub(super) all: AllOptions,
    #[command(flatten)]
    pub(super) output: OutputOptions,
}

#[derive(Debug, Args)]
pub(super) struct LogsArgs {
    /// A run; or a Catalog, whose active or else last run is meant
    #[arg(value_name = "RUN|CATALOG")]
    pub(super) run: String,
    /// Go on with what comes, also of crawlers that are started meanwhile
    #[arg(long, short)]
    pub(super) follow: bool,
    /// What the operator says of the run, instead of its crawlers
    #[arg(long)]
    pub(super) operator: bool,
    /// Lines of each pod, from the end
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) tail: Option<u32>,
}

#[derive(Debug, Args)]
pub(super) struct FreezeArgs {
    /// The run
    #[arg(value_name = "RUN")]
    pub(super) run: String,
    /// Wait until the run's status says so
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(super) wait: bool,
    /// How long is waited, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(super) timeout: u64,
}

#[derive(Debug, Args)]
pub(super) struct StartArgs {
    /// The Catalog
    #[arg(value_name = "CATALOG")]
    pub(super) catalog: String,
    /// Everything, or what changed. Default: as the Catalog's runTemplate says
    #[arg(long, value_enum, ignore_case = true)]
    pub(super) mode: Option<ModeArg>,
    /// Only this node; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(super) node: Vec<String>,
    /// The run's name. Default: the Catalog's and the time, as CATALOG-YYYYMMDD-HHMMSS
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,
    /// Follow it to its end
    #[arg(long)]
    pub(super) wait: bool,
}

#[derive(Debug, Args)]
pub(super) struct RetryArgs {
    /// A run that has ended
    #[arg(value_name = "RUN")]
    pub(super) run: String,
    /// Follow the new one to its end
    #[arg(long)]
    pub(super) wait: bool,
}

#[derive(Debug, Args)]
pub(super) struct TopArgs {
    /// Print one frame as plain text, and end
    #[arg(long)]
    pub(super) once: bool,
    #[command(flatten)]
    pub(super) all: AllOptions,
}

/// A run's mode, as CrawlRun has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ModeArg {
    /// Everything
    #[value(name = "Full")]
    Full,
    /// What changed, where a node can tell
    #[value(name = "Incremental")]
    Incremental,
}

impl From<ModeArg> for RunMode {
    fn from(mode: ModeArg) -> Self {
        match mode {
            ModeArg::Full => Self::Full,
            ModeArg::Incremental => Self::Incremental,
        }
    }
}
