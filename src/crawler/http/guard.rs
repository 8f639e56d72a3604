//! Which addresses may be asked: globally reachable ones, and those that the operator's configuration names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use thiserror::Error;
use url::{Host, Url};

/// Why a URL or an address is not asked. Reads as the end of "URL is not fetched: …".
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Only `http` and `https` are spoken.
    #[error("the scheme {scheme:?} is not http or https")]
    Scheme {
        /// The scheme.
        scheme: String,
    },
    /// A URL without a host.
    #[error("it names no host")]
    NoHost,
    /// A URL that grows from page to page, or from redirect to redirect.
    #[error("it is longer than {MAX_URL_BYTES} bytes")]
    TooLong,
    /// Credentials in a URL end up in logs.
    #[error("it carries a user name or a password; put them into a Secret and name it in credentialRef")]
    UserInfo,
    /// A port that belongs to a protocol that HTTP could be mistaken for.
    #[error("port {port} belongs to a protocol other than HTTP")]
    Port {
        /// The port.
        port: u16,
    },
    /// An address that is not globally reachable.
    #[error("{address} is not a public address; if it is meant, the configuration can allow it: --allow-private {address}/{}", prefix(*.address))]
    NotPublic {
        /// The address.
        address: IpAddr,
    },
    /// A cloud's metadata service, which hands out credentials.
    #[error("{address} is a metadata service, which hands out the machine's credentials; only --allow-private {address}/{} allows it", prefix(*.address))]
    Metadata {
        /// The address.
        address: IpAddr,
    },
    /// An address in a network that the configuration refuses.
    #[error("{address} is in a network that the configuration refuses")]
    RefusedNetwork {
        /// The address.
        address: IpAddr,
    },
    /// A name that only means something inside a machine, a cluster or a local network.
    #[error(
        "{host} is a name of this machine, cluster or local network; if it is meant, the configuration can allow its addresses: --allow-private CIDR"
    )]
    InternalName {
        /// The name.
        host: String,
    },
}

fn prefix(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(first: u16, second: u16, prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(first, second, 0, 0, 0, 0, 0, 0), prefix)
}

/// IPv4 networks that are not globally reachable unicast (IANA's special-purpose registry, and multicast).
const NOT_PUBLIC_V4: [Ipv4Net; 15] = [
    v4(0, 0, 0, 0, 8),       // this network
    v4(10, 0, 0, 0, 8),      // private
    v4(100, 64, 0, 0, 10),   // shared by carriers
    v4(127, 0, 0, 0, 8),     // loopback
    v4(169, 254, 0, 0, 16),  // link-local
    v4(172, 16, 0, 0, 12),   // private
    v4(192, 0, 0, 0, 24),    // protocol assignments
    v4(192, 0, 2, 0, 24),    // documentation
    v4(192, 88, 99, 0, 24),  // 6to4 relays, withdrawn
    v4(192, 168, 0, 0, 16),  // private
    v4(198, 18, 0, 0, 15),   // benchmarks
    v4(198, 51, 100, 0, 24), // documentation
    v4(203, 0, 113, 0, 24),  // documentation
    v4(224, 0, 0, 0, 4),     // multicast
    v4(240, 0, 0, 0, 4),     // reserved, broadcast
];

/// The one IPv6 block that global unicast addresses come from: everything outside it is refused.
const GLOBAL_V6: Ipv6Net = v6(0x2000, 0, 3);

/// Networks inside [`GLOBAL_V6`] that are not public, or that only wrap an IPv4 address.
const NOT_PUBLIC_V6: [Ipv6Net; 4] = [
    v6(0x2001, 0, 23),     // protocol assignments; Teredo among them
    v6(0x2001, 0xdb8, 32), // documentation
    v6(0x2002, 0, 16),     // 6to4
    v6(0x3fff, 0, 20),     // documentation
];

/// Where clouds hand out the credentials of the machine; 168.63.129.16 is in a public range.
const METADATA: [IpAddr; 8] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 23)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)),
];

/// Ports of protocols in which a server could take an HTTP request for commands; browsers refuse these too.
const FOREIGN_PORTS: [u16; 46] = [
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 110, 111, 119, 123, 135,
    137, 139, 143, 161, 389, 465, 512, 513, 514, 515, 587, 636, 993, 995, 2049, 5060, 6379, 6667,
];

/// The longest URL that is asked.
const MAX_URL_BYTES: usize = 16 << 10;

