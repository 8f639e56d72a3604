//! The operator on a real cluster: installed with Helm, real Jobs, a real Redis, catalogues on the machine beside it.
//!
//! Needs a cluster of `tests/e2e/cluster`, with the images imported; `tests/run e2e` sees to that and names it in
//! `TRAWLER_E2E_CLUSTER`.

#![allow(
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, tells by printing, and looks at the time of the world around it"
)]

mod definitions;
mod installed;
mod judge;
mod kubectl;
mod latency;
mod lifecycle;
mod plugin;
mod runs;
mod upheaval;
