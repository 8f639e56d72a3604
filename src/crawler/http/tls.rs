//! TLS settings, and the connections that share them. Clients are kept: one for the settings that almost all nodes
//! have, and one for each pair of client certificate and authority that a node asks for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;

use super::error::Failure;
use crate::crawler::credential::Secret;

/// A client certificate with its key, PEM.
#[derive(Debug, Clone, Copy)]
pub(super) struct Identity<'a> {
    pub(super) cert_pem: &'a [u8],
    pub(super) key_pem: &'a Secret,
}

/// Makes a client that uses these TLS settings.
pub(super) type BuildClient = dyn Fn(ClientConfig) -> reqwest::Result<reqwest::Client> + Send + Sync;

/// The clients, by TLS settings.
pub(super) struct Clients {
    build: Box<BuildClient>,
    plain: reqwest::Client,
    special: Mutex<HashMap<blake3::Hash, reqwest::Client>>,
}

impl Clients {
    pub(super) fn new(build: Box<BuildClient>) -> Result<Self, Failure> {
        let plain = build(tls_config(None, None)?).map_err(|error| unusable("the client", &error))?;
        Ok(Self { build, plain, special: Mutex::default() })
    }

    /// The client for these settings. A credential's key is part of what a client is kept by, so that a connection
    /// opened with one node's certificate never serves another's.
    pub(super) fn with(
        &self,
        ca_pem: Option<&str>,
        identity: Option<Identity<'_>>,
    ) -> Result<reqwest::Client, Failure> {
        if ca_pem.is_none() && identity.is_none() {
            return Ok(self.plain.clone());
        }
        let mut hasher = blake3::Hasher::new();
        let parts =
            [ca_pem.map(str::as_bytes), identity.map(|i| i.cert_pem), identity.map(|i| i.key_pem.expose().as_bytes())];
        for part in parts.map(Option::unwrap_or_default) {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        let key = hasher.finalize();
        let mut special = self.special.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = special.get(&key) {
            return Ok(client.clone());
        }
        let client = (self.build)(tls_config(ca_pem, identity)?).map_err(|error| unusable("the client", &error))?;
        special.insert(key, client.clone());
        Ok(client)
    }
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
