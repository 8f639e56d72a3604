//! The real documents, where they are at hand.
#![expect(clippy::unwrap_used, reason = "a helper of tests fails the test")]

use std::path::PathBuf;

/// A document from `../shared/data` beside the repository, or from the folder in `TRAWLER_TEST_DATA`; `None`, with the
/// reason on standard error, if there is no such folder.
pub(crate) fn document(name: &str) -> Option<Vec<u8>> {
    #[expect(clippy::disallowed_methods, reason = "a test finds its documents where the person running it has them")]
    let given = std::env::var_os("TRAWLER_TEST_DATA").map(PathBuf::from);
    let folder = given.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data"));
    if folder.is_dir() {
        return Some(std::fs::read(folder.join(name)).unwrap());
    }
    eprintln!("skipped: {name}: there is no folder {} (set TRAWLER_TEST_DATA to another one)", folder.display());
    None
}
