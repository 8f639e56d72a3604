//! The operator over an API server in the test's own process: real queue, real store, real crawlers, catalogues on loopback.

#![allow(
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, tells by printing, and looks at the time of the world around it"
)]

mod api_server;
mod believers;
mod cluster;
mod crashes;
mod plugin;
mod runs;

/// Runs a test's body where an operator can run: its passes stay on one thread.
pub(crate) async fn on_one_thread<T>(test: impl Future<Output = T>) -> T {
    tokio::task::LocalSet::new().run_until(test).await
}
