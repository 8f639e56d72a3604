//! Types and reasons of conditions. Each type says what True means and when it is there; each reason whose it is.
//!
//! `Ready` (Catalog, CatalogNode, ThrottlePolicy) and `Succeeded` (CrawlRun) are always there from the first pass on.
//! `Reconciling` and `Stalled` are kstatus's: the first while something is under way, the second while a person must
//! act. All others are abnormal when true, and exist only while true.

/// True: the object can be used. On Catalog, CatalogNode and ThrottlePolicy, always.
pub const READY: &str = "Ready";

/// True: the run ended well. False: it ended badly. Unknown: it is active. On CrawlRun, always.
pub const SUCCEEDED: &str = "Succeeded";

/// True: the run is active. On CrawlRun, from the first pass to the end.
pub const RECONCILING: &str = "Reconciling";

/// True: it ended badly, or a person must act. On every kind, only while true.
pub const STALLED: &str = "Stalled";

/// True: `spec.suspend` holds the run; nothing is handed out and no request is sent. On CrawlRun, only while true.
pub const FROZEN: &str = "Frozen";

/// True: the queue was lost or rolled back and is being seeded again. On CrawlRun, only while true.
pub const QUEUE_LOST: &str = "QueueLost";

/// True: a sweep over the guard waits for a person. On Catalog, only while true.
pub const DELETION_HELD: &str = "DeletionHeld";

/// True: the assignment is in force. On each target of a ThrottlePolicy's status, always.
pub const ACCEPTED: &str = "Accepted";

/// Reasons of [`READY`].
pub mod ready {
    /// True: nothing stands in the way.
    pub const READY: &str = "Ready";
    /// False: a field's value can't be used although the schema let it pass.
    pub const INVALID_SPEC: &str = "InvalidSpec";
    /// False: an object that is referred to does not exist.
    pub const REFERENCE_NOT_FOUND: &str = "ReferenceNotFound";
    /// False: the Secret lacks the label, the origin or the keys of a credential.
    pub const UNUSABLE_CREDENTIAL: &str = "UnusableCredential";
    /// False: the selector of a Catalog selects no node.
    pub const NO_CATALOG_NODES: &str = "NoCatalogNodes";
    /// False: `spec.suspend` is set.
    pub const SUSPENDED: &str = "Suspended";
    /// Unknown: not looked at yet.
    pub const PENDING: &str = "Pending";
}

/// Reasons of [`SUCCEEDED`].
pub mod succeeded {
    /// Unknown: waits to start.
    pub const PENDING: &str = "Pending";
    /// Unknown: crawls.
    pub const RUNNING: &str = "Running";
    /// True: every section of every node is complete.
    pub const COMPLETE: &str = "Complete";
    /// True: some sections are not complete, within `maxFailedNodesPercent`.
    pub const PARTIALLY_COMPLETE: &str = "PartiallyComplete";
    /// False: more nodes failed than `maxFailedNodesPercent` allows, or all.
    pub const TOO_MANY_FAILED_NODES: &str = "TooManyFailedNodes";
    /// False: `deadline` passed.
    pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
    /// False: another run replaced it.
    pub const REPLACED: &str = "Replaced";
    /// False: the Catalog or a node names something that can't be used.
    pub const INVALID_SPEC: &str = "InvalidSpec";
}

/// Reasons of [`ACCEPTED`].
pub mod accepted {
    /// True: no older policy has the target.
    pub const ACCEPTED: &str = "Accepted";
    /// False: an older policy, or one of the same age that comes first by name, has the target.
    pub const CONFLICTED: &str = "Conflicted";
}
