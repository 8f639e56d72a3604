//! What needs a person: each is one sentence.

use super::fake::{Fake, HELLO};
use super::*;
use crate::queue::QueueError;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_at_its_memory_limit_refuses_only_what_takes_memory() {
    let (server, connection) = served(Options::default()).await;
    server.command(&["CONFIG", "SET", "maxmemory", "100kb"]);
    let fault = connection.call("write", &[b"x"]).await;
    assert_fault(&fault, Fault::OutOfMemory, &["has reached its memory limit", "raise its maxmemory"]);
    assert!(matches!(QueueError::from(fault.unwrap_err()), QueueError::Unreachable { .. }));
    assert_eq!(echo(&connection).await.unwrap(), "trawler:{it}: hello");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_rights_is_told_which_are_missing() {
    let users = [
        "user nobody on >secret ~* +ping",
        "user crawler on >secret ~trawler:{it}:* &trawler:{it}:* +fcall +set",
        "user stranger on >secret ~trawler:{other}:* +fcall +set",
    ];
    let options = Options { users: users.map(str::to_owned).to_vec(), ..Options::default() };
    let (server, _owner) = served(options).await;
    let as_user = |user: &str| quick(server.url_for(user, "secret"));

    assert_fault(&echo(&as_user("nobody")).await, Fault::Denied, &["'fcall'"]);
    assert_fault(&as_user("stranger").call("write", &[b"x"]).await, Fault::Denied, &["key"]);
    let crawler = as_user("crawler");
    assert_eq!(crawler.call("write", &[b"x"]).await.unwrap(), b"x");
    let fault = crawler.call("read", &[]).await;
    assert_fault(&fault, Fault::Denied, &["script: read"]);
    assert!(matches!(QueueError::from(fault.unwrap_err()), QueueError::Refused { .. }));
    assert_fault(&crawler.load_library("x", "#!lua name=x").await, Fault::Denied, &["'function|list'"]);
    let heard = crawler.subscribe("trawler:{other}:x").await.map(|_| ());
    assert_fault(&heard, Fault::Denied, &["subscribe"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_does_not_exist_is_named() {
    let (server, _connection) = served(Options::default()).await;
    let third = quick(format!("{}/3", server.url()));
    third.call("write", &[b"x"]).await.unwrap();
    assert!(server.command(&["INFO", "keyspace"]).unwrap().contains("db3:keys=1"));
    let fault = echo(&quick(format!("{}/99", server.url()))).await;
    assert_fault(&fault, Fault::WrongDatabase, &["does not have the database", "out of range"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_takes_no_more_clients_is_tried_again_later() {
    let (server, connection) = served(Options::default()).await;
    server.command(&["CONFIG", "SET", "maxclients", "1"]);
    let fault = echo(&quick(server.url())).await;
    assert_fault(&fault, Fault::TryAgain, &["max number of clients reached"]);
    assert_eq!(echo(&connection).await.unwrap(), "trawler:{it}: hello");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_redis_is_called_so() {
    let http = Fake::serving(async |mut stream| {
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").await
    })
    .await;
    let at = format!("127.0.0.1:{}", http.port);
    assert_fault(&echo(&quick(http.url())).await, Fault::NotRedis, &[&at, "does not speak Redis's protocol"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_says_nothing_is_not_waited_for() {
    let silent = Fake::serving(async |_stream| std::future::pending().await).await;
    assert_fault(&echo(&quick(silent.url())).await, Fault::NotSent, &["127.0.0.1", "did not answer within 1 s"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_without_functions_are_refused() {
    let ancient =
        Fake::answering(|_| Some("-ERR unknown command `HELLO`, with args beginning with: `3`, \r\n".to_owned())).await;
    assert_fault(&echo(&quick(ancient.url())).await, Fault::NotRedis7, &["has no functions", "7.0 or later"]);
    let old = Fake::answering(|_| Some(HELLO.replace("7.0.0", "6.2.6"))).await;
    assert_fault(&echo(&quick(old.url())).await, Fault::NotRedis7, &["version 6.2.6"]);
    let other = Fake::answering(|command| {
        let is_hello = command.starts_with("HELLO");
        Some(if is_hello { HELLO.to_owned() } else { "-ERR unknown command 'FCALL'\r\n".to_owned() })
    })
    .await;
    assert_fault(&echo(&quick(other.url())).await, Fault::NotRedis7, &["unknown command 'FCALL'"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_of_a_cluster_is_refused() {
    let cluster = Fake::answering(|_| Some(HELLO.replace("$10\r\nstandalone", "$7\r\ncluster"))).await;
    assert_fault(&echo(&quick(cluster.url())).await, Fault::Unfit, &["Redis Cluster"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_save_says_so() {
    let full = Fake::answering(|command| {
        let is_hello = command.starts_with("HELLO");
        Some(if is_hello {
            HELLO.to_owned()
        } else {
            "-MISCONF Redis is configured to save RDB snapshots\r\n".to_owned()
        })
    })
    .await;
    assert_fault(&echo(&quick(full.url())).await, Fault::CantSave, &["can't write to its disk", "disk is full"]);
}
