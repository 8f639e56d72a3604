//! The words that the planner, the queue, the crawler and the store share: what is fetched, for whom, and where it
//! belongs.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use url::Url;

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl<T: Into<Arc<str>>> From<T> for $name {
            fn from(text: T) -> Self {
                Self(text.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

name_type!(
    /// The name of a `Catalog`.
    CatalogName
);
name_type!(
    /// The name of a `CatalogNode`.
    NodeName
);
name_type!(
    /// One run, unique for ever (a UID on Kubernetes, the Catalog's name and the run's number locally).
    RunId
);
name_type!(
    /// A section inside a node: empty for the root, else the nested catalogue's normalised endpoint (ADR 0005).
    SectionPath
);
name_type!(
    /// Scheme, host and port of a URL, as `https://host:443`: what server protection is counted by.
    OriginKey
);

impl SectionPath {
    /// The node's own catalogue.
    pub fn root() -> Self {
        Self::from("")
    }

    /// Whether this is the node's own catalogue.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }
}

/// A section of a node: the unit of traversal, completeness and sweeping.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SectionKey {
    /// The node.
    pub node: NodeName,
    /// The section inside it.
    pub section: SectionPath,
}

impl SectionKey {
    /// The root section of a node.
    pub fn root_of(node: NodeName) -> Self {
        Self { node, section: SectionPath::root() }
    }
}

impl fmt::Display for SectionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.section.is_root() {
            write!(f, "{}", self.node)
        } else {
            write!(f, "{} › {}", self.node, self.section)
        }
    }
}

/// What a task fetches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TaskKind {
    /// A section's entry: discovery, or its first page.
    Root,
    /// A further request for a list.
    Page,
    /// One dataset. Costs the node's `apiCallsPerDocument`; everything else costs one call.
    Dataset,
}

/// The order of tasks inside a node: first ERROR, last ACCEPTED. Roots and pages count as ACCEPTED.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ItemStatus {
    /// Failed before.
    Error,
    /// Known, and the source says it changed.
    Modified,
    /// Not known yet.
    NewItem,
    /// Nothing speaks for hurry.
    #[default]
    Accepted,
}

/// A task's identity: equal requests of one section in one run are one task, which is what makes paging loops end.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskId(pub [u8; 16]);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One unit of fetching.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Derived from node, section, kind and cursor by [`Task::new`].
    pub id: TaskId,
    /// The section it belongs to.
    pub section: SectionKey,
    /// What it fetches.
    pub kind: TaskKind,
    /// Its place in the order inside the node.
    pub status: ItemStatus,
    /// Whom it asks; decides its lane.
    pub origin: OriginKey,
    /// What the reader needs to build the request: text that only the protocol's reader understands. Never holds a
    /// secret, and is at most [`MAX_CURSOR_BYTES`] long.
    pub cursor: Arc<str>,
    /// How many pages of the section came before it.
    pub page: u32,
    /// How many nested catalogues lie between the node's root and its section.
    pub depth: u32,
    /// The way from the node's endpoint to this section: endpoints, outermost first.
    pub provenance: Arc<[String]>,
    /// Part of a second look at a list that was read to its end in this run already ([`Task::again`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_again: bool,
}

/// The longest cursor that is accepted; a server's continuation token can make it grow.
pub const MAX_CURSOR_BYTES: usize = 16 * 1024;

impl Task {
    /// A task whose id follows from what it fetches.
    pub fn new(section: SectionKey, kind: TaskKind, origin: OriginKey, cursor: impl Into<Arc<str>>) -> Self {
        let cursor = cursor.into();
        let mut hasher = blake3::Hasher::new();
        for part in [section.node.as_str(), section.section.as_str(), &cursor] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        hasher.update(&[kind as u8]);
        let mut id = [0; 16];
        id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Self {
            id: TaskId(id),
            section,
            kind,
            status: ItemStatus::Accepted,
            origin,
            cursor,
            page: 0,
            depth: 0,
            provenance: Arc::from([]),
            is_again: false,
        }
    }

    /// The same, to be done a second time in the run: a task of its own.
    #[must_use]
    pub fn again(self) -> Self {
        let mut id = [0; 16];
        let hash = blake3::Hasher::new().update(&self.id.0).update(b"again").finalize();
        id.copy_from_slice(&hash.as_bytes()[..16]);
        Self { id: TaskId(id), is_again: true, ..self }
    }
}

/// The origin of a URL as tasks carry it.
pub fn origin_of(url: &Url) -> OriginKey {
    let host = url.host_str().unwrap_or_default();
    let port = url.port_or_known_default().unwrap_or_default();
    OriginKey::from(format!("{}://{host}:{port}", url.scheme()))
}
