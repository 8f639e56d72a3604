//! What has become of a crawler, by its Job and its pod. Pure.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerState, Pod};

use super::jobs::{GROUP_ANNOTATION, JOB_UID_LABEL, RUN_UID_LABEL, TOKEN_LABEL};
use crate::api::times::moment_of;
use crate::planner::{CrawlerFate, CrawlerJob};

/// Exit codes of `trawler crawl` that say: it ended in order, or by a decision, and what it had was put back.
const IN_ORDER: [i32; 8] = [0, 20, 21, 22, 23, 24, 25, 143];

/// Exit code: what it was started with can't be used.
const CONFIGURATION: i32 = 2;

/// Why a crawler can't work, or could not: for the run's status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// One word.
    pub(crate) reason: &'static str,
    /// A sentence.
    pub(crate) message: String,
    /// Trying again will not help: a person must act.
    pub(crate) is_lasting: bool,
}

/// A Job of ours, with its pod if there is one; `None` if it is none of ours.
pub(crate) fn crawler_job(job: &Job, pod: Option<&Pod>) -> Option<CrawlerJob> {
    let labels = job.metadata.labels.as_ref()?;
    let annotations = job.metadata.annotations.as_ref();
    Some(CrawlerJob {
        token: labels.get(TOKEN_LABEL)?.parse().ok()?,
        uid: job.metadata.uid.clone()?,
        owner: labels.get(RUN_UID_LABEL)?.clone(),
        group: annotations.and_then(|annotations| annotations.get(GROUP_ANNOTATION)).cloned().unwrap_or_default(),
        created_at: job.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, moment_of),
        fate: fate(job, pod),
    })
}

/// The uid of the Job that a pod belongs to.
pub(crate) fn job_of_pod(pod: &Pod) -> Option<&str> {
    pod.metadata.labels.as_ref()?.get(JOB_UID_LABEL).map(String::as_str)
}

/// Whether a pod may still be at work.
pub(crate) fn may_be_at_work(pod: &Pod) -> bool {
    !matches!(phase(pod), "Succeeded" | "Failed")
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

fn fate(job: &Job, pod: Option<&Pod>) -> CrawlerFate {
    let is_deleted = job.metadata.deletion_timestamp.is_some();
    let Some(pod) = pod else {
        let status = job.status.clone().unwrap_or_default();
        let count = |count: Option<i32>| count.unwrap_or(0) > 0;
        if count(status.succeeded) || count(status.failed) {
            // Its pod is gone, and with it how it ended.
            let at = status.completion_time.as_ref().map(moment_of).or_else(|| last_change(job));
            let at = at.unwrap_or(Timestamp::UNIX_EPOCH);
            return CrawlerFate::Ended { at, crashed: false, in_order: count(status.succeeded) };
        }
        return if is_deleted { CrawlerFate::Ending } else { CrawlerFate::Starting };
    };
    match phase(pod) {
        "Succeeded" | "Failed" => {
            let (crashed, in_order) = how_it_ended(pod);
            CrawlerFate::Ended { at: ended_at(pod), crashed, in_order }
        }
        _ if is_disrupted(pod) => CrawlerFate::Lost,
        _ if is_deleted || pod.metadata.deletion_timestamp.is_some() => CrawlerFate::Ending,
        "Running" => CrawlerFate::Working,
        _ => CrawlerFate::Starting,
    }
}

fn last_change(job: &Job) -> Option<Timestamp> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().filter_map(|condition| Some(moment_of(condition.last_transition_time.as_ref()?))).max()
}

/// Kubernetes itself takes the pod away: eviction, preemption, a lost machine.
fn is_disrupted(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    let has_condition = status
        .conditions
        .iter()
        .flatten()
        .any(|condition| condition.type_ == "DisruptionTarget" && condition.status == "True");
    has_condition || status.reason.as_deref() == Some("NodeLost") || phase(pod) == "Unknown"
}

fn terminated(pod: &Pod) -> Option<(i32, Option<&str>, Option<Timestamp>)> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let state: &ContainerState = statuses.first()?.state.as_ref()?;
    let ended = state.terminated.as_ref()?;
    Some((ended.exit_code, ended.reason.as_deref(), ended.finished_at.as_ref().map(moment_of)))
}

