//! DCAT documents and feeds.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::{Place, Run, http_date, in_full_because, moment};
use crate::support::http_server::{HttpServer, Reply, Seen};
use crate::support::paged_feed::{Server, answer_of};

const NOW: &str = "2026-05-05T00:00:00Z";
const ONE_DOCUMENT: &str = "it is one document";

/// A document at `/catalog.ttl` with these datasets, and an `ETag`, a `Last-Modified` and a `Date` if it has any.
#[derive(Debug, Clone, Default)]
struct Document {
    datasets: Vec<String>,
    etag: Option<&'static str>,
    last_modified: Option<&'static str>,
    date: Option<&'static str>,
}

type Shared = Arc<Mutex<Document>>;

fn document(datasets: std::ops::Range<u32>, etag: &'static str) -> Shared {
    let datasets = datasets.map(|n| format!("d{n:02}")).collect();
    Arc::new(Mutex::new(Document { datasets, etag: Some(etag), ..Document::default() }))
}

impl Document {
    fn answer(&self, seen: &Seen) -> Reply {
        if !seen.target.starts_with("/catalog.ttl") && !seen.target.starts_with("/old.ttl") {
            return Reply::status(404);
        }
        let is_same = |field: &str, now: Option<&str>| now.is_some() && seen.field(field) == now;
        // RFC 9110 §13.2.2: a tag decides where there is one.
        let unchanged = match seen.field("if-none-match") {
            Some(_) => is_same("if-none-match", self.etag),
            None => seen.field("if-modified-since").zip(self.last_modified).is_some_and(|(since, last)| {
                let seconds = |text| jiff::fmt::rfc2822::parse(text).unwrap().timestamp();
                seconds(last) <= seconds(since)
            }),
        };
        let reply = if unchanged { Reply::status(304) } else { Reply::ok(self.turtle()) };
        let fields = [
            ("ETag", self.etag),
            ("Last-Modified", self.last_modified),
            ("Date", self.date),
            ("Content-Type", Some("text/turtle")),
        ];
        fields.into_iter().fold(reply, |reply, (name, value)| match value {
            Some(value) => reply.field(name, value),
            None => reply,
        })
    }

    fn turtle(&self) -> String {
        let prefixes = "@prefix dcat: <http://www.w3.org/ns/dcat#> . @prefix dct: <http://purl.org/dc/terms/> .";
        let dataset = |id: &String| format!("<https://d.example/{id}> a dcat:Dataset ; dct:title \"{id}\" .");
        let datasets: Vec<_> = self.datasets.iter().map(dataset).collect();
        format!("{prefixes} <https://d.example/> a dcat:Catalog .\n{}", datasets.join("\n"))
    }
}

async fn serve(document: &Shared) -> HttpServer {
    let document = document.clone();
    HttpServer::start(move |seen| document.lock().unwrap().answer(seen)).await
}

