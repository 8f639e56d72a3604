//! From what the file system and the index say to what a person is told.

use std::io;
use std::path::Path;

use super::super::StoreError;

pub(super) fn io(doing: &'static str, path: &Path, source: io::Error) -> StoreError {
    StoreError::Io { doing, path: path.display().to_string(), source }
}

pub(super) fn unusable(path: &Path, why: impl Into<String>) -> StoreError {
    StoreError::Unusable { path: path.display().to_string(), why: why.into() }
}

/// What went wrong in the index at `path`.
pub(super) fn index(doing: &'static str, path: &Path, error: impl Into<redb::Error>) -> StoreError {
    match error.into() {
        redb::Error::Io(source) => io(doing, path, source),
        redb::Error::PreviousIo => io(doing, path, io::Error::other("an earlier write failed")),
        redb::Error::DatabaseAlreadyOpen => StoreError::Locked { path: path.display().to_string() },
        error => unusable(path, error.to_string()),
    }
}

/// The same failure, for another of the callers that it concerns.
pub(super) fn again(error: &StoreError) -> StoreError {
    match error {
        StoreError::Io { doing, path, source } => {
            let source = match source.raw_os_error() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => io::Error::new(source.kind(), source.to_string()),
            };
            StoreError::Io { doing, path: path.clone(), source }
        }
        StoreError::Unusable { path, why } => StoreError::Unusable { path: path.clone(), why: why.clone() },
        other => StoreError::Unusable { path: String::new(), why: other.to_string() },
    }
}
