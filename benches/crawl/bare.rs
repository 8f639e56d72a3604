//! The yardstick: reads every page of every node over bare sockets, eight nodes at a time, and throws the bodies away.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const AT_A_TIME: usize = 8;

/// The nodes' addresses, from their manifests.
pub(crate) fn endpoints(manifests: &str) -> Vec<String> {
    let address =
        |line: &str| Some(line.trim().strip_prefix("endpoint: http://")?.strip_suffix("/api/dsp")?.to_owned());
    manifests.lines().filter_map(address).collect()
}

/// Reads all, and says how many bytes of bodies that were.
pub(crate) fn read_all(endpoints: &[String]) -> u64 {
    let (next, bytes) = (AtomicUsize::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(address) = endpoints.get(next.fetch_add(1, Ordering::Relaxed)) {
                    bytes.fetch_add(read_node(address), Ordering::Relaxed);
                }
            });
        }
    });
    bytes.into_inner()
}

fn read_node(address: &str) -> u64 {
    let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
    let mut target = "/api/dsp/2025-1/catalog/request".to_owned();
    let (mut bytes, mut body) = (0, Vec::new());
    loop {
        let request = format!("POST {target} HTTP/1.1\r\nhost: {address}\r\ncontent-length: 2\r\n\r\n{{}}");
        stream.get_mut().write_all(request.as_bytes()).unwrap();
        let (mut length, mut next) = (0, None);
        let mut line = String::new();
        loop {
            line.clear();
            stream.read_line(&mut line).unwrap();
            let field = line.trim_end();
            if field.is_empty() {
                break;
            }
            if let Some(value) = field.strip_prefix("Content-Length: ") {
                length = value.parse().unwrap();
            }
            if let Some(link) = field.strip_prefix("Link: <").and_then(|link| link.strip_suffix(">; rel=\"next\"")) {
                next = link.strip_prefix("http://").and_then(|link| link.strip_prefix(address)).map(str::to_owned);
            }
        }
        body.resize(length, 0);
        stream.read_exact(&mut body).unwrap();
        bytes += length as u64;
        match next {
            Some(next_target) => target = next_target,
            None => return bytes,
        }
    }
}
