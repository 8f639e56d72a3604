//! Builders and loopback servers for the tests.

pub(crate) mod busy_queue;
pub(crate) mod dcat;
pub(crate) mod documents;
pub(crate) mod encodings;
pub(crate) mod exchange;
pub(crate) mod federation;
pub(crate) mod http_client;
pub(crate) mod http_server;
pub(crate) mod local_run;
pub(crate) mod moody_queue;
pub(crate) mod paged_feed;
pub(crate) mod reader_contract;
pub(crate) mod records;
pub(crate) mod trawler;
