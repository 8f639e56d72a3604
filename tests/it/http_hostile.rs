//! The HTTP client against servers that are broken, or mean harm.
#![expect(clippy::unwrap_used, reason = "a helper of tests fails the test")]

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use trawler::clock::SystemClock;
use trawler::crawler::credential::{Credential, Secret};
use trawler::crawler::http::{
    Failure, FetchError, Guard, HttpClient, HttpConfig, Lookup, NodeAccess, Phase, Refusal, is_globally_reachable,
};
use trawler::outcome::Outcome;
use trawler::protocol::Request;
use url::Url;

use crate::support::encodings::{brotli, gzip, hollow_gzip, zlib, zstd};
use crate::support::http_client::{bearer_for, body_of, client, fetch, get, loopback};
use crate::support::http_server::{HttpServer, Reply};

/// What fetching from a server with this one reply comes to.
async fn failure_of(client: &HttpClient, reply: Reply) -> FetchError {
    let server = HttpServer::start(move |_| reply.clone()).await;
    fetch(client, &get(server.url("/x")), &NodeAccess::default()).await.unwrap_err()
}

/// Limits that a test can wait for.
fn impatient() -> HttpConfig {
    HttpConfig { request_timeout: Duration::from_millis(150), ..loopback() }
}

// ---- Addresses

#[test]
fn only_globally_reachable_addresses_are_public() {
    for public in [
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "169.253.255.255",
        "169.255.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "191.255.255.255",
        "192.0.1.0",
        "192.0.3.0",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "203.0.112.255",
        "203.0.114.0",
        "223.255.255.255",
        "168.63.129.15",
        "168.63.129.17",
        "2001:200::1",
        "2606:4700::1111",
        "2a00:1450::1",
        "2620:4f:8000::1",
        "2003::1",
    ] {
        assert!(is_globally_reachable(public.parse().unwrap()), "{public}");
    }
    for refused in [
        // IPv4: each range's first and last address
        "0.0.0.0",
        "0.255.255.255",
        "10.0.0.0",
        "10.255.255.255",
        "100.64.0.0",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.255",
        "169.254.0.0",
        "169.254.255.255",
        "172.16.0.0",
        "172.31.255.255",
        "192.0.0.0",
        "192.0.0.255",
        "192.0.2.0",
        "192.0.2.255",
        "192.88.99.1",
        "192.168.0.0",
        "192.168.255.255",
        "198.18.0.0",
        "198.19.255.255",
        "198.51.100.0",
        "198.51.100.255",
        "203.0.113.0",
        "203.0.113.255",
        "224.0.0.0",
        "239.255.255.255",
        "240.0.0.0",
        "255.255.255.255",
        // metadata
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "100.100.100.200",
        "168.63.129.16",
        "fd00:ec2::254",
        // IPv6
        "::",
        "::1",
        "fc00::1",
        "fdff::1",
        "fe80::1",
        "febf::1",
        "fec0::1",
        "ff02::1",
        "100::1",
        "5f00::1",
        "2001:db8::1",
        "3fff::1",
        "4000::1",
        "1fff::1",
        // IPv4 in IPv6: mapped, compatible, NAT64 (both), 6to4, Teredo; public ones inside as well
        "::ffff:127.0.0.1",
        "::ffff:1.1.1.1",
        "::1.1.1.1",
        "64:ff9b::1.1.1.1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::7f00:1",
        "2002:7f00:1::",
        "2002:101:101::1",
        "2001::1",
        "2001:0:7f00:1::",
        "2001:1ff::1",
    ] {
        assert!(!is_globally_reachable(refused.parse().unwrap()), "{refused}");
    }
}

#[test]
fn every_spelling_of_a_refused_host_is_refused() {
    let guard = Guard::default();
    for url in [
        "http://127.0.0.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.1/",
        "http://017700000001/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://127.0.0.1./",
        "http://0/",
        "http://[::1]/",
        "http://[::]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[64:ff9b::a00:1]/",
        "http://①②⑦.⓪.⓪.①/",
        "http://169.254.169.254/latest/meta-data/",
        "http://0xa9fea9fe/",
        "http://10.1.2.3:8080/",
    ] {
        let refused = guard.check_url(&Url::parse(url).unwrap());
        assert!(matches!(refused, Err(Refusal::NotPublic { .. } | Refusal::Metadata { .. })), "{url}: {refused:?}");
    }
    assert!(Url::parse("http://[fe80::1%25eth0]/").is_err(), "zone ids are no URLs");
}

