//! What crawlers of other processes bring, counted for those who watch.

use std::sync::Arc;

use async_trait::async_trait;

use crate::crawler::Progress;
use crate::flow::ClosedOrigin;
use crate::store::landing::{FailedTry, Landing, SharedLanding};
use crate::store::{Committed, Opened, StoreError, TaskEffects, TaskResult, Traversal};
use crate::task::{RunId, SectionKey};

/// A landing that tells the display what lands.
#[derive(Debug)]
pub(super) struct CountedLanding {
    landing: SharedLanding,
    progress: Arc<Progress>,
}

impl CountedLanding {
    pub(super) fn new(landing: SharedLanding, progress: Arc<Progress>) -> Self {
        Self { landing, progress }
    }
}

#[async_trait]
impl Landing for CountedLanding {
    async fn open_traversal(&self, run: &RunId, section: &SectionKey) -> Result<Opened, StoreError> {
        let opened = self.landing.open_traversal(run, section).await?;
        if let Opened::Open { so_far, .. } = &opened {
            self.progress.open_section(section, *so_far);
        }
        Ok(opened)
    }

    async fn commit(&self, traversal: &Traversal, effects: TaskEffects) -> Result<Committed, StoreError> {
        let (requests, bytes, total) = (effects.requests, effects.bytes, effects.total);
        let problem = match &effects.result {
            TaskResult::Failed(failed) => Some(failed.why.clone()),
            _ => None,
        };
        let committed = self.landing.commit(traversal, effects).await?;
        if let Some(node) = self.progress.node(&traversal.section.node) {
            node.add_answer(requests, bytes);
            node.add_page(committed.added + committed.updated + committed.unchanged, total);
            if let Some(problem) = problem.filter(|_| !committed.already_settled) {
                node.set_problem(&problem);
                node.add_failure();
            }
        }
        if committed.closed {
            self.progress.close_section(&traversal.section);
        }
        Ok(committed)
    }

    async fn note_try(&self, failed: FailedTry) -> Result<(), StoreError> {
        if let Some(node) = self.progress.node(&failed.spending.node) {
            node.add_answer(failed.requests, 0);
            if let Some(failure) = &failed.failure {
                node.set_problem(&failure.why);
            }
        }
        self.landing.note_try(failed).await
    }

    async fn close_origins(&self, closed: Vec<ClosedOrigin>) -> Result<(), StoreError> {
        self.landing.close_origins(closed).await
    }
}
