//! Bodies: received piece by piece, decompressed under a budget. The limit counts what comes *out* of the
//! decompression, so that a bomb costs no more memory than an honest document may.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use async_compression::tokio::bufread::{BrotliDecoder, DeflateDecoder, GzipDecoder, ZlibDecoder, ZstdDecoder};
use async_compression::zstd::DParameter;
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use reqwest::header::{CONTENT_ENCODING, HeaderMap};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader, ReadBuf};
use tokio::time::{Instant, timeout_at};
use tokio_util::io::StreamReader;

use super::classify;
use super::error::{Failure, Phase};

/// Encodings that a body may be wrapped in, one in the other.
const MAX_ENCODINGS: usize = 2;
/// What a body's announced length may reserve before a byte of it has come.
const MAX_RESERVED_BYTES: u64 = 1 << 20;
/// The least room that a piece of decompressed data is read into.
const READ_BYTES: usize = 16 << 10;
/// How much is decompressed before other tasks, and the deadline, get their turn.
const TURN_BYTES: usize = 1 << 20;
/// RFC 9659: a zstd body may ask for a window of 8 MiB at most.
const ZSTD_MAX_WINDOW_LOG: u32 = 23;

/// What a body may cost.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    /// Bytes after decompression.
    pub(super) max_decoded_bytes: u64,
    /// What happens to a longer body.
    pub(super) overflow: Overflow,
    /// When it must have arrived.
    pub(super) deadline: Instant,
    /// The time that the deadline was set for, to be shown.
    pub(super) total: Duration,
    /// Time between two pieces.
    pub(super) idle: Duration,
}

/// What happens to a body that is longer than the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overflow {
    /// It is a failure.
    Fail,
    /// Its start is enough.
    Cut,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Gzip,
    Brotli,
    Zstd,
    Deflate,
}

impl Encoding {
    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
            Self::Deflate => "deflate",
        }
    }
}

/// Reads a body to its end. `wire_bytes` counts what came, failures included.
pub(super) async fn read(response: reqwest::Response, budget: &Budget, wire_bytes: &mut u64) -> Result<Bytes, Failure> {
    let encodings = encodings_of(response.headers())?;
    let announced = response.content_length().unwrap_or(0).min(MAX_RESERVED_BYTES).min(budget.max_decoded_bytes);
    let mut out = BytesMut::with_capacity(usize::try_from(announced).unwrap_or(0));
    let mut wire = Wire { response, budget, received: wire_bytes, end: u64::MAX };
    if encodings.is_empty() {
        while let Some(piece) = wire.next().await? {
            let room = budget.room_after(out.len());
            out.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.len() > room {
                budget.overflown()?;
                break;
            }
        }
    } else {
        wire.end = wire.received.saturating_add(budget.max_layer_bytes());
        decode(&mut wire, &encodings, budget, &mut out).await?;
    }
    Ok(out.freeze())
}

impl Budget {
    fn overflown(&self) -> Result<(), Failure> {
        match self.overflow {
            Overflow::Fail => Err(Failure::TooLarge { limit: self.max_decoded_bytes }),
            Overflow::Cut => Ok(()),
        }
    }

    /// What may come out of a layer that another one is inside of, or over the wire. Data that can't be compressed grows
    /// a little; more than that is a stream that yields nothing.
    fn max_layer_bytes(&self) -> u64 {
        self.max_decoded_bytes.saturating_add(self.max_decoded_bytes / 16 + MAX_RESERVED_BYTES)
    }

    fn room_after(&self, used: usize) -> usize {
        usize::try_from(self.max_decoded_bytes).unwrap_or(usize::MAX).saturating_sub(used)
    }
}

type Source<'a> = Pin<Box<dyn AsyncBufRead + Send + 'a>>;
type Layer<'a> = Pin<Box<dyn AsyncRead + Send + 'a>>;

/// The body as it comes over the wire.
struct Wire<'a> {
    response: reqwest::Response,
    budget: &'a Budget,
    received: &'a mut u64,
    /// The count at which there is too much of it.
    end: u64,
}

impl Wire<'_> {
    async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        let Budget { deadline, total, idle, max_decoded_bytes, .. } = *self.budget;
        let now = Instant::now();
        if now >= deadline {
            // A server that always has something ready would never let the timer below run out.
            return Err(Failure::Timeout { phase: Phase::Receiving, limit: total });
        }
        let idle_ends = now + idle.min(total);
        match timeout_at(idle_ends.min(deadline), self.response.chunk()).await {
            Err(_) if idle_ends < deadline => Err(Failure::Timeout { phase: Phase::Idle, limit: idle }),
            Err(_) => Err(Failure::Timeout { phase: Phase::Receiving, limit: total }),
            Ok(Err(error)) => Err(classify::of_receiving(&error)),
            Ok(Ok(None)) => Ok(None),
            Ok(Ok(Some(piece))) => {
                *self.received += piece.len() as u64;
                if *self.received > self.end {
                    return Err(Failure::TooLarge { limit: max_decoded_bytes });
                }
                Ok(Some(piece))
            }
        }
    }
}

