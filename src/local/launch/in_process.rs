//! Crawlers as tasks of this process.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{Ended, Launcher};
use crate::crawler::{CrawlContext, CrawlEnd, Crawler, CrawlerError};
use crate::queue::ReleaseCause;

/// Crawlers as tasks of this process.
#[derive(Debug)]
pub(in crate::local) struct InProcess {
    context: Arc<CrawlContext>,
    stop: CancellationToken,
    crawlers: JoinSet<(u32, Result<CrawlEnd, CrawlerError>)>,
    running: BTreeSet<u32>,
}

impl InProcess {
    pub(in crate::local) fn new(context: Arc<CrawlContext>) -> Self {
        Self { context, stop: CancellationToken::new(), crawlers: JoinSet::new(), running: BTreeSet::new() }
    }
}

#[async_trait]
impl Launcher for InProcess {
    fn start(&mut self, token: u32, group: &str) {
        let crawler = Crawler::new(self.context.clone(), self.stop.clone());
        let (uid, group) = (format!("{}-{token}", self.context.run), group.to_owned());
        self.running.insert(token);
        self.crawlers.spawn(async move { (token, crawler.run(token, uid, group).await) });
    }

    fn stop(&mut self) {
        self.stop.cancel();
    }

    fn running(&self) -> BTreeSet<u32> {
        self.running.clone()
    }

    async fn ended(&mut self) -> Ended {
        match self.crawlers.join_next().await {
            None => std::future::pending().await,
            Some(Ok((token, end))) => {
                self.running.remove(&token);
                let failure = end.err().map(Into::into);
                Ended { tokens: vec![token], cause: ReleaseCause::Finished, early_death: None, failure }
            }
            Some(Err(error)) => {
                warn!("a crawler ended by a fault of this program: {error}");
                // Which one it was is not known: all of them are taken as crashed.
                let tokens = std::mem::take(&mut self.running).into_iter().collect();
                self.crawlers.shutdown().await;
                Ended { tokens, cause: ReleaseCause::Crashed, early_death: None, failure: None }
            }
        }
    }

    async fn end_all(&mut self) {
        self.crawlers.shutdown().await;
        self.running.clear();
    }
}
