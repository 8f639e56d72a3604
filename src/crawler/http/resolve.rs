//! Looking up names: the address that is checked is the address that is connected to.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::guard::Guard;

/// More addresses than any honest name has.
const MAX_ADDRESSES: usize = 64;

/// Looks up names.
#[async_trait]
pub trait Lookup: Send + Sync + fmt::Debug {
    /// All addresses of a host.
    async fn addresses_of(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// Asks the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemLookup;

#[async_trait]
impl Lookup for SystemLookup {
    async fn addresses_of(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// Gives the connector only addresses that the guard lets through, so that nothing can change between the check and
/// the connection. Not asked for hosts that are addresses: [`Guard::check_url`] judges those.
#[derive(Debug, Clone)]
pub(super) struct GuardedResolver {
    pub(super) guard: Arc<Guard>,
    pub(super) lookup: Arc<dyn Lookup>,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let Self { guard, lookup } = self.clone();
        Box::pin(async move {
            let host = name.as_str();
            let mut addresses = lookup.addresses_of(host).await?;
            addresses.truncate(MAX_ADDRESSES);
            if addresses.is_empty() {
                return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address").into());
            }
            // The proxy is the operator's choice; everything else is a tenant's or a server's.
            if guard.proxy_host.as_deref() != Some(host) {
                addresses = guard.check_answer(host, addresses)?;
            }
            let addresses: Addrs = Box::new(addresses.into_iter().map(|ip| SocketAddr::new(ip, 0)));
            Ok(addresses)
        })
    }
}
