//! Bytes to and from a server: TCP, a socket of this machine, TLS.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::address::{HostPort, TlsSettings};
use super::classify;
use super::fault::{CallError, Fault};

/// A name's addresses are tried one after the other; no more than so many share the time.
const MAX_ADDRESSES: usize = 4;

/// What Redis is spoken over.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

pub(super) async fn unix(path: &Path, at: &Arc<str>) -> Result<Box<dyn Stream>, CallError> {
    let stream = UnixStream::connect(path).await.map_err(|error| classify::of_connecting(&error, at))?;
    Ok(Box::new(stream))
}

/// Connects within the time, by the addresses that the name has now.
pub(super) async fn tcp(
    to: &HostPort,
    tls: Option<&TlsSettings>,
    at: &Arc<str>,
    within: Duration,
) -> Result<Box<dyn Stream>, CallError> {
    let addresses: Vec<_> = lookup_host((to.host.as_str(), to.port))
        .await
        .map_err(|error| {
            let why = classify::shown(&error.to_string());
            CallError::new(Fault::NotSent, at, format!("the name can't be looked up ({why})"))
        })?
        .take(MAX_ADDRESSES)
        .collect();
    let share = within / u32::try_from(addresses.len().max(1)).unwrap_or(1);
    let mut failure = io::Error::other("the name has no address");
    for address in addresses {
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true).map_err(|error| classify::of_connecting(&error, at))?;
                return match tls {
                    None => Ok(Box::new(stream)),
                    Some(settings) => over_tls(stream, to, settings, at).await,
                };
            }
            Ok(Err(error)) => failure = error,
            Err(_) => failure = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(classify::of_connecting(&failure, at))
}

async fn over_tls(
    stream: TcpStream,
    to: &HostPort,
    settings: &TlsSettings,
    at: &Arc<str>,
) -> Result<Box<dyn Stream>, CallError> {
    let config = tls_config(settings).await.map_err(|why| CallError::new(Fault::Settings, at, why))?;
    let name = ServerName::try_from(to.host.clone())
        .map_err(|_| CallError::new(Fault::Tls, at, "a certificate can't be for this host's name"))?;
    let stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .map_err(|error| classify::of_tls(&error, at))?;
    Ok(Box::new(stream))
}

/// Built anew with each connection, so that a file that is replaced is taken up.
async fn tls_config(settings: &TlsSettings) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS can't be used: {error}"))?;
    let builder = if let Some(path) = &settings.ca_file {
        builder.with_root_certificates(authorities(path).await?)
    } else {
        let verifier = Verifier::new(provider).map_err(|error| {
            format!("the system has no usable authorities ({error}); give the file with those of the queue's Redis")
        })?;
        builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
    };
    Ok(builder.with_no_client_auth())
}

async fn authorities(path: &Path) -> Result<RootCertStore, String> {
    let wrong = |why: &dyn std::fmt::Display| {
        format!("the certificates for the queue's Redis can't be taken from {}: {why}", path.display())
    };
    let pem = tokio::fs::read(path).await.map_err(|error| wrong(&error))?;
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|_| wrong(&"it is not PEM"))?;
        store.add(certificate).map_err(|error| wrong(&error))?;
    }
    if store.is_empty() { Err(wrong(&"it holds no certificate in PEM")) } else { Ok(store) }
}
