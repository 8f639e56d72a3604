//! The HTTP client against servers that behave.

mod permits;
mod tls;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use trawler::clock::{ManualClock, SystemClock};
use trawler::crawler::credential::{Credential, Secret};
use trawler::crawler::http::{Failure, FetchError, Fetched, HttpClient, NodeAccess, ProxyUrl, Spent, Validators};
use trawler::outcome::Outcome;
use trawler::protocol::{Request, Response};
use trawler::task::OriginKey;
use url::Url;

use crate::support::encodings::{bare_deflate, brotli, gzip, zlib, zstd};
use crate::support::http_client::{ClosedGate, CountingGate, bearer_for, body_of, client, fetch, get, loopback, retry};
use crate::support::http_server::{HttpServer, Reply, Seen};

#[tokio::test]
async fn a_document_comes_with_all_that_readers_need() {
    let server = HttpServer::start(|_| {
        Reply::ok("hello")
            .field("Content-Type", "text/turtle; charset=utf-8")
            .field("Link", "</p2>; rel=\"next\"")
            .field("Link", "</p0>; rel=\"prev\"")
            .field("ETag", "\"v1\"")
            .field("Last-Modified", "Mon, 30 Nov 2026 02:00:00 GMT")
            .field("Date", "Mon, 30 Nov 2026 03:00:00 GMT")
    })
    .await;
    let fetched = client(loopback()).send(&get(server.url("/a?q=1")), &NodeAccess::default(), &ClosedGate, None).await;
    let Ok(Fetched::Response { response, spent }) = fetched else { panic!("{fetched:?}") };
    let Response { status, url, content_type, links, etag, last_modified, date, body } = *response;
    assert_eq!((status, url), (200, server.url("/a?q=1")));
    assert_eq!(content_type.as_deref(), Some("text/turtle; charset=utf-8"));
    assert_eq!(links, ["</p2>; rel=\"next\"", "</p0>; rel=\"prev\""]);
    assert_eq!(etag.as_deref(), Some("\"v1\""));
    assert_eq!(last_modified.as_deref(), Some("Mon, 30 Nov 2026 02:00:00 GMT"));
    assert_eq!(date.unwrap().to_string(), "2026-11-30T03:00:00Z");
    assert_eq!(body, "hello");
    assert_eq!(spent, Spent { requests: 1, wire_bytes: 5 });
}

