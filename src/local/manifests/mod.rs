//! Reading manifests: files, directories and standard input into objects that know their file and lines.
//!
//! [`load`] never stops at a fault: what can't be read is a [`Finding`], and [`validate`](super::validate) adds what is
//! wrong with the rest, so that a person sees everything at once.

mod identify;
mod node;
mod set;
mod yaml;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::finding::{Finding, Severity};
pub use identify::Kind;
use node::Content;
pub(crate) use node::Node;
pub use set::{ConfigMapManifest, Located, ManifestSet, SecretManifest};

/// All manifests together may be at most this long.
pub const MAX_INPUT_BYTES: u64 = 64 << 20;

/// Where manifests come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A file, or a directory whose `.yaml`, `.yml` and `.json` files are read in the order of their names.
    Path(PathBuf),
    /// Standard input, written `-`.
    Stdin,
    /// A text at hand, with the name to call it by.
    Text {
        /// What findings call it.
        name: String,
        /// The manifests.
        text: String,
    },
}

impl From<&str> for Input {
    fn from(argument: &str) -> Self {
        if argument == "-" { Self::Stdin } else { Self::Path(argument.into()) }
    }
}

/// Objects as they were read, and what could not be read.
#[derive(Debug, Default)]
pub struct Manifests {
    pub(crate) objects: Vec<Object>,
    pub(crate) faults: Vec<Finding>,
}

/// One object of a known kind, not yet looked into. Its content is never printed: it may be a Secret.
pub(crate) struct Object {
    pub(crate) file: Arc<str>,
    pub(crate) kind: Kind,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) root: Node,
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} ({}:{})", self.file, self.root.line)
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

impl Object {
    /// A finding about a field of this object.
    pub(crate) fn finding(&self, field: &str, problem: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding {
            severity: Severity::Error,
            file: self.file.to_string(),
            line: Some(self.root.line_of(field)),
            object: Some(self.to_string()),
            field: Some(field.to_owned()).filter(|field| !field.is_empty()),
            problem: problem.into(),
            fix: fix.into(),
        }
    }

    /// The labels.
    pub(crate) fn labels(&self) -> BTreeMap<String, String> {
        self.texts("metadata", "labels")
    }

    /// The texts of a map inside a map.
    fn texts(&self, outer: &str, inner: &str) -> BTreeMap<String, String> {
        self.root.get(outer).and_then(|outer| outer.get(inner)).map(Node::texts).unwrap_or_default()
    }

    /// `file:line`, for findings that point at a second place.
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.file, self.root.line)
    }
}

/// Reads all inputs.
pub fn load(inputs: &[Input]) -> Manifests {
    let mut loader = Loader { manifests: Manifests::default(), bytes_left: MAX_INPUT_BYTES };
    for input in inputs {
        match input {
            Input::Path(path) => loader.path(path),
            Input::Stdin => loader.stream("-", std::io::stdin().lock()),
            Input::Text { name, text } => loader.text(name, text),
        }
    }
    loader.manifests
}

struct Loader {
    manifests: Manifests,
    bytes_left: u64,
}

impl Loader {
    fn path(&mut self, path: &Path) {
        let name = path.display().to_string();
        if !path.is_dir() {
            return match File::open(path) {
                Ok(file) => self.stream(&name, file),
                Err(error) => self.unreadable(&name, &error),
            };
        }
        match manifest_files(path) {
            Ok(files) if files.is_empty() => self.fault(
                &name,
                None,
                "is a directory without any .yaml, .yml or .json file".to_owned(),
                "name a file, or a directory that holds manifests (subdirectories are not looked into)",
            ),
            Ok(files) => files.iter().for_each(|file| match File::open(file) {
                Ok(open) => self.stream(&file.display().to_string(), open),
                Err(error) => self.unreadable(&file.display().to_string(), &error),
            }),
            Err(error) => self.unreadable(&name, &error),
        }
    }

    fn stream(&mut self, name: &str, stream: impl Read) {
        let mut bytes = Vec::new();
        if let Err(error) = stream.take(self.bytes_left + 1).read_to_end(&mut bytes) {
            return self.unreadable(name, &error);
        }
        if bytes.len() as u64 > self.bytes_left {
            let problem = format!("goes over the limit of {} MiB for all manifests together", MAX_INPUT_BYTES >> 20);
            return self.fault(name, None, problem, "name fewer files");
        }
        self.bytes_left -= bytes.len() as u64;
        match std::str::from_utf8(&bytes) {
            Ok(text) => self.text(name, text),
            Err(error) => {
                let line = bytes[..error.valid_up_to()].split(|byte| *byte == b'\n').count();
                self.fault(name, u32::try_from(line).ok(), "is not UTF-8 text".to_owned(), "save the file as UTF-8");
            }
        }
    }

    fn text(&mut self, name: &str, text: &str) {
        let file: Arc<str> = name.into();
        let parsed = yaml::parse(text.strip_prefix('\u{feff}').unwrap_or(text));
        if parsed.documents.is_empty() && parsed.faults.is_empty() {
            self.fault(name, None, "holds no manifest".to_owned(), "write one, or let trawler init URL write it");
        }
        for fault in parsed.faults {
            self.fault(name, Some(fault.line), fault.problem, &fault.fix);
        }
        for document in parsed.documents {
            self.document(&file, document);
        }
    }

    fn document(&mut self, file: &Arc<str>, document: Node) {
        if document.get("kind").and_then(Node::as_str) == Some("List")
            && let Content::Map(entries) = document.content
        {
            let items = entries.into_iter().find(|entry| entry.key == "items").map(|entry| entry.value.content);
            if let Some(Content::List(items)) = items {
                for item in items {
                    self.document(file, item);
                }
            }
            return;
        }
        match identify::identify(file, document) {
            Ok(object) => self.manifests.objects.push(object),
            Err(finding) => self.manifests.faults.push(*finding),
        }
    }

    fn unreadable(&mut self, name: &str, error: &std::io::Error) {
        self.fault(name, None, format!("can't be read: {error}"), "check the path and its permissions");
    }

    fn fault(&mut self, file: &str, line: Option<u32>, problem: String, fix: &str) {
        self.manifests.faults.push(Finding {
            severity: Severity::Error,
            file: file.to_owned(),
            line,
            object: None,
            field: None,
            problem,
            fix: fix.to_owned(),
        });
    }
}

fn manifest_files(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let is_manifest = path.extension().is_some_and(|ending| ["yaml", "yml", "json"].iter().any(|e| ending == *e));
        if is_manifest && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
