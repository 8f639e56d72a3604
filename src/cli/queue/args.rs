//! The arguments of `trawler queue`.

use clap::{Args, Subcommand};

use crate::cli::redis::RedisOptions;
use crate::local::queue::Output;

/// Look at a queue in Redis: what its runs do, what waits for what, what died; and put it right.
#[derive(Debug, Args)]
#[command(after_help = QUEUE_HELP)]
pub(in crate::cli) struct QueueArgs {
    #[command(subcommand)]
    pub(super) command: QueueCommand,
    #[command(flatten)]
    pub(super) redis: RedisOptions,
}

const QUEUE_HELP: &str = "\
Examples:
  trawler queue ls --redis redis://HOST       the instance's runs, with what they have done
  export TRAWLER_REDIS=redis://HOST           instead of --redis
  trawler queue show                          the only run, its crawlers, and what its lanes wait for
  trawler queue lanes RUN                     each lane, the gate that is closed, and when it opens
  trawler queue dead RUN -o json              what was given up, with the latest failures
  trawler queue retry RUN --all               put it back

RUN may be left out where the instance has one run. `trawler top` shows the same, live.

Exit codes:
  0    done
  1    the queue could not be asked; not all that was named was done; an audit repaired something
  2    the arguments are wrong, or the queue refuses";

#[derive(Debug, Subcommand)]
pub(super) enum QueueCommand {
    /// List the runs of the instance
    #[command(
        after_help = "Examples:\n  trawler queue ls\n  trawler queue ls -o wide\n  trawler queue ls -o json | jq -r '.[] | select(.frozen) | .run'"
    )]
    Ls(ListArgs),
    /// Show one run: its account, its crawlers with their leases, and what its lanes wait for
    #[command(after_help = "Examples:\n  trawler queue show RUN\n  trawler queue show -o json | jq .status.ledger")]
    Show(OneArgs),
    /// List lanes (tasks of one origin and one budget) with the gate that each waits for, the longest waiting first
    #[command(
        after_help = "Examples:\n  trawler queue lanes RUN --limit 20\n  trawler queue lanes RUN -o json | jq '.[] | select(.waiting.gate == \"originBackOff\")'"
    )]
    Lanes(TaskListArgs),
    /// List tasks that are queued, delayed or leased, with who works on them until when
    #[command(after_help = "Examples:\n  trawler queue peek RUN --limit 20\n  trawler queue peek RUN -o wide")]
    Peek(TaskListArgs),
    /// List tasks that were given up, oldest first, with why
    #[command(
        after_help = "Examples:\n  trawler queue dead RUN\n  trawler queue dead RUN -o wide    with the failures before the last one"
    )]
    Dead(TaskListArgs),
    /// Put dead tasks back, behind the others, as if they had never been tried
    #[command(
        after_help = "Examples:\n  trawler queue retry RUN 3fa9 77c0    by the first digits of their ids\n  trawler queue retry RUN --all        all that `queue dead` lists"
    )]
    Retry(RetryArgs),
    /// Drop tasks that are queued or delayed: they are not fetched in this run, nor is what they would lead to
    #[command(
        after_help = "Examples:\n  trawler queue drop RUN 3fa9 77c0          by the first digits of their ids\n  trawler queue drop RUN --yes 3fa9 77c0    without being asked\n\nOn a terminal it asks before it drops; elsewhere it needs --yes. What is being worked on is left to its crawler."
    )]
    Drop(DropArgs),
    /// Stop handing out tasks; what is under way may end
    #[command(
        after_help = "Examples:\n  trawler queue freeze RUN\n\nOn a cluster the operator asserts `spec.suspend`: set that instead, or it thaws the run again."
    )]
    Freeze(OneArgs),
    /// Lift a freeze
    #[command(after_help = "Examples:\n  trawler queue thaw RUN")]
    Thaw(OneArgs),
    /// Recount a run, repair what is wrong, and say what that was
    #[command(
        after_help = "Examples:\n  trawler queue audit RUN\n\nThe exit code is 1 if anything was repaired: that is a fault of Trawler's, please report it."
    )]
    Audit(OneArgs),
    /// See whether the server is fit to hold a queue: what is wrong with it, and what to do
    #[command(
        after_help = "Examples:\n  trawler queue doctor --redis redis://HOST\n  trawler queue doctor -o json | jq '.[] | select(.severity == \"problem\")'\n\nThe exit code is 1 if anything is a problem: the queue would not work there, or lose what it holds."
    )]
    Doctor(ListArgs),
    /// Print the users that the queue needs, as lines of an ACL file with PASSWORD where their passwords go
    #[command(
        after_help = "Examples:\n  trawler queue acl --instance prod >> users.acl    then put passwords in the place of PASSWORD\n\nIt asks no server."
    )]
    Acl,
}

/// How the answer is printed.
#[derive(Debug, Args)]
pub(super) struct OutputOptions {
    /// How it is printed
    #[arg(long, short, value_enum, default_value = "table")]
    pub(super) output: Output,
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    pub(super) output: OutputOptions,
}

#[derive(Debug, Args)]
pub(super) struct OneArgs {
    /// The run; may be left out if the instance has only one
    #[arg(value_name = "RUN")]
    pub(super) run: Option<String>,
    #[command(flatten)]
    pub(super) output: OutputOptions,
}

#[derive(Debug, Args)]
pub(super) struct TaskListArgs {
    /// The run; may be left out if the instance has only one
    #[arg(value_name = "RUN")]
    pub(super) run: Option<String>,
    /// At most so many
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    pub(super) limit: usize,
    #[command(flatten)]
    pub(super) output: OutputOptions,
}

#[derive(Debug, Args)]
pub(super) struct RetryArgs {
    /// The run; may be left out with --all if the instance has only one
    #[arg(value_name = "RUN", required_unless_present = "all")]
    pub(super) run: Option<String>,
    /// Tasks, by their ids or the first digits of them
    #[arg(value_name = "TASK", required_unless_present = "all", conflicts_with = "all")]
    pub(super) tasks: Vec<String>,
    /// All that are dead and kept
    #[arg(long)]
    pub(super) all: bool,
    #[command(flatten)]
    pub(super) output: OutputOptions,
}

#[derive(Debug, Args)]
pub(super) struct DropArgs {
    /// The run
    #[arg(value_name = "RUN")]
    pub(super) run: String,
    /// Tasks, by their ids or the first digits of them
    #[arg(value_name = "TASK", required = true)]
    pub(super) tasks: Vec<String>,
    /// Don't ask
    #[arg(long, short)]
    pub(super) yes: bool,
    #[command(flatten)]
    pub(super) output: OutputOptions,
}