#[tokio::test]
async fn a_request_says_who_asks_and_what_is_understood() {
    let server = HttpServer::start(|_| Reply::ok("{}")).await;
    let client = client(trawler::crawler::http::HttpConfig {
        contact: Some("https://example.org/crawler".to_owned()),
        ..loopback()
    });
    let request = Request::post_json(server.url("/catalog/request"), "application/json", r#"{"a":1}"#);
    fetch(&client, &request, &NodeAccess::default()).await.unwrap();
    let seen = server.seen().remove(0);
    assert_eq!((seen.method.as_str(), seen.body.as_slice()), ("POST", br#"{"a":1}"#.as_slice()));
    let mut fields = seen.fields;
    fields.sort();
    let expected = [
        ("accept", "application/json"),
        ("accept-encoding", "gzip, br, zstd, deflate"),
        ("content-length", "7"),
        ("content-type", "application/json"),
        ("host", server.url("/").authority()),
        ("user-agent", concat!("Trawler/", env!("CARGO_PKG_VERSION"), " (+https://example.org/crawler)")),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(fields, expected);
}

#[tokio::test]
async fn a_contact_that_would_break_the_header_is_refused() {
    let config = trawler::crawler::http::HttpConfig { contact: Some("a\r\nX: y".to_owned()), ..loopback() };
    let error = HttpClient::new(config, SystemClock::shared()).unwrap_err();
    assert!(error.to_string().starts_with("the contact \"a\\r\\nX: y\" can't be sent"), "{error}");
}

#[tokio::test]
async fn every_encoding_that_is_asked_for_is_decoded() {
    let client = client(loopback());
    let text = "catalogue ".repeat(10_000);
    let plain = text.as_bytes();
    let nested = gzip(&brotli(plain));
    let two_members = [gzip(&plain[..40_000]), gzip(&plain[40_000..])].concat();
    for (encoding, body) in [
        ("identity", plain.to_vec()),
        ("gzip", gzip(plain)),
        ("X-GZip", gzip(plain)),
        ("gzip", two_members),
        ("br", brotli(plain)),
        ("zstd", zstd(plain)),
        ("deflate", zlib(plain)),
        ("deflate", bare_deflate(plain)),
        ("br, gzip", nested),
        ("gzip", Vec::new()),
    ] {
        let expected = if body.is_empty() { "" } else { &text };
        let wire_bytes = body.len() as u64;
        let server = HttpServer::start(move |_| Reply::ok(body.clone()).field("Content-Encoding", encoding)).await;
        let fetched = fetch(&client, &get(server.url("/")), &NodeAccess::default()).await;
        let Ok(Fetched::Response { response, spent }) = fetched else { panic!("{encoding}: {fetched:?}") };
        assert!(response.body == expected, "{encoding}");
        assert_eq!(spent, Spent { requests: 1, wire_bytes }, "{encoding}");
    }
}

#[tokio::test]
async fn connections_are_used_again() {
    let server = HttpServer::start(|_| Reply::ok("x")).await;
    let client = client(loopback());
    for _ in 0..3 {
        fetch(&client, &get(server.url("/")), &NodeAccess::default()).await.unwrap();
    }
    assert_eq!(server.seen().iter().map(|seen| seen.connection).collect::<Vec<_>>(), [0, 0, 0]);
}

#[tokio::test]
async fn connections_are_kept_for_a_bounded_number_of_origins() {
    let servers = [
        HttpServer::start(|_| Reply::ok("x")).await,
        HttpServer::start(|_| Reply::ok("x")).await,
        HttpServer::start(|_| Reply::ok("x")).await,
    ];
    let client = client(trawler::crawler::http::HttpConfig { max_idle_origins: 2, ..loopback() });
    for server in [0, 1, 0, 1, 2, 0, 2] {
        fetch(&client, &get(servers[server].url("/")), &NodeAccess::default()).await.unwrap();
    }
    let connections = |server: &HttpServer| server.seen().iter().map(|seen| seen.connection).collect::<Vec<_>>();
    assert_eq!(servers.each_ref().map(connections), [vec![0, 0, 1], vec![0, 0], vec![0, 0]]);
}

#[tokio::test]
async fn redirects_are_followed_and_each_takes_a_permit() {
    let server = HttpServer::start(|seen| match seen.target.as_str() {
        "/a" => Reply::redirect(301, "/b"),
        "/b" => Reply::redirect(302, "c?page=2"),
        _ => Reply::ok("there"),
    })
    .await;
    let gate = CountingGate::default();
    let fetched = client(loopback()).send(&get(server.url("/a")), &NodeAccess::default(), &gate, None).await;
    let Ok(Fetched::Response { response, spent }) = fetched else { panic!("{fetched:?}") };
    assert_eq!((response.url, &response.body[..]), (server.url("/c?page=2"), b"there".as_slice()));
    assert_eq!(gate.asked(), [server.origin(), server.origin()]);
    assert_eq!(spent.requests, 3);
}

#[tokio::test]
async fn a_post_is_repeated_after_307_and_308_and_becomes_a_get_after_others() {
    for (status, expected) in [(301, "GET /b"), (302, "GET /b"), (303, "GET /b"), (307, "POST /b"), (308, "POST /b")] {
        let server = HttpServer::start(move |seen| match seen.target.as_str() {
            "/a" => Reply::redirect(status, "/b"),
            _ => Reply::ok("x"),
        })
        .await;
        let request = Request::post_json(server.url("/a"), "*/*", "{}");
        fetch(&client(loopback()), &request, &NodeAccess::default()).await.unwrap();
        assert_eq!(server.asked(), ["POST /a", expected], "{status}");
        let last = server.seen().remove(1);
        let repeated = expected.starts_with("POST");
        assert_eq!(last.body == b"{}", repeated, "{status}");
        assert_eq!(last.field("content-type").is_some(), repeated, "{status}");
    }
}

#[tokio::test]
async fn a_closed_gate_ends_the_exchange_without_another_request() {
    let server = HttpServer::start(|_| Reply::redirect(302, "/b")).await;
    let error = client(loopback()).send(&get(server.url("/a")), &NodeAccess::default(), &ClosedGate, None).await;
    let error = error.unwrap_err();
    assert_eq!((error.reason(), error.spent.requests), ("GateClosed", 1));
    assert_eq!(error.outcome(), Outcome::Wait { until: Timestamp::UNIX_EPOCH });
    assert_eq!(server.asked(), ["GET /a"]);
}

#[tokio::test]
async fn validators_make_a_get_conditional_if_its_request_may_be() {
    let server = HttpServer::start(|seen| match seen.field("if-none-match") {
        Some("\"v1\"") => Reply::status(304),
        _ => Reply::ok("new"),
    })
    .await;
    let client = client(loopback());
    let date = "Mon, 30 Nov 2026 02:00:00 GMT";
    let validators = |etag: &str| Validators {
        etag: Some(etag.to_owned()),
        last_modified: Some(date.to_owned()),
        ..Validators::default()
    };
    let conditional = Request { conditional: true, ..get(server.url("/")) };
    let post = Request { conditional: true, ..Request::post_json(server.url("/"), "*/*", "{}") };
    let mut not_modified = Vec::new();
    for (request, validators) in [
        (&conditional, validators("\"v1\"")),
        (&conditional, validators("\"other\"")),
        (&conditional, validators("not\na field")),
        (&get(server.url("/")), validators("\"v1\"")),
        (&post, validators("\"v1\"")),
    ] {
        let fetched = client.send(request, &NodeAccess::default(), &ClosedGate, Some(&validators)).await.unwrap();
        not_modified.push(matches!(fetched, Fetched::NotModified { .. }));
    }
    assert_eq!(not_modified, [true, false, false, false, false]);
    let conditions = |seen: &Seen| (seen.field("if-none-match").is_some(), seen.field("if-modified-since").is_some());
    assert_eq!(
        server.seen().iter().map(conditions).collect::<Vec<_>>(),
        [(true, true), (true, true), (false, true), (false, false), (false, false)]
    );
}

#[tokio::test]
async fn every_status_says_what_follows_from_it() {
    let clock = Arc::new(ManualClock::at("2026-11-30T02:00:00Z".parse().unwrap()));
    let client = HttpClient::new(loopback(), clock).unwrap();
    let hour = Duration::from_hours(1);
    for (status, retry_after, outcome, reason, is_pushback) in [
        (400, None, Outcome::Terminal, "StatusUnexpected", false),
        (401, None, Outcome::Terminal, "Unauthorized", false),
        (403, None, Outcome::Terminal, "Forbidden", false),
        (404, None, Outcome::Terminal, "NotFound", false),
        (408, None, Outcome::RETRY, "StatusUnexpected", false),
        (410, None, Outcome::Terminal, "Gone", false),
        (429, None, Outcome::RETRY, "TooManyRequests", true),
        (429, Some("17"), retry(Duration::from_secs(17)), "TooManyRequests", true),
        (429, Some("0"), Outcome::RETRY, "TooManyRequests", true),
        (500, None, Outcome::RETRY, "ServerError", false),
        (502, None, Outcome::RETRY, "ServerError", false),
        (503, Some("999999999"), retry(hour), "Unavailable", true),
        (503, Some("Mon, 30 Nov 2026 02:00:30 GMT"), retry(Duration::from_secs(30)), "Unavailable", true),
        (503, Some("Mon, 30 Nov 2020 02:00:30 GMT"), Outcome::RETRY, "Unavailable", true),
        (503, Some("-1"), Outcome::RETRY, "Unavailable", true),
        (300, None, Outcome::Terminal, "StatusUnexpected", false),
    ] {
        let server = HttpServer::start(move |_| {
            let reply = Reply::status(status).body(r#"{"error":"no"}"#).field("Content-Type", "application/json");
            retry_after.into_iter().fold(reply, |reply, value| reply.field("Retry-After", value))
        })
        .await;
        let error = fetch(&client, &get(server.url("/x")), &NodeAccess::default()).await.unwrap_err();
        assert_eq!(
            (error.outcome(), error.reason(), error.is_pushback()),
            (outcome, reason, is_pushback),
            "{status} {retry_after:?}"
        );
        let Failure::Status(failure) = &error.failure else { panic!("{error}") };
        assert_eq!(failure.response.body, r#"{"error":"no"}"#);
        assert_eq!(failure.response.content_type.as_deref(), Some("application/json"));
        assert!(error.to_string().starts_with(&format!("{} answered {status}", server.url("/x"))), "{error}");
    }
}

#[tokio::test]
async fn only_the_start_of_an_errors_body_is_kept() {
    let server = HttpServer::start(|_| Reply::status(500).body(vec![b'x'; 1 << 20])).await;
    let error = fetch(&client(loopback()), &get(server.url("/")), &NodeAccess::default()).await.unwrap_err();
    let Failure::Status(failure) = &error.failure else { panic!("{error}") };
    assert_eq!(failure.response.body, vec![b'x'; 4096]);
}

#[tokio::test]
async fn a_request_whose_no_is_an_answer_gets_client_errors_but_not_pushback() {
    let mut statuses = Vec::new();
    for status in [400, 404, 408, 425, 429, 500] {
        let server = HttpServer::start(move |_| Reply::status(status).body("no")).await;
        let request = Request { decodes_client_errors: true, ..get(server.url("/")) };
        let fetched = fetch(&client(loopback()), &request, &NodeAccess::default()).await;
        statuses.push((status, fetched.is_ok_and(|fetched| body_of(fetched) == "no")));
    }
    assert_eq!(statuses, [(400, true), (404, true), (408, false), (425, false), (429, false), (500, false)]);
}

#[tokio::test]
async fn each_kind_of_credential_reaches_its_origin() {
    let server = HttpServer::start(|_| Reply::ok("x")).await;
    let basic = Credential::Basic { username: "Aladdin".to_owned(), password: Secret::new("open sesame") };
    let header = |name: &str, value: &str| Credential::Header { name: name.to_owned(), value: Secret::new(value) };
    let mock = r#"{"region":"eu","audience":"x","clientId":"trawler"}"#;
    for (credential, name, expected) in [
        (Credential::Bearer { token: Secret::new("t0ken\n") }, "authorization", "Bearer t0ken"),
        (basic, "authorization", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
        (header("X-CKAN-API-Key", "k"), "x-ckan-api-key", "k"),
        (header("Authorization", mock), "authorization", mock),
    ] {
        let access = NodeAccess {
            credential: Some(Arc::new(credential)),
            credential_origins: vec![server.origin()],
            ..NodeAccess::default()
        };
        fetch(&client(loopback()), &get(server.url("/")), &access).await.unwrap();
        assert_eq!(server.seen().pop().unwrap().field(name), Some(expected));
    }
}

#[tokio::test]
async fn a_credential_that_no_field_may_hold_is_named_but_not_shown() {
    let server = HttpServer::start(|_| Reply::ok("x")).await;
    for credential in [
        Credential::Bearer { token: Secret::new("canary\r\nX: y") },
        Credential::Header { name: "Host".to_owned(), value: Secret::new("canary") },
        Credential::Header { name: "a b".to_owned(), value: Secret::new("canary") },
        Credential::Basic { username: "a:b".to_owned(), password: Secret::new("canary") },
    ] {
        let access = NodeAccess {
            credential: Some(Arc::new(credential)),
            credential_origins: vec![server.origin()],
            ..NodeAccess::default()
        };
        let error = fetch(&client(loopback()), &get(server.url("/")), &access).await.unwrap_err();
        assert_eq!((error.reason(), error.outcome()), ("CredentialUnusable", Outcome::Terminal), "{error}");
        assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
    }
    assert_eq!(server.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn a_credential_goes_to_no_origin_but_the_listed_ones() {
    let server = HttpServer::start(|_| Reply::ok("x")).await;
    let access = bearer_for(OriginKey::from("http://127.0.0.1:1"));
    fetch(&client(loopback()), &get(server.url("/")), &access).await.unwrap();
    assert_eq!(server.seen()[0].field("authorization"), None);
}

#[tokio::test]
async fn a_credential_follows_a_redirect_inside_its_origin_only() {
    let other = HttpServer::start(|_| Reply::ok("x")).await;
    let away = other.url("/away");
    let server = HttpServer::start(move |seen| match seen.target.as_str() {
        "/here" => Reply::redirect(302, "/there"),
        "/there" => Reply::redirect(302, away.as_str()),
        _ => Reply::ok("x"),
    })
    .await;
    let mut access = bearer_for(server.origin());
    access.credential_origins.push(other.origin());
    fetch(&client(loopback()), &get(server.url("/here")), &access).await.unwrap();
    let authorized =
        |server: &HttpServer| server.seen().iter().map(|s| s.field("authorization").is_some()).collect::<Vec<_>>();
    assert_eq!((authorized(&server), authorized(&other)), (vec![true, true], vec![false]));
}

#[tokio::test]
async fn a_credential_does_not_come_back_with_the_redirect_that_comes_back() {
    let server = HttpServer::start(|seen| match seen.target.as_str() {
        "/a" => Reply::redirect(
            302,
            format!("http://localhost:{}/b", seen.field("host").unwrap().rsplit(':').next().unwrap()),
        ),
        "/b" => Reply::redirect(
            302,
            format!("http://127.0.0.1:{}/c", seen.field("host").unwrap().rsplit(':').next().unwrap()),
        ),
        _ => Reply::ok("x"),
    })
    .await;
    fetch(&client(loopback()), &get(server.url("/a")), &bearer_for(server.origin())).await.unwrap();
    let authorized: Vec<_> =
        server.seen().iter().map(|seen| (seen.target.clone(), seen.field("authorization").is_some())).collect();
    assert_eq!(authorized, [("/a".to_owned(), true), ("/b".to_owned(), false), ("/c".to_owned(), false)]);
}

#[tokio::test]
async fn a_proxy_is_used_when_configured_and_judged_like_any_other_way() {
    let proxy = HttpServer::start(|_| Reply::ok("through")).await;
    let mut url = proxy.url("/");
    url.set_username("user").unwrap();
    url.set_password(Some("canary")).unwrap();
    let config = trawler::crawler::http::HttpConfig { proxy: Some(ProxyUrl(url)), ..Default::default() };
    assert!(!format!("{config:?}").contains("canary"));
    let client = client(config);
    let public = Url::parse("http://catalogue.example/dcat").unwrap();
    assert_eq!(body_of(fetch(&client, &get(public), &NodeAccess::default()).await.unwrap()), "through");
    assert_eq!(proxy.asked(), ["GET http://catalogue.example/dcat"]);
    for refused in ["http://10.0.0.1/", "http://redis/", "http://api.default.svc/", "http://localhost/"] {
        let error = fetch(&client, &get(Url::parse(refused).unwrap()), &NodeAccess::default()).await.unwrap_err();
        assert_eq!(error.reason(), "AddressRefused", "{refused}");
    }
    assert_eq!(proxy.asked().len(), 1);
}

struct Issuer {
    server: HttpServer,
    issued: Arc<AtomicUsize>,
}

impl Issuer {
    async fn start(expires_in_s: u64) -> Self {
        let issued = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&issued);
        let server = HttpServer::start(move |_| {
            let number = count.fetch_add(1, Ordering::SeqCst);
            Reply::ok(format!(r#"{{"access_token":"t{number}","token_type":"Bearer","expires_in":{expires_in_s}}}"#))
        })
        .await;
        Self { server, issued }
    }

    fn access(&self, origin: OriginKey) -> NodeAccess {
        let credential = Credential::OAuth2ClientCredentials {
            client_id: "the client".to_owned(),
            client_secret: Secret::new("s3cr:t"),
            token_url: self.server.url("/token"),
            scope: Some("catalog read".to_owned()),
            audience: Some("urn:x".to_owned()),
        };
        NodeAccess { credential: Some(Arc::new(credential)), credential_origins: vec![origin], ..NodeAccess::default() }
    }
}

#[tokio::test]
async fn a_token_is_fetched_once_and_renewed_before_it_ends() {
    let issuer = Issuer::start(600).await;
    let server = HttpServer::start(|_| Reply::ok("x")).await;
    let clock = Arc::new(ManualClock::at("2026-11-30T02:00:00Z".parse().unwrap()));
    let client = HttpClient::new(loopback(), clock.clone()).unwrap();
    let access = issuer.access(server.origin());
    for advance_s in [0, 0, 530, 20] {
        clock.advance(Duration::from_secs(advance_s));
        fetch(&client, &get(server.url("/")), &access).await.unwrap();
    }
    let sent: Vec<_> = server.seen().iter().map(|seen| seen.field("authorization").unwrap().to_owned()).collect();
    assert_eq!(sent, ["Bearer t0", "Bearer t0", "Bearer t0", "Bearer t1"]);
    let asked = issuer.server.seen().remove(0);
    assert_eq!(asked.field("authorization"), Some("Basic dGhlK2NsaWVudDpzM2NyJTNBdA=="));
    assert_eq!(asked.field("content-type"), Some("application/x-www-form-urlencoded"));
    assert_eq!(
        String::from_utf8(asked.body).unwrap(),
        "grant_type=client_credentials&scope=catalog+read&audience=urn%3Ax"
    );
}

#[tokio::test]
async fn a_token_fetch_takes_a_permit_and_the_request_after_it_another() {
    let issuer = Issuer::start(600).await;
    let server = HttpServer::start(|_| Reply::ok("x")).await;
    let (client, access, gate) = (client(loopback()), issuer.access(server.origin()), CountingGate::default());
    for _ in 0..2 {
        client.send(&get(server.url("/")), &access, &gate, None).await.unwrap();
    }
    assert_eq!(gate.asked(), [issuer.server.origin(), server.origin()]);
}

#[tokio::test]
async fn many_requests_at_once_fetch_one_token() {
    let issuer = Issuer::start(600).await;
    let server = HttpServer::start(|_| Reply::ok("x")).await;
    let (client, access, request) = (client(loopback()), issuer.access(server.origin()), get(server.url("/")));
    let fetches = (0..8).map(|_| fetch(&client, &request, &access));
    assert!(futures_util::future::join_all(fetches).await.iter().all(Result::is_ok));
    assert_eq!(issuer.issued.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_refused_token_is_replaced_once() {
    let issuer = Issuer::start(600).await;
    let server = HttpServer::start(|seen| match seen.field("authorization") {
        Some("Bearer t1") => Reply::ok("x"),
        Some("Bearer t0") if seen.target == "/first" => Reply::ok("x"),
        _ => Reply::status(401),
    })
    .await;
    let (client, access) = (client(loopback()), issuer.access(server.origin()));
    fetch(&client, &get(server.url("/first")), &access).await.unwrap();
    fetch(&client, &get(server.url("/revoked")), &access).await.unwrap();
    assert_eq!(server.asked(), ["GET /first", "GET /revoked", "GET /revoked"]);
}

#[tokio::test]
async fn a_new_token_that_is_refused_is_not_tried_again() {
    let issuer = Issuer::start(600).await;
    let server = HttpServer::start(|_| Reply::status(401)).await;
    let error = fetch(&client(loopback()), &get(server.url("/")), &issuer.access(server.origin())).await.unwrap_err();
    assert_eq!(error.reason(), "Unauthorized");
    assert_eq!((server.asked().len(), issuer.issued.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test]
async fn an_issuer_that_gives_no_token_is_named() {
    let failures = [
        (Reply::status(401).body(r#"{"error":"invalid_client"}"#), "TokenRefused", Outcome::Terminal),
        (Reply::ok("<html>"), "TokenRefused", Outcome::Terminal),
        (Reply::status(503).field("Retry-After", "9"), "Unavailable", retry(Duration::from_secs(9))),
        (Reply::redirect(302, "/elsewhere"), "TokenRefused", Outcome::Terminal),
    ];
    let server = HttpServer::start(|_| Reply::ok("x")).await;
    for (reply, reason, outcome) in failures {
        let issuer = HttpServer::start(move |_| reply.clone()).await;
        let access = Issuer { server: issuer, issued: Arc::default() };
        let error =
            fetch(&client(loopback()), &get(server.url("/")), &access.access(server.origin())).await.unwrap_err();
        assert_eq!((error.reason(), error.outcome()), (reason, outcome), "{error}");
        assert!(error.to_string().starts_with(access.server.url("/token").as_str()), "{error}");
        assert_eq!(error.origin, access.server.origin());
    }
    assert_eq!(server.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn an_issuer_is_judged_by_the_same_rules() {
    let server = HttpServer::start(|_| Reply::ok("x")).await;
    let credential = Credential::OAuth2ClientCredentials {
        client_id: "c".to_owned(),
        client_secret: Secret::new("s"),
        token_url: Url::parse("http://169.254.169.254/token").unwrap(),
        scope: None,
        audience: None,
    };
    let access = NodeAccess { credential: Some(Arc::new(credential)), ..bearer_for(server.origin()) };
    let error: FetchError = fetch(&client(loopback()), &get(server.url("/")), &access).await.unwrap_err();
    assert_eq!((error.reason(), error.url.as_str()), ("AddressRefused", "http://169.254.169.254/token"));
}
