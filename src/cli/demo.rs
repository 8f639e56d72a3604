//! `trawler demo`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ipnet::{IpNet, Ipv4Net};
use tokio_util::sync::CancellationToken;

use super::common::{DisplayOptions, block_on, complain, fail, print, start_logging};
use super::run::{OutputFormat, finish, interrupt_on_ctrl_c};
use super::{LogOptions, exit};
use crate::clock::SystemClock;
use crate::crawler::http::HttpConfig;
use crate::demo::{DemoFederation, DemoOptions, FIRST_PORT};
use crate::local::export::Format;
use crate::local::manifests::{Input, load};
use crate::local::secrets::SecretSources;
use crate::local::validate::accept;
use crate::local::{self, RunOptions, choose_run, read_report};

/// Crawl a small federation that is inside this program: two DSP connectors, a CKAN portal and two DCAT feeds.
///
/// It is served on loopback and crawled like any other. Run it again to see what changed: with every run the federation
/// gains, loses and changes some datasets.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  trawler demo\n  trawler demo            again: added, updated, unchanged and deleted\n  trawler records ls -d trawler-demo"
)]
pub(super) struct DemoArgs {
    /// Where records, report and state go
    #[arg(long, short, value_name = "DIR", default_value = "trawler-demo")]
    dir: PathBuf,
    /// How records are written
    #[arg(long, value_enum, default_value = "jsonl")]
    format: Format,
    /// How long each answer takes, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 120)]
    latency_ms: u64,
    /// How the summary is printed
    #[arg(long, short, value_enum, default_value = "text")]
    output: OutputFormat,
    #[command(flatten)]
    display: DisplayOptions,
}

pub(super) fn main(args: DemoArgs, log: &LogOptions) -> u8 {
    let display = args.display.display();
    start_logging(log, &display);
    block_on(async move {
        let latency = Duration::from_millis(args.latency_ms);
        let federation = match DemoFederation::start(DemoOptions {
            first_port: FIRST_PORT,
            latency,
            ..DemoOptions::default()
        })
        .await
        {
            Ok(federation) => federation,
            Err(error) => {
                return fail(format_args!("the demo's servers can't listen on 127.0.0.1: {error}"), exit::FAILED);
            }
        };
        // What has passed since the first run: a change for each.
        let last = match read_report(&args.dir) {
            Ok(last) => last,
            Err(error) => return fail(error, exit::USAGE),
        };
        for _ in 0..last.map_or(0, |report| report.number) {
            federation.change();
        }
        let secrets = SecretSources::default();
        let manifests = federation.manifests();
        let accepted = match accept(&load(&[Input::Text { name: "demo".into(), text: manifests }]), &secrets) {
            Ok(accepted) => accepted,
            Err(findings) => {
                findings.iter().for_each(complain);
                return exit::FAILED;
            }
        };
        let input = match choose_run(&accepted.set, None, None) {
            Ok(input) => input,
            Err(why) => return fail(why, exit::FAILED),
        };
        let loopback = Ipv4Net::new_assert(std::net::Ipv4Addr::LOCALHOST, 32);
        let options = RunOptions {
            dir: args.dir.clone(),
            format: args.format,
            dry_run: false,
            restart: false,
            http: HttpConfig { allow_private: vec![IpNet::V4(loopback)], ..HttpConfig::default() },
            secrets,
            manifests: accepted.set,
            display,
            crawlers: None,
            interrupt: CancellationToken::new(),
            clock: SystemClock::shared(),
        };
        interrupt_on_ctrl_c(&options.interrupt, options.display.log_writer());
        let code = finish(local::run(input, options).await, &args.dir, args.output);
        if code == exit::OK && args.output == OutputFormat::Text {
            print(format_args!(
                "\nNext: trawler records ls -d {}, or trawler demo again to see what changed\n",
                args.dir.display()
            ));
        }
        code
    })
}
