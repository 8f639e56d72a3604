//! The operator on a real cluster: installed with Helm, real Jobs, a real Redis, catalogues on the machine beside it.
//!
//! Needs a cluster of `tests/e2e/cluster`, with the images imported; `tests/run e2e` sees to that and names it in
//! `TRAWLER_E2E_CLUSTER`.

mod installed;
mod kubectl;
mod lifecycle;
mod plugin;
mod runs;
mod upheaval;
