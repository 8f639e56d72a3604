//! The shape of the source: which module may use which, and how large a file may be.
//!
//! The rules are the data below. A rule is about product code: what stands under `#[cfg(test)]` may use anything.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

/// Words that everything shares; they know nothing but each other.
const SHARED: [&str; 7] = ["clock", "config", "finding", "flow", "outcome", "record", "task"];

/// What each module may use, beside itself.
const ARROWS: [Arrow; 16] = [
    Arrow { from: "api", to: &[], why: "what is asked knows nothing of how it is done" },
    Arrow {
        from: "planner",
        to: &["api", "finding", "flow", "outcome", "record", "task"],
        why: "the planner is pure: snapshot in, plan out, no clock and no configuration",
    },
    Arrow { from: "redis", to: &[SHARED_WORDS], why: "a server knows nothing of what is kept in it" },
    Arrow { from: "queue", to: &["api::names", "redis", SHARED_WORDS], why: "ports know no other port" },
    Arrow { from: "store", to: &["api::names", "redis", SHARED_WORDS], why: "ports know no other port" },
    Arrow {
        from: "protocol",
        to: &["api::names", "finding", "flow", "outcome", "record", "task"],
        why: "a reader is pure, and ports know no other port",
    },
    Arrow {
        from: "crawler",
        to: &["queue", "protocol", "store", "api::names", SHARED_WORDS],
        why: "a crawler works through the ports and is told everything else",
    },
    Arrow {
        from: "run",
        to: &["api", "planner", "queue", "store", "protocol", "crawler::StageSeconds", SHARED_WORDS],
        why: "what every run goes through knows nothing of where it runs",
    },
    Arrow {
        from: "local",
        to: &["api", "planner", "queue", "store", "crawler", "protocol", "run", SHARED_WORDS],
        why: "making it so on one machine needs everything but the command line",
    },
    Arrow {
        from: "operator",
        to: &["api", "planner", "queue", "store", "run", SHARED_WORDS],
        why: "the operator plans and applies; crawling is done in pods",
    },
    Arrow {
        from: "plugin",
        to: &[
            "api",
            "local::grid",
            "local::suggest",
            "local::text",
            "operator::run_of",
            "operator::Trouble",
            "operator::trouble",
            SHARED_WORDS,
        ],
        why: "what people are told of a cluster follows from what was read there, in the words of the operator",
    },
    Arrow { from: "telemetry", to: &[SHARED_WORDS], why: "logging is set up for all and by nobody below" },
    Arrow {
        from: "generate",
        to: &["api", SHARED_WORDS],
        why: "what is generated follows from the types and the commands it is given",
    },
    Arrow {
        from: "demo",
        to: &["api"],
        why: "the demo is crawled like any other federation, so it knows nothing of the crawler",
    },
    Arrow { from: "cli", to: &["*"], why: "" },
    Arrow { from: "main", to: &["cli"], why: "main only hands over" },
];

/// Stands for all of [`SHARED`].
const SHARED_WORDS: &str = "shared words";

struct Arrow {
    from: &'static str,
    to: &'static [&'static str],
    why: &'static str,
}

/// Crates, or parts of them, that may be used in few places; the last element is the reason.
const CRATES: [(&[&str], &[&str], &str); 7] = [
    (
        &["reqwest", "rustls", "rustls_platform_verifier", "async_compression"],
        &["crawler"],
        "there is one HTTP client, with one guard",
    ),
    (&["redb"], &["store::files"], "the database of the file store is its own affair"),
    (&["redis", "fred", "deadpool_redis"], &["redis", "queue::redis", "store::redis"], "Redis is behind the two ports"),
    (&["sqlx", "tokio_postgres", "postgres", "diesel"], &["store::postgres"], "SQL is behind the store's port"),
    (
        &["kube::Client", "kube::Api", "kube::Config", "kube::client", "kube::runtime", "kube_client", "kube_runtime"],
        &["operator", "cli"],
        "the Kubernetes client is the operator's",
    ),
    (
        &["hyper", "hyper_util", "http_body_util"],
        &["demo", "crawler", "operator::http"],
        "HTTP is spoken by the crawler, the demo and the operator's probes",
    ),
    (
        &["clap", "clap_complete", "clap_mangen", "comfy_table", "indicatif", "ratatui", "crossterm"],
        &["cli", "config", "generate", "local", "plugin", "telemetry"],
        "speaking with people is for the command line and for what reports to a terminal",
    ),
];

/// Modules without futures: same input, same output.
const PURE: [&str; 5] = ["api", "planner", "plugin", "protocol", "task"];

/// Crates of the running world, which pure modules can't use.
const RUNNING: [&str; 4] = ["tokio", "tokio_util", "futures_util", "async_trait"];

