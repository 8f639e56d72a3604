//! Putting the records where people find them: the whole file, or the old one.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::ValueEnum as _;
use tempfile::NamedTempFile;

use super::{ExportError, ExportSummary, Format, export};
use crate::store::{RecordFilter, Store};
use crate::task::CatalogName;

const TEMPORARY_SUFFIX: &str = ".partial";

/// A file that was published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// Where it lies.
    pub path: PathBuf,
    /// What is in it.
    pub summary: ExportSummary,
}

/// Writes all records to `dir/records.<ext>` in one step: a reader sees the old file or the new one, also after a crash.
///
/// The caller holds the store of `dir` locked: what an earlier, killed process left half-written is removed.
pub async fn publish(
    store: &dyn Store,
    catalog: &CatalogName,
    format: Format,
    dir: &Path,
) -> Result<Published, ExportError> {
    let path = dir.join(format.file_name());
    let mut file = begin(dir, &format.file_name())?;
    let summary = export(store, catalog, &RecordFilter::default(), format, file.as_file_mut()).await.map_err(
        |error| match error {
            ExportError::Output(source) => failed("write", &path, source),
            other => other,
        },
    )?;
    finish(file, dir, &path)?;
    Ok(Published { path, summary })
}

/// Writes a text to `dir/name` in one step, as [`publish`] does.
pub(in crate::local) fn publish_text(dir: &Path, name: &str, text: &str) -> Result<PathBuf, ExportError> {
    let path = dir.join(name);
    let mut file = begin(dir, name)?;
    file.write_all(text.as_bytes()).map_err(|source| failed("write", &path, source))?;
    finish(file, dir, &path)?;
    Ok(path)
}

fn begin(dir: &Path, name: &str) -> Result<NamedTempFile, ExportError> {
    let prefix = format!(".{name}.");
    remove_leftovers(dir, &prefix);
    create_temporary(dir, &prefix).map_err(|source| failed("create", &dir.join(name), source))
}

fn finish(file: NamedTempFile, dir: &Path, path: &Path) -> Result<(), ExportError> {
    file.as_file().sync_all().map_err(|source| failed("write", path, source))?;
    file.persist(path).map_err(|failure| failed("replace", path, failure.error))?;
    sync_directory(dir).map_err(|source| failed("replace", path, source))
}

/// The records of an earlier run in another format would pass for this run's.
pub(in crate::local) fn remove_other_formats(dir: &Path, format: Format) {
    for other in Format::value_variants().iter().filter(|other| **other != format) {
        drop(std::fs::remove_file(dir.join(other.file_name())));
    }
}

/// A file that removes itself unless it is persisted, readable by whom the umask allows.
fn create_temporary(dir: &Path, prefix: &str) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix).suffix(TEMPORARY_SUFFIX);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(dir)
}

/// Leftovers only cost space: one that can't be removed is no reason to fail.
fn remove_leftovers(dir: &Path, prefix: &str) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(prefix) && name.ends_with(TEMPORARY_SUFFIX)) {
            drop(std::fs::remove_file(entry.path()));
        }
    }
}

/// Makes the renaming durable. Only Unix lets a directory be opened for that.
fn sync_directory(dir: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(dir)?.sync_all() } else { Ok(()) }
}

fn failed(doing: &'static str, path: &Path, source: io::Error) -> ExportError {
    let remedy = match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "free some space there, or choose another directory with -d"
        }
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => "create the directory, or choose another with -d",
        io::ErrorKind::IsADirectory => "move that directory away, or choose another place with -d",
        _ => "make the directory writable, or choose another with -d",
    };
    ExportError::File { doing, path: path.to_owned(), source, remedy }
}
