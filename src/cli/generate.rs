//! `trawler generate`.

/// Write generated files.
#[derive(Debug, clap::Args)]
pub(super) struct GenerateArgs {}

pub(super) fn main(_args: &GenerateArgs) -> u8 {
    super::exit::OK
}
