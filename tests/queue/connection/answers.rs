//! The server answers what is no answer, or nothing at all.

use std::time::Duration;

use trawler::clock::SystemClock;
use trawler::queue::QueueError;
use trawler::queue::redis::{RedisSettings, Timing, open_with_timing};

use super::fake::{Answer, Fake};
use super::{claim, join, queue, run, settle, timing, why, with_run};
use crate::server::{FORGETS, Server, free_port, shared};

const LOADING: Answer = Answer::Say("-LOADING Redis is loading the dataset in memory\r\n");
const BUSY: Answer =
    Answer::Say("-BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.\r\n");
const READONLY: Answer = Answer::Say("-READONLY You can't write against a read only replica.\r\n");
const MASTERDOWN: Answer =
    Answer::Say("-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n");

#[tokio::test]
async fn what_a_server_can_not_do_at_present_is_tried_again() {
    let (server, instance) = shared(false);
    with_run(&server.settings(&instance), 10).await;
    let fake = Fake::before(server.port).await;
    let crawler = queue(&fake.settings(&instance));
    let holder = join(&crawler, 0).await.unwrap();
    fake.answer_next([LOADING, BUSY, READONLY, MASTERDOWN]);
    assert_eq!(claim(&crawler, &holder, 5).await.unwrap().len(), 5);
    assert_eq!(fake.left(), 0);
}

#[tokio::test]
async fn what_was_done_before_its_answer_was_lost_is_not_done_twice() {
    let (server, instance) = shared(false);
    let owner = with_run(&server.settings(&instance), 10).await;
    let fake = Fake::before(server.port).await;
    let crawler = queue(&fake.settings(&instance));
    let holder = join(&crawler, 0).await.unwrap();

    fake.answer_next([Answer::Lose]);
    let tasks = claim(&crawler, &holder, 4).await.unwrap();
    assert_eq!((tasks.len(), owner.ledger(&run()).await.unwrap().leased), (4, 4));
    fake.answer_next([Answer::Lose]);
    settle(&crawler, &holder, &tasks).await.unwrap();
    let ledger = owner.ledger(&run()).await.unwrap();
    assert_eq!((ledger.done, ledger.leased, ledger.queued, ledger.discovered), (4, 0, 6, 10));
    assert_eq!(fake.left(), 0);
}

#[tokio::test]
async fn a_server_that_can_never_is_given_up_with_a_sentence() {
    let cases = [
        (LOADING, "is still loading its data"),
        (BUSY, "can't at present: BUSY"),
        (READONLY, "is a replica that takes no writes; it must become the master, or the address must name the master"),
    ];
    for (answer, sentence) in cases {
        let fake = Fake::answering(answer).await;
        let error = join(&impatient(&fake.settings("i")), 0).await.unwrap_err();
        assert!(matches!(&error, QueueError::Unreachable { why } if why.contains(sentence)), "{error:?}");
    }
}

#[tokio::test]
async fn a_server_without_functions_is_named_as_such() {
    let fake = Fake::answering(Answer::Say("-ERR unknown command 'FCALL', with args beginning with: 'x' \r\n")).await;
    let why = format!(
        "the server at {} has no functions; the queue needs Redis 7 or later, or a server that is like it",
        fake.at()
    );
    assert_eq!(join(&queue(&fake.settings("i")), 0).await, Err(QueueError::Refused { why }));
    assert_eq!(fake.accepted(), 1);
}

#[tokio::test]
async fn what_is_not_a_redis_is_named_as_such() {
    let fake = Fake::answering(Answer::Say("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")).await;
    let error = join(&queue(&fake.settings("i")), 0).await.unwrap_err();
    let sentence = format!("the server at {} does not answer as a Redis does", fake.at());
    assert!(matches!(&error, QueueError::Refused { why } if why.starts_with(&sentence)), "{error:?}");
}

#[tokio::test]
async fn where_nobody_listens_calls_end_with_a_sentence() {
    let server = Server::start(&FORGETS);
    let settings = RedisSettings { url: format!("redis://127.0.0.1:{}", free_port()), ..server.settings("i") };
    let queue = impatient(&settings);
    let calls: Vec<_> = (0..50).map(|token| join(&queue, token)).collect();
    for answer in futures_util::future::join_all(calls).await {
        let why = why(answer);
        assert!(why.contains("can't be reached"), "{why}");
    }
}

#[tokio::test]
async fn a_server_that_hangs_up_is_not_called_without_pause() {
    let fake = Fake::answering(Answer::Close).await;
    let queue = impatient(&fake.settings("i"));
    let calls: Vec<_> = (0..50).map(|token| join(&queue, token)).collect();
    for answer in futures_util::future::join_all(calls).await {
        let why = why(answer);
        assert!(why.contains("broke"), "{why}");
    }
    // Each call is repeated thrice, together with the others that wait.
    assert!(fake.accepted() <= 20, "{} connections", fake.accepted());
}

fn impatient(settings: &RedisSettings) -> trawler::queue::SharedQueue {
    let patience = Duration::from_millis(600);
    let timing = Timing { patience, first_patience: patience, ..timing() };
    open_with_timing(settings, SystemClock::shared(), timing).unwrap()
}
