//! Sentinels, and what they do when the master is lost.

use super::*;

fn sentinel(master: u16, quorum: usize) -> RedisServer {
    let config = vec![
        format!("sentinel monitor main 127.0.0.1 {master} {quorum}"),
        "sentinel down-after-milliseconds main 300".to_owned(),
        "sentinel failover-timeout main 2000".to_owned(),
    ];
    RedisServer::start(Options { config, arguments: vec!["--sentinel".to_owned()], ..Options::default() })
}

/// Longer than Sentinels need to agree.
const PATIENT: Timing = Timing { patience: Duration::from_secs(20), ..QUICK };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_new_master_is_found_after_a_failover() {
    let mut master = RedisServer::start(Options::default());
    let replica = RedisServer::start(Options::default());
    replica.command(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    replica.wait_for(&["INFO", "replication"], "master_link_status:up");
    let sentinel = sentinel(master.port(), 1);
    sentinel.wait_for(&["SENTINEL", "MASTER", "main"], "num-slaves\r\n$1\r\n1");
    // The first one is not there, which must not matter.
    let url = format!("redis+sentinel://127.0.0.1:1,127.0.0.1:{}/main", sentinel.port());
    let connection = Connection::with_timing(&settings(url), PATIENT).unwrap();
    connection.load_library("tests", LIBRARY).await.unwrap();
    let mut subscription = connection.subscribe("trawler:{it}:news").await.unwrap();
    assert_eq!(connection.call("write", &[b"before"]).await.unwrap(), b"before");
    replica.wait_for(&["GET", "trawler:{it}:text"], "before");

    master.kill();
    let answer = connection.call("write", &[b"after"]).await;
    let answer = match answer {
        // It may have been sent before the loss was seen.
        Err(error) if error.kind == Fault::Unknown => connection.call("write", &[b"after"]).await,
        answer => answer,
    };
    assert_eq!(answer.unwrap(), b"after");
    assert!(replica.command(&["GET", "trawler:{it}:text"]).unwrap().contains("after"));

    // The subscription moves, too: it says so, and hears what is said there.
    assert_eq!(subscription.next().await, Heard::Gap);
    replica.wait_for(&["PUBSUB", "NUMSUB", "trawler:{it}:news"], ":1\r\n");
    replica.command(&["PUBLISH", "trawler:{it}:news", "here"]);
    loop {
        match subscription.next().await {
            Heard::Gap => {}
            Heard::Message(message) => break assert_eq!(message, b"here"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_sentinels_do_not_know_is_told() {
    let master = RedisServer::start(Options::default());
    let sentinel = sentinel(master.port(), 1);
    let at = format!("127.0.0.1:{}", sentinel.port());
    let unknown = quick(format!("redis+sentinel://{at}/other"));
    assert_fault(&echo(&unknown).await, Fault::Unfit, &[&at, "knows no service 'other'"]);
    let nobody = quick("redis+sentinel://127.0.0.1:1/main".to_owned());
    assert_fault(&echo(&nobody).await, Fault::NotSent, &["the Sentinel 127.0.0.1:1", "nothing listens"]);
    let plain = quick(format!("redis://{at}"));
    assert_fault(&echo(&plain).await, Fault::Unfit, &["is a Sentinel", "redis+sentinel://"]);
}
