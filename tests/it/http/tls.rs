//! The HTTP client and TLS: whom it trusts, and whom it proves itself to.
#![expect(clippy::unwrap_used, reason = "a helper of tests fails the test")]

use std::io;
use std::sync::Arc;

use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair, date_time_ymd,
};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, crypto};
use trawler::crawler::credential::{Credential, Secret};
use trawler::crawler::http::NodeAccess;
use trawler::outcome::Outcome;
use url::Url;

use crate::support::http_client::{body_of, client, fetch, get, loopback};
use crate::support::http_server::{HttpServer, Reply};

/// A certificate authority of the test's own.
struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key.
struct Issued {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn issue(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Issued {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        change(&mut params);
        Issued { certificate: params.signed_by(&key, &self.0).unwrap(), key }
    }

    fn trusted(&self) -> NodeAccess {
        NodeAccess { ca_pem: Some(Arc::from(self.0.pem())), ..NodeAccess::default() }
    }
}

impl Issued {
    fn server_config(&self, clients: Option<&Authority>) -> ServerConfig {
        let provider = Arc::new(crypto::ring::default_provider());
        let builder =
            ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions().unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.0.der().clone()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
                builder.with_client_cert_verifier(verifier)
            }
        };
        let key = PrivateKeyDer::try_from(self.key.serialize_der()).unwrap();
        builder.with_single_cert(vec![self.certificate.der().clone()], key).unwrap()
    }
}

#[tokio::test]
async fn an_authority_in_ca_ref_is_trusted_for_that_node_only() {
    let authority = Authority::new();
    let issued = authority.issue("127.0.0.1", |_| ());
    let server = HttpServer::start_tls(issued.server_config(None), |_| Reply::ok("secure")).await;
    let client = client(loopback());
    let request = get(server.url("/"));
    assert_eq!(body_of(fetch(&client, &request, &authority.trusted()).await.unwrap()), "secure");
    let error = fetch(&client, &request, &NodeAccess::default()).await.unwrap_err();
    assert_eq!((error.reason(), error.outcome()), ("CertificateInvalid", Outcome::Terminal));
    assert!(error.to_string().contains("caRef"), "{error}");
}

#[tokio::test]
async fn a_self_signed_certificate_is_trusted_when_ca_ref_holds_it() {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
    let issued = Issued { certificate, key };
    let server = HttpServer::start_tls(issued.server_config(None), |_| Reply::ok("secure")).await;
    let client = client(loopback());
    let error = fetch(&client, &get(server.url("/")), &NodeAccess::default()).await.unwrap_err();
    assert!(error.to_string().contains("self-signed"), "{error}");
    let access = NodeAccess { ca_pem: Some(Arc::from(issued.certificate.pem())), ..NodeAccess::default() };
    assert_eq!(body_of(fetch(&client, &get(server.url("/")), &access).await.unwrap()), "secure");
}

