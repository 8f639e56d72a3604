//! `trawler plan`.

use clap::{Args, ValueEnum};

use super::common::{SecretOptions, fail, print};
use super::exit;
use super::run::{ManifestOptions, read_manifests, secret_sources};
use crate::clock::{Clock, SystemClock};
use crate::local::{choose_run, plan_from};

/// Print what a run would do first: which nodes, under which budgets, with how many crawlers. Asks no server.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  trawler plan -f my.yaml\n  trawler plan -f manifests/ --catalog mobility -o yaml")]
pub(super) struct PlanArgs {
    #[command(flatten)]
    manifests: ManifestOptions,
    /// How the plan is printed
    #[arg(long, short, value_enum, default_value = "text")]
    output: PlanFormat,
    #[command(flatten)]
    secrets: SecretOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PlanFormat {
    /// For people.
    Text,
    /// YAML.
    Yaml,
    /// JSON.
    Json,
}

pub(super) fn main(args: &PlanArgs) -> u8 {
    let accepted = match read_manifests(&args.manifests.files, &secret_sources(&args.secrets)) {
        Ok(accepted) => accepted,
        Err(code) => return code,
    };
    let input = match choose_run(&accepted.set, args.manifests.catalog.as_deref(), args.manifests.run.as_deref()) {
        Ok(input) => input,
        Err(why) => return fail(why, exit::USAGE),
    };
    let plan = plan_from(&input, SystemClock::new().now());
    let text = match args.output {
        PlanFormat::Text => Ok(plan.to_string()),
        PlanFormat::Yaml => serde_saphyr::to_string(&plan).map_err(|error| error.to_string()),
        PlanFormat::Json => {
            serde_json::to_string_pretty(&plan).map(|json| json + "\n").map_err(|error| error.to_string())
        }
    };
    match text {
        Ok(text) => {
            print(text);
            exit::OK
        }
        Err(why) => fail(why, exit::FAILED),
    }
}
