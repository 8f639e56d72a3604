//! Builders and loopback servers for the tests.

pub(crate) mod dcat;
pub(crate) mod exchange;
pub(crate) mod reader_contract;
