//! Content encodings, from the other end.

use async_compression::Level;
use async_compression::tokio::write::{BrotliEncoder, DeflateEncoder, GzipEncoder, ZlibEncoder, ZstdEncoder};
use futures_util::FutureExt;
use tokio::io::AsyncWriteExt;

/// A member of a gzip stream that is 64 kB long and holds nothing: all of it is an extra field of the header.
pub(crate) fn hollow_gzip() -> Vec<u8> {
    let head = [0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff];
    [&head[..], &vec![b'x'; 0xffff], &[3, 0], &[0; 8]].concat()
}

macro_rules! encoders {
    ($($(#[$doc:meta])* $name:ident: $encoder:ident;)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name(bytes: &[u8]) -> Vec<u8> {
            // Writing to memory never waits.
            async {
                let mut encoder = $encoder::with_quality(Vec::new(), Level::Fastest);
                encoder.write_all(bytes).await.unwrap();
                encoder.shutdown().await.unwrap();
                encoder.into_inner()
            }
            .now_or_never()
            .unwrap()
        }
    )*};
}

encoders! {
    gzip: GzipEncoder;
    brotli: BrotliEncoder;
    zstd: ZstdEncoder;
    /// What the standard calls `deflate`.
    zlib: ZlibEncoder;
    /// What some servers send as `deflate`.
    bare_deflate: DeflateEncoder;
}
