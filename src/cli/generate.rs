//! `trawler generate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use clap_complete::Shell;

use super::common::{fail, print};
use super::{command, exit, plugin_command};
use crate::generate::{Mode, Output, apply, completions, crds, man_pages, reference, samples};

/// Write the files that are made from the code, or check that they are up to date.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  trawler generate all --check\n  trawler generate crds\n  trawler generate completions --shell bash > /etc/bash_completion.d/trawler\n  trawler generate man -d man/"
)]
pub(super) struct GenerateArgs {
    /// What to make
    #[arg(value_enum)]
    what: What,
    /// Change nothing: print what differs and the command that fixes it, and fail
    #[arg(long)]
    check: bool,
    /// The root of the tree; for completions and man pages, where they go
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Print the completions of this shell instead of writing those of all
    #[arg(long, value_enum)]
    shell: Option<Shell>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// crds/, manifests/samples/ and docs/reference/
    All,
    /// crds/: the definitions of the four kinds
    Crds,
    /// manifests/samples/: an example of each kind
    Samples,
    /// docs/reference/: every field and every option
    Docs,
    /// Completions for bash, elvish, fish, PowerShell and zsh
    Completions,
    /// Man pages
    Man,
}

pub(super) fn main(args: &GenerateArgs) -> u8 {
    let outputs: Vec<Output> = match args.what {
        What::All => committed(),
        What::Crds => vec![crds()],
        What::Samples => vec![samples()],
        What::Docs => vec![reference(&command(), &plugin_command())],
        What::Completions => {
            if let Some(shell) = args.shell {
                clap_complete::generate(shell, &mut command(), "trawler", &mut std::io::stdout());
                return exit::OK;
            }
            let both = [command(), plugin_command()];
            return written(both.iter().try_for_each(|command| completions(command, &args.dir).map(|_| ())), args);
        }
        What::Man => {
            let both = [command(), plugin_command()];
            return written(both.iter().try_for_each(|command| man_pages(command, &args.dir)), args);
        }
    };
    let mode = if args.check { Mode::Check } else { Mode::Write };
    match apply(&args.dir, &outputs, mode) {
        Err(error) => fail(error, exit::FAILED),
        Ok(report) if args.check && !report.drift.is_empty() => {
            print(&report);
            exit::FAILED
        }
        Ok(_) => exit::OK,
    }
}

/// What is kept in the tree.
pub(crate) fn committed() -> Vec<Output> {
    vec![crds(), samples(), reference(&command(), &plugin_command())]
}

fn written(result: std::io::Result<()>, args: &GenerateArgs) -> u8 {
    match result {
        Ok(()) => exit::OK,
        Err(error) => fail(format_args!("can't write to {}: {error}", args.dir.display()), exit::FAILED),
    }
}
