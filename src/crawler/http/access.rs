//! What a caller hands to the client besides the request, and what it gets back.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::error::{GateClosed, Spent};
use crate::crawler::credential::Credential;
pub use crate::finding::Validators;
use crate::protocol::Response;
use crate::task::OriginKey;

/// How a node is reached, resolved from its `spec` once. The default is a public server with the client's limits.
#[derive(Debug, Clone, Default)]
pub struct NodeAccess {
    /// What is sent to the origins below.
    pub credential: Option<Arc<Credential>>,
    /// The only origins that get the credential, as [`crate::protocol::origin_of`] writes them.
    pub credential_origins: Vec<OriginKey>,
    /// Certificates of authorities that are trusted in addition to the system's, PEM.
    pub ca_pem: Option<Arc<str>>,
    /// `limits.requestTimeout`; `None`: the client's.
    pub request_timeout: Option<Duration>,
    /// The largest body; `None`: the client's.
    pub max_decoded_bytes: Option<u64>,
}

/// Gives leave for requests. The first request of a task has its permit already, from its claim, while that lasts.
#[async_trait]
pub trait RequestGate: Send + Sync {
    /// Until when the permit that the first request has already may be used; by default at any time.
    fn first_permit_lasts_until(&self) -> Timestamp {
        Timestamp::MAX
    }

    /// Asks for one more request to this origin: a redirect, a token fetch, another try after 401, or the first
    /// request itself if something took too long before it. May wait.
    async fn permit(&self, origin: &OriginKey) -> Result<(), GateClosed>;
}

/// An answer.
#[derive(Debug)]
pub enum Fetched {
    /// A document.
    Response {
        /// The answer.
        response: Box<Response>,
        /// What it cost.
        spent: Spent,
    },
    /// The validators still hold.
    NotModified {
        /// What it cost.
        spent: Spent,
    },
}
