//! `Catalog.spec.nodeHealth`: how long a node that fails is tried as often as the others.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::KubeDuration;
use super::crd::rule;

/// When a node counts as offline or dead, and how often it is tried then. One run that can read something of it makes it
/// online again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [rule(
    "self.offline.afterFailures == 0 || self.dead.afterFailures == 0 || self.offline.afterFailures <= self.dead.afterFailures",
    "dead.afterFailures must not be less than offline.afterFailures; write a larger one, or 0 for never"
)]))]
pub struct NodeHealthSpec {
    /// A node that fails again and again.
    pub offline: OfflineSpec,
    /// A node that has failed for long.
    pub dead: DeadSpec,
}

/// When a node counts as offline, and how often it is tried then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [rule(INTERVALS_RULE, INTERVALS_MESSAGE)]))]
pub struct OfflineSpec {
    /// Runs in a row in which nothing of it could be read. 0: never.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub after_failures: u32,
    /// Time before it is tried again; the node's own recrawlInterval, if that is longer. It doubles with each failure.
    pub initial_recrawl_interval: KubeDuration,
    /// Longest time before it is tried again.
    pub max_recrawl_interval: KubeDuration,
}

impl Default for OfflineSpec {
    fn default() -> Self {
        Self {
            after_failures: 3,
            initial_recrawl_interval: KubeDuration::from_secs(15 * 60),
            max_recrawl_interval: KubeDuration::from_hours(6),
        }
    }
}

/// When a node counts as dead, and how often it is tried then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [rule(INTERVALS_RULE, INTERVALS_MESSAGE)]))]
pub struct DeadSpec {
    /// Runs in a row in which nothing of it could be read, at least. 0: never.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub after_failures: u32,
    /// Time from the first of these runs to the last, at least.
    pub after: KubeDuration,
    /// Time before it is tried again; the node's own recrawlInterval, if that is longer. It grows with the time for which the node has failed.
    pub initial_recrawl_interval: KubeDuration,
    /// Longest time before it is tried again.
    pub max_recrawl_interval: KubeDuration,
}

impl Default for DeadSpec {
    fn default() -> Self {
        Self {
            after_failures: 10,
            after: KubeDuration::from_hours(7 * 24),
            initial_recrawl_interval: KubeDuration::from_hours(24),
            max_recrawl_interval: KubeDuration::from_hours(7 * 24),
        }
    }
}

const INTERVALS_RULE: &str = "duration(self.initialRecrawlInterval) > duration('0s') \
                              && duration(self.initialRecrawlInterval) <= duration(self.maxRecrawlInterval)";
const INTERVALS_MESSAGE: &str = "initialRecrawlInterval must be above 0s and not above maxRecrawlInterval; write one like \
                                 15m, or a longer maxRecrawlInterval";
