//! Writing outputs into a tree, or telling in what the tree differs from them.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use similar::TextDiff;
use thiserror::Error;

use super::Output;

/// What is done about differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// They are removed.
    Write,
    /// They are reported.
    Check,
}

/// In what a file differs from what would be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Drift {
    /// It says something else.
    Stale {
        /// The file, from the root of the tree.
        path: PathBuf,
        /// The difference, as a unified diff.
        diff: String,
    },
    /// It is not there.
    Missing {
        /// The file, from the root of the tree.
        path: PathBuf,
    },
    /// It is there, and nothing makes it.
    Extra {
        /// The file, from the root of the tree.
        path: PathBuf,
    },
}

/// What was found: removed if the mode was [`Mode::Write`], else still there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The differences, in the order of outputs and names.
    pub drift: Vec<Drift>,
    /// The command that removes them.
    pub command: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for drift in &self.drift {
            match drift {
                Drift::Stale { path, diff } => writeln!(f, "{} is stale:\n{diff}", path.display())?,
                Drift::Missing { path } => writeln!(f, "{} is missing", path.display())?,
                Drift::Extra { path } => writeln!(f, "{} is there, but nothing generates it", path.display())?,
            }
        }
        if self.drift.is_empty() { Ok(()) } else { writeln!(f, "To bring the tree up to date, run: {}", self.command) }
    }
}

/// A file of the tree could not be read or written.
#[derive(Debug, Error)]
#[error("{path} can't be {done}: {source}; check the path and its permissions", path = path.display())]
pub struct GenerateError {
    path: PathBuf,
    done: &'static str,
    source: io::Error,
}

/// Writes the outputs under `root`, or checks that they are there.
pub fn apply(root: &Path, outputs: &[Output], mode: Mode) -> Result<Report, GenerateError> {
    let targets: Vec<&str> = outputs.iter().map(|output| output.target).collect();
    let mut report = Report {
        drift: Vec::new(),
        command: targets
            .iter()
            .map(|target| format!("cargo run -- generate {target}"))
            .collect::<Vec<_>>()
            .join(" && "),
    };
    for output in outputs {
        let drift = drift_of(root, output)?;
        if mode == Mode::Write {
            write(root, output, &drift)?;
        }
        report.drift.extend(drift);
    }
    Ok(report)
}

fn drift_of(root: &Path, output: &Output) -> Result<Vec<Drift>, GenerateError> {
    let mut present = read_all(&root.join(output.directory))?;
    let mut drift = Vec::new();
    for file in &output.files {
        let path = Path::new(output.directory).join(&file.name);
        match present.remove(&file.name) {
            None => drift.push(Drift::Missing { path }),
            Some(content) if content == file.content.as_bytes() => {}
            Some(content) => {
                let content = String::from_utf8_lossy(&content).into_owned();
                let diff = TextDiff::from_lines(content.as_str(), file.content.as_str());
                let diff = diff.unified_diff().context_radius(2).header("in the tree", "generated").to_string();
                drift.push(Drift::Stale { path, diff });
            }
        }
    }
    drift.extend(present.into_keys().map(|name| Drift::Extra { path: Path::new(output.directory).join(name) }));
    Ok(drift)
}

fn write(root: &Path, output: &Output, drift: &[Drift]) -> Result<(), GenerateError> {
    let directory = root.join(output.directory);
    std::fs::create_dir_all(&directory).map_err(|source| fault(&directory, "made", source))?;
    for drift in drift {
        match drift {
            Drift::Extra { path } => {
                let path = root.join(path);
                std::fs::remove_file(&path).map_err(|source| fault(&path, "removed", source))?;
            }
            Drift::Stale { path, .. } | Drift::Missing { path } => {
                let file = output.files.iter().find(|file| path.ends_with(&file.name));
                let content = file.map(|file| file.content.as_str()).unwrap_or_default();
                let path = root.join(path);
                std::fs::write(&path, content).map_err(|source| fault(&path, "written", source))?;
            }
        }
    }
    Ok(())
}

/// The files of a directory by name; none if it does not exist.
fn read_all(directory: &Path) -> Result<BTreeMap<String, Vec<u8>>, GenerateError> {
    let mut files = BTreeMap::new();
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(files),
        entries => entries.map_err(|source| fault(directory, "read", source))?,
    };
    for entry in entries {
        let path = entry.map_err(|source| fault(directory, "read", source))?.path();
        let Some(name) = path.file_name().filter(|_| path.is_file()) else { continue };
        let name = name.to_string_lossy().into_owned();
        let content = std::fs::read(&path).map_err(|source| fault(&path, "read", source))?;
        files.insert(name, content);
    }
    Ok(files)
}

fn fault(path: &Path, done: &'static str, source: io::Error) -> GenerateError {
    GenerateError { path: path.to_owned(), done, source }
}
