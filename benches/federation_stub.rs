//! Serves a federation of many connectors on loopback, in a process of its own, so that the crawler's memory and time
//! can be measured without it. Ends when its standard input ends.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Parser;

#[path = "../tests/support/federation.rs"]
mod federation;

use federation::{StubFederation, StubOptions};

/// Serves a federation of DSP connectors on loopback until its standard input ends.
#[derive(Debug, Parser)]
struct Arguments {
    /// Connectors
    #[arg(long, default_value_t = 1000)]
    nodes: usize,
    /// Datasets of each connector, of about 1.2 kB
    #[arg(long, default_value_t = 100)]
    datasets_per_node: usize,
    /// Datasets a page
    #[arg(long, default_value_t = 100)]
    page_size: usize,
    /// Write a line per request here
    #[arg(long)]
    request_log: Option<PathBuf>,
    /// Write manifests for a crawl of the federation here
    #[arg(long)]
    manifests: PathBuf,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let Arguments { nodes, datasets_per_node, page_size, request_log, manifests } = Arguments::parse();
    let federation = StubFederation::start(&StubOptions { nodes, datasets_per_node, page_size, request_log }).await?;
    tokio::fs::write(&manifests, federation.manifests()).await?;
    let mut stdout = io::stdout();
    // Whoever started this waits for the line.
    writeln!(stdout, "ready")?;
    stdout.flush()?;

    tokio::task::spawn_blocking(|| io::copy(&mut io::stdin(), &mut io::sink())).await??;
    federation.flush_log()?;
    writeln!(stdout, "{} requests, {} body bytes", federation.requests(), federation.body_bytes())
}
