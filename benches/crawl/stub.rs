//! Serves a federation of many connectors on loopback, in a process of its own, so that the crawler's memory and time
//! can be measured without it. Ends when its standard input ends.

use std::io::{self, Write};
use std::path::Path;

#[path = "../../tests/support/federation.rs"]
mod federation;

use federation::{StubFederation, StubOptions};

/// Serves until standard input ends; the manifests for a crawl are written to `manifests`.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn serve(
    nodes: usize,
    datasets_per_node: usize,
    page_size: usize,
    manifests: &Path,
) -> io::Result<()> {
    let options = StubOptions { nodes, datasets_per_node, page_size, request_log: None };
    let federation = StubFederation::start(&options).await?;
    tokio::fs::write(manifests, federation.manifests()).await?;
    let mut stdout = io::stdout();
    // Whoever started this waits for the line.
    writeln!(stdout, "ready")?;
    stdout.flush()?;
    tokio::task::spawn_blocking(|| io::copy(&mut io::stdin(), &mut io::sink())).await??;
    federation.flush_log()?;
    writeln!(stdout, "{} requests, {} body bytes", federation.requests(), federation.body_bytes())
}
