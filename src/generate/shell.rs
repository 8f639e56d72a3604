//! Completions and man pages: made for packages, not committed.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Command, ValueEnum};
use clap_complete::Shell;

/// Writes the completions of every shell into a directory.
pub fn completions(command: &Command, directory: &Path) -> io::Result<Vec<PathBuf>> {
    std::fs::create_dir_all(directory)?;
    let name = command.get_name().to_owned();
    Shell::value_variants()
        .iter()
        .map(|shell| clap_complete::generate_to(*shell, &mut command.clone(), &name, directory))
        .collect()
}

/// Writes the man pages of the command and of its subcommands into a directory.
pub fn man_pages(command: &Command, directory: &Path) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    clap_mangen::generate_to(command.clone(), directory)
}
