//! Another server takes over.

use std::time::Duration;

use trawler::clock::SystemClock;
use trawler::queue::SharedQueue;
use trawler::queue::redis::{RedisSettings, Timing, open_with_timing};

use super::fake::Fake;
use super::{claim, is_lost, join, open_run, queue, run, settle, timing, why, with_run};
use crate::server::{FORGETS, Server, free_port};

/// One that follows, and has all that its master has.
async fn replica_of(master: &Server) -> Server {
    replica_at(&master.port.to_string()).await
}

async fn replica_at(port: &str) -> Server {
    let replica = Server::start(&[&FORGETS[..], &["--replicaof", "127.0.0.1", port]].concat());
    until(|| replica.ask::<String>(&["INFO", "replication"]).contains("master_link_status:up")).await;
    replica
}

async fn until(holds: impl Fn() -> bool) {
    for _ in 0..1_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it did not come to be so in 20 seconds");
}

/// What was answered is on the replica too.
fn replicated(master: &Server) {
    // `WAIT` waits for the writes of its connection, and for what came before them.
    let mut connection = redis::Client::open(master.url()).unwrap().get_connection().unwrap();
    let (_, replicas): (i64, i64) =
        redis::pipe().cmd("INCR").arg("writes").cmd("WAIT").arg(1).arg(5_000).query(&mut connection).unwrap();
    assert_eq!(replicas, 1);
}

#[tokio::test]
async fn sentinels_lead_to_the_replica_that_took_over() {
    let mut master = Server::start(&FORGETS);
    let _replica = replica_of(&master).await;
    let sentinel = Server::start_with(
        "sentinel.conf",
        &format!(
            "sentinel monitor main 127.0.0.1 {} 1\nsentinel down-after-milliseconds main 500\n\
             sentinel failover-timeout main 5000\n",
            master.port
        ),
        &["sentinel.conf", "--sentinel"],
    );
    until(|| sentinel.ask::<Vec<redis::Value>>(&["SENTINEL", "REPLICAS", "main"]).len() == 1).await;
    let url = format!("redis+sentinel://127.0.0.1:{}/main", sentinel.port);
    let crawler = patient(&RedisSettings { url, ..master.settings("i") });
    open_run(&crawler, 10).await;
    let holder = join(&crawler, 0).await.unwrap();
    let tasks = claim(&crawler, &holder, 4).await.unwrap();
    replicated(&master);
    master.kill();

    settle(&crawler, &holder, &tasks).await.unwrap();
    let ledger = crawler.ledger(&run()).await.unwrap();
    assert_eq!((ledger.done, ledger.queued, ledger.leased), (4, 6, 0));
}

#[tokio::test]
async fn a_service_that_no_sentinel_knows_is_named() {
    let sentinel = Server::start_with("sentinel.conf", "", &["sentinel.conf", "--sentinel"]);
    let url = format!("redis+sentinel://127.0.0.1:{}/other", sentinel.port);
    let why = why(join(&queue(&RedisSettings { url, ..sentinel.settings("i") }), 0).await);
    assert!(
        why.starts_with("no sentinel names a master of the queue's Redis other (by the sentinels 127.0.0.1:"),
        "{why}"
    );
}

#[tokio::test]
async fn an_address_that_leads_to_the_replica_is_followed_once_it_takes_writes() {
    let mut master = Server::start(&FORGETS);
    let replica = replica_of(&master).await;
    let fake = Fake::before(master.port).await;
    let crawler = queue(&fake.settings("i"));
    open_run(&crawler, 10).await;
    let holder = join(&crawler, 0).await.unwrap();
    let tasks = claim(&crawler, &holder, 4).await.unwrap();
    replicated(&master);
    master.kill();
    fake.lead_to(replica.port);

    let takes_over = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        replica.ask::<String>(&["REPLICAOF", "NO", "ONE"]);
    };
    let (settled, ()) = tokio::join!(settle(&crawler, &holder, &tasks), takes_over);
    settled.unwrap();
    let ledger = crawler.ledger(&run()).await.unwrap();
    assert_eq!((ledger.done, ledger.queued, ledger.leased), (4, 6, 0));
}

// The forwarder goes on while the test waits for the replica.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_lacks_what_was_answered_is_told_from_its_master() {
    let mut master = Server::start(&FORGETS);
    let link = Fake::before(master.port).await;
    let replica = replica_at(&link.port.to_string()).await;
    let fake = Fake::before(master.port).await;
    let owner = with_run(&fake.settings("i"), 10).await;
    let crawler = queue(&fake.settings("i"));
    let holder = join(&crawler, 0).await.unwrap();
    replicated(&master);
    link.lead_to(free_port());
    until(|| replica.ask::<String>(&["INFO", "replication"]).contains("master_link_status:down")).await;
    assert_eq!(claim(&crawler, &holder, 4).await.unwrap().len(), 4);
    master.kill();
    replica.ask::<String>(&["REPLICAOF", "NO", "ONE"]);
    fake.lead_to(replica.port);

    assert!(is_lost(&claim(&crawler, &holder, 4).await));
    assert!(is_lost(&owner.ledger(&run()).await));
}

fn patient(settings: &RedisSettings) -> SharedQueue {
    let timing = Timing { patience: Duration::from_secs(30), ..timing() };
    open_with_timing(settings, SystemClock::shared(), timing).unwrap()
}