/// What is wrong in one file.
fn violations(module: &[&str], source: &str) -> BTreeSet<String> {
    let file = syn::parse_file(source).expect("the source is Rust");
    let mut uses = Uses { module: module.iter().map(|name| (*name).to_owned()).collect(), ..Uses::default() };
    uses.visit_file(&file);
    let top = module.first().copied().unwrap_or_default();
    let mut found: BTreeSet<String> = uses.paths.iter().filter_map(|path| wrong_path(module, top, path)).collect();
    if uses.has_async && PURE.contains(&top) {
        found.insert(format!("{top} has an async function: it must be pure"));
    }
    found
}

fn wrong_path(module: &[&str], top: &str, path: &[String]) -> Option<String> {
    let (first, rest) = path.split_first()?;
    if first != "crate" {
        return wrong_crate(module, top, path);
    }
    let target = rest.first()?.as_str();
    // The crate's root declares the modules and has nothing of its own.
    if top.is_empty() || target == top {
        return None;
    }
    let shown = rest.iter().take(2).cloned().collect::<Vec<_>>().join("::");
    if SHARED.contains(&top) {
        return (!SHARED.contains(&target)).then(|| format!("{top} uses {shown}: shared words know only each other"));
    }
    let Some(arrow) = ARROWS.iter().find(|arrow| arrow.from == top) else {
        return Some(format!("{top} has no rule here: say in ARROWS what it may use"));
    };
    let allows = |allowed: &&str| match *allowed {
        "*" => true,
        SHARED_WORDS => SHARED.contains(&target),
        allowed => rest.starts_with(&allowed.split("::").map(str::to_owned).collect::<Vec<_>>()),
    };
    (!arrow.to.iter().any(allows)).then(|| format!("{top} uses {shown}: {}", arrow.why))
}

fn wrong_crate(module: &[&str], top: &str, path: &[String]) -> Option<String> {
    let name = path.first()?;
    if PURE.contains(&top) && RUNNING.contains(&name.as_str()) {
        return Some(format!("{top} uses {name}: it must be pure"));
    }
    let is_named = |entry: &&&str| {
        let names: Vec<&str> = entry.split("::").collect();
        path.len() >= names.len() && path.iter().zip(&names).all(|(a, b)| a == b)
    };
    let (entry, places, why) =
        CRATES.iter().find_map(|(entries, places, why)| Some((entries.iter().find(is_named)?, places, why)))?;
    let module = module.join("::");
    (!places.iter().any(|place| module.starts_with(place))).then(|| format!("{module} uses {entry}: {why}"))
}

/// Collects every path that a file names, relative ones made absolute.
#[derive(Default)]
struct Uses {
    module: Vec<String>,
    paths: BTreeSet<Vec<String>>,
    has_async: bool,
}

impl Uses {
    fn note(&mut self, segments: &[String]) {
        let supers = segments.iter().take_while(|segment| *segment == "super").count();
        let mut path = segments.to_vec();
        if supers > 0 {
            path = vec!["crate".to_owned()];
            path.extend(self.module.iter().take(self.module.len().saturating_sub(supers)).cloned());
            path.extend_from_slice(&segments[supers..]);
        }
        self.paths.insert(path);
    }

    fn note_tree(&mut self, before: &[String], tree: &syn::UseTree) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.note_tree(&with(&path.ident), &path.tree),
            syn::UseTree::Name(name) => self.note(&with(&name.ident)),
            syn::UseTree::Rename(rename) => self.note(&with(&rename.ident)),
            syn::UseTree::Glob(_) => self.note(before),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.note_tree(before, tree)),
        }
    }
}

fn is_test_only(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || (attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Path>().is_ok_and(|condition| condition.is_ident("test")))
    })
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes: &[syn::Attribute] = match item {
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Struct(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            _ => &[],
        };
        if !is_test_only(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.note_tree(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            self.note(&path.segments.iter().map(|segment| segment.ident.to_string()).collect::<Vec<_>>());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, macro_call: &'ast syn::Macro) {
        // What a macro is given isn't parsed; its paths into the crate are read from its text.
        let text = macro_call.tokens.to_string();
        for (at, _) in text.match_indices("crate :: ") {
            let names =
                text[at..].split(" :: ").map(|name| name.split(|c: char| !c.is_alphanumeric() && c != '_').next());
            self.note(&names.flatten().take(3).map(str::to_owned).collect::<Vec<_>>());
        }
        visit::visit_macro(self, macro_call);
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.has_async |= signature.asyncness.is_some();
        visit::visit_signature(self, signature);
    }

    fn visit_expr_async(&mut self, block: &'ast syn::ExprAsync) {
        self.has_async = true;
        visit::visit_expr_async(self, block);
    }
}

/// Every source file, with its path below `src`.
fn sources() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let source = std::fs::read_to_string(&path).expect("a readable file");
                files.push((path.strip_prefix(&root).expect("it lies there").to_owned(), source));
            }
        }
    }
    files.sort();
    files
}

