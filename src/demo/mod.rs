//! A small federation inside the binary: five catalogues of an invented coast, served on loopback, with the shapes and
//! quirks of real ones.
//!
//! | node | speaks | quirks |
//! |---|---|---|
//! | `harbour` | DSP 2025-1 | pages announced only by `Link`, the last one empty; new catalogue and offer ids in every answer |
//! | `shipyard` | DSP 2024-1 | a list of one is an object; a nested catalogue that lists the shipyard back |
//! | `city-open-data` | CKAN | `rows` silently cut to 50 |
//! | `coastal-survey` | DCAT, Turtle | one document with an `ETag` |
//! | `fisheries` | DCAT, JSON-LD | Hydra pages that nothing links to, `next` as a text |
//!
//! What it serves follows from the [generation](DemoFederation::change) alone, but for what real servers make up anew in
//! each answer. Nothing here knows the crawler: the demo is crawled through the same code as any other federation.

mod ckan;
mod collection;
mod dsp;
mod feeds;
mod server;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use collection::{Collection, PER_CHANGE};
use server::{Site, World};

/// How the federation is served.
#[derive(Debug, Clone, Copy)]
pub struct DemoOptions {
    /// Where its servers listen.
    pub address: Ipv4Addr,
    /// The port of the first node; the others follow. Free ones are taken if it is 0 or one of them is in use. The
    /// endpoint of a nested catalogue is part of its records' identity, so keeping the ports keeps the records.
    pub first_port: u16,
    /// How long each answer takes, so that progress can be watched.
    pub latency: Duration,
}

impl Default for DemoOptions {
    /// On loopback, on free ports, at once.
    fn default() -> Self {
        Self { address: Ipv4Addr::LOCALHOST, first_port: 0, latency: Duration::ZERO }
    }
}

/// The port that `trawler demo` asks for.
pub const FIRST_PORT: u16 = 18_421;

/// A node of the federation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DemoNode {
    /// Its name in the manifests.
    pub name: &'static str,
    /// Where it listens.
    pub address: SocketAddr,
    /// How many records a complete crawl of it holds, nested catalogues included.
    pub records: u64,
}

/// What one [change](DemoFederation::change) does to the whole federation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DemoChange {
    /// Datasets that appear.
    pub added: u64,
    /// Datasets that say something else.
    pub updated: u64,
    /// Datasets that vanish.
    pub deleted: u64,
}

/// The running federation. Dropping it stops it.
#[derive(Debug)]
pub struct DemoFederation {
    world: Arc<World>,
    nodes: Vec<(&'static str, &'static [Collection], SocketAddr)>,
    servers: Vec<AbortOnDropHandle<()>>,
}

/// The nodes: name, what lies there, who answers.
const NODES: [(&str, &[Collection], Site); 5] = [
    ("harbour", &[collection::HARBOUR], dsp::harbour),
    ("shipyard", &[collection::SHIPYARD, collection::DRYDOCK], dsp::shipyard),
    ("city-open-data", &[collection::CITY], ckan::answer),
    ("coastal-survey", &[collection::COAST], feeds::coastal_survey),
    ("fisheries", &[collection::FISHERIES], feeds::fisheries),
];

impl DemoFederation {
    /// Serves the federation, one port a node.
    pub async fn start(options: DemoOptions) -> io::Result<Self> {
        let listeners = match listen(options.address, options.first_port).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => listen(options.address, 0).await?,
            listeners => listeners?,
        };
        let world = Arc::new(World::new(options.latency));
        let mut federation = Self { world, nodes: Vec::new(), servers: Vec::new() };
        for ((name, collections, site), listener) in NODES.into_iter().zip(listeners) {
            federation.nodes.push((name, collections, listener.local_addr()?));
            let server = server::serve(listener, site, Arc::clone(&federation.world));
            federation.servers.push(AbortOnDropHandle::new(tokio::spawn(server)));
        }
        Ok(federation)
    }

    /// The manifests that a crawl of the federation takes, as YAML.
    pub fn manifests(&self) -> String {
        self.nodes.iter().fold(include_str!("documents/manifests.yaml").to_owned(), |manifests, (name, _, address)| {
            manifests.replace(&format!(" {}", name.to_uppercase()), &format!(" http://{address}"))
        })
    }

    /// The nodes, with what they list now.
    pub fn nodes(&self) -> Vec<DemoNode> {
        let generation = self.world.generation();
        self.nodes
            .iter()
            .map(|&(name, collections, address)| DemoNode {
                name,
                address,
                records: collections.iter().map(|collection| collection.len(generation)).sum(),
            })
            .collect()
    }

    /// Lets some time pass: every catalogue gains three datasets, loses two, and changes four.
    pub fn change(&self) -> DemoChange {
        self.world.next_generation();
        let catalogues = self.nodes.iter().map(|(_, collections, _)| collections.len() as u64).sum::<u64>();
        DemoChange {
            added: PER_CHANGE.added * catalogues,
            updated: PER_CHANGE.updated * catalogues,
            deleted: PER_CHANGE.deleted * catalogues,
        }
    }

    /// How many requests were answered.
    pub fn requests(&self) -> u64 {
        self.world.requests()
    }

    /// Stops serving; open connections are closed.
    pub async fn shutdown(self) {
        for server in self.servers {
            server.abort();
            // Aborted is what was asked for; there is no other way for a server to end.
            drop(server.await);
        }
    }
}

async fn listen(address: Ipv4Addr, first_port: u16) -> io::Result<Vec<TcpListener>> {
    let mut listeners = Vec::new();
    for offset in 0_u16..5 {
        let port = if first_port == 0 { 0 } else { first_port.saturating_add(offset) };
        listeners.push(TcpListener::bind((address, port)).await?);
    }
    Ok(listeners)
}
