//! Doing the work: claim, permit, fetch, decode, store, settle, until the run is drained.
//!
//! A [`Crawler`] is stateless: it joins a run's queue with a token, drains what is eligible, writes records straight to
//! the store, and ends. Everything it learns is in the store or in the queue before the task is settled, so a crawler
//! may die at any instant.

mod context;
pub mod credential;
mod effects;
pub mod http;
mod nodes;
mod progress;
mod settle;
mod task_gate;
mod task_run;
mod worker;

pub use context::{CrawlContext, CrawlNode, NodeLimits};
pub use nodes::{NodeBuilder, Nodes};
pub use progress::{NodeCounts, NodeProgress, Progress, StageSeconds};
pub use settle::RetryPolicy;
pub use worker::{CrawlEnd, Crawler, CrawlerError};