/// `queue/gate.rs` is `queue::gate`, `queue/mod.rs` is `queue`, `lib.rs` is the root.
fn module_of(path: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        path.with_extension("").components().map(|name| name.as_os_str().to_string_lossy().into_owned()).collect();
    if matches!(names.last().map(String::as_str), Some("mod" | "lib")) {
        names.pop();
    }
    names
}

#[test]
fn modules_use_only_what_the_rules_allow() {
    let mut found = Vec::new();
    for (path, source) in sources() {
        let module = module_of(&path);
        if module.last().is_some_and(|name| name == "tests") {
            continue;
        }
        let module: Vec<&str> = module.iter().map(String::as_str).collect();
        found.extend(
            violations(&module, &source).into_iter().map(|violation| format!("src/{}: {violation}", path.display())),
        );
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn every_module_has_a_rule() {
    let known: BTreeSet<&str> = ARROWS.iter().map(|arrow| arrow.from).chain(SHARED).collect();
    let unknown: BTreeSet<String> = sources()
        .iter()
        .filter_map(|(path, _)| module_of(path).into_iter().next())
        .filter(|module| !known.contains(module.as_str()))
        .collect();
    assert_eq!(unknown, BTreeSet::new());
}

#[test]
fn files_are_short_enough_to_read() {
    const MAX_LINES: usize = 700;
    let long: Vec<String> = sources()
        .iter()
        .map(|(path, source)| (path, source.lines().count()))
        .filter(|(_, lines)| *lines > MAX_LINES)
        .map(|(path, lines)| format!("src/{}: {lines} lines", path.display()))
        .collect();
    assert!(long.is_empty(), "over {MAX_LINES} lines, so it has more than one job: {}", long.join(", "));
}

#[test]
fn main_only_hands_over() {
    let (_, main) = sources().into_iter().find(|(path, _)| path == Path::new("main.rs")).expect("there is a main.rs");
    assert!(main.lines().count() <= 30);
}

/// Asserts that a file of this module breaks exactly one rule, with these words.
fn assert_refused(module: &[&str], source: &str, expected: &str) {
    let found: Vec<String> = violations(module, source).into_iter().collect();
    assert_eq!(found.len(), 1, "{source}: {found:?}");
    assert!(found[0].contains(expected), "{}", found[0]);
}

#[test]
fn forbidden_arrows_are_found_however_they_are_written() {
    let planner = &["planner", "budgets"];
    assert_refused(planner, "use crate::clock::Clock;", "planner uses clock::Clock");
    assert_refused(planner, "use crate::{api::Catalog, store::Store};", "planner uses store::Store");
    assert_refused(planner, "use super::super::queue;", "planner uses queue");
    assert_refused(planner, "fn f() { crate::store::open(); }", "planner uses store::open");
    assert_refused(planner, "fn f() -> crate::store::Store { todo() }", "planner uses store::Store");
    assert_refused(planner, "fn f() { println!(\"{}\", crate::store::NAME); }", "planner uses store::NAME");
    assert_refused(planner, "mod inner { use super::super::super::queue::Queue; }", "planner uses queue::Queue");
    assert_refused(&["task"], "use crate::api::Catalog;", "shared words know only each other");
    assert_refused(&["demo"], "use crate::crawler::Crawler;", "demo uses crawler::Crawler");
    assert_refused(&["local"], "use crate::demo::DemoFederation;", "local uses demo");
    assert_refused(&["store", "files"], "use crate::queue::Queue;", "ports know no other port");
    assert_refused(&["queue"], "use crate::api::Catalog;", "ports know no other port");
    assert_refused(&["novelty"], "use crate::task::Task;", "novelty has no rule here");
}

#[test]
fn forbidden_crates_and_futures_are_found() {
    assert_refused(&["cli", "init"], "use reqwest::Client;", "one HTTP client");
    assert_refused(&["store", "memory"], "use redb::Database;", "store::memory uses redb");
    assert_refused(&["queue", "memory"], "fn f() { redis::cmd(\"GET\"); }", "behind the two ports");
    assert_refused(&["local"], "use kube::{Api, ResourceExt};", "local uses kube::Api");
    assert_refused(&["planner"], "async fn f() {}", "async function");
    assert_refused(&["protocol", "dsp"], "use tokio::time::sleep;", "protocol uses tokio");
}

#[test]
fn allowed_arrows_are_not_reported() {
    let none = BTreeSet::new();
    assert_eq!(violations(&["planner"], "use crate::api::Catalog; use crate::task::Task; mod a; use a::B;"), none);
    assert_eq!(violations(&["queue"], "use crate::api::names::GROUP; use crate::clock::Clock;"), none);
    assert_eq!(violations(&["store", "files", "index"], "use redb::Database; use super::super::Store;"), none);
    assert_eq!(violations(&["planner"], "#[cfg(test)] mod tests { use crate::store::Store; }"), none);
    assert_eq!(violations(&["local"], "use kube::ResourceExt;"), none);
    assert_eq!(violations(&["cli", "run"], "use crate::{demo, local, planner};"), none);
}
