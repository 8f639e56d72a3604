//! Putting the records where people find them: the whole file, or the old one.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

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

/// A file that is written and synced, and not yet where people find it. Dropped, it is gone.
#[derive(Debug)]
pub(in crate::local) struct Prepared {
    file: NamedTempFile,
    dir: PathBuf,
    path: PathBuf,
}

impl Prepared {
    /// Puts it in its place, in one step that survives the machine: a reader sees the old file or this one.
    pub(in crate::local) fn put(self) -> Result<PathBuf, ExportError> {
        let Self { file, dir, path } = self;
        file.persist(&path).map_err(|failure| failed("replace", &path, failure.error))?;
        sync_directory(&dir).map_err(|source| failed("replace", &path, source))?;
        Ok(path)
    }
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
    let (prepared, summary) = prepare_records(store, catalog, format, dir).await?;
    Ok(Published { path: prepared.put()?, summary })
}

/// Writes all records for `dir/records.<ext>`.
pub(in crate::local) async fn prepare_records(
    store: &dyn Store,
    catalog: &CatalogName,
    format: Format,
    dir: &Path,
) -> Result<(Prepared, ExportSummary), ExportError> {
    let path = dir.join(format.file_name());
    let mut file = begin(dir, &format.file_name())?;
    let summary = export(store, catalog, &RecordFilter::default(), format, file.as_file_mut()).await.map_err(
        |error| match error {
            ExportError::Output(source) => failed("write", &path, source),
            other => other,
        },
    )?;
    Ok((synced(file, dir, path)?, summary))
}

/// Writes a text for `dir/name`.
pub(in crate::local) fn prepare_text(dir: &Path, name: &str, text: &str) -> Result<Prepared, ExportError> {
    let path = dir.join(name);
    let mut file = begin(dir, name)?;
    file.write_all(text.as_bytes()).map_err(|source| failed("write", &path, source))?;
    synced(file, dir, path)
}

/// Removes a file, in a way that survives the machine. One that is not there is removed already.
pub(in crate::local) fn remove(dir: &Path, name: &str) -> Result<(), ExportError> {
    let path = dir.join(name);
    match std::fs::remove_file(&path) {
        Ok(()) => sync_directory(dir).map_err(|source| failed("remove", &path, source)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(failed("remove", &path, source)),
    }
}

fn begin(dir: &Path, name: &str) -> Result<NamedTempFile, ExportError> {
    let prefix = format!(".{name}.");
    remove_leftovers(dir, &prefix);
    create_temporary(dir, &prefix).map_err(|source| failed("create", &dir.join(name), source))
}

fn synced(file: NamedTempFile, dir: &Path, path: PathBuf) -> Result<Prepared, ExportError> {
    file.as_file().sync_all().map_err(|source| failed("write", &path, source))?;
    Ok(Prepared { file, dir: dir.to_owned(), path })
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
