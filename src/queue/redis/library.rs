//! The functions in Redis: one library, made of the files in `lua/`.
//!
//! A library is named by its schema and by its code: two versions of the program that differ in it stand side by side. The
//! schema also stands in every key, so that what one schema wrote is never read by another.

use std::sync::LazyLock;

/// The layout of the keys (`docs/queue-redis.md`). Raised when records change their meaning.
pub(super) const SCHEMA: u32 = 1;

const CONSTANTS: &str = include_str!("lua/constants.lua");

/// In their order: each uses what stands before it.
const FILES: [&str; 11] = [
    include_str!("lua/state.lua"),
    include_str!("lua/window.lua"),
    include_str!("lua/budget.lua"),
    include_str!("lua/origin.lua"),
    include_str!("lua/right_of_way.lua"),
    include_str!("lua/turns.lua"),
    include_str!("lua/lanes.lua"),
    include_str!("lua/tasks.lua"),
    include_str!("lua/operations.lua"),
    include_str!("lua/claim.lua"),
    include_str!("lua/holders.lua"),
];

/// Nobody uses what these name: they stand in blocks of their own, as a chunk of Lua has room for 200 names only.
const BLOCKS: [&str; 5] = [
    include_str!("lua/settle.lua"),
    include_str!("lua/status.lua"),
    include_str!("lua/audit.lua"),
    include_str!("lua/configure.lua"),
    include_str!("lua/close.lua"),
];

/// A library as it is loaded.
#[derive(Debug)]
pub(crate) struct Library {
    pub(super) name: String,
    pub(crate) code: String,
}

impl Library {
    /// That of this program: made once, as every connection needs it.
    pub(crate) fn own() -> &'static Self {
        static OWN: LazyLock<Library> = LazyLock::new(Library::new);
        &OWN
    }

    fn new() -> Self {
        let mut lua = String::new();
        for file in FILES {
            lua.push_str(file);
        }
        for block in BLOCKS {
            lua.extend(["do\n", block, "end\n"]);
        }
        let lua = with_numbers(&without_comments(&lua));
        let hash = blake3::hash(lua.as_bytes()).to_hex();
        let name = format!("trawler_{SCHEMA}_{}", &hash[..8]);
        let code = format!("#!lua name={name}\nlocal LIBRARY, SCHEMA = '{name}', '{SCHEMA}'\n{lua}");
        Self { name, code }
    }
}

fn without_comments(lua: &str) -> String {
    let is_code = |line: &&str| !line.trim_start().starts_with("--") && !line.trim().is_empty();
    lua.lines().filter(is_code).flat_map(|line| [line, "\n"]).collect()
}

/// Puts the numbers of `constants.lua` in the places of their names.
fn with_numbers(lua: &str) -> String {
    let constants: std::collections::HashMap<&str, &str> =
        CONSTANTS.lines().filter_map(|line| line.split_once(" = ")).collect();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut out = String::with_capacity(lua.len());
    let mut rest = lua;
    while let Some(start) = rest.find(is_name) {
        let end = rest[start..].find(|c| !is_name(c)).map_or(rest.len(), |length| start + length);
        let word = &rest[start..end];
        out.push_str(&rest[..start]);
        out.push_str(constants.get(word).copied().unwrap_or(word));
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}
