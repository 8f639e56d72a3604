//! What tells one directory of state from another one with runs of the same names.

use std::io::{self, Write as _};
use std::path::Path;

use super::super::StoreError;
use super::{STATE_DIR, errors};

/// The file in the state directory.
const FILE: &str = "id";

/// The id of the state in `dir/.trawler`: random, made once. `look_only`: a directory that has none is given none.
pub fn identity(dir: &Path, look_only: bool) -> Result<String, StoreError> {
    let path = dir.join(STATE_DIR).join(FILE);
    match std::fs::read_to_string(&path) {
        Ok(text) if is_id(text.trim()) => return Ok(text.trim().to_owned()),
        Ok(_) => return Err(errors::unusable(&path, "it does not hold an id of 32 hex digits")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(errors::io("read", &path, source)),
    }
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| errors::io("make up an id for", &path, io::Error::other(error)))?;
    let id = data_encoding::HEXLOWER.encode(&random);
    if !look_only {
        let failed = |source| errors::io("write", &path, source);
        // Appears whole or not at all.
        let mut file = tempfile::NamedTempFile::new_in(dir.join(STATE_DIR)).map_err(failed)?;
        file.write_all(format!("{id}\n").as_bytes()).map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
    }
    Ok(id)
}

fn is_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_keeps_its_id_and_shares_it_with_no_other() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for dir in [&one, &other] {
            std::fs::create_dir(dir.path().join(STATE_DIR)).unwrap();
        }
        let id = |dir: &tempfile::TempDir| identity(dir.path(), false).unwrap();
        assert_eq!(id(&one), id(&one));
        assert_eq!(id(&one), identity(one.path(), true).unwrap());
        assert_ne!(id(&one), id(&other));
    }

    #[test]
    fn a_look_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        assert_ne!(identity(dir.path(), true).unwrap(), identity(dir.path(), true).unwrap());
        assert!(!dir.path().join(STATE_DIR).exists());
    }

    #[test]
    fn a_damaged_id_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(STATE_DIR)).unwrap();
        std::fs::write(dir.path().join(STATE_DIR).join(FILE), "no id").unwrap();
        let error = identity(dir.path(), false).unwrap_err().to_string();
        assert!(error.contains("it does not hold an id of 32 hex digits"), "{error}");
    }
}
