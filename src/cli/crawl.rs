//! `trawler crawl`.

use std::io::Read as _;
use std::sync::Arc;

use clap::Args;
use tokio_util::sync::CancellationToken;

use super::common::{DisplayOptions, HttpOptions, SecretOptions, block_on, complain, fail, start_logging};
use super::redis::RedisOptions;
use super::run::secret_sources;
use super::{LogOptions, exit};
use crate::clock::SystemClock;
use crate::config;
use crate::local::crawl::{CrawlExit, CrawlOptions, CrawlOutcome, crawl};
use crate::local::secrets::SecretSources;
use crate::queue::SharedQueue;
use crate::redis::RedisSettings;
use crate::store::StoreError;
use crate::store::landing::SharedLanding;
use crate::store::redis::{RedisLanding, RedisStore, Session, SessionId};

/// What is read from standard input at most.
const MAX_SECRETS_BYTES: u64 = 64 << 20;

/// Work for a run as one of its crawlers, until nothing is left to do.
///
/// Started by `trawler run --redis`, or by whoever runs crawlers on many machines; seldom by hand. What there is to do and
/// how is in the run's queue.
#[derive(Debug, Args)]
#[command(after_help = CRAWL_HELP)]
pub(super) struct CrawlArgs {
    /// The run
    #[arg(long, value_name = "ID", env = config::RUN)]
    run: String,
    /// The token of the run that this crawler holds
    #[arg(long, value_name = "NUMBER", env = config::TOKEN)]
    token: u32,
    /// Who this crawler is, unlike any other
    #[arg(long, value_name = "ID", env = config::UID)]
    uid: String,
    /// The group of nodes that it serves
    #[arg(long, value_name = "NAME", default_value = "default", env = config::GROUP)]
    group: String,
    /// Where records land: `redis`, the queue's Redis; `redis://…`, another one; `unix:///…`, the socket of the process that holds
    /// the store
    #[arg(long, value_name = "URL", env = config::STORE, hide_env_values = true)]
    store: String,
    /// The session of a store in Redis, as its owner tells it; without it, the latest
    #[arg(long, value_name = "SESSION", env = config::STORE_SESSION)]
    store_session: Option<SessionId>,
    /// With nothing to do, stay for so many seconds, and end if what is left waits for longer; without it, until nothing is left
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    linger: Option<u64>,
    /// Read Secrets from standard input, too, as JSON: {"NAME": {"KEY": "VALUE"}}
    #[arg(long, help_heading = "Secrets")]
    secrets_stdin: bool,
    #[command(flatten)]
    queue: RedisOptions,
    #[command(flatten)]
    secrets: SecretOptions,
    #[command(flatten)]
    http: HttpOptions,
}

const CRAWL_HELP: &str = "\
Exit codes:
  0    drained: nothing is left to do
  1    something else went wrong
  2    the arguments can't be used, or the queue refuses them
  20   the run is frozen
  21   the run's deadline passed
  22   the queue has lost the run, or could not be reached for a minute
  23   another crawler has taken its place
  24   the store is gone: the process that held it, or the server
  25   idle for as long as --linger, and what is left waits for longer
  143  told to end (SIGTERM), and did so in order";

pub(super) fn main(args: &CrawlArgs, log: &LogOptions) -> u8 {
    start_logging(log, &DisplayOptions::quiet());
    let secrets = match secrets(args) {
        Ok(secrets) => secrets,
        Err(why) => return fail(why, exit::USAGE),
    };
    let clock = SystemClock::shared();
    let queue = match args.queue.open(clock.clone()) {
        Ok(queue) => queue,
        Err(code) => return code,
    };
    let options = CrawlOptions {
        run: args.run.as_str().into(),
        token: args.token,
        uid: args.uid.clone(),
        group: args.group.clone(),
        http: args.http.config(),
        secrets,
        stop: CancellationToken::new(),
        linger: args.linger.map(std::time::Duration::from_secs),
        clock,
    };
    block_on(async move {
        stop_on_signal(&options.stop);
        let outcome = match args.shared_store() {
            Some(Ok(settings)) => share_and_crawl(queue, &settings, args.session(), options).await,
            Some(Err(code)) => return code,
            None => land_and_crawl(queue, &args.store, options).await,
        };
        if let Some(why) = outcome.why {
            complain(why);
        }
        outcome.exit.code()
    })
}

