//! What was asked of nodes, so that budgets outlive the process that keeps them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::task::NodeName;

/// What was asked of a node and got from it in a stretch of time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spending {
    /// The node. Budgets are shared by the Catalogs that select it, so no Catalog is named.
    pub node: NodeName,
    /// The stretch's last moment: all of it counts as spent then, which is never too early.
    pub at: Timestamp,
    /// Calls, with what each costs.
    pub calls: u64,
    /// Records.
    pub documents: u64,
    /// Decoded bytes.
    pub bytes: u64,
}

impl Spending {
    /// Nothing, of this node at this moment.
    pub fn none(node: NodeName, at: Timestamp) -> Self {
        Self { node, at, calls: 0, documents: 0, bytes: 0 }
    }

    pub(super) fn is_none(&self) -> bool {
        self.calls == 0 && self.documents == 0 && self.bytes == 0
    }

    /// Both, as of the later moment.
    pub(super) fn plus(self, other: &Self) -> Self {
        Self {
            at: self.at.max(other.at),
            calls: self.calls.saturating_add(other.calls),
            documents: self.documents.saturating_add(other.documents),
            bytes: self.bytes.saturating_add(other.bytes),
            ..self
        }
    }
}
