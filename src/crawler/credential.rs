//! What a node is authenticated with. Nothing here can be printed: `Debug` and `Display` redact.

use std::fmt;

use url::Url;

/// A text that must never be shown, logged, or stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes the text in.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// A credential, read from a Secret and known to be usable for its node's origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// `Authorization: Bearer …`.
    Bearer {
        /// The token.
        token: Secret,
    },
    /// `Authorization: Basic …`.
    Basic {
        /// The user.
        username: String,
        /// The password.
        password: Secret,
    },
    /// A header of the server's own, such as `X-Api-Key`.
    Header {
        /// Its name.
        name: String,
        /// Its value.
        value: Secret,
    },
    /// A token fetched with OAuth 2's client credentials grant.
    OAuth2ClientCredentials {
        /// The client's id.
        client_id: String,
        /// The client's secret.
        client_secret: Secret,
        /// Where tokens are fetched.
        token_url: Url,
        /// What the token is asked for.
        scope: Option<String>,
        /// Whom the token is for.
        audience: Option<String>,
    },
    /// A client certificate.
    Mtls {
        /// The certificate and its chain, in PEM.
        cert_pem: Vec<u8>,
        /// The private key, in PEM.
        key_pem: Secret,
    },
}

/// Shorter values stand in too many texts to be told from them.
const MIN_REDACTED_CHARS: usize = 4;

impl Credential {
    /// The text without the credential, should a server have echoed it.
    pub fn redact(&self, text: &str) -> String {
        let encoded;
        let values: Vec<&str> = match self {
            Self::Bearer { token } => vec![token.expose()],
            Self::Basic { username, password } => {
                let pair = format!("{username}:{}", password.expose());
                encoded = data_encoding::BASE64.encode(pair.as_bytes());
                vec![encoded.as_str(), password.expose()]
            }
            Self::Header { value, .. } => vec![value.expose()],
            Self::OAuth2ClientCredentials { client_secret, .. } => vec![client_secret.expose()],
            Self::Mtls { key_pem, .. } => vec![key_pem.expose()],
        };
        values
            .into_iter()
            .filter(|value| value.len() >= MIN_REDACTED_CHARS)
            .fold(text.to_owned(), |text, value| text.replace(value, "[redacted]"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_that_a_server_echoes_is_redacted() {
        let basic = Credential::Basic { username: "user".to_owned(), password: Secret::new("canary") };
        let bearer = Credential::Bearer { token: Secret::new("canary") };
        assert_eq!(basic.redact("Basic dXNlcjpjYW5hcnk= is canary"), "Basic [redacted] is [redacted]");
        assert_eq!(bearer.redact("bad token Bearer canary"), "bad token Bearer [redacted]");
    }

    #[test]
    fn no_secret_is_printed() {
        let credentials = [
            Credential::Bearer { token: Secret::new("canary") },
            Credential::Basic { username: "user".to_owned(), password: Secret::new("canary") },
            Credential::Header { name: "X-Api-Key".to_owned(), value: Secret::new("canary") },
            Credential::Mtls { cert_pem: Vec::new(), key_pem: Secret::new("canary") },
        ];
        assert!(!format!("{credentials:?} {}", Secret::new("canary")).contains("canary"));
    }
}
