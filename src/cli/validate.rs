//! `trawler validate`.

use clap::Args;

use super::common::{SecretOptions, complain, print};
use super::exit;
use super::run::{OutputFormat, secret_sources};
use crate::local::finding::{has_errors, render_json, render_text};
use crate::local::manifests::{Input, load};
use crate::local::validate::validate;

/// Check manifests without a network, and name all faults at once.
///
/// Checks the schema, the rules between fields, unknown fields, and faults between objects: missing references, policies
/// assigned twice, selectors that match nothing. Exit code 2 if something is wrong, 0 if not (warnings are no fault).
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  trawler validate -f my.yaml\n  kustomize build . | trawler validate -f -\n  trawler validate -f manifests/ -o json"
)]
pub(super) struct ValidateArgs {
    /// A file or directory with manifests, or - for standard input; may be given several times
    #[arg(long = "filename", short = 'f', value_name = "FILE|DIR|-", required = true)]
    files: Vec<String>,
    /// How findings are printed
    #[arg(long, short, value_enum, default_value = "text")]
    output: OutputFormat,
    #[command(flatten)]
    secrets: SecretOptions,
}

pub(super) fn main(args: &ValidateArgs) -> u8 {
    let inputs: Vec<Input> = args.files.iter().map(|file| Input::from(file.as_str())).collect();
    let manifests = load(&inputs);
    let findings = validate(&manifests, &secret_sources(&args.secrets));
    match args.output {
        OutputFormat::Json => print(format_args!("{:#}\n", render_json(&findings))),
        OutputFormat::Text => {
            let text = render_text(&findings);
            text.lines().for_each(complain);
            if !has_errors(&findings) {
                let count = manifests.objects.len();
                print(format_args!("{count} object{} valid\n", if count == 1 { " is" } else { "s are" }));
            }
        }
    }
    if has_errors(&findings) { exit::USAGE } else { exit::OK }
}
