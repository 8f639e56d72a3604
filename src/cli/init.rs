//! `trawler init`.

use clap::Args;
use url::Url;

use super::common::{DisplayOptions, HttpOptions, block_on, complain, fail, print, start_logging};
use super::{LogOptions, exit};
use crate::clock::SystemClock;
use crate::crawler::http::{HttpClient, shown_url};
use crate::local::discover::{discover, manifest_for};

/// Look at a URL, find out what it speaks, and print a manifest for it.
///
/// Asks the server a handful of questions, one at a time, and you none.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  trawler init https://portal.example > my.yaml\n  trawler init https://connector.example/api/dsp\n  trawler init http://127.0.0.1:8080/catalog.ttl --allow-private 127.0.0.0/8"
)]
pub(super) struct InitArgs {
    /// The address of a catalogue: a portal, a connector's protocol endpoint, a feed
    #[arg(value_name = "URL")]
    url: String,
    #[command(flatten)]
    http: HttpOptions,
    #[command(flatten)]
    display: DisplayOptions,
}

pub(super) fn main(args: InitArgs, log: &LogOptions) -> u8 {
    start_logging(log, &args.display.display());
    let url = match parse_url(&args.url) {
        Ok(url) => url,
        Err(why) => return fail(why, exit::USAGE),
    };
    block_on(async move {
        let http = match HttpClient::new(args.http.config(), SystemClock::shared()) {
            Ok(http) => http,
            Err(error) => return fail(error, exit::USAGE),
        };
        match discover(&http, &url).await {
            Ok(detected) => {
                complain(format_args!("{}: {}", shown_url(&url), detected.evidence));
                print(manifest_for(&detected));
                exit::OK
            }
            Err(error) => fail(error, exit::FAILED),
        }
    })
}

/// An absolute http or https URL, without user info. What a person probably meant is in the sentence.
fn parse_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| {
        if text.contains("://") {
            format!("{text:?} is not a URL: {error}")
        } else {
            format!("{text:?} has no scheme; write https://{text}")
        }
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("{text:?} has the scheme {:?}; only http and https can be crawled", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(
            "the URL holds a user name or password; leave them out and use credentialRef in the manifest".into()
        );
    }
    Ok(url)
}
