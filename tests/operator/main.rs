//! The operator over an API server in the test's own process: real queue, real store, real crawlers, catalogues on loopback.

mod api_server;
mod cluster;
mod crashes;
mod plugin;
mod runs;

/// Runs a test's body where an operator can run: its passes stay on one thread.
pub(crate) async fn on_one_thread<T>(test: impl Future<Output = T>) -> T {
    tokio::task::LocalSet::new().run_until(test).await
}
