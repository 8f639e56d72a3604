//! Builders and loopback servers for the tests.
