//! The server stops for a moment, restarts, or comes back with less than it had.

use std::time::Duration;

use trawler::queue::{Claim, QueueError};

use super::{claim, is_lost, join, open_run, queue, run, settle, with_run, work, works_through};
use crate::contract::scene::pages;
use crate::server::{FORGETS, KEEPS, Server};

const SNAPSHOTS: [&str; 4] = ["--save", "3600 1000000", "--appendonly", "no"];

#[tokio::test]
async fn a_server_that_stands_still_for_longer_than_calls_wait_loses_and_doubles_nothing() {
    let server = Server::start(&FORGETS);
    works_through(&server.settings_as("owner", "i"), 2_000, async {
        server.signal("STOP");
        tokio::time::sleep(Duration::from_secs(5)).await;
        server.signal("CONT");
    })
    .await;
}

#[tokio::test]
async fn a_server_that_writes_everything_down_may_crash_and_restart() {
    let mut server = Server::start(&KEEPS);
    // As whoever needs no user: users are not written down.
    works_through(&server.settings("i"), 1_000, async {
        server.kill();
        tokio::time::sleep(Duration::from_millis(300)).await;
        server.run();
    })
    .await;
}

#[tokio::test]
async fn a_queue_that_a_restart_lost_is_told_as_lost_and_opened_anew() {
    let mut server = Server::start(&FORGETS);
    let settings = server.settings("i");
    let owner = with_run(&settings, 10).await;
    let crawler = queue(&settings);
    let holder = join(&crawler, 0).await.unwrap();
    let tasks = claim(&crawler, &holder, 5).await.unwrap();
    server.kill();
    server.run();

    assert!(is_lost(&settle(&crawler, &holder, &tasks).await));
    assert!(is_lost(&owner.push(&run(), pages("a", 1)).await));
    // And it stays so until somebody opens the run.
    let gone = Err(QueueError::NoSuchRun { run: run() });
    assert_eq!(crawler.claim(&holder, 1).await, gone);
    assert_eq!(owner.ledger(&run()).await.map(drop), Err(QueueError::NoSuchRun { run: run() }));

    open_run(&owner, 3).await;
    assert_eq!(crawler.claim(&holder, 1).await, Err(QueueError::Fenced { run: run(), token: 0 }));
    work(crawler, 0).await;
    assert_eq!(owner.ledger(&run()).await.unwrap().done, 3);
}

#[tokio::test]
async fn a_crawler_that_loads_no_functions_is_told_too_that_the_queue_was_lost() {
    let mut server = Server::start(&FORGETS);
    let owner = with_run(&server.settings("i"), 10).await;
    let crawler = queue(&server.settings_as("crawler", "i"));
    let holder = join(&crawler, 0).await.unwrap();
    server.kill();
    server.run();
    server.settings_as("crawler", "i");

    assert!(is_lost(&claim(&crawler, &holder, 5).await));
    assert!(is_lost(&owner.ledger(&run()).await));
}

#[tokio::test]
async fn a_queue_that_somebody_emptied_is_told_as_lost() {
    let server = Server::start(&FORGETS);
    let settings = server.settings_as("owner", "i");
    let owner = with_run(&settings, 10).await;
    let crawler = queue(&settings);
    let holder = join(&crawler, 0).await.unwrap();
    server.ask::<String>(&["FLUSHALL"]);

    assert!(is_lost(&claim(&crawler, &holder, 5).await));
    assert!(is_lost(&owner.wait(&run(), 0, jiff::Timestamp::MAX).await));
    open_run(&owner, 3).await;
    work(crawler, 0).await;
    assert_eq!(owner.ledger(&run()).await.unwrap().done, 3);
}

#[tokio::test]
async fn a_queue_that_went_back_in_time_is_lost_for_all_once_one_has_noticed() {
    let mut server = Server::start(&SNAPSHOTS);
    let settings = server.settings("i");
    let owner = with_run(&settings, 10).await;
    let crawler = queue(&settings);
    let holder = join(&crawler, 0).await.unwrap();
    // What the owner learns last, the snapshot has: only the crawler can know better.
    owner.ledger(&run()).await.unwrap();
    server.ask::<String>(&["SAVE"]);
    let tasks = claim(&crawler, &holder, 5).await.unwrap();
    settle(&crawler, &holder, &tasks).await.unwrap();
    server.kill();
    server.run();

    assert!(is_lost(&crawler.claim(&holder, 5).await));
    assert!(is_lost(&owner.ledger(&run()).await));
    open_run(&owner, 4).await;
    work(crawler, 0).await;
    assert_eq!(owner.ledger(&run()).await.unwrap().done, 4);
}

#[tokio::test]
async fn an_append_only_file_of_before_is_noticed_by_the_owner() {
    let mut server = Server::start(&KEEPS);
    let settings = server.settings("i");
    let owner = with_run(&settings, 10).await;
    let (now, before) = (server.path("appendonlydir"), server.path("before"));
    copy(&now, &before);
    owner.push(&run(), pages("a", 12)).await.unwrap();
    server.kill();
    std::fs::remove_dir_all(&now).unwrap();
    copy(&before, &now);
    server.run();

    assert!(is_lost(&owner.push(&run(), pages("a", 14)).await));
    open_run(&owner, 2).await;
    let holder = join(&owner, 0).await.unwrap();
    assert!(matches!(owner.claim(&holder, 9).await, Ok(Claim::Tasks(tasks)) if tasks.len() == 2));
}

#[tokio::test]
async fn a_run_of_the_same_name_is_not_taken_for_the_past_of_the_one_before() {
    let server = Server::start(&FORGETS);
    let settings = server.settings("i");
    let owner = with_run(&settings, 10).await;
    owner.push(&run(), pages("a", 20)).await.unwrap();
    let looker = queue(&settings);
    looker.ledger(&run()).await.unwrap();
    owner.close(&run()).await.unwrap();
    owner.open(crate::contract::scene::config(&["a"])).await.unwrap();
    assert_eq!(looker.ledger(&run()).await.unwrap().discovered, 0);
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}
