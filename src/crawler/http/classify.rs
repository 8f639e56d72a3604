//! From the libraries' errors to ours.

use std::error::Error;
use std::io;
use std::time::Duration;

use rustls::{AlertDescription, CertificateError};

use super::error::{Failure, Phase};
use super::guard::Refusal;

/// What a failed attempt to send a request, or to get the header of its answer, means.
pub(super) fn of_sending(error: &reqwest::Error, connect_timeout: Duration, max_header_bytes: usize) -> Failure {
    let why = || deepest(error);
    if let Some(refusal) = find::<Refusal>(error) {
        return Failure::Refused(refusal.clone());
    }
    if let Some(tls) = find::<rustls::Error>(error) {
        return of_tls(tls);
    }
    if error.is_timeout() {
        return Failure::Timeout { phase: Phase::Connecting, limit: connect_timeout };
    }
    if error.is_dns() {
        return Failure::Lookup { why: why() };
    }
    if error.is_connect() {
        return Failure::Connect { why: why() };
    }
    match find::<hyper::Error>(error) {
        Some(hyper) if hyper.is_parse_too_large() => Failure::HeaderTooLarge { limit: max_header_bytes },
        Some(hyper) if hyper.is_parse() => Failure::NotHttp { why: why() },
        _ => Failure::Broken { why: why() },
    }
}

/// What a failure in the middle of a body means.
pub(super) fn of_receiving(error: &reqwest::Error) -> Failure {
    Failure::Truncated { why: deepest(error) }
}

fn of_tls(error: &rustls::Error) -> Failure {
    let why = match error {
        rustls::Error::InvalidCertificate(certificate) => match certificate {
            CertificateError::UnknownIssuer => "its certificate is self-signed or comes from an authority that is not \
                known here; if it is meant, put that authority's certificate into a ConfigMap and name it in caRef"
                .to_owned(),
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired; its operator must renew it".to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate is for another name; check the endpoint".to_owned()
            }
            CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
                "its certificate is one of an authority (CA:TRUE), which no server may present; its operator must make one \
                 without CA:TRUE, and caRef then names the authority"
                    .to_owned()
            }
            other => format!("its certificate is not valid ({other}); its operator must replace it"),
        },
        rustls::Error::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown,
        ) => format!(
            "it wants a client certificate, or refuses the one it got ({error}); name a Secret with tls.crt and \
            tls.key in credentialRef"
        ),
        _ => return Failure::Tls { why: error.to_string() },
    };
    Failure::Certificate { why }
}

/// The causes of an error, itself first. An `io::Error` hides the error it wraps from `source()`.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn Error + 'static)| {
        let error: &'a (dyn Error + 'static) = *error;
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
}

fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    causes(error).find_map(|cause| cause.downcast_ref::<E>())
}

/// The last cause's words: the outer ones only say that something failed, and may hold the URL.
fn deepest(error: &(dyn Error + 'static)) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}
