//! Builders and loopback servers for the tests.

pub(crate) mod encodings;
pub(crate) mod http_client;
pub(crate) mod http_server;
