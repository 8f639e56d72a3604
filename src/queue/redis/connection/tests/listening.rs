//! Subscriptions.

use super::*;

const CHANNEL: &str = "trawler:{it}:news";

fn message(text: &str) -> Heard {
    Heard::Message(text.as_bytes().to_vec())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_published_after_the_subscription_is_heard_by_all() {
    let server = RedisServer::start(Options::default());
    let connection = quick(server.url());
    let mut first = connection.subscribe(CHANNEL).await.unwrap();
    let mut second = connection.subscribe(CHANNEL).await.unwrap();
    let mut other = connection.subscribe("trawler:{it}:other").await.unwrap();
    assert_eq!(server.command(&["PUBLISH", CHANNEL, "one"]).unwrap(), ":1\r\n");
    server.command(&["PUBLISH", "trawler:{it}:other", "two"]);
    assert_eq!(first.next().await, message("one"));
    assert_eq!(second.next().await, message("one"));
    assert_eq!(other.next().await, message("two"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gap_is_told_and_messages_go_on() {
    let mut server = RedisServer::start(Options::default());
    let connection = quick(server.url());
    let mut subscription = connection.subscribe(CHANNEL).await.unwrap();
    server.restart();
    assert_eq!(subscription.next().await, Heard::Gap);
    // After the second one, nothing more is missed.
    assert_eq!(subscription.next().await, Heard::Gap);
    assert_eq!(server.command(&["PUBLISH", CHANNEL, "one"]).unwrap(), ":1\r\n");
    assert_eq!(subscription.next().await, message("one"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stalls_is_a_gap() {
    let server = RedisServer::start(Options::default());
    let connection = quick(server.url());
    let mut subscription = connection.subscribe(CHANNEL).await.unwrap();
    server.pause();
    assert_eq!(subscription.next().await, Heard::Gap);
    server.resume();
    assert_eq!(subscription.next().await, Heard::Gap);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_is_slow_has_a_gap() {
    let server = RedisServer::start(Options::default());
    let connection = quick(server.url());
    let mut slow = connection.subscribe(CHANNEL).await.unwrap();
    let mut quick = connection.subscribe(CHANNEL).await.unwrap();
    for count in 0..100 {
        server.command(&["PUBLISH", CHANNEL, &count.to_string()]);
        assert_eq!(quick.next().await, message(&count.to_string()));
    }
    assert_eq!(slow.next().await, Heard::Gap);
    assert_eq!(slow.next().await, message("36"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn channels_that_nobody_listens_to_are_given_back() {
    let server = RedisServer::start(Options::default());
    let connection = quick(server.url());
    let subscription = connection.subscribe(CHANNEL).await.unwrap();
    let mut other = connection.subscribe("trawler:{it}:other").await.unwrap();
    drop(subscription);
    server.wait_for(&["PUBSUB", "NUMSUB", CHANNEL], ":0\r\n");
    let mut again = connection.subscribe(CHANNEL).await.unwrap();
    server.command(&["PUBLISH", CHANNEL, "one"]);
    assert_eq!(again.next().await, message("one"));
    server.command(&["PUBLISH", "trawler:{it}:other", "two"]);
    assert_eq!(other.next().await, message("two"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_cannot_subscribe_is_told_why() {
    let port = super::server::free_port();
    let connection = quick(format!("redis://127.0.0.1:{port}"));
    let nothing = connection.subscribe(CHANNEL).await.map(|_| ());
    assert_fault(&nothing, Fault::NotSent, &["nothing listens there"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_outlives_the_connection_it_came_from() {
    let server = RedisServer::start(Options::default());
    let mut subscription = quick(server.url()).subscribe(CHANNEL).await.unwrap();
    server.command(&["PUBLISH", CHANNEL, "one"]);
    assert_eq!(subscription.next().await, message("one"));
    drop(subscription);
    server.wait_for(&["PUBSUB", "NUMSUB", CHANNEL], ":0\r\n");
}
