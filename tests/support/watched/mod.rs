//! A federation of DSP 2025-1 connectors on loopback that is watched: it writes down every request with its arrival and
//! its answer, can be slow and can refuse, and can change between runs. It lives in a thread of its own, outside of the
//! process that crawls it.

mod catalogue;
mod serve;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::log::Seen;
use crate::stored::{Key, Truth};
use catalogue::Catalogue;

/// How the federation is laid out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) nodes: usize,
    /// Servers that the nodes are divided among: node n is at server n modulo this.
    pub(crate) servers: usize,
    pub(crate) datasets_per_node: usize,
    pub(crate) page_size: usize,
}

/// A request about which is to be decided.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    /// How many requests came to its server before.
    pub(crate) number: usize,
}

/// `Retry-After`, if any, and its form.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RetryAfter {
    None,
    Seconds(u64),
    /// The date that is so many seconds ahead, rounded up.
    Date(u64),
}

/// What a server does with a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Behaviour {
    /// How long it takes to answer.
    pub(crate) takes: Duration,
    /// The status it refuses with.
    pub(crate) refuses: Option<(u16, RetryAfter)>,
}

impl Behaviour {
    pub(crate) fn answers_after(takes: Duration) -> Self {
        Self { takes, refuses: None }
    }
}

type Mood = dyn Fn(Asked) -> Behaviour + Send + Sync;

/// The running federation; it ends with the value.
pub(crate) struct Watched {
    shared: Arc<Shared>,
    layout: Layout,
    addresses: Vec<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What all servers share.
struct Shared {
    mood: Box<Mood>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By node, in order.
    catalogues: Vec<Catalogue>,
    ever: BTreeSet<Key>,
    seen: Vec<Seen>,
    /// Requests that came to each server.
    asked: BTreeMap<usize, usize>,
    under_way: usize,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of a node.
pub(crate) fn node_name(node: usize) -> String {
    format!("n-{node:04}")
}

impl Watched {
    /// A federation whose servers answer at once.
    pub(crate) fn start(layout: Layout) -> Self {
        Self::start_with(layout, |_| Behaviour::answers_after(Duration::ZERO))
    }

    /// A federation whose servers do as told.
    pub(crate) fn start_with(layout: Layout, mood: impl Fn(Asked) -> Behaviour + Send + Sync + 'static) -> Self {
        let shared = Arc::new(Shared { mood: Box::new(mood), state: Mutex::default() });
        let (stop, stopped) = oneshot::channel();
        let (ready, addresses) = mpsc::channel();
        let serving = shared.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut listeners = Vec::new();
                for server in 0..layout.servers {
                    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
                    let address = listener.local_addr().unwrap();
                    tokio::spawn(serve::accept(listener, serve::Server { number: server, address }, serving.clone()));
                    listeners.push(address);
                }
                ready.send(listeners).unwrap();
                let (Ok(()) | Err(_)) = stopped.await;
            });
        });
        let federation =
            Self { shared, layout, addresses: addresses.recv().unwrap(), stop: Some(stop), thread: Some(thread) };
        for node in 0..layout.nodes {
            let catalogue = Catalogue::new(node, layout.datasets_per_node, layout.page_size);
            federation.shared.state().catalogues.push(catalogue);
        }
        federation.remember();
        federation
    }

    /// Where a node's connector is.
    pub(crate) fn endpoint(&self, node: usize) -> String {
        format!("http://{}/{}", self.addresses[node % self.layout.servers], node_name(node))
    }

    /// The manifests of its nodes, each with these further lines of `spec`.
    pub(crate) fn nodes(&self, more: impl Fn(usize) -> String) -> String {
        (0..self.layout.nodes).fold(String::new(), |text, node| {
            let (name, endpoint, more) = (node_name(node), self.endpoint(node), more(node));
            format!(
                "{text}---\napiVersion: trawler.dev/v1alpha1\nkind: CatalogNode\n\
                 metadata: {{name: {name}, labels: {{in: test}}}}\nspec:\n  endpoint: {endpoint}\n  protocol: DSP\n{more}"
            )
        })
    }

    /// Removes the first `remove` datasets of every node, edits the next `edit`, and adds `add` behind the last.
    pub(crate) fn change(&self, remove: usize, edit: usize, add: usize) {
        self.shared.state().catalogues.iter_mut().for_each(|catalogue| catalogue.change(remove, edit, add));
        self.remember();
    }

    fn remember(&self) {
        let mut state = self.shared.state();
        let keys: Vec<Key> = state.catalogues.iter().flat_map(Catalogue::records).map(|(key, _)| key).collect();
        state.ever.extend(keys);
    }

    /// What it holds and ever held.
    pub(crate) fn truth(&self) -> Truth {
        let state = self.shared.state();
        Truth { now: state.catalogues.iter().flat_map(Catalogue::records).collect(), ever: state.ever.clone() }
    }

    /// The log of all requests that were answered or given up since the last call.
    pub(crate) fn take_log(&self) -> String {
        std::mem::take(&mut self.shared.state().seen).iter().map(Seen::line).collect()
    }

    /// How many requests are under way.
    pub(crate) fn under_way(&self) -> usize {
        self.shared.state().under_way
    }

    pub(crate) fn servers(&self) -> usize {
        self.layout.servers
    }

    /// How many pages it has in all.
    pub(crate) fn pages(&self) -> usize {
        self.shared.state().catalogues.iter().map(Catalogue::pages).sum()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let (Ok(()) | Err(_)) = thread.join();
        }
    }
}
