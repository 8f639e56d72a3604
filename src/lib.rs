//! Trawler keeps a complete, fresh, trustworthy copy of what a federation of catalogues offers.
//!
//! One flow, in one direction; the modules stand in its order:
//!
//! ```text
//! manifests ──► observe ──► Snapshot ──► plan (pure) ──► ExecutionPlan ──► apply ──► crawlers, queue
//!                  ▲                                                         │
//!                  └───────────────── ledger, crawlers ◄─────────────────────┘
//! crawler:  join ──► claim ──► permit ──► fetch ──► decode (pure) ──► store ──► settle (+ feedback)
//! ```
//!
//! | step | module |
//! |---|---|
//! | what is asked | [`api`] |
//! | what to do | [`planner`] |
//! | making it so: what every run goes through | [`run`] |
//! | making it so, on one machine | [`local`] |
//! | work in flight | [`queue`] |
//! | doing the work | [`crawler`] |
//! | how catalogues speak | [`protocol`] |
//! | where it lands | [`store`] |
//! | what people are told of a cluster | [`plugin`] |
//!
//! `docs/architecture.md` walks one record through all of them.

pub mod api;
pub mod clock;
pub mod config;
pub mod finding;
pub mod flow;
pub mod outcome;
pub mod record;
pub mod task;

pub mod planner;

pub mod local;
pub mod operator;
pub mod run;

pub mod redis;

pub mod queue;

pub mod crawler;

pub mod protocol;

pub mod store;

pub mod cli;
pub mod demo;
pub mod generate;
pub mod plugin;
pub mod telemetry;