#[tokio::test]
async fn certificates_of_others_and_of_the_past_are_refused() {
    let authority = Authority::new();
    let other_name = authority.issue("other.example", |_| ());
    let expired = authority.issue("127.0.0.1", |params| params.not_after = date_time_ymd(2020, 1, 1));
    for (issued, words) in [(other_name, "for another name"), (expired, "has expired")] {
        let server = HttpServer::start_tls(issued.server_config(None), |_| Reply::ok("x")).await;
        let error = fetch(&client(loopback()), &get(server.url("/")), &authority.trusted()).await.unwrap_err();
        assert_eq!((error.reason(), error.outcome()), ("CertificateInvalid", Outcome::Terminal), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_wants_a_client_certificate_gets_the_nodes() {
    let authority = Authority::new();
    let issued = authority.issue("127.0.0.1", |_| ());
    let ours = authority.issue("trawler.example", |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    });
    let server = HttpServer::start_tls(issued.server_config(Some(&authority)), |_| Reply::ok("hello")).await;
    let mtls = Credential::Mtls {
        cert_pem: ours.certificate.pem().into_bytes(),
        key_pem: Secret::new(ours.key.serialize_pem()),
    };
    let client = client(loopback());
    let listed = NodeAccess {
        credential: Some(Arc::new(mtls)),
        credential_origins: vec![server.origin()],
        ..authority.trusted()
    };
    assert_eq!(body_of(fetch(&client, &get(server.url("/")), &listed).await.unwrap()), "hello");
    let unlisted = NodeAccess { credential_origins: Vec::new(), ..listed };
    for access in [unlisted, authority.trusted()] {
        let error = fetch(&client, &get(server.url("/")), &access).await.unwrap_err();
        assert_eq!((error.reason(), error.outcome()), ("CertificateInvalid", Outcome::Terminal), "{error}");
        assert!(error.to_string().contains("client certificate"), "{error}");
    }
}

#[tokio::test]
async fn certificates_that_can_not_be_read_are_named() {
    let server = HttpServer::start(|_| Reply::ok("x")).await;
    let mtls =
        |cert: &str, key: &str| Some(Arc::new(Credential::Mtls { cert_pem: cert.into(), key_pem: Secret::new(key) }));
    let authority = Authority::new();
    let good = authority.issue("a.example", |_| ());
    for (ca_pem, credential, words) in [
        (Some("not PEM"), None, "caRef"),
        (None, mtls("not PEM", "canary"), "tls.crt"),
        (None, mtls(&good.certificate.pem(), "canary"), "tls.key"),
        (None, mtls(&good.certificate.pem(), &KeyPair::generate().unwrap().serialize_pem()), "tls.crt"),
    ] {
        let access = NodeAccess {
            ca_pem: ca_pem.map(Arc::from),
            credential,
            credential_origins: vec![server.origin()],
            ..NodeAccess::default()
        };
        let error = fetch(&client(loopback()), &get(server.url("/")), &access).await.unwrap_err();
        assert_eq!((error.reason(), error.outcome()), ("TlsSettingsUnusable", Outcome::Terminal), "{error}");
        assert!(error.to_string().contains(words) && !error.to_string().contains("canary"), "{error}");
    }
}

#[tokio::test]
async fn https_to_a_server_without_tls_is_a_passing_fault() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap()).parse().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (Ok(()) | Err(_)) =
            tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    });
    let error = fetch(&client(loopback()), &get(url), &NodeAccess::default()).await.unwrap_err();
    assert_eq!((error.reason(), error.outcome()), ("TlsFailed", Outcome::RETRY), "{error}");
}

/// A server that speaks HTTP/2 only. It names the version, or resets the stream.
async fn start_http_2(authority: &Authority, resets: bool) -> Url {
    let mut config = authority.issue("127.0.0.1", |_| ()).server_config(None);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap()).parse().unwrap();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let stream = TlsAcceptor::from(Arc::new(config)).accept(stream).await.unwrap();
        let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| async move {
            if resets {
                return Err(io::Error::other("reset"));
            }
            let said = format!("{:?}", request.version());
            Ok(hyper::Response::new(Full::new(bytes::Bytes::from(said))))
        });
        let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        serving.serve_connection(TokioIo::new(stream), service).await.unwrap();
    });
    url
}

#[tokio::test]
async fn http_2_is_spoken_with_servers_that_offer_it() {
    let authority = Authority::new();
    let url = start_http_2(&authority, false).await;
    assert_eq!(body_of(fetch(&client(loopback()), &get(url), &authority.trusted()).await.unwrap()), "HTTP/2.0");
}

#[tokio::test]
async fn a_reset_http_2_stream_can_be_tried_again() {
    let authority = Authority::new();
    let url = start_http_2(&authority, true).await;
    let error = fetch(&client(loopback()), &get(url), &authority.trusted()).await.unwrap_err();
    assert_eq!((error.reason(), error.outcome(), error.spent.requests), ("ConnectionBroken", Outcome::RETRY, 1));
}
