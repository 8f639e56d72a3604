//! Doing the work: claim, permit, fetch, decode, store, settle, until the run is drained.

pub mod credential;
pub mod http;
