//! The store's functions in Redis: one library, named by its schema and by its code, as the queue's is.

use std::sync::LazyLock;

use super::keys::SCHEMA;

/// A library as it is loaded.
#[derive(Debug)]
pub(crate) struct Library {
    pub(super) name: String,
    pub(crate) code: String,
}

impl Library {
    /// That of this program.
    pub(crate) fn own() -> &'static Self {
        static OWN: LazyLock<Library> = LazyLock::new(Library::new);
        &OWN
    }

    fn new() -> Self {
        let is_code = |line: &&str| !line.trim_start().starts_with("--") && !line.trim().is_empty();
        let lua: String = include_str!("lua/store.lua").lines().filter(is_code).flat_map(|line| [line, "\n"]).collect();
        let hash = blake3::hash(lua.as_bytes()).to_hex();
        let name = format!("trawler_store_{SCHEMA}_{}", &hash[..8]);
        let code = format!("#!lua name={name}\nlocal LIBRARY, SCHEMA = '{name}', '{SCHEMA}'\n{lua}");
        Self { name, code }
    }
}