async fn decode(
    wire: &mut Wire<'_>,
    encodings: &[Encoding],
    budget: &Budget,
    out: &mut BytesMut,
) -> Result<(), Failure> {
    let outermost = encodings.last().map_or("", |encoding| encoding.name());
    let failed = |error| of_decoding(error, outermost);
    let pieces = stream::unfold(wire, |wire| async move {
        match wire.next().await {
            Ok(piece) => piece.map(|piece| (Ok(piece), wire)),
            Err(failure) => Some((Err(io::Error::other(failure)), wire)),
        }
    });
    let mut source: Source<'_> = Box::pin(StreamReader::new(pieces));
    if source.fill_buf().await.map_err(failed)?.is_empty() {
        return Ok(());
    }
    for encoding in encodings.iter().rev() {
        let layer = unwrapped(*encoding, source).await.map_err(failed)?;
        let bounded = Bounded { layer, left: budget.max_layer_bytes(), limit: budget.max_decoded_bytes };
        source = Box::pin(BufReader::new(bounded));
    }
    let mut turn_ends = TURN_BYTES;
    loop {
        let room = budget.room_after(out.len());
        if out.capacity() - out.len() < READ_BYTES {
            out.reserve(out.len().clamp(READ_BYTES, room.saturating_add(READ_BYTES)));
        }
        if source.read_buf(out).await.map_err(failed)? == 0 {
            return Ok(());
        }
        if out.len() as u64 > budget.max_decoded_bytes {
            out.truncate(usize::try_from(budget.max_decoded_bytes).unwrap_or(usize::MAX));
            return budget.overflown();
        }
        if out.len() > turn_ends {
            turn_ends = out.len() + TURN_BYTES;
            tokio::task::yield_now().await;
            if Instant::now() > budget.deadline {
                return Err(Failure::Timeout { phase: Phase::Receiving, limit: budget.total });
            }
        }
    }
}

/// One layer of compression taken off.
async fn unwrapped(encoding: Encoding, mut source: Source<'_>) -> io::Result<Layer<'_>> {
    Ok(match encoding {
        Encoding::Gzip => {
            let mut decoder = GzipDecoder::new(source);
            decoder.multiple_members(true);
            Box::pin(decoder)
        }
        Encoding::Brotli => Box::pin(BrotliDecoder::new(source)),
        Encoding::Zstd => {
            let mut decoder = ZstdDecoder::with_params(source, &[DParameter::window_log_max(ZSTD_MAX_WINDOW_LOG)]);
            decoder.multiple_members(true);
            Box::pin(decoder)
        }
        // The standard means zlib; some servers send the bare stream.
        Encoding::Deflate if is_zlib(source.fill_buf().await?) => Box::pin(ZlibDecoder::new(source)),
        Encoding::Deflate => Box::pin(DeflateDecoder::new(source)),
    })
}

/// A layer with an end. Without it, a bomb inside a bomb could keep the outer layer busy with what the inner one makes
/// nothing of, and never come back.
struct Bounded<'a> {
    layer: Layer<'a>,
    left: u64,
    limit: u64,
}

impl AsyncRead for Bounded<'_> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = self.layer.as_mut().poll_read(cx, buf);
        match self.left.checked_sub((buf.filled().len() - before) as u64) {
            Some(left) => self.left = left,
            None => return Poll::Ready(Err(io::Error::other(Failure::TooLarge { limit: self.limit }))),
        }
        read
    }
}

/// Whether this starts with zlib's header (RFC 1950): method 8, and a checksum over the first two bytes.
fn is_zlib(start: &[u8]) -> bool {
    match start {
        [cmf, flags, ..] => cmf & 0x0f == 8 && u16::from_be_bytes([*cmf, *flags]) % 31 == 0,
        [cmf] => cmf & 0x0f == 8,
        [] => true,
    }
}

fn of_decoding(error: io::Error, encoding: &'static str) -> Failure {
    match error.downcast::<Failure>() {
        Ok(failure) => failure,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Failure::Truncated { why: format!("its {encoding} stream has no end") }
        }
        Err(error) => Failure::Decoding { encoding, why: error.to_string() },
    }
}

/// The encodings that a body is wrapped in, innermost first.
fn encodings_of(headers: &HeaderMap) -> Result<Vec<Encoding>, Failure> {
    let mut encodings = Vec::new();
    for value in headers.get_all(CONTENT_ENCODING) {
        let unknown = || {
            let text = String::from_utf8_lossy(value.as_bytes());
            Failure::Encoding { encoding: text.chars().filter(|c| !c.is_control()).take(64).collect() }
        };
        for name in value.to_str().map_err(|_| unknown())?.split(',') {
            let encoding = match name.trim().to_ascii_lowercase().as_str() {
                "" | "identity" => continue,
                "gzip" | "x-gzip" => Encoding::Gzip,
                "br" => Encoding::Brotli,
                "zstd" => Encoding::Zstd,
                "deflate" => Encoding::Deflate,
                _ => return Err(unknown()),
            };
            if encodings.len() == MAX_ENCODINGS {
                return Err(unknown());
            }
            encodings.push(encoding);
        }
    }
    Ok(encodings)
}
