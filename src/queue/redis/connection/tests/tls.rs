//! TLS, by servers whose certificates are trusted, and by others.

use std::path::PathBuf;

use super::fake::Fake;
use super::server::free_port;
use super::*;

/// A server that speaks TLS on a second port, with a certificate that vouches for itself.
fn tls_server(names: &[&str], more: &[&str]) -> (RedisServer, u16, PathBuf, tempfile::TempDir) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: String| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let certificate = file("cert.pem", made.cert.pem());
    let key = file("key.pem", made.signing_key.serialize_pem());
    let port = free_port();
    let mut config = vec![
        format!("tls-port {port}"),
        format!("tls-cert-file {}", certificate.display()),
        format!("tls-key-file {}", key.display()),
        format!("tls-ca-cert-file {}", certificate.display()),
    ];
    config.extend(more.iter().map(|line| (*line).to_owned()));
    (RedisServer::start(Options { config, ..Options::default() }), port, certificate, directory)
}

fn over_tls(host: &str, port: u16, ca_file: Option<PathBuf>) -> Connection {
    let settings = RedisSettings { ca_file, ..settings(format!("rediss://{host}:{port}")) };
    Connection::with_timing(&settings, QUICK).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_a_trusted_certificate_is_served_by() {
    let (server, port, certificate, _files) = tls_server(&["localhost", "127.0.0.1"], &["tls-auth-clients no"]);
    for host in ["localhost", "127.0.0.1"] {
        let connection = over_tls(host, port, Some(certificate.clone()));
        connection.load_library("tests", LIBRARY).await.unwrap();
        assert_eq!(echo(&connection).await.unwrap(), "trawler:{it}: hello");
    }

    let untrusted = over_tls("localhost", port, None);
    assert_fault(&echo(&untrusted).await, Fault::Tls, &["localhost", "its certificate is not accepted"]);
    let not_a_certificate = over_tls("localhost", port, Some(server.directory().join("redis.conf")));
    assert_fault(&echo(&not_a_certificate).await, Fault::Settings, &["redis.conf", "no certificate in PEM"]);
    let missing = over_tls("localhost", port, Some("/nowhere/ca.pem".into()));
    assert_fault(&echo(&missing).await, Fault::Settings, &["/nowhere/ca.pem", "No such file"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_speaks_tls_and_who_does_not_is_told_apart() {
    let (server, port, certificate, _files) = tls_server(&["localhost"], &["tls-auth-clients no"]);
    let plain_to_tls = quick(format!("redis://localhost:{port}"));
    assert_fault(&echo(&plain_to_tls).await, Fault::NotSent, &["if it expects TLS, write rediss://"]);
    let tls_to_plain = over_tls("localhost", server.port(), Some(certificate.clone()));
    assert_fault(&echo(&tls_to_plain).await, Fault::NotSent, &["did not answer within 1 s; does it speak TLS?"]);
    let http = Fake::serving(async |mut stream| {
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").await
    })
    .await;
    let to_another = over_tls("localhost", http.port, Some(certificate));
    assert_fault(&echo(&to_another).await, Fault::Tls, &["does not speak TLS"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_for_another_name_is_refused() {
    let (_server, port, certificate, _files) = tls_server(&["redis.example"], &["tls-auth-clients no"]);
    let connection = over_tls("localhost", port, Some(certificate));
    assert_fault(&echo(&connection).await, Fault::Tls, &["its certificate is not accepted"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_asks_for_client_certificates_is_told_how_to_change_that() {
    let (_server, port, certificate, _files) = tls_server(&["localhost"], &["tls-auth-clients yes"]);
    let connection = over_tls("localhost", port, Some(certificate));
    assert_fault(&echo(&connection).await, Fault::Tls, &["CertificateRequired", "set tls-auth-clients to no"]);
}
