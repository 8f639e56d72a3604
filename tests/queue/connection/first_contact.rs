//! The first words with a server: who is let in, by which way, and what is said when nobody is.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use trawler::clock::SystemClock;
use trawler::queue::redis::{RedisSettings, Timing, open_with_timing};
use trawler::queue::{QueueError, SharedQueue};

use super::{join, open_run, queue, timing, with_run};
use crate::server::{FORGETS, PASSWORD, Server, free_port};

fn impatient(settings: &RedisSettings) -> SharedQueue {
    let patience = Duration::from_millis(600);
    let timing = Timing { patience, first_patience: patience, ..timing() };
    open_with_timing(settings, SystemClock::shared(), timing).unwrap()
}

fn is_refused<T: std::fmt::Debug>(answer: Result<T, QueueError>, words: &[&str]) {
    let error = answer.unwrap_err();
    assert!(matches!(error, QueueError::Refused { .. }), "{error:?}");
    let why = error.to_string();
    for words in words {
        assert!(why.contains(words), "{words:?} is not in: {why}");
    }
}

#[tokio::test]
async fn a_server_that_takes_no_more_clients_is_tried_again_later() {
    let server = Server::start(&FORGETS);
    let only = with_run(&server.settings("i"), 1).await;
    server.ask::<String>(&["CONFIG", "SET", "maxclients", "1"]);

    let error = join(&impatient(&server.settings("i")), 0).await.unwrap_err();
    let words = "takes no more clients";
    assert!(matches!(&error, QueueError::Unreachable { why } if why.contains(words)), "{error:?}");
    let crawler = queue(&server.settings("i"));
    let leaves = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        drop(only);
    };
    let (joined, ()) = tokio::join!(join(&crawler, 0), leaves);
    joined.unwrap();
}

#[tokio::test]
async fn a_right_that_is_missing_inside_a_function_is_told_as_such() {
    let server = Server::start(&FORGETS);
    let owner = with_run(&server.settings_as("owner", "i"), 1).await;
    let crawler = server.settings_as("crawler", "i");
    server.ask::<String>(&["ACL", "SETUSER", "trawler-i-crawler", "-hget", "-hmget"]);
    is_refused(join(&queue(&crawler), 0).await, &["may not do this", "`trawler queue acl` prints what it needs"]);
    drop(owner);
}

#[tokio::test]
async fn a_user_without_a_password_is_the_user() {
    let server = Server::start(&FORGETS);
    server.ask::<String>(&["ACL", "SETUSER", "guest", "on", "nopass", "~*", "&*", "+@all"]);
    server.ask::<String>(&["ACL", "SETUSER", "default", "off"]);
    let url = format!("redis://guest@127.0.0.1:{}", server.port);
    with_run(&RedisSettings { url, ..server.settings("i") }, 1).await;
}

#[tokio::test]
async fn a_password_file_that_is_late_is_waited_for() {
    let server = Server::start(&FORGETS);
    let owner = server.settings_as("owner", "i");
    let file = server.path("password");
    std::fs::write(&file, "not yet").unwrap();
    let url = owner.url.replace(&format!(":{PASSWORD}@"), "@");
    let queue = queue(&RedisSettings { url, password_file: Some(file.clone()), ..owner });
    let comes = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        std::fs::write(&file, PASSWORD).unwrap();
    };
    tokio::join!(open_run(&queue, 1), comes);
}

#[tokio::test]
async fn certificates_for_an_address_without_tls_are_refused() {
    let server = Server::start(&FORGETS);
    let settings = RedisSettings { ca_file: Some("ca.pem".into()), ..server.settings("i") };
    let opened = open_with_timing(&settings, SystemClock::shared(), timing());
    is_refused(opened.map(drop), &["file with certificates", "rediss://"]);
}

#[tokio::test]
async fn who_speaks_tls_and_who_does_not_is_told_apart() {
    let (server, port, files) = tls_server("yes");
    let over_tls = |port: u16| RedisSettings {
        url: format!("rediss://127.0.0.1:{port}"),
        ca_file: Some(files.path().join("cert")),
        ..server.settings("i")
    };
    let answer = join(&impatient(&over_tls(port)), 0).await;
    is_refused(answer, &["asks for a client certificate", "tls-auth-clients"]);

    let http = TcpListener::bind("127.0.0.1:0").unwrap();
    let http_port = http.local_addr().unwrap().port();
    let answers = std::thread::spawn(move || {
        let (mut client, _) = http.accept().unwrap();
        client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        // Until the other side has read enough of it.
        drop(client.read(&mut [0; 4096]));
        client
    });
    is_refused(join(&impatient(&over_tls(http_port)), 0).await, &["does not speak TLS", "redis://"]);
    answers.join().unwrap();
}

#[tokio::test]
async fn a_sentinel_that_says_nothing_is_passed_over() {
    let master = Server::start(&FORGETS);
    let watch = format!("sentinel monitor main 127.0.0.1 {} 1\n", master.port);
    let sentinel = Server::start_with("sentinel.conf", &watch, &["sentinel.conf", "--sentinel"]);
    // Connections are made, and nobody answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_port = silent.local_addr().unwrap().port();
    let nowhere = free_port();
    let url = format!("redis+sentinel://127.0.0.1:{silent_port},127.0.0.1:{nowhere},127.0.0.1:{}/main", sentinel.port);
    with_run(&RedisSettings { url, ..master.settings("i") }, 1).await;
}

/// A server that speaks TLS at a second port, and its files.
fn tls_server(auth_clients: &str) -> (Server, u16, tempfile::TempDir) {
    let (certificate, key) = super::refusals::certificate();
    let files = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("cert"), certificate).unwrap();
    std::fs::write(path("key"), key).unwrap();
    let port = free_port();
    let server = Server::start(
        &[
            &FORGETS[..],
            &["--tls-port", &port.to_string(), "--tls-auth-clients", auth_clients],
            &["--tls-cert-file", &path("cert"), "--tls-key-file", &path("key"), "--tls-ca-cert-file", &path("cert")],
        ]
        .concat(),
    );
    (server, port, files)
}

#[tokio::test]
async fn sentinels_that_name_no_master_yet_are_asked_again() {
    let master = Server::start(&FORGETS);
    let sentinel = Server::start_with("sentinel.conf", "\n", &["sentinel.conf", "--sentinel"]);
    let url = format!("redis+sentinel://127.0.0.1:{}/main", sentinel.port);
    let settings = RedisSettings { url, ..master.settings("i") };
    let error = join(&impatient(&settings), 0).await.unwrap_err();
    let words = "no sentinel names a master";
    assert!(matches!(&error, QueueError::Unreachable { why } if why.contains(words)), "{error:?}");

    let queue = queue(&settings);
    let comes = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let port = master.port.to_string();
        sentinel.ask::<String>(&["SENTINEL", "MONITOR", "main", "127.0.0.1", &port, "1"]);
    };
    tokio::join!(open_run(&queue, 1), comes);
}
