//! What several subcommands share: reading manifests, the client's options, the runtime.

use std::ffi::OsString;
use std::future::Future;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ipnet::IpNet;
use tokio::runtime::Runtime;
use url::Url;

use super::{LogOptions, exit};
use crate::config;
use crate::crawler::http::{HttpConfig, ProxyUrl};
use crate::local::{Display, DisplayMode};
use crate::telemetry;

/// Which network the client may use, and how.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Network")]
pub(super) struct HttpOptions {
    /// Networks that may be asked although they are not public, e.g. 10.0.0.0/8; may be given several times
    #[arg(long, value_name = "CIDR", value_delimiter = ',', env = config::ALLOW_PRIVATE)]
    allow_private: Vec<IpNet>,
    /// The proxy that all requests go through; http_proxy and its kin are ignored
    #[arg(long, value_name = "URL", env = config::PROXY, hide_env_values = true)]
    proxy: Option<Url>,
    /// Whom a server's operator can write to: a URL or a mail address, sent in User-Agent
    #[arg(long, value_name = "CONTACT", env = config::CONTACT)]
    contact: Option<String>,
    /// Time for name look-up, connecting and TLS, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    connect_timeout: u64,
    /// Largest answer, counted after decompression, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=4096))]
    max_response_mib: u64,
    /// Largest header of an answer, in KiB
    #[arg(long, value_name = "KIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=256))]
    max_header_kib: u32,
    /// Time between two pieces of an answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    idle_timeout: u64,
    /// Longest Retry-After that is believed, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    max_retry_after: u64,
    /// Longest chain of redirects
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=20))]
    max_redirects: u32,
}

impl HttpOptions {
    pub(super) fn config(&self) -> HttpConfig {
        HttpConfig {
            allow_private: self.allow_private.clone(),
            proxy: self.proxy.clone().map(ProxyUrl),
            contact: self.contact.clone(),
            connect_timeout: Duration::from_secs(self.connect_timeout),
            max_decoded_bytes: self.max_response_mib << 20,
            max_redirects: self.max_redirects,
            max_header_bytes: self.max_header_kib << 10,
            idle_timeout: Duration::from_secs(self.idle_timeout),
            max_retry_after: Duration::from_secs(self.max_retry_after),
            ..HttpConfig::default()
        }
    }
}

impl HttpOptions {
    /// The same, as arguments of a process that this one starts; without the proxy, whose URL may hold a password.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let mut arguments = vec![
            ("connect-timeout", self.connect_timeout.to_string()),
            ("max-response-mib", self.max_response_mib.to_string()),
            ("max-header-kib", self.max_header_kib.to_string()),
            ("idle-timeout", self.idle_timeout.to_string()),
            ("max-retry-after", self.max_retry_after.to_string()),
            ("max-redirects", self.max_redirects.to_string()),
        ];
        arguments.extend(self.allow_private.iter().map(|network| ("allow-private", network.to_string())));
        arguments.extend(self.contact.iter().map(|contact| ("contact", contact.clone())));
        arguments.into_iter().map(|(name, value)| format!("--{name}={value}").into()).collect()
    }
}

/// Where Secrets come from.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Secrets")]
pub(super) struct SecretOptions {
    /// A directory with Secrets: a folder for each name, a file for each key
    #[arg(long, value_name = "DIR", env = config::SECRETS_DIR)]
    pub(super) secrets_dir: Option<PathBuf>,
}

/// How progress is shown.
#[derive(Debug, Clone, Args)]
pub(super) struct DisplayOptions {
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

impl DisplayOptions {
    pub(super) fn quiet() -> Display {
        Display::new(DisplayMode::Quiet)
    }

    pub(super) fn display(&self) -> Display {
        Display::new(if self.quiet { DisplayMode::Quiet } else { DisplayMode::detect() })
    }
}

/// Starts logging to standard error, above the bars of `display`.
pub(super) fn start_logging(log: &LogOptions, display: &Display) {
    let writer = display.log_writer();
    telemetry::init(log.log_format, &log.log, colours_on(&io::stderr()), move || writer.clone());
}

/// Whether colours may be written to this stream.
pub(super) fn colours_on(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && !config::no_color()
}

/// Runs a future on the runtime of the process.
pub(super) fn block_on(future: impl Future<Output = u8>) -> u8 {
    match Runtime::new() {
        Ok(runtime) => runtime.block_on(future),
        Err(error) => fail(format_args!("the runtime can't be started: {error}"), exit::FAILED),
    }
}

/// Says on standard error why the command fails, and gives its exit code back.
pub(super) fn fail(why: impl std::fmt::Display, code: u8) -> u8 {
    complain(why);
    code
}

/// Says something on standard error, as `trawler: …`.
pub(super) fn complain(why: impl std::fmt::Display) {
    writeln!(io::stderr(), "trawler: {why}").unwrap_or_default();
}

/// Writes to standard output. A reader that went away (`| head`) is not an error.
pub(super) fn print(text: impl std::fmt::Display) {
    write!(io::stdout(), "{text}").unwrap_or_default();
}

/// The width of the terminal on standard output; none if it is something else.
pub(super) fn terminal_width() -> Option<usize> {
    let table = comfy_table::Table::new();
    if io::stdout().is_terminal() { table.width().map(usize::from) } else { None }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Client {
        #[command(flatten)]
        http: HttpOptions,
    }

    #[test]
    fn a_process_that_is_started_has_the_same_client_but_for_the_proxy() {
        let client = |arguments: &[&str]| Client::parse_from([&["trawler"], arguments].concat()).http;
        let own = client(&[
            "--connect-timeout=1",
            "--max-response-mib=2",
            "--max-header-kib=3",
            "--idle-timeout=4",
            "--max-retry-after=5",
            "--max-redirects=6",
            "--allow-private=10.0.0.0/8,192.168.0.0/16",
            "--contact=crawl@example.org",
            "--proxy=http://user:canary@proxy.example",
        ]);
        let arguments = own.arguments();
        let arguments: Vec<&str> = arguments.iter().map(|argument| argument.to_str().unwrap()).collect();
        assert!(!arguments.concat().contains("canary"));
        let childs = client(&arguments).config();
        assert_eq!(format!("{childs:?}"), format!("{:?}", HttpConfig { proxy: None, ..own.config() }));
    }
}
