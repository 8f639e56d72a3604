//! Servers that stall, end, come back, and hand over to others.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;

use super::fake::{Fake, Forwarder, HELLO};
use super::server::Aof;
use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_between_two_calls_is_not_noticed() {
    let (mut server, connection) = served(Options { aof: Aof::Always, ..Options::default() }).await;
    assert_eq!(connection.call("count", &[]).await.unwrap(), b"1");
    server.restart();
    loss_seen(&connection).await;
    assert_eq!(connection.call("count", &[]).await.unwrap(), b"2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_waits_for_a_server_that_comes_back() {
    let (mut server, connection) = served(Options { aof: Aof::Always, ..Options::default() }).await;
    server.kill();
    loss_seen(&connection).await;
    let call = tokio::spawn(async move { echo(&connection).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!call.is_finished());
    server.restart();
    assert_eq!(call.await.unwrap().unwrap(), "trawler:{it}: hello");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_to_a_server_that_is_gone_was_not_sent() {
    let (mut server, connection) = served(Options::default()).await;
    server.kill();
    loss_seen(&connection).await;
    let fault = echo(&connection).await;
    assert_fault(&fault, Fault::NotSent, &[&format!("127.0.0.1:{}", server.port()), "nothing listens there"]);
    assert!(fault.unwrap_err().kind.passes());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_stall_is_waited_out() {
    let (server, connection) = served(Options::default()).await;
    server.pause();
    let call = tokio::spawn(async move { echo(&connection).await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!call.is_finished());
    server.resume();
    assert_eq!(call.await.unwrap().unwrap(), "trawler:{it}: hello");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_fate_of_a_call_that_is_not_answered_is_unknown() {
    let (server, connection) = served(Options::default()).await;
    server.pause();
    assert_fault(&echo(&connection).await, Fault::Unknown, &["took too long", "is not known"]);
    server.resume();
    assert_eq!(echo(&connection).await.unwrap(), "trawler:{it}: hello");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_fate_of_a_call_whose_server_dies_is_unknown() {
    let (mut server, connection) = served(Options::default()).await;
    let call = tokio::spawn(async move { connection.call("spin", &[]).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    server.kill();
    assert_fault(&call.await.unwrap(), Fault::Unknown, &["the connection was lost"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_leads_to_the_new_master_is_followed() {
    let (old, connection) = served(Options::default()).await;
    let new = RedisServer::start(Options::default());
    let address = Forwarder::to(old.port()).await;
    let followed = quick(address.url());
    new.command(&["REPLICAOF", "127.0.0.1", &old.port().to_string()]);
    new.wait_for(&["INFO", "replication"], "master_link_status:up");
    assert_eq!(followed.call("write", &[b"before"]).await.unwrap(), b"before");

    new.command(&["REPLICAOF", "NO", "ONE"]);
    old.command(&["REPLICAOF", "127.0.0.1", &new.port().to_string()]);
    address.lead_to(new.port());
    // The connection to the old master is open still.
    assert_eq!(followed.call("write", &[b"after"]).await.unwrap(), b"after");
    assert!(new.command(&["GET", "trawler:{it}:text"]).unwrap().contains("after"));

    // Who has only the old master's address is told.
    assert_fault(&connection.call("write", &[b"x"]).await, Fault::ReadOnly, &["is a replica"]);
    assert_fault(&echo(&quick(old.url())).await, Fault::ReadOnly, &["is a replica"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_to_connect_are_few_however_many_ask() {
    let fake = Fake::serving(async |_| Ok(())).await;
    let connection = quick(fake.url());
    let faults = join_all((0..50).map(|_| echo(&connection))).await;
    for fault in &faults {
        assert_fault(fault, Fault::NotSent, &["closed the connection at once", "rediss://"]);
    }
    // Pauses of 50 to 100 ms after the first few, for two seconds.
    assert!((5..60).contains(&fake.connections()), "{}", fake.connections());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_breaks_with_every_call_is_not_made_in_a_hurry() {
    let fake = Fake::answering(|command| command.starts_with("HELLO").then(|| HELLO.to_owned())).await;
    let connection = quick(fake.url());
    for _ in 0..8 {
        assert_fault(&echo(&connection).await, Fault::Unknown, &["the connection was lost"]);
    }
    assert_eq!(fake.connections(), 8);
    let slot = connection.shared.slot.lock().await;
    assert_eq!(slot.failures, 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_that_pass_are_tried_again() {
    for refusal in ["LOADING Redis is loading", "TRYAGAIN later", "NOREPLICAS not enough", "MASTERDOWN Link is down"] {
        let refusals = AtomicUsize::new(0);
        let fake = Fake::answering(move |command| {
            Some(match (command.starts_with("HELLO"), refusals.load(Ordering::SeqCst)) {
                (true, _) => HELLO.to_owned(),
                (false, 3) => "$2\r\nOK\r\n".to_owned(),
                (false, _) => {
                    refusals.fetch_add(1, Ordering::SeqCst);
                    format!("-{refusal}\r\n")
                }
            })
        })
        .await;
        assert_eq!(echo(&quick(fake.url())).await.unwrap(), "OK", "{refusal}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_loads_its_data_is_waited_for() {
    let config = vec!["rdbcompression no".to_owned()];
    let (mut server, connection) = served(Options { config, ..Options::default() }).await;
    server.command(&["DEBUG", "POPULATE", "100", "key", "500"]);
    server.command(&["SAVE"]);
    // So many microseconds for each key.
    server.configure(&["key-load-delay 10000", "loading-process-events-interval-bytes 1024"]);
    server.restart();
    loss_seen(&connection).await;
    assert_eq!(echo(&connection).await.unwrap(), "trawler:{it}: hello");
    let errors = server.command(&["INFO", "errorstats"]).unwrap();
    assert!(errors.contains("errorstat_LOADING"), "{errors}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_a_script_keeps_busy_is_waited_for() {
    let (server, connection) =
        served(Options { config: vec!["busy-reply-threshold 50".to_owned()], ..Options::default() }).await;
    let other = quick(server.url());
    let spinning = tokio::spawn(async move { other.call("spin", &[]).await });
    server.wait_for(&["PING"], "-BUSY");
    assert_fault(&echo(&connection).await, Fault::Busy, &["kept busy by a script"]);
    let call = tokio::spawn(async move { echo(&connection).await });
    server.command(&["FUNCTION", "KILL"]);
    assert_eq!(call.await.unwrap().unwrap(), "trawler:{it}: hello");
    spinning.await.unwrap().unwrap_err();
}
