//! The federation on loopback: one server a history, a path a section. What it answers is logged as it is said.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use crate::history::{FaultKind, Speaks};
use crate::http_server::{HttpServer, Reply, Seen};
use crate::world::{Answer, Entry, Item, World};

/// Serves the world.
pub(crate) async fn serve(world: Arc<Mutex<World>>) -> HttpServer {
    HttpServer::start(move |seen| {
        let mut world = world.lock().unwrap_or_else(PoisonError::into_inner);
        world.count();
        let Some((node, section, rest)) = parse_path(&seen.target) else { return Reply::status(404) };
        Request { world: &mut world, seen, node, section, since: None }.answer(rest)
    })
    .await
}

/// Where a section is, as the path of its server's address: `/n0/s1`.
pub(crate) fn path_of(node: usize, section: usize) -> String {
    format!("/n{node}/s{section}")
}

fn parse_path(target: &str) -> Option<(usize, usize, &str)> {
    let (node, rest) = target.strip_prefix("/n")?.split_once("/s")?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (section, rest) = rest.split_at(end);
    Some((node.parse().ok()?, section.parse().ok()?, rest))
}

struct Request<'a> {
    world: &'a mut World,
    seen: &'a Seen,
    node: usize,
    section: usize,
    /// It asks for what changed since then.
    since: Option<i64>,
}