fn secrets(args: &CrawlArgs) -> Result<SecretSources, String> {
    let sources = secret_sources(&args.secrets);
    if !args.secrets_stdin {
        return Ok(sources);
    }
    let mut json = String::new();
    let read = std::io::stdin().take(MAX_SECRETS_BYTES).read_to_string(&mut json);
    read.map_err(|error| format!("Secrets can't be read from standard input: {error}"))?;
    // Without what was read: it may be a part of a secret.
    sources.with_told(&json).map_err(|_| "standard input does not hold Secrets as JSON (--secrets-stdin)".to_owned())
}

impl CrawlArgs {
    /// The server of a store that crawlers write to themselves, if it is one; `Err` is the exit code.
    fn shared_store(&self) -> Option<Result<RedisSettings, u8>> {
        let is_url = ["redis://", "rediss://", "redis+sentinel://"].iter().any(|scheme| self.store.starts_with(scheme));
        match self.store.as_str() {
            "redis" => Some(self.queue.settings()),
            url if is_url => {
                Some(self.queue.settings().map(|settings| RedisSettings { url: url.to_owned(), ..settings }))
            }
            _ => None,
        }
    }

    fn session(&self) -> Session {
        self.store_session.clone().map_or(Session::Latest, Session::Of)
    }
}

async fn share_and_crawl(
    queue: SharedQueue,
    settings: &RedisSettings,
    session: Session,
    options: CrawlOptions,
) -> CrawlOutcome {
    match RedisStore::open(settings, session).await {
        Ok(store) => {
            let landing = Arc::new(RedisLanding::new(Arc::new(store), options.run.clone()));
            crawl(queue, landing, options).await
        }
        Err(error @ (StoreError::Gone { .. } | StoreError::Lost { .. })) => {
            CrawlOutcome::because(CrawlExit::StoreLost, error.to_string())
        }
        Err(error) => CrawlOutcome::because(CrawlExit::Configuration, error.to_string()),
    }
}

#[cfg(unix)]
async fn land_and_crawl(queue: SharedQueue, store: &str, options: CrawlOptions) -> CrawlOutcome {
    use crate::store::landing::served::{LandingClient, SCHEME};

    if !store.starts_with(SCHEME) {
        let why = format!("--store can't be used: it reads redis, redis://HOST, or {SCHEME}/PATH");
        return CrawlOutcome::because(CrawlExit::Configuration, why);
    }
    let client = match LandingClient::connect(store, &options.uid).await {
        Ok(client) => Arc::new(client),
        Err(error) => return CrawlOutcome::because(CrawlExit::StoreLost, error.to_string()),
    };
    let landing: SharedLanding = client.clone();
    tokio::select! {
        biased;
        error = client.gone() => CrawlOutcome::because(CrawlExit::StoreLost, error.to_string()),
        outcome = crawl(queue, landing, options) => outcome,
    }
}

#[cfg(not(unix))]
async fn land_and_crawl(_queue: SharedQueue, _store: &str, _options: CrawlOptions) -> CrawlOutcome {
    CrawlOutcome::because(CrawlExit::Configuration, "crawl needs a system with Unix sockets")
}

/// SIGTERM and Ctrl-C ask for an orderly end.
pub(super) fn stop_on_signal(stop: &CancellationToken) {
    let stop = stop.clone();
    tokio::spawn(async move {
        super::run::wait_for_signal().await;
        stop.cancel();
    });
}