/// Endings of names that are private by their nature (RFC 6761, RFC 6762, RFC 8375, ICANN's `.internal`, Kubernetes).
const INTERNAL_ENDINGS: [&str; 7] = [".localhost", ".local", ".localdomain", ".internal", ".svc", ".home.arpa", ".lan"];

/// Whether this is the address of one host in the public Internet. Wrapped IPv4 addresses are not.
pub fn is_globally_reachable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) if METADATA.contains(&address) => false,
        IpAddr::V4(address) => !NOT_PUBLIC_V4.iter().any(|network| network.contains(&address)),
        IpAddr::V6(address) => {
            GLOBAL_V6.contains(&address) && !NOT_PUBLIC_V6.iter().any(|network| network.contains(&address))
        }
    }
}

/// The IPv4 address that an IPv6 address stands for: mapped, compatible, NAT64 (both prefixes), or 6to4.
fn wrapped_v4(address: IpAddr) -> Option<IpAddr> {
    let IpAddr::V6(address) = address else { return None };
    let ([0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0 | 1, _, _, _, high, low] | [0x2002, high, low, ..]) =
        address.segments()
    else {
        return None;
    };
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    Some(IpAddr::V4(Ipv4Addr::new(a, b, c, d)))
}

/// Whether a name only means something inside a machine, a cluster or a local network.
fn is_internal_name(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    !host.contains('.') || INTERNAL_ENDINGS.iter().any(|ending| host.ends_with(ending))
}

/// The rules, with what the configuration adds to them.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    /// Networks that may be asked although they are not public.
    pub allowed: Vec<IpNet>,
    /// Networks that may not be asked although they look public: a cluster's own, say.
    pub refused: Vec<IpNet>,
    /// The proxy's host. It resolves the names, so that names of its own surroundings are refused outright.
    pub proxy_host: Option<String>,
}

impl Guard {
    /// Judges what can be judged before a name is looked up. The `url` crate has already made `2130706433`, `0x7f.1`
    /// and `0177.0.0.1` into addresses.
    pub fn check_url(&self, url: &Url) -> Result<(), Refusal> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refusal::Scheme { scheme: url.scheme().to_owned() });
        }
        if url.as_str().len() > MAX_URL_BYTES {
            return Err(Refusal::TooLong);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refusal::UserInfo);
        }
        if let Some(port) = url.port().filter(|port| FOREIGN_PORTS.contains(port)) {
            return Err(Refusal::Port { port });
        }
        match url.host() {
            None => Err(Refusal::NoHost),
            Some(Host::Ipv4(address)) => self.check_address(address.into()),
            Some(Host::Ipv6(address)) => self.check_address(address.into()),
            Some(Host::Domain(host)) => match &self.proxy_host {
                Some(proxy) if is_internal_name(host) || proxy == host.trim_end_matches('.') => {
                    Err(Refusal::InternalName { host: host.to_owned() })
                }
                _ => Ok(()),
            },
        }
    }

    /// Judges one address.
    pub fn check_address(&self, address: IpAddr) -> Result<(), Refusal> {
        let embedded = wrapped_v4(address);
        let is_metadata = |a: &IpAddr| METADATA.contains(a);
        if is_metadata(&address) || embedded.as_ref().is_some_and(is_metadata) {
            let named = self.allowed.iter().any(|network| *network == IpNet::from(address));
            return if named { Ok(()) } else { Err(Refusal::Metadata { address }) };
        }
        let within = |networks: &[IpNet]| networks.iter().any(|network| network.contains(&address));
        if within(&self.allowed) {
            return Ok(());
        }
        if within(&self.refused) {
            return Err(Refusal::RefusedNetwork { address });
        }
        if is_globally_reachable(address) { Ok(()) } else { Err(Refusal::NotPublic { address }) }
    }

    /// The addresses of a name that may be connected to. One refused address spoils a public name's whole answer; an
    /// internal name (`localhost` is often `::1` and `127.0.0.1`) is good for those of its addresses that are allowed.
    pub fn check_answer(&self, host: &str, mut addresses: Vec<IpAddr>) -> Result<Vec<IpAddr>, Refusal> {
        if is_internal_name(host) {
            addresses.retain(|address| {
                self.allowed.iter().any(|network| network.contains(address)) && self.check_address(*address).is_ok()
            });
            if addresses.is_empty() {
                return Err(Refusal::InternalName { host: host.to_owned() });
            }
        } else {
            addresses.iter().try_for_each(|address| self.check_address(*address))?;
        }
        Ok(addresses)
    }
}
