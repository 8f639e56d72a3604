//! `trawler probe`.

use std::time::Duration;

use clap::Args;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use url::Url;

use super::common::{block_on, complain};
use super::exit;

/// Ask a URL of the operator, print what it answers, and exit with 0 if that is 200.
///
/// For images without a shell: `helm test` asks /readyz by it.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  trawler probe http://localhost:8081/readyz")]
pub(super) struct ProbeArgs {
    /// What is asked: http://HOST:PORT/PATH
    #[arg(value_name = "URL")]
    url: Url,
}

const PATIENCE: Duration = Duration::from_secs(10);
const MAX_ANSWER_BYTES: u64 = 1 << 20;

pub(super) fn main(args: &ProbeArgs) -> u8 {
    if args.url.scheme() != "http" {
        complain(format_args!("{} is not a URL that begins with http://", args.url));
        return exit::USAGE;
    }
    block_on(async {
        match tokio::time::timeout(PATIENCE, ask(&args.url)).await {
            Ok(Ok((is_ok, body))) => {
                super::common::print(&body);
                if is_ok { exit::OK } else { exit::FAILED }
            }
            Ok(Err(error)) => {
                complain(format_args!("{} can't be asked: {error}", args.url));
                exit::FAILED
            }
            Err(_) => {
                complain(format_args!("{} gave no answer within {} s", args.url, PATIENCE.as_secs()));
                exit::FAILED
            }
        }
    })
}

/// One request of HTTP/1.0: what is asked is our own server.
async fn ask(url: &Url) -> std::io::Result<(bool, String)> {
    let host = url.host_str().unwrap_or_default();
    let port = url.port_or_known_default().unwrap_or(80);
    let mut stream = TcpStream::connect((host.trim_matches(['[', ']']), port)).await?;
    let request = format!("GET {} HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n\r\n", url.path());
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).unwrap_or_default();
    Ok((status == "200", body.to_owned()))
}
