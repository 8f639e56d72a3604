//! From credentials to header fields.

use data_encoding::BASE64;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};

use super::access::NodeAccess;
use super::error::Failure;
use crate::crawler::credential::{Credential, Secret};
use crate::task::OriginKey;

/// Header fields that belong to the transport; a credential that set them could smuggle a request.
const RESERVED: [&str; 9] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
    "te",
    "trailer",
    "expect",
    "proxy-authorization",
];

impl NodeAccess {
    /// The credential for requests to this origin.
    pub(super) fn credential_for(&self, origin: &OriginKey) -> Option<&Credential> {
        self.credential.as_deref().filter(|_| self.credential_origins.contains(origin))
    }
}

/// The field that carries the credential, if it is one that a field carries by itself.
pub(super) fn header_of(credential: &Credential) -> Result<Option<(HeaderName, HeaderValue)>, Failure> {
    Ok(match credential {
        Credential::Bearer { token } => Some((AUTHORIZATION, bearer(token.expose())?)),
        Credential::Basic { username, password } => Some((AUTHORIZATION, basic(username, password)?)),
        Credential::Header { name, value } => {
            let name = HeaderName::from_bytes(name.trim().as_bytes())
                .ok()
                .filter(|name| !RESERVED.contains(&name.as_str()))
                .ok_or(Failure::Credential { why: "its header is not a header field that may be set" })?;
            Some((name, sensitive(value.expose())?))
        }
        Credential::OAuth2ClientCredentials { .. } | Credential::Mtls { .. } => None,
    })
}

/// `Bearer …`.
pub(super) fn bearer(token: &str) -> Result<HeaderValue, Failure> {
    sensitive(&format!("Bearer {}", token.trim()))
}

/// `Basic …` (RFC 7617).
pub(super) fn basic(username: &str, password: &Secret) -> Result<HeaderValue, Failure> {
    if username.contains(':') {
        return Err(Failure::Credential { why: "its user name contains a colon" });
    }
    sensitive(&format!("Basic {}", BASE64.encode(format!("{username}:{}", password.expose()).as_bytes())))
}

fn sensitive(value: &str) -> Result<HeaderValue, Failure> {
    // Files and editors end with a line break that is no part of the secret.
    let mut value = HeaderValue::from_bytes(value.trim_end_matches(['\r', '\n']).as_bytes())
        .map_err(|_| Failure::Credential { why: "it contains characters that no header field may hold" })?;
    value.set_sensitive(true);
    Ok(value)
}
