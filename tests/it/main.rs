//! The one integration test binary. Nothing here needs a cluster or reaches beyond loopback.

#![allow(
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

#[path = "../support/mod.rs"]
mod support;

#[path = "../queue/server.rs"]
#[allow(dead_code, reason = "the tests of the queue need more of it")]
mod redis_server;

mod api;
mod architecture;
mod ckan;
mod cli;
mod cli_kubectl;
mod cli_queue;
mod cli_redis;
mod crawl_role;
mod dcat;
mod dcat_changes;
mod dcat_hostile;
mod demo;
mod detect;
mod docs;
mod dsp;
mod export;
mod generate;
mod http;
mod http_hostile;
mod incremental;
mod landing;
mod local;
mod local_back_off;
mod local_budgets;
mod local_health;
mod local_results;
mod local_runs;
mod manifests;
mod never_deletes;
mod planner;
mod processes;
mod protocol_contract;
mod queue_answers;
mod real_data;
mod real_data_dcat;
mod records;
mod shared_store;
mod store_contract;
mod stub_federation;
mod telemetry;
mod top;
mod vanished;
