//! Access tokens by client credentials (RFC 6749 §4.4): one for each credential, fetched once, renewed before it ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::Deserialize;
use url::{Url, form_urlencoded};

use super::credentials;
use super::error::Failure;
use crate::crawler::credential::Secret;

/// The life of a token whose issuer doesn't say how long it lives.
const UNSTATED_LIFE: Duration = Duration::from_mins(5);
/// The longest life that is believed.
const LONGEST_LIFE: Duration = Duration::from_hours(24);
/// How long before its end a token is renewed, or a quarter of its life if that is less.
const RENEWAL_MARGIN: Duration = Duration::from_mins(1);
/// More than any token answer needs.
pub(super) const MAX_TOKEN_ANSWER_BYTES: u64 = 64 << 10;

/// What is needed to ask for a token.
#[derive(Debug, Clone, Copy)]
pub(super) struct TokenRequest<'a> {
    pub(super) client_id: &'a str,
    pub(super) client_secret: &'a Secret,
    pub(super) token_url: &'a Url,
    pub(super) scope: Option<&'a str>,
    pub(super) audience: Option<&'a str>,
}

/// A token, as the header's value.
#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) header: HeaderValue,
    pub(super) renew_at: Timestamp,
}

/// A credential's place for its token. Whoever holds the lock fetches; the others wait and find it.
pub(super) type Slot = Arc<tokio::sync::Mutex<Option<Token>>>;

/// The tokens at hand, by credential.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    slots: Mutex<HashMap<blake3::Hash, Slot>>,
}

impl Tokens {
    pub(super) fn slot(&self, request: &TokenRequest<'_>) -> Slot {
        let TokenRequest { client_id, client_secret, token_url, scope, audience } = *request;
        let mut hasher = blake3::Hasher::new();
        for part in [
            client_id,
            client_secret.expose(),
            token_url.as_str(),
            scope.unwrap_or_default(),
            audience.unwrap_or_default(),
        ] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(slots.entry(hasher.finalize()).or_default())
    }
}

impl TokenRequest<'_> {
    /// The header fields of the request. The client proves itself with Basic, which every issuer must know (RFC 6749
    /// §2.3.1, which also wants both halves form-encoded).
    pub(super) fn headers(&self) -> Result<HeaderMap, Failure> {
        let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let secret = Secret::new(encoded(self.client_secret.expose()));
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(AUTHORIZATION, credentials::basic(&encoded(self.client_id), &secret)?);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        Ok(headers)
    }

    /// The body of the request.
    pub(super) fn body(&self) -> Bytes {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "client_credentials");
        for (name, value) in [("scope", self.scope), ("audience", self.audience)] {
            if let Some(value) = value {
                form.append_pair(name, value);
            }
        }
        Bytes::from(form.finish())
    }
}

/// The token in an issuer's answer.
pub(super) fn parse_token(body: &[u8], now: Timestamp) -> Result<Token, Failure> {
    #[derive(Deserialize)]
    struct Answer {
        access_token: String,
        #[serde(default)]
        token_type: Option<String>,
        #[serde(default)]
        expires_in: Option<f64>,
    }
    let answer: Answer = serde_json::from_slice(body)
        .map_err(|_| Failure::Token { why: "its answer holds no access_token".to_owned() })?;
    if answer.token_type.is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
        return Err(Failure::Token { why: "its token is not of the type Bearer".to_owned() });
    }
    let life = match answer.expires_in {
        Some(seconds) => {
            Duration::try_from_secs_f64(seconds.clamp(0.0, LONGEST_LIFE.as_secs_f64())).unwrap_or_default()
        }
        None => UNSTATED_LIFE,
    };
    let renew_at = now.checked_add(life.saturating_sub(RENEWAL_MARGIN.min(life / 4))).unwrap_or(Timestamp::MAX);
    Ok(Token { header: credentials::bearer(&answer.access_token)?, renew_at })
}

/// What a refusal says: the standard's error code, never its free text, which may repeat what was sent.
pub(super) fn parse_refusal(status: u16, body: &[u8]) -> Failure {
    #[derive(Deserialize)]
    struct Refusal {
        error: String,
    }
    let code = serde_json::from_slice::<Refusal>(body).ok().map(|refusal| refusal.error).filter(|code| {
        matches!(
            code.as_str(),
            "invalid_request"
                | "invalid_client"
                | "invalid_grant"
                | "unauthorized_client"
                | "unsupported_grant_type"
                | "invalid_scope"
                | "invalid_target"
                | "access_denied"
        )
    });
    Failure::Token { why: format!("it answered {status} ({})", code.as_deref().unwrap_or("no error code")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_renewed_before_it_ends() {
        let now: Timestamp = "2026-11-30T02:00:00Z".parse().unwrap();
        for (expires_in, seconds) in
            [("3600", 3540), ("40", 30), ("0", 0), ("-7", 0), ("1e300", 86400 - 60), ("3600.0", 3540)]
        {
            let body = format!(r#"{{"access_token":"t","token_type":"bearer","expires_in":{expires_in}}}"#);
            let token = parse_token(body.as_bytes(), now).unwrap();
            assert_eq!(token.renew_at.duration_since(now).as_secs(), seconds, "{expires_in}");
        }
        let token = parse_token(br#"{"access_token":"t"}"#, now).unwrap();
        assert_eq!(token.renew_at.duration_since(now).as_secs(), 240);
    }

    #[test]
    fn a_refusal_shows_only_codes_that_the_standard_knows() {
        let shown = parse_refusal(401, br#"{"error":"invalid_client","error_description":"canary"}"#).to_string();
        assert!(shown.contains("401 (invalid_client)"), "{shown}");
        let shown = parse_refusal(400, br#"{"error":"canary"}"#).to_string();
        assert!(shown.contains("400 (no error code)"), "{shown}");
    }
}