impl Request<'_> {
    fn answer(mut self, rest: &str) -> Reply {
        if rest.starts_with("/.well-known/") {
            let body = json!({"protocolVersions": [{"version": "2025-1", "path": "/", "binding": "HTTPS"}]});
            let answer = Answer { next: Some("from=0".to_owned()), ..Answer::default() };
            let (fault, _) = self.fault(None, &mut Vec::new());
            return self.say(fault, "versions".to_owned(), answer, Reply::ok(body.to_string()));
        }
        let offset = number(self.seen, "start").or_else(|| number(self.seen, "from")).unwrap_or(0);
        self.since = since(self.seen);
        match self.world.nodes[self.node].speaks {
            Speaks::Ckan => self.package_search(offset),
            Speaks::Dsp => self.catalogue(offset),
            Speaks::Feed { total } => self.feed(offset, total),
            Speaks::Document => self.document(),
        }
    }

    /// What is asked for, of what there is; and the rest.
    fn shown(&self) -> (Vec<Item>, Vec<Item>) {
        let shown = self.world.nodes[self.node].sections[self.section].shown().iter().cloned();
        shown.partition(|item| self.since.is_none_or(|since| item.modified >= since))
    }

    /// The page that begins here, and whether more follow.
    fn page(&self, offset: usize, size: usize) -> (Vec<Item>, bool) {
        let (shown, _) = self.shown();
        let end = (offset + size).min(shown.len());
        (shown.get(offset..end).unwrap_or_default().to_vec(), end < shown.len())
    }

    fn total(&self) -> u64 {
        self.shown().0.len() as u64
    }

    fn address(&self, offset: usize) -> String {
        format!("{}from={offset}", if self.since.is_some() { "changes, " } else { "" })
    }

    /// A question for changes may be refused, or by a CKAN portal answered with none: what follows is everything.
    fn say_of_page(&mut self, fault: Option<FaultKind>, offset: usize, mut answer: Answer, reply: Reply) -> Reply {
        let address = self.address(offset);
        answer.changes = self.since.is_some();
        answer.offset = Some(offset);
        if answer.changes && offset == 0 && !self.world.nodes[self.node].sections[self.section].may_hide {
            answer.left_out = self.shown().1;
        }
        match fault {
            Some(FaultKind::Status(status)) if answer.changes && offset == 0 => {
                let answer = Answer { next: Some("from=0".to_owned()), refused: true, ..Answer::default() };
                self.say(None, address, answer, Reply::status(status))
            }
            _ => {
                let is_ckan = self.world.nodes[self.node].speaks == Speaks::Ckan;
                if is_ckan && answer.changes && offset == 0 && answer.entries() == 0 {
                    answer = Answer { next: Some("from=0".to_owned()), refused: true, ..Answer::default() };
                }
                self.say(fault, address, answer, reply.field("Date", date(self.world.now)))
            }
        }
    }

    fn package_search(mut self, offset: usize) -> Reply {
        let rows = number(self.seen, "rows").unwrap_or(10);
        let (mut items, _) = self.page(offset, rows);
        let (total, number) = (self.total(), offset / rows);
        let (fault, nameless) = self.fault(Some(number), &mut items);
        let mut results: Vec<Value> = items
            .iter()
            .map(|item| json!({"id": item.id, "title": title(item), "metadata_modified": moment(item.modified)}))
            .collect();
        results.extend((0..nameless).map(|_| json!({"title": "Nameless"})));
        let body = json!({"success": true, "result": {"count": total, "results": results}});
        let answer = Answer { items, nameless, total: Some(total), ..Answer::default() };
        self.say_of_page(fault, offset, answer, Reply::ok(body.to_string()))
    }

    fn catalogue(mut self, offset: usize) -> Reply {
        let size = self.world.nodes[self.node].page_size;
        let (mut items, has_next) = self.page(offset, size);
        let (fault, nameless) = self.fault(Some(offset / size), &mut items);
        let sections = &self.world.nodes[self.node].sections;
        let listed: Vec<usize> = (1..sections.len())
            .filter(|nested| offset == 0 && sections[*nested].is_listed && sections[*nested].parent == self.section)
            .collect();
        let host = self.seen.field("host").unwrap_or_default();
        let nested = listed.iter().map(|nested| {
            let url = format!("http://{host}{}", path_of(self.node, *nested));
            json!({"@type": "Catalog", "@id": url, "service": [{"@id": "s", "@type": "DataService", "endpointURL": url}]})
        });
        let mut datasets: Vec<Value> =
            items.iter().map(|item| json!({"@id": item.id, "@type": "Dataset", "title": title(item)})).collect();
        datasets.extend((0..nameless).map(|_| json!({"@type": "Dataset", "title": "Nameless"})));
        let body = json!({
            "@context": ["https://w3id.org/dspace/2025/1/context.jsonld"],
            "@type": "Catalog",
            "participantId": "did:web:acme.example",
            "dataset": datasets,
            "catalog": nested.collect::<Vec<_>>(),
        });
        let mut reply = Reply::ok(body.to_string());
        let next = has_next.then(|| format!("from={}", offset + size));
        if let Some(next) = &next {
            reply = reply.field("Link", format!("<?{next}>; rel=\"next\""));
        }
        let answer = Answer { items, nameless, next, listed, ..Answer::default() };
        self.say_of_page(fault, offset, answer, reply)
    }

    fn feed(mut self, offset: usize, gives_total: bool) -> Reply {
        let size = self.world.nodes[self.node].page_size;
        let (mut items, has_next) = self.page(offset, size);
        let (fault, nameless) = self.fault(Some(offset / size), &mut items);
        let total = gives_total.then(|| self.total());
        let mut body = turtle(&items, nameless);
        // The links of a list of changes carry the question on, as ckanext-dcat's do.
        let question = self.since.map(|since| format!("&modified_since={}", moment(since))).unwrap_or_default();
        write!(body, "<#view> a hydra:PartialCollectionView ; hydra:first <?from=0{question}>").unwrap();
        let next = has_next.then(|| self.address(offset + size));
        if next.is_some() {
            write!(body, " ; hydra:next <?from={}{question}>", offset + size).unwrap();
        }
        if let Some(total) = total {
            write!(body, " ; hydra:totalItems {total}").unwrap();
        }
        body.push_str(" .\n");
        let answer = Answer { items, nameless, total, next, ..Answer::default() };
        self.say_of_page(fault, offset, answer, Reply::ok(body).field("Content-Type", "text/turtle"))
    }

    fn document(mut self) -> Reply {
        let (mut items, _) = self.page(0, usize::MAX / 2);
        let (fault, nameless) = self.fault(Some(0), &mut items);
        let body = turtle(&items, nameless);
        let etag = format!("\"{}\"", blake3::hash(body.as_bytes()).to_hex());
        let not_modified = self.seen.field("if-none-match") == Some(etag.as_str());
        let nameless = if not_modified { 0 } else { nameless };
        let answer = Answer { items, nameless, offset: Some(0), not_modified, ..Answer::default() };
        let reply =
            if not_modified { Reply::status(304) } else { Reply::ok(body).field("Content-Type", "text/turtle") };
        self.say(fault, "from=0".to_owned(), answer, reply.field("ETag", etag))
    }

    /// What goes wrong with a page. If it is only that an entry has no id, the last one loses it.
    fn fault(&mut self, page: Option<usize>, items: &mut Vec<Item>) -> (Option<FaultKind>, u64) {
        match self.world.fault(self.node, self.section, page) {
            Some(FaultKind::Nameless) => {
                let is_hidden = items.pop().is_some();
                self.world.nodes[self.node].sections[self.section].may_hide |= is_hidden;
                (None, u64::from(is_hidden))
            }
            fault => (fault, 0),
        }
    }

    /// Logs what is said: the answer, or what comes in its place.
    fn say(&mut self, fault: Option<FaultKind>, address: String, answer: Answer, reply: Reply) -> Reply {
        let answer = fault.is_none().then_some(answer);
        let (attempt, node, section) = (self.world.attempt, self.node, self.section);
        self.world.log.push(Entry { attempt, node, section, address, answer });
        match fault {
            None | Some(FaultKind::Nameless) => reply,
            Some(FaultKind::Status(status)) => Reply::status(status),
            Some(FaultKind::Html) => {
                Reply::ok("<!doctype html><title>This domain is for sale</title>").field("Content-Type", "text/html")
            }
            Some(FaultKind::Truncated) => Reply::ok("{\"@type\":").field("Content-Length", "4096").then_close(),
            Some(FaultKind::Half) => Reply::ok("{\"@type\": \"Catalog\", \"dataset\": [ @prefix dcat: <"),
            Some(FaultKind::HangUp) => Reply::raw(""),
        }
    }
}

