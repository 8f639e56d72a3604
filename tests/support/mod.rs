//! Builders and loopback servers for the tests.

pub(crate) mod records;
