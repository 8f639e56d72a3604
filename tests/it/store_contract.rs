//! The store's contract, over every adapter; and what only the one in files promises.
#![expect(clippy::unwrap_used, clippy::panic, reason = "the helpers of tests fail as tests do")]

mod deletion;
mod files;
mod harness;
mod incremental;
mod model;
mod nested;
mod origins;
mod records;
mod redis;
mod remembered;
mod runs;
mod spending;

/// Makes a test of each function for each adapter.
macro_rules! contract {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test] async fn $name() { super::$name(super::Subject::memory()).await; })*
        }
        mod files {
            $(#[tokio::test] async fn $name() { super::$name(super::Subject::files()).await; })*
        }
        mod shared {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
            async fn $name() { super::$name(super::Subject::redis()).await; })*
        }
    };
}
use contract;
