//! TLS settings, and the connections that share them. Clients are kept: one for the settings that almost all nodes
//! have, and one for each pair of client certificate and authority that a node asks for.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;

use super::error::Failure;
use crate::crawler::credential::Secret;
use crate::task::OriginKey;

/// TLS sessions remembered, so that a connection that had to be closed is cheap to open again, here and there.
const RESUMED_SESSIONS: usize = 1024;

/// A client certificate with its key, PEM.
#[derive(Debug, Clone, Copy)]
pub(super) struct Identity<'a> {
    pub(super) cert_pem: &'a [u8],
    pub(super) key_pem: &'a Secret,
}

/// Makes a client that uses these TLS settings.
pub(super) type BuildClient = dyn Fn(ClientConfig) -> reqwest::Result<reqwest::Client> + Send + Sync;

/// The clients, by TLS settings: `None` for those that almost all nodes have.
pub(super) struct Clients {
    build: Box<BuildClient>,
    max_origins: usize,
    kept: Mutex<HashMap<Option<blake3::Hash>, Kept>>,
}

/// A client, and whom its connections may lead to. An unused connection holds on to its buffers (some 80 kB), and
/// `reqwest` bounds them for each origin only: after so many origins a new client takes over, and the old one's
/// connections close with the last answer it waits for.
struct Kept {
    tls: ClientConfig,
    client: reqwest::Client,
    origins: HashSet<OriginKey>,
}

impl Clients {
    pub(super) fn new(build: Box<BuildClient>, max_origins: usize) -> Result<Self, Failure> {
        let plain = Kept::new(tls_config(None, None)?, &*build)?;
        Ok(Self { build, max_origins, kept: Mutex::new(HashMap::from([(None, plain)])) })
    }

    /// The client for these settings. A credential's key is part of what a client is kept by, so that a connection
    /// opened with one node's certificate never serves another's.
    pub(super) fn with(
        &self,
        origin: &OriginKey,
        ca_pem: Option<&str>,
        identity: Option<Identity<'_>>,
    ) -> Result<reqwest::Client, Failure> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.entry(key_of(ca_pem, identity)) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(Kept::new(tls_config(ca_pem, identity)?, &*self.build)?),
        }
        .client_for(origin, self.max_origins, &*self.build)
    }
}

impl Kept {
    fn new(tls: ClientConfig, build: &BuildClient) -> Result<Self, Failure> {
        let client = build(tls.clone()).map_err(|error| unusable("the client", &error))?;
        Ok(Self { tls, client, origins: HashSet::new() })
    }

    fn client_for(
        &mut self,
        origin: &OriginKey,
        max_origins: usize,
        build: &BuildClient,
    ) -> Result<reqwest::Client, Failure> {
        if !self.origins.contains(origin) {
            if self.origins.len() >= max_origins {
                *self = Self::new(self.tls.clone(), build)?;
            }
            self.origins.insert(origin.clone());
        }
        Ok(self.client.clone())
    }
}

fn key_of(ca_pem: Option<&str>, identity: Option<Identity<'_>>) -> Option<blake3::Hash> {
    if ca_pem.is_none() && identity.is_none() {
        return None;
    }
    let mut hasher = blake3::Hasher::new();
    let parts =
        [ca_pem.map(str::as_bytes), identity.map(|i| i.cert_pem), identity.map(|i| i.key_pem.expose().as_bytes())];
    for part in parts.map(Option::unwrap_or_default) {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
    Some(hasher.finalize())
}

impl std::fmt::Debug for Clients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clients").finish_non_exhaustive()
    }
}

fn unusable(what: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::TlsSettings { why: format!("{what} can't be used: {error}") }
}

fn tls_config(ca_pem: Option<&str>, identity: Option<Identity<'_>>) -> Result<ClientConfig, Failure> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable("TLS", &error))?;
    let authorities =
        ca_pem.map_or_else(|| Ok(Vec::new()), |pem| certificates("the certificate in caRef", pem.as_bytes()))?;
    let builder = match Verifier::new_with_extra_roots(authorities, provider) {
        Ok(verifier) => builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)),
        Err(error) if ca_pem.is_some() => return Err(unusable("the certificate in caRef", &error)),
        Err(error) => {
            tracing::warn!(%error, "no certificate authorities found on this system: https works only for nodes with a caRef");
            builder.with_root_certificates(RootCertStore::empty())
        }
    };
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(Identity { cert_pem, key_pem }) => {
            let chain = certificates("the credential's tls.crt", cert_pem)?;
            let key = PrivateKeyDer::from_pem_slice(key_pem.expose().as_bytes())
                .map_err(|_| unusable("the credential's tls.key", &"it holds no private key in PEM"))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| unusable("the credential's tls.crt", &error))?
        }
    };
    config.resumption = Resumption::in_memory_sessions(RESUMED_SESSIONS);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(what: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let certificates: Vec<_> =
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|_| unusable(what, &"it is not PEM"))?;
    if certificates.is_empty() {
        return Err(unusable(what, &"it holds no certificate in PEM"));
    }
    Ok(certificates)
}
