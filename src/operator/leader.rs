//! Which of several operators leads: whoever holds the Lease. A leader that can't renew it stops writing before another one can
//! take it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::metrics::Metrics;
use crate::api::times::micro_time_of;
use crate::clock::{SharedClock, Stopwatch};

/// A Lease that was not renewed for so long is anybody's.
const LEASE_SECONDS: i32 = 15;

/// A leader that has not renewed for so long stops writing: the rest is for clocks that go at different rates, and for a write that is
/// under way.
const WRITES_STOP_AFTER: Duration = Duration::from_secs(10);

/// How often it is renewed, or looked at.
const RENEW: Duration = Duration::from_secs(2);

/// Takes part in the election until it is stopped.
pub(crate) struct Election {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) lease: String,
    pub(crate) identity: String,
    pub(crate) clock: SharedClock,
    pub(crate) leads: Arc<AtomicBool>,
    pub(crate) metrics: Metrics,
}

/// What was seen of a Lease that somebody else holds: how long ago by our own clock, whatever theirs says.
struct Foreign {
    version: Option<String>,
    since: Stopwatch,
}

impl Election {
    /// Returns when this process leads; `false`: it was stopped first.
    pub(crate) async fn won(&self, stop: &CancellationToken) -> bool {
        let mut foreign: Option<Foreign> = None;
        loop {
            match self.try_to_take(&mut foreign).await {
                Ok(true) => {
                    info!(lease = self.lease, identity = self.identity, "this operator leads");
                    self.set(true);
                    return true;
                }
                Ok(false) => {}
                Err(error) => warn!(lease = self.lease, "the Lease can't be taken: {error}"),
            }
            tokio::select! {
                () = tokio::time::sleep(RENEW) => {}
                () = stop.cancelled() => return false,
            }
        }
    }

    /// Renews the Lease; returns when it is lost, or when it was stopped and the Lease is given back.
    pub(crate) async fn hold(&self, stop: &CancellationToken) {
        let mut renewed = Stopwatch::start();
        loop {
            tokio::select! {
                () = tokio::time::sleep(RENEW) => {}
                () = stop.cancelled() => {
                    self.set(false);
                    self.give_back().await;
                    return;
                }
            }
            let attempt = Stopwatch::start();
            let left = WRITES_STOP_AFTER.saturating_sub(renewed.elapsed());
            match tokio::time::timeout(left, self.renew()).await {
                Ok(Ok(true)) => renewed = attempt,
                Ok(Ok(false)) => break,
                Ok(Err(error)) => warn!(lease = self.lease, "the Lease can't be renewed: {error}"),
                Err(_) => {}
            }
            if renewed.elapsed() >= WRITES_STOP_AFTER {
                break;
            }
        }
        self.set(false);
        warn!(lease = self.lease, identity = self.identity, "this operator does not lead any more");
    }

    fn set(&self, leads: bool) {
        self.leads.store(leads, Ordering::Release);
        self.metrics.set_leads(&self.lease, leads);
    }

    fn api(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn spec(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = micro_time_of(self.clock.now());
        let is_ours = before.and_then(|spec| spec.holder_identity.as_deref()) == Some(self.identity.as_str());
        let transitions = before.and_then(|spec| spec.lease_transitions).unwrap_or(0);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(LEASE_SECONDS),
            acquire_time: before.filter(|_| is_ours).and_then(|spec| spec.acquire_time.clone()).or(Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(if is_ours { transitions } else { transitions.saturating_add(1) }),
            ..LeaseSpec::default()
        }
    }

    async fn try_to_take(&self, foreign: &mut Option<Foreign>) -> Result<bool, kube::Error> {
        let Some(lease) = self.api().get_opt(&self.lease).await? else {
            let lease = Lease {
                metadata: ObjectMeta { name: Some(self.lease.clone()), ..ObjectMeta::default() },
                spec: Some(self.spec(None)),
            };
            return taken(self.api().create(&PostParams::default(), &lease).await);
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        if !holder.is_empty() && holder != self.identity {
            let version = lease.metadata.resource_version.clone();
            let duration =
                Duration::from_secs(u64::try_from(spec.lease_duration_seconds.unwrap_or(LEASE_SECONDS)).unwrap_or(15));
            match foreign {
                Some(seen) if seen.version == version && seen.since.elapsed() >= duration => {}
                Some(seen) if seen.version == version => return Ok(false),
                _ => {
                    *foreign = Some(Foreign { version, since: Stopwatch::start() });
                    return Ok(false);
                }
            }
        }
        self.replace(lease, self.spec(Some(&spec))).await
    }

    /// False: somebody else has it.
    async fn renew(&self) -> Result<bool, kube::Error> {
        let Some(lease) = self.api().get_opt(&self.lease).await? else { return Ok(false) };
        let spec = lease.spec.clone().unwrap_or_default();
        if spec.holder_identity.as_deref() != Some(self.identity.as_str()) {
            return Ok(false);
        }
        self.replace(lease, self.spec(Some(&spec))).await
    }

    /// Only if it is as it was seen.
    async fn replace(&self, mut lease: Lease, spec: LeaseSpec) -> Result<bool, kube::Error> {
        lease.spec = Some(spec);
        lease.metadata.managed_fields = None;
        taken(self.api().replace(&self.lease, &PostParams::default(), &lease).await)
    }

    /// So that another one need not wait for it to lapse.
    async fn give_back(&self) {
        let given = async {
            let Some(mut lease) = self.api().get_opt(&self.lease).await? else { return Ok(()) };
            if lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()) == Some(self.identity.as_str()) {
                if let Some(spec) = &mut lease.spec {
                    spec.holder_identity = None;
                    spec.renew_time = Some(micro_time_of(Timestamp::UNIX_EPOCH));
                }
                lease.metadata.managed_fields = None;
                self.api().replace(&self.lease, &PostParams::default(), &lease).await?;
            }
            Ok::<(), kube::Error>(())
        };
        if let Err(error) = given.await {
            info!(lease = self.lease, "the Lease could not be given back, and lapses: {error}");
        }
    }
}

/// Somebody was faster: it is theirs.
fn taken(written: Result<Lease, kube::Error>) -> Result<bool, kube::Error> {
    match written {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => Ok(false),
        Err(error) => Err(error),
    }
}