#[test]
fn schemes_ports_and_user_info_that_are_not_ours_are_refused() {
    let guard = Guard::default();
    let refusal = |url: &str| guard.check_url(&Url::parse(url).unwrap()).unwrap_err();
    for scheme in ["file", "ftp", "gopher", "data", "s3", "ws"] {
        assert_eq!(refusal(&format!("{scheme}://a.example/x")), Refusal::Scheme { scheme: scheme.to_owned() });
    }
    for port in [22, 25, 53, 110, 6379] {
        assert_eq!(refusal(&format!("http://a.example:{port}/")), Refusal::Port { port });
    }
    for url in ["http://user@a.example/", "http://:canary@a.example/", "http://a.example@10.0.0.1/"] {
        assert_eq!(refusal(url), Refusal::UserInfo, "{url}");
    }
    assert_eq!(refusal(&format!("http://a.example/{}", "x".repeat(16 << 10))), Refusal::TooLong);
    for url in ["http://a.example/", "https://a.example:8443/", "http://a.example:81/", "https://1.1.1.1/"] {
        assert_eq!(guard.check_url(&Url::parse(url).unwrap()), Ok(()), "{url}");
    }
}

#[test]
fn proxies_of_the_environment_are_not_used() {
    let anywhere = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
    let run = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "http::connections_are_used_again"])
        .envs(anywhere.map(|name| (name, "http://127.0.0.1:1")))
        .envs([("NO_PROXY", ""), ("no_proxy", "")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn metadata_services_need_a_network_of_exactly_their_address() {
    for address in ["169.254.169.254", "168.63.129.16", "fd00:ec2::254", "::ffff:169.254.169.254"] {
        let address: IpAddr = address.parse().unwrap();
        let everything =
            Guard { allowed: vec!["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()], ..Guard::default() };
        assert_eq!(everything.check_address(address), Err(Refusal::Metadata { address }));
        let exactly = Guard { allowed: vec![address.into()], ..Guard::default() };
        assert_eq!(exactly.check_address(address), Ok(()));
    }
}

#[test]
fn names_of_machine_and_cluster_are_good_for_allowed_addresses_only() {
    let open = Guard::default();
    let allowing = Guard { allowed: vec!["10.0.0.0/8".parse().unwrap()], ..Guard::default() };
    let answers = |answers: &[&str]| answers.iter().map(|answer| answer.parse().unwrap()).collect::<Vec<IpAddr>>();
    for host in [
        "localhost",
        "LOCALHOST.",
        "a.localhost",
        "redis",
        "kubernetes.default.svc",
        "a.b.svc.cluster.local",
        "metadata.google.internal",
        "printer.local",
        "router.lan",
        "x.home.arpa",
    ] {
        let refused = Err(Refusal::InternalName { host: host.to_owned() });
        assert_eq!(open.check_answer(host, answers(&["1.1.1.1"])), refused, "{host}");
        assert_eq!(allowing.check_answer(host, answers(&["1.1.1.1"])), refused, "{host}");
        assert_eq!(allowing.check_answer(host, answers(&["::1", "10.0.0.9"])), Ok(answers(&["10.0.0.9"])), "{host}");
    }
}

#[test]
fn a_network_that_is_refused_is_refused_although_it_is_public() {
    let guard = Guard { refused: vec!["1.1.1.0/24".parse().unwrap()], ..Guard::default() };
    let address: IpAddr = "1.1.1.1".parse().unwrap();
    assert_eq!(guard.check_address(address), Err(Refusal::RefusedNetwork { address }));
}

/// Answers in the order given; the last one again and again.
#[derive(Debug)]
struct Scripted {
    answers: Mutex<VecDeque<Vec<&'static str>>>,
    asked: Mutex<Vec<String>>,
}

impl Scripted {
    fn new(answers: impl IntoIterator<Item = Vec<&'static str>>) -> Arc<Self> {
        Arc::new(Self { answers: Mutex::new(answers.into_iter().collect()), asked: Mutex::default() })
    }
}

#[async_trait]
impl Lookup for Scripted {
    async fn addresses_of(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.lock().unwrap().push(host.to_owned());
        let mut answers = self.answers.lock().unwrap();
        let answer = if answers.len() > 1 { answers.pop_front().unwrap() } else { answers[0].clone() };
        Ok(answer.into_iter().map(|address| address.parse().unwrap()).collect())
    }
}

fn client_with(config: HttpConfig, lookup: Arc<dyn Lookup>) -> HttpClient {
    HttpClient::with_lookup(config, SystemClock::shared(), lookup).unwrap()
}

#[tokio::test]
async fn one_refused_address_spoils_the_answer() {
    for answer in [vec!["10.0.0.1"], vec!["1.1.1.1", "10.0.0.1"], vec!["127.0.0.1", "::ffff:10.0.0.1"]] {
        let client = client_with(loopback(), Scripted::new([answer.clone()]));
        let error =
            fetch(&client, &get("http://mixed.example/".parse().unwrap()), &NodeAccess::default()).await.unwrap_err();
        assert_eq!((error.reason(), error.outcome()), ("AddressRefused", Outcome::Terminal), "{answer:?}: {error}");
        assert!(error.to_string().contains("10.0.0.1"), "{error}");
    }
}

#[tokio::test]
async fn the_address_that_was_checked_is_the_one_connected_to() {
    let server = HttpServer::start(|_| Reply::ok("x").then_close()).await;
    let lookup = Scripted::new([vec!["127.0.0.1"], vec!["10.0.0.1"]]);
    let client = client_with(loopback(), lookup.clone());
    let url = server.url_at("rebinding.example", "/");
    assert_eq!(body_of(fetch(&client, &get(url.clone()), &NodeAccess::default()).await.unwrap()), "x");
    assert_eq!(lookup.asked.lock().unwrap().len(), 1, "one look-up for one connection");
    let error = loop {
        // The closed connection may still look alive to the pool.
        match fetch(&client, &get(url.clone()), &NodeAccess::default()).await {
            Err(error) if error.reason() == "ConnectionBroken" => {}
            other => break other.unwrap_err(),
        }
    };
    assert_eq!(error.reason(), "AddressRefused");
}

#[tokio::test]
async fn a_redirect_to_a_refused_host_is_not_asked() {
    for (location, reason) in [
        ("http://10.0.0.1/", "AddressRefused"),
        ("http://169.254.169.254/latest/", "AddressRefused"),
        ("http://[::1]/", "AddressRefused"),
        ("//2852039166/", "AddressRefused"),
        ("http://user:pw@127.0.0.1/", "AddressRefused"),
        ("http://127.0.0.1:22/", "AddressRefused"),
        ("http://metadata.google.internal/", "AddressRefused"),
        ("file:///etc/passwd", "RedirectRefused"),
        ("data:text/plain,x", "RedirectRefused"),
        ("gopher://127.0.0.1/", "RedirectRefused"),
        ("http://", "RedirectRefused"),
    ] {
        let server = HttpServer::start(move |_| Reply::redirect(302, location)).await;
        let client = client_with(loopback(), Scripted::new([vec!["169.254.169.254"]]));
        let error = fetch(&client, &get(server.url("/")), &NodeAccess::default()).await.unwrap_err();
        assert_eq!((error.reason(), error.outcome()), (reason, Outcome::Terminal), "{location}: {error}");
        assert!(!error.to_string().contains("pw@"), "{error}");
    }
}

// ---- Redirects

#[tokio::test]
async fn a_redirect_loop_ends_at_the_limit() {
    let server = HttpServer::start(|_| Reply::redirect(302, "/again")).await;
    let error = fetch(&client(loopback()), &get(server.url("/")), &NodeAccess::default()).await.unwrap_err();
    assert!(matches!(error.failure, Failure::TooManyRedirects { limit: 5 }), "{error}");
    assert_eq!(server.asked().len(), 6);
}

#[tokio::test]
async fn a_redirect_without_a_location_is_refused() {
    let error = failure_of(&client(loopback()), Reply::status(301)).await;
    assert_eq!((error.reason(), error.outcome()), ("RedirectRefused", Outcome::Terminal));
}

#[tokio::test]
async fn a_credential_is_dropped_when_only_the_port_changes() {
    let other = HttpServer::start(|_| Reply::ok("x")).await;
    let away = other.url("/");
    let server = HttpServer::start(move |_| Reply::redirect(307, away.as_str()).field("Set-Cookie", "a=b")).await;
    let header = Credential::Header { name: "X-Api-Key".to_owned(), value: Secret::new("canary") };
    let access = NodeAccess { credential: Some(Arc::new(header)), ..bearer_for(server.origin()) };
    let post = Request::post_json(server.url("/"), "*/*", "{}");
    fetch(&client(loopback()), &post, &access).await.unwrap();
    assert!(server.seen()[0].field("x-api-key").is_some());
    let seen = other.seen().remove(0);
    assert_eq!((seen.field("x-api-key"), seen.field("cookie"), seen.field("referer")), (None, None, None));
}

// ---- Transport

#[tokio::test]
async fn a_name_that_is_not_there_is_said_to_be_missing() {
    #[derive(Debug)]
    struct Nothing;
    #[async_trait]
    impl Lookup for Nothing {
        async fn addresses_of(&self, host: &str) -> io::Result<Vec<IpAddr>> {
            if host == "empty.example" { Ok(Vec::new()) } else { Err(io::Error::other("no such name")) }
        }
    }
    let client = client_with(loopback(), Arc::new(Nothing));
    for url in ["http://empty.example/", "http://missing.example/"] {
        let error = fetch(&client, &get(url.parse().unwrap()), &NodeAccess::default()).await.unwrap_err();
        assert_eq!((error.reason(), error.outcome()), ("NameNotFound", Outcome::RETRY), "{error}");
    }
}

#[tokio::test]
async fn a_look_up_that_hangs_counts_as_connecting() {
    #[derive(Debug)]
    struct Hanging;
    #[async_trait]
    impl Lookup for Hanging {
        async fn addresses_of(&self, _: &str) -> io::Result<Vec<IpAddr>> {
            pending().await
        }
    }
    let limit = Duration::from_millis(50);
    let client = client_with(HttpConfig { connect_timeout: limit, ..loopback() }, Arc::new(Hanging));
    let error =
        fetch(&client, &get("http://slow.example/".parse().unwrap()), &NodeAccess::default()).await.unwrap_err();
    assert!(matches!(error.failure, Failure::Timeout { phase: Phase::Connecting, limit: l } if l == limit), "{error}");
    assert!(error.is_pushback());
}

#[tokio::test]
async fn a_closed_port_can_be_tried_again() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    drop(listener);
    let error = fetch(&client(loopback()), &get(url), &NodeAccess::default()).await.unwrap_err();
    assert_eq!((error.reason(), error.outcome(), error.is_pushback()), ("ConnectFailed", Outcome::RETRY, false));
}

#[tokio::test]
async fn a_handshake_that_hangs_counts_as_connecting() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let client = client(HttpConfig { connect_timeout: Duration::from_millis(50), ..loopback() });
    let error = fetch(&client, &get(url), &NodeAccess::default()).await.unwrap_err();
    assert!(matches!(error.failure, Failure::Timeout { phase: Phase::Connecting, .. }), "{error}");
}

#[tokio::test]
async fn answers_that_are_not_http_are_told_apart() {
    let client = client(loopback());
    for (bytes, reason) in [
        ("", "ConnectionBroken"),
        ("HTTP/1.1 200 OK\r\nContent-Le", "ConnectionBroken"),
        ("220 smtp.example ESMTP\r\n", "NotHttp"),
        ("HTTP/9.9 200 OK\r\n\r\n", "NotHttp"),
        ("HTTP/1.1 99999 OK\r\n\r\n", "NotHttp"),
        ("HTTP/1.1 200 OK\r\nA\u{0}b: c\r\n\r\n", "NotHttp"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "NotHttp"),
        ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "NotHttp"),
    ] {
        let error = failure_of(&client, Reply::raw(bytes)).await;
        assert_eq!((error.reason(), error.outcome()), (reason, Outcome::RETRY), "{bytes:?}: {error}");
    }
}

#[tokio::test]
async fn a_server_that_never_answers_costs_the_request_timeout() {
    let client = client(impatient());
    for reply in [
        Reply::raw("").then_hang(),
        Reply::raw("HTTP/1.1 200 OK\r\nA: b\r\n").then_hang(),
        Reply::raw("HTTP/1.1 200 OK\r\nA: ").then_drip("x"),
        Reply::raw("").then_repeat("HTTP/1.1 100 Continue\r\n\r\n"),
        Reply::raw("").then_repeat("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"),
    ] {
        let name = format!("{reply:?}");
        let error = failure_of(&client, reply).await;
        assert!(matches!(error.failure, Failure::Timeout { phase: Phase::Answering, .. }), "{name}: {error}");
        assert_eq!((error.outcome(), error.is_pushback()), (Outcome::RETRY, true));
    }
}

#[tokio::test]
async fn a_node_may_have_a_request_timeout_of_its_own() {
    let server = HttpServer::start(|_| Reply::raw("").then_hang()).await;
    let limit = Duration::from_millis(40);
    let access = NodeAccess { request_timeout: Some(limit), ..NodeAccess::default() };
    let error = fetch(&client(loopback()), &get(server.url("/")), &access).await.unwrap_err();
    assert!(matches!(error.failure, Failure::Timeout { limit: l, .. } if l == limit), "{error}");
}

#[tokio::test]
async fn headers_have_an_end() {
    let client = client(loopback());
    let long = "x".repeat(100 << 10);
    for reply in [
        Reply::raw("HTTP/1.1 200 OK\r\n").then_repeat("A: b\r\n"),
        Reply::raw("HTTP/1.1 200 OK\r\nA: ").then_repeat("x".repeat(4096)),
        (0..101).fold(Reply::ok("x"), |reply, n| reply.field("A", n.to_string())),
        Reply::ok("x").field("A", long.clone()),
        Reply::status(302).field("Location", long.clone()),
    ] {
        let error = failure_of(&client, reply).await;
        assert_eq!((error.reason(), error.outcome()), ("HeaderTooLarge", Outcome::Terminal), "{error}");
    }
}

#[tokio::test]
async fn a_body_that_stops_costs_the_idle_timeout() {
    let client = client(HttpConfig { idle_timeout: Duration::from_millis(60), ..loopback() });
    for encoding in ["identity", "gzip"] {
        let start = gzip(&[b'x'; 1000])[..12].to_vec();
        let reply = Reply::ok(start).field("Content-Length", "9999").field("Content-Encoding", encoding).then_hang();
        let error = failure_of(&client, reply).await;
        assert!(matches!(error.failure, Failure::Timeout { phase: Phase::Idle, .. }), "{encoding}: {error}");
        assert_eq!(error.spent.wire_bytes, 12, "{encoding}");
    }
}

#[tokio::test]
async fn a_body_that_drips_costs_the_request_timeout() {
    // Long enough for the header to have come on a busy machine.
    let client = client(HttpConfig { request_timeout: Duration::from_secs(1), ..loopback() });
    let error = failure_of(&client, Reply::ok("x").field("Content-Length", "99999999").then_drip("x")).await;
    assert!(matches!(error.failure, Failure::Timeout { phase: Phase::Receiving, .. }), "{error}");
}

#[tokio::test]
async fn a_body_that_breaks_off_is_no_document() {
    let client = client(loopback());
    let whole = gzip("catalogue ".repeat(1000).as_bytes());
    let half = whole[..whole.len() / 2].to_vec();
    for reply in [
        Reply::ok("ten bytes.").field("Content-Length", "100").then_close(),
        Reply::ok("5\r\nhello\r\n").field("Transfer-Encoding", "chunked").then_close(),
        Reply::ok("5\r\nhel").field("Transfer-Encoding", "chunked").then_close(),
        Reply::ok("zz\r\nhello\r\n").field("Transfer-Encoding", "chunked").then_close(),
        Reply::ok("fffffffffffffffff\r\nhello").field("Transfer-Encoding", "chunked").then_close(),
        Reply::ok(half.clone()).field("Content-Encoding", "gzip"),
        Reply::ok(half).field("Content-Encoding", "gzip").field("Content-Length", "1000").then_close(),
        Reply::ok(whole[..9].to_vec()).field("Content-Encoding", "gzip"),
        Reply::ok(zstd(b"catalogue")[..8].to_vec()).field("Content-Encoding", "zstd"),
        Reply::ok(brotli(b"catalogue catalogue catalogue")[..6].to_vec()).field("Content-Encoding", "br"),
    ] {
        let name = format!("{reply:?}");
        let error = failure_of(&client, reply).await;
        assert_eq!((error.reason(), error.outcome()), ("BodyTruncated", Outcome::RETRY), "{name}: {error}");
    }
}

#[tokio::test]
async fn bytes_after_the_announced_length_are_no_answer_to_the_next_request() {
    let server = HttpServer::start(|seen| match seen.target.as_str() {
        "/first" => Reply::ok("abcHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison").field("Content-Length", "3"),
        _ => Reply::ok("honest"),
    })
    .await;
    let client = client(loopback());
    let mut bodies = Vec::new();
    for path in ["/first", "/second"] {
        bodies.push(body_of(fetch(&client, &get(server.url(path)), &NodeAccess::default()).await.unwrap()));
    }
    assert_eq!(bodies, ["abc", "honest"]);
}

// ---- HTTP

#[tokio::test]
async fn statuses_that_answer_another_question_are_refused() {
    let client = client(loopback());
    let reasons = [failure_of(&client, Reply::status(304)).await, failure_of(&client, Reply::status(206)).await]
        .map(|error| (error.reason(), error.outcome()));
    assert_eq!(reasons, [("NotModifiedUnasked", Outcome::RETRY), ("PartialUnasked", Outcome::RETRY)]);
}

// ---- Bodies

#[tokio::test]
async fn the_limit_counts_what_comes_out_of_the_decompression() {
    let zeros = vec![0; 4 << 20];
    let limit = 256 << 10;
    let client = client(HttpConfig { max_decoded_bytes: limit, ..loopback() });
    for (encoding, body) in [
        ("identity", zeros.clone()),
        ("gzip", gzip(&zeros)),
        ("deflate", zlib(&zeros)),
        ("br", brotli(&zeros)),
        ("zstd", zstd(&zeros)),
        ("gzip, gzip", gzip(&gzip(&zeros))),
        ("zstd, br", brotli(&zstd(&zeros))),
        // Nothing comes out of it at all.
        ("gzip, gzip", gzip(&hollow_gzip().repeat(100))),
    ] {
        let error = failure_of(&client, Reply::ok(body).field("Content-Encoding", encoding)).await;
        assert!(matches!(error.failure, Failure::TooLarge { limit: l } if l == limit), "{encoding}: {error}");
        assert_eq!(error.outcome(), Outcome::Terminal);
    }
}

#[tokio::test]
async fn a_body_of_exactly_the_limit_is_within_it() {
    let client = client(loopback());
    for (size, fits) in [(1000, true), (1001, false)] {
        for (encoding, body) in [("identity", vec![b'x'; size]), ("gzip", gzip(&vec![b'x'; size]))] {
            let server = HttpServer::start(move |_| Reply::ok(body.clone()).field("Content-Encoding", encoding)).await;
            let access = NodeAccess { max_decoded_bytes: Some(1000), ..NodeAccess::default() };
            let fetched = fetch(&client, &get(server.url("/")), &access).await;
            assert_eq!(fetched.is_ok(), fits, "{size} {encoding}");
        }
    }
}

#[tokio::test]
async fn a_body_without_an_end_is_left_at_the_limit() {
    let client = client(HttpConfig { max_decoded_bytes: 256 << 10, ..loopback() });
    let stored = [&[0, 0xff, 0xff, 0, 0][..], &vec![0; 65535]].concat();
    let gzip_head: &[u8] = &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    let head = |fields: &str| format!("HTTP/1.1 200 OK\r\n{fields}\r\n").into_bytes();
    for reply in [
        Reply::raw(head("")).then_repeat(vec![b'x'; 4096]),
        Reply::raw(head("Transfer-Encoding: chunked\r\n")).then_repeat("5\r\nhello\r\n"),
        Reply::raw([head("Content-Encoding: gzip\r\n"), gzip_head.to_vec()].concat()).then_repeat(stored),
        Reply::raw(head("Content-Encoding: gzip\r\n")).then_repeat(hollow_gzip()),
    ] {
        let error = failure_of(&client, reply).await;
        assert_eq!(error.reason(), "BodyTooLarge", "{error}");
    }
}

#[tokio::test]
async fn an_errors_body_without_an_end_costs_little() {
    let head = b"HTTP/1.1 500 Bad\r\nContent-Encoding: gzip\r\n\r\n";
    for reply in [
        Reply::raw(head.to_vec()).then_repeat(hollow_gzip()),
        Reply::raw("HTTP/1.1 500 Bad\r\n\r\n").then_repeat(vec![b'x'; 4096]),
    ] {
        let error = failure_of(&client(loopback()), reply).await;
        assert_eq!(error.reason(), "ServerError", "{error}");
        assert!(error.spent.wire_bytes < 4 << 20, "{:?}", error.spent);
    }
}

#[tokio::test]
async fn an_announced_length_reserves_nothing_that_has_not_come() {
    let config = HttpConfig { max_decoded_bytes: u64::MAX / 4, idle_timeout: Duration::from_millis(50), ..loopback() };
    let error =
        failure_of(&client(config), Reply::ok("x").field("Content-Length", (1_u64 << 60).to_string()).then_hang())
            .await;
    assert_eq!(error.reason(), "TimedOut");
}

#[tokio::test]
async fn encodings_that_were_not_asked_for_are_refused() {
    let client = client(loopback());
    for encoding in ["compress", "gzip, gzip, gzip", "br, unknown", "aes128gcm", "\u{7f}"] {
        let error = failure_of(&client, Reply::ok("x").field("Content-Encoding", encoding)).await;
        assert!(matches!(error.reason(), "EncodingUnknown" | "NotHttp"), "{encoding}: {error}");
    }
}

#[tokio::test]
async fn a_body_that_is_not_in_its_encoding_is_corrupt() {
    let client = client(loopback());
    // A frame that wants a window of 128 MiB.
    let greedy_zstd = [&[0x28, 0xb5, 0x2f, 0xfd, 0, 0x88][..], &[1, 0, 0, b'x']].concat();
    let mut broken_sum = gzip(b"catalogue");
    let at = broken_sum.len() - 6;
    broken_sum[at] ^= 1;
    for (encoding, body) in [
        ("gzip", b"plain text".to_vec()),
        ("gzip", broken_sum),
        ("zstd", b"plain text".to_vec()),
        ("zstd", greedy_zstd),
        ("br", vec![0xff; 32]),
        ("deflate", vec![0xff; 32]),
    ] {
        let error = failure_of(&client, Reply::ok(body).field("Content-Encoding", encoding)).await;
        assert_eq!((error.reason(), error.outcome()), ("BodyCorrupt", Outcome::RETRY), "{encoding}: {error}");
    }
}

// ---- Secrets

#[tokio::test]
async fn no_failure_shows_a_credential() {
    let canary = "canary";
    let echo = HttpServer::start(move |seen| match seen.target.split('?').next() {
        Some("/echo") => Reply::status(400).body(format!("{seen:?}")),
        Some("/away") => Reply::redirect(302, "http://canary:canary@10.0.0.1/?key=canary#canary"),
        Some("/leave") => Reply::redirect(302, "ftp://canary:canary@a.example/?key=canary#canary"),
        Some("/cut") => Reply::ok("x").field("Content-Length", "9").then_close(),
        Some("/gone") => Reply::raw(""),
        Some("/large") => Reply::ok(vec![0; 5000]),
        _ => Reply::raw("canary, but not HTTP").then_hang(),
    })
    .await;
    let config = HttpConfig { max_decoded_bytes: 1000, ..loopback() };
    let credentials = [
        Credential::Bearer { token: Secret::new(canary) },
        Credential::Basic { username: "user".to_owned(), password: Secret::new(canary) },
        Credential::Header { name: "X-Api-Key".to_owned(), value: Secret::new(canary) },
        Credential::Mtls { cert_pem: Vec::new(), key_pem: Secret::new(canary) },
        Credential::OAuth2ClientCredentials {
            client_id: "id".to_owned(),
            client_secret: Secret::new(canary),
            token_url: echo.url("/echo"),
            scope: None,
            audience: None,
        },
    ];
    for credential in credentials {
        let access = NodeAccess { credential: Some(Arc::new(credential)), ..bearer_for(echo.origin()) };
        let client = client(config.clone());
        for path in ["/echo", "/away", "/leave", "/cut", "/gone", "/large", "/other"] {
            let url = echo.url(&format!("{path}?api_key=canary#canary"));
            let error = fetch(&client, &get(url), &access).await.unwrap_err();
            let shown = format!("{error} {error:?} {access:?} {client:?}");
            assert!(!shown.contains(canary), "{path}: {shown}");
        }
    }
}
