//! The nodes of a run as its crawlers need them: all built beforehand, or each when its first task comes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::context::CrawlNode;
use crate::queue::{Patience, Queue, QueueError};
use crate::task::{NodeName, RunId};

/// So many nodes are kept; of more, those that were needed longest ago are built again when they are needed again.
const MAX_KEPT: usize = 4096;

/// A node, or why it can't be crawled from here: a sentence.
pub(super) type KnownNode = Result<Arc<CrawlNode>, Arc<str>>;

/// Makes of what the queue says of a node what a crawler needs of it.
pub trait NodeBuilder: Send + Sync + std::fmt::Debug {
    /// Builds a node from its brief. `Err` is a sentence for the person who must act.
    fn build(&self, name: &NodeName, brief: &str) -> Result<CrawlNode, String>;
}

/// The nodes of a run.
#[derive(Debug)]
pub struct Nodes(Source);

#[derive(Debug)]
enum Source {
    All(BTreeMap<NodeName, Arc<CrawlNode>>),
    Briefs { builder: Box<dyn NodeBuilder>, kept: Mutex<Kept> },
}

/// The latest nodes, with when each was needed last.
#[derive(Debug, Default)]
struct Kept {
    needed: u64,
    nodes: HashMap<NodeName, (u64, KnownNode)>,
}

impl Nodes {
    /// These and no others.
    pub fn all(nodes: BTreeMap<NodeName, CrawlNode>) -> Self {
        Self(Source::All(nodes.into_iter().map(|(name, node)| (name, Arc::new(node))).collect()))
    }

    /// Those that the run's queue knows, each built when it is needed.
    pub fn from_briefs(builder: impl NodeBuilder + 'static) -> Self {
        Self(Source::Briefs { builder: Box::new(builder), kept: Mutex::default() })
    }

    /// A node that was built beforehand.
    pub fn get(&self, name: &NodeName) -> Option<Arc<CrawlNode>> {
        match &self.0 {
            Source::All(nodes) => nodes.get(name).cloned(),
            Source::Briefs { .. } => None,
        }
    }

    /// The nodes of these names, in their order. Those that are not known yet are asked for together.
    pub(super) async fn resolve(
        &self,
        names: &[&NodeName],
        run: &RunId,
        queue: &dyn Queue,
        patience: &Patience,
    ) -> Result<Vec<KnownNode>, QueueError> {
        let (builder, kept) = match &self.0 {
            Source::All(nodes) => {
                return Ok(names.iter().map(|name| nodes.get(*name).cloned().ok_or_else(|| stranger(name))).collect());
            }
            Source::Briefs { builder, kept } => (builder, kept),
        };
        let mut missing: Vec<NodeName> =
            names.iter().filter(|name| !lock(kept).nodes.contains_key(**name)).map(|name| (*name).clone()).collect();
        missing.sort_unstable();
        missing.dedup();
        let mut new = HashMap::new();
        if !missing.is_empty() {
            let briefs = patience.with(|| queue.node_briefs(run, &missing)).await?;
            let briefs = briefs.into_iter().chain(std::iter::repeat(None));
            for (name, brief) in missing.into_iter().zip(briefs) {
                let built = match brief {
                    Some(brief) => builder.build(&name, &brief).map(Arc::new).map_err(Arc::from),
                    None => Err(stranger(&name)),
                };
                new.insert(name, built);
            }
        }
        Ok(lock(kept).take(names, new))
    }
}

impl Kept {
    fn take(&mut self, names: &[&NodeName], new: HashMap<NodeName, KnownNode>) -> Vec<KnownNode> {
        self.needed += 1;
        self.nodes.extend(new.into_iter().map(|(name, node)| (name, (0, node))));
        let found = names
            .iter()
            .map(|name| match self.nodes.get_mut(*name) {
                Some((needed, node)) => {
                    *needed = self.needed;
                    node.clone()
                }
                None => Err(stranger(name)),
            })
            .collect();
        self.forget();
        found
    }

    /// Forgets the half that was needed longest ago, so that it is seldom done.
    fn forget(&mut self) {
        if self.nodes.len() <= MAX_KEPT {
            return;
        }
        let mut moments: Vec<u64> = self.nodes.values().map(|(needed, _)| *needed).collect();
        moments.sort_unstable();
        let median = moments[moments.len() / 2];
        self.nodes.retain(|_, (needed, _)| *needed > median);
    }
}

fn stranger(name: &NodeName) -> Arc<str> {
    Arc::from(format!("CatalogNode {name} is not part of this run"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
