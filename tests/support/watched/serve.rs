//! Reading requests and answering them, over kept connections; every request is written down.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use trawler::clock::{Clock, SystemClock};

use super::{Asked, RetryAfter, Shared};
use crate::log::Seen;

#[derive(Clone, Copy)]
pub(super) struct Server {
    pub(super) number: usize,
    pub(super) address: SocketAddr,
}

pub(super) async fn accept(listener: TcpListener, server: Server, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let shared = shared.clone();
                // The other side may hang up whenever it likes.
                tokio::spawn(async move { drop(talk(stream, server, &shared).await) });
            }
            // Out of file descriptors: give the connections a chance to end.
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

async fn talk(mut stream: TcpStream, server: Server, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let clock = SystemClock::new();
    let now = || clock.now().as_microsecond();
    let mut input = BytesMut::with_capacity(4096);
    loop {
        let Some((line, length)) = complete_request(&input)? else {
            if stream.read_buf(&mut input).await? == 0 {
                return Ok(());
            }
            continue;
        };
        let arrived = now();
        input.advance(length);
        let (seen, bytes, takes) = answer(&line, arrived, server, shared);
        shared.state().under_way += 1;
        let has_left = tokio::select! {
            () = tokio::time::sleep(takes), if !takes.is_zero() => false,
            // A client that waits for its answer says nothing, so whatever there is to read is its leaving.
            left = stream.read_buf(&mut input), if !takes.is_zero() => !matches!(left, Ok(1..)),
            else => false,
        };
        let answered = now();
        let seen = if has_left { Seen { status: 0, records: 0, bytes: 0, opens: 0, ..seen } } else { seen };
        {
            let mut state = shared.state();
            state.under_way -= 1;
            state.seen.push(Seen { answered, ..seen });
        }
        if has_left {
            return Ok(());
        }
        stream.write_all(&bytes).await?;
    }
}

/// The request line and the length of the first request, once all of it is there.
fn complete_request(input: &[u8]) -> io::Result<Option<(String, usize)>> {
    let Some(end) = input.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
    let head = String::from_utf8_lossy(&input[..end]).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")).map_or("0", str::trim);
    let length: usize = length.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    let line = String::from_utf8_lossy(&input[..end]).lines().next().unwrap_or_default().to_owned();
    Ok((input.len() >= end + 4 + length).then_some((line, end + 4 + length)))
}

/// What is answered, as it will be written down and as bytes, and how long that takes.
fn answer(line: &str, arrived: i64, server: Server, shared: &Shared) -> (Seen, Vec<u8>, Duration) {
    let request = line.trim_end_matches(" HTTP/1.1").to_owned();
    let (method, target) = request.split_once(' ').unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (node, path) = path.trim_start_matches('/').split_once('/').unwrap_or_default();
    let mut state = shared.state();
    let number = state.asked.entry(server.number).or_default();
    let asked = Asked { number: *number };
    *number += 1;
    let behaviour = (shared.mood)(asked);
    let mut seen = Seen {
        arrived,
        answered: arrived,
        origin: server.address.to_string(),
        node: node.to_owned(),
        request: request.clone(),
        status: 200,
        records: 0,
        bytes: 0,
        opens: 0,
        retry_after: None,
    };
    let (mut fields, mut body) = (String::new(), String::new());
    if let Some((status, retry_after)) = behaviour.refuses {
        seen.status = status;
        seen.retry_after = retry_after.text(arrived);
        fields = seen.retry_after.as_ref().map_or_else(String::new, |value| format!("Retry-After: {value}\r\n"));
    } else {
        let catalogue = node.strip_prefix("n-").and_then(|node| state.catalogues.get(node.parse::<usize>().ok()?));
        let page = query.strip_prefix("continuationToken=").map_or(Some(0), |token| token.parse().ok());
        match (method, path) {
            ("GET", ".well-known/dspace-version") if catalogue.is_some() => {
                seen.opens = 1;
                VERSIONS.clone_into(&mut body);
            }
            ("POST", PAGES)
                if let Some(page) = catalogue.zip(page).and_then(|(catalogue, page)| catalogue.page(page)) =>
            {
                if let Some(next) = page.next {
                    seen.opens = 1;
                    let address = server.address;
                    fields =
                        format!("Link: <http://{address}/{node}/{PAGES}?continuationToken={next}>; rel=\"next\"\r\n");
                }
                seen.records = page.records;
                body = page.body;
            }
            _ => seen.status = 404,
        }
    }
    seen.bytes = body.len() as u64;
    let (status, length) = (seen.status, body.len());
    let bytes = format!(
        "HTTP/1.1 {status} Watched\r\nContent-Type: application/json\r\n{fields}Content-Length: {length}\r\n\r\n{body}"
    );
    (seen, bytes.into_bytes(), behaviour.takes)
}

const VERSIONS: &str = r#"{"protocolVersions":[{"version":"2025-1","path":"/2025-1","binding":"HTTPS"}]}"#;
const PAGES: &str = "2025-1/catalog/request";

impl RetryAfter {
    fn text(self, now: i64) -> Option<String> {
        match self {
            Self::None => None,
            Self::Seconds(seconds) => Some(seconds.to_string()),
            Self::Date(seconds) => Some(httpdate::fmt_http_date(date_after(now, seconds))),
        }
    }
}

fn date_after(now: i64, seconds: u64) -> SystemTime {
    let now_s = u64::try_from(now).unwrap_or(0).div_ceil(1_000_000);
    UNIX_EPOCH + Duration::from_secs(now_s + seconds)
}
