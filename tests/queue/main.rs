//! The queue: its contract over every adapter, and the model test. Time is a clock that the tests move.

#![allow(
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking and tells by printing, in its helpers too"
)]

mod connection;
mod contract;
mod faulty;
mod server;
mod users;
