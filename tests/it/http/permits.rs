//! A permit is for now: one that is too old is worth nothing.

use async_trait::async_trait;
use jiff::Timestamp;
use trawler::crawler::http::{GateClosed, NodeAccess, RequestGate};
use trawler::task::OriginKey;

use crate::support::http_client::{ClosedGate, CountingGate, client, get, loopback};
use crate::support::http_server::{HttpServer, Reply};

/// A gate whose first permit came with a claim, and lasts until a moment.
struct Claimed<G> {
    until: Timestamp,
    further: G,
}

#[async_trait]
impl<G: RequestGate> RequestGate for Claimed<G> {
    fn first_permit_lasts_until(&self) -> Timestamp {
        self.until
    }

    async fn permit(&self, origin: &OriginKey) -> Result<(), GateClosed> {
        self.further.permit(origin).await
    }
}

#[tokio::test]
async fn a_permit_that_is_too_old_is_replaced_before_the_first_request() {
    for (until, asked) in [(Timestamp::MAX, 0), (Timestamp::UNIX_EPOCH, 1)] {
        let server = HttpServer::start(|_| Reply::ok("x")).await;
        let gate = Claimed { until, further: CountingGate::default() };
        client(loopback()).send(&get(server.url("/a")), &NodeAccess::default(), &gate, None).await.unwrap();
        assert_eq!(gate.further.asked(), vec![server.origin(); asked]);
        assert_eq!(server.asked(), ["GET /a"]);
    }
}

#[tokio::test]
async fn nothing_is_sent_on_a_permit_that_is_too_old() {
    let server = HttpServer::start(|_| Reply::ok("x")).await;
    let gate = Claimed { until: Timestamp::UNIX_EPOCH, further: ClosedGate };
    let error = client(loopback()).send(&get(server.url("/a")), &NodeAccess::default(), &gate, None).await.unwrap_err();
    assert_eq!((error.reason(), error.spent.requests), ("GateClosed", 0));
    assert_eq!(server.asked(), [""; 0]);
}
