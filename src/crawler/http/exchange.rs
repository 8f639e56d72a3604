//! One task's exchange: as many requests as it takes to get one answer.

use std::mem;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, DATE, ETAG, HeaderMap, HeaderName, HeaderValue,
    IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, LINK, LOCATION, RETRY_AFTER,
};
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::access::{Fetched, NodeAccess, RequestGate, Validators};
use super::body::{self, Budget, Overflow};
use super::error::{Failure, FetchError, Phase, Spent, StatusFailure, is_transient};
use super::oauth::{self, Slot, TokenRequest};
use super::tls::Identity;
use super::{HttpClient, classify, credentials, redirect, retry_after};
use crate::crawler::credential::Credential;
use crate::protocol::{Method, Request, Response, origin_of};
use crate::task::OriginKey;

/// What is understood, best first.
const ENCODINGS: HeaderValue = HeaderValue::from_static("gzip, br, zstd, deflate");
/// The longest a request may take, whatever the settings say: clocks can't count on for ever.
const LONGEST_REQUEST: Duration = Duration::from_hours(24);
/// A permit that is void sooner than this is not begun with: the request is still to be written and to travel.
const SENDING_TAKES: Duration = Duration::from_millis(100);
/// As much of an error's body as is looked at.
const MAX_ERROR_BYTES: u64 = 4 << 10;

pub(super) struct Exchange<'a> {
    client: &'a HttpClient,
    request: &'a Request,
    access: &'a NodeAccess,
    gate: &'a dyn RequestGate,
    validators: Option<&'a Validators>,
    spent: Spent,
    /// Whom a failure is about: the next hop, or for a while the issuer of tokens.
    asked: Url,
    method: Method,
    redirects: u32,
    /// Whether no redirect has left the first origin yet. Coming back does not count: who sends us back chooses the
    /// URL that the credential would be sent to.
    at_home: bool,
    /// Whether the next request has its permit.
    permitted: bool,
    /// Whether a token was already replaced because it was refused.
    token_replaced: bool,
}

/// What one request led to.
enum Step {
    Done(Fetched),
    Again,
}

/// How the next request is authenticated.
#[derive(Default)]
struct Proof<'a> {
    field: Option<(HeaderName, HeaderValue)>,
    identity: Option<Identity<'a>>,
    /// The slot of a token that was fetched earlier, and may have been revoked since.
    kept_token: Option<Slot>,
}

/// One request, ready to go.
struct Outgoing {
    client: reqwest::Client,
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Option<Bytes>,
}

impl<'a> Exchange<'a> {
    pub(super) fn new(
        client: &'a HttpClient,
        request: &'a Request,
        access: &'a NodeAccess,
        gate: &'a dyn RequestGate,
        validators: Option<&'a Validators>,
    ) -> Self {
        Self {
            client,
            request,
            access,
            gate,
            validators: validators.filter(|_| request.conditional && request.method == Method::Get),
            spent: Spent::default(),
            asked: request.url.clone(),
            method: request.method,
            redirects: 0,
            at_home: true,
            permitted: true,
            token_replaced: false,
        }
    }

    pub(super) async fn run(mut self) -> Result<Fetched, FetchError> {
        loop {
            match self.step().await {
                Ok(Step::Done(fetched)) => return Ok(fetched),
                Ok(Step::Again) => {}
                Err(failure) => return Err(failure.at(&self.asked, self.spent)),
            }
        }
    }

    async fn step(&mut self) -> Result<Step, Failure> {
        self.client.guard.check_url(&self.asked).map_err(Failure::Refused)?;
        let origin = origin_of(&self.asked);
        let Proof { field, identity, kept_token } = self.prove(&origin).await?;
        let mut headers = self.headers();
        let sent_token = field.as_ref().map(|(_, value)| value.clone());
        headers.extend(field);
        // Made ready before the permit is looked at: TLS settings may have to be read from files.
        let client = self.client.clients.with(&origin, self.access.ca_pem.as_deref(), identity)?;
        if !mem::take(&mut self.permitted) || !self.first_permit_lasts() {
            self.gate.permit(&origin).await.map_err(Failure::Gate)?;
        }
        let deadline = self.deadline();
        let outgoing = Outgoing {
            client,
            method: self.method,
            url: self.asked.clone(),
            headers,
            body: self.request.body.as_ref().filter(|_| self.method == Method::Post).map(|(_, body)| body.clone()),
        };
        let response = self.send(outgoing, deadline).await?;
        match response.status().as_u16() {
            status if redirect::is_redirect(status) => {
                self.follow(status, response.headers())?;
                Ok(Step::Again)
            }
            401 if kept_token.is_some() && !mem::replace(&mut self.token_replaced, true) => {
                if let Some(slot) = kept_token {
                    let mut token = slot.lock().await;
                    token.take_if(|token| Some(&token.header) == sent_token.as_ref());
                }
                Ok(Step::Again)
            }
            304 if self.validators.is_some() => Ok(Step::Done(Fetched::NotModified { spent: self.spent })),
            304 => Err(Failure::NotModifiedUnasked),
            206 => Err(Failure::PartialUnasked),
            status @ 200..=299 => self.finish(status, response, deadline).await,
            status @ 400..=499 if self.request.decodes_client_errors && !is_transient(status) => {
                self.finish(status, response, deadline).await
            }
            status => Err(self.refusal(status, response, deadline).await),
        }
    }

