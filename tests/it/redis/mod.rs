//! What people are told of a Redis server: its fitness, and the rights that it needs.

mod acl;
mod doctor;

use std::path::PathBuf;

use trawler::queue::redis::RedisSettings;

use crate::support::redis::{Options, RedisServer};

/// A server with the two users of an instance.
fn server_with_users(config: &[&str]) -> RedisServer {
    let users = trawler::queue::redis::acl::lines("it");
    RedisServer::start(Options {
        users,
        config: config.iter().map(|line| (*line).to_owned()).collect(),
        ..Options::default()
    })
}

fn settings(url: String) -> RedisSettings {
    RedisSettings { url, password_file: None::<PathBuf>, ca_file: None, instance: "it".to_owned() }
}

fn as_owner(server: &RedisServer) -> RedisSettings {
    settings(server.url_for("trawler-it-owner", "OWNER-PASSWORD"))
}

fn as_crawler(server: &RedisServer) -> RedisSettings {
    settings(server.url_for("trawler-it-crawler", "CRAWLER-PASSWORD"))
}
