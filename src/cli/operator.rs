//! `trawler operator`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::common::{DisplayOptions, block_on, fail, start_logging};
use super::redis::RedisOptions;
use super::{LogOptions, exit};
use crate::clock::SystemClock;
use crate::config;
use crate::operator::{OperatorOptions, Settings, ensure_redis_secret, operate};
use crate::redis::RedisSettings;
use crate::redis::acl;
use crate::store::SharedStore;
use crate::store::redis::{RedisStore, Session};

/// How long a Redis that does not answer yet is waited for, at the start.
const REDIS_PATIENCE: std::time::Duration = std::time::Duration::from_mins(5);

/// Serve a namespace of a cluster: reconcile its Catalogs, CatalogNodes, CrawlRuns and ThrottlePolicies.
///
/// Runs in a pod that the Helm chart makes, with rights in its own namespace alone. Several may run: one leads, the others
/// stand by.
#[derive(Debug, Args)]
#[command(after_help = OPERATOR_HELP)]
pub(super) struct OperatorArgs {
    /// The namespace that is served. Default: the pod's own, or that of the kubeconfig
    #[arg(long, value_name = "NAME", env = config::NAMESPACE)]
    namespace: Option<String>,
    /// The configuration: budget of tokens, crawler pods, crawler classes (YAML)
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Who this process is among several: the pod's name
    #[arg(long, value_name = "NAME", env = config::POD_NAME)]
    identity: Option<String>,
    /// The Secret of a bundled Redis, made if it is missing: owner-password, crawler-password, users.acl
    #[arg(long, value_name = "NAME", help_heading = "Redis", conflicts_with = "redis_password_file")]
    redis_secret: Option<String>,
    /// Where /healthz and /readyz are answered
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8081")]
    health_listen: SocketAddr,
    /// Where /metrics is answered
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    metrics_listen: SocketAddr,
    #[command(flatten)]
    redis: RedisOptions,
}

const OPERATOR_HELP: &str = "\
Examples:
  helm install trawler charts/trawler -n mobility      the usual way
  trawler operator --config config.yaml --namespace mobility --redis redis://localhost --instance mobility
                                                       from a laptop, with the rights of your kubeconfig";

pub(super) fn main(args: &OperatorArgs, log: &LogOptions) -> u8 {
    start_logging(log, &DisplayOptions::quiet());
    let settings = match Settings::read(&args.config) {
        Ok(settings) => settings,
        Err(why) => return fail(why, exit::USAGE),
    };
    let redis = match args.redis.settings() {
        Ok(redis) => redis,
        Err(code) => return code,
    };
    block_on(async move {
        let stop = CancellationToken::new();
        super::crawl::stop_on_signal(&stop);
        match serve(args, settings, redis, &stop).await {
            Ok(()) => exit::OK,
            Err(_) if stop.is_cancelled() => exit::OK,
            Err(why) => fail(why, exit::FAILED),
        }
    })
}

async fn serve(
    args: &OperatorArgs,
    settings: Settings,
    redis: RedisSettings,
    stop: &CancellationToken,
) -> Result<(), String> {
    let client = Client::try_default().await.map_err(|error| {
        format!("the API server can't be found: {error}; run this in a pod, or name a cluster with KUBECONFIG")
    })?;
    let namespace = args.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    let instance = redis.instance.clone();
    // Kept until the end: the password is read again with each connection.
    let dir = tempfile::tempdir().map_err(|error| format!("no directory for temporary files can be made: {error}"))?;
    let redis = match &args.redis_secret {
        None => redis,
        Some(secret) => {
            let acl = acl::lines(&instance);
            let password = ensure_redis_secret(&client, &namespace, secret, &instance, &acl).await?;
            let file = write_private(dir.path(), &password)?;
            RedisSettings { password_file: Some(file), ..redis }
        }
    };
    let store = tokio::select! {
        store = open_store(&redis) => store?,
        () = stop.cancelled() => return Ok(()),
    };
    let clock = SystemClock::shared();
    let queue = crate::queue::redis::open(&redis, clock.clone()).map_err(|error| error.to_string())?;
    let identity = args.identity.clone().unwrap_or_else(|| format!("{instance}-{}", std::process::id()));
    let options = OperatorOptions {
        client,
        namespace,
        instance,
        identity,
        settings,
        queue,
        store,
        health: Some(args.health_listen),
        metrics: Some(args.metrics_listen),
        clock,
        stop: stop.clone(),
    };
    operate(options).await
}

/// The store of the instance. Operators that come and go share its session with the crawlers: they go on with the same runs.
/// A Redis that is just being started is waited for.
async fn open_store(redis: &RedisSettings) -> Result<SharedStore, String> {
    let began = crate::clock::Stopwatch::start();
    loop {
        let opened = match RedisStore::open(redis, Session::Latest).await {
            Ok(store) => Ok(store),
            // There is none yet.
            Err(_) => RedisStore::open(redis, Session::New).await,
        };
        match opened {
            Ok(store) => return Ok(std::sync::Arc::new(store)),
            Err(error) if began.elapsed() < REDIS_PATIENCE => {
                tracing::warn!("the store can't be opened yet: {error}");
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            }
            Err(error) => return Err(format!("the store can't be opened: {error}")),
        }
    }
}

/// A file that only this user may read.
fn write_private(dir: &Path, text: &str) -> Result<PathBuf, String> {
    let path = dir.join("password");
    let failed = |error: std::io::Error| format!("{} can't be written: {error}", path.display());
    std::fs::write(&path, text).map_err(failed)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    }
    Ok(path)
}