fn not_modified() -> Value {
    json!({"read": "NotModified"})
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unchanged_document_is_fetched_once_whatever_the_mode() {
    for protocol in ["DCAT", "Auto"] {
        let shared = document(0..5, "\"one\"");
        let server = serve(&shared).await;
        let place = Place::new(&server, "/catalog.ttl", &format!("  protocol: {protocol}\n"));
        assert_eq!(place.run("Full", &server).await.totals(), [5, 0, 0, 0]);
        for mode in ["Full", "Incremental", "Full"] {
            let run = place.run(mode, &server).await;
            assert_eq!((run.totals(), run.read()), ([0, 0, 5, 0], not_modified()), "{mode}, {protocol}");
            assert_eq!(server.seen().last().unwrap().field("if-none-match"), Some("\"one\""));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_document_is_read_in_full_by_an_incremental_run_too() {
    let shared = document(0..5, "\"one\"");
    let server = serve(&shared).await;
    let place = Place::new(&server, "/catalog.ttl", "  protocol: DCAT\n");
    place.run("Incremental", &server).await;
    *shared.lock().unwrap() = document(1..7, "\"two\"").lock().unwrap().clone();
    let run = place.run("Incremental", &server).await;
    assert_eq!((run.totals(), run.asked.len()), ([2, 0, 4, 1], 1));
    assert_eq!(run.read(), in_full_because(ONE_DOCUMENT));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_deletion_is_not_forgotten_because_the_document_stays_the_same() {
    let shared = document(0..60, "\"one\"");
    let server = serve(&shared).await;
    let place = Place::new(&server, "/catalog.ttl", "  protocol: DCAT\n");
    place.run("Full", &server).await;
    *shared.lock().unwrap() = document(0..10, "\"two\"").lock().unwrap().clone();
    for mode in ["Full", "Incremental", "Full"] {
        let run = place.run(mode, &server).await;
        assert_eq!((run.totals(), run.report["nodes"][0]["keptUnseen"].as_u64()), ([0, 0, 10, 0], Some(50)), "{mode}");
    }
    assert_eq!(place.titles().len(), 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_document_is_not_asked_for_with_the_validators_of_the_first() {
    // By its date the new document is the older one: asked with the first one's date, it would be "not modified".
    let dated = |datasets, last_modified| {
        let datasets = document(datasets, "").lock().unwrap().datasets.clone();
        let date = Some("Mon, 30 Nov 2026 03:00:00 GMT");
        Arc::new(Mutex::new(Document { datasets, etag: None, last_modified: Some(last_modified), date }))
    };
    let shared = dated(0..5, "Mon, 30 Nov 2026 02:00:00 GMT");
    let server = serve(&shared).await;
    let mut place = Place::new(&server, "/catalog.ttl", "  protocol: DCAT\n");
    place.run("Full", &server).await;
    assert_eq!(place.run("Full", &server).await.read(), not_modified());
    *shared.lock().unwrap() = dated(3..8, "Sun, 29 Nov 2026 02:00:00 GMT").lock().unwrap().clone();
    place.manifests = place.manifests.replace("/catalog.ttl", "/old.ttl");
    let run = place.run("Full", &server).await;
    assert_eq!((run.totals(), run.read()), ([3, 0, 2, 3], json!({"read": "Full"})));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_that_changes_again_within_its_second_is_read_again() {
    let modified = "Mon, 30 Nov 2026 02:00:00 GMT";
    for (etag, date, is_asked_with_it) in [
        // Too early to know that this was the second's last version, or unknown.
        (None, Some(modified), false),
        (None, Some("Mon, 30 Nov 2026 02:00:59 GMT"), false),
        (None, None, false),
        (None, Some("Mon, 30 Nov 2026 02:01:00 GMT"), true),
        // A tag tells versions apart whatever the time.
        (Some("\"one\""), Some(modified), true),
    ] {
        let shared = document(0..3, "");
        {
            let mut document = shared.lock().unwrap();
            (document.etag, document.last_modified, document.date) = (etag, Some(modified), date);
        }
        let server = serve(&shared).await;
        let place = Place::new(&server, "/catalog.ttl", "  protocol: DCAT\n");
        place.run("Full", &server).await;
        // By its tag or its date it is the same: who is asked with them answers that nothing was modified.
        shared.lock().unwrap().datasets[0] = "other".to_owned();
        let run = place.run("Full", &server).await;
        let is_asked = server.seen().last().unwrap().field("if-modified-since").is_some();
        let totals = if is_asked_with_it { [0, 0, 3, 0] } else { [1, 0, 2, 1] };
        assert_eq!((is_asked, run.totals()), (is_asked_with_it, totals), "{etag:?} {date:?}");
    }
}

/// A feed of a changing server, whose pages hold two datasets each.
#[derive(Debug, Clone)]
struct Feed {
    server: Server,
    datasets: Vec<(&'static str, &'static str)>,
    now: &'static str,
}

async fn serve_feed(feed: &Arc<Mutex<Feed>>) -> HttpServer {
    let feed = feed.clone();
    HttpServer::start(move |seen| {
        let feed = feed.lock().unwrap();
        let host = seen.field("host").unwrap();
        let url = format!("http://{host}{}", seen.target).parse().unwrap();
        let reply = match answer_of(feed.server, &feed.datasets, &url) {
            // One tag for all that it ever answers: who remembers that of a list of changes would be told "not modified".
            _ if seen.field("if-none-match").is_some() => Reply::status(304),
            Some(body) => Reply::ok(body).field("Content-Type", "text/turtle").field("ETag", "\"one\""),
            None => Reply::status(400),
        };
        reply.field("Date", http_date(moment(feed.now)))
    })
    .await
}

const OLD: [(&str, &str); 7] = [
    ("a", "2020-01-01T00:00:00"),
    ("b", "2020-01-01T00:00:00"),
    ("c", "2020-01-01T00:00:00"),
    ("d", "2020-01-01T00:00:00"),
    ("e", "2020-01-01T00:00:00"),
    ("f", "2020-01-01T00:00:00"),
    ("g", "2020-01-01T00:00:00"),
];

/// A full run, then some changes, then an incremental run.
async fn changed(server: Server) -> (Place, HttpServer, Run) {
    let feed = Arc::new(Mutex::new(Feed { server, datasets: OLD.to_vec(), now: NOW }));
    let http = serve_feed(&feed).await;
    let place = Place::new(&http, "/catalog.ttl", "  protocol: DCAT\n");
    let full = place.run("Full", &http).await;
    assert_eq!((full.totals(), full.asked.len()), ([7, 0, 0, 0], 4));
    {
        let mut now = feed.lock().unwrap();
        now.now = "2026-06-10T00:00:00Z";
        now.datasets[1].1 = "2026-06-01T00:00:00";
        now.datasets[5].1 = "2026-06-02T00:00:00";
        now.datasets.remove(3);
        now.datasets.push(("h", "2026-06-03T00:00:00"));
    }
    let run = place.run("Incremental", &http).await;
    (place, http, run)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paged_feed_gives_only_what_changed_and_a_full_run_finds_what_is_gone() {
    let (place, http, run) = changed(Server::Knows).await;
    assert_eq!((run.totals(), run.asked.len()), ([1, 2, 0, 0], 2), "{:?}", run.asked);
    assert!(run.asked.iter().all(|asked| asked.contains("modified_since=2026-05-04T00")), "{:?}", run.asked);
    assert_eq!(run.read(), json!({"read": "Incremental", "since": "2026-05-04T00:00:00Z"}));
    assert_eq!(place.titles().len(), 8);
    let nothing = place.run("Incremental", &http).await;
    assert_eq!((nothing.totals(), nothing.asked.len()), ([0, 0, 0, 0], 1));
    let full = place.run("Full", &http).await;
    // One is missing from the list, so it is read a second time.
    assert_eq!((full.totals(), full.asked.len()), ([0, 0, 7, 1], 2 * 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paged_feed_that_knows_no_changes_is_read_in_full_and_loses_what_is_gone() {
    for (server, why) in [
        (Server::Ignores, "the server was asked for changes and answered with everything"),
        (Server::Forgets, "the server was asked for changes and answered with everything"),
        (Server::Refuses, "the server refused to be asked for changes"),
    ] {
        let (place, http, run) = changed(server).await;
        assert_eq!((run.totals(), run.read()), ([1, 2, 4, 1], in_full_because(why)), "{server:?}");
        assert_eq!(run.asked.len(), 1 + 2 * 4, "the question, and four pages twice, since one is missing");
        if server == Server::Forgets {
            // When nothing has changed there is no page, so no link that could forget.
            continue;
        }
        let again = place.run("Incremental", &http).await;
        assert_eq!((again.totals(), again.read()), ([0, 0, 7, 0], in_full_because(why)), "{server:?}");
    }
}