    /// Whether the permit that the first request has is still worth something when that arrives.
    fn first_permit_lasts(&self) -> bool {
        self.client.clock.now() + SENDING_TAKES <= self.gate.first_permit_lasts_until()
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.request_timeout()
    }

    fn request_timeout(&self) -> Duration {
        self.access.request_timeout.unwrap_or(self.client.config.request_timeout).min(LONGEST_REQUEST)
    }

    fn budget(&self, max_decoded_bytes: u64, overflow: Overflow, deadline: Instant) -> Budget {
        let idle = self.client.config.idle_timeout;
        Budget { max_decoded_bytes, overflow, deadline, total: self.request_timeout(), idle }
    }

    /// The fields that every request of the exchange has.
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(ACCEPT, HeaderValue::from_static(self.request.accept));
        headers.insert(ACCEPT_ENCODING, ENCODINGS);
        if let Some((content_type, _)) = self.request.body.as_ref().filter(|_| self.method == Method::Post) {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        if let Some(Validators { etag, last_modified, .. }) = self.validators {
            for (name, value) in [(IF_NONE_MATCH, etag), (IF_MODIFIED_SINCE, last_modified)] {
                // What a server sent once and can't be sent back only costs the condition.
                if let Some(value) = value.as_deref().and_then(|value| HeaderValue::from_str(value).ok()) {
                    headers.insert(name, value);
                }
            }
        }
        headers
    }

