//! The one integration test binary. Nothing here needs a cluster or reaches beyond loopback.

#[path = "../support/mod.rs"]
mod support;

mod api;
mod architecture;
mod ckan;
mod cli;
mod dcat;
mod detect;
mod dsp;
mod export;
mod generate;
mod http;
mod http_hostile;
mod local;
mod manifests;
mod planner;
mod protocol_contract;
mod queue_contract;
mod real_data;
mod records;
mod store_contract;
mod telemetry;