/// Whether it is to blame, and whether it ended in order.
fn how_it_ended(pod: &Pod) -> (bool, bool) {
    let reason = pod.status.as_ref().and_then(|status| status.reason.as_deref());
    let was_taken = is_disrupted(pod)
        || matches!(reason, Some("Evicted" | "Preempting" | "Shutdown" | "NodeShutdown" | "Terminated"));
    match terminated(pod) {
        Some((code, why, _)) if IN_ORDER.contains(&code) && why != Some("OOMKilled") => (false, true),
        _ if was_taken => (false, false),
        // The deadline of the Job: the crawler should have ended before.
        Some(_) if reason == Some("DeadlineExceeded") => (false, false),
        // Nothing was under way that could be charged, but starting another one at once would come to the same.
        Some((CONFIGURATION, ..)) => (true, false),
        Some((_, why, _)) if matches!(why, Some("ContainerStatusUnknown" | "ContainerCannotRun" | "StartError")) => {
            (false, false)
        }
        Some((137, why, _)) if why != Some("OOMKilled") && pod.metadata.deletion_timestamp.is_some() => (false, false),
        Some(_) => (true, false),
        None => (false, false),
    }
}

fn ended_at(pod: &Pod) -> Timestamp {
    let finished = terminated(pod).and_then(|(.., at)| at);
    let transition = || {
        let conditions = pod.status.as_ref()?.conditions.as_ref()?;
        conditions.iter().filter_map(|condition| Some(moment_of(condition.last_transition_time.as_ref()?))).max()
    };
    finished.or_else(transition).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// What keeps a crawler from working, or made it end badly.
pub(crate) fn trouble(pod: &Pod) -> Option<Trouble> {
    let status = pod.status.as_ref()?;
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    if let Some((code, why, _)) = terminated(pod) {
        return match (code, why) {
            (_, Some("OOMKilled")) => Some(Trouble {
                reason: "OutOfMemory",
                message: format!(
                    "crawler {name} ran out of memory; give its class or the run more (spec.crawler.resources)"
                ),
                is_lasting: false,
            }),
            (CONFIGURATION, _) => Some(Trouble {
                reason: "CrawlerConfiguration",
                message: format!("crawler {name} can't work with what it was started with: {}", last_words(pod)),
                is_lasting: true,
            }),
            (code, _) if IN_ORDER.contains(&code) => None,
            (code, _) => Some(Trouble {
                reason: "CrawlerCrashed",
                message: format!("crawler {name} ended with exit code {code}: {}", last_words(pod)),
                is_lasting: false,
            }),
        };
    }
    let waiting = status.container_statuses.iter().flatten().find_map(|status| status.state.as_ref()?.waiting.as_ref());
    if let Some(waiting) = waiting {
        let said = waiting.message.as_deref().unwrap_or_default();
        match waiting.reason.as_deref() {
            Some("ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull") => {
                return Some(Trouble {
                    reason: "ImagePullFailed",
                    message: format!("the image of crawler {name} can't be pulled: {said}"),
                    is_lasting: true,
                });
            }
            Some("CreateContainerConfigError" | "CreateContainerError" | "RunContainerError") => {
                return Some(Trouble {
                    reason: "CrawlerCannotStart",
                    message: format!("crawler {name} can't be started: {said}"),
                    is_lasting: true,
                });
            }
            _ => {}
        }
    }
    let unschedulable = status.conditions.iter().flatten().find(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason.as_deref() == Some("Unschedulable")
    });
    unschedulable.map(|condition| Trouble {
        reason: "Unschedulable",
        message: format!("crawler {name} finds no machine: {}", condition.message.as_deref().unwrap_or_default()),
        is_lasting: false,
    })
}

/// The end of what it said.
fn last_words(pod: &Pod) -> String {
    let state = || pod.status.as_ref()?.container_statuses.as_ref()?.first()?.state.clone();
    let message = state().and_then(|state| state.terminated).and_then(|ended| ended.message).unwrap_or_default();
    let last = message.trim().lines().next_back().unwrap_or_default();
    last.chars().take(200).collect()
}