    async fn prove(&mut self, origin: &OriginKey) -> Result<Proof<'a>, Failure> {
        let access = self.access;
        match access.credential_for(origin).filter(|_| self.at_home) {
            None => Ok(Proof::default()),
            Some(Credential::Mtls { cert_pem, key_pem }) => {
                Ok(Proof { identity: Some(Identity { cert_pem, key_pem }), ..Proof::default() })
            }
            Some(Credential::OAuth2ClientCredentials { client_id, client_secret, token_url, scope, audience }) => {
                let scope = scope.as_deref();
                let audience = audience.as_deref();
                self.token(TokenRequest { client_id, client_secret, token_url, scope, audience }).await
            }
            Some(credential) => Ok(Proof { field: credentials::header_of(credential)?, ..Proof::default() }),
        }
    }

    /// The credential's token: the one at hand, or a new one.
    async fn token(&mut self, request: TokenRequest<'_>) -> Result<Proof<'a>, Failure> {
        let slot = self.client.tokens.slot(&request);
        let mut token = if let Ok(token) = slot.try_lock() {
            token
        } else {
            // Someone is fetching it. The permit may be void by the time it is there.
            self.permitted = false;
            slot.lock().await
        };
        let now = self.client.clock.now();
        if let Some(token) = token.as_ref().filter(|token| now < token.renew_at) {
            let field = Some((AUTHORIZATION, token.header.clone()));
            return Ok(Proof { field, kept_token: Some(slot.clone()), ..Proof::default() });
        }
        self.permitted = false;
        let here = mem::replace(&mut self.asked, request.token_url.clone());
        let fetched = self.fetch_token(request).await?;
        self.asked = here;
        let field = Some((AUTHORIZATION, fetched.header.clone()));
        *token = Some(fetched);
        Ok(Proof { field, ..Proof::default() })
    }

    async fn fetch_token(&mut self, request: TokenRequest<'_>) -> Result<oauth::Token, Failure> {
        self.client.guard.check_url(request.token_url).map_err(Failure::Refused)?;
        let origin = origin_of(request.token_url);
        let client = self.client.clients.with(&origin, self.access.ca_pem.as_deref(), None)?;
        self.gate.permit(&origin).await.map_err(Failure::Gate)?;
        let deadline = self.deadline();
        let outgoing = Outgoing {
            client,
            method: Method::Post,
            url: request.token_url.clone(),
            headers: request.headers()?,
            body: Some(request.body()),
        };
        let response = self.send(outgoing, deadline).await?;
        let status = response.status().as_u16();
        if is_transient(status) {
            return Err(self.refusal(status, response, deadline).await);
        }
        let budget = self.budget(oauth::MAX_TOKEN_ANSWER_BYTES, Overflow::Fail, deadline);
        let body = body::read(response, &budget, &mut self.spent.wire_bytes).await?;
        match status {
            200..=299 => oauth::parse_token(&body, self.client.clock.now()),
            _ => Err(oauth::parse_refusal(status, &body)),
        }
    }

    /// Sends one request and waits for the header of its answer.
    async fn send(&mut self, outgoing: Outgoing, deadline: Instant) -> Result<reqwest::Response, Failure> {
        let Outgoing { client, method, url, headers, body } = outgoing;
        let method = match method {
            Method::Get => reqwest::Method::GET,
            Method::Post => reqwest::Method::POST,
        };
        let mut request = reqwest::Request::new(method, url);
        *request.headers_mut() = headers;
        *request.body_mut() = body.map(reqwest::Body::from);
        self.spent.requests += 1;
        let config = &self.client.config;
        let limit = config.max_header_bytes as usize;
        let response = timeout_at(deadline, client.execute(request))
            .await
            .map_err(|_| Failure::Timeout { phase: Phase::Answering, limit: self.request_timeout() })?
            .map_err(|error| classify::of_sending(&error, config.connect_timeout, limit))?;
        let size: usize = response.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        if size > limit {
            return Err(Failure::HeaderTooLarge { limit });
        }
        Ok(response)
    }

    fn follow(&mut self, status: u16, headers: &HeaderMap) -> Result<(), Failure> {
        let limit = self.client.config.max_redirects;
        if self.redirects == limit {
            return Err(Failure::TooManyRedirects { limit });
        }
        self.redirects += 1;
        let next = redirect::next_url(&self.asked, headers.get(LOCATION).map(HeaderValue::as_bytes))?;
        self.method = redirect::next_method(self.method, status);
        self.at_home &= origin_of(&next) == origin_of(&self.asked);
        self.asked = next;
        Ok(())
    }

    async fn finish(&mut self, status: u16, response: reqwest::Response, deadline: Instant) -> Result<Step, Failure> {
        let limit = self.access.max_decoded_bytes.unwrap_or(self.client.config.max_decoded_bytes);
        let mut answer = answer_of(status, self.asked.clone(), response.headers());
        let budget = self.budget(limit, Overflow::Fail, deadline);
        answer.body = body::read(response, &budget, &mut self.spent.wire_bytes).await?;
        Ok(Step::Done(Fetched::Response { response: Box::new(answer), spent: self.spent }))
    }

    /// The failure that a status means. What goes wrong with its body is of no interest.
    async fn refusal(&mut self, status: u16, response: reqwest::Response, deadline: Instant) -> Failure {
        let mut answer = answer_of(status, self.asked.clone(), response.headers());
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = retry_after
            .and_then(|value| retry_after::parse(value, self.client.clock.now(), self.client.config.max_retry_after));
        let budget = self.budget(MAX_ERROR_BYTES, Overflow::Cut, deadline);
        answer.body = body::read(response, &budget, &mut self.spent.wire_bytes).await.unwrap_or_default();
        Failure::Status(Box::new(StatusFailure { status, retry_after, response: answer, detail: None }))
    }
}

/// What readers need of an answer's header.
fn answer_of(status: u16, url: Url, headers: &HeaderMap) -> Response {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let field = |name: HeaderName| headers.get(name).map(text);
    Response {
        status,
        url,
        content_type: field(CONTENT_TYPE),
        links: headers.get_all(LINK).iter().map(text).collect(),
        etag: field(ETAG),
        last_modified: field(LAST_MODIFIED),
        date: field(DATE).and_then(|date| date_of(&date)),
        body: Bytes::new(),
    }
}

/// An HTTP date (RFC 9110 §5.6.7).
pub(in crate::crawler) fn date_of(text: &str) -> Option<Timestamp> {
    Timestamp::try_from(httpdate::parse_http_date(text.trim()).ok()?).ok()
}