/// What a record is called: its version is in it, so that what was kept tells what was read.
pub(crate) fn title(item: &Item) -> String {
    format!("{} in version {}", item.id, item.version)
}

fn turtle(items: &[Item], nameless: u64) -> String {
    let mut text = "@prefix dcat: <http://www.w3.org/ns/dcat#> .\n@prefix dct: <http://purl.org/dc/terms/> .\n\
        @prefix hydra: <http://www.w3.org/ns/hydra/core#> .\n<urn:catalogue> a dcat:Catalog .\n"
        .to_owned();
    for item in items {
        writeln!(text, "<urn:{}> a dcat:Dataset ; dct:title \"{}\" .", item.id, title(item)).unwrap();
    }
    for _ in 0..nameless {
        // A dataset about which nothing is said.
        writeln!(text, "[] a dcat:Dataset .").unwrap();
    }
    text
}

fn number(seen: &Seen, name: &str) -> Option<usize> {
    let (_, query) = seen.target.split_once('?')?;
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

/// The moment from which on changes are asked for.
fn since(seen: &Seen) -> Option<i64> {
    let (_, query) = seen.target.split_once('?')?;
    let asked = url::form_urlencoded::parse(query.as_bytes()).find_map(|(name, value)| match &*name {
        "fq" => Some(value.strip_prefix("metadata_modified:[")?.strip_suffix(" TO *]")?.to_owned()),
        "modified_since" => Some(format!("{value}Z")),
        _ => None,
    })?;
    Some(asked.parse::<jiff::Timestamp>().unwrap().as_second())
}

/// A moment as CKAN writes it.
fn moment(second: i64) -> String {
    jiff::Timestamp::from_second(second).unwrap().strftime("%Y-%m-%dT%H:%M:%S").to_string()
}

/// A moment as HTTP writes it.
fn date(second: i64) -> String {
    httpdate::fmt_http_date(std::time::UNIX_EPOCH + std::time::Duration::from_secs(second.unsigned_abs()))
}
