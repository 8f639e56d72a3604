//! Making it so, on one machine: the same verbs as on a cluster, over files.

pub mod finding;
pub mod manifests;
pub mod secrets;
mod suggest;
pub mod validate;
