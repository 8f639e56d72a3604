//! What a person must act on: passwords, rights, certificates, databases, memory.

use trawler::queue::QueueError;
use trawler::queue::redis::RedisSettings;

use super::{claim, join, open_run, queue, run, why, with_run, work};
use crate::contract::scene::pages;
use crate::server::{FORGETS, PASSWORD, Server, free_port, shared};

#[tokio::test]
async fn a_server_without_memory_takes_nothing_more_and_is_worked_off() {
    let server = Server::start(&FORGETS);
    let owner = with_run(&server.settings_as("owner", "i"), 20).await;
    server.ask::<String>(&["CONFIG", "SET", "maxmemory", "1"]);

    let full = QueueError::Unreachable {
        why: format!(
            "the queue's Redis at 127.0.0.1:{} has reached its maxmemory; give it more, or wait until crawlers have worked \
             some off",
            server.port
        ),
    };
    assert_eq!(owner.push(&run(), pages("a", 21)).await, Err(full.clone()));
    let other = trawler::queue::RunConfig { run: "other".into(), ..crate::contract::scene::config(&["a"]) };
    assert_eq!(owner.open(other).await, Err(full));
    work(queue(&server.settings_as("crawler", "i")), 0).await;
    assert_eq!(owner.ledger(&run()).await.unwrap().done, 20);

    server.ask::<String>(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(owner.push(&run(), pages("a", 21)).await.unwrap().new, 1);
}

#[tokio::test]
async fn a_user_without_rights_is_told_how_to_get_them() {
    let (server, instance) = shared(false);
    let settings = server.settings_as("owner", &instance);
    let other = RedisSettings { instance: format!("{instance}-other"), ..settings };
    let why = why(join(&queue(&other), 0).await);
    assert!(why.contains("may not do this") && why.contains("`trawler queue acl` prints what it needs"), "{why}");
}

#[tokio::test]
async fn a_password_that_is_not_accepted_is_refused_and_never_shown() {
    let (server, instance) = shared(false);
    let settings = server.settings_as("owner", &instance);
    let at = format!("127.0.0.1:{}", server.port);
    let refused = QueueError::Refused {
        why: format!(
            "the queue's Redis at {at} does not accept the password or the user; check the address and the password file"
        ),
    };
    for url in [settings.url.replace(PASSWORD, "guessed"), format!("redis://nobody:guessed@{at}")] {
        assert_eq!(join(&queue(&RedisSettings { url, ..settings.clone() }), 0).await, Err(refused.clone()));
    }
    let locked = Server::start(&[&FORGETS[..], &["--user", "default", "on", ">secret", "~*", "&*", "+@all"]].concat());
    let error = join(&queue(&locked.settings("i")), 0).await.unwrap_err();
    assert!(matches!(&error, QueueError::Refused { why } if why.contains("does not accept the password")), "{error:?}");
}

#[tokio::test]
async fn a_password_file_that_changes_is_read_with_the_next_connection() {
    let server = Server::start(&FORGETS);
    let owner = server.settings_as("owner", "i");
    let file = server.path("password");
    std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    let url = owner.url.replace(&format!(":{PASSWORD}@"), "@");
    let queue = with_run(&RedisSettings { url, password_file: Some(file.clone()), ..owner }, 10).await;

    server.ask::<String>(&["ACL", "SETUSER", "trawler-i-owner", "resetpass", ">changed"]);
    std::fs::write(&file, "changed\n").unwrap();
    server.ask::<i64>(&["CLIENT", "KILL", "USER", "trawler-i-owner"]);
    assert_eq!(queue.ledger(&run()).await.unwrap().queued, 10);
}

#[tokio::test]
async fn a_database_that_is_not_there_is_refused() {
    let (server, instance) = shared(false);
    let settings = server.settings(&instance);
    let url = format!("{}/99", settings.url);
    let why =
        format!("the Redis at 127.0.0.1:{} has no database of that number; take it out of the address", server.port);
    assert_eq!(join(&queue(&RedisSettings { url, ..settings }), 0).await, Err(QueueError::Refused { why }));
}

#[tokio::test]
async fn databases_have_queues_of_their_own() {
    let (server, instance) = shared(false);
    let settings = server.settings(&instance);
    with_run(&settings, 3).await;
    let url = format!("{}/1", settings.url);
    let other = with_run(&RedisSettings { url, ..settings }, 5).await;
    assert_eq!(other.ledger(&run()).await.unwrap().queued, 5);
}

#[tokio::test]
async fn a_server_is_reached_by_tls_if_its_certificate_is_known() {
    let [known, unknown] = [(); 2].map(|()| certificate());
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("cert"), &known.0).unwrap();
    std::fs::write(path("key"), &known.1).unwrap();
    std::fs::write(path("other"), &unknown.0).unwrap();
    let port = free_port().to_string();
    let server = Server::start(
        &[
            &FORGETS[..],
            &["--tls-port", &port, "--tls-auth-clients", "no"],
            &["--tls-cert-file", &path("cert"), "--tls-key-file", &path("key"), "--tls-ca-cert-file", &path("cert")],
        ]
        .concat(),
    );
    let with = |ca: &str| RedisSettings {
        url: format!("rediss://127.0.0.1:{port}"),
        ca_file: Some(path(ca).into()),
        ..server.settings("i")
    };

    let owner = queue(&with("cert"));
    open_run(&owner, 4).await;
    let holder = join(&owner, 0).await.unwrap();
    assert_eq!(claim(&owner, &holder, 9).await.unwrap().len(), 4);

    for (ca, sentence) in [("other", "can't be trusted"), ("missing", "can't be read from"), ("key", "can't be")] {
        let error = join(&queue(&with(ca)), 0).await.unwrap_err();
        assert!(matches!(&error, QueueError::Refused { why } if why.contains(sentence)), "{ca}: {error:?}");
    }
}

/// A certificate and its key.
fn certificate() -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}
