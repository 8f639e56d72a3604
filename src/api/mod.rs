//! What is asked: the four kinds of `trawler.dev/v1alpha1`, exactly as they stand in a manifest.
//!
//! The types only describe and parse. Bounds and rules live in the generated schema ([`crd`]), which the API server
//! applies on a cluster and `trawler validate` applies offline.

#![expect(clippy::duplicated_attributes, reason = "each printcolumn(…) has its own type and priority")]

mod catalog;
mod catalog_node;
pub mod conditions;
mod crawl_run;
pub mod crd;
pub mod names;
mod node_health;
mod quantities;
mod references;
pub mod samples;
pub mod schedules;
mod selector;
mod throttle_policy;
pub mod times;

pub use catalog::*;
pub use catalog_node::*;
pub use crawl_run::*;
pub use node_health::*;
pub use quantities::*;
pub use references::*;
pub use selector::*;
pub use throttle_policy::*;
