//! Random federations that change between and during runs: after each run, store, report and difference are those of a model.

#![allow(
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]
