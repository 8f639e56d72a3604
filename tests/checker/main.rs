//! An independent judge of a crawl, and the claims that it judges: it reads the servers' request log and the stored
//! records, never the program's own counters.

#![allow(
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]
